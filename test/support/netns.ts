import { execFileSync } from "node:child_process";
import { mustRun } from "./processes.ts";

/** Names of namespaces and links begin so; the pid of the test process follows. */
const NAMESPACES = "sluice-test-";
const LINKS = "slt";

/** A network of nodes, each in a network namespace of its own, with one link to this machine. */
export interface TestNetwork {
  /** Makes a node. */
  join(): Promise<NetworkNode>;
  /** Removes every node; what still runs in one is killed. */
  close(): Promise<void>;
}

export interface NetworkNode {
  /** Of this machine, where a gateway that listens on 0.0.0.0 is reached from the node. */
  readonly gatewayAddress: string;
  /** The same command, to be run on the node: it has its own network, and all else of this machine. */
  command(command: readonly string[]): string[];
  /** From now on no packet comes through, either way, and nobody is told: connections hang half-open. */
  cut(): Promise<void>;
  /** Packets come through again. Fine where they did. */
  mend(): Promise<void>;
  /** Limits what the node receives and what it sends, where this machine's kernel can. */
  slowDown(bytesPerSecond: number): Promise<void>;
  /** Bytes that have come to the node so far, and that it has sent. */
  traffic(): Promise<Traffic>;
  /** Processes that run there. */
  processes(): Promise<number[]>;
}

export interface Traffic {
  readonly received: number;
  readonly sent: number;
}

let namespacesWork: boolean | undefined;

/** Whether this process can make network namespaces: it is root, `ip` is installed, and the kernel allows it. */
export function canMakeNetworks(): boolean {
  namespacesWork ??= process.getuid?.() === 0 && tried();
  return namespacesWork;
}

function tried(): boolean {
  const [namespace, link] = [`${NAMESPACES}${process.pid}-try`, `${LINKS}${process.pid}-t`];
  try {
    runNow("ip", "netns", "add", namespace);
    try {
      runNow("ip", "link", "add", link, "type", "veth", "peer", "name", "eth0", "netns", namespace);
    } finally {
      runNow("ip", "netns", "del", namespace);
    }
    runNow("nsenter", "--version");
    return true;
  } catch {
    return false;
  }
}

/** Opens a network that has no node yet. Clears away what test processes that were killed have left. */
export async function openNetwork(): Promise<TestNetwork> {
  await removeLeftovers();
  const subnet = await freeSubnet();
  const nodes: VethNode[] = [];
  return {
    async join() {
      const node = new VethNode(nextNumber(), { subnet, place: nodes.length });
      nodes.push(node);
      await node.make();
      return node;
    },
    async close() {
      for (const node of nodes.splice(0)) await node.remove();
    },
  };
}

let made = 0;

function nextNumber(): number {
  made += 1;
  return made;
}

const open = new Set<string>();

process.once("exit", () => {
  for (const namespace of open) removeNow(namespace);
});

/** A namespace and a pair of virtual links: one end here, the other one, `eth0`, there. */
class VethNode implements NetworkNode {
  readonly gatewayAddress: string;
  readonly #address: string;
  readonly #namespace: string;
  readonly #link: string;

  constructor(number: number, { subnet, place }: { subnet: string; place: number }) {
    this.#namespace = `${NAMESPACES}${process.pid}-${number}`;
    this.#link = `${LINKS}${process.pid}-${number}`;
    // Two of the four addresses of a /30: the first is the subnet's own, the last its broadcast.
    this.gatewayAddress = `${subnet}.${place * 4 + 1}`;
    this.#address = `${subnet}.${place * 4 + 2}`;
  }

  async make(): Promise<void> {
    open.add(this.#namespace);
    await ip("netns", "add", this.#namespace);
    await ip("link", "add", this.#link, "type", "veth", "peer", "name", "eth0", "netns", this.#namespace);
    await ip("addr", "add", `${this.gatewayAddress}/30`, "dev", this.#link);
    await ip("link", "set", this.#link, "up");
    await this.#there("addr", "add", `${this.#address}/30`, "dev", "eth0");
    await this.#there("link", "set", "lo", "up");
    await this.#there("link", "set", "eth0", "up");
    // Learned by asking, it would be forgotten with the link, and a cut would be told to who sends.
    const here = await hardwareAddress(this.#link);
    await this.#there(
      ...["neigh", "replace", this.gatewayAddress, "lladdr", here, "dev", "eth0", "nud", "permanent"],
    );
  }

  // The network alone: `ip netns exec` would also give it mounts of its own.
  command(command: readonly string[]): string[] {
    return ["nsenter", `--net=/run/netns/${this.#namespace}`, "--", ...command];
  }

  cut(): Promise<void> {
    return ip("link", "set", this.#link, "down");
  }

  mend(): Promise<void> {
    return ip("link", "set", this.#link, "up");
  }

  async slowDown(bytesPerSecond: number): Promise<void> {
    const limit = ["root", "tbf", "rate", `${bytesPerSecond}bps`, "burst", "128kb", "latency", "100ms"];
    const here = ["tc", "qdisc", "replace", "dev", this.#link, ...limit];
    const there = ["tc", "-netns", this.#namespace, "qdisc", "replace", "dev", "eth0", ...limit];
    for (const command of [here, there]) await mustRun(command).catch(() => undefined);
  }

  async traffic(): Promise<Traffic> {
    const text = await mustRun(["ip", "-json", "-statistics", "link", "show", this.#link]);
    const { stats64 } = JSON.parse(text)[0];
    return { received: stats64.tx.bytes, sent: stats64.rx.bytes };
  }

  async processes(): Promise<number[]> {
    return pidsOf(await mustRun(["ip", "netns", "pids", this.#namespace]));
  }

  async remove(): Promise<void> {
    await removeNamespace(this.#namespace);
    open.delete(this.#namespace);
  }

  #there(...command: string[]): Promise<void> {
    return ip("-netns", this.#namespace, ...command);
  }
}

async function ip(...command: string[]): Promise<void> {
  await mustRun(["ip", ...command]);
}

async function hardwareAddress(link: string): Promise<string> {
  return JSON.parse(await mustRun(["ip", "-json", "link", "show", link]))[0].address;
}

/** Subnets tried so far: networks that are opened side by side must not get the same. */
let tries = 0;

/** `10.a.b` of a private /24 that none of this machine's routes leads to. */
async function freeSubnet(): Promise<string> {
  const text = await mustRun(["ip", "-json", "-4", "route", "show", "table", "all"]);
  const taken = JSON.parse(text).map(({ dst }: { dst: string }) => dst);
  for (let n = 0; n < 2 ** 16; n++) {
    tries += 1;
    const at = (process.pid + tries) % 2 ** 16;
    const subnet = `10.${at >> 8}.${at & 255}`;
    if (!taken.some((to: string) => to.startsWith(`${subnet}.`))) return subnet;
  }
  throw new Error("no private /24 is free");
}

/** Of test processes that are gone. A namespace takes its links along. */
async function removeLeftovers(): Promise<void> {
  for (const name of await namespaces()) {
    const owner = new RegExp(`^${NAMESPACES}([0-9]+)-`).exec(name)?.[1];
    if (!owner || isRunning(Number(owner))) continue;
    await removeNamespace(name).catch(async (error: unknown) => {
      // Another test process may clear it away at the same time.
      if ((await namespaces()).includes(name)) throw error;
    });
  }
}

async function namespaces(): Promise<string[]> {
  const lines = (await mustRun(["ip", "netns", "list"])).split("\n");
  return lines.map((line) => line.split(" ")[0] ?? "");
}

function isRunning(pid: number): boolean {
  try {
    return process.kill(pid, 0);
  } catch {
    return false;
  }
}

async function removeNamespace(name: string): Promise<void> {
  kill(pidsOf(await mustRun(["ip", "netns", "pids", name])));
  await ip("netns", "del", name);
}

function removeNow(name: string): void {
  try {
    kill(pidsOf(runNow("ip", "netns", "pids", name)));
    runNow("ip", "netns", "del", name);
  } catch {
    // Its making had failed.
  }
}

function kill(pids: readonly number[]): void {
  for (const pid of pids) {
    try {
      process.kill(pid, "SIGKILL");
    } catch (error) {
      // Gone meanwhile.
      if ((error as NodeJS.ErrnoException).code !== "ESRCH") throw error;
    }
  }
}

function pidsOf(text: string): number[] {
  return text.split("\n").filter(Boolean).map(Number);
}

function runNow(...[program = "", ...args]: string[]): string {
  return execFileSync(program, args, { encoding: "utf8", stdio: ["ignore", "pipe", "ignore"] });
}

import { spawn } from "node:child_process";
import { once } from "node:events";
import { join } from "node:path";
import { type BranchAddress, bucketName } from "../../protocol/names.ts";
import { doorVariables } from "../../test/support/keys.ts";
import { Connections } from "../support/closed-loop.ts";
import type { Figure, Pair } from "../support/figure.ts";
import { shortCount } from "../support/flatness.ts";
import type { Row } from "../support/row.ts";
import { ROOT } from "../support/servers.ts";
import { type SignedRequest, signed } from "../support/signing.ts";
import { pathOf, type Tree, type Trees } from "../support/trees.ts";
import { type Probe, waitsBeside } from "../support/waits.ts";

const PAIRS = { full: 3, quick: 1 } as const;
const PUT_BYTES = 4096;
/** Connections that put at once, and requests that are signed for each look at the rate. */
const LANES = 4;
const REQUESTS = 400;
/** Puts into the branch while it is exported, against the same without. */
const AT_LEAST = 0.7;
/** No other request may wait longer while a branch is exported. */
const AT_MOST_MS = 100;

/** `sluice repo export` of the largest tree, beside clients that write to it. */
export const exports: Row = {
  name: "exports",
  title: "an export of a branch: PUTs into it meanwhile, and the longest wait of others",
  onlyWhenNamed: true,
  async run(bench) {
    const trees = await bench.trees();
    const tree = trees.all.at(-1);
    if (!tree) throw new Error("there is no tree");
    const puts = new Puts(trees, tree);
    const pairs: Pair[] = [];
    const seconds: number[] = [];
    try {
      await puts.rateFor(REQUESTS);
      for (let turn = 0; turn < PAIRS[bench.scale]; turn++) {
        const other = await puts.rateFor(10 * REQUESTS);
        const { rate, exportSeconds } = await puts.rateDuring(() => exportOf(trees, tree));
        pairs.push({ ours: rate, other });
        seconds.push(exportSeconds);
        bench.say(
          `exported ${tree.files} files in ${exportSeconds.toFixed(1)} s beside ${rate.toFixed(0)} PUTs a second`,
        );
      }
    } finally {
      await puts.close();
    }
    return [
      {
        what: `PUT of 4 KiB into a branch of ${shortCount(tree.files)} that is exported`,
        unit: "req/s",
        against: "into the same that is not",
        pairs,
        compare: "ratio",
        target: { atLeast: AT_LEAST },
      },
      {
        what: `an export of ${shortCount(tree.files)} beside that`,
        unit: "s",
        values: seconds,
        compare: "nothing",
        target: null,
      },
      ...(await othersWaits(trees, tree)),
    ];
  },
};

/** As a user types it; what it writes goes nowhere. */
async function exportOf({ gateway }: Trees, { repo, branch }: BranchAddress): Promise<void> {
  const command = [join(ROOT, "bin/sluice.js"), "repo", "export", repo, "-", "--branch", branch];
  const env = { ...process.env, ...doorVariables(gateway.door) };
  const child = spawn(process.execPath, command, { env, stdio: ["ignore", "pipe", "pipe"] });
  child.stdout.resume();
  let said = "";
  child.stderr.on("data", (bytes: Buffer) => {
    said += bytes.toString();
  });
  const [code] = await once(child, "exit");
  if (code !== 0) throw new Error(`sluice repo export ended with ${code}: ${said}`);
}

/** Clients that put new files into a branch. */
class Puts {
  readonly #trees: Trees;
  readonly #bucket: string;
  readonly #connections: Connections;
  #count = 0;

  constructor(trees: Trees, tree: Tree) {
    this.#trees = trees;
    this.#bucket = bucketName(tree);
    this.#connections = new Connections(trees.gateway.endpoint, { count: LANES });
  }

  async rateFor(requests: number): Promise<number> {
    let left = requests;
    return (
      await this.#ratesWhile(
        () => left > 0,
        () => (left -= REQUESTS),
      )
    ).rate;
  }

  /** The time for signing is not in the rate: nothing is put meanwhile. */
  async rateDuring(work: () => Promise<void>): Promise<{ rate: number; exportSeconds: number }> {
    const startedAt = performance.now();
    let exportSeconds = 0;
    let failure: unknown;
    const working = work().then(
      () => {
        exportSeconds = (performance.now() - startedAt) / 1000;
      },
      (error: unknown) => {
        failure = error;
      },
    );
    const { rate } = await this.#ratesWhile(
      () => exportSeconds === 0 && failure === undefined,
      () => {},
    );
    await working;
    if (failure !== undefined) throw failure;
    return { rate, exportSeconds };
  }

  async close(): Promise<void> {
    await this.#connections.close();
  }

  async #ratesWhile(goesOn: () => boolean, done: () => void): Promise<{ rate: number }> {
    let millis = 0;
    let count = 0;
    while (goesOn()) {
      const requests = await this.#signed();
      const startedAt = performance.now();
      await this.#connections.each(requests, () => {});
      millis += performance.now() - startedAt;
      count += requests.length;
      done();
    }
    return { rate: (count * 1000) / millis };
  }

  #signed(): Promise<SignedRequest[]> {
    return Promise.all(
      Array.from({ length: REQUESTS }, () => {
        this.#count += 1;
        const body = Buffer.alloc(PUT_BYTES, `${this.#count} `);
        const path = `/${this.#bucket}/put-beside/${String(this.#count).padStart(9, "0")}`;
        return signed(this.#trees.gateway.door, { method: "PUT", path, body });
      }),
    );
  }
}

/** Apart from the rates above: whoever asks takes the gateway's time. */
async function othersWaits(trees: Trees, tree: Tree): Promise<Figure[]> {
  const { gateway, control } = trees;
  const connections = new Connections(gateway.endpoint, { count: 1 });
  const other: BranchAddress = { repo: "beside-exports", branch: "master" };
  await control.createBranch(other);
  const bucket = `/${bucketName(tree)}`;
  const send = async (method: "GET" | "PUT", path: string) =>
    connections.send(await signed(gateway.door, { method, path }));
  const probes: Probe[] = [
    { what: "GET of a file of the branch", call: () => send("GET", `${bucket}/${pathOf(0, tree.files)}`) },
    { what: "PUT into the branch", call: () => send("PUT", `${bucket}/put-beside/probe`) },
    { what: "PUT into another branch", call: () => send("PUT", `/${bucketName(other)}/file`) },
  ];
  try {
    return await waitsBeside(probes, () => exportOf(trees, tree), { atMostMs: AT_MOST_MS });
  } finally {
    await connections.close();
  }
}

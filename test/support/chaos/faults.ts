import { setTimeout as pause } from "node:timers/promises";
import { LEASE_MS } from "../../../protocol/runner.ts";
import type { Control } from "../control.ts";
import type { DevServer } from "../dev-server.ts";
import { eventually } from "../eventually.ts";
import { seededRandom } from "../random.ts";
import type { JobWatch } from "./job-watch.ts";
import type { NodeAgent } from "./node-agent.ts";

const SHORT_MS = 8000;
/** Others do the work meanwhile. */
const LONG_MS = LEASE_MS + 4000;
/** How often each short fault happens in the fleet, each long one happens once. */
const SHORT_TIMES = 2;
const GATEWAY_KILLS = 4;

type Fault = (victim: Victim) => Promise<void>;

/** What may happen to a node, each for some seconds, after which the node is in order again. */
const SHORT_FAULTS: Readonly<Record<string, Fault>> = {
  "agent killed": async ({ agent, random }) => {
    await agent.kill9();
    await pause(random() * 2000);
    agent.start();
  },
  "power lost": async ({ agent, random }) => {
    await agent.losePower();
    await pause(random() * 4000);
    agent.start();
  },
  "agent frozen": async ({ agent, random }) => {
    agent.freeze();
    await pause(random() * SHORT_MS);
    await agent.thaw();
  },
  "node frozen": async ({ agent, random }) => {
    await agent.freezeAll();
    await pause(random() * SHORT_MS);
    await agent.thaw();
  },
  "network cut": async ({ agent, random }) => {
    await agent.network.cut();
    await pause(random() * SHORT_MS);
    await agent.network.mend();
  },
  "agent stopped": async ({ agent, random }) => {
    await agent.drain();
    await pause(random() * 1000);
    agent.start();
  },
  "node drained": async ({ agent, random, control }) => {
    await order(control, `/nodes/${agent.name}/drain`);
    await pause(random() * SHORT_MS);
    await order(control, `/nodes/${agent.name}/resume`);
  },
  "agent killed while it stops": async ({ agent, random }) => {
    agent.beginDrain();
    await pause(random() * 500);
    await agent.kill9();
    agent.start();
  },
  "agent killed while it is cut off": async ({ agent, random }) => {
    await agent.network.cut();
    await pause(random() * 3000);
    await agent.kill9();
    agent.start();
    await pause(random() * 3000);
    await agent.network.mend();
  },
};

/** The same, beyond the leases that the node holds. */
const LONG_FAULTS: Readonly<Record<string, Fault>> = {
  "agent frozen for long": async ({ agent }) => {
    agent.freeze();
    await pause(LONG_MS);
    await agent.thaw();
  },
  "node frozen for long": async ({ agent }) => {
    await agent.freezeAll();
    await pause(LONG_MS);
    await agent.thaw();
  },
  "network cut for long": async ({ agent }) => {
    await agent.network.cut();
    await pause(LONG_MS);
    await agent.network.mend();
  },
};

interface Victim {
  readonly agent: NodeAgent;
  readonly control: Control;
  readonly random: () => number;
}

export interface Trouble {
  readonly control: Control;
  readonly random: () => number;
  readonly watch: JobWatch;
  /** No fault begins after the job has processed so many datums. */
  readonly calmAt: number;
  readonly tell: (what: string) => void;
}

/** Lets every fault happen somewhere in the fleet: which, where and when is random. Ends with every node in order. */
export async function troubleFleet(agents: readonly NodeAgent[], trouble: Trouble): Promise<void> {
  const { tell, calmAt, control } = trouble;
  const own = agents.map(() => ownRandom(trouble));
  const short = Array.from({ length: SHORT_TIMES }, () => Object.entries(SHORT_FAULTS)).flat();
  const deck = shuffled([...short, ...Object.entries(LONG_FAULTS)], ownRandom(trouble));
  const gap = calmAt / deck.length;
  await Promise.all(
    agents.map(async (agent, place) => {
      const random = own[place] as () => number;
      for (const [name, fault] of deck.filter((_, at) => at % agents.length === place)) {
        if (await calmAfter(gap * 2, { ...trouble, random })) return;
        tell(`${agent.name}: ${name}`);
        await fault({ agent, random, control });
      }
    }),
  );
}

/** Kills the gateway at random and starts it again. */
export async function troubleGateway(server: DevServer, trouble: Trouble): Promise<void> {
  const own = { ...trouble, random: ownRandom(trouble) };
  for (let kill = 0; kill < GATEWAY_KILLS; kill++) {
    if (await calmAfter(trouble.calmAt / GATEWAY_KILLS, own)) return;
    await restartGateway(server, own);
  }
}

/** Kills the gateway and starts it again. */
export async function restartGateway(
  server: DevServer,
  { random, tell }: Pick<Trouble, "random" | "tell">,
): Promise<void> {
  tell("gateway killed");
  await server.kill9();
  await pause(random() * 3000);
  await server.restart();
}

/** Waits until at most so many datums more are done; true where there is to be no more trouble by then. The moments hang on the job's progress: where nothing gets done, no fault is added. */
async function calmAfter(datums: number, { random, watch, calmAt }: Trouble): Promise<boolean> {
  await watch.reached(Math.min(watch.processed + Math.ceil(random() * datums), calmAt));
  return watch.processed >= calmAt;
}

/** Says it until it is heard: the gateway comes and goes. */
async function order(control: Control, path: string): Promise<void> {
  await eventually(
    `the gateway takes ${path}`,
    async () => (await control.ask("POST", path)).status === 200,
    { withinMs: 120_000 },
  );
}

/** What happens side by side takes its numbers from generators of its own, so that a seed gives them again. */
function ownRandom({ random }: Pick<Trouble, "random">): () => number {
  return seededRandom(Math.floor(random() * 2 ** 32));
}

function shuffled<T>(items: readonly T[], random: () => number): T[] {
  return items
    .map((item) => ({ item, at: random() }))
    .toSorted((one, other) => one.at - other.at)
    .map(({ item }) => item);
}

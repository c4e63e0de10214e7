import { SmallBranch } from "../limits/small-branch.ts";
import { SmallPipeline } from "../limits/small-pipeline.ts";
import type { Faults } from "../platform/faults.ts";
import { Simulation } from "../platform/simulation.ts";
import type { World } from "../platform/world.ts";
import type { Jump } from "./plan.ts";
import type { Tally } from "./tally.ts";

/** How likely a message is lost, or a store does not answer. */
const LOST = 0.03;
const FLUSH_FAILS = 0.01;
/** What goes wrong in histories. */
export const FAULTS = [
  ...["write fails", "call lost", "answer lost", "object ends"],
  ...["D1 fails before", "D1 fails after", "R2 fails before", "R2 fails after"],
  ...["clock goes back", "clock goes forward", "alarm is late"],
];
/** Longest time between two ends of instances; milliseconds. */
const BETWEEN_ENDS_MS = 300;

/** Nothing goes wrong any more. */
export interface Calm {
  is: boolean;
}

/** How likely an alarm is late, if alarms may be, and by how much at most; milliseconds. */
const ALARM_LATE = 0.5;
export const LONGEST_LATE_MS = 4_000;

/** Until when, by time itself, the blob store does not answer, or deletes nothing. */
export interface Trouble {
  awayUntil: number;
  keepsBlobsUntil: number;
}

interface Setting {
  /** Branches have small limits. */
  readonly smallBranches?: boolean | undefined;
  /** Pipelines have small limits. */
  readonly smallPipelines?: boolean;
  readonly vars?: Readonly<Record<string, string>>;
  /** Alarms may ring late. */
  readonly lateAlarms?: boolean;
}

/** A simulation in which things go wrong until it is calm. */
export function mishapSimulation(
  seed: number,
  tally: Tally,
  { vars, lateAlarms = false, smallBranches = false, smallPipelines = false }: Setting = {},
): { simulation: Simulation; calm: Calm; trouble: Trouble } {
  const calm = { is: false };
  const trouble = { awayUntil: 0, keepsBlobsUntil: 0 };
  const faults = (world: World) => mishaps(world, { calm, tally, trouble, lateAlarms });
  const setting = {
    ...(smallBranches && { branch: SmallBranch }),
    ...(smallPipelines && { pipeline: SmallPipeline }),
    ...(vars && { vars }),
  };
  const simulation = new Simulation({ seed, faults, ...setting });
  keepBlobs(simulation, { calm, trouble });
  return { simulation, calm, trouble };
}

/** Now and then the blob store refuses to delete, and nothing else. */
function keepBlobs(
  { blobs, world }: Simulation,
  { calm, trouble }: { readonly calm: Calm; readonly trouble: Trouble },
): void {
  const remove = blobs.delete.bind(blobs);
  blobs.delete = async (names) => {
    if (!calm.is && world.now < trouble.keepsBlobsUntil) throw new Error("R2 could not be reached");
    await remove(names);
  };
}

function mishaps(
  world: World,
  { calm, tally, trouble, lateAlarms }: { calm: Calm; tally: Tally; trouble: Trouble; lateAlarms: boolean },
): Faults {
  const { random } = world;
  const isAway = (store: string) => store === "R2" && !calm.is && world.now < trouble.awayUntil;
  const comes = (what: string, probability: number) => {
    const is = random.chance(probability);
    if (is) tally.add(`fault ${what}`);
    return is;
  };
  const happens = (what: string, probability: number) => !calm.is && comes(what, probability);
  return {
    failsToFlush: () => happens("write fails", FLUSH_FAILS),
    losesCall: () => happens("call lost", LOST),
    losesAnswer: () => happens("answer lost", LOST),
    failsBefore: (store) => isAway(store) || happens(`${store} fails before`, LOST),
    failsAfter: (store) => happens(`${store} fails after`, LOST),
    // That is no mishap: alarms are late also when nothing goes wrong.
    alarmLateMs: () =>
      lateAlarms && comes("alarm is late", ALARM_LATE) ? random.next() * LONGEST_LATE_MS : 0,
  };
}

/** Ends an instance of some object now and then, and more rarely while it is quiet. */
export function endNowAndThen(
  { world, branches }: Pick<Simulation, "world" | "branches">,
  { calm, tally, quiet }: { calm: Calm; tally: Tally; quiet: { readonly quietUntil: number } },
): void {
  const longest = Math.max(BETWEEN_ENDS_MS, (quiet.quietUntil - world.now) / 2);
  world.after(world.random.next() * longest, () => {
    if (calm.is) return;
    const up = branches.all().filter(({ isUp }) => isUp);
    if (up.length > 0) {
      tally.add("fault object ends");
      world.random.pick(up).end("it was evicted");
    }
    endNowAndThen({ world, branches }, { calm, tally, quiet });
  });
}

/** The clock is set as a plan says, when a step is about to begin. */
export function setClock(
  { world }: Pick<Simulation, "world">,
  { jumps, step, tally }: { jumps: readonly Jump[] | undefined; step: number; tally: Tally },
): void {
  for (const { byMs } of jumps?.filter((jump) => jump.step === step) ?? []) {
    tally.add(`fault clock goes ${byMs < 0 ? "back" : "forward"}`);
    world.setClock(byMs);
  }
}

/** What a client hears if something went wrong on the way. */
export function isMishap(error: unknown): boolean {
  return /Network connection lost|was reset|could not be reached/.test(String(error));
}

/** How often somebody asks again who heard nothing. */
const TRIES = 4;

/** Asks until an answer comes. Undefined: none did. */
export async function insisted<T>(call: () => Promise<T>): Promise<T | undefined> {
  for (let n = 0; n < TRIES; n++) {
    const answer = await call().catch((error) => {
      if (!isMishap(error)) throw error;
      return undefined;
    });
    if (answer !== undefined) return answer;
  }
  return undefined;
}

/** Calls until it is done. */
export async function insist(
  call: () => Promise<{ readonly ok: true } | { readonly ok: false; readonly reason: string }>,
): Promise<void> {
  for (let tries = 0; tries < 50; tries++) {
    const answer = await call().catch((error) => {
      if (!isMishap(error)) throw error;
      return undefined;
    });
    if (answer?.ok || answer?.reason === "already-exists") return;
  }
  throw new Error("it can't be done");
}

/** Longer than what an alarm has to do takes; milliseconds. */
const ALARM_TAKES_MS = 60 * 60_000;

/**
 * What still waits for an alarm, although nothing is due. A branch that keeps erased bytes for a fork may: it asks the fork once
 * a week. One that has an upload in parts waits for the time when that ends.
 */
export async function ended(simulation: Simulation): Promise<string[]> {
  const { world } = simulation;
  // One may be set for what somebody ended since, such as an upload: it rings once more, and then none is.
  const latest = Math.max(
    world.clock,
    ...waiting(simulation).map(({ storage }) => storage.durableAlarm ?? 0),
  );
  if (latest > world.clock) await simulation.pass(latest - world.clock + ALARM_TAKES_MS);
  return waiting(simulation).map(
    ({ name, storage }) => `${name} has an alarm at ${new Date(storage.durableAlarm ?? 0).toISOString()}`,
  );
}

function waiting({ branches, pipelines }: Pick<Simulation, "branches" | "pipelines">) {
  return [...branches.all(), ...pipelines.all()].filter(({ storage }) => {
    const has = (table: string) =>
      storage.has(table) && storage.read(`SELECT 1 FROM ${table} LIMIT 1`).length > 0;
    return storage.durableAlarm !== null && !has("fork_holds") && !has("multiparts");
  });
}

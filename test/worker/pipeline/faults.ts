import { env, runDurableObjectAlarm, runInDurableObject } from "cloudflare:test";
import { vi } from "vitest";
import { type BranchAddress, bucketName } from "../../../protocol/names.ts";
import { Waiters } from "../../../worker/objects/waiters.ts";
import { KILL, killBranch, killPipeline } from "./kill.ts";

/** A call of the gateway's own code at which it may be killed: before it does anything, or when it is done. */
export interface FaultPoint {
  readonly at: string;
  /** The prototype that has the method. */
  readonly of: object;
  readonly method: string;
  readonly when: "before" | "after";
  /** Only from the n-th call on. Absent: 1. */
  readonly call?: number;
  /** Whose call. Absent: the pipeline's. */
  readonly in?: "input" | "output";
  /** Which calls count. Absent: all. */
  readonly which?: (...args: never[]) => boolean;
}

/** The branches that die with a pipeline's object if the whole gateway does. */
export interface Gateway {
  readonly input: BranchAddress;
  readonly output: BranchAddress;
}

/** When it is taken to hang; no test depends on how fast it comes to a point. */
const PATIENCE_MS = 200_000;
/** Longest pause that is left, in milliseconds. */
const PAUSE_MS = 5;

/** Shortens the pauses that a pipeline makes between two messages to the catalogue: they come after every alarm. */
export function shortenPauses(): void {
  const { wait } = Waiters.prototype;
  vi.spyOn(Waiters.prototype, "wait").mockImplementation(function (this: Waiters, waitMs) {
    return wait.call(this, Math.min(waitMs, PAUSE_MS));
  });
}

type Method = (...args: unknown[]) => unknown;

/**
 * Does `work` with an object killed once, at a point: what it had in memory is gone, its committed rows are not. With
 * `gateway`, the other objects die in the same moment.
 */
export async function killedAt(
  name: string,
  { point, gateway, work }: { point: FaultPoint; gateway?: Gateway; work: () => Promise<unknown> },
): Promise<void> {
  const abort = await deathOf(name, { point, gateway });
  let left = point.call ?? 1;
  const kill = (): never => {
    abort();
    throw new Error(`${KILL} at: ${point.at}`);
  };
  const methods = point.of as Record<string, Method>;
  const original = methods[point.method] as Method;
  const which = (point.which ?? (() => true)) as Method;
  const spy = vi.spyOn(methods, point.method).mockImplementation(function (this: unknown, ...args) {
    if (!which(...args) || left-- !== 1) return original.apply(this, args);
    if (point.when === "before") return kill();
    const result = original.apply(this, args);
    return result instanceof Promise ? result.then(kill) : kill();
  });
  try {
    const worked = work().catch(() => {});
    // A promise that is resolved in an object's call would die with it.
    await vi.waitFor(
      () => {
        if (left > 0) throw new Error(`never came to: ${point.at}`);
      },
      { interval: 1, timeout: PATIENCE_MS },
    );
    if (gateway) await killAll(name, gateway);
    await worked;
  } finally {
    spy.mockRestore();
  }
  await ringAlarms(name, gateway);
}

/** As the platform does: the alarms that stand in the storages ring. Returns whether any stood. */
export async function ringAlarms(name: string, gateway?: Gateway): Promise<boolean> {
  const rang = [await insist(async () => runDurableObjectAlarm(env.PIPELINE.getByName(name)))];
  for (const branch of gateway ? [gateway.input, gateway.output] : []) {
    rang.push(await insist(async () => runDurableObjectAlarm(env.BRANCH.getByName(bucketName(branch)))));
  }
  return rang.includes(true);
}

/** Calls again until the object, which was killed, answers. */
export async function insist<T>(call: () => Promise<T>): Promise<T> {
  for (;;) {
    try {
      return await call();
    } catch {
      await scheduler.wait(1);
    }
  }
}

/** What kills the object in which the point is; to be called from within it. */
async function deathOf(
  name: string,
  { point, gateway }: { point: FaultPoint; gateway: Gateway | undefined },
): Promise<() => void> {
  let abort = (): void => {};
  const keep = (_: unknown, state: DurableObjectState): void => {
    abort = () => state.abort(KILL);
  };
  if (point.in === undefined) await runInDurableObject(env.PIPELINE.getByName(name), keep);
  else if (gateway) await runInDurableObject(env.BRANCH.getByName(bucketName(gateway[point.in])), keep);
  else throw new Error(`whose is the ${point.in} branch?`);
  return abort;
}

async function killAll(name: string, { input, output }: Gateway): Promise<void> {
  await Promise.all([killPipeline(name), killBranch(input), killBranch(output)]);
}

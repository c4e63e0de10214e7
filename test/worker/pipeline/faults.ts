import { env, runDurableObjectAlarm, runInDurableObject } from "cloudflare:test";
import { vi } from "vitest";

/** A call of a pipeline's own code at which it may be killed: before it does anything, or when it is done. */
export interface FaultPoint {
  readonly at: string;
  /** The prototype that has the method. */
  readonly of: object;
  readonly method: string;
  readonly when: "before" | "after";
  /** Only from the n-th call on: 1 where absent. */
  readonly call?: number;
}

type Method = (...args: unknown[]) => unknown;

/** Does `work` with the object killed once, at a point: what it had in memory is gone, its committed rows are not. */
export async function killedAt(
  name: string,
  { point, work }: { point: FaultPoint; work: () => Promise<unknown> },
): Promise<void> {
  let abort = (): void => {};
  await runInDurableObject(env.PIPELINE.getByName(name), (_, state) => {
    abort = () => state.abort("crash");
  });
  let left = point.call ?? 1;
  const kill = (): never => {
    abort();
    throw new Error(`killed at: ${point.at}`);
  };
  const methods = point.of as Record<string, Method>;
  const original = methods[point.method] as Method;
  const spy = vi.spyOn(methods, point.method).mockImplementation(function (this: unknown, ...args) {
    if (left-- !== 1) return original.apply(this, args);
    if (point.when === "before") return kill();
    const result = original.apply(this, args);
    return result instanceof Promise ? result.then(kill) : kill();
  });
  try {
    await work().catch(() => {});
    await vi.waitFor(() => {
      if (left > 0) throw new Error(`never came to: ${point.at}`);
    });
  } finally {
    spy.mockRestore();
  }
  // As the platform does: the alarm that stands in the storage rings.
  await insist(async () => runDurableObjectAlarm(env.PIPELINE.getByName(name)));
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

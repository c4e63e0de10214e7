import { env, runInDurableObject } from "cloudflare:test";
import { type BranchAddress, bucketName } from "../../../protocol/names.ts";

/** What every call says that dies with a killed object. */
export const KILL = "killed by the test";

/** Kills a pipeline's object where it stands: what it had in memory is gone, its committed rows are not. */
export async function killPipeline(name: string): Promise<void> {
  await dying(() => runInDurableObject(env.PIPELINE.getByName(name), (_, state) => state.abort(KILL)));
}

/** The same for a branch's object. */
export async function killBranch(address: BranchAddress): Promise<void> {
  await dying(() =>
    runInDurableObject(env.BRANCH.getByName(bucketName(address)), (_, state) => state.abort(KILL)),
  );
}

/** Whether a call failed because its object, or one that it called, was killed. */
export function killed(error: unknown): boolean {
  return error instanceof Error && error.message.includes(KILL);
}

/** Calls again until no kill comes in between: for what may be asked twice. */
export async function survived<T>(call: () => Promise<T>): Promise<T> {
  for (;;) {
    try {
      return await call();
    } catch (error) {
      if (!killed(error)) throw error;
    }
  }
}

/** The call that kills an object dies with it. */
async function dying(call: () => Promise<unknown>): Promise<void> {
  try {
    await call();
  } catch (error) {
    if (!killed(error)) throw error;
  }
}

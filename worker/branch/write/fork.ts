import { WATCH_MS } from "../../objects/loop.ts";
import type { BranchContext } from "../context.ts";
import { type AnswerOf, type Done, refused } from "../contract/answers.ts";
import type { BranchApi } from "../contract/api.ts";
import type { ForkBranch, LifecycleCalls } from "../contract/lifecycle.ts";
import type { Fork } from "../forks/fork-store.ts";

/*
 * The first steps of a fork, which a call waits for: it is asked for, and its parent writes it down. The rest is work of a
 * loop (work/forks/forker.ts, which tells the states), as these are if the call did not get so far.
 */

export interface RootContext extends Pick<BranchContext, "ledger" | "now"> {
  /** The object's own bucket. */
  readonly bucket: () => string;
  /** Another branch. Its calls reject if it can't be reached. */
  readonly branch: (bucket: string) => Pick<BranchApi, "forks">;
}

type Rooted = Done | Exclude<AnswerOf<LifecycleCalls["fork"]>, { ok: true }>;

const DONE = { ok: true } as const;

export function askFork(
  { ledger, moment }: Pick<BranchContext, "ledger" | "moment">,
  { parent, commit, annotation }: ForkBranch,
): Fork | undefined {
  const { now, id } = moment();
  return ledger.transaction(() => {
    if (ledger.generations.live()) return undefined;
    const createdAt = ledger.clock.next(now);
    const uid = id(createdAt);
    ledger.forks.ask({ uid, parent, commit: commit ?? null, createdAt, annotation });
    // Not sooner: the call goes on with it itself.
    ledger.wake("forks", now + WATCH_MS);
    return ledger.forks.get(uid);
  });
}

/** Waits until a fork that was only asked for is there, or is not: until then nobody can say whether the name is free. */
export async function settled(context: RootContext): Promise<void> {
  const fork = context.ledger.forks.present();
  if (fork?.state === "asked") await rootNow(context, fork);
}

/** What a call waits for: whether the parent has the commit. If the parent is away, the alarm tries again. */
export async function rootNow(context: RootContext, fork: Fork): Promise<Rooted> {
  try {
    return await rootFork(context, fork);
  } catch (error) {
    console.warn(`the fork of ${fork.parent} could not be written down there and is tried again: ${error}`);
    return refused("parent-unavailable");
  }
}

/** Has the parent write the fork down, and begins to copy. Throws if the parent can't be reached. */
export async function rootFork(
  { ledger, branch, bucket, now }: RootContext,
  { uid, parent, commit }: Fork,
): Promise<Rooted> {
  const asked = { fork: uid, bucket: bucket(), ...(commit !== null && { commit }) };
  const rooted = await branch(parent).forks.addRoot(asked);
  return ledger.transaction(() => {
    const present = ledger.forks.get(uid);
    if (present?.state !== "asked") return present ? DONE : refused("no-such-parent");
    if (!rooted.ok) {
      // It may have been asked twice, and the other call may be late: the parent hears that the fork is gone.
      ledger.forks.purge(uid);
      const { reason } = rooted;
      return refused(reason === "let-go" ? "no-such-parent" : reason);
    }
    if (ledger.generations.live()) {
      // Somebody has made a branch of this name meanwhile.
      ledger.forks.purge(uid);
      return refused("already-exists");
    }
    const gen = ledger.generations.reserve({ uid, createdAt: present.createdAt });
    ledger.forks.startCopying(uid, { gen, commit: rooted.commit, total: rooted.total });
    ledger.outbox.tellCatalogue({ event: uid, now: now() });
    return DONE;
  });
}

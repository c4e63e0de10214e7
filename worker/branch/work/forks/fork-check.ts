import { contentName } from "../../../../protocol/content.ts";
import type { NamedLoop, Next } from "../../../objects/loop.ts";
import type { HoldPlace } from "../../contents/fork-hold-store.ts";
import type { BranchContext } from "../../context.ts";
import type { BranchApi } from "../../contract/api.ts";
import type { BranchLoop } from "../../store.ts";

/** Most forks that one alarm asks, calls to each, and holds that one call is about. */
const FORKS = 5;
const CALLS = 20;
const HOLDS = 1000;

interface AskContext extends Pick<BranchContext, "ledger" | "now" | "turn"> {
  /** Another branch. Its calls reject if it can't be reached. */
  readonly branch: (bucket: string) => Pick<BranchApi, "forks">;
}

/**
 * If a version is erased and a fork has the same bytes elsewhere, the parent keeps them for the fork: a *hold of a fork*, which
 * is a row of `fork_holds`. The fork tells the parent when it has them no more. The fork's ledger takes each content on loan out at
 * the end of the transaction that released it last, so that nobody can keep it again, and writes down what to return. The
 * outbox sees to it that the parent hears (work/outbox.ts). In case it never does, the parent asks, later and later.
 *
 * This asks forks whose time has come what they still have of the bytes that are held for them, and drops the other holds. A fork
 * gives back by itself; this is for one that could not: a fork that was set back to an earlier time has forgotten what to give
 * back.
 */
export function forkCheck(context: AskContext): NamedLoop {
  return {
    name: "fork check" satisfies BranchLoop,
    due: () => context.ledger.forkHolds.nextAsk(),
    step: () => askForks(context),
  };
}

async function askForks(context: AskContext): Promise<Next> {
  const { ledger, now } = context;
  for (const { fork, after } of ledger.forkHolds.dueAsks(now(), FORKS)) {
    const stopped = await askFork(context, fork, after).catch((error) => {
      console.warn(`the fork ${fork} could not be asked what it still has; it is again later: ${error}`);
      return undefined;
    });
    ledger.transaction(() => {
      if (stopped) ledger.forkHolds.askedTo(fork, stopped);
      else ledger.forkHolds.asked(fork, now());
    });
  }
  return "next alarm";
}

/** What a fork says that is no more. */
const GONE = { ok: true, has: [], number: 0 } as const;

/** Returns where to go on; undefined if all of the fork's holds were asked for, or it does not know yet. */
async function askFork(context: AskContext, fork: string, after: HoldPlace): Promise<HoldPlace | undefined> {
  const { ledger, now, turn, branch } = context;
  let place = after;
  for (let call = 0; call < CALLS; call++) {
    if (call > 0) await turn();
    const root = ledger.roots.find(fork);
    const held = ledger.forkHolds.page(fork, { after: place, limit: HOLDS });
    const last = held.at(-1);
    if (!last) return undefined;
    const isGone = !root || root.goneAt !== null;
    const asked = { fork, paths: [], contents: held };
    const answer = isGone ? GONE : await branch(root.bucket).forks.copies({ ...asked, given: root.given });
    // An object that knows nothing of the fork was lost, and may be brought back from a backup.
    if (!answer.ok || answer.number === undefined) return undefined;
    const has = new Set(answer.has.map(contentName));
    ledger.transaction(() => {
      // What it has no more never comes back to it as its parent's.
      ledger.forkHolds.drop(
        fork,
        held.filter((content) => !has.has(contentName(content))),
      );
      ledger.contents.removeReleased(now());
    });
    if (held.length < HOLDS) return undefined;
    place = last;
  }
  return place;
}

import { type AnswerOf, type RequestOf, refused } from "../contract/answers.ts";
import type { OpenCommitCalls } from "../contract/open-commits.ts";
import { openCommitChanges } from "../read/changes.ts";
import { pageOf } from "../read/page.ts";
import { protectionRefusal } from "../settings/settings.ts";
import { beginRevert, finishOpenCommit } from "../write/finish.ts";
import { absent, type BranchFacet, type Reach, told } from "./facet.ts";
import { largeCommitRests, waits, write } from "./write.ts";

/** Commits that are made of many writes, and such as take long. */
export const openCommits: BranchFacet<OpenCommitCalls> = {
  async start({ ledger, moment }, { ttlMs, annotation }) {
    const { live } = ledger;
    if (!live) return absent(ledger);
    if (ledger.claim.get()) return refused("pipeline-output");
    const { gen } = live;
    const { now, id } = moment();
    const openCommit = id(now);
    const refusal = ledger.transaction((tx) => {
      const refusal = protectionRefusal(tx, ledger, { gen, key: annotation?.key });
      const base = live.head.seq;
      if (!refusal)
        ledger.openCommits.open({ id: openCommit, gen, now, ttlMs, base, origin: null, annotation });
      return refusal;
    });
    return refusal ?? { ok: true, openCommit };
  },

  async status({ ledger: { live, openCommits } }, { openCommit: id }) {
    const openCommit = live ? openCommits.find(id, live.gen) : undefined;
    if (!openCommit || openCommit.origin !== null || openCommit.state === "ended") {
      return refused("no-such-open-commit");
    }
    const { openedAt, operations, state, commit } = openCommit;
    const due = state === "open" ? openCommit.due : null;
    return { ok: true, openedAt, due, operations, state, commit };
  },

  /** `next`: the number of the last one, if there are more. */
  async list({ ledger }, { after, limit }) {
    const { live, openCommits } = ledger;
    if (!live) return absent(ledger);
    const found = openCommits.unfinished(live.gen, { after: after ?? 0, limit: limit + 1 });
    const { page, last } = pageOf(found, limit);
    const shown = page.map(({ id, openedAt, operations, state, due, commit, annotation }) => ({
      ...{ openCommit: id, openedAt, operations, state: state === "applying" ? state : ("open" as const) },
      ...{ due: state === "open" ? due : null, commit, ...(annotation && { annotation }) },
    }));
    return { ok: true, openCommits: shown, next: last?.number ?? null };
  },

  async changes({ ledger }, request) {
    return openCommitChanges(ledger, request);
  },

  async finish(reach, request) {
    const answer = await finishOnce(reach, request);
    if (!answer.ok || answer.state !== "applying") return answer;
    await largeCommitRests(reach);
    return await finishOnce(reach, request);
  },

  async abort({ ledger, moment }, { openCommit: id }) {
    const { live } = ledger;
    if (!live) return { ok: true };
    const { now } = moment();
    return ledger.transaction(() => {
      const openCommit = ledger.openCommits.find(id, live.gen);
      // What was finished stays in the history.
      if (!openCommit || openCommit.origin !== null || openCommit.state === "finished") return { ok: true };
      const applying = ledger.applying.get();
      if (applying?.openCommit === openCommit.number) {
        if (applying.seq !== null) return refused("applying");
        ledger.applying.clear();
      }
      ledger.openCommits.end(openCommit, now);
      return { ok: true };
    });
  },

  /** The gate is closed from here until the revert is committed: what was written before is reverted, what comes later is not. */
  async revert(reach, request) {
    const { ledger } = reach;
    const answer = await write(reach, {
      isWaiting: waits(ledger),
      work: (tx, moment) => beginRevert(tx, ledger, { request, moment }),
    });
    return told(ledger, answer);
  },
};

async function finishOnce(
  reach: Reach,
  { openCommit: id, annotation }: RequestOf<OpenCommitCalls["finish"]>,
): Promise<AnswerOf<OpenCommitCalls["finish"]>> {
  const { ledger } = reach;
  const { live } = ledger;
  const openCommit = live ? ledger.openCommits.find(id, live.gen) : undefined;
  return await write(reach, {
    isWaiting: waits(ledger) && openCommit?.state === "open",
    work: (tx, moment) => finishOpenCommit(tx, ledger, { id, annotation, moment }),
  });
}

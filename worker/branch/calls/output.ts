import { type AnswerOf, refused } from "../contract/answers.ts";
import type { OutputCalls, OutputCommit } from "../contract/pipelines.ts";
import { commitOutput } from "../write/commit.ts";
import { finishOutput } from "../write/finish.ts";
import { settled } from "../write/fork.ts";
import { claimBranch, endGeneration, releaseBranch } from "../write/generation.ts";
import { stageOutput } from "../write/job-output.ts";
import { afterMarkers, type BranchFacet, makeTables, type Reach } from "./facet.ts";
import { largeCommitRests, waits, write } from "./write.ts";

/** What the pipeline does whose output the branch is. */
export const output: BranchFacet<OutputCalls> = {
  async claim(reach, { place, ...owner }) {
    const { ledger, outbox, moment } = reach;
    if ((await makeTables(reach, place)) !== undefined) return refused("catalogue-unavailable");
    await settled(reach);
    const claimed = ledger.transaction((tx) => claimBranch(tx, ledger, { ...owner, moment: moment() }));
    if (!claimed.ok) return claimed;
    return (await outbox.flush("catalogue")) ? claimed : refused("catalogue-unavailable");
  },

  /** Throws if a large commit takes too long to wait for: the caller is to try again. */
  async release(reach, request) {
    await afterMarkers(reach);
    if (!request.destroy) return await release(reach, request);
    const busy = await reach.gate.pass(() => release(reach, request));
    if (busy) throw new Error("a large commit is being applied; the branch can't be deleted yet");
  },

  async commit(reach, request) {
    const answer = await commitOnce(reach, request);
    if (answer.ok || answer.reason !== "applying") return answer;
    await largeCommitRests(reach);
    return await commitOnce(reach, request);
  },

  async stage(reach, request) {
    const { ledger } = reach;
    return await write(reach, {
      isWaiting: false,
      work: (tx, moment) => stageOutput(tx, ledger, { request, moment }),
    });
  },
};

async function release(
  { ledger, outbox, moment: newMoment }: Reach,
  { uid, destroy }: { uid: string; destroy: boolean },
): Promise<void> {
  if (!ledger.exists || ledger.claim.get()?.uid !== uid) return;
  const { live } = ledger;
  const moment = newMoment();
  ledger.transaction((tx) => {
    releaseBranch(tx, ledger, moment);
    if (destroy && live) endGeneration(tx, ledger, { live, moment });
  });
  if (destroy && live) await outbox.flush("catalogue");
}

async function commitOnce(reach: Reach, request: OutputCommit): Promise<AnswerOf<OutputCalls["commit"]>> {
  const { ledger } = reach;
  const { live } = ledger;
  const staged = live && request.staged ? ledger.openCommits.byOrigin(live.gen, request.origin) : undefined;
  const commit = request.staged ? finishOutput : commitOutput;
  return await write(reach, {
    isWaiting: waits(ledger) && staged?.state !== "applying",
    work: (tx, moment): AnswerOf<OutputCalls["commit"]> => commit(tx, ledger, { request, moment }),
  });
}

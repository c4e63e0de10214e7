import type { Changes } from "../../objects/transaction.ts";
import { type Refused, refused } from "../contract/answers.ts";
import type { CommitRefused, Committed, PutFile } from "../contract/files.ts";
import type { Ledger } from "../ledger/ledger.ts";
import { putFile } from "../write/commit.ts";
import type { Outcome, Work } from "../write/committer.ts";
import { PutQueue } from "../write/put-queue.ts";
import type { PutAnswer, Puts, Reach } from "./facet.ts";

/*
 * Every call that writes waits until it may, and is then one transaction of the committer. While a large commit is
 * applied, writers wait at the gate in their order.
 */

/** A put that came while a large commit was applied. */
const WAIT = { ok: false, reason: "wait" } as const;

/** How long a caller waits for the end of a large commit before the answer is that it goes on; milliseconds. */
const ANSWER_MS = 1000;

/** Whether a write has to wait: a commit of its own for any that is applied, a write into an open commit only for that one. */
export function waits(ledger: Ledger, openCommit?: string): boolean {
  const applying = ledger.exists ? ledger.applying.get() : null;
  return applying !== null && (openCommit === undefined || openCommit === applying.id);
}

/** A write that need not wait is done when this returns. */
export function write<A extends Outcome>(
  { ledger, committer, gate }: Reach,
  { isWaiting, work, changes }: { isWaiting: boolean; work: Work<A>; changes?: Changes },
): A | Refused<"no-such-branch"> | Promise<A | Refused<"busy">> {
  if (!ledger.exists) return refused("no-such-branch");
  const run = () => committer.one(work, changes);
  return isWaiting ? gate.pass(run) : run();
}

export function openPuts({
  ledger,
  committer,
  durable,
  pause,
}: Pick<Reach, "ledger" | "committer" | "durable" | "pause">): Puts {
  return new PutQueue({
    run: (puts) =>
      committer.each(
        puts,
        (tx, moment, put): PutAnswer =>
          waits(ledger, put.openCommit) ? WAIT : putFile(tx, ledger, { put, moment }),
      ),
    durable,
    turn: () => pause(0),
  });
}

export async function put(
  { ledger, gate, puts }: Reach,
  request: PutFile,
): Promise<Committed | CommitRefused> {
  if (!ledger.exists) return refused("no-such-branch");
  const run = () => puts.add(request);
  let answer = waits(ledger, request.openCommit) ? await gate.pass(run) : await run();
  // The gate may be closed again while a put waits for those before it.
  while (isWait(answer)) answer = await gate.pass(run);
  return answer;
}

function isWait(answer: PutAnswer): answer is typeof WAIT {
  return !answer.ok && answer.reason === "wait";
}

/** Pauses until a large commit has come to its end, or for a second: then it is worth to look again. Without the pause, a client that retries in a loop would starve it. */
export async function largeCommitRests({ resting, pause }: Reach): Promise<void> {
  await Promise.race([resting("large commit"), pause(ANSWER_MS)]);
}

import type { BranchContext } from "../context.ts";
import type * as Contract from "../contract.ts";
import type { Applier } from "../work/large-commit/applier.ts";
import { beginRevert } from "../work/large-commit/revert.ts";
import { commitChanges, commitOutput, putFile } from "./commit.ts";
import type { Committer, Outcome, Work } from "./committer.ts";
import { completeMultipart } from "./complete-multipart.ts";
import { finishOpenCommit, finishOutput } from "./finish.ts";
import type { Gate } from "./gate.ts";
import { stageOutput } from "./job-output.ts";
import { PutQueue } from "./put-queue.ts";
import { setTags } from "./set-tags.ts";

type CommitAnswer = Contract.Committed | Contract.CommitRefused;
/** A write that need not wait is done when this is answered. */
type MaybeLater<A> = A | Promise<A>;
type OutputAnswer = Contract.AnswerOf<"commitOutput">;
type FinishAnswer = Contract.AnswerOf<"finishOpenCommit">;
type NoBranch = Contract.Refused<"no-such-branch">;

interface WriteCallsOptions extends Pick<BranchContext, "ledger" | "now" | "durable" | "pause"> {
  readonly committer: Committer;
  readonly gate: Gate;
  readonly applier: Applier;
}

/** A put that came while a large commit was applied. */
const WAIT = { ok: false, reason: "wait" } as const;

/** The calls of BranchApi that write: each waits until it may, and is then one transaction of the committer. */
export class WriteCalls {
  readonly #options: WriteCallsOptions;
  readonly #puts: PutQueue<Contract.PutFile, CommitAnswer | typeof WAIT>;

  constructor(options: WriteCallsOptions) {
    this.#options = options;
    const { durable, pause } = options;
    this.#puts = new PutQueue({ run: (puts) => this.#putAll(puts), durable, turn: () => pause(0) });
  }

  async put(request: Contract.PutFile): Promise<CommitAnswer> {
    if (!this.#options.ledger.exists) return NO_BRANCH;
    const { gate } = this.#options;
    const put = () => this.#puts.add(request);
    let answer = this.#waits(request.openCommit) ? await gate.pass(put) : await put();
    // The gate may be closed again while a put waits for those before it.
    while (isWaiting(answer)) answer = await gate.pass(put);
    return answer;
  }

  commit(request: Contract.CommitRequest): MaybeLater<CommitAnswer> {
    const { ledger } = this.#options;
    return this.#write({
      waits: this.#waits(request.openCommit),
      work: (tx, moment) => commitChanges(tx, ledger, { request, moment }),
    });
  }

  setTags(request: Contract.SetTags): MaybeLater<Contract.AnswerOf<"setTags">> {
    const { ledger } = this.#options;
    return this.#write({
      waits: this.#waits(request.openCommit),
      work: (tx, moment) => setTags(tx, ledger, { request, moment }),
    });
  }

  completeMultipart(request: Contract.CompleteMultipart): MaybeLater<Contract.AnswerOf<"completeMultipart">> {
    const { ledger } = this.#options;
    const { live } = ledger;
    const openCommit = live ? ledger.multiparts.find(request.upload, live.gen)?.openCommit : undefined;
    return this.#write({
      waits: this.#waits(openCommit ?? undefined),
      work: (tx, moment) => completeMultipart(tx, ledger, { request, moment }),
    });
  }

  /** The gate is closed from here until the revert is committed: what was written before is reverted, what comes later is not. */
  revert(request: Contract.RequestOf<"revert">): MaybeLater<Contract.AnswerOf<"revert">> {
    const { ledger } = this.#options;
    return this.#write({
      waits: this.#waits(undefined),
      work: (tx, moment) => beginRevert(tx, ledger, { request, moment }),
    });
  }

  /** Pauses briefly during a large commit. Without the pause, a client that retries in a loop would starve it. */
  async finishOpenCommit(request: Contract.RequestOf<"finishOpenCommit">): Promise<FinishAnswer> {
    const answer = await this.#finishOpenCommit(request);
    if (!answer.ok || answer.state !== "applying") return answer;
    await this.#options.applier.idle();
    return await this.#finishOpenCommit(request);
  }

  /** Pauses like finishOpenCommit. */
  async commitOutput(request: Contract.OutputCommit): Promise<OutputAnswer> {
    const answer = await this.#commitOutput(request);
    if (answer.ok || answer.reason !== "applying") return answer;
    await this.#options.applier.idle();
    return await this.#commitOutput(request);
  }

  stageOutput(request: Contract.StageOutput): MaybeLater<Contract.AnswerOf<"stageOutput">> {
    const { ledger } = this.#options;
    return this.#write({
      waits: false,
      work: (tx, moment) => stageOutput(tx, ledger, { request, moment }),
    });
  }

  #finishOpenCommit({
    openCommit: id,
    note,
  }: Contract.RequestOf<"finishOpenCommit">): MaybeLater<FinishAnswer> {
    const { ledger } = this.#options;
    const { live } = ledger;
    const openCommit = live ? ledger.openCommits.find(id, live.gen) : undefined;
    return this.#write({
      waits: this.#waits(undefined) && openCommit?.state === "open",
      work: (tx, moment) => finishOpenCommit(tx, ledger, { id, note, moment }),
    });
  }

  #commitOutput(request: Contract.OutputCommit): MaybeLater<OutputAnswer> {
    const { ledger } = this.#options;
    const { live } = ledger;
    const staged = live && request.staged ? ledger.openCommits.byOrigin(live.gen, request.origin) : undefined;
    const commit = request.staged ? finishOutput : commitOutput;
    return this.#write({
      waits: this.#waits(undefined) && staged?.state !== "applying",
      work: (tx, moment): OutputAnswer => commit(tx, ledger, { request, moment }),
    });
  }

  /** Whether a write has to wait: a commit of its own for any that is applied, a write into an open commit only for that one. */
  #waits(openCommit: string | undefined): boolean {
    const { ledger } = this.#options;
    const applying = ledger.exists ? ledger.applying.get() : null;
    return applying !== null && (openCommit === undefined || openCommit === applying.id);
  }

  #write<A extends Outcome>({
    waits,
    work,
  }: {
    waits: boolean;
    work: Work<A>;
  }): MaybeLater<A | NoBranch | Contract.Refused<"busy">> {
    const { ledger, committer, gate } = this.#options;
    if (!ledger.exists) return NO_BRANCH;
    const write = () => committer.one(work);
    return waits ? gate.pass(write) : write();
  }

  #putAll(puts: readonly Contract.PutFile[]): (CommitAnswer | typeof WAIT)[] {
    const { ledger, committer } = this.#options;
    return committer.each(puts, (tx, moment, put): CommitAnswer | typeof WAIT =>
      this.#waits(put.openCommit) ? WAIT : putFile(tx, ledger, { put, moment }),
    );
  }
}

const NO_BRANCH = { ok: false, reason: "no-such-branch" } as const;

function isWaiting(answer: CommitAnswer | typeof WAIT): answer is typeof WAIT {
  return !answer.ok && answer.reason === "wait";
}

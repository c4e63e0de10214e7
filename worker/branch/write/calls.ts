import type * as Contract from "../contract.ts";
import { APPLYING_WATCH_MS, type Applier } from "../large-commits/applier.ts";
import type { Ledger } from "../ledger/ledger.ts";
import type { Moment } from "../lifecycle/generation.ts";
import { finishOpenCommit, finishOutput } from "../open-commits/finish.ts";
import { stageOutput } from "../open-commits/job-output.ts";
import { stageChanges, stageFile } from "../open-commits/stage.ts";
import { completeMultipart } from "../uploads/complete-multipart.ts";
import { COMPLETION_KEPT_MS } from "../uploads/completion-store.ts";
import { commitChanges, commitOutput, putFile } from "./commit.ts";
import type { Committer, Outcome } from "./committer.ts";
import type { Gate } from "./gate.ts";
import { PutQueue } from "./put-queue.ts";

type CommitAnswer = Contract.Committed | Contract.CommitRefused;
/** A write that need not wait is done when this is answered. */
type MaybeLater<A> = A | Promise<A>;
type OutputAnswer = CommitAnswer | Contract.Refused<"applying">;
type NoBranch = Contract.Refused<"no-such-branch">;

interface WriteCallsOptions {
  readonly ledger: Ledger;
  readonly committer: Committer;
  readonly gate: Gate;
  readonly applier: Applier;
  readonly now: () => number;
  /** Resolves when what was written is durable. */
  readonly durable: () => Promise<unknown>;
  /** Lets calls that have arrived in. */
  readonly turn: () => Promise<unknown>;
  /** Sees to it that the alarm rings at this time or before. */
  readonly wake: (at: number) => void;
}

/** A put that came while a large commit was applied. */
const WAIT = { ok: false, reason: "wait" } as const;

/** What a Branch object answers to those who write; as of BranchApi. */
export class WriteCalls {
  readonly #options: WriteCallsOptions;
  readonly #puts: PutQueue<Contract.PutFile, CommitAnswer | typeof WAIT>;

  constructor(options: WriteCallsOptions) {
    this.#options = options;
    const { durable, turn } = options;
    this.#puts = new PutQueue({ run: (puts) => this.#putAll(puts), durable, turn });
  }

  async put(request: Contract.PutFile): Promise<CommitAnswer> {
    if (!this.#options.ledger.exists) return NO_BRANCH;
    const { gate } = this.#options;
    const put = () => this.#puts.add(request);
    let answer = this.#waits(request.openCommit) ? await gate.pass(put) : await put();
    // It may be closed again while a put waits for those before it.
    while (isWaiting(answer)) answer = await gate.pass(put);
    return answer;
  }

  commit(request: Contract.CommitRequest): MaybeLater<CommitAnswer> {
    const { ledger } = this.#options;
    const { openCommit: id } = request;
    return this.#write({
      waits: this.#waits(id),
      work: (stamps): CommitAnswer =>
        id === undefined
          ? commitChanges(ledger, { request, stamps })
          : stageChanges(ledger, { request, id, stamps }),
    });
  }

  completeMultipart(
    request: Contract.CompleteMultipart,
  ): MaybeLater<Contract.Completed | Contract.CommitRefused | Contract.Refused<"part-changed">> {
    const { ledger, now, wake } = this.#options;
    const { live } = ledger;
    const openCommit = live ? ledger.multiparts.find(request.upload, live.gen)?.openCommit : undefined;
    return this.#write({
      waits: this.#waits(openCommit ?? undefined),
      work: (stamps) => {
        const answer = completeMultipart(ledger, { request, stamps });
        if (answer.ok) wake(now() + COMPLETION_KEPT_MS);
        return answer;
      },
    });
  }

  /** Waits a little for a large one, so that who asks again and again does not keep it from going on. */
  async finishOpenCommit(request: {
    openCommit: string;
  }): Promise<Contract.OpenCommitEnd | Contract.CommitRefused> {
    const answer = await this.#finishOpenCommit(request);
    if (!answer.ok || answer.state !== "applying") return answer;
    await this.#options.applier.settled();
    return await this.#finishOpenCommit(request);
  }

  /** As finishOpenCommit. */
  async commitOutput(request: Contract.OutputCommit): Promise<OutputAnswer> {
    const answer = await this.#commitOutput(request);
    if (answer.ok || answer.reason !== "applying") return answer;
    await this.#options.applier.settled();
    return await this.#commitOutput(request);
  }

  stageOutput(
    request: Omit<Contract.OutputCommit, "staged"> & { anew: boolean },
  ): MaybeLater<Contract.Done | Contract.CommitRefused | Contract.Refused<"applying">> {
    const { ledger } = this.#options;
    return this.#write({ waits: false, work: (stamps) => stageOutput(ledger, { request, stamps }) });
  }

  /** What a call left to tidy is for the alarm. */
  tidyLater(): void {
    const { ledger, wake, now } = this.#options;
    if (ledger.contents.isLeft) wake(now());
  }

  #finishOpenCommit({
    openCommit: id,
  }: {
    openCommit: string;
  }): MaybeLater<Contract.OpenCommitEnd | Contract.CommitRefused> {
    const { ledger } = this.#options;
    const { live } = ledger;
    const openCommit = live ? ledger.openCommits.find(id, live.gen) : undefined;
    return this.#write({
      waits: this.#waits(undefined) && openCommit?.state === "open",
      work: (stamps) => finishOpenCommit(ledger, { id, stamps }),
    });
  }

  #commitOutput(request: Contract.OutputCommit): MaybeLater<OutputAnswer> {
    const { ledger } = this.#options;
    const { live } = ledger;
    const staged = live && request.staged ? ledger.openCommits.byOrigin(live.gen, request.origin) : undefined;
    return this.#write({
      waits: this.#waits(undefined) && staged?.state !== "applying",
      work: (stamps): OutputAnswer =>
        request.staged
          ? finishOutput(ledger, { request, stamps })
          : commitOutput(ledger, { request, stamps }),
    });
  }

  /** Whether a write has to wait: one of its own for what is applied, one into an open commit only for that. */
  #waits(openCommit: string | undefined): boolean {
    const { ledger } = this.#options;
    const applying = ledger.exists ? ledger.applying.get() : null;
    return applying !== null && (openCommit === undefined || openCommit === applying.id);
  }

  /** Only where there are tables. */
  #write<A extends Outcome>({
    waits,
    work,
  }: {
    waits: boolean;
    work: (moment: Moment) => A;
  }): MaybeLater<A | NoBranch | Contract.Refused<"busy">> {
    const { ledger, committer, gate } = this.#options;
    if (!ledger.exists) return NO_BRANCH;
    const write = () => {
      const answer = committer.one(work);
      this.tidyLater();
      this.#setOut();
      return answer;
    };
    return waits ? gate.pass(write) : write();
  }

  #putAll(puts: readonly Contract.PutFile[]): (CommitAnswer | typeof WAIT)[] {
    const { ledger, committer } = this.#options;
    const answers = committer.each(puts, (put, stamps): CommitAnswer | typeof WAIT => {
      const { openCommit: id } = put;
      if (this.#waits(id)) return WAIT;
      return id === undefined ? putFile(ledger, { put, stamps }) : stageFile(ledger, { put, id, stamps });
    });
    this.tidyLater();
    return answers;
  }

  /** Goes on with the large commit that a call began. In the turn that wrote it down, so that the alarm is, too. */
  #setOut(): void {
    const { ledger, applier, wake, now } = this.#options;
    if (!ledger.applying.get()) return;
    wake(now() + APPLYING_WATCH_MS);
    applier.goOn();
  }
}

const NO_BRANCH = { ok: false, reason: "no-such-branch" } as const;

function isWaiting(answer: CommitAnswer | typeof WAIT): answer is typeof WAIT {
  return !answer.ok && answer.reason === "wait";
}

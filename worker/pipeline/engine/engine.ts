import type { PipelineLoops } from "../../../protocol/admin.ts";
import { bucketName } from "../../../protocol/names.ts";
import { yieldToOthers } from "../../objects/turns.ts";
import { nextExpiry } from "../attempts/task-store.ts";
import type { Peers, PipelineContext } from "../context.ts";
import { TOOK_OVER } from "../jobs/job-store.ts";
import type { Ledger } from "../ledger/ledger.ts";
import { announcePipeline, flushJobs, flushPage } from "../work/catalogue.ts";
import { advanceOldestJob } from "../work/finish/advance.ts";
import { fillJobs } from "../work/inputs/fill.ts";
import { hasUntold, tellNeeds } from "../work/inputs/needs.ts";
import { pull } from "../work/inputs/pull.ts";
import { callOffAttempts, checkJobTime } from "../work/jobs/end.ts";
import { sweep } from "../work/leases/expiry.ts";
import { endLostUploads } from "../work/leases/lost-leases.ts";
import { type CreationRefused, continueCreation } from "../work/saga/create.ts";
import { continueDestruction, purge } from "../work/saga/destroy.ts";
import { takeBackErrors } from "../work/saga/errors-branch.ts";
import { takeBackProposals } from "../work/saga/propose.ts";
import { continueStart, continueStop } from "../work/saga/stop-start.ts";
import { continueUpdate } from "../work/saga/update.ts";
import { dropErased } from "../work/trim/erased-outputs.ts";
import { hasUnlisted, trim } from "../work/trim/trim.ts";
import { Loop } from "./loop.ts";
import { Refusals } from "./refusals.ts";
import { KeyedWaiters, Waiters } from "./waiters.ts";

/** After this long the alarm looks whether something stopped half-way. */
const WATCH_MS = 10_000;
/** Longest time that a call waits for a change of state. */
const ANSWER_MS = 20_000;
/** Shortest time between two rounds of telling branches what the pipeline needs. */
const TELL_MS = 5_000;
const FIRST_RETRY_MS = 1_000;
const LAST_RETRY_MS = 60_000;

/**
 * What a Pipeline object does between its calls. Each kind of work is a loop of its own, which finds what there is to do
 * in the ledger: nothing that is to be done is only in memory, and an alarm stands while anything is.
 */
export class Engine {
  readonly context: PipelineContext;
  readonly #saga: Loop;
  readonly #pull: Loop;
  readonly #fill: Loop;
  readonly #advance: Loop;
  readonly #callOff: Loop;
  readonly #trim: Loop;
  readonly #lost: Loop;
  readonly #erased: Loop;
  readonly #outbox: Loop;
  readonly #needs: Loop;
  readonly #queued = new Waiters();
  readonly #urgent = new Waiters();
  readonly #ends = new KeyedWaiters();
  readonly #logs = new KeyedWaiters();
  readonly #refusals = new Refusals();
  #rings = 0;
  /** When branches were last told what the pipeline needs. */
  #toldAt = Number.NEGATIVE_INFINITY;

  constructor({ ledger, peers }: { ledger: Ledger; peers: Peers }) {
    this.context = {
      ledger,
      peers,
      wakes: {
        fill: () => void this.#fill.wake(),
        advance: () => void this.#advance.wake(),
        callOff: () => void this.#callOff.wake(),
        trim: () => void this.#trim.wake(),
        outbox: () => this.#flush(),
        // Whatever ends a lease queues its datum, or another that waited for it.
        queued: () => {
          this.#queued.wake();
          this.#endLostUploads();
        },
        ended: (job) => {
          this.#ends.wake(job);
          this.#logs.wake(job);
          void this.#needs.wake();
        },
        logged: (job) => this.#logs.wake(job),
      },
      held: new Set(),
      watch: () => this.watch(),
      advanceRests: async () => this.#advance.resting,
    };
    const failed = (error: unknown, failures: number): void => this.#retry(error, failures);
    this.#saga = new Loop(() => this.#runSaga(), failed);
    this.#pull = new Loop(() => this.#pullAll(), failed);
    this.#fill = new Loop(() => fillJobs(this.context), failed);
    this.#advance = new Loop(() => advanceOldestJob(this.context), failed);
    this.#callOff = new Loop(() => callOffAttempts(this.context), failed);
    this.#trim = new Loop(() => trim(this.context), failed);
    this.#lost = new Loop(() => endLostUploads(this.context), failed);
    this.#erased = new Loop(() => dropErased(this.context), failed);
    this.#outbox = new Loop(() => flushJobs(this.context, this.#urgent), failed);
    this.#needs = new Loop(() => this.#tellNeeds(), failed);
  }

  /** An input may have news. The mark stays until they are read. Ignores a bell for an earlier pipeline of the name. */
  ring(uid: string): void {
    const { ledger } = this.context;
    if (ledger.active()?.uid !== uid) return;
    this.#rings++;
    if (!ledger.pipeline.row()?.pullDue) ledger.transaction(() => ledger.pipeline.setPullDue(1));
    this.watch();
    void this.#pull.wake();
  }

  /** Something was erased in a branch that the pipeline writes to, whether it runs or not. The mark stays until the results have it no more. */
  ringOfOutput(uid: string): void {
    const { ledger } = this.context;
    const definition = ledger.exists ? ledger.pipeline.definition() : undefined;
    if (definition?.uid !== uid) return;
    ledger.transaction(() => ledger.erasures.addDue(bucketName(definition.output)));
    this.watch();
    void this.#erased.wake();
  }

  /**
   * Goes on with a change of the pipeline's state until it is done or can't go on. If that takes long, because a great
   * many jobs end with it, it goes on by itself: the caller is to be answered.
   */
  async runSaga(): Promise<void> {
    this.watch();
    await within(ANSWER_MS, this.#saga.wake());
  }

  /** Reads what the inputs have, if the pipeline runs. Returns false if that is not done in time. */
  async lookAtInputs(): Promise<boolean> {
    const { ledger } = this.context;
    const active = ledger.active();
    if (!active) return true;
    this.ring(active.uid);
    await within(ANSWER_MS, this.#pull.resting ?? Promise.resolve());
    return ledger.pipeline.row()?.pullDue !== 1;
  }

  /** The catalogue hears of new jobs before a caller does, who may ask for one by its id. If it can't be reached, it hears later. */
  async tellOfJobs(): Promise<void> {
    try {
      await flushPage(this.context);
    } catch (error) {
      console.warn("the catalogue can't be told of a new job yet", error);
    }
  }

  /** Why a creation was refused, if it was. */
  refusalOf(uid: string): CreationRefused | undefined {
    return this.#refusals.of(uid);
  }

  /** The output branch keeps less. The mark stays until we have asked what. Ignores a call for an earlier pipeline of the name. */
  outputKept(uid: string): void {
    const { ledger } = this.context;
    const state = ledger.exists ? ledger.pipeline.row()?.state : undefined;
    if (state === undefined || state === "purging" || state === "deleted") return;
    if (ledger.pipeline.uid() !== uid) return;
    ledger.transaction(() => ledger.pipeline.addOutputNews());
    this.watch();
    void this.#trim.wake();
  }

  /** Makes sure that the alarm rings if we stop half-way. */
  watch(): void {
    this.context.ledger.timers.arm("work", this.context.peers.now() + WATCH_MS);
  }

  /** Resolves when a datum may be queued, or after so long. */
  async datumQueued(waitMs: number): Promise<void> {
    await this.#queued.wait(waitMs);
  }

  /** Resolves when the job has ended, or after so long. */
  async jobEnds(id: string, waitMs: number): Promise<void> {
    await this.#ends.wait(id, waitMs);
  }

  /** Resolves when the job has printed more or has ended, or after so long. */
  async jobLogged(id: string, waitMs: number): Promise<void> {
    await this.#logs.wait(id, waitMs);
  }

  /** Wakes every loop; resolves when all have come to rest. */
  async resume(): Promise<void> {
    if (!this.context.ledger.exists) return;
    const loops = [
      this.#saga,
      this.#pull,
      this.#fill,
      this.#advance,
      this.#callOff,
      this.#trim,
      this.#lost,
      this.#erased,
      this.#outbox,
      this.#needs,
    ];
    for (const loop of loops) void loop.wake();
    // One loop may wake another that was at rest already.
    while (loops.some((loop) => loop.resting)) await Promise.all(loops.map((loop) => loop.resting));
  }

  async alarm(): Promise<void> {
    const { ledger, peers } = this.context;
    if (!ledger.exists) return;
    const now = peers.now();
    while (ledger.transaction((tx) => sweep(tx, this.context, now))) await yieldToOthers();
    ledger.timers.set("leases", nextExpiry(ledger));
    // If this very run dies, the next one is due already.
    ledger.timers.set("work", now + WATCH_MS);
    checkJobTime(this.context, now);
    // The alarm is what a round that came too soon has left it to.
    this.#toldAt = Number.NEGATIVE_INFINITY;
    ledger.timers.rearm();
    await this.resume();
    if (!this.#isPending()) ledger.timers.set("work", undefined);
  }

  async #runSaga(): Promise<void> {
    const { ledger } = this.context;
    for (;;) {
      const row = ledger.pipeline.row();
      switch (row?.state) {
        case "creating": {
          const uid = ledger.pipeline.definition()?.uid;
          const created = await continueCreation(this.context);
          if (created !== "done" && uid) this.#refusals.add(uid, created);
          else void this.resume();
          break;
        }
        case "stopping":
          await continueStop(this.context);
          break;
        case "starting":
          await continueStart(this.context);
          void this.resume();
          break;
        case "updating":
          await continueUpdate(this.context);
          void this.resume();
          break;
        case "active":
        case "stopped":
          if (row.catalogueVersion >= row.version) {
            await takeBackErrors(this.context);
            return await takeBackProposals(this.context);
          }
          await announcePipeline(this.context);
          break;
        case "deleting":
          await continueDestruction(this.context);
          break;
        case "purging":
          await purge(this.context);
          break;
        case "deleted":
          return await takeBackProposals(this.context);
        default:
          return;
      }
    }
  }

  async #pullAll(): Promise<void> {
    await pull(this.context, () => this.#rings);
    void this.#needs.wake();
  }

  /** Not after each of many jobs: what branches hold meanwhile they let go of a little later. */
  async #tellNeeds(): Promise<void> {
    const { ledger, peers } = this.context;
    if (!ledger.exists || !hasUntold(this.context)) return;
    this.watch();
    const now = peers.now();
    if (now >= this.#toldAt && now - this.#toldAt < TELL_MS) return;
    this.#toldAt = now;
    await tellNeeds(this.context);
  }

  /** How the loops stand, by what they see to, and when the alarm looks at them again. */
  standing(): PipelineLoops {
    const loops = {
      state: this.#saga,
      inputs: this.#pull,
      fill: this.#fill,
      jobs: this.#advance,
      callOff: this.#callOff,
      trim: this.#trim,
      lostUploads: this.#lost,
      erased: this.#erased,
      catalogue: this.#outbox,
      needs: this.#needs,
    };
    return {
      loops: Object.entries(loops).map(([name, loop]) => ({ name, ...loop.standing })),
      timers: this.context.ledger.timers.all(),
    };
  }

  #endLostUploads(): void {
    if (!this.context.ledger.lost.takeNews()) return;
    this.watch();
    void this.#lost.wake();
  }

  #flush(): void {
    if (this.context.ledger.jobs.hasUrgent()) this.#urgent.wake();
    void this.#outbox.wake();
  }

  #isPending(): boolean {
    const { pipeline, jobs, proposals, errorsClaim } = this.context.ledger;
    const row = pipeline.row();
    if (proposals.all().length > 0) return true;
    const uid = row?.state === "deleted" ? undefined : pipeline.definition()?.uid;
    if (uid !== undefined && errorsClaim.get(uid)?.settled === false) return true;
    if (row === undefined || row.state === "deleted") return false;
    if (row.state !== "active" && row.state !== "stopped") return true;
    const { lost, givenUp, merges } = this.context.ledger;
    if (lost.some(1).length > 0 || givenUp.some(1).length > 0 || row.outputDue > 0) return true;
    if (this.#isErasing()) return true;
    if (hasUnlisted(this.context.ledger, this.context.peers)) return true;
    if (row.catalogueVersion < row.version || jobs.toCallOff(1).length > 0 || jobs.unflushed(1).length > 0)
      return true;
    if (row.state === "stopped") return false;
    if (merges.retired() !== undefined || hasUntold(this.context)) return true;
    return row.pullDue === 1 || this.#oldestGoesOn() || jobs.nextToFill() !== undefined;
  }

  /** Whether results have what was erased in the output branch. */
  #isErasing(): boolean {
    const { pipeline, erasures } = this.context.ledger;
    const output = pipeline.definition()?.output;
    return (output && erasures.due(bucketName(output)) > 0) || erasures.givenUp(1).length > 0;
  }

  /** Whether the oldest job can go on without a runner. */
  #oldestGoesOn(): boolean {
    const { jobs, tasks, egress } = this.context.ledger;
    const job = jobs.oldest();
    if (!job || job.state === "starting") return false;
    if (job.tookOver !== TOOK_OVER) return true;
    const waits = tasks.has(job.n) || (job.state === "egressing" && egress.free(1) > 0 && !egress.hasMoved);
    return job.open === 0 && !waits;
  }

  #retry(error: unknown, failures: number): void {
    console.warn("a pipeline's work failed and is tried again", error);
    const delayMs = Math.min(FIRST_RETRY_MS * 2 ** (failures - 1), LAST_RETRY_MS);
    this.context.ledger.timers.arm("work", this.context.peers.now() + delayMs);
  }
}

/** Resolves when the work is done, which never fails, or after so long. */
async function within(waitMs: number, work: Promise<void>): Promise<void> {
  await new Promise<void>((resolve) => {
    const timer = setTimeout(resolve, waitMs);
    void work.then(() => {
      clearTimeout(timer);
      resolve();
    });
  });
}

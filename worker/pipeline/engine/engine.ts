import type { Loops } from "../../../protocol/admin.ts";
import { bucketName } from "../../../protocol/names.ts";
import { Engine, within } from "../../objects/engine.ts";
import type { NamedLoop } from "../../objects/loop.ts";
import { KeyedWaiters, Waiters } from "../../objects/waiters.ts";
import { nextExpiry } from "../attempts/task-store.ts";
import type { Peers, PipelineContext } from "../context.ts";
import type { Ledger } from "../ledger/ledger.ts";
import { announcePipeline, flushJobs, flushPage } from "../work/catalogue.ts";
import { advanceOldestJob, oldestGoesOn } from "../work/finish/advance.ts";
import { fillJobs } from "../work/inputs/fill.ts";
import { hasUntold, tellNeeds } from "../work/inputs/needs.ts";
import { pull } from "../work/inputs/pull.ts";
import { callOffAttempts, endOverdue, overdueAt } from "../work/jobs/end.ts";
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
import { Refusals } from "./refusals.ts";

/** Longest time that a call waits for a change of state. */
const ANSWER_MS = 20_000;
/** Shortest time between two rounds of telling branches what the pipeline needs. */
const TELL_MS = 5_000;

/** The loops of a Pipeline object, and those who wait in memory for what they do. */
export class PipelineEngine {
  readonly context: PipelineContext;
  readonly #engine: Engine;
  readonly #queued = new Waiters();
  readonly #urgent = new Waiters();
  readonly #ends = new KeyedWaiters();
  readonly #logs = new KeyedWaiters();
  readonly #refusals = new Refusals();
  #rings = 0;
  /** When branches were last told what the pipeline needs. */
  #toldAt = Number.NEGATIVE_INFINITY;

  constructor({ ledger, peers, storage }: { ledger: Ledger; peers: Peers; storage: DurableObjectStorage }) {
    this.context = {
      ledger,
      peers,
      wakes: {
        fill: () => ledger.wake("fill"),
        advance: () => ledger.wake("jobs"),
        callOff: () => ledger.wake("callOff"),
        trim: () => ledger.wake("trim"),
        outbox: () => {
          if (ledger.jobs.hasUrgent()) this.#urgent.wake();
          ledger.wake("catalogue");
        },
        leases: (at) => ledger.wake("leases", at),
        jobTime: (at) => ledger.wake("jobTime", at),
        // Whatever ends a lease queues its datum, or another that waited for it.
        queued: () => {
          this.#queued.wake();
          if (ledger.lost.takeNews()) ledger.wake("lostUploads");
        },
        ended: (job) => {
          this.#ends.wake(job);
          this.#logs.wake(job);
          ledger.wake("needs");
        },
        logged: (job) => this.#logs.wake(job),
      },
      held: new Set(),
      advanceRests: async () => this.#engine.resting("jobs"),
    };
    this.#engine = new Engine({
      object: () => `pipeline ${ledger.pipeline.name()}`,
      exists: () => ledger.exists,
      now: peers.now,
      storage,
      loops: this.#loops(),
    });
    ledger.listener = (woken) => this.#engine.woken(woken);
  }

  #loops(): NamedLoop[] {
    const { context } = this;
    const { ledger, peers } = context;
    const dueIf = (isDue: boolean): number | undefined => (isDue ? 0 : undefined);
    const isActive = (): boolean => ledger.pipeline.row()?.state === "active";
    const isThere = (): boolean => isActive() || ledger.pipeline.row()?.state === "stopped";
    return [
      { name: "state", due: () => dueIf(this.#isChanging()), step: () => this.#change() },
      {
        name: "inputs",
        due: () => dueIf(isActive() && ledger.pipeline.row()?.pullDue === 1),
        step: () => this.#pull(),
      },
      {
        name: "fill",
        due: () => dueIf(isActive() && ledger.jobs.nextToFill() !== undefined),
        step: () => fillJobs(context),
      },
      {
        name: "jobs",
        due: () => dueIf(isActive() && oldestGoesOn(ledger)),
        step: () => advanceOldestJob(context),
      },
      {
        name: "callOff",
        due: () => dueIf(ledger.jobs.toCallOff(1).length > 0),
        step: () => callOffAttempts(context),
      },
      { name: "leases", due: () => nextExpiry(ledger), step: () => this.#expire() },
      { name: "jobTime", due: () => overdueAt(ledger), step: () => endOverdue(context, peers.now()) },
      {
        name: "lostUploads",
        due: () => dueIf(isThere() && ledger.lost.some(1).length > 0),
        step: () => endLostUploads(context),
      },
      { name: "erased", due: () => dueIf(isThere() && isErasing(ledger)), step: () => dropErased(context) },
      { name: "trim", due: () => dueIf(isThere() && this.#hasToTrim()), step: () => trim(context) },
      {
        name: "catalogue",
        due: () => dueIf(isThere() && ledger.jobs.unflushed(1).length > 0),
        step: () => flushJobs(context, this.#urgent),
      },
      {
        name: "needs",
        due: () => (isActive() && hasUntold(context) ? this.#toldAt + TELL_MS : undefined),
        step: () => this.#tellNeeds(),
      },
    ];
  }

  /** An input may have news. The mark stays until they are read. Ignores a wake-up for an earlier pipeline of the name. */
  ring(uid: string): void {
    const { ledger } = this.context;
    if (ledger.active()?.uid !== uid) return;
    this.#rings++;
    if (!ledger.pipeline.row()?.pullDue) ledger.transaction(() => ledger.pipeline.setPullDue(1));
    void this.#engine.wake("inputs");
  }

  /** Something was erased in a branch that the pipeline writes to, whether it runs or not. The mark stays until the results have it no more. */
  ringOfOutput(uid: string): void {
    const { ledger } = this.context;
    const definition = ledger.exists ? ledger.pipeline.definition() : undefined;
    if (definition?.uid !== uid) return;
    ledger.transaction(() => ledger.erasures.addDue(bucketName(definition.output)));
  }

  /**
   * Goes on with a change of the pipeline's state until it is done or can't go on. If that takes long, because a great
   * many jobs end with it, it goes on by itself: the caller is to be answered.
   */
  async changeState(): Promise<void> {
    await within(ANSWER_MS, this.#engine.wake("state"));
  }

  /** Reads what the inputs have, if the pipeline runs. Returns false if that is not done in time. */
  async lookAtInputs(): Promise<boolean> {
    const { ledger } = this.context;
    const active = ledger.active();
    if (!active) return true;
    this.ring(active.uid);
    await within(ANSWER_MS, this.#engine.resting("inputs") ?? Promise.resolve());
    return ledger.pipeline.row()?.pullDue !== 1;
  }

  /** The catalogue hears of new jobs before a caller does, who may ask for one by its id. If it can't be reached, it hears later. */
  async tellOfJobs(): Promise<void> {
    try {
      await flushPage(this.context);
    } catch (error) {
      console.warn(`the catalogue can't be told of a new job of ${this.#name} yet: ${error}`);
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

  /** Wakes every loop that is due; resolves when all have come to rest. */
  async resume(): Promise<void> {
    await this.#engine.resume();
  }

  async alarm(): Promise<void> {
    // The alarm is what a round of telling that came too soon was left to.
    this.#toldAt = Number.NEGATIVE_INFINITY;
    await this.#engine.alarm();
  }

  /** How the loops stand, by what they see to, and when they go on by themselves. */
  standing(): Loops {
    return { loops: this.#engine.standing() };
  }

  async #change(): Promise<void> {
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

  async #pull(): Promise<void> {
    await pull(this.context, () => this.#rings);
    this.context.ledger.wake("needs");
  }

  /** Puts what ran out back into the queue. Returns whether there may be more. */
  #expire(): boolean {
    const { ledger, peers } = this.context;
    return ledger.transaction((tx) => sweep(tx, this.context, peers.now()));
  }

  /** Not after each of many jobs: what branches hold meanwhile they let go of a little later. */
  async #tellNeeds(): Promise<void> {
    const { ledger, peers } = this.context;
    if (!ledger.exists || !hasUntold(this.context)) return;
    const now = peers.now();
    if (now >= this.#toldAt && now - this.#toldAt < TELL_MS) return;
    this.#toldAt = now;
    await tellNeeds(this.context);
  }

  /** Whether the state is to change, or others are to hear that it did. */
  #isChanging(): boolean {
    const { pipeline, proposals, errorsClaim } = this.context.ledger;
    const row = pipeline.row();
    if (proposals.all().length > 0) return true;
    if (row === undefined || row.state === "deleted") return false;
    if (row.state !== "active" && row.state !== "stopped") return true;
    const uid = pipeline.definition()?.uid;
    return (
      row.catalogueVersion < row.version || (uid !== undefined && errorsClaim.get(uid)?.settled === false)
    );
  }

  #hasToTrim(): boolean {
    const { ledger, peers } = this.context;
    const { pipeline, givenUp, merges } = ledger;
    if (givenUp.some(1).length > 0 || (pipeline.row()?.outputDue ?? 0) > 0) return true;
    return hasUnlisted(ledger, peers) || (ledger.active() !== undefined && merges.retired() !== undefined);
  }

  get #name(): string {
    return `pipeline ${this.context.ledger.pipeline.name()}`;
  }
}

/** Whether results have what was erased in the output branch. */
function isErasing({ pipeline, erasures }: Pick<Ledger, "pipeline" | "erasures">): boolean {
  const output = pipeline.definition()?.output;
  return (output && erasures.due(bucketName(output)) > 0) || erasures.givenUp(1).length > 0;
}

import { type Peers, type PipelineContext, yieldToOthers } from "../context.ts";
import { advanceOldestJob } from "../finish/advance.ts";
import { fillJobs } from "../inputs/fill.ts";
import { pull } from "../inputs/pull.ts";
import { callOffAttempts, checkJobTime } from "../jobs/end.ts";
import { TOOK_OVER } from "../jobs/job-store.ts";
import { trim } from "../jobs/trim.ts";
import type { Ledger } from "../ledger/ledger.ts";
import { continueCreation } from "../lifecycle/create.ts";
import { continueDestruction, purge } from "../lifecycle/destroy.ts";
import { continueStart, continueStop } from "../lifecycle/stop-start.ts";
import { continueUpdate } from "../lifecycle/update.ts";
import { nextExpiry, sweep } from "../work/expiry.ts";
import { flushJobs, tellOfPipeline } from "./catalogue-outbox.ts";
import { Loop } from "./loop.ts";
import { KeyedWaiters, Waiters } from "./waiters.ts";

/** After this long the alarm looks whether something stopped half-way. */
const WATCH_MS = 10_000;
const FIRST_RETRY_MS = 1_000;
const LAST_RETRY_MS = 60_000;

/**
 * What a Pipeline object does between its calls: each kind of work is a loop of its own, which finds what there is
 * to do in the ledger. Nothing to be done is only in memory; an alarm stands while anything is to be done.
 */
export class Engine {
  readonly parts: PipelineContext;
  readonly #saga: Loop;
  readonly #pull: Loop;
  readonly #fill: Loop;
  readonly #advance: Loop;
  readonly #callOff: Loop;
  readonly #trim: Loop;
  readonly #outbox: Loop;
  readonly #queued = new Waiters();
  readonly #urgent = new Waiters();
  readonly #ends = new KeyedWaiters();
  readonly #logs = new KeyedWaiters();
  readonly #refused = new Set<string>();
  #rings = 0;

  constructor({ ledger, peers }: { ledger: Ledger; peers: Peers }) {
    this.parts = {
      ledger,
      peers,
      wakes: {
        fill: () => void this.#fill.wake(),
        advance: () => void this.#advance.wake(),
        callOff: () => void this.#callOff.wake(),
        trim: () => void this.#trim.wake(),
        outbox: () => this.#flush(),
        queued: () => this.#queued.wake(),
        ended: (job) => {
          this.#ends.wake(job);
          this.#logs.wake(job);
        },
        logged: (job) => this.#logs.wake(job),
      },
      advanceRests: async () => this.#advance.resting,
    };
    const failed = (error: unknown, failures: number): void => this.#retry(error, failures);
    this.#saga = new Loop(() => this.#runSaga(), failed);
    this.#pull = new Loop(() => pull(this.parts, () => this.#rings), failed);
    this.#fill = new Loop(() => fillJobs(this.parts), failed);
    this.#advance = new Loop(() => advanceOldestJob(this.parts), failed);
    this.#callOff = new Loop(() => callOffAttempts(this.parts), failed);
    this.#trim = new Loop(() => trim(this.parts), failed);
    this.#outbox = new Loop(() => flushJobs(this.parts, this.#urgent), failed);
  }

  /** An input may have news. The mark stays until they are read; a bell for an earlier pipeline of the name is nothing. */
  ring(uid: string): void {
    const { ledger } = this.parts;
    if (ledger.active()?.uid !== uid) return;
    this.#rings++;
    if (!ledger.pipeline.row()?.pullDue) ledger.transaction(() => ledger.pipeline.setPullDue(1));
    this.watch();
    void this.#pull.wake();
  }

  /** Goes on with a change of the pipeline's state until it is done or can't go on. */
  async runSaga(): Promise<void> {
    this.watch();
    await this.#saga.wake();
  }

  /** Whether a creation ended because its output branch is somebody else's. */
  wasRefused(uid: string): boolean {
    return this.#refused.has(uid);
  }

  /** Makes sure that the alarm comes by, should we stop half-way. */
  watch(): void {
    this.parts.ledger.timers.arm("work", this.parts.peers.now() + WATCH_MS);
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
    if (!this.parts.ledger.exists) return;
    const loops = [
      this.#saga,
      this.#pull,
      this.#fill,
      this.#advance,
      this.#callOff,
      this.#trim,
      this.#outbox,
    ];
    for (const loop of loops) void loop.wake();
    // One loop may wake another that was at rest already.
    while (loops.some((loop) => loop.resting)) await Promise.all(loops.map((loop) => loop.resting));
  }

  async alarm(): Promise<void> {
    const { ledger, peers } = this.parts;
    if (!ledger.exists) return;
    const now = peers.now();
    while (ledger.transaction((tx) => sweep(tx, this.parts, now))) await yieldToOthers();
    ledger.timers.set("leases", nextExpiry(ledger));
    // Should this very run die, the next one is due already.
    ledger.timers.set("work", now + WATCH_MS);
    checkJobTime(this.parts, now);
    ledger.timers.rearm();
    await this.resume();
    if (!this.#isPending()) ledger.timers.set("work", undefined);
  }

  async #runSaga(): Promise<void> {
    const { ledger } = this.parts;
    for (;;) {
      const row = ledger.pipeline.row();
      switch (row?.state) {
        case "creating": {
          const uid = ledger.pipeline.definition()?.uid;
          if ((await continueCreation(this.parts)) === "output-exists" && uid) this.#refused.add(uid);
          else void this.resume();
          break;
        }
        case "stopping":
          await continueStop(this.parts);
          break;
        case "starting":
          await continueStart(this.parts);
          void this.resume();
          break;
        case "updating":
          await continueUpdate(this.parts);
          void this.resume();
          break;
        case "active":
        case "stopped":
          if (row.catalogueVersion >= row.version) return;
          await tellOfPipeline(this.parts);
          break;
        case "deleting":
          await continueDestruction(this.parts);
          break;
        case "purging":
          await purge(this.parts);
          break;
        default:
          return;
      }
    }
  }

  #flush(): void {
    if (this.parts.ledger.jobs.hasUrgent()) this.#urgent.wake();
    void this.#outbox.wake();
  }

  #isPending(): boolean {
    const { pipeline, jobs } = this.parts.ledger;
    const row = pipeline.row();
    if (row === undefined || row.state === "deleted") return false;
    if (row.state !== "active" && row.state !== "stopped") return true;
    if (row.catalogueVersion < row.version || jobs.toCallOff(1).length > 0 || jobs.unflushed(1).length > 0)
      return true;
    if (row.state === "stopped") return false;
    return row.pullDue === 1 || this.#oldestGoesOn() || jobs.nextToFill() !== undefined;
  }

  /** Whether the oldest job can go on without a runner. */
  #oldestGoesOn(): boolean {
    const { jobs, tasks, egress } = this.parts.ledger;
    const job = jobs.oldest();
    if (!job || job.state === "starting") return false;
    if (job.tookOver !== TOOK_OVER) return true;
    const waits = tasks.has(job.n) || (job.state === "egressing" && egress.free(1) > 0 && !egress.hasMoved);
    return job.open === 0 && !waits;
  }

  #retry(error: unknown, failures: number): void {
    console.warn("a pipeline's work failed and is tried again", error);
    const delayMs = Math.min(FIRST_RETRY_MS * 2 ** (failures - 1), LAST_RETRY_MS);
    this.parts.ledger.timers.arm("work", this.parts.peers.now() + delayMs);
  }
}

import type { Assignment } from "../../protocol/runner.ts";

/** Those that are woken by one that has found something: so many are after a few calls, if there is something for so many. */
const WOKEN_BY_ONE = 2;

/**
 * What a node knows of the pipelines that have nothing to do, so that their workers need not ask: the answer to its last
 * heartbeat says which have no job under way, and the node is woken when one gets a job. A worker that was told that
 * nothing is queued rests here while both are so, and lets its slot go: it takes one when there is work.
 *
 * A wake-up ends the rest of one worker of its pipeline. If that finds something it wakes two more, and if it can't ask one: so as many
 * ask as there is something for, and a few more. Those that find nothing wait at the gateway for what is queued later, until a heartbeat
 * says that there is no job. One that says that there is wakes another one.
 *
 * A wake-up may come while a worker asks, or while a heartbeat is under way whose answer was made before. So both note how
 * many had come when they began, and what is older than a wake-up for the pipeline does not count.
 */
export class IdlePipelines {
  #idle: ReadonlySet<string> = new Set();
  #isHeard = false;
  #wakeUps = 0;
  readonly #lastWakeUp = new Map<string, number>();
  /** By pipeline, what ends the rest of each worker, in the order in which they began. */
  readonly #rests = new Map<string, Set<() => void>>();

  /** How many have come. */
  get wakeUps(): number {
    return this.#wakeUps;
  }

  /** Whether wake-ups are heard: if not, nobody rests. */
  set isHeard(isHeard: boolean) {
    this.#isHeard = isHeard;
    if (!isHeard) this.#endAll();
  }

  /** What a heartbeat was answered that began after so many wake-ups. */
  hear({ workers }: Assignment, wakeUps: number): void {
    const idle = workers.filter((each) => each.idle && this.#lastWakeUpOf(each.pipeline) <= wakeUps);
    this.#idle = new Set(idle.map(({ pipeline }) => pipeline));
    const named = new Set(workers.map(({ pipeline }) => pipeline));
    for (const pipeline of this.#lastWakeUp.keys())
      if (!named.has(pipeline)) this.#lastWakeUp.delete(pipeline);
    for (const [pipeline, { size }] of [...this.#rests]) {
      if (!named.has(pipeline)) this.#end(pipeline, size);
      // The wake-up may have been lost, or the one that it was for can't ask.
      else if (!this.#idle.has(pipeline)) this.#end(pipeline, 1);
    }
  }

  /** No heartbeat is answered: pipelines may have something to do that the catalogue can't be told. */
  forget(): void {
    this.#idle = new Set();
    this.#endAll();
  }

  /** These pipelines have something to do. */
  wake(pipelines: readonly string[]): void {
    this.#wakeUps++;
    for (const pipeline of pipelines) this.#lastWakeUp.set(pipeline, this.#wakeUps);
    this.#idle = new Set([...this.#idle].filter((pipeline) => !pipelines.includes(pipeline)));
    for (const pipeline of pipelines) this.#end(pipeline, 1);
  }

  /** A worker has found something: there may be more. */
  found(pipeline: string): void {
    this.#end(pipeline, WOKEN_BY_ONE);
  }

  /** A worker that may have been woken does not ask now: another one is to. */
  passOn(pipeline: string): void {
    this.#end(pipeline, 1);
  }

  /** Waits while a pipeline has nothing to do, of which a worker asked after so many wake-ups. Returns whether it waited. */
  async rest(
    pipeline: string,
    { wakeUps, signal }: { wakeUps: number; signal: AbortSignal },
  ): Promise<boolean> {
    const rests = this.#isHeard && this.#idle.has(pipeline) && this.#lastWakeUpOf(pipeline) <= wakeUps;
    if (signal.aborted || !rests) return false;
    const { promise, resolve } = Promise.withResolvers<void>();
    const end = (): void => resolve();
    const others = this.#rests.get(pipeline) ?? new Set();
    this.#rests.set(pipeline, others.add(end));
    signal.addEventListener("abort", end);
    await promise;
    signal.removeEventListener("abort", end);
    this.#remove(pipeline, end);
    return true;
  }

  #lastWakeUpOf(pipeline: string): number {
    return this.#lastWakeUp.get(pipeline) ?? 0;
  }

  /** Ends the rests of so many, those that rest for longest. */
  #end(pipeline: string, most: number): void {
    for (const end of [...(this.#rests.get(pipeline) ?? [])].slice(0, most)) {
      end();
      this.#remove(pipeline, end);
    }
  }

  #endAll(): void {
    for (const [pipeline, { size }] of [...this.#rests]) this.#end(pipeline, size);
  }

  #remove(pipeline: string, end: () => void): void {
    const rests = this.#rests.get(pipeline);
    rests?.delete(end);
    if (rests?.size === 0) this.#rests.delete(pipeline);
  }
}

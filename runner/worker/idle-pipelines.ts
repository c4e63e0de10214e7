import type { Assignment } from "../../protocol/runner.ts";

/**
 * What a node knows of the pipelines that have nothing to do, so that their workers need not ask: the answer to its last
 * heartbeat says which have no job under way, and the node is woken when one gets a job. A worker that was told that
 * nothing is queued rests here while both are so, and lets its slot go: it takes one when there is work.
 *
 * A wake-up may come while a worker asks, or while a heartbeat is under way whose answer was made before. So both note how
 * many had come when they began, and what is older than a wake-up for the pipeline does not count.
 */
export class IdlePipelines {
  #idle: ReadonlySet<string> = new Set();
  #isHeard = false;
  #wakeUps = 0;
  readonly #lastWakeUp = new Map<string, number>();
  #changed = Promise.withResolvers<void>();

  /** How many have come. */
  get wakeUps(): number {
    return this.#wakeUps;
  }

  /** Whether wake-ups are heard: if not, nobody rests. */
  set isHeard(isHeard: boolean) {
    this.#isHeard = isHeard;
    if (!isHeard) this.#endRests();
  }

  /** What a heartbeat was answered that began after so many wake-ups. */
  hear({ workers }: Assignment, wakeUps: number): void {
    const idle = workers.filter((each) => each.idle && this.#lastWakeUpOf(each.pipeline) <= wakeUps);
    this.#idle = new Set(idle.map(({ pipeline }) => pipeline));
    for (const pipeline of this.#lastWakeUp.keys())
      if (!workers.some((each) => each.pipeline === pipeline)) this.#lastWakeUp.delete(pipeline);
    this.#endRests();
  }

  /** No heartbeat is answered: pipelines may have something to do that the catalogue can't be told. */
  forget(): void {
    this.#idle = new Set();
    this.#endRests();
  }

  /** These pipelines have something to do. */
  wake(pipelines: readonly string[]): void {
    this.#wakeUps++;
    for (const pipeline of pipelines) this.#lastWakeUp.set(pipeline, this.#wakeUps);
    this.#idle = new Set([...this.#idle].filter((pipeline) => !pipelines.includes(pipeline)));
    this.#endRests();
  }

  /** Waits while a pipeline has nothing to do, of which a worker asked after so many wake-ups. Returns whether it waited. */
  async rest(
    pipeline: string,
    { wakeUps, signal }: { wakeUps: number; signal: AbortSignal },
  ): Promise<boolean> {
    const rests = () => this.#isHeard && this.#idle.has(pipeline) && this.#lastWakeUpOf(pipeline) <= wakeUps;
    if (signal.aborted || !rests()) return false;
    const ended = Promise.withResolvers<void>();
    signal.addEventListener("abort", () => ended.resolve(), { once: true });
    while (!signal.aborted && rests()) await Promise.race([this.#changed.promise, ended.promise]);
    return true;
  }

  #lastWakeUpOf(pipeline: string): number {
    return this.#lastWakeUp.get(pipeline) ?? 0;
  }

  /** Those that still may rest go on to. */
  #endRests(): void {
    this.#changed.resolve();
    this.#changed = Promise.withResolvers();
  }
}

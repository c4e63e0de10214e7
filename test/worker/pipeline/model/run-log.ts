/** What the workers of a run were told, and what the pipeline took from them. */
export class RunLog {
  readonly #successes = new Map<string, string>();
  readonly #failures = new Map<string, number>();
  readonly #lostJobs = new Map<string, "merge" | "push">();

  /** A result was taken. There must be one for each datum under each salt, ever. */
  success({ salt, datum, job }: { salt: number; datum: string; job: string }): void {
    const other = this.successOf({ salt, datum });
    if (other !== undefined) throw new Error(`a result was taken twice, for ${other} and ${job}: ${datum}`);
    this.#successes.set(`${salt} ${datum}`, job);
  }

  /** The job for which a datum was run to its end. */
  successOf({ salt, datum }: { salt: number; datum: string }): string | undefined {
    return this.#successes.get(`${salt} ${datum}`);
  }

  /** A try of a datum failed. */
  failure({ datum, job }: { datum: string; job: string }): void {
    this.#failures.set(`${job} ${datum}`, this.triesOf({ datum, job }) + 1);
  }

  /** A task of a job failed for the last time. */
  taskFailure(job: string, kind: "merge" | "push"): void {
    this.#lostJobs.set(job, kind);
  }

  /** What a job failed of beside its datums. */
  failedTaskOf(job: string): "merge" | "push" | undefined {
    return this.#lostJobs.get(job);
  }

  triesOf({ datum, job }: { datum: string; job: string }): number {
    return this.#failures.get(`${job} ${datum}`) ?? 0;
  }
}

import { MAX_COMMIT_OPERATIONS } from "../../protocol/files.ts";
import type { Operation } from "../branch/contract.ts";
import { afterJob, type ChangeCursor } from "./datums.ts";
import type { Ledger } from "./ledger.ts";
import { type JobContext, yieldToOthers } from "./parts.ts";
import type { OutputRow, Owner } from "./results.ts";

/** Datums looked at before other calls get their turn. */
const PAGE = 200;

/** Which datum's result wrote a path. */
interface Ownership extends Owner {
  readonly path: string;
}

/** What a job's commit does to the output branch, and to what we know of it. */
export interface OutputChange {
  readonly operations: Operation[];
  /** By path: the datum of each put. */
  readonly putBy: ReadonlyMap<string, string>;
  readonly gained: readonly Ownership[];
  readonly lost: readonly Ownership[];
}

export type BuiltChange =
  | { ok: true; change: OutputChange }
  | { ok: false; reason: "too-many" }
  /** The result of a datum was dropped since it was counted as done. */
  | { ok: false; reason: "no-result"; id: string }
  /** Two datums wrote one path. */
  | { ok: false; reason: "same-path"; path: string; ids: readonly [string, string] };

/**
 * The difference between what the job's datums wrote and what the last committed job left. Only datums that were
 * born or died in between are looked at, and only the paths that they wrote.
 */
export async function outputChange(
  ledger: Ledger,
  { job, committed }: { job: JobContext["job"]; committed: number },
): Promise<BuiltChange> {
  const span = { from: committed, to: job.n };
  const builder = new ChangeBuilder(ledger, job.n);
  for await (const datum of pages((page) => ledger.datums.born(span, page), committed)) {
    const problem = builder.addBorn(datum);
    if (problem) return problem;
  }
  for await (const datum of pages((page) => ledger.datums.died(span, page), committed)) {
    const problem = builder.addDied(datum);
    if (problem) return problem;
  }
  return { ok: true, change: builder.build() };
}

type Problem = Extract<BuiltChange, { ok: false }>;

class ChangeBuilder {
  readonly #ledger: Ledger;
  readonly #n: number;
  readonly #puts = new Map<string, OutputRow & { id: string }>();
  readonly #deletes = new Set<string>();
  readonly #gained: Ownership[] = [];
  readonly #lost: Ownership[] = [];

  constructor(ledger: Ledger, n: number) {
    this.#ledger = ledger;
    this.#n = n;
  }

  addBorn({ id, salt }: Owner): Problem | undefined {
    if (!this.#ledger.results.has(id)) return { ok: false, reason: "no-result", id };
    for (const output of this.#ledger.results.outputs(id, salt)) {
      const { path } = output;
      // It died and came back since: what it wrote is there.
      if (this.#isPublished(path, { id, salt })) continue;
      const other = this.#otherWriter(path, id);
      if (other !== undefined) return { ok: false, reason: "same-path", path, ids: [other, id] };
      this.#puts.set(path, { ...output, id });
      this.#gained.push({ path, id, salt });
    }
    return this.#tooMany();
  }

  /** After all births: a path that a new datum writes as well is not deleted. */
  addDied({ id, salt }: Owner): Problem | undefined {
    if (this.#ledger.datums.saltAt(id, this.#n) === salt) return undefined;
    for (const { path } of this.#ledger.results.outputs(id, salt)) {
      this.#lost.push({ path, id, salt });
      if (!this.#puts.has(path) && this.#owners(path).length === 0) this.#deletes.add(path);
    }
    return this.#tooMany();
  }

  build(): OutputChange {
    const puts = [...this.#puts.values()];
    return {
      operations: [
        ...[...this.#deletes].map((path) => ({ delete: path })),
        ...puts.map(({ path, digest, size }) => ({ put: path, digest, size })),
      ],
      putBy: new Map(puts.map(({ path, id }) => [path, id])),
      gained: this.#gained,
      lost: this.#lost,
    };
  }

  /** A datum of this job other than `id` that wrote the file. Any number may leave the same empty directory. */
  #otherWriter(path: string, id: string): string | undefined {
    if (path.endsWith("/")) return undefined;
    return this.#puts.get(path)?.id ?? this.#owners(path).find((owner) => owner !== id);
  }

  /** Datums of the last committed job that wrote the path and belong to this job too. */
  #owners(path: string): string[] {
    const { published, datums } = this.#ledger;
    return published
      .owners(path)
      .filter(({ id, salt }) => datums.saltAt(id, this.#n) === salt)
      .map(({ id }) => id);
  }

  #isPublished(path: string, { id, salt }: Owner): boolean {
    return this.#ledger.published.owners(path).some((owner) => owner.id === id && owner.salt === salt);
  }

  #tooMany(): Problem | undefined {
    const operations = this.#puts.size + this.#deletes.size;
    return operations > MAX_COMMIT_OPERATIONS ? { ok: false, reason: "too-many" } : undefined;
  }
}

type Found = Owner & ChangeCursor;

async function* pages(
  read: (page: { after: ChangeCursor; limit: number }) => Found[],
  from: number,
): AsyncGenerator<Found> {
  let after = afterJob(from);
  for (;;) {
    const page = read({ after, limit: PAGE });
    yield* page;
    const last = page.at(-1);
    if (last === undefined || page.length < PAGE) return;
    after = last;
    await yieldToOthers();
  }
}

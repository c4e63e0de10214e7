import { LEASE_MS } from "../../../../protocol/runner.ts";
import type { SimulatedObject } from "../../platform/objects.ts";
import type { World } from "../../platform/world.ts";
import { type Calm, LONGEST_LATE_MS } from "../mishaps.ts";

/** What of a row stays known once the pipeline has removed it. */
const KEPT = {
  jobs: [
    ...["n", "id", "state", "reason", "revision", "source", "generation", "seq", "positions"],
    ...["total", "processed", "skipped", "failed", "open", "outputCommit", "createdAt", "finishedAt"],
  ],
  attempts: ["job", "id", "key", "state", "lost", "isBad"],
  revisions: ["revision", "spec", "salt", "createdAt"],
};

/** How long the output branch may not know of a lease that was lost, while nothing goes wrong; milliseconds. */
const UNTOLD_MS = 3_000 + LONGEST_LATE_MS;

/** More than a history takes whose clock is not set a day forward; milliseconds. */
const LONG_MS = 12 * 60 * 60_000;

/**
 * Tables beside those of a pipeline, of which it knows nothing and which a crash undoes together with them: rows that it removed, by
 * its uid, and what was done under leases that had run out. When that was done follows from what was written.
 */
const ASIDE = [
  ...Object.entries(KEPT).flatMap(([table, columns]) => {
    const names = columns.map((name) => `"${name}"`).join(", ");
    return [
      `DROP VIEW IF EXISTS temp.all_${table}`,
      `DROP TRIGGER IF EXISTS temp.${table}_go`,
      `DROP TABLE IF EXISTS temp.gone_${table}`,
      `CREATE TEMP TABLE gone_${table} AS SELECT '' AS uid, ${names} FROM ${table} WHERE 0`,
      `CREATE TEMP TRIGGER ${table}_go AFTER DELETE ON main.${table} BEGIN
         INSERT INTO gone_${table} SELECT uid, ${columns.map((name) => `OLD."${name}"`).join(", ")} FROM pipeline; END`,
      `CREATE TEMP VIEW all_${table} AS
         SELECT ${names} FROM gone_${table} WHERE uid = (SELECT uid FROM pipeline)
         UNION ALL SELECT ${names} FROM ${table}`,
    ];
  }),
  ...["attempts_renewed", "tasks_renewed", "attempts_done"].map(
    (name) => `DROP TRIGGER IF EXISTS temp.${name}`,
  ),
  "DROP TABLE IF EXISTS temp.late",
  "CREATE TEMP TABLE late (what TEXT, lease TEXT, until INTEGER, at INTEGER)",
  ...["attempts", "tasks"].map(
    (table) => `CREATE TEMP TRIGGER ${table}_renewed AFTER UPDATE OF leaseUntil ON main.${table}
      WHEN OLD.lease = NEW.lease AND NEW.leaseUntil - ${LEASE_MS} >= OLD.leaseUntil
      BEGIN INSERT INTO late VALUES ('was renewed', OLD.lease, OLD.leaseUntil, NEW.leaseUntil - ${LEASE_MS}); END`,
  ),
  // A sweep that gives a datum up has counted one more worker as lost.
  `CREATE TEMP TRIGGER attempts_done AFTER UPDATE OF state ON main.attempts
    WHEN OLD.state = 'running' AND NEW.state IN ('success', 'failed') AND NEW.lost = OLD.lost
      AND NEW.finishedAt >= OLD.leaseUntil
    BEGIN INSERT INTO late VALUES ('had an outcome recorded', OLD.lease, OLD.leaseUntil, NEW.finishedAt); END`,
];

/** Looks at what a pipeline writes each time that it is on the disk, and sees what was so for a moment alone. */
export class PipelineWatch {
  readonly #object: SimulatedObject;
  readonly #world: World;
  readonly #calm: Calm;
  readonly #wrong = new Set<string>();
  #hasTables = false;
  /** Since when datums have been queued without a break, and how that was the last time. */
  #queuedFrom: number | undefined;
  #lastQueued = { from: 0, to: 0 };
  /** Leases that were lost and of which the output branch does not know, and since when. */
  #untold = new Map<string, number>();

  constructor(object: SimulatedObject, { world, calm }: { world: World; calm: Calm }) {
    this.#object = object;
    this.#world = world;
    this.#calm = calm;
    object.storage.watch({ wrote: () => {}, flushed: () => this.#look(), lost: () => {} });
  }

  /** What was wrong. */
  faults(): string[] {
    if (!this.#hasTables) return [];
    const late = this.#object.storage.read<{ what: string; lease: string; until: number; at: number }>(
      "SELECT what, lease, until, at FROM temp.late",
    );
    return [
      ...this.#wrong,
      ...late
        // Leases last on if the clock jumps ahead.
        .filter(({ until, at }) => at - until < LONG_MS)
        .map(
          ({ what, lease, until, at }) => `the lease ${lease} ${what} ${at - until} ms after it had run out`,
        ),
    ].map((fault) => `pipeline ${this.#object.name}: ${fault}`);
  }

  /** For how long, since a time, datums were queued without a break, the last time that any were; milliseconds. */
  queuedMs(since: number): number {
    const { now } = this.#world;
    const { from, to } =
      this.#queuedFrom === undefined ? this.#lastQueued : { from: this.#queuedFrom, to: now };
    return to - Math.max(from, since);
  }

  #look(): void {
    const { storage } = this.#object;
    if (!this.#hasTables) {
      if (!storage.has("attempts")) return;
      this.#hasTables = true;
      for (const sql of ASIDE) storage.read(sql);
    }
    const twice = storage.read<{ id: string; jobs: string }>(
      `SELECT id, group_concat(job) AS jobs FROM attempts
       WHERE finishedAt IS NULL AND state IN ('queued', 'running') GROUP BY id HAVING count(*) > 1`,
    );
    for (const { id, jobs } of twice)
      this.#wrong.add(`the datum ${id} ran for the jobs ${jobs} at the same time`);
    const unlisted = storage.read<{ job: number; id: string }>(
      `SELECT job, id FROM attempts WHERE state = 'queued' AND NOT EXISTS (
         SELECT 1 FROM queue CROSS JOIN json_each(queue.ids) AS listed
         WHERE queue.job = attempts.job AND listed.value = attempts.id)`,
    );
    for (const { job, id } of unlisted)
      this.#wrong.add(`the datum ${id} is queued for job ${job} on no list`);
    const [queued] = storage.read(
      `SELECT 1 FROM attempts JOIN jobs ON jobs.n = attempts.job
       WHERE attempts.state = 'queued' AND jobs.finishedAt IS NULL
         AND (SELECT state FROM pipeline) = 'active' LIMIT 1`,
    );
    if (this.#calm.is) this.#lookAtLost();
    const { now } = this.#world;
    if (queued) this.#queuedFrom ??= now;
    else if (this.#queuedFrom !== undefined) {
      this.#lastQueued = { from: this.#queuedFrom, to: now };
      this.#queuedFrom = undefined;
    }
  }

  #lookAtLost(): void {
    const { now } = this.#world;
    const lost = this.#object.storage.read<{ lease: string }>(
      "SELECT lease FROM lost_leases WHERE (SELECT state FROM pipeline) IN ('active', 'stopped')",
    );
    for (const [lease, since] of this.#untold)
      if (now - since > UNTOLD_MS)
        this.#wrong.add(
          `the output branch was not told for ${now - since} ms that the lease ${lease} is lost`,
        );
    this.#untold = new Map(lost.map(({ lease }) => [lease, this.#untold.get(lease) ?? now]));
  }
}

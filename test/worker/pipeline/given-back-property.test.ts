import { env, runInDurableObject } from "cloudflare:test";
import { describe, expect, it } from "vitest";
import type { PipelineContext } from "../../../worker/pipeline/context.ts";
import { Ledger } from "../../../worker/pipeline/ledger/ledger.ts";
import { freeUnneeded } from "../../../worker/pipeline/work/trim/trim.ts";
import { randomNumbers } from "../branch/support.ts";
import { specOf } from "./support.ts";

const JOBS = 40;

interface Life {
  readonly id: string;
  readonly from: number;
  /** Null: it lives. */
  readonly until: number | null;
}

/**
 * The rules of work/trim/trim.ts against a naive reading of them: random lives of results and of rows of the history, commits
 * that go in any order (the oldest first, but for single ones), and freeing after some of them, now and then broken off.
 */
describe("what is freed as commits of the output go", () => {
  for (const seed of [1, 2, 3, 4, 5, 6]) {
    it(`is what no commit has that is left, with seed ${seed}`, async () => {
      const stub = env.PIPELINE.getByName(`freed-${seed}`);
      await runInDurableObject(stub, async (_, { storage }) => {
        await simulate(new Ledger(storage), randomNumbers(seed));
      });
    });
  }
});

async function simulate(ledger: Ledger, random: () => number): Promise<void> {
  const below = (n: number): number => Math.floor(random() * n);
  const { sql } = ledger;
  ledger.makeTables();
  const spec = specOf({ name: "freed", globs: { in: "/*" } });
  const by = { key: null, text: null };
  ledger.pipeline.begin({ spec, starts: [], limited: true }, { uid: "u", by, now: 1 });
  ledger.pipeline.setState("active");
  for (let n = 1; n <= JOBS; n++) {
    const commit = random() < 0.7 || n === JOBS ? `c${n}` : null;
    sql.run`
      INSERT INTO jobs (n, id, state, revision, source, generation, seq, positions, fill, filled, tookOver, committing,
        reaping, total, processed, skipped, failed, open, outputCommit, createdAt, finishedAt, version, flushed)
      VALUES (${n}, ${`j${n}`}, 'success', 1, 0, 1, ${n}, '[]', '{}', 1, 1, 0, 0, 0, 0, 0, 0, 0, ${commit}, 1, 1, 1, 1)`;
  }
  const committed = ledger.jobs.keptAfter(0, JOBS).map(({ n }) => n);
  ledger.pipeline.setCommitted(JOBS);
  const results = lives();
  for (const { id, from, until } of results) {
    sql.run`
      INSERT INTO results (id, salt, job, exitCode, millis, code, upload, finishedAt, died)
      VALUES (${id}, '1', ${from}, 0, 1, 1, ${`u-${id}`}, 1, ${until})`;
    sql.run`
      INSERT INTO result_uploads (upload, number, results)
      VALUES (${`u-${id}`}, 1, ${JSON.stringify([[id, "1"]])})`;
    // Some that were gone are there again.
    if (until === null || random() < 0.1) {
      sql.run`INSERT INTO datums (key, born, died, id, salt) VALUES (${id}, ${from}, NULL, ${id}, '1')`;
    }
  }
  const rows = lives().filter(({ from, until }) => committed.includes(from) && isCommitted(until));
  for (const { id, from, until } of rows) {
    make({ path: `p${below(20)}`, id, from, until });
  }
  const kept = new Set(committed);
  while (kept.size > 1) {
    release();
    const isWhole = random() < 0.7 || kept.size === 1;
    await free(isWhole ? Number.MAX_SAFE_INTEGER : below(3));
    if (isWhole) check();
    else for (const id of needed(results)) expect(there()).toContain(id);
  }

  /** What has not ended is published. */
  function make({
    path,
    id,
    from,
    until,
  }: {
    path: string;
    id: string;
    from: number;
    until: number | null;
  }): void {
    if (until === null) {
      sql.run`
        INSERT INTO published (path, born, key, id, salt, digest, size) VALUES (${path}, ${from}, ${id}, ${id}, '1', '', 1)`;
    } else {
      sql.run`
        INSERT INTO made (path, born, key, id, salt, died) VALUES (${path}, ${from}, ${id}, ${id}, '1', ${until})`;
    }
  }

  async function free(slices: number): Promise<void> {
    let left = slices;
    await freeUnneeded({ ledger } as PipelineContext, async (slice) => {
      while (left-- > 0 && ledger.transaction(slice));
    });
  }

  /** The oldest go, but for some that something names; or one of those. */
  function release(): void {
    const oldest = [...kept].sort((a, b) => a - b).slice(0, -1);
    const count = 1 + below(4);
    const gone = (random() < 0.3 ? [oldest[below(oldest.length)] ?? 0] : oldest.slice(0, count))
      .filter((_, index) => index === 0 || random() < 0.8)
      // Only what is before the range can go alone.
      .filter((n) => n <= (ledger.pipeline.row()?.releasedTo ?? 0) || oldest.slice(0, count).includes(n));
    const [first, last] = [gone[0], gone.at(-1)];
    if (first === undefined || last === undefined) return;
    for (const n of gone) kept.delete(n);
    ledger.jobs.release(gone);
    ledger.pipeline.setReleased({ first, last });
  }

  function check(): void {
    expect(there()).toEqual(needed(results));
    const left = sql.all<{ id: string }>`SELECT id FROM made UNION ALL SELECT id FROM published`
      .map(({ id }) => id)
      .sort();
    expect(left).toEqual(needed(rows));
    const given = sql.all<{ upload: string }>`SELECT upload FROM given_up`.map(({ upload }) =>
      upload.slice(2),
    );
    expect([...given, ...there()].sort()).toEqual(results.map(({ id }) => id).sort());
  }

  function there(): string[] {
    return sql.all<{ id: string }>`SELECT id FROM results`.map(({ id }) => id).sort();
  }

  /** What has a commit that is kept, ended after the range of those begins, or is alive. */
  function needed(all: readonly Life[]): string[] {
    const { releasedTo = 0 } = ledger.pipeline.row() ?? {};
    const begin = [...kept].filter((n) => n > releasedTo).sort((a, b) => a - b)[0] ?? 0;
    const alive = new Set(sql.all<{ id: string }>`SELECT id FROM datums`.map(({ id }) => id));
    const isNeeded = ({ id, from, until }: Life): boolean =>
      until === null ||
      (all === results && alive.has(id)) ||
      releasedTo === 0 ||
      until > begin ||
      [...kept].some((n) => n >= from && n < until);
    return all
      .filter(isNeeded)
      .map(({ id }) => id)
      .sort();
  }

  function lives(): Life[] {
    return Array.from({ length: 120 }, (_, index) => {
      const from = 1 + below(JOBS);
      const until = random() < 0.15 ? null : from + 1 + below(JOBS - from + 1);
      return { id: `${index}`.padStart(3, "0"), from, until };
    });
  }

  function isCommitted(n: number | null): boolean {
    return n === null || committed.includes(n);
  }
}

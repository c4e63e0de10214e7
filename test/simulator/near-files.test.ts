import { afterEach, beforeEach, expect, test, vi } from "vitest";
import { NearFiles } from "../../worker/near-files.ts";
import { REST } from "../support/suite.ts";
import { planOf } from "./history/plan.ts";
import { runHistory } from "./history/run.ts";

/*
 * The entry keeps the rows of files that were read, as on Cloudflare, where the objects are somewhere else, and takes bytes out of
 * a cache that is late. Of the newest state, of tags and of open commits each answer must be true of some moment between question
 * and answer, as of any read; of a commit also of one in the five seconds before, and so of the newest state where a branch is set so: but whoever asks after somebody was told of a commit sees
 * nothing older. In histories in which most steps read, and
 * the others change what reads show. In the end the cache has no copy of what is gone.
 */

/** How often kinds of steps occur beside each other. */
const WEIGHTS = {
  ...{ "S3 request": 30, "S3 read of a commit": 15, "S3 read of a tag": 6, "S3 read of an open commit": 4 },
  ...{ put: 4, delete: 2, commit: 2, erase: 2, set: 2, create: 1, destroy: 1, keep: 1 },
  ...{ "near reads": 4, "S3 reads around a write": 8 },
};

/** No generation of a history has so many. */
const MOST_COMMITS = 1_000_000;

/** Nothing of the newest state is answered out of the memory of the objects. */
const VARS = {
  ...{ SLUICE_READ_MEMORY: "off", SLUICE_BLOB_CACHE: "on" },
  ...{ SLUICE_ROW_CACHE: "on", SLUICE_COMMIT_CACHE: "on", SLUICE_NEAR_CACHE: "on" },
};

// What went wrong is said in the log, and wrong it goes all the time.
beforeEach(() => {
  vi.spyOn(console, "warn").mockImplementation(() => {});
});

afterEach(() => {
  vi.restoreAllMocks();
});

test("what is kept near the reader is never stale: in 60 histories", async () => {
  const { wrong, answered } = await histories({ from: 0, to: 60 });
  expect(wrong).toEqual([]);
  for (const by of ["unchanged newest", "cache commit", "cache newest"])
    expect(answered.get(by), by).toBeGreaterThan(50);
  expect(answered.get("unchanged commit")).toBeGreaterThan(3);
});

// Parts, each of which ends long before a test's time is up.
const MORE = "what is kept near the reader is never stale: in 200 more, from seed %i on";
test.each([60, 260, 460])(MORE, REST, async (from) => {
  expect((await histories({ from, to: from + 200 })).wrong).toEqual([]);
});

/** What is wrong in the histories of some seeds, and how often reads of what were answered by what. */
async function histories({ from, to }: { from: number; to: number }): Promise<{
  wrong: string[];
  answered: Map<string, number>;
}> {
  const answered = new Map<string, number>();
  const wrong: string[] = [];
  const read = NearFiles.prototype.read;
  /** The newest state of each branch that anybody was told of. */
  const newest = new Map<string, number>();
  vi.spyOn(NearFiles.prototype, "read").mockImplementation(async function (this: NearFiles, of, asking) {
    const before = newest.get(of.bucket) ?? 0;
    const told = await read.call(this, of, asking);
    const { by, answer } = told;
    const at = "at" in answer && answer.at ? answer.at.gen * MOST_COMMITS + answer.at.seq : undefined;
    if (at !== undefined && at < before)
      wrong.push(
        `${of.path} of ${of.bucket} is ${by === "cache" ? "" : "told "}as at ${at}, and ${before} was seen`,
      );
    newest.set(of.bucket, Math.max(newest.get(of.bucket) ?? 0, at ?? 0));
    const kind = `${by} ${answer.ok && answer.lasting ? "commit" : "newest"}`;
    answered.set(kind, (answered.get(kind) ?? 0) + 1);
    return told;
  });
  for (let seed = from; seed < to; seed++) {
    newest.clear();
    const plan = planOf(seed, { clients: 4, steps: 25, weights: WEIGHTS });
    // Where nothing goes wrong, objects live for long enough to say that something is unchanged.
    const { faults } = await runHistory({ ...plan, isCalm: seed % 2 === 1, vars: VARS });
    if (faults.length > 0) wrong.push(`seed ${seed}: ${faults.join("\n")}`);
  }
  return { wrong, answered };
}

import { decodeTime } from "ulid";
import { afterEach, beforeEach, expect, test, vi } from "vitest";
import { restarted } from "./large-support.ts";
import { begin, committed, freshBranch, freshBucket, inline } from "./support.ts";

const HOUR_MS = 60 * 60_000;
const clock = { aheadMs: 0 };

beforeEach(() => {
  const now = Date.now;
  clock.aheadMs = 0;
  vi.spyOn(Date, "now").mockImplementation(() => now() + clock.aheadMs);
});

afterEach(() => {
  vi.restoreAllMocks();
});

test("ids of commits begin with their times and grow though the clock is set back, also over a restart", async () => {
  const branch = await freshBranch(freshBucket());
  const put = async (path: string) =>
    committed(await branch.files.put({ path, content: inline(path), attributes: {} }));
  await put("a");
  clock.aheadMs += 1000;
  // What is no commit has an id of a time that is soon ahead.
  await begin(branch);
  clock.aheadMs -= HOUR_MS;
  await put("b");
  await put("c");
  await restarted(branch);
  await put("d");
  clock.aheadMs += 2 * HOUR_MS;
  await put("e");
  const log = await branch.history.list({ limit: 10 });
  if (!log.ok) throw new Error(log.reason);
  const commits = log.commits.toReversed();
  expect(commits).toHaveLength(5);
  expect(commits.map(({ id }) => id)).toEqual(commits.map(({ id }) => id).sort());
  for (const { id, createdAt } of commits) expect(decodeTime(id)).toBe(createdAt);
});

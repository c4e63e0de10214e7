// @module-tag rest
import { afterEach, beforeEach, expect, test, vi } from "vitest";
import { rowsOf } from "../fork-support.ts";
import { expectRefsRight } from "../large-support.ts";
import {
  api,
  blobsOf,
  contentOf,
  erase,
  forkHoldsOf,
  idOf,
  numbers,
  pathOf,
  putAnew,
  unheard,
  write,
} from "../on-loan-support.ts";
import {
  type BranchStub,
  branchOf,
  committed,
  freshBranch,
  freshBucket,
  ledgerOf,
  listed,
} from "../support.ts";
import { alarmOf, Effects, passTime } from "./effects.ts";

/** More than an erasure takes out of its tables itself. */
const FILES = 25;
/** More effects than the work has. */
const MOST_EFFECTS = 100;
/** Fewer than it has in all branches: an erasure, a PUT, what is told, and what goes. */
const FEWEST_EFFECTS = 9;
const MINUTE_MS = 60_000;

let effects: Effects;

beforeEach(() => {
  effects = new Effects();
});

afterEach(() => {
  effects.end();
  vi.restoreAllMocks();
});

/** Makes a fork, whose rows come while its alarm rings. */
async function fork(parent: string): Promise<string> {
  const bucket = freshBucket();
  expect(await branchOf(bucket).lifecycle.fork({ parent })).toMatchObject({ ok: true });
  await expect
    .poll(async () => await branchOf(bucket).lifecycle.inspect())
    .toMatchObject({ fork: { ready: true } });
  return bucket;
}

/** Three branches, each made from the one before. The first two have erased what the last one has copies of. */
async function chain() {
  const from = freshBucket();
  const files = numbers(FILES).map((n) => ({ path: pathOf(n), content: contentOf(n) }));
  const versions = await write(api(await freshBranch(from)), files);
  const middle = await fork(from);
  const last = await fork(middle);
  const operations = numbers(FILES).map((n) => ({ put: `copy/${n}`, ...idOf(n) }));
  const version = committed(await branchOf(last).files.commit({ operations })) ?? "";
  expect(await erase(from, versions)).toMatchObject({ ok: true });
  const copies = operations.map(({ put: path }) => ({ path, version }));
  const branches = (): BranchStub[] => [from, middle, last].map(branchOf);
  expect(await Promise.all(branches().map(forkHoldsOf).slice(0, 2))).toEqual([FILES, FILES]);
  return { last, copies, branches };
}

test.each([
  "gateway",
  "object",
] as const)("what a chain of forks gives back goes from all, and what is put again meanwhile stays, wherever the %s dies", {
  timeout: 600_000,
}, async (of) => {
  const again = FILES - 1;
  for (let effect = 1; ; effect++) {
    expect(effect).toBeLessThan(MOST_EFFECTS);
    const { last, copies, branches } = await chain();
    const work = async (): Promise<void> => {
      await erase(last, copies);
      await putAnew(api(branchOf(last)), again);
      await passTime(effects, MINUTE_MS, branches());
    };
    const { died, acknowledged } = await effects.crash({ effect, of }, work, branches);
    // Whoever had asked asks again.
    await erase(last, copies);
    await passTime(effects, 10 * MINUTE_MS, branches());
    const [first, middle, end] = branches() as [BranchStub, BranchStub, BranchStub];
    expect([await forkHoldsOf(first), await forkHoldsOf(middle)]).toEqual([0, 0]);
    expect([await unheard(middle), await unheard(end)]).toEqual([0, 0]);
    expect(await ledgerOf(first)).toMatchObject({ refs: [], blobs: [], condemned: [] });
    expect([await rowsOf(middle), await rowsOf(end)]).toMatchObject([{ onLoan: 0 }, { onLoan: 0 }]);
    const there = await listed(end);
    if (acknowledged) expect(there).toEqual([pathOf(again)]);
    for (const path of there) expect(await blobsOf(end, path)).toEqual([`new/${again}`]);
    for (const branch of branches()) await expectRefsRight(branch);
    expect(await alarmOf(first)).toBeNull();
    if (died) continue;
    expect(effect).toBeGreaterThan(FEWEST_EFFECTS);
    break;
  }
});

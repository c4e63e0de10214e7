import { runDurableObjectAlarm, runInDurableObject } from "cloudflare:test";
import { afterEach, beforeEach, describe, expect, test, vi } from "vitest";
import { contentName } from "../../../protocol/content.ts";
import { parseBucketName } from "../../../protocol/names.ts";
import { forks } from "../../../worker/branch/calls/forks.ts";
import type { BranchApi } from "../../../worker/branch/contract/api.ts";
import type { ForkCalls } from "../../../worker/branch/contract/forks.ts";
import { Ledger } from "../../../worker/branch/ledger/ledger.ts";
import { eraseThroughForks } from "../../../worker/erase.ts";
import { atRest, forkOf, rowsOf } from "./fork-support.ts";
import { expectRefsRight, restarted } from "./large-support.ts";
import {
  api,
  blobsOf,
  contentOf,
  erase,
  forkHoldsOf,
  type Held,
  held,
  idOf,
  numbers,
  pathOf,
  putAnew,
  unheard,
  withCopies,
  write,
} from "./on-loan-support.ts";
import {
  type BranchStub,
  branchOf,
  committed,
  freshBranch,
  freshBucket,
  inObject,
  ledgerOf,
  startOpenCommit,
} from "./support.ts";

/** More than an erasure takes out of its tables itself. */
const MANY = 30;
const HOUR_MS = 60 * 60 * 1000;

beforeEach(() => {
  vi.spyOn(console, "warn").mockImplementation(() => {});
});

afterEach(() => {
  vi.restoreAllMocks();
});

/** Everything was told: the parent has no bytes for the fork any more. */
async function expectGivenBack({ parent, branch }: Held): Promise<void> {
  await expect.poll(() => unheard(branch)).toBe(0);
  expect(await forkHoldsOf(parent)).toBe(0);
  const left = async () => {
    await atRest(branch, parent);
    return await ledgerOf(parent);
  };
  // An alarm that rings by itself may go on behind.
  await expect.poll(left).toMatchObject({ refs: [], blobs: [], condemned: [] });
  expect(await rowsOf(branch)).toMatchObject({ onLoan: 0 });
}

describe("bytes that a fork has of its parent", () => {
  test("and erases are its own once they are put again, before its alarm rings, too", async () => {
    const world = await held(MANY);
    const { branch, copies } = world;
    await inObject(branch, async (object) => {
      expect(await object.erasures.erase({ versions: copies })).toMatchObject({ ok: true });
      for (const n of numbers(MANY).reverse()) await putAnew(object, n);
    });
    await expectGivenBack(world);
    for (const n of numbers(MANY)) expect(await blobsOf(branch, pathOf(n))).toEqual([`new/${n}`]);
    expect(await ledgerOf(branch)).toMatchObject({ condemned: [] });
    await expectRefsRight(branch);
  });

  test.each<[string, (object: BranchApi) => Promise<void>]>([
    [
      "a reservation",
      async (object) => {
        const opened = await object.uploads.open({});
        if (!opened.ok) throw new Error(opened.reason);
        expect(await object.uploads.reserve({ ...opened, contents: [idOf(MANY - 1)] })).toMatchObject({
          missing: [idOf(MANY - 1)],
        });
      },
    ],
    [
      "a commit by digest",
      async (object) => {
        const operations = [{ put: "by digest", ...idOf(MANY - 1) }];
        expect(await object.files.commit({ operations })).toMatchObject({ ok: false });
      },
    ],
    [
      "an open commit",
      async (object) => {
        const opened = await object.openCommits.start({ ttlMs: 60_000 });
        if (!opened.ok) throw new Error(opened.reason);
        const { openCommit } = opened;
        const operations = [{ put: "staged", ...idOf(MANY - 1) }];
        expect(await object.files.commit({ openCommit, operations })).toMatchObject({ ok: false });
      },
    ],
  ])("and needs no more are not there for %s", async (_, use) => {
    const world = await held(MANY);
    await inObject(world.branch, async (object) => {
      await object.erasures.erase({ versions: world.copies });
      await use(object);
    });
    await expectGivenBack(world);
  });

  test("are held for an upload and an open commit, too, and given back when these end", async () => {
    const from = freshBucket();
    const parent = await freshBranch(from);
    const versions = await write(
      api(parent),
      [0, 1].map((n) => ({ path: pathOf(n), content: contentOf(n) })),
    );
    const { branch, bucket } = await forkOf(from);
    const opened = await branch.uploads.open({});
    if (!opened.ok) throw new Error(opened.reason);
    const { upload } = opened;
    await branch.uploads.reserve({ upload, contents: [idOf(0)] });
    const openCommit = await startOpenCommit(branch);
    await branch.files.commit({ openCommit, operations: [{ put: "staged", ...idOf(1) }] });
    expect(await erase(from, versions)).toMatchObject({ ok: true, onLoanTo: [{ bucket }, { bucket }] });
    expect(await forkHoldsOf(parent)).toBe(2);
    await branch.uploads.abort({ upload });
    await branch.openCommits.abort({ openCommit });
    await expectGivenBack({ from, parent, bucket, branch, copies: [] });
  });

  test("stay if one transaction lets go of them and keeps them again, and go at the end of the one that does not", async () => {
    const { parent, branch } = await held(1);
    await runInDurableObject(branch, (_, { storage }) => {
      const ledger = new Ledger(storage);
      expect(ledger.exists).toBe(true);
      const { contents } = ledger;
      const gen = ledger.live?.gen ?? 0;
      const content = { ...idOf(0), gen };
      ledger.transaction(() => {
        contents.release(content);
        contents.removeReleased(1);
        contents.keep(content, 1);
      });
      expect(contents.has(content)).toBe(true);
      expect(ledger.giveBacks.newest).toBe(0);
      ledger.transaction(() => {
        contents.releaseMany([[contentName(content), 1]], gen);
        expect(contents.has(content)).toBe(true);
      });
      expect(contents.has(content)).toBe(false);
      expect(ledger.giveBacks.oldest(gen, 5)).toEqual([{ ...idOf(0), number: 1 }]);
      expect(() => ledger.transaction(() => contents.keep(content, 1))).toThrow("is not there");
      const many = [[contentName(content), 1]] as const;
      expect(() => ledger.transaction(() => contents.keepMany(many, { gen, named: 1 }))).toThrow(
        "are not there",
      );
      // What a transaction did that came to nothing is not given back.
      ledger.transaction(() => contents.add(contentOf(2), { gen, now: 1, named: 1 }));
      storage.sql.exec("UPDATE contents SET onLoan = 1");
      const undone = () =>
        ledger.transaction(() => {
          contents.release({ ...idOf(2), gen });
          throw new Error("undone");
        });
      expect(undone).toThrow("undone");
      expect(ledger.giveBacks.newest).toBe(1);
      storage.sql.exec("UPDATE contents SET onLoan = 0");
    });
    await restarted(branch);
    await branch.lifecycle.status();
    await expect.poll(() => forkHoldsOf(parent)).toBe(0);
  });
});

describe("what a fork gives back", () => {
  test("is told in calls of at most 1,000, and forgotten once the parent has heard", async () => {
    const world = await held(1100);
    const away = vi.spyOn(forks, "giveBack").mockImplementation(async () => {
      throw new Error("away");
    });
    for (let from = 0; from < 1100; from += 1000) {
      await world.branch.erasures.erase({ versions: world.copies.slice(from, from + 1000) });
    }
    expect(await unheard(world.branch)).toBe(1100);
    away.mockRestore();
    const calls = vi.spyOn(forks, "giveBack");
    await expectGivenBack(world);
    const told = calls.mock.calls.map(([, { contents }]) => contents.length);
    expect(told).toEqual([1000, 100]);
  });

  test("wins over a hold whose answer is older: the fork is asked again", async () => {
    const { parent, branch, versions, copies } = await withCopies(2);
    const held = await parent.erasures.erase({ versions });
    if (held.ok || held.reason !== "held-by-forks") throw new Error("not held");
    const [{ fork, paths, contents, given } = { fork: "", paths: [], contents: [], given: -1 }] = held.forks;
    const first = await branch.forks.copies({ fork, paths, contents, given });
    if (!first.ok) throw new Error(first.reason);
    await branch.erasures.erase({ versions: first.versions });
    const answer = await branch.forks.copies({ fork, paths, contents, given });
    if (!answer.ok) throw new Error(answer.reason);
    expect(answer).toMatchObject({ versions: [], has: contents, number: 0 });
    await branch.erasures.erase({ versions: copies.slice(0, 1) });
    await expect.poll(() => unheard(branch)).toBe(0);
    const { has, number = -1 } = answer;
    expect(await parent.erasures.erase({ versions, forks: [{ fork, has, number }] })).toMatchObject({
      reason: "held-by-forks",
      forks: [{ fork, given: 1 }],
    });
    const again = await branch.forks.copies({ fork, paths, contents, given: 1 });
    expect(again).toMatchObject({ has: [idOf(1)], number: 1 });
    expect(
      await parent.erasures.erase({ versions, forks: [{ fork, has: [idOf(1)], number: 1 }] }),
    ).toMatchObject({
      ok: true,
    });
    expect(await forkHoldsOf(parent)).toBe(1);
    await branch.erasures.erase({ versions: copies.slice(1) });
    await expect.poll(() => forkHoldsOf(parent)).toBe(0);
  });

  test("is asked about again by the gateway alone, however often something is given back meanwhile", async () => {
    const { from, parent, branch, versions, copies } = await withCopies(3);
    let gaveBack = 0;
    const branches = (of: { repo: string; branch: string }) => {
      const asked = branchOf(`${of.branch}.${of.repo}`);
      const copiesOf = async (request: Parameters<ForkCalls["copies"]>[0]) => {
        const answer = await asked.forks.copies(request);
        // Between the answer and the hold.
        if (answer.ok && answer.versions.length === 0 && gaveBack < 2) {
          await branch.erasures.erase({ versions: copies.slice(gaveBack, gaveBack + 1) });
          gaveBack++;
          await expect.poll(() => unheard(branch)).toBe(0);
        }
        return answer;
      };
      return { erasures: asked.erasures, forks: { copies: copiesOf } };
    };
    const address = parseBucketName(from) ?? { repo: "", branch: "" };
    const erasing = { address, versions, forks: { mayErase: () => true } };
    expect(await eraseThroughForks(branches, erasing)).toMatchObject({ ok: true, onLoanTo: [idOf(2)] });
    expect(gaveBack).toBe(2);
    expect(await forkHoldsOf(parent)).toBe(1);
    expect((await ledgerOf(parent)).blobs).toEqual([["old/2", 1]]);
  });

  test("may be told twice or late, of what the parent has by itself since, and to a branch that does not know the fork", async () => {
    const world = await held(2);
    const { parent, branch, copies } = world;
    const fork = await runInDurableObject(branch, (_, { storage: { sql } }) =>
      String(sql.exec("SELECT uid FROM forks").one().uid),
    );
    await branch.erasures.erase({ versions: copies });
    await expect.poll(() => forkHoldsOf(parent)).toBe(0);
    await putAnew(api(parent), 0);
    for (const number of [2, 1, 2]) {
      expect(await parent.forks.giveBack({ fork, contents: [idOf(0), idOf(1)], number })).toEqual({
        ok: true,
      });
    }
    await atRest(parent, branch);
    expect(await blobsOf(parent, pathOf(0))).toEqual(["new/0"]);
    await expectRefsRight(parent);
    expect(
      await runInDurableObject(parent, (_, { storage: { sql } }) =>
        sql.exec("SELECT given FROM roots").one(),
      ),
    ).toEqual({ given: 2 });
    expect(await parent.forks.giveBack({ fork: "unknown", contents: [idOf(0)], number: 1 })).toEqual({
      ok: true,
    });
    const never = branchOf(freshBucket());
    expect(await never.forks.giveBack({ fork, contents: [idOf(0)], number: 1 })).toEqual({ ok: true });
  });

  test("is told again until the parent answers, also after a crash", async () => {
    const world = await held(1);
    const { parent, branch, copies } = world;
    const away = vi.spyOn(forks, "giveBack").mockImplementation(async () => {
      throw new Error("away");
    });
    await branch.erasures.erase({ versions: copies });
    await expect.poll(() => away.mock.calls.length).toBeGreaterThan(0);
    expect(await unheard(branch)).toBe(1);
    away.mockRestore();
    await restarted(branch);
    await atRest(branch);
    await expect.poll(() => forkHoldsOf(parent)).toBe(0);
    await expectGivenBack(world);
  });

  test("goes through a fork in the middle of three, when that has it no more either", async () => {
    const from = freshBucket();
    const parent = await freshBranch(from);
    const versions = await write(api(parent), [{ path: "a", content: contentOf(0) }]);
    const middle = await forkOf(from);
    const last = await forkOf(middle.bucket);
    const version =
      committed(await last.branch.files.commit({ operations: [{ put: "copy", ...idOf(0) }] })) ?? "";
    expect(await erase(from, versions)).toMatchObject({ ok: true });
    expect([await forkHoldsOf(parent), await forkHoldsOf(middle.branch)]).toEqual([1, 1]);
    await atRest(parent, middle.branch, last.branch);
    expect((await ledgerOf(parent)).blobs).toEqual([["old/0", 1]]);
    await last.branch.erasures.erase({ versions: [{ path: "copy", version }] });
    await expectGivenBack({ from, parent, bucket: last.bucket, branch: last.branch, copies: [] });
    expect(await rowsOf(middle.branch)).toMatchObject({ onLoan: 0 });
    expect(await forkHoldsOf(middle.branch)).toBe(0);
  });

  test("is also what it loses by deletion and retention", async () => {
    const world = await held(3);
    const { parent, branch } = world;
    committed(await branch.files.commit({ operations: [{ delete: "copy/0" }, { delete: "copy/1" }] }));
    await atRest(parent, branch);
    expect(await forkHoldsOf(parent)).toBe(3);
    expect(await branch.settings.change({ keep: { commits: 1 } })).toMatchObject({ ok: true });
    const left = async () => {
      await atRest(parent, branch);
      return (await ledgerOf(parent)).blobs;
    };
    await expect.poll(left).toEqual([["old/2", 1]]);
    expect(await forkHoldsOf(parent)).toBe(1);
    expect(await blobsOf(branch, "copy/2")).toEqual(["old/2"]);
  });

  test("has higher numbers than the parent has heard, also from an object that was set back", async () => {
    const { parent, branch, copies } = await held(2);
    await branch.erasures.erase({ versions: copies.slice(0, 1) });
    await expect.poll(() => forkHoldsOf(parent)).toBe(1);
    await runInDurableObject(branch, (_, { storage: { sql } }) => {
      sql.exec("UPDATE give_back_clock SET number = 0");
    });
    const fork = await runInDurableObject(branch, (_, { storage: { sql } }) =>
      String(sql.exec("SELECT uid FROM forks").one().uid),
    );
    expect(await branch.forks.copies({ fork, paths: [], contents: [idOf(1)], given: 1 })).toMatchObject({
      has: [idOf(1)],
      number: 1,
    });
    await branch.erasures.erase({ versions: copies.slice(1) });
    await expect.poll(() => forkHoldsOf(parent)).toBe(0);
  });
});

describe("a branch with holds of forks", () => {
  /** When it asks the fork next, and how long it waits after that. */
  const asksOf = (branch: BranchStub) =>
    runInDurableObject(branch, (_, { storage: { sql } }) =>
      sql
        .exec("SELECT due, wait FROM fork_hold_asks")
        .toArray()
        .map(({ due, wait }) => ({ inMs: Number(due) - Date.now(), wait: Number(wait) })),
    );
  const alarmIn = (branch: BranchStub) =>
    runInDurableObject(branch, async (_, { storage }) => ((await storage.getAlarm()) ?? NaN) - Date.now());
  const askNow = async (branch: BranchStub) => {
    await runInDurableObject(
      branch,
      (_, { storage: { sql } }) => void sql.exec("UPDATE fork_hold_asks SET due = 1"),
    );
    await runDurableObjectAlarm(branch);
  };

  test("asks the fork an hour after, then at doubling times up to once a week, and no more when it has none", async () => {
    const { parent, branch, copies } = await held(2);
    await atRest(branch, parent);
    const [first] = await asksOf(parent);
    expect(first).toEqual({ inMs: expect.any(Number), wait: HOUR_MS });
    expect(await alarmIn(parent)).toBeLessThanOrEqual(HOUR_MS);
    const waits: number[] = [];
    for (let ask = 0; ask < 9; ask++) {
      await askNow(parent);
      const [next] = await asksOf(parent);
      waits.push((next?.wait ?? 0) / HOUR_MS);
      expect(next?.inMs).toBeLessThanOrEqual(next?.wait ?? 0);
      expect(await alarmIn(parent)).toBeLessThanOrEqual(next?.wait ?? 0);
    }
    expect(waits).toEqual([2, 4, 8, 16, 32, 64, 128, 168, 168]);
    expect(await forkHoldsOf(parent)).toBe(2);
    await branch.erasures.erase({ versions: copies });
    await expect.poll(() => forkHoldsOf(parent)).toBe(0);
    expect(await asksOf(parent)).toEqual([]);
    await atRest(branch, parent);
    expect(await alarmIn(parent)).toBeNaN();
  });

  test("learns so of what it was never told, and of nothing from a fork that can't be asked", async () => {
    const world = await held(30);
    const { parent, branch, copies } = world;
    const away = vi.spyOn(forks, "giveBack").mockImplementation(async () => {
      throw new Error("away");
    });
    await branch.erasures.erase({ versions: copies.slice(1) });
    await expect.poll(() => away.mock.calls.length).toBeGreaterThan(0);
    // As an object leaves it that was set back.
    await runInDurableObject(branch, (_, { storage: { sql } }) => {
      for (const table of ["give_backs", "outbox"]) sql.exec(`DELETE FROM ${table}`);
    });
    away.mockRestore();
    const asked = vi.spyOn(forks, "copies").mockImplementation(async () => {
      throw new Error("away");
    });
    await askNow(parent);
    expect([await forkHoldsOf(parent), asked.mock.calls.length]).toEqual([30, 1]);
    asked.mockResolvedValue({ ok: true, versions: [], has: [] });
    await askNow(parent);
    expect([await forkHoldsOf(parent), asked.mock.calls.length]).toEqual([30, 2]);
    asked.mockRestore();
    await askNow(parent);
    expect(await forkHoldsOf(parent)).toBe(1);
    await atRest(parent, branch);
    expect((await ledgerOf(parent)).blobs).toEqual([["old/0", 1]]);
    await branch.erasures.erase({ versions: copies.slice(0, 1) });
    await expectGivenBack(world);
  });

  test("has none for a fork that was gone before it was held for", async () => {
    const { parent, branch, versions } = await withCopies(1);
    const held = await parent.erasures.erase({ versions });
    if (held.ok || held.reason !== "held-by-forks") throw new Error("not held");
    const forks = held.forks.map(({ fork }) => ({ fork, has: [idOf(0)], number: 0 }));
    expect(await branch.lifecycle.destroy()).toEqual({ ok: true });
    await expect.poll(async () => (await rowsOf(parent)).roots).toBe(0);
    expect(await parent.erasures.erase({ versions, forks })).toMatchObject({ ok: true });
    expect(await forkHoldsOf(parent)).toBe(0);
  });
});

import { runInDurableObject } from "cloudflare:test";
import { describe, expect, test, vi } from "vitest";
import type { Reach } from "../../../worker/branch/calls/facet.ts";
import { uploads } from "../../../worker/branch/calls/uploads.ts";
import type { Operation } from "../../../worker/branch/contract/files.ts";
import { CommitClock } from "../../../worker/branch/ledger/clock.ts";
import { Ledger } from "../../../worker/branch/ledger/ledger.ts";
import { justAfter, rangeOf, subtree } from "../../../worker/branch/tree/path-ranges.ts";
import { commitChanges, putFile } from "../../../worker/branch/write/commit.ts";
import { finishOpenCommit } from "../../../worker/branch/write/finish.ts";
import { PutQueue } from "../../../worker/branch/write/put-queue.ts";
import { setTags } from "../../../worker/branch/write/set-tags.ts";
import { comparePaths } from "../../../worker/core/path-order.ts";
import { freshBranch, inline, put, stage, startOpenCommit } from "./support.ts";

describe("the clock of commits", () => {
  function clockOver(stored = { promised: 0, newestCommit: 0 }) {
    const saved: number[] = [];
    const clock = new CommitClock({ load: () => stored, save: (promised) => saved.push(promised) });
    clock.load();
    return { clock, saved };
  }
  const durable = { durable: true };

  test("a commit is later than every `now` that was told, also when the clock goes back", () => {
    const { clock } = clockOver();
    expect(clock.promise(100, durable)).toBe(100);
    expect(clock.next(100)).toBe(101);
    expect(clock.next(50)).toBe(101);
    expect(clock.promise(50, durable)).toBe(101);
    expect(clock.next(60)).toBe(102);
  });

  test("a burst of commits does not run ahead of the clock", () => {
    const { clock } = clockOver();
    expect([clock.next(100), clock.next(100), clock.next(100)]).toEqual([100, 100, 100]);
  });

  test("not each promise is a write, and after a restart none is broken", () => {
    const { clock, saved } = clockOver();
    for (let now = 1000; now < 1500; now++) clock.promise(now, durable);
    expect(saved).toHaveLength(1);
    const { clock: restarted } = clockOver({ promised: saved[0] ?? 0, newestCommit: 0 });
    expect(restarted.next(900)).toBeGreaterThan(1499);
  });

  test("after a restart with the clock back, a commit is later than the newest one", () => {
    const { clock } = clockOver({ promised: 0, newestCommit: 500 });
    expect(clock.next(100)).toBe(501);
  });
});

describe("the order of paths", () => {
  const byOrder = [
    "",
    "a",
    "a-",
    "a/",
    "a/b",
    "a0",
    "b",
    "\u007f",
    "é",
    "\uD7FF",
    "\uE000",
    "\uFFFF",
    "\u{10000}",
    "\u{1F600}",
  ];

  test("is that of the bytes", () => {
    expect(byOrder.toReversed().sort(comparePaths)).toEqual(byOrder);
    expect(comparePaths("a", "a")).toBe(0);
  });

  test.each([
    "a",
    "\uD7FF",
    "\u{1F600}",
    "a\u{10FFFF}",
  ])("a prefix's range ends right behind what starts with %j", (prefix) => {
    const { lower, upper } = rangeOf(prefix);
    if (typeof upper !== "string") throw new Error("no end");
    for (const inside of [prefix, `${prefix}\u{10FFFF}`]) {
      expect(comparePaths(inside, lower)).toBeGreaterThanOrEqual(0);
      expect(comparePaths(inside, upper)).toBeLessThan(0);
    }
    expect(upper.startsWith(prefix)).toBe(false);
  });

  test("no prefix, and one of the last character, have no end", () => {
    expect([rangeOf("").upper, rangeOf("\u{10FFFF}").upper]).toEqual([new Uint8Array(0), new Uint8Array(0)]);
  });

  test("a subtree holds what is below a directory, and nothing beside it", () => {
    const { lower, upper } = subtree("a/");
    expect(byOrder.filter((path) => path >= lower && path < upper)).toEqual(["a/", "a/b"]);
    expect(justAfter("a") < "a-").toBe(true);
  });
});

describe("the queue of puts", () => {
  test("what comes while a batch is made durable is the next batch", async () => {
    const batches: number[][] = [];
    const gate = Promise.withResolvers<void>();
    const queue = new PutQueue<number, number>({
      run: (items) => {
        batches.push([...items]);
        return items.map((item) => item * 10);
      },
      durable: () => gate.promise,
      turn: async () => {},
    });
    const answers = [1, 2, 3].map((item) => queue.add(item));
    expect(batches).toEqual([[1]]);
    gate.resolve();
    expect(await Promise.all(answers)).toEqual([10, 20, 30]);
    expect(batches).toEqual([[1], [2, 3]]);
  });

  test("of a batch that throws, only the item at fault fails", async () => {
    const queue = new PutQueue<string, string>({
      run: (items) => {
        if (items.includes("bad")) throw new Error("at fault");
        return [...items];
      },
      durable: async () => {},
      turn: async () => {},
    });
    const settled = await Promise.allSettled(
      ["first", "good", "bad", "better"].map((item) => queue.add(item)),
    );
    expect(settled.map(({ status }) => status)).toEqual(["fulfilled", "fulfilled", "rejected", "fulfilled"]);
  });
});

describe("a full branch", () => {
  test("takes commits of deletions alone, until there is no room for these either, and says so in the log", async () => {
    const warn = vi.spyOn(console, "warn").mockImplementation(() => {});
    const branch = await freshBranch();
    await put(branch, "a");
    await runInDurableObject(branch, (_, { storage }) => {
      const answers = [7.9e9, 8e9, 9.4e9, 9.6e9, 9.9e9].map((databaseSize) => {
        const ledger = new Ledger({
          sql: { exec: storage.sql.exec.bind(storage.sql), databaseSize },
          transactionSync: storage.transactionSync.bind(storage),
          sync: storage.sync.bind(storage),
        });
        const moment = { now: 1, id: () => "id" };
        const { digest, size } = inline("a");
        expect(ledger.exists).toBe(true);
        const commit = (operations: Operation[]) =>
          ledger.transaction((tx) => commitChanges(tx, ledger, { request: { operations }, moment })).ok;
        const isTaken = [
          commit([{ delete: "b" }]),
          commit([{ delete: "b" }, { put: "a", digest, size }]),
          commit([{ put: "a", digest, size }]),
        ];
        ledger.isFull(100);
        ledger.isFull(100);
        return isTaken;
      });
      expect(answers).toEqual([
        [true, true, true],
        [true, true, true],
        [true, true, true],
        [true, false, false],
        [false, false, false],
      ]);
    });
    expect(warn.mock.calls.map(([text]) => /has (\d+) %/.exec(String(text))?.[1])).toEqual([
      "80",
      "94",
      "96",
      "99",
    ]);
    expect(warn.mock.calls[0]?.[0]).toContain("sluice branch keep");
    warn.mockRestore();
  });

  test("takes no commit and no put, and can still be read", async () => {
    const branch = await freshBranch();
    await runInDurableObject(branch, async (_, { storage }) => {
      const ledger = new Ledger({
        sql: { exec: storage.sql.exec.bind(storage.sql), databaseSize: 9_900_000_000 },
        transactionSync: storage.transactionSync.bind(storage),
        sync: storage.sync.bind(storage),
      });
      const moment = { now: 1, id: () => "id" };
      expect(ledger.exists).toBe(true);
      const put = { path: "a", content: inline("a"), attributes: {} };
      const full = { ok: false, reason: "branch-full" };
      const request = { operations: [{ delete: "a" }] };
      ledger.transaction((tx) => {
        expect(putFile(tx, ledger, { put, moment })).toEqual(full);
        expect(setTags(tx, ledger, { request: { path: "a", tags: [] }, moment })).toEqual(full);
        expect(commitChanges(tx, ledger, { request, moment })).toEqual(full);
      });
    });
    expect((await branch.lifecycle.status()).ok).toBe(true);
  });

  test("takes deletions longer than puts, staged ones too, and no contents of clients for puts to come", async () => {
    const branch = await freshBranch();
    await put(branch, "a");
    const [deletes, puts] = [await startOpenCommit(branch), await startOpenCommit(branch)];
    await stage(branch, deletes, { deletes: ["a"] });
    await stage(branch, puts, { puts: ["b"], deletes: ["a"] });
    const opened = await branch.uploads.open({});
    const upload = opened.ok ? opened.upload : "";
    await runInDurableObject(branch, async (_, { storage }) => {
      const ledger = new Ledger({
        sql: { exec: storage.sql.exec.bind(storage.sql), databaseSize: 9_600_000_000 },
        transactionSync: storage.transactionSync.bind(storage),
        sync: storage.sync.bind(storage),
      });
      const moment = { now: Date.now(), id: () => "id" };
      const full = { ok: false, reason: "branch-full" };
      const finish = (id: string) => ledger.transaction((tx) => finishOpenCommit(tx, ledger, { id, moment }));
      // It looks at the size once in so many operations, and from then on each time.
      ledger.isFull(1000);
      const reach = {
        ledger,
        now: () => moment.now,
        moment: () => moment,
        bucket: () => "b",
      } as unknown as Reach;
      expect(await uploads.open(reach, {})).toEqual(full);
      expect(await uploads.add(reach, { upload, contents: [inline("c")] })).toEqual(full);
      expect(finish(puts)).toEqual(full);
      expect(finish(deletes)).toMatchObject({ ok: true, state: "finished" });
    });
  });
});

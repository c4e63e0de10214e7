import { runDurableObjectAlarm, runInDurableObject } from "cloudflare:test";
import { describe, expect, onTestFinished, test, vi } from "vitest";
import type { Branch } from "../../../worker/branch/branch.ts";
import type { BranchApi } from "../../../worker/branch/contract/api.ts";
import { Ledger } from "../../../worker/branch/ledger/ledger.ts";
import { RELEASED } from "../../../worker/branch/uploads/upload-store.ts";
import { clientOf } from "../../../worker/objects/facets.ts";
import { WATCH_MS } from "../../../worker/objects/loop.ts";
import type { Tx } from "../../../worker/objects/transaction.ts";
import { HELD } from "./held.ts";
import { crashAt, expectRefsRight, restarted } from "./large-support.ts";
import {
  type BranchStub,
  begin,
  branchOf,
  chunked,
  completion,
  DAY_MS,
  freshBranch,
  freshBucket,
  inObject,
  ledgerOf,
  passed,
} from "./support.ts";

const REFUSED = { ok: false, reason: "no-such-upload" };
/** More than two transactions take. */
const MANY = 1200;

const contents = Array.from({ length: MANY }, (_, n) => chunked(`content ${n}`, [`b/${n}`]));

/** A multipart upload with a part of each of these contents. */
async function inParts(branch: BranchStub, parts = contents): Promise<string> {
  const upload = await begin(branch);
  await inObject(branch, async (object) => {
    for (const [index, content] of parts.entries()) {
      await object.multipart.addPart({ upload, number: index + 1, content });
    }
  });
  return upload;
}

/** An upload that holds them, for a lease if one is named. */
async function holding(branch: BranchStub, lease?: string): Promise<string> {
  const opened = await branch.uploads.open(lease === undefined ? {} : { lease });
  if (!opened.ok) throw new Error(opened.reason);
  await branch.uploads.add({ upload: opened.upload, contents });
  return opened.upload;
}

/** The branch of a pipeline. */
async function claimed(): Promise<BranchStub> {
  const branch = branchOf(freshBucket());
  await branch.output.claim({ pipeline: "p", uid: "u" });
  return branch;
}

/** How many rows of each of these tables every transaction from here on takes away. */
function takenFrom(...tables: readonly ("holds" | "parts")[]): number[] {
  const taken: number[] = [];
  const transaction: <T>(this: Ledger, work: (tx: Tx) => T) => T = Ledger.prototype.transaction;
  const counts = ({ sql }: Ledger) =>
    tables.map((table) => {
      const from = table === "holds" ? HELD : table;
      return sql.query<{ n: number }>(`SELECT count(*) AS n FROM ${from}`, [])[0]?.n ?? 0;
    });
  const spy = vi.spyOn(Ledger.prototype, "transaction").mockImplementation(function <T>(
    this: Ledger,
    work: (tx: Tx) => T,
  ): T {
    const before = counts(this);
    const done = transaction.call<Ledger, [(tx: Tx) => T], T>(this, work);
    taken.push(...counts(this).map((n, index) => (before[index] ?? 0) - n));
    return done;
  });
  onTestFinished(() => spy.mockRestore());
  return taken;
}

function rowsOf(branch: BranchStub, table: "ended" | "holds" | "parts"): Promise<number> {
  return runInDurableObject(branch, (_, { storage: { sql } }) =>
    Number(sql.exec(`SELECT count(*) AS n FROM ${table}`).one().n),
  );
}

/** Lets the alarm ring until a count is zero. It may be at work by itself, so that there are pauses. */
async function untilNone(branch: BranchStub, count: () => Promise<number>): Promise<void> {
  const left = async () => {
    await runDurableObjectAlarm(branch);
    return await count();
  };
  await expect.poll(left, { timeout: 30_000 }).toBe(0);
}

/** Lets the alarm give up all that ended uploads hold. */
async function givenUp(branch: BranchStub): Promise<void> {
  await untilNone(branch, () => rowsOf(branch, "ended"));
}

/** Lets time pass, and the alarm ring, until nothing of any upload is there. */
async function expectNothingLeft(branch: BranchStub): Promise<void> {
  await givenUp(branch);
  await expectRefsRight(branch);
  expect(await rowsOf(branch, "holds")).toBe(0);
  expect(await rowsOf(branch, "parts")).toBe(0);
  await untilNone(branch, async () => (await ledgerOf(branch)).blobs.length);
  await untilNone(branch, async () => {
    await passed(branch, DAY_MS);
    const { condemned, uploads } = await ledgerOf(branch);
    return condemned.length + Number(uploads);
  });
  expect(await ledgerOf(branch)).toEqual({ refs: [], blobs: [], condemned: [], holds: 0, uploads: 0 });
}

/** The calls of an object, made where it is. */
const on = (object: Branch) => clientOf<BranchApi>(object);

describe("an upload that holds more than one transaction should give up", () => {
  test.each<[string, (object: Branch, upload: string, sql: SqlStorage) => Promise<unknown>]>([
    ["is aborted", async (object, upload) => await on(object).multipart.abort({ upload })],
    [
      "runs out",
      async (object, _, sql) => {
        sql.exec("UPDATE uploads SET due = 0");
        await object.alarm();
      },
    ],
    [
      "goes with its branch",
      async (object) => {
        await on(object).lifecycle.destroy();
        await object.alarm();
        await on(object).lifecycle.create();
      },
    ],
  ])("and %s is gone at once for all who ask, and in slices from the tables", async (_, end) => {
    const branch = await freshBranch();
    const upload = await inParts(branch);
    const taken = takenFrom("holds", "parts");
    await runInDurableObject(branch, async (object: Branch, { storage: { sql } }) => {
      await end(object, upload, sql);
      expect(await on(object).multipart.status({ upload })).toEqual(REFUSED);
      expect(await on(object).multipart.parts({ upload, after: 0, limit: 10 })).toEqual(REFUSED);
      expect(
        await on(object).multipart.addPart({ upload, number: 1, content: chunked("late", ["b/late"]) }),
      ).toEqual(REFUSED);
      expect(await on(object).multipart.list({ prefix: "", limit: 10 })).toMatchObject({ uploads: [] });
    });
    await expectNothingLeft(branch);
    expect(Math.max(...taken)).toBe(RELEASED);
    expect(taken.reduce((sum, n) => sum + n, 0)).toBe(2 * MANY);
  });

  test("leaves the rest of what it holds to the object, with an alarm that the call sets", async () => {
    const branch = await freshBranch();
    const upload = await holding(branch);
    const alarm = await runInDurableObject(branch, async (object: Branch, { storage }) => {
      await on(object).uploads.abort({ upload });
      expect(storage.sql.exec(`SELECT count(*) AS n FROM ${HELD}`).one().n).toBe(MANY - RELEASED);
      expect(await on(object).uploads.renew({ upload })).toEqual(REFUSED);
      return await storage.getAlarm();
    });
    expect(alarm).toBeLessThanOrEqual(Date.now() + WATCH_MS);
    await expectNothingLeft(branch);
  });

  test("and is completed leaves its object all of its parts", async () => {
    const branch = await freshBranch();
    const upload = await inParts(branch);
    const taken = takenFrom("holds", "parts");
    const parts = Object.fromEntries(contents.map((content, index) => [index + 1, content]));
    expect(await branch.multipart.complete(completion(upload, parts, "b/manifest"))).toMatchObject({
      ok: true,
    });
    await givenUp(branch);
    expect(Math.max(...taken)).toBe(RELEASED);
    const { refs, blobs, ...rest } = await ledgerOf(branch);
    expect(refs).toHaveLength(MANY + 1);
    expect(refs.every(([, count]) => count === 1)).toBe(true);
    expect(blobs).toHaveLength(MANY + 1);
    expect(rest).toEqual({ condemned: [], holds: 0, uploads: 0 });
  });

  test("whose parts all have one content gives up its parts in slices, too", async () => {
    const branch = await freshBranch();
    const [one = chunked("one", ["b/1"])] = contents;
    const upload = await inParts(
      branch,
      contents.map(() => one),
    );
    const taken = takenFrom("parts");
    await branch.multipart.abort({ upload });
    await givenUp(branch);
    expect(taken.filter((n) => n > 0)).toEqual([RELEASED, RELEASED, MANY - 2 * RELEASED]);
    expect(await rowsOf(branch, "parts")).toBe(0);
  });

  test("does not end in a larger transaction together with others", async () => {
    const branch = await freshBranch();
    for (let from = 0; from < MANY; from += 400) await inParts(branch, contents.slice(from, from + 400));
    await passed(branch, DAY_MS + 1000);
    const taken = takenFrom("holds");
    await runDurableObjectAlarm(branch);
    await expectNothingLeft(branch);
    expect(Math.max(...taken)).toBe(RELEASED);
  });

  test.each<[string, (object: Branch, upload: string) => Promise<unknown>]>([
    [
      "is lost",
      async (object) => {
        await on(object).uploads.abortLeases({ leases: ["l"] });
        await object.alarm();
      },
    ],
    [
      "is named no more",
      async (object, upload) => await on(object).uploads.trim({ uploads: [{ upload, keep: [] }] }),
    ],
  ])("and whose lease %s takes nothing of a late call", async (_, end) => {
    const branch = await claimed();
    const upload = await holding(branch, "l");
    const taken = takenFrom("holds");
    await runInDurableObject(branch, async (object: Branch) => {
      await end(object, upload);
      const late = [chunked("late", ["b/late"])];
      expect(await on(object).uploads.add({ upload, contents: late })).toEqual(REFUSED);
      expect(await on(object).uploads.reserve({ upload, contents })).toEqual(REFUSED);
      expect(await on(object).uploads.open({ lease: "l" })).toEqual({ ok: false, reason: "lost-lease" });
      await on(object).uploads.trim({ uploads: [{ upload, keep: [] }] });
    });
    await givenUp(branch);
    expect(Math.max(...taken)).toBe(RELEASED);
    expect((await ledgerOf(branch)).uploads).toBe(1);
    await expectNothingLeft(branch);
  });

  test("gives up the rest after a crash between two slices, each once", async () => {
    const branch = await freshBranch();
    const upload = await inParts(branch);
    await runInDurableObject(branch, async (object: Branch) => {
      await on(object).multipart.abort({ upload });
      // Half of the second slice is done by then: that is undone.
      const crash = crashAt({ statement: /DELETE FROM parts/, nth: 2 });
      await object.alarm();
      await crash.reached();
      crash.resume();
    });
    await expectRefsRight(branch);
    await restarted(branch);
    await expectRefsRight(branch);
    await expectNothingLeft(branch);
  });
});

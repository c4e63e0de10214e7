import { runInDurableObject } from "cloudflare:test";
import { describe, expect, test } from "vitest";
import { isUlid, ulidTime } from "../../../protocol/names.ts";
import { Ledger } from "../../../worker/branch/ledger/ledger.ts";
import { newCommitId, placeIn } from "../../../worker/branch/tree/commit-id.ts";
import { freshBranch, put } from "./support.ts";

const TIME = Date.parse("2026-08-01T12:00:00Z");

describe("the id of a commit", () => {
  test("is a ULID of its time, and says where the commit is", () => {
    for (const place of [
      { gen: 1, seq: 1 },
      { gen: 31, seq: 32 },
      { gen: 32_767, seq: 34_359_738_367 },
    ]) {
      const id = newCommitId(place, TIME);
      expect([isUlid(id), ulidTime(id), placeIn(id)]).toEqual([true, TIME, place]);
    }
  });

  test("grows with commits that share a millisecond, and with time", () => {
    const places = [
      ...[1, 2, 31, 32, 33, 1023, 1024, 40_000].map((seq) => ({ gen: 1, seq })),
      ...[1, 5].map((seq) => ({ gen: 2, seq })),
    ];
    const ids = [
      ...places.map((place) => newCommitId(place, TIME)),
      newCommitId({ gen: 1, seq: 1 }, TIME + 1),
    ];
    expect([...ids].sort()).toEqual(ids);
  });

  test("is looked for in an index if it can't say that, and only then", async () => {
    const branch = await freshBranch();
    await put(branch, "a");
    await runInDurableObject(branch, (_, { storage }) => {
      const { commits } = new Ledger(storage);
      const far = { gen: 32_768 + 1, seq: 1 };
      const strange = "01ARZ3NDEKTSV4RRFFQ69G5FAV";
      const row = { kind: "commit", createdAt: TIME, births: 0, deaths: 0 } as const;
      const id = newCommitId(far, TIME);
      commits.insert({ ...row, ...far, id });
      commits.insert({ ...row, gen: 32_768 + 1, seq: 2, id: strange });
      expect(commits.byId(id)).toMatchObject(far);
      expect(commits.byId(strange)).toMatchObject({ gen: far.gen, seq: 2 });
      expect(commits.numbersOf(far.gen, [id, strange, newCommitId(far, TIME)])).toEqual(
        new Map([
          [id, { seq: 1, kind: "commit" }],
          [strange, { seq: 2, kind: "commit" }],
        ]),
      );
      expect(
        storage.sql.exec("SELECT gen, seq FROM commits WHERE elsewhere = 1 ORDER BY gen, seq").toArray(),
      ).toEqual([far, { ...far, seq: 2 }]);
    });
  });

  test("leads to the newest commit up to it, also if its own commit is gone", async () => {
    const branch = await freshBranch();
    for (const path of ["a", "b", "c", "d", "e"]) await put(branch, path);
    await runInDurableObject(branch, (_, { storage }) => {
      const { commits } = new Ledger(storage);
      const ids = [1, 2, 3, 4, 5].map((seq) => commits.at({ gen: 1, seq })?.id ?? "");
      storage.sql.exec("DELETE FROM commits WHERE seq IN (1, 3, 4)");
      expect(ids.map((id) => commits.seqUpTo(1, id))).toEqual([0, 2, 2, 2, 5]);
      expect(commits.seqUpTo(1, "7ZZZZZZZZZZZZZZZZZZZZZZZZZ")).toBe(5);
    });
  });
});

import { describe, expect, test } from "vitest";
import type { BranchApi } from "../../../worker/branch/contract/api.ts";
import type { WriteCondition } from "../../../worker/branch/contract/files.ts";
import { failedCondition } from "../../../worker/branch/staging/preconditions.ts";
import {
  type BranchStub,
  committed,
  freshBranch,
  inline,
  inObject,
  ledgerOf,
  listed,
  put,
} from "./support.ts";

const HERE = { digest: "a".repeat(64), size: 1 };
const OTHER = { digest: "a".repeat(64), size: 2 };

function idOf(text: string) {
  const { digest, size } = inline(text);
  return { digest, size };
}

function putIf(
  branch: BranchApi | BranchStub,
  { text, condition }: { text: string; condition: WriteCondition },
) {
  return branch.files.put({ path: "a", content: inline(text), attributes: {}, condition });
}

describe("a condition", () => {
  test.each<[WriteCondition, typeof HERE | undefined, string | undefined]>([
    [{}, undefined, undefined],
    [{}, HERE, undefined],
    [{ match: "any" }, HERE, undefined],
    [{ match: "any" }, undefined, "no-such-file"],
    [{ match: [OTHER, HERE] }, HERE, undefined],
    [{ match: [OTHER] }, HERE, "condition-failed"],
    [{ match: [HERE] }, undefined, "no-such-file"],
    [{ match: [] }, HERE, "condition-failed"],
    [{ noneMatch: "any" }, undefined, undefined],
    [{ noneMatch: "any" }, HERE, "condition-failed"],
    [{ noneMatch: [HERE] }, HERE, "condition-failed"],
    [{ noneMatch: [OTHER] }, HERE, undefined],
    [{ noneMatch: [HERE] }, undefined, undefined],
    [{ match: [HERE], noneMatch: [OTHER] }, HERE, undefined],
    [{ match: [HERE], noneMatch: [HERE] }, HERE, "condition-failed"],
  ])("%j where %j is fails as %s", (condition, there, reason) => {
    expect(failedCondition(condition, there)).toBe(reason);
  });
});

describe("conditional puts", () => {
  test("are done if the condition holds, and else refused with nothing changed", async () => {
    const branch = await freshBranch();
    expect(await putIf(branch, { text: "1", condition: { match: "any" } })).toEqual({
      ok: false,
      reason: "no-such-file",
      path: "a",
    });
    committed(await putIf(branch, { text: "1", condition: { noneMatch: "any" } }));
    const failed = { ok: false, reason: "condition-failed", path: "a" };
    expect(await putIf(branch, { text: "2", condition: { noneMatch: "any" } })).toEqual(failed);
    expect(await putIf(branch, { text: "2", condition: { match: [idOf("0")] } })).toEqual(failed);
    expect(await branch.files.read({ path: "a" })).toMatchObject(idOf("1"));
    committed(await putIf(branch, { text: "2", condition: { match: [idOf("0"), idOf("1")] } }));
    expect(await branch.files.read({ path: "a" })).toMatchObject(idOf("2"));
    expect((await ledgerOf(branch)).refs).toHaveLength(2);
  });

  test("that would change nothing still fail", async () => {
    const branch = await freshBranch();
    await put(branch, "a", "1");
    const failed = { ok: false, reason: "condition-failed", path: "a" };
    expect(await putIf(branch, { text: "1", condition: { noneMatch: "any" } })).toEqual(failed);
  });

  test("look at HEAD: a file that was deleted is not there", async () => {
    const branch = await freshBranch();
    await put(branch, "a", "1");
    await branch.files.commit({ operations: [{ delete: "a" }] });
    expect(await putIf(branch, { text: "1", condition: { match: [idOf("1")] } })).toMatchObject({
      reason: "no-such-file",
    });
    expect(committed(await putIf(branch, { text: "1", condition: { noneMatch: "any" } }))).not.toBeNull();
  });

  test.each([
    "by calls that come one by one",
    "in one group",
  ])("of 20 creations at once exactly one wins, %s", async (way) => {
    const branch = await freshBranch();
    const texts = Array.from({ length: 20 }, (_, n) => `text ${n}`);
    const race = (target: BranchApi | BranchStub) =>
      Promise.all(texts.map((text) => putIf(target, { text, condition: { noneMatch: "any" } })));
    const answers =
      way === "in one group" ? await inObject(branch, (object) => race(object)) : await race(branch);
    const winners = answers.flatMap((answer, n) => (answer.ok ? [n] : []));
    expect(winners).toHaveLength(1);
    expect(answers.filter((answer) => !answer.ok && answer.reason === "condition-failed")).toHaveLength(19);
    expect(await branch.files.read({ path: "a" })).toMatchObject(idOf(texts[winners[0] ?? -1] ?? ""));
  });

  test("of one group see what those before them did", async () => {
    const branch = await freshBranch();
    await put(branch, "a", "0");
    const answers = await inObject(branch, (object) =>
      Promise.all(
        [1, 2, 3].map((n) => putIf(object, { text: `${n}`, condition: { match: [idOf(`${n - 1}`)] } })),
      ),
    );
    expect(answers.map(({ ok }) => ok)).toEqual([true, true, true]);
    expect(await branch.files.read({ path: "a" })).toMatchObject(idOf("3"));
  });
});

describe("conditional operations of a commit", () => {
  test("refuse the commit if one does not hold", async () => {
    const branch = await freshBranch();
    await put(branch, "a", "1");
    await put(branch, "b", "2");
    const answer = await branch.files.commit({
      operations: [{ delete: "a" }, { delete: "b", condition: { match: [idOf("1")] } }],
    });
    expect(answer).toEqual({ ok: false, reason: "condition-failed", path: "b" });
    expect(await listed(branch)).toEqual(["a", "b"]);
  });

  test("are left out if that was asked, each with its reason", async () => {
    const branch = await freshBranch();
    await put(branch, "a", "1");
    await put(branch, "b", "2");
    const answer = await branch.files.commit({
      onFailedCondition: "leave-out",
      operations: [
        { delete: "a", condition: { match: [idOf("1")] } },
        { delete: "b", condition: { match: [idOf("1")] } },
        { delete: "c", condition: { match: "any" } },
        { put: "d", ...idOf("1"), condition: { noneMatch: "any" } },
      ],
    });
    expect(answer).toMatchObject({
      ok: true,
      commit: expect.any(String),
      leftOut: [
        { path: "b", reason: "condition-failed" },
        { path: "c", reason: "no-such-file" },
      ],
    });
    expect(await listed(branch)).toEqual(["b", "d"]);
  });

  test("make no commit if all are left out", async () => {
    const branch = await freshBranch();
    const operations = [{ delete: "a", condition: { match: "any" } }] as const;
    expect(await branch.files.commit({ operations, onFailedCondition: "leave-out" })).toMatchObject({
      commit: null,
      leftOut: [{ path: "a", reason: "no-such-file" }],
    });
  });

  test("each look at HEAD, not at the operations before them", async () => {
    const branch = await freshBranch();
    await put(branch, "a", "1");
    const operations = [
      { delete: "a", condition: { match: [idOf("1")] } },
      { put: "a", ...idOf("1"), condition: { match: [idOf("1")] } },
    ];
    expect(await branch.files.commit({ operations })).toMatchObject({ ok: true, commit: null });
  });
});

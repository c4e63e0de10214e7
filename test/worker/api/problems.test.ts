import { describe, expect, test } from "vitest";
import { z } from "zod";
import { FilesPage, TagsPage } from "../../../protocol/archives.ts";
import { list, MAX_PROBLEMS } from "../../../protocol/errors.ts";
import {
  AddInlineContents,
  ComposeContent,
  CreateCommit,
  MAX_COMMIT_OPERATIONS,
  ReserveContents,
} from "../../../protocol/files.ts";
import { FinishRequest, LogsRequest } from "../../../protocol/runner.ts";
import { PipelineSpec } from "../../../protocol/spec.ts";
import { failed, makeBranch } from "./support.ts";

/** A list whose entries are counted as they are looked at. */
function counted(entries: unknown[]): { entries: unknown[]; looked: () => number } {
  const seen = new Set<PropertyKey>();
  const get = (target: unknown[], key: PropertyKey) => {
    if (typeof key === "string" && /^[0-9]+$/.test(key)) seen.add(key);
    return Reflect.get(target, key);
  };
  return { entries: new Proxy(entries, { get }), looked: () => seen.size };
}

const worker = { pipeline: "p", worker: "w" };
const success = {
  lease: "l",
  state: "success",
  exitCode: 0,
  millis: 1,
  ran: { executor: "process", image: null },
};

describe("a schema stops at its 100th problem", () => {
  const requests: readonly (readonly [string, z.ZodType, (entries: unknown[]) => unknown])[] = [
    ["operations of a commit", CreateCommit, (operations) => ({ upload: "u", operations })],
    ["contents to reserve", ReserveContents, (contents) => ({ contents })],
    ["contents that come along", AddInlineContents, (contents) => ({ contents })],
    ["parts of a content", ComposeContent, (parts) => ({ parts })],
    ["outputs of a datum", FinishRequest, (outputs) => ({ ...worker, outcomes: [{ ...success, outputs }] })],
    [
      "lines of a command",
      LogsRequest,
      (lines) => ({ ...worker, entries: [{ lease: "l", seq: 0, dropped: 0, lines }] }),
    ],
    ["files of an archive", FilesPage, (files) => ({ files, contents: [] })],
    ["contents of an archive", FilesPage, (contents) => ({ files: [], contents })],
    ["tags of an archive", TagsPage, (tags) => ({ tags })],
    [
      "the words of a command",
      PipelineSpec,
      (cmd) => ({ pipeline: { name: "p" }, inputs: [], transform: { image: "i", cmd } }),
    ],
  ];
  test.each(requests)("of %s", (_, schema, request) => {
    const { entries, looked } = counted(Array.from({ length: 500 }, () => null));
    const parsed = schema.safeParse(request(entries));
    expect(looked()).toBeLessThanOrEqual(MAX_PROBLEMS);
    expect(parsed.error?.issues.length).toBeGreaterThanOrEqual(MAX_PROBLEMS);
  });

  test("and the answer says that there may be more", async () => {
    await makeBranch({ repo: "problems", branch: "master" });
    const operations = Array.from({ length: MAX_COMMIT_OPERATIONS }, () => ({}));
    const body = { upload: "master.problems.U", operations };
    const { issues } = await failed("POST /repos/problems/branches/master/commits", { body });
    expect(issues.length).toBe(MAX_PROBLEMS + 1);
    expect(issues.at(-2)?.path).toMatch(/^operations\[\d\d\]\./);
    expect(issues.at(-1)).toEqual({ path: "", message: expect.stringContaining("there may be more") });
  });
});

describe("a list", () => {
  const Numbers = list(z.int().transform((number) => number + 1))
    .min(2)
    .max(300);

  test("is read as zod reads an array", () => {
    expect(Numbers.parse([1, 2])).toEqual([2, 3]);
    expect(Numbers).toBeInstanceOf(z.ZodArray);
    for (const value of ["text", [1], Array.from({ length: 301 }, () => "x"), [1, "x", 2, {}]]) {
      const array = z.array(Numbers.element).min(2).max(300);
      expect(Numbers.safeParse(value).error?.issues).toEqual(array.safeParse(value).error?.issues);
    }
  });
});

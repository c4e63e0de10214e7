import { beforeAll, describe, expect, test } from "vitest";
import doc from "../../../docs/pipeline-spec.md?raw";
import { MAX_PAIRS, PipelineCheck } from "../../../protocol/pipeline-check.ts";
import { PipelineSpec } from "../../../protocol/spec.ts";
import { lookAfter, lookAtInput } from "../../../worker/api/pipelines/look.ts";
import { obstacleTo } from "../../../worker/api/pipelines/submission.ts";
import type { Context } from "../../../worker/app.ts";
import type { BranchApi } from "../../../worker/branch/contract/api.ts";
import type { FileCalls } from "../../../worker/branch/contract/files.ts";
import type { FeedCalls } from "../../../worker/branch/contract/pipelines.ts";
import { parseGlob } from "../../../worker/core/glob.ts";
import type { KeyScope } from "../../../worker/core/permissions.ts";
import { dayAfterTags, givenBack } from "../branch/retention-support.ts";
import { type BranchStub, freshBranch, put } from "../branch/support.ts";
import { api, commitFiles, failed, good, makeBranch, testContext } from "./support.ts";

const DRY = "POST /pipelines?dryRun=true";

interface Wish {
  readonly name?: string;
  readonly inputs?: readonly object[];
  readonly more?: object;
}

function spec({ name = "tried", inputs = [], more }: Wish): object {
  return { pipeline: { name }, transform: { image: "busybox", cmd: ["true"] }, inputs, ...more };
}

async function check(wish: Wish): Promise<PipelineCheck> {
  return PipelineCheck.parse(await good(DRY, { body: spec(wish) }));
}

async function filled(repo: string, paths: readonly string[]): Promise<string> {
  const address = { repo, branch: "master" };
  await makeBranch(address);
  return await commitFiles(address, Object.fromEntries(paths.map((path) => [path, path])));
}

/** The first datums as text: `a:/x b:/y`. */
function first({ datums }: PipelineCheck): string[] {
  return datums.first.map(({ inputs }) => inputs.map(({ name, path }) => `${name}:${path}`).join(" "));
}

describe("a dry run", () => {
  test("answers the specification with every default filled in", async () => {
    await filled("defaults", ["a"]);
    const { spec: resolved } = await check({ inputs: [{ repo: { name: "defaults" }, glob: "*" }] });
    expect(resolved).toEqual({
      pipeline: { name: "tried" },
      transform: { image: "busybox", cmd: ["true"] },
      parallelism_spec: { strategy: "COEFFICIENT", coefficient: 1 },
      inputs: [{ name: "defaults", repo: { name: "defaults" }, branch: "master", glob: "/*", lazy: false }],
      outputBranch: "master",
      datumTries: 3,
    });
    expect(PipelineSpec.parse(resolved)).toEqual(resolved);
  });

  test("calls no pipeline that nobody made, which would live from then on where it was looked at", async () => {
    const called: string[] = [];
    const context: Context = {
      ...testContext(),
      pipeline(name) {
        called.push(name);
        return testContext().pipeline(name);
      },
    };
    const obstacle = (pipeline: string) =>
      obstacleTo("create", {
        asked: { context },
        outline: { pipeline, outputBranch: "master", skips: true },
      });
    expect([await obstacle("not-placed"), called]).toEqual([undefined, []]);
    await good("POST /pipelines", { body: spec({ name: "placed" }) });
    expect([(await obstacle("placed"))?.code, called]).toEqual(["AlreadyExists", ["placed"]]);
  });

  test("makes nothing: no pipeline, no branch, no subscription", async () => {
    const commit = await filled("untouched", ["a"]);
    await check({ name: "never", inputs: [{ repo: { name: "untouched" }, glob: "/*" }] });
    expect(await failed("GET /pipelines/never")).toMatchObject({ status: 404 });
    expect(await testContext().branch({ repo: "never", branch: "master" }).lifecycle.status()).toMatchObject({
      reason: "no-such-branch",
    });
    const status = await testContext().branch({ repo: "untouched", branch: "master" }).lifecycle.status();
    expect(status).toMatchObject({ head: commit });
    await good("POST /pipelines", {
      body: spec({ name: "never", inputs: [{ repo: { name: "untouched" }, glob: "/*" }] }),
    });
  });

  test("counts the workers on the nodes that live now and take work", async () => {
    const more = { parallelism_spec: { strategy: "COEFFICIENT", coefficient: 1.5 } };
    expect((await check({ more })).workers).toEqual({ count: 1, liveNodes: 0 });
    const { nodes } = testContext().catalogue;
    const node = { executor: "process", capacity: 1, seenAt: Date.now(), work: [] };
    await nodes.record({ ...node, name: "dead", seenAt: Date.now() - 60_000 });
    for (const name of ["n1", "n2", "n3", "drained"]) await nodes.record({ ...node, name });
    await nodes.setDraining("drained", 1);
    expect((await check({ more })).workers).toEqual({ count: 4, liveNodes: 3 });
    const constant = { parallelism_spec: { strategy: "CONSTANT", constant: 7 } };
    expect((await check({ more: constant })).workers).toEqual({ count: 7, liveNodes: 3 });
  });

  test("shows the first datums, in the order of a job: the first input by name varies fastest", async () => {
    const commit = await filled("letters", ["b", "a"]);
    await filled("digits", ["1", "2", "dir/3"]);
    const checked = await check({
      inputs: [
        { name: "z", repo: { name: "digits" }, glob: "/*" },
        { name: "a", repo: { name: "letters" }, glob: "/*" },
      ],
    });
    expect(first(checked)).toEqual([
      "a:/a z:/1",
      "a:/b z:/1",
      "a:/a z:/2",
      "a:/b z:/2",
      "a:/a z:/dir",
      "a:/b z:/dir",
    ]);
    expect(checked.datums.total).toBe(6);
    expect(checked.inputs).toMatchObject([
      { name: "a", commit, hasData: true, matches: 2, complete: true },
      { name: "z", matches: 3, complete: true },
    ]);
  });

  test.each([
    ["/", ["/"]],
    ["/*", ["/a", "/a-b", "/deep", "/ä", "/𝒂"]],
    ["/a*", ["/a", "/a-b"]],
    ["/*/*", ["/a/x", "/deep/er"]],
    ["/deep/**", ["/deep/er", "/deep/er/still", "/deep/er/still/f"]],
    ["/deep/er", ["/deep/er"]],
    ["/{a,deep}/{x,er/still}", ["/a/x", "/deep/er/still"]],
    ["/none*", []],
  ])("sees what the glob %s matches, each in the order of paths", async (glob, expected) => {
    const repo = "tree";
    if (!(await testContext().catalogue.branches.hasRepo(repo)))
      await filled(repo, ["a/x", "a-b", "deep/er/still/f", "ä", "𝒂"]);
    const checked = await check({ inputs: [{ name: "i", repo: { name: repo }, glob }] });
    expect(first(checked)).toEqual(expected.map((path) => `i:${path}`));
    expect(checked.datums.total).toBe(expected.length);
  });

  test("shows ten of many datums and how many there are", async () => {
    await filled(
      "many",
      Array.from({ length: 25 }, (_, n) => `f${String(n).padStart(2, "0")}`),
    );
    const checked = await check({ inputs: [{ repo: { name: "many" }, glob: "/*" }] });
    expect(first(checked)).toEqual(Array.from({ length: 10 }, (_, n) => `many:/f0${n}`));
    expect(checked.datums.total).toBe(25);
  });

  test("says that an input is empty, or that its branch is not there yet", async () => {
    await filled("half", ["a"]);
    await makeBranch({ repo: "empty", branch: "master" });
    const checked = await check({
      inputs: [
        { name: "a", repo: { name: "half" }, glob: "/*" },
        { name: "b", repo: { name: "empty" }, glob: "/" },
        { name: "c", repo: { name: "half" }, branch: "later", glob: "/*" },
      ],
    });
    expect(checked.datums).toEqual({ first: [], total: 0, atLeast: 0, limit: MAX_PAIRS });
    expect(checked.inputs.map(({ hasData, commit }) => [hasData, commit !== null])).toEqual([
      [true, true],
      [false, false],
      [false, false],
    ]);
  });

  test("shows of an input with a `from` what was written after it, and how it is read", async () => {
    const from = await filled("after", ["a", "d/x", "e/x"]);
    const head = await commitFiles({ repo: "after", branch: "master" }, { b: "1", "d/y": "1", "f/": "" });
    const input = (ID: string) => ({
      repo: { name: "after" },
      glob: "/*",
      lazy: true,
      from: { repo: { name: "after" }, ID },
    });
    const checked = await check({ inputs: [input(from)] });
    expect(first(checked)).toEqual(["after:/b", "after:/d", "after:/f"]);
    expect(checked.inputs).toMatchObject([
      { commit: head, hasData: true, matches: 3, complete: true, lazy: true, from },
    ]);
    const nothing = await check({ inputs: [input(head)] });
    expect(nothing.inputs).toMatchObject([{ hasData: false, matches: 0 }]);
    expect(nothing.datums).toMatchObject({ first: [], total: 0 });
  });

  test("says how many datums a cross product has, and how many it may have", async () => {
    const files = (count: number) => Array.from({ length: count }, (_, n) => `f${n}`);
    await filled("wide", files(25));
    const inputs = ["a", "b"].map((name) => ({ name, repo: { name: "wide" }, glob: "/*" }));
    expect((await check({ inputs })).datums).toMatchObject({ total: 625, limit: MAX_PAIRS });
    expect((await check({ inputs: inputs.slice(1) })).datums).toMatchObject({ total: 25, limit: null });
  });

  test("of a specification without inputs shows the one datum that a run would have", async () => {
    expect((await check({})).datums).toEqual({
      first: [{ inputs: [] }],
      total: 1,
      atLeast: 1,
      limit: null,
    });
  });

  test("needs what creating needs", async () => {
    await filled("theirs", ["a"]);
    const body = spec({ inputs: [{ repo: { name: "theirs" }, glob: "/*" }] });
    const as = (scope: KeyScope) => ({ caller: { scope } });
    for (const scope of [
      { level: "write", repos: null },
      { level: "admin", repos: ["tried"] },
      { level: "admin", repos: ["tried", "theirs"] },
      { level: "admin", repos: ["tried"], pipelines: true },
      { level: "admin", repos: ["theirs"], pipelines: true },
    ] as const) {
      expect(await failed(DRY, { body, ...as(scope) })).toMatchObject({ status: 403 });
    }
    await good(DRY, { body, ...as({ level: "admin", repos: ["tried", "theirs"], pipelines: true }) });
  });

  test("is asked for with true or false and nothing else", async () => {
    for (const query of ["dryRun=yes", "dryRun=true&dryRun=true", "dry=true"])
      expect(await failed(`POST /pipelines?${query}`, { body: spec({}) })).toMatchObject({ status: 400 });
    const response = await api("POST /pipelines?dryRun=false", { body: spec({ name: "wet" }) });
    expect(response.status).toBe(201);
  });
});

describe("a dry run of an update", () => {
  const UPDATE = "POST /pipelines?dryRun=true&update=true";

  test("answers what the next version would come to, and changes nothing", async () => {
    await filled("versions", ["a"]);
    const wish: Wish = { name: "versioned", inputs: [{ repo: { name: "versions" }, glob: "/*" }] };
    const made = await good("POST /pipelines", { body: spec(wish) });
    const checked = await good(UPDATE, { body: spec({ ...wish, more: { datumTries: 7 } }) });
    expect(checked).toMatchObject({ spec: { datumTries: 7 }, datums: { total: 1 } });
    expect((await good("GET /pipelines/versioned")).spec).toEqual(made.spec);
  });

  test("of a pipeline that is not there, or into another branch, is refused", async () => {
    const missing = await failed(UPDATE, { body: spec({ name: "absent" }) });
    expect(missing).toMatchObject({
      status: 404,
      code: "NoSuchPipeline",
      issues: [{ path: "pipeline.name" }],
    });
    await good("POST /pipelines", { body: spec({ name: "stays" }) });
    const other = await failed(UPDATE, { body: spec({ name: "stays", more: { outputBranch: "other" } }) });
    expect(other).toMatchObject({ status: 400, code: "InvalidSpec", issues: [{ path: "outputBranch" }] });
    const several = await failed(UPDATE, { body: spec({ name: "absent", more: { datumTries: 0 } }) });
    expect(several.issues.map(({ path }) => path)).toEqual(["datumTries", "pipeline.name"]);
  });

  test("may reprocess; a creation may not", async () => {
    await good("POST /pipelines", { body: spec({ name: "anew" }) });
    await good(`${UPDATE}&reprocess=true`, { body: spec({ name: "anew" }) });
    expect(await failed("POST /pipelines?reprocess=true", { body: spec({}) })).toMatchObject({
      status: 400,
      issues: [{ path: "reprocess" }],
    });
  });
});

describe("a dry run over a large branch", () => {
  const input = (glob: string): Wish => ({ inputs: [{ name: "i", repo: { name: "large" }, glob }] });

  beforeAll(async () => {
    const folders = Array.from({ length: 30 }, (_, n) => `folder-${String(n).padStart(2, "0")}`);
    await makeBranch({ repo: "large", branch: "master" });
    for (const folder of folders) {
      const files = Array.from({ length: 40 }, (_, n) => [`${folder}/${n}`, "x"] as const);
      await commitFiles({ repo: "large", branch: "master" }, Object.fromEntries(files));
    }
  });

  test("counts what is in many folders to the last", async () => {
    const checked = await check(input("/*/*"));
    expect(checked.datums).toMatchObject({ total: 1200, atLeast: 1200 });
    expect(first(checked)).toHaveLength(10);
    expect(checked.inputs).toMatchObject([{ matches: 1200, complete: true, hasData: true }]);
    expect((await check(input("/**"))).datums.total).toBe(1230);
  });

  test("does not look into folders that match whole, or that can't hold a match", async () => {
    expect((await check(input("/*"))).datums.total).toBe(30);
    expect((await check(input("/folder-29/*"))).datums.total).toBe(40);
    expect((await check(input("/folder-[01]0/?"))).datums.total).toBe(20);
  });
});

describe("the examples of docs/pipeline-spec.md", () => {
  const examples = [...doc.matchAll(/```json\n([\s\S]*?)```/g)].map(([, text = ""]) => JSON.parse(text));
  const [smallest] = examples;
  let head = "";

  beforeAll(async () => {
    head = await filled("images", ["liberty.png"]);
  });

  test("are many", () => {
    expect(examples.length).toBeGreaterThan(15);
  });

  test.each(
    examples.map((example) => [JSON.stringify(example), example] as const),
  )("%s is good", async (_, part) => {
    // The commit that an example names is not in these tests.
    const own = JSON.parse(JSON.stringify(part).replace(/"ID":"\w+"/, `"ID":"${head}"`));
    const body = laidOver(smallest, own);
    const checked = PipelineCheck.parse(await good(DRY, { body }));
    expect(checked.spec).toMatchObject(part.parallelism_spec ? { pipeline: body.pipeline } : own);
  });
});

/** A part of a specification over a whole one: objects field by field, all else as it is in the part. */
// biome-ignore lint/suspicious/noExplicitAny: examples are of every shape.
function laidOver(whole: any, part: any): any {
  const merged = { ...whole };
  for (const [name, value] of Object.entries(part)) {
    const nested = typeof value === "object" && !Array.isArray(value) && name !== "parallelism_spec";
    merged[name] = nested ? laidOver(merged[name] ?? {}, value) : value;
  }
  return merged;
}

/** The branch, but once before a page of it is read, its HEAD is replaced and given back. */
function replacedOnce(branch: BranchStub): BranchApi {
  let left = 1;
  const before = async () => {
    if (left-- <= 0) return;
    await put(branch, "b", "2");
    await givenBack(branch);
  };
  return {
    lifecycle: { status: () => branch.lifecycle.status() },
    files: {
      list: async (request: Parameters<FileCalls["list"]>[0]) => {
        await before();
        return await branch.files.list(request);
      },
    },
    feed: {
      position: (request: { commit: string }) => branch.feed.position(request),
      filesAt: async (request: Parameters<FeedCalls["filesAt"]>[0]) => {
        await before();
        return await branch.feed.filesAt(request);
      },
    },
  } as unknown as BranchApi;
}

describe("a look at an input whose HEAD is given back meanwhile", () => {
  const parsed = parseGlob("/*");
  if (!parsed.ok) throw new Error(parsed.problem);
  const { glob } = parsed;

  async function keepingOne(): Promise<{ branch: BranchStub; from: string }> {
    const branch = await freshBranch();
    const from = (await put(branch, "a")) ?? "";
    await branch.tags.create({ name: "from", commit: from, force: false });
    await put(branch, "b");
    await branch.settings.change({ keep: { commits: 1 } });
    await givenBack(branch);
    return { branch, from };
  }

  test("begins anew with the one that there is then", async () => {
    const { branch } = await keepingOne();
    expect(await lookAtInput(replacedOnce(branch), glob)).toMatchObject({ hasData: true, paths: ["a", "b"] });
  });

  test("also if it looks at what came after a commit; if that is given back, it sees nothing", async () => {
    const { branch, from } = await keepingOne();
    expect(await lookAfter(replacedOnce(branch), { glob, from })).toMatchObject({
      hasData: true,
      paths: ["b"],
      complete: true,
    });
    await branch.tags.delete({ name: "from" });
    await dayAfterTags(branch);
    await givenBack(branch);
    expect(await lookAfter(replacedOnce(branch), { glob, from })).toMatchObject({
      hasData: false,
      paths: [],
    });
  });
});

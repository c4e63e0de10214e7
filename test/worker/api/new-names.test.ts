import { describe, expect, test } from "vitest";
import { PipelineSpec } from "../../../protocol/spec.ts";
import { commitFiles, failed, good, makeBranch, testContext } from "./support.ts";

const refusal = { status: 400, code: "InvalidRequest" };
const spec = (name: string, more: object = {}) => ({
  pipeline: { name },
  inputs: [],
  transform: { image: "busybox", cmd: ["true"] },
  ...more,
});

describe("a name with '--', which in a host's label is two names", () => {
  test("is refused of a branch and of a repo that are to be made, empty or from another one", async () => {
    await makeBranch({ repo: "named", branch: "master" });
    await commitFiles({ repo: "named", branch: "master" }, { a: "1" });
    const from = { repo: "named", branch: "master" };
    for (const [repo, name, path] of [
      ["named", "de--v", "name"],
      ["na--med", "dev", "repo"],
      ["na--med", "de--v", "name"],
    ]) {
      for (const body of [{ name }, { name, from }]) {
        expect(await failed(`POST /repos/${repo}/branches`, { body })).toMatchObject({
          ...refusal,
          issues: [{ path, message: expect.stringContaining("'--'") }],
        });
      }
    }
    await failed("GET /repos/na--med/branches/dev");
  });

  test("of a repo that is there lets it be read, written and deleted, and take branches", async () => {
    const old = { repo: "o--ld", branch: "ma--in" };
    await makeBranch(old);
    await commitFiles(old, { a: "1" });
    await good("GET /repos/o--ld/branches/ma--in");
    await good("POST /repos/o--ld/branches", { body: { name: "dev" } });
    // It is there: nothing is made, and it says what it said.
    expect(await failed("POST /repos/o--ld/branches", { body: { name: "ma--in" } })).toMatchObject({
      status: 409,
      code: "AlreadyExists",
    });
    await good("PUT /repos/o--ld/branches/ma--in/keep", { body: { keep: { commits: 5 } } });
    await good("PUT /repos/o--ld/branches/ma--in/tags/v1", { body: {} });
  });

  test("comes with an archive, of a repo, a branch and a tag", async () => {
    const target = "POST /repos/ba--ck/branches/ma--in/imports";
    const settings = { public: false, cors: null, writer: null };
    const branch = { createdAt: 1, head: 1, settings };
    const { import: id } = await good(target, { body: { archive: "0".repeat(64), branch } });
    const commit = [1, "01ARZ3NDEKTSV4RRFFQ69G5FAV", 1, 0, 0, null, null, null, null, 0];
    await good(`${target}/${id}/commits`, { body: { after: 0, commits: [commit] } });
    await good(`${target}/${id}/tags`, { body: { after: "", tags: [["v--1", commit[1], 1]] } });
  });

  test("is refused of a tag that is to be made, not of one that is moved, read or deleted", async () => {
    const address = { repo: "tagged-names", branch: "master" };
    await makeBranch(address);
    const commit = await commitFiles(address, { a: "1" });
    const tags = "/repos/tagged-names/branches/master/tags";
    for (const body of [{}, { force: true }]) {
      expect(await failed(`PUT ${tags}/v--1`, { body })).toMatchObject({
        ...refusal,
        issues: [{ path: "tag", message: expect.stringContaining("'--'") }],
      });
    }
    const made = await testContext().branch(address).tags.create({ name: "v--1", force: false, commit });
    expect(made.ok).toBe(true);
    await commitFiles(address, { a: "2" });
    expect(await good(`PUT ${tags}/v--1`, { body: { force: true } })).toMatchObject({ change: "moved" });
    await good(`GET ${tags}/v--1`);
    await good(`DELETE ${tags}/v--1`);
  });

  test("is refused of a pipeline and its branch that are to be made, not of one that is updated or deleted", async () => {
    for (const target of ["POST /pipelines", "POST /pipelines?dryRun=true"]) {
      expect(await failed(target, { body: spec("pi--pe") })).toMatchObject({
        code: "InvalidSpec",
        issues: [{ path: "pipeline.name", message: expect.stringContaining("'--'") }],
      });
      expect(await failed(target, { body: spec("pipe", { outputBranch: "ma--in" }) })).toMatchObject({
        code: "InvalidSpec",
        issues: [{ path: "outputBranch", message: expect.stringContaining("'--'") }],
      });
    }
    const old = spec("old--pipe", { outputBranch: "ma--in" });
    const made = await testContext()
      .pipeline("old--pipe")
      .lifecycle.create(PipelineSpec.parse(old), { limited: false });
    expect(made.ok).toBe(true);
    await good("POST /pipelines?update=true&dryRun=true", { body: { ...old, description: "new" } });
    await good("POST /pipelines?update=true", { body: { ...old, description: "new" } });
    await good("GET /pipelines/old--pipe");
    await good("DELETE /pipelines/old--pipe");
  });
});

import { describe, expect, test, vi } from "vitest";
import { handleApi } from "../../../worker/api/api.ts";
import { forkOf } from "../branch/fork-support.ts";
import {
  type Command,
  commit,
  makePipeline,
  makeRepo,
  master,
  pathsOf,
  workUntil,
} from "../pipeline/support.ts";
import { failed, good, ROOT, testContext } from "./support.ts";

const erasures = (repo: string) => `POST /repos/${repo}/branches/master/erasures`;

describe("erasing a file", () => {
  test("takes the newest version, one that is named, or all, and says what went", async () => {
    await makeRepo("erase-me");
    const ids = [await commit("erase-me", { a: "1", ab: "1" }), await commit("erase-me", { a: "2" })];
    const newest = await good(erasures("erase-me"), { body: { path: "a" } });
    expect(newest).toMatchObject({
      path: "a",
      erased: [{ kind: "version", version: ids[1] }],
      commit: expect.any(String),
      more: false,
    });
    const none = await failed(erasures("erase-me"), { body: { path: "a", version: ids[1] } });
    expect([none.status, none.code]).toEqual([404, "NoSuchCommit"]);
    await commit("erase-me", { a: "3" });
    await commit("erase-me", { a: null });
    const all = await good(erasures("erase-me"), { body: { path: "a", allVersions: true } });
    expect(all.erased.map(({ kind }: { kind: string }) => kind).sort()).toEqual([
      "deletion",
      "version",
      "version",
    ]);
    expect(all.stays).toEqual([{ kind: "version", bucket: "master.erase-me", path: "ab", id: ids[0] }]);
    expect(await master("erase-me").files.versions({ prefix: "", limit: 9 })).toMatchObject({
      entries: [{ path: "ab" }],
    });
  });

  test("of all its versions takes a deletion along that comes after they were listed", async () => {
    await makeRepo("erase-late");
    await commit("erase-late", { a: "1" });
    const context = testContext();
    const { pipelines } = context.catalogue;
    const list = pipelines.list.bind(pipelines);
    let late = "";
    // It asks for these once it has the list of versions.
    vi.spyOn(pipelines, "list").mockImplementationOnce(async () => {
      late = await commit("erase-late", { a: null });
      return list();
    });
    const url = "http://gateway/api/v1/repos/erase-late/branches/master/erasures";
    const body = JSON.stringify({ path: "a", allVersions: true });
    const response = await handleApi(new Request(url, { method: "POST", body }), { context, caller: ROOT });
    expect(await response.json()).toMatchObject({
      erased: [{ kind: "version" }, { kind: "deletion", version: late }],
      more: false,
    });
    expect(await failed(erasures("erase-late"), { body: { path: "a" } })).toMatchObject({ status: 404 });
  });

  test("tells what was computed from it, and from that in turn, also if it had been computed before", async () => {
    await makeRepo("chain-in");
    const first = await makePipeline({ name: "chain-one", globs: { "chain-in": "/*" } });
    const second = await makePipeline({
      name: "chain-two",
      globs: { in: "/*" },
      repos: { in: "chain-one" },
    });
    const same: Command = (datum) => ({ [`${pathsOf(datum)[0]}.out`]: "the same" });
    await commit("chain-in", { a: "1", b: "1" });
    await workUntil(first, { jobs: 1, command: same });
    await workUntil(second, { jobs: 1, command: same });
    const two = await commit("chain-in", { a: "2" });
    await workUntil(first, { jobs: 2, command: same });
    const told = await good(erasures("chain-in"), { body: { path: "a", version: two } });
    expect(told.outputs).toMatchObject([
      { bucket: "master.chain-one", path: "a.out" },
      { bucket: "master.chain-two", path: "a.out.out" },
    ]);
  });

  test("tells what was computed by a pipeline that is stopped, and from that in turn", async () => {
    await makeRepo("halt-in");
    const first = await makePipeline({ name: "halt-one", globs: { "halt-in": "/*" } });
    const second = await makePipeline({ name: "halt-two", globs: { in: "/*" }, repos: { in: "halt-one" } });
    const id = await commit("halt-in", { a: "1" });
    await workUntil(first, { jobs: 1 });
    await workUntil(second, { jobs: 1 });
    await first.lifecycle.stop();
    await second.lifecycle.stop();
    const told = await good(erasures("halt-in"), { body: { path: "a", version: id } });
    expect(told.outputs).toMatchObject([
      { bucket: "master.halt-one", path: "a.out" },
      { bucket: "master.halt-two", path: "a.out.out" },
    ]);
  });

  test("tells what was computed from the copy of a fork that it is erased in, too", async () => {
    await makeRepo("lend-in");
    const id = await commit("lend-in", { a: "1" });
    await forkOf("master.lend-in", { bucket: "master.lent", commit: id });
    const pipeline = await makePipeline({ name: "of-lent", globs: { lent: "/*" } });
    await workUntil(pipeline, { jobs: 1 });
    const told = await good(erasures("lend-in"), { body: { path: "a", version: id, forks: true } });
    expect(told.forks).toMatchObject([{ bucket: "master.lent" }]);
    expect(told.outputs).toMatchObject([{ bucket: "master.of-lent", path: "a.out" }]);
  });

  test("names nothing of repos that the key may not read", async () => {
    await makeRepo("erase-secret");
    const pipeline = await makePipeline({ name: "erase-out", globs: { "erase-secret": "/*" } });
    const id = await commit("erase-secret", { a: "1", b: "1" });
    await commit("erase-secret", { a: "2" });
    await workUntil(pipeline, { jobs: 2 });
    await forkOf("master.erase-secret", { bucket: "master.erase-fork", commit: id });
    const limited = { scope: { level: "admin", repos: ["erase-secret"] } } as const;
    const body = { path: "a", version: id };
    const held = await failed(erasures("erase-secret"), { body, caller: limited });
    expect([held.status, held.message]).toEqual([409, expect.not.stringContaining("erase-fork")]);
    const denied = await failed(erasures("erase-secret"), {
      body: { ...body, forks: true },
      caller: limited,
    });
    expect([denied.status, denied.message]).toEqual([403, expect.not.stringContaining("erase-fork")]);
    const named = await failed(erasures("erase-secret"), { body });
    expect(named.message).toContain("s3://master.erase-fork");
    await good(erasures("erase-secret"), { body: { ...body, forks: true } });
    const again = await commit("erase-secret", { b: "2" });
    await commit("erase-secret", { b: "3" });
    await workUntil(pipeline, { jobs: 4 });
    const quiet = await good(erasures("erase-secret"), {
      body: { path: "b", version: again },
      caller: limited,
    });
    expect(quiet.outputs).toEqual([]);
    const told = await good(erasures("erase-secret"), { body: { path: "b", version: id, forks: true } });
    expect(told.outputs).toMatchObject([{ bucket: "master.erase-out", path: "b.out" }]);
  });
});

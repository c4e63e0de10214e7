import { env, evictDurableObject } from "cloudflare:test";
import { afterEach, beforeEach, describe, expect, test, vi } from "vitest";
import { BranchDetail, BranchList } from "../../../protocol/repos.ts";
import { crashAt, goOn } from "../branch/large-support.ts";
import { branchOf } from "../branch/support.ts";
import { s3 } from "../s3/support.ts";
import { commitFiles, failed, good, makeBranch } from "./support.ts";

/** The first statement that each slice of a fork writes its files with. */
const SLICE = /INSERT INTO files \(gen, path, born, died, kind, digest, size, attributes\)\s+SELECT/;
const NOWHERE = "01ARZ3NDEKTSV4RRFFQ69G5FAV";

let repos = 0;
/** A repo that no other test uses, with a commit in its branch `master`. */
async function freshRepo(): Promise<{ repo: string; commit: string }> {
  const repo = `forks-${++repos}`;
  const address = { repo, branch: "master" };
  await makeBranch(address);
  return { repo, commit: await commitFiles(address, { a: "1", "b/c": "2" }) };
}

/** Makes a branch of another one, and waits until it can be read. */
async function fork(
  repo: string,
  { name = "fork", from }: { name?: string; from: object },
): Promise<BranchDetail> {
  await good(`POST /repos/${repo}/branches`, { body: { name, from } });
  const look = async () => BranchDetail.parse(await good(`GET /repos/${repo}/branches/${name}`));
  await expect.poll(look).toMatchObject({ forking: null });
  return await look();
}

beforeEach(() => {
  vi.spyOn(console, "warn").mockImplementation(() => {});
});
afterEach(() => {
  vi.restoreAllMocks();
});

describe("POST /repos/{repo}/branches", () => {
  test("makes an empty branch, once", async () => {
    const made = await good("POST /repos/brand-new/branches", { body: { name: "master" } });
    expect(BranchDetail.parse(made)).toMatchObject({ name: "master", head: null, from: null, forking: null });
    const again = await failed("POST /repos/brand-new/branches", { body: { name: "master" } });
    expect(again).toMatchObject({ status: 409, code: "AlreadyExists" });
    expect(again.message).toContain("'master.brand-new'");
  });

  test("makes an empty branch with settings, which hold from the moment on that it is there", async () => {
    const body = { name: "master", keep: { days: 1 }, lastModified: "object", emptyOnly: true };
    const { name: _, ...settings } = body;
    expect(await good("POST /repos/set-from-birth/branches", { body })).toMatchObject(settings);
    expect(await good("GET /repos/set-from-birth/branches/master")).toMatchObject(settings);
    const none = { keep: null, lastModified: null, emptyOnly: false };
    const bare = await good("POST /repos/set-from-birth/branches", { body: { ...none, name: "bare" } });
    expect(bare).toMatchObject(none);
  });

  test("makes an empty branch in a region, which its own answers and the list show", async () => {
    const place = { region: "ap-southeast-2", hint: "oc" };
    const made = await good("POST /repos/placed/branches", {
      body: { name: "master", region: place.region },
    });
    expect(made).toMatchObject({ place });
    await good("POST /repos/placed/branches", { body: { name: "anywhere" } });
    expect(await good("GET /repos/placed/branches/anywhere")).toMatchObject({ place: null });
    const { branches } = BranchList.parse(await good("GET /repos/placed/branches"));
    expect(branches.map((branch) => [branch.name, branch.place])).toEqual([
      ["anywhere", null],
      ["master", place],
    ]);
  });

  test("refuses what looks like no region, with those that it knows", async () => {
    const body = { name: "master", region: "down under" };
    const refused = await failed("POST /repos/misplaced/branches", { body });
    expect([refused.status, refused.code]).toEqual([400, "InvalidRequest"]);
    expect(refused.issues).toEqual([
      { path: "region", message: expect.stringMatching(/^is "down under", but must be .*ap-southeast-2/) },
    ]);
    expect((await failed("GET /repos/misplaced/branches")).code).toBe("NoSuchRepo");
  });

  test("makes a branch where the one is that it is made from", async () => {
    const from = { repo: "placed-parent", branch: "master" };
    await good("POST /repos/placed-parent/branches", { body: { name: "master", region: "eu-west-1" } });
    const made = vi.spyOn(Object.getPrototypeOf(env.BRANCH), "getByName");
    const place = { region: "eu-west-1", hint: "weur" };
    expect(await fork("placed-parent", { from })).toMatchObject({ place });
    expect(made).toHaveBeenCalledWith("fork.placed-parent", { locationHint: "weur" });
    const { branches } = BranchList.parse(await good("GET /repos/placed-parent/branches"));
    expect(branches.map((branch) => branch.place)).toEqual([place, place]);
  });

  test("sets nothing of a branch that is made from another one: it says so, and makes none", async () => {
    const { repo } = await freshRepo();
    for (const asked of [
      { keep: { days: 1 } },
      { lastModified: "branch" },
      { emptyOnly: false },
      { region: "auto" },
    ]) {
      const body = { name: "fork", from: { repo, branch: "master" }, ...asked };
      const refused = await failed(`POST /repos/${repo}/branches`, { body });
      expect([refused.status, refused.code, ...refused.issues.map(({ path }) => path)]).toEqual([
        400,
        "InvalidRequest",
        "from",
      ]);
    }
    expect((await failed(`GET /repos/${repo}/branches/fork`)).code).toBe("NoSuchBranch");
  });

  test("makes a branch from a commit, across repos too; asked again it answers the same, of another source 409", async () => {
    const { repo, commit } = await freshRepo();
    await commitFiles({ repo, branch: "master" }, { a: "changed" });
    const from = { repo, branch: "master", commit };
    const made = await fork(`${repo}-copy`, { from });
    expect(made).toMatchObject({ name: "fork", from, head: expect.any(String) });
    const { files } = await good(`GET /repos/${repo}-copy/branches/fork/commits/${made.head}/files`);
    expect(files.map(({ path, size }: { path: string; size: number }) => [path, size])).toEqual([
      ["a", 1],
      ["b/c", 1],
    ]);
    const route = `POST /repos/${repo}-copy/branches`;
    expect(await good(route, { body: { name: "fork", from } })).toEqual(made);
    expect(await good(route, { body: { name: "fork", from: { repo, branch: "master" } } })).toEqual(made);
    await good(`PUT /repos/${repo}/branches/master/tags/v1`, { body: { commit } });
    expect(await good(route, { body: { name: "fork", from: { ...from, commit: "v1" } } })).toEqual(made);
    for (const other of [
      { ...from, commit: made.head },
      { repo: `${repo}-copy`, branch: "fork" },
    ]) {
      const body = { name: "fork", from: other };
      const error = await failed(route, { body });
      expect(["AlreadyExists", "InvalidRequest"]).toContain(error.code);
    }
    expect((await failed(route, { body: { name: "fork" } })).code).toBe("AlreadyExists");
  });

  test.each([
    ["name", { name: "no dots." }],
    ["name", { from: { repo: "r", branch: "b" } }],
    ["from.commit", { name: "x", from: { repo: "r", branch: "b", commit: "no.sense" } }],
    ["from.branch", { name: "x", from: { repo: "r" } }],
    ["fron", { name: "x", fron: {} }],
    ["from", { name: "x", from: { repo: "somewhere", branch: "x" } }],
  ])("names what is wrong in %s: %j", async (path, body) => {
    const error = await failed("POST /repos/somewhere/branches", { body });
    expect(error).toMatchObject({ status: 400, code: "InvalidRequest" });
    expect(error.issues.map((issue) => issue.path)).toEqual([path]);
  });

  test("makes nothing of what is not there", async () => {
    const { repo } = await freshRepo();
    const cases = [
      [{ repo, branch: "nowhere" }, "NoSuchBranch", `nowhere.${repo}`],
      [{ repo, branch: "master", commit: NOWHERE }, "NoSuchCommit", NOWHERE],
      [{ repo, branch: "master", commit: "no-tag" }, "NoSuchTag", "no-tag"],
    ] as const;
    for (const [from, code, words] of cases) {
      const error = await failed(`POST /repos/${repo}/branches`, { body: { name: "x", from } });
      expect(error).toMatchObject({ status: 404, code });
      expect(error.message).toContain(words);
    }
    expect((await failed(`GET /repos/${repo}/branches/x`)).code).toBe("NoSuchBranch");
  });

  test("needs admin on the repo of the new branch, and read on the other", async () => {
    const { repo, commit } = await freshRepo();
    const body = { name: "fork", from: { repo, branch: "master", commit } };
    const as = (level: "read" | "write" | "admin", repos: string[]) => ({
      body,
      caller: { scope: { level, repos } },
    });
    const to = `POST /repos/${repo}-to/branches`;
    for (const scope of [
      as("admin", [`${repo}-to`]),
      as("write", [repo, `${repo}-to`]),
      as("admin", [repo]),
    ]) {
      expect(await failed(to, scope)).toMatchObject({ status: 403, code: "AccessDenied" });
    }
    expect(await good(to, as("admin", [repo, `${repo}-to`]))).toMatchObject({ from: body.from });
  });
});

describe("a branch that is on its way", () => {
  test("is 503 with Retry-After to S3 and the API, and is listed with how far it is", async () => {
    const { repo, commit } = await freshRepo();
    const crash = crashAt({ statement: SLICE, nth: 1 });
    const from = { repo, branch: "master", commit };
    const made = await good(`POST /repos/${repo}/branches`, { body: { name: "fork", from } });
    expect(made).toMatchObject({ head: null, forking: { copied: 0, total: 2 } });
    await crash.reached();
    const list = BranchList.parse(await good(`GET /repos/${repo}/branches`));
    expect(list.branches.map(({ name, forking }) => [name, forking])).toEqual([
      ["fork", { copied: 0, total: 2 }],
      ["master", undefined],
    ]);
    const error = await failed(`GET /repos/${repo}/branches/fork/commits`);
    expect(error).toMatchObject({ status: 503, code: "Unavailable" });
    expect(error.headers.get("retry-after")).toBe("1");
    for (const [method, path] of [
      ["HEAD", ""],
      ["GET", ""],
      ["GET", "/a"],
      ["PUT", "/a"],
      ["GET", "?versions"],
    ] as const) {
      const answer = await s3(`${method} /fork.${repo}${path}`, method === "PUT" ? { body: "x" } : {});
      expect([answer.status, answer.headers.get("retry-after")], `${method} ${path}`).toEqual([503, "1"]);
    }
    crash.resume();
    const branch = branchOf(`fork.${repo}`);
    await evictDurableObject(branch);
    await goOn(branch);
    await expect
      .poll(async () => BranchList.parse(await good(`GET /repos/${repo}/branches`)).branches[0])
      .not.toHaveProperty("forking");
    expect((await s3(`GET /fork.${repo}/a`)).status).toBe(200);
  });
});

describe("POST …/commits/{id}/revert", () => {
  test("makes one commit with the files of an earlier one, and none if nothing differs", async () => {
    const { repo, commit } = await freshRepo();
    const address = { repo, branch: "master" };
    await commitFiles(address, { a: "changed", d: "new" });
    const route = `POST /repos/${repo}/branches/master/commits/${commit}/revert`;
    const end = await good(route);
    expect(end).toMatchObject({ state: "finished", commit: expect.any(String), session: expect.any(String) });
    const diff = await good(`GET /repos/${repo}/branches/master/commits/${end.commit}/diff?from=${commit}`);
    expect(diff.changes).toEqual([]);
    const told = await good(`POST /repos/${repo}/branches/master/sessions/${end.session}/finish`);
    expect(told).toEqual({ state: "finished", commit: end.commit });
    expect(await good(route)).toMatchObject({ state: "finished", commit: null });
    const entry = await good(`GET /repos/${repo}/branches/master/commits/${end.commit}`);
    expect(entry).toMatchObject({ message: `revert to ${commit}`, key: expect.any(String) });
    await good(`PUT /repos/${repo}/branches/master/tags/v1`, { body: {} });
    await commitFiles(address, { a: "again" });
    const body = { message: "back to v1", meta: { why: "wrong" } };
    const tagged = await good(`POST /repos/${repo}/branches/master/commits/v1/revert`, { body });
    const said = await good(`GET /repos/${repo}/branches/master/commits/${tagged.commit}`);
    expect(said).toMatchObject(body);
  });

  test("says which branch or commit is not there, and needs write", async () => {
    const { repo, commit } = await freshRepo();
    const route = (branch: string, id: string) =>
      `POST /repos/${repo}/branches/${branch}/commits/${id}/revert`;
    expect(await failed(route("nowhere", commit))).toMatchObject({ status: 404, code: "NoSuchBranch" });
    expect(await failed(route("master", NOWHERE))).toMatchObject({ status: 404, code: "NoSuchCommit" });
    const reader = { caller: { scope: { level: "read", repos: null } } } as const;
    expect(await failed(route("master", commit), reader)).toMatchObject({
      status: 403,
      code: "AccessDenied",
    });
  });
});

describe("DELETE /repos/{repo}/branches/{branch}", () => {
  test("deletes a branch with its files, also one that DeleteBucket leaves alone, for keys of level admin", async () => {
    const { repo } = await freshRepo();
    const path = `/repos/${repo}/branches/master`;
    expect(await good(`PUT ${path}/empty-only`, { body: { emptyOnly: true } })).toEqual({ emptyOnly: true });
    expect(await good(`GET ${path}`)).toMatchObject({ emptyOnly: true });
    for (const level of ["read", "write"] as const) {
      const caller = { keyId: "k", scope: { level, repos: [repo] } };
      for (const ask of [`DELETE ${path}`, `PUT ${path}/empty-only`]) {
        const refused = await failed(ask, {
          caller,
          ...(ask.startsWith("PUT") && { body: { emptyOnly: false } }),
        });
        expect([refused.status, refused.code]).toEqual([403, "AccessDenied"]);
      }
    }
    const bucket = await s3(`DELETE /master.${repo}`);
    expect([bucket.status, await bucket.text()]).toEqual([409, expect.stringContaining("BucketNotEmpty")]);
    const caller = { keyId: "k", scope: { level: "admin", repos: [repo] } } as const;
    expect(await good(`DELETE ${path}`, { caller })).toBeUndefined();
    expect((await failed(`GET ${path}`)).code).toBe("NoSuchBranch");
    expect(await failed(`DELETE ${path}`)).toMatchObject({ status: 404, code: "NoSuchBranch" });
  });

  test("with empty=true leaves every branch alone that has a file, whatever it is set to", async () => {
    const { repo } = await freshRepo();
    const path = `/repos/${repo}/branches/master`;
    expect(await failed(`DELETE ${path}?empty=true`)).toMatchObject({
      ...{ status: 409, code: "NotEmpty" },
      message: expect.stringContaining("has files"),
    });
    expect(await good(`GET ${path}`)).toMatchObject({ emptyOnly: false });
    for (const query of ["empty=yes", "empty", "empty=true&empty=true", "full=true"]) {
      expect(await failed(`DELETE ${path}?${query}`)).toMatchObject({ status: 400, code: "InvalidRequest" });
    }
    await makeBranch({ repo, branch: "bare" });
    expect(await good(`DELETE /repos/${repo}/branches/bare?empty=true`)).toBeUndefined();
    expect(await good(`DELETE ${path}?empty=false`)).toBeUndefined();
    expect((await failed(`GET ${path}`)).code).toBe("NoSuchBranch");
  });

  test("leaves alone what is protected for somebody else, and the output of a pipeline", async () => {
    const { repo } = await freshRepo();
    const { id } = await good("POST /keys", { body: { level: "write", repos: [repo] } });
    await good(`PUT /repos/${repo}/branches/master/writer`, { body: { writer: { key: id } } });
    expect(await failed(`DELETE /repos/${repo}/branches/master`)).toMatchObject({
      ...{ status: 403, code: "AccessDenied" },
      message: expect.stringContaining(id),
    });
    const output = branchOf(`master.${repo}-out`);
    await output.output.claim({ pipeline: "edges", uid: "u" });
    expect(await failed(`DELETE /repos/${repo}-out/branches/master`)).toMatchObject({
      ...{ status: 403, code: "AccessDenied" },
      message: expect.stringContaining("output of a pipeline"),
    });
  });
});

import { expect, test } from "vitest";
import { commitFiles, failed, good, makeBranch, paths, testContext } from "./support.ts";

async function branchOf(repo: string, branch = "master") {
  const address = { repo, branch };
  await makeBranch(address);
  const commits = [await commitFiles(address, { a: "1" }), await commitFiles(address, { a: "2" })];
  return { commits, tags: `/repos/${repo}/branches/${branch}/tags` };
}

test("a tag is made, moved by force, shown, listed over the repo and deleted", async () => {
  const { commits, tags } = await branchOf("tagged");
  const [first = "", second] = commits;
  const shown = { name: "v1", branch: "master", bucket: "v1.master.tagged" };
  expect(await good(`PUT ${tags}/v1`, { body: { commit: first.toLowerCase() } })).toEqual({
    ...shown,
    commit: first,
    change: "made",
    before: null,
  });
  expect(await good(`PUT ${tags}/latest`, { body: {} })).toMatchObject({ commit: second, change: "made" });
  expect(await failed(`PUT ${tags}/v1`, { body: {} })).toMatchObject({
    status: 409,
    code: "AlreadyExists",
    message: expect.stringContaining("--force"),
  });
  expect(await good(`PUT ${tags}/v1`, { body: { commit: "latest", force: true } })).toMatchObject({
    commit: second,
    change: "moved",
    before: first,
  });
  expect(await good(`GET ${tags}/v1`)).toEqual({ ...shown, commit: second, createdAt: expect.any(Number) });
  const dev = await branchOf("tagged", "dev");
  await good(`PUT ${dev.tags}/v1`, { body: {} });
  const { tags: all, next } = await good("GET /repos/tagged/tags");
  expect([all.map(({ bucket }: { bucket: string }) => bucket), next]).toEqual([
    ["v1.dev.tagged", "latest.master.tagged", "v1.master.tagged"],
    null,
  ]);
  const { tags: some } = await good("GET /repos/tagged/tags?branch=master");
  expect(some).toHaveLength(2);
  await good(`DELETE ${tags}/v1`);
  expect(await failed(`DELETE ${tags}/v1`)).toMatchObject({ status: 404, code: "NoSuchTag" });
  expect(await failed(`GET ${tags}/v1`)).toMatchObject({ status: 404, code: "NoSuchTag" });
});

test("the list comes in pages that end where it ends", async () => {
  const { tags } = await branchOf("paged-tags");
  const names = ["a", "b", "c", "d"];
  for (const name of names) await good(`PUT ${tags}/${name}`, { body: {} });
  const seen: string[] = [];
  let after: string | null = "";
  for (let page = 0; after !== null; page++) {
    const query: string = after === "" ? "" : `&after=${after}`;
    const list = await good(`GET /repos/paged-tags/tags?limit=2${query}`);
    seen.push(...list.tags.map(({ name }: { name: string }) => name));
    after = list.next;
    expect(page).toBeLessThan(3);
  }
  expect(seen).toEqual(names);
});

test.each([
  ["PUT", "01ARZ3NDEKTSV4RRFFQ69G5FAV", {}, "tag"],
  ["PUT", "01arz3ndektsv4rrffq69g5fav", {}, "tag"],
  ["PUT", "a.b", {}, "tag"],
  ["PUT", "-a", {}, "tag"],
  ["PUT", "v1", { commit: "no such name" }, "commit"],
  ["PUT", "v1", { force: "yes" }, "force"],
  ["PUT", "v1", { comit: "x" }, "comit"],
  ["DELETE", "a.b", undefined, "tag"],
])("%s of '%s' with %o is refused by the field's name", async (method, name, body, field) => {
  const refused = await failed(`${method} /repos/nowhere/branches/master/tags/${name}`, body && { body });
  expect([refused.status, refused.code, paths(refused)]).toEqual([400, "InvalidRequest", [field]]);
});

test("what can't be tagged is said: no branch, no commit yet, no such commit", async () => {
  await makeBranch({ repo: "empty-tags", branch: "master" });
  const { tags } = await branchOf("full-tags");
  expect(await failed("PUT /repos/nowhere/branches/master/tags/v1", { body: {} })).toMatchObject({
    status: 404,
    code: "NoSuchBranch",
  });
  expect(await failed("PUT /repos/empty-tags/branches/master/tags/v1", { body: {} })).toMatchObject({
    status: 404,
    code: "NoSuchCommit",
    message: expect.stringContaining("no commit yet"),
  });
  for (const commit of ["01ARZ3NDEKTSV4RRFFQ69G5FAV", "v0"]) {
    const refused = await failed(`PUT ${tags}/v1`, { body: { commit } });
    expect(refused).toMatchObject({ status: 404, code: "NoSuchCommit" });
    expect(refused.message).toContain(`'${commit}'`);
  }
});

test("a commit that names a commit or a tag as the open one is told that it never changes", async () => {
  const { commits, tags } = await branchOf("fixed");
  await good(`PUT ${tags}/v1`, { body: {} });
  const { upload } = await good("POST /uploads", { body: { repo: "fixed", branch: "master" } });
  const body = { upload, session: commits[0], operations: [{ delete: "a" }] };
  expect(await failed("POST /repos/fixed/branches/master/commits", { body })).toMatchObject({
    status: 405,
    code: "MethodNotAllowed",
    message: expect.stringContaining("never changes"),
  });
});

test("a tag is made with the level write, and deleted or moved with admin or by the key that the branch is protected for", async () => {
  const { commits, tags } = await branchOf("kept-tags");
  const [first] = commits;
  const caller = { keyId: "writer", scope: { level: "write", repos: ["kept-tags"] } } as const;
  expect(await good(`PUT ${tags}/v1`, { body: { commit: first }, caller })).toMatchObject({ change: "made" });
  // It names that commit already.
  expect(await good(`PUT ${tags}/v1`, { body: { commit: first, force: true }, caller })).toMatchObject({
    change: "none",
  });
  const moved = { body: { force: true } };
  const protect = (key: string) =>
    testContext().branch({ repo: "kept-tags", branch: "master" }).settings.change({ writer: { key } });
  for (const writer of [undefined, "somebody"]) {
    if (writer !== undefined) await protect(writer);
    for (const [method, call] of [
      ["PUT", moved],
      ["DELETE", {}],
    ] as const) {
      const refused = await failed(`${method} ${tags}/v1`, { ...call, caller });
      expect([refused.status, refused.code]).toEqual([403, "AccessDenied"]);
      expect(refused.message).toContain("this needs admin in the repo 'kept-tags'");
    }
  }
  expect(await good(`GET ${tags}/v1`)).toMatchObject({ commit: first });
  expect(await good(`PUT ${tags}/v2`, { body: {}, caller })).toMatchObject({ change: "made" });
  const admin = { keyId: "boss", scope: { level: "admin", repos: ["kept-tags"] } } as const;
  expect(await good(`PUT ${tags}/v1`, { ...moved, caller: admin })).toMatchObject({ change: "moved" });
  await good(`DELETE ${tags}/v2`, { caller: admin });
  await protect("writer");
  expect(await good(`PUT ${tags}/v1`, { body: { commit: first, force: true }, caller })).toMatchObject({
    change: "moved",
  });
  await good(`DELETE ${tags}/v1`, { caller });
  // There is nothing that could be taken away.
  expect(await failed(`DELETE ${tags}/v1`, { caller })).toMatchObject({ code: "NoSuchTag" });
});

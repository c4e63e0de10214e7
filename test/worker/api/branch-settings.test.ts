import { describe, expect, test } from "vitest";
import { contentOf, failed, good, makeBranch, testContext } from "./support.ts";

const PROTECT = "PUT /repos/held/branches/master/writer";

describe("a branch's settings", () => {
  test("are shown in the list of branches, as they were set last", async () => {
    await makeBranch({ repo: "shown", branch: "master" });
    await makeBranch({ repo: "shown", branch: "plain" });
    expect(await good("PUT /repos/shown/branches/master/public", { body: { public: true } })).toEqual({
      public: true,
    });
    const { id } = await good("POST /keys", { body: { level: "write", repos: ["shown"] } });
    const writer = { key: id };
    expect(await good("PUT /repos/shown/branches/master/writer", { body: { writer } })).toEqual({ writer });
    expect((await good("GET /repos/shown/branches")).branches).toMatchObject([
      { name: "master", public: true, writer },
      { name: "plain", public: false, writer: null },
    ]);
    await good("PUT /repos/shown/branches/master/public", { body: { public: false } });
    await good("PUT /repos/shown/branches/master/writer", { body: { writer: null } });
    expect((await good("GET /repos/shown/branches")).branches[0]).toMatchObject({
      public: false,
      writer: null,
    });
  });

  test.each([
    ["public", {}],
    ["public", { public: "yes" }],
    ["public", { public: true, more: 1 }],
    ["writer", {}],
    ["writer", { writer: {} }],
    ["writer", { writer: { key: "" } }],
    ["writer", { writer: { pipeline: "no name" } }],
    ["writer", { writer: { key: "k", pipeline: "p" } }],
    ["keep", {}],
    ["keep", { keep: {} }],
    ["keep", { keep: { commits: 0 } }],
    ["keep", { keep: { days: 1.5 } }],
    ["keep", { keep: { commits: 5, weeks: 1 } }],
    ["last-modified", {}],
    ["last-modified", { lastModified: "file" }],
    ["empty-only", {}],
    ["empty-only", { emptyOnly: "on" }],
    ["reads", { reads: "far" }],
  ])("are refused where they make no sense: %s %j", async (what, body) => {
    const refused = await failed(`PUT /repos/held/branches/master/${what}`, { body });
    expect([refused.status, refused.code]).toEqual([400, "InvalidRequest"]);
    expect(JSON.stringify(refused.issues)).toMatch(/public|writer|lastModified|emptyOnly|reads|more|keep/);
  });

  test("are told by name if one is given that there is not, also inside one that may be null", async () => {
    const { issues } = await failed("PUT /repos/held/branches/master/keep", {
      body: { keep: { commits: 5, years: 1 } },
    });
    const message = "there is no field 'years': leave it out; there are commits, days";
    expect(issues).toEqual([{ path: "keep.years", message }]);
  });

  test("are those of a branch that is there", async () => {
    for (const [what, body] of [
      ["public", { public: true }],
      ["writer", { writer: null }],
      ["keep", { keep: null }],
      ["last-modified", { lastModified: "object" }],
      ["empty-only", { emptyOnly: true }],
      ["reads", { reads: "near" }],
    ] as const) {
      const refused = await failed(`PUT /repos/absent/branches/master/${what}`, { body });
      expect([refused.status, refused.code]).toEqual([404, "NoSuchBranch"]);
    }
  });
});

test("Last-Modified of a branch is shown as it was set, and null follows the gateway again", async () => {
  await makeBranch({ repo: "dated", branch: "master" });
  const path = "/repos/dated/branches/master";
  expect(await good(`GET ${path}`)).toMatchObject({ lastModified: null });
  for (const lastModified of ["object", "branch", null]) {
    const set = await good(`PUT ${path}/last-modified`, { body: { lastModified } });
    expect(set).toEqual({ lastModified });
    expect(await good(`GET ${path}`)).toMatchObject({ lastModified });
  }
});

test("how old reads of a branch may be is shown as it was set", async () => {
  await makeBranch({ repo: "aged", branch: "master" });
  const path = "/repos/aged/branches/master";
  expect(await good(`GET ${path}`)).toMatchObject({ reads: "fresh" });
  for (const reads of ["near", "fresh"]) {
    expect(await good(`PUT ${path}/reads`, { body: { reads } })).toEqual({ reads });
    expect(await good(`GET ${path}`)).toMatchObject({ reads });
  }
});

describe("how much of the history is kept", () => {
  test("is said by keys of level admin alone, and shown with the branch", async () => {
    await makeBranch({ repo: "lasting", branch: "master" });
    const path = "/repos/lasting/branches/master";
    expect(await good(`GET ${path}`)).toMatchObject({ keep: null });
    const keep = { commits: 100, days: 30 };
    for (const level of ["read", "write"] as const) {
      const caller = { keyId: "k", scope: { level, repos: ["lasting"] } };
      const refused = await failed(`PUT ${path}/keep`, { body: { keep }, caller });
      expect([refused.status, refused.code]).toEqual([403, "AccessDenied"]);
    }
    expect(await good(`PUT ${path}/keep`, { body: { keep } })).toEqual({ keep });
    expect(await good(`GET ${path}`)).toMatchObject({ keep });
    expect(await good(`PUT ${path}/keep`, { body: { keep: { days: 7 } } })).toEqual({ keep: { days: 7 } });
    expect(await good(`PUT ${path}/keep`, { body: { keep: null } })).toEqual({ keep: null });
  });
});

describe("a protection", () => {
  test("is for a key that may write there, or for the pipeline whose output it is", async () => {
    await makeBranch({ repo: "held", branch: "master" });
    const reader = await good("POST /keys", { body: { level: "read" } });
    const elsewhere = await good("POST /keys", { body: { level: "admin", repos: ["other"] } });
    for (const [writer, says] of [
      [{ key: "SLUICENOBODY00000000" }, "no access key 'SLUICENOBODY00000000'"],
      [{ key: reader.id }, "may not write"],
      [{ key: elsewhere.id }, "may not write"],
      [{ pipeline: "nobody" }, "not the output"],
    ] as const) {
      const refused = await failed(PROTECT, { body: { writer } });
      expect([refused.status, refused.code]).toEqual([400, "InvalidRequest"]);
      expect(refused.message).toContain(says);
    }
  });

  test("keeps out every other key, the root key too, and says who may write", async () => {
    await makeBranch({ repo: "kept", branch: "master" });
    const { id } = await good("POST /keys", { body: { level: "write", repos: ["kept"] } });
    await good("PUT /repos/kept/branches/master/writer", { body: { writer: { key: id } } });
    const target = { repo: "kept", branch: "master" };
    const unknown = "master.kept.01ARZ3NDEKTSV4RRFFQ69G5FAV";
    const mine = { caller: { keyId: id, scope: { level: "write", repos: ["kept"] } } } as const;
    for (const [line, body] of [
      ["POST /uploads", target],
      ["POST /repos/kept/branches/master/commits", { upload: unknown, operations: [{ delete: "a" }] }],
      ["POST /repos/kept/branches/master/sessions", {}],
    ] as const) {
      const refused = await failed(line, { body });
      expect([refused.status, refused.code], line).toEqual([403, "AccessDenied"]);
      expect(refused.message).toContain(`only the access key '${id}'`);
    }
    const { upload } = await good("POST /uploads", { body: target, ...mine });
    const { id: content, bytes } = await contentOf("x");
    await good(`POST /uploads/${upload}/contents`, { body: { contents: [{ ...content, bytes }] }, ...mine });
    const operations = [{ put: "a", ...content }];
    await good("POST /repos/kept/branches/master/commits", { body: { upload, operations }, ...mine });
    const { session } = await good("POST /repos/kept/branches/master/sessions", { body: {}, ...mine });
    const finish = `POST /repos/kept/branches/master/sessions/${session}/finish`;
    expect(await failed(finish)).toMatchObject({ status: 403, code: "AccessDenied" });
    expect(await good(finish, mine)).toMatchObject({ state: "finished" });
    expect(await testContext().branch(target).settings.read()).toMatchObject({ writer: { key: id } });
  });
});

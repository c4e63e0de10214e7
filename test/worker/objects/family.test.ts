import { env, evictDurableObject, runDurableObjectAlarm, runInDurableObject } from "cloudflare:test";
import { afterEach, beforeEach, describe, expect, test, vi } from "vitest";
import { OTHER_FAMILY } from "../../../protocol/family.ts";
import { branchMarker } from "../../../worker/blobs/blob-name.ts";
import { Sql } from "../../../worker/objects/sql.ts";
import { pipelineMarker } from "../../../worker/pipeline/lifecycle/definition.ts";
import { failed } from "../api/support.ts";
import { failure, s3 } from "../s3/support.ts";

let statements: string[] = [];

beforeEach(() => {
  vi.spyOn(console, "error").mockImplementation(() => {});
  vi.spyOn(console, "warn").mockImplementation(() => {});
  const { execute, script } = Sql.prototype;
  vi.spyOn(Sql.prototype, "execute").mockImplementation(function (this: Sql, text, values) {
    statements.push(text);
    return execute.call(this, text, values);
  });
  vi.spyOn(Sql.prototype, "script").mockImplementation(function (this: Sql, text) {
    statements.push(text);
    script.call(this, text);
  });
});
afterEach(() => {
  vi.restoreAllMocks();
});

/** Tables as they were before the first release, as far as it matters here, with rows and an alarm. */
async function makeOld(stub: DurableObjectStub<undefined>): Promise<void> {
  await runInDurableObject(stub, async (_, { storage }) => {
    for (const text of [
      "CREATE TABLE schema_version (one INTEGER PRIMARY KEY, version INTEGER NOT NULL)",
      "INSERT INTO schema_version (version) VALUES (32)",
      "CREATE TABLE generations (gen INTEGER PRIMARY KEY, uid TEXT NOT NULL UNIQUE, created_at INTEGER NOT NULL)",
      "INSERT INTO generations (gen, uid, created_at) VALUES (1, 'uid', 5)",
      "CREATE TABLE pipeline (one INTEGER PRIMARY KEY, name TEXT NOT NULL, state TEXT NOT NULL)",
      "INSERT INTO pipeline (one, name, state) VALUES (1, 'old', 'active')",
    ]) {
      storage.sql.exec(text);
    }
    await storage.setAlarm(Date.now() + 3_600_000);
  });
  await evictDurableObject(stub);
  statements = [];
}

let names = 0;

/** Returns the repo of such a branch, which left its marker as all do. */
async function oldBranch(): Promise<string> {
  const repo = `old-${++names}`;
  await env.BLOBS.put(branchMarker({ repo, branch: "master" }), "{}");
  await makeOld(env.BRANCH.getByName(`master.${repo}`) as unknown as DurableObjectStub<undefined>);
  return repo;
}

/** The object was asked what tables it has, and nothing else. */
function expectOnlyLooked(): void {
  expect(statements.length).toBeGreaterThan(0);
  expect(new Set(statements)).toEqual(new Set(["SELECT name FROM sqlite_master WHERE type = 'table'"]));
}

describe("an object with tables of another family", () => {
  test.each([
    ["GET /master.old/a"],
    ["GET /master.old?list-type=2"],
    ["PUT /master.old/a"],
    ["PUT /master.old"],
    ["DELETE /master.old/a"],
    ["DELETE /master.old"],
  ])("refuses %s as a branch, says why, and writes nothing", async (asked) => {
    const line = asked.replace("old", await oldBranch());
    const body = asked === "PUT /master.old/a" ? { body: "x" } : {};
    expect(await failure(s3(line, body))).toMatchObject({
      ...{ status: 503, Code: "ServiceUnavailable", Message: OTHER_FAMILY },
    });
    expectOnlyLooked();
  });

  test.each([
    ["GET /repos/old/branches/master"],
    ["POST /repos/old/branches"],
    ["GET /repos/old/branches/master/commits"],
  ])("refuses %s of the control API as a branch", async (asked) => {
    const target = asked.replace("old", await oldBranch());
    const body = target.startsWith("POST") ? { body: { name: "master" } } : {};
    expect(await failed(target, body)).toMatchObject({
      ...{ status: 503, code: "Unavailable", message: OTHER_FAMILY },
    });
    expectOnlyLooked();
  });

  test.each([
    ["GET /pipelines/old"],
    ["POST /pipelines/old/stop"],
    ["DELETE /pipelines/old"],
  ])("refuses %s as a pipeline", async (asked) => {
    const name = `old-${++names}`;
    // It left its marker as all do.
    await env.BLOBS.put(pipelineMarker(name), "{}");
    await makeOld(env.PIPELINE.getByName(name) as unknown as DurableObjectStub<undefined>);
    expect(await failed(asked.replace("old", name))).toMatchObject({
      ...{ status: 503, code: "Unavailable", message: OTHER_FAMILY },
    });
    expectOnlyLooked();
  });

  test.each([["BRANCH"], ["PIPELINE"]] as const)("does nothing at an alarm as a %s", async (kind) => {
    const stub = env[kind].getByName("x.rings") as unknown as DurableObjectStub<undefined>;
    await makeOld(stub);
    await expect(runDurableObjectAlarm(stub)).rejects.toThrow("code from before the first release");
    expectOnlyLooked();
  });

  test("that is of a family to come is refused as well", async () => {
    const stub = env.BRANCH.getByName("master.later") as unknown as DurableObjectStub<undefined>;
    await runInDurableObject(stub, (_, { storage }) => {
      storage.sql.exec(
        "CREATE TABLE family (one INTEGER PRIMARY KEY, word TEXT NOT NULL, migrations INTEGER NOT NULL)",
      );
      storage.sql.exec("INSERT INTO family (one, word, migrations) VALUES (1, 'sluice-2', 1)");
    });
    await evictDurableObject(stub);
    await env.BLOBS.put(branchMarker({ repo: "later", branch: "master" }), "{}");
    expect(await failure(s3("GET /master.later/a"))).toMatchObject({ status: 503, Message: OTHER_FAMILY });
  });
});

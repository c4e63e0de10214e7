import { describe, expect, test } from "vitest";
import { handleApi, isApiPath } from "../../../worker/api/api.ts";
import { api, failed, makeBranch, ROOT, testContext } from "./support.ts";

describe("the control API", () => {
  test("is what lies under /api/v1", () => {
    expect(["/api/v1", "/api/v1/", "/api/v1/jobs"].map(isApiPath)).toEqual([true, true, true]);
    expect(["/api/v2/jobs", "/api/v10", "/apis.v1/jobs", "/"].map(isApiPath)).toEqual([
      false,
      false,
      false,
      false,
    ]);
  });

  test("answers 404 for a path that it does not have, and names it", async () => {
    for (const path of ["/", "/nothing", "/pipelines/a/b/c", "/repos/a/branches/b/commits/c/d", "/Jobs"]) {
      const error = await failed(`GET ${path}`);
      expect(error).toMatchObject({ status: 404, code: "NotFound" });
      expect(error.message).toContain(path);
    }
  });

  test("answers 405 with Allow for a method that a path does not have", async () => {
    for (const [target, allow] of [
      ["PUT /pipelines", "GET, POST"],
      ["POST /pipelines/p", "GET, DELETE"],
      ["DELETE /jobs", "GET"],
      ["PATCH /jobs/j", "GET"],
      ["GET /runner/lease", "POST"],
      ["GET /uploads/u/contents", "POST, PUT"],
    ] as const) {
      const error = await failed(target);
      expect(error).toMatchObject({ status: 405, code: "MethodNotAllowed" });
      expect(error.headers.get("allow")).toBe(allow);
    }
  });

  test("refuses a query parameter that a route does not have, and says which", async () => {
    for (const target of [
      "GET /pipelines?wide=1",
      "POST /pipelines?force=true",
      "GET /pipelines/p?x=1",
      "DELETE /pipelines/p?x=1",
      "GET /jobs?x=1",
      "GET /jobs/j?x=1",
      "GET /repos?x=1",
      "GET /repos/r/branches?x=1",
      "GET /repos/r/branches/b/commits?x=1",
      "GET /repos/r/branches/b/commits/c?x=1",
      "GET /repos/r/branches/b/commits/c/diff?x=1",
      "GET /repos/r/branches/b/commits/c/provenance?path=p&x=1",
      "GET /repos/r/branches/b/commits/c/derived?path=p&x=1",
      "GET /repos/r/branches/b/commits/c/files?x=1",
      "GET /nodes?x=1",
      "GET /keys?x=1",
      "POST /keys?x=1",
      "DELETE /keys/k?x=1",
      "POST /uploads?x=1",
      "POST /runner/lease?x=1",
      "DELETE /runner/heartbeat?node=n&x=1",
    ]) {
      const { status, message, issues } = await failed(target, target.startsWith("POST") ? { body: {} } : {});
      expect(status, target).toBe(400);
      expect(message + JSON.stringify(issues), target).toMatch(/'(x|wide|force)'/);
    }
  });

  test("refuses a query parameter that comes twice", async () => {
    expect(await failed("GET /jobs?limit=1&limit=2")).toMatchObject({ status: 400, code: "InvalidRequest" });
  });

  test("refuses names in a path that can't be names, before anything is asked", async () => {
    for (const target of [
      "GET /pipelines/a.b",
      "GET /repos/-r/branches",
      "GET /repos/r/branches/b.c/commits/x/files",
      "GET /pipelines/%20",
    ])
      expect(await failed(target)).toMatchObject({ status: 400, code: "InvalidRequest" });
    expect(await failed("GET /pipelines/%zz")).toMatchObject({ status: 400, code: "InvalidRequest" });
  });

  test("answers 503 where an object is overloaded, and 500 without details for what is our own fault", async () => {
    const silence = console.error;
    console.error = () => {};
    try {
      for (const [error, status] of [
        [Object.assign(new Error("secret"), { overloaded: true }), 503],
        [Object.assign(new Error("secret"), { retryable: true }), 503],
        [new Error("secret"), 500],
      ] as const) {
        const response = await handleApi(new Request("http://gateway/api/v1/pipelines/p"), {
          context: {
            ...testContext(),
            pipeline: () => ({ lifecycle: { inspect: () => Promise.reject(error) } }) as never,
          },
          caller: ROOT,
        });
        expect(response.status).toBe(status);
        expect(await response.text()).not.toContain("secret");
      }
    } finally {
      console.error = silence;
    }
  });
});

describe("the repos", () => {
  test("are listed with their branches", async () => {
    for (const branch of ["master", "dev"]) await makeBranch({ repo: "listed", branch });
    await makeBranch({ repo: "listed-too", branch: "master" });
    const { repos } = await (await api("GET /repos")).json<{
      repos: { name: string; branches: string[] }[];
    }>();
    expect(repos.filter(({ name }) => name.startsWith("listed"))).toEqual([
      { name: "listed", branches: ["dev", "master"] },
      { name: "listed-too", branches: ["master"] },
    ]);
    const { branches } = await (await api("GET /repos/listed/branches")).json<{ branches: unknown[] }>();
    expect(branches).toEqual([
      { name: "dev", createdAt: expect.any(Number), public: false, writer: null, place: null },
      { name: "master", createdAt: expect.any(Number), public: false, writer: null, place: null },
    ]);
  });

  test("that are not there are 404", async () => {
    expect(await failed("GET /repos/none/branches")).toMatchObject({ status: 404, code: "NoSuchRepo" });
  });
});

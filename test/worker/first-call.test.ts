import { env } from "cloudflare:test";
import { afterEach, beforeEach, describe, expect, test, vi } from "vitest";
import { type Context, openContext } from "../../worker/app.ts";
import type { BranchApi } from "../../worker/branch/contract/api.ts";
import { openCatalogue } from "../../worker/catalogue/catalogue.ts";
import { clientOf } from "../../worker/objects/facets.ts";
import { handleS3 } from "../../worker/s3/gateway.ts";
import { contentOf } from "./pipeline/support.ts";
import { CONFIG, s3 as elsewhere, failure, signed } from "./s3/support.ts";

/*
 * What an isolate asks before its first call of a bucket. The objects, D1 and R2 are real ones.
 */

type Env = Parameters<typeof openContext>[0];

/** An isolate that has not seen any bucket yet. */
function isolate(more: Partial<Env> = {}) {
  const own = { ...env, ...more } as Env;
  const context = (): Context => openContext(own, CONFIG);
  const s3 = async (line: string, body?: string): Promise<Response> =>
    await handleS3(await signed(line, body === undefined ? {} : { body }), {
      context: context(),
      now: Date.now,
    });
  return { context, s3 };
}

const called: [name: string, options: unknown][] = [];
let asked = { d1: 0, r2: 0 };

/** From here on the names of the objects that are called, and how often D1 and R2 are asked, are written down. */
function watch(): void {
  called.length = 0;
  asked = { d1: 0, r2: 0 };
}

beforeEach(() => {
  vi.spyOn(console, "warn").mockImplementation(() => {});
  const namespaces = Object.getPrototypeOf(env.BRANCH);
  const { getByName } = namespaces;
  vi.spyOn(namespaces, "getByName").mockImplementation(function (this: unknown, ...args: unknown[]) {
    return new Proxy(getByName.apply(this, args), {
      get(stub, call) {
        if (call !== "call") return stub[call];
        return (...given: unknown[]) => {
          called.push([String(args[0]), args[1]]);
          return stub.call(...given);
        };
      },
    });
  });
  const statements = Object.getPrototypeOf(env.DB.prepare("SELECT 1"));
  const { first } = statements;
  vi.spyOn(statements, "first").mockImplementation(function (this: unknown, ...args: unknown[]) {
    asked.d1 += 1;
    return first.apply(this, args);
  });
  const bucket = Object.getPrototypeOf(env.BLOBS);
  const { get } = bucket;
  vi.spyOn(bucket, "get").mockImplementation(function (this: unknown, ...args: unknown[]) {
    asked.r2 += 1;
    return get.apply(this, args);
  });
  watch();
});
afterEach(() => {
  vi.restoreAllMocks();
});

const names = (): string[] => called.map(([name]) => name);

let buckets = 0;
/** A bucket that was made in another isolate, with a file. */
async function madeElsewhere(): Promise<string> {
  const bucket = `master.first-${++buckets}`;
  await elsewhere(`PUT /${bucket}`);
  await elsewhere(`PUT /${bucket}/key`, { body: "text" });
  watch();
  return bucket;
}

describe("an isolate's first call of a bucket", () => {
  test("is made once D1 knows of it, and then nothing is asked again", async () => {
    const bucket = await madeElsewhere();
    const { s3 } = isolate();
    expect(await (await s3(`GET /${bucket}/key`)).text()).toBe("text");
    expect([names(), asked]).toEqual([[bucket], { d1: 1, r2: 0 }]);
    for (const line of [`HEAD /${bucket}`, `GET /${bucket}?list-type=2`])
      expect((await s3(line)).status).toBe(200);
    expect(asked).toEqual({ d1: 1, r2: 0 });
  });

  test("is not made if there never was one: what tools ask before they make it neither calls nor places it", async () => {
    const { s3 } = isolate();
    const probes = [
      "HEAD /master.probed",
      "GET /master.probed?location",
      "GET /master.probed?list-type=2&max-keys=1",
    ];
    for (const line of probes) expect([line, (await s3(line)).status]).toEqual([line, 404]);
    expect((await failure(s3("GET /master.probed/key"))).Code).toBe("NoSuchBucket");
    expect((await failure(s3("PUT /master.probed/key", "text"))).Code).toBe("NoSuchBucket");
    expect([names(), asked]).toEqual([[], { d1: 5, r2: 5 }]);
    const location = "<LocationConstraint>eu-west-1</LocationConstraint>";
    const body = `<CreateBucketConfiguration>${location}</CreateBucketConfiguration>`;
    expect((await s3("PUT /master.probed", body)).status).toBe(200);
    expect(called).toEqual([["master.probed", { locationHint: "weur" }]]);
    watch();
    expect((await s3("HEAD /master.probed")).status).toBe(200);
    expect([names(), asked]).toEqual([["master.probed"], { d1: 0, r2: 0 }]);
  });

  test("is made of one that was deleted", async () => {
    const bucket = await madeElsewhere();
    await elsewhere(`DELETE /${bucket}`);
    watch();
    expect((await failure(isolate().s3(`GET /${bucket}/key`))).Code).toBe("NoSuchBucket");
    expect([names(), asked]).toEqual([[bucket], { d1: 1, r2: 0 }]);
  });

  test("is made of one that is being imported, of which neither knows yet", async () => {
    const upload = "import";
    await isolate()
      .context()
      .branch({ repo: "imported", branch: "master" })
      .imports.abort({ import: upload });
    expect([names(), asked]).toEqual([["master.imported"], { d1: 0, r2: 0 }]);
  });
});

const AWAY = "D1_ERROR: Network connection lost";
const d1Away = {
  prepare: () => {
    throw new Error(AWAY);
  },
  batch: () => Promise.reject(new Error(AWAY)),
} as unknown as D1Database;

describe("if D1 is", () => {
  test("lost, and not rebuilt yet, a bucket is found by its marker, and is read and written on", async () => {
    const bucket = await madeElsewhere();
    const [branch = "", repo = ""] = bucket.split(".");
    await env.DB.prepare("DELETE FROM branches WHERE repo = ? AND branch = ?").bind(repo, branch).run();
    const { s3 } = isolate();
    expect(await (await s3(`GET /${bucket}/key`)).text()).toBe("text");
    expect(asked).toEqual({ d1: 1, r2: 1 });
    expect((await s3(`PUT /${bucket}/key`, "new")).status).toBe(200);
    expect(await (await s3(`GET /${bucket}/key`)).text()).toBe("new");
    expect(asked).toEqual({ d1: 1, r2: 1 });
    expect((await failure(s3("GET /master.first-none/key"))).Code).toBe("NoSuchBucket");
    expect(names()).not.toContain("master.first-none");
    expect(await openCatalogue(env.DB).branches.isKnown({ repo, branch })).toBe(false);
  });

  test("away, the bucket is called, and is read and written on", async () => {
    const bucket = await madeElsewhere();
    const { s3 } = isolate({ DB: d1Away });
    expect(await (await s3(`GET /${bucket}/key`)).text()).toBe("text");
    expect((await s3(`PUT /${bucket}/key`, "new")).status).toBe(200);
    expect(await (await s3(`GET /${bucket}/key`)).text()).toBe("new");
    expect((await failure(s3("GET /master.first-nowhere/key"))).Code).toBe("NoSuchBucket");
    expect(names()).toContain("master.first-nowhere");
  });

  test("silent, the bucket is called after a while", async () => {
    const bucket = await madeElsewhere();
    vi.spyOn(scheduler, "wait").mockResolvedValue();
    const never = { first: () => new Promise(() => {}), bind: () => never };
    const { s3 } = isolate({ DB: { prepare: () => never } as unknown as D1Database });
    expect(await (await s3(`GET /${bucket}/key`)).text()).toBe("text");
    expect(scheduler.wait).toHaveBeenCalledTimes(1);
  });

  test("there and does not know the bucket, and R2 is away, the bucket is called", async () => {
    const BLOBS = { get: () => Promise.reject(new Error("R2 is away")) } as unknown as R2Bucket;
    const { s3 } = isolate({ BLOBS });
    expect((await failure(s3("GET /master.first-unmarked/key"))).Code).toBe("NoSuchBucket");
    expect(names()).toEqual(["master.first-unmarked"]);
  });
});

describe("of a branch that was never made", () => {
  const address = { repo: "never-made", branch: "master" };
  const content = contentOf("text");
  const page = { prefix: "", limit: 1 };
  const calls: Record<string, (branch: BranchApi) => Promise<unknown>> = {
    "lifecycle.status": ({ lifecycle }) => lifecycle.status(),
    "lifecycle.status, public": ({ lifecycle }) => lifecycle.status({ publicOnly: true }),
    "lifecycle.inspect": ({ lifecycle }) => lifecycle.inspect(),
    "settings.read": ({ settings }) => settings.read(),
    "files.read": ({ files }) => files.read({ path: "a" }),
    "files.read, public": ({ files }) => files.read({ path: "a", publicOnly: true }),
    "files.list": ({ files }) => files.list(page),
    "files.list, public": ({ files }) => files.list({ ...page, publicOnly: true }),
    "files.versions": ({ files }) => files.versions(page),
    "files.put": ({ files }) => files.put({ path: "a", content, attributes: {} }),
    "uploads.open": ({ uploads }) => uploads.open({}),
  };

  test.each(Object.keys(calls))("%s answers unasked what the object would", async (name) => {
    const call = calls[name] ?? (() => Promise.reject(new Error(name)));
    const unasked = await call(isolate().context().branch(address));
    expect(names()).toEqual([]);
    expect(unasked).toEqual(
      await call(clientOf<BranchApi>(env.BRANCH.getByName("master.never-made-either"))),
    );
  });

  const others: Record<string, (branch: BranchApi) => Promise<unknown>> = {
    "files.read of a view": ({ files }) => files.read({ path: "a", openCommit: "v1" }),
    "files.read of a version": ({ files }) => files.read({ path: "a", commit: "01ARZ3NDEKTSV4RRFFQ69G5FAV" }),
    "files.view": ({ files }) => files.view({ view: "v1" }),
    "files.keepBlobs": ({ files }) => files.keepBlobs({ blobs: [] }),
    "multipart.status": ({ multipart }) => multipart.status({ upload: "x" }),
    "feed.position": ({ feed }) => feed.position({ commit: "01ARZ3NDEKTSV4RRFFQ69G5FAV" }),
  };

  test.each(Object.keys(others))("%s is answered by an object that nobody can make", async (name) => {
    const call = others[name] ?? (() => Promise.reject(new Error(name)));
    const answer = await call(isolate().context().branch(address));
    expect(names()).toEqual([".nobody"]);
    expect(answer).toEqual(await call(clientOf<BranchApi>(env.BRANCH.getByName("master.never-made-either"))));
  });
});

describe("a deployment with a jurisdiction", () => {
  const body =
    "<CreateBucketConfiguration><LocationConstraint>eu-west-1</LocationConstraint></CreateBucketConfiguration>";

  test("has its objects there, and hints at no place", async () => {
    // The local runtime knows no jurisdictions.
    const jurisdiction = vi.fn(() => env.BRANCH);
    const BRANCH = { jurisdiction } as unknown as Env["BRANCH"];
    const PIPELINE = { jurisdiction } as unknown as Env["PIPELINE"];
    const { s3 } = isolate({ BRANCH, PIPELINE, SLUICE_JURISDICTION: "eu" } as Partial<Env>);
    expect((await s3("PUT /master.in-eu", body)).status).toBe(200);
    expect(called).toEqual([["master.in-eu", undefined]]);
    expect(jurisdiction).toHaveBeenCalledWith("eu");
    expect((await s3("PUT /master.in-eu/key", "text")).status).toBe(200);
  });

  test("is none on one machine, whose objects would seem to be gone", async () => {
    const files = { fetch: async () => new Response(null, { status: 200 }) } as unknown as Fetcher;
    const more = { DISK: files, BRANCH_FILES: files, SLUICE_JURISDICTION: "eu" };
    const { s3 } = isolate(more as Partial<Env>);
    expect((await s3("HEAD /master.in-eu")).status).toBe(200);
    expect(names()).toEqual(["master.in-eu"]);
  });
});

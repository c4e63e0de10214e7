import { env, runInDurableObject } from "cloudflare:test";
import { afterEach, beforeEach, describe, expect, test, vi } from "vitest";
import { bucketName } from "../../protocol/names.ts";
import { PipelineSpec } from "../../protocol/spec.ts";
import { type Context, openContext } from "../../worker/app.ts";
import type { BranchApi } from "../../worker/branch/contract/api.ts";
import { openCatalogue } from "../../worker/catalogue/catalogue.ts";
import { placeOfRegion } from "../../worker/core/places.ts";
import { clientOf } from "../../worker/objects/facets.ts";
import type { PipelineApi } from "../../worker/pipeline/contract.ts";
import { handleS3 } from "../../worker/s3/gateway.ts";
import { contentOf } from "./pipeline/support.ts";
import { CONFIG, s3 as elsewhere, failure, signed } from "./s3/support.ts";

/*
 * What an isolate asks before its first call of a bucket or a pipeline. The objects, D1 and R2 are real ones.
 */

type Env = Parameters<typeof openContext>[0];

/** An isolate that has not seen any bucket yet. */
function isolate(more: Partial<Env> = {}, { probesBuckets = true }: Partial<Context["config"]> = {}) {
  const own = { ...env, ...more } as Env;
  const config = { ...CONFIG, probesBuckets };
  const context = (): Context => openContext(own, config);
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

const PARENT = "master.first-parent";
/** A branch as an archive has it. */
const ARCHIVED = {
  ...{ createdAt: 1, head: 1, floor: 1 },
  settings: { public: false, cors: null, writer: null, modified: null, emptyOnly: false },
};

let buckets = 0;
/** A bucket that was made in another isolate, with a file. */
async function madeElsewhere(): Promise<string> {
  const bucket = `master.first-${++buckets}`;
  await elsewhere(`PUT /${bucket}`);
  await elsewhere(`PUT /${bucket}/key`, { body: "text" });
  watch();
  return bucket;
}

const AWAY = "D1_ERROR: Network connection lost";
const d1Away = {
  prepare: () => {
    throw new Error(AWAY);
  },
  batch: () => Promise.reject(new Error(AWAY)),
} as unknown as D1Database;

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

  test("is made of one whose maker died behind its marker: there is none, and it can be made", async () => {
    await env.BLOBS.put("m/branches/first-dead/master", "{}");
    const { s3 } = isolate();
    expect((await failure(s3("GET /master.first-dead/key"))).Code).toBe("NoSuchBucket");
    expect([names(), asked]).toEqual([["master.first-dead"], { d1: 1, r2: 1 }]);
    expect((await s3("PUT /master.first-dead")).status).toBe(200);
    expect((await s3("PUT /master.first-dead/key", "text")).status).toBe(200);
    expect(await (await isolate().s3("GET /master.first-dead/key")).text()).toBe("text");
  });

  test("is made of all if buckets are not looked for", async () => {
    const { s3 } = isolate({}, { probesBuckets: false });
    expect((await failure(s3("GET /master.first-unprobed/key"))).Code).toBe("NoSuchBucket");
    expect([names(), asked]).toEqual([["master.first-unprobed"], { d1: 0, r2: 0 }]);
  });
});

describe("an isolate's first call of a pipeline", () => {
  const none = { ok: false, reason: "no-such-pipeline" };
  let pipelines = 0;
  /** The object of a pipeline that nobody made, and of the branch that it is to read. */
  const fresh = async () => {
    const name = `first-pipeline-${++pipelines}`;
    const repo = `${name}-in`;
    await elsewhere(`PUT /master.${repo}`);
    const spec = PipelineSpec.parse({
      pipeline: { name },
      transform: { image: "busybox", cmd: ["true"] },
      inputs: [{ repo: { name: repo }, glob: "/*" }],
    });
    watch();
    return { name, spec, object: clientOf<PipelineApi>(env.PIPELINE.getByName(name)) };
  };

  test("is not made if there never was one: what tools ask before they make it neither calls nor places it", async () => {
    const { name, spec } = await fresh();
    const { context } = isolate();
    expect(await context().pipeline(name).lifecycle.inspect()).toEqual(none);
    expect(await context().pipeline(name).lifecycle.stop()).toEqual(none);
    expect([names(), asked]).toEqual([[".nobody"], { d1: 2, r2: 2 }]);
    watch();
    const made = await context().pipeline(name, placeOfRegion("eu-west-1")).lifecycle.create(spec);
    expect(made).toMatchObject({ ok: true });
    expect(called.filter(([called]) => called === name)).toEqual([[name, { locationHint: "weur" }]]);
    watch();
    expect(await context().pipeline(name).lifecycle.inspect()).toMatchObject({ ok: true });
    expect([names(), asked]).toEqual([[name], { d1: 0, r2: 0 }]);
  });

  test("is made of one that D1 knows, that is deleted, or that has its marker alone", async () => {
    const { name, spec, object } = await fresh();
    await object.lifecycle.create(spec);
    watch();
    expect(await isolate().context().pipeline(name).lifecycle.inspect()).toMatchObject({ ok: true });
    expect([names(), asked]).toEqual([[name], { d1: 1, r2: 0 }]);
    await env.DB.prepare("DELETE FROM pipelines WHERE name = ?").bind(name).run();
    watch();
    expect(await isolate().context().pipeline(name).lifecycle.inspect()).toMatchObject({ ok: true });
    expect([names(), asked]).toEqual([[name], { d1: 1, r2: 1 }]);
    await object.lifecycle.destroy({ keepOutput: false });
    watch();
    expect(await isolate().context().pipeline(name).lifecycle.inspect()).toEqual(none);
    expect(names()).toEqual([name]);
  });

  test("finds one as soon as its maker is told of it, and one that is only half made can be deleted", async () => {
    const { name, spec, object } = await fresh();
    const { begun, release } = holdMarkers(`m/pipelines/${name}`);
    const making = object.lifecycle.create(spec);
    await expect.poll(begun).toBe(true);
    expect(await isolate().context().pipeline(name).lifecycle.inspect()).toEqual(none);
    release();
    expect(await making).toMatchObject({ ok: true });
    await env.DB.prepare("DELETE FROM pipelines WHERE name = ?").bind(name).run();
    expect(await isolate().context().pipeline(name).lifecycle.inspect()).toMatchObject({ ok: true });

    const half = await fresh();
    marking("m/pipelines/", () => Promise.reject(new Error("R2 is away")));
    expect(await half.object.lifecycle.create(half.spec)).toEqual({ ok: false, reason: "unavailable" });
    vi.restoreAllMocks();
    expect(await isolate().context().pipeline(half.name).lifecycle.destroy({ keepOutput: false })).toEqual({
      ok: true,
    });
    expect(await half.object.lifecycle.inspect()).toEqual(none);
  });

  test("is made of all if D1 is away, or if nothing is looked for", async () => {
    const { name } = await fresh();
    const away = isolate({ DB: d1Away }).context().pipeline(name);
    expect(await away.lifecycle.inspect()).toEqual(none);
    expect(names()).toEqual([name]);
    watch();
    const unasked = isolate({}, { probesBuckets: false }).context().pipeline(name);
    expect(await unasked.lifecycle.inspect()).toEqual(none);
    expect([names(), asked]).toEqual([[name], { d1: 0, r2: 0 }]);
  });
});

/** What happens to the markers that are written whose names begin so. */
function marking(begin: string, happens: (write: () => Promise<unknown>) => Promise<unknown>): void {
  const bucket = Object.getPrototypeOf(env.BLOBS);
  const { put } = bucket;
  vi.spyOn(bucket, "put").mockImplementation(function (this: unknown, ...args: unknown[]) {
    const write = () => put.apply(this, args);
    return String(args[0]).startsWith(begin) ? happens(write) : write();
  });
}

/**
 * From here on they wait for `release`. `begun`: whether one is to be written. Objects and tests resume nothing of each other: each
 * looks by itself.
 */
function holdMarkers(begin: string): { begun: () => boolean; release: () => void } {
  const is = { begun: false, held: true };
  marking(begin, async (write) => {
    is.begun = true;
    while (is.held) await scheduler.wait(1);
    return await write();
  });
  const release = () => {
    is.held = false;
  };
  return { begun: () => is.begun, release };
}

test("a branch that only pipelines knew, and left no marker, leaves one before it begins", async () => {
  const address = { repo: "first-followed", branch: "master" };
  const object = clientOf<BranchApi>(env.BRANCH.getByName(bucketName(address)));
  await object.feed.subscribe({ uid: "uid", pipeline: "reads" });
  // As before, when only a creation left one.
  await env.BLOBS.delete("m/branches/first-followed/master");
  const { begun, release } = holdMarkers(`m/branches/${address.repo}`);
  const making = object.lifecycle.create();
  await expect.poll(begun).toBe(true);
  const none = { ok: false, reason: "no-such-branch" };
  expect(await object.lifecycle.status()).toEqual(none);
  expect(await isolate().context().branch(address).lifecycle.status()).toEqual(none);
  release();
  expect(await making).toMatchObject({ ok: true });
});

test("a branch that was deleted and is made again is found by the marker of its earlier life, whatever D1 knows", async () => {
  const address = { repo: "first-again", branch: "master" };
  const { lifecycle } = clientOf<BranchApi>(env.BRANCH.getByName(bucketName(address)));
  await lifecycle.create();
  await lifecycle.destroy();
  marking(`m/branches/${address.repo}`, () => Promise.reject(new Error("R2 is away")));
  const made = await lifecycle.create();
  expect(made).toEqual({ ok: false, reason: "catalogue-unavailable" });
  await env.DB.prepare("DELETE FROM branches WHERE repo = ?").bind(address.repo).run();
  const seen = await lifecycle.status();
  expect(seen).toMatchObject({ ok: true });
  expect(await isolate().context().branch(address).lifecycle.status()).toEqual(seen);
});

test("what a pipeline takes, and gives back before the marker is there, is given back", async () => {
  const address = { repo: "first-given-back", branch: "master" };
  const stub = env.BRANCH.getByName(bucketName(address));
  const { feed, output, lifecycle } = clientOf<BranchApi>(stub);
  const { begun, release } = holdMarkers(`m/branches/${address.repo}`);
  const uid = "uid";
  const taking = [output.claim({ uid, pipeline: "gone" }), feed.subscribe({ uid, pipeline: "gone" })];
  await expect.poll(begun).toBe(true);
  const giving = [output.release({ uid, destroy: true }), feed.unsubscribe({ uid })];
  // They have come.
  await lifecycle.status();
  release();
  await Promise.all([...taking, ...giving]);
  expect(await lifecycle.status()).toEqual({ ok: false, reason: "no-such-branch" });
  const { id } = stub;
  const followers = await runInDurableObject(env.BRANCH.get(id), (_, { storage: { sql } }) =>
    sql.exec("SELECT uid FROM subscribers").toArray(),
  );
  expect(followers).toEqual([]);
  expect(await lifecycle.create()).toMatchObject({ ok: true });
});

/** The calls that make the object of a branch. */
const MAKERS: Record<string, (branch: BranchApi) => Promise<unknown>> = {
  "lifecycle.create": ({ lifecycle }) => lifecycle.create(),
  "lifecycle.fork": ({ lifecycle }) => lifecycle.fork({ parent: PARENT }),
  "imports.begin": ({ imports }) => imports.begin({ archive: "0".repeat(64), branch: ARCHIVED }),
  "feed.subscribe": ({ feed }) => feed.subscribe({ uid: "uid", pipeline: "reads" }),
  "output.claim": ({ output }) => output.claim({ uid: "uid", pipeline: "writes" }),
};

describe.each(Object.keys(MAKERS))("a branch that %s makes", (name) => {
  const make = (branch: BranchApi): Promise<unknown> =>
    MAKERS[name]?.(branch) ?? Promise.reject(new Error(name));
  /** A branch that is not there yet, as the object itself and as an isolate that has not seen it. */
  const fresh = () => {
    const address = { repo: `first-made-${++buckets}`, branch: "master" };
    const object = clientOf<BranchApi>(env.BRANCH.getByName(bucketName(address)));
    /** Whether there are rows of it, as everybody finds. */
    const found = async () => {
      const all = [object, isolate().context().branch(address)];
      return await Promise.all(all.map(async ({ admin }) => (await admin.loops()) !== null));
    };
    return { address, object, found };
  };
  beforeEach(async () => {
    await clientOf<BranchApi>(env.BRANCH.getByName(PARENT)).lifecycle.create();
  });

  test("is there for every isolate as soon as it is for one, whatever D1 knows", async () => {
    const { address, object, found } = fresh();
    const { begun, release } = holdMarkers(`m/branches/${address.repo}`);
    let isMade = false;
    const making = make(object).finally(() => {
      isMade = true;
    });
    await expect.poll(() => begun() || isMade).toBe(true);
    expect(await found()).toEqual([false, false]);
    release();
    expect(await making).toMatchObject({ ok: true });
    await env.DB.prepare("DELETE FROM branches WHERE repo = ?").bind(address.repo).run();
    expect(await found()).toEqual([true, true]);
  });

  test("leaves nothing if its marker can't be written, and is made once it can", async () => {
    const { address, object, found } = fresh();
    marking(`m/branches/${address.repo}`, () => Promise.reject(new Error("R2 is away")));
    const refused = await make(object).catch(() => ({ ok: false }));
    expect(refused).toMatchObject({ ok: false });
    expect(await found()).toEqual([false, false]);
    vi.restoreAllMocks();
    expect(await make(object)).toMatchObject({ ok: true });
  });
});

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

import { env } from "cloudflare:test";
import { AwsClient } from "aws4fetch";
import { afterEach, describe, expect, test, vi } from "vitest";
import type { Readiness } from "../../protocol/ready.ts";
import { Ledger } from "../../worker/branch/ledger/ledger.ts";
import { DiskRoom } from "../../worker/disk-room.ts";
import type { Env } from "../../worker/env.ts";
import gateway from "../../worker/index.ts";
import { findCauses, NEWEST_MIGRATION } from "../../worker/ready.ts";
import { FAULTS } from "../support/faults.ts";
import { contentOf, good } from "./api/support.ts";

const ROOT = {
  accessKeyId: env.SLUICE_ACCESS_KEY_ID,
  secretAccessKey: env.SLUICE_SECRET_ACCESS_KEY,
};

/** All that a gateway needs. */
const WHOLE = { ...env, SLUICE_ENCRYPTION_KEY: btoa("k".repeat(32)) };

interface Answer extends Readiness {
  readonly status: number;
}

/** `with`: what the gateway has, which a part of may be away. Each is an isolate of its own, so that nothing is remembered. */
async function ask(
  given: Partial<Record<keyof Env, unknown>> = {},
  key?: { accessKeyId: string; secretAccessKey: string },
): Promise<Answer> {
  const url = "http://gateway/readyz";
  const request = key
    ? await new AwsClient({ ...key, service: "s3", region: "auto" }).sign(url)
    : new Request(url);
  const whole = { ...WHOLE, ...given } as Env;
  const response = await gateway.fetch(request as Parameters<typeof gateway.fetch>[0], whole);
  return { status: response.status, ...(await response.json<Readiness>()) };
}

const away = () => Promise.reject(new Error("D1_ERROR: away"));
const AWAY_STATEMENT = { bind: () => AWAY_STATEMENT, first: away, all: away, run: away };
const AWAY_DB = { prepare: () => AWAY_STATEMENT, batch: away };

afterEach(() => {
  vi.restoreAllMocks();
});

describe("GET /readyz", () => {
  test("is 200 without a signature if the gateway can serve, and tells nothing else", async () => {
    expect(await ask()).toEqual({ status: 200, ready: true, failed: [] });
  });

  test("tells a key that is for all repos the versions, and no other key", async () => {
    const versions = { wire: expect.any(Number), migration: NEWEST_MIGRATION };
    expect((await ask({ VERSION: undefined }, ROOT)).versions).toEqual(versions);
    const VERSION = { id: "upload-1", tag: "", timestamp: "" };
    expect((await ask({ VERSION }, ROOT)).versions).toEqual({ ...versions, upload: "upload-1" });
    const made = async (more: object) => {
      const { id, secret } = await good("POST /keys", {
        body: { level: "read", description: "one", ...more },
      });
      return { accessKeyId: id, secretAccessKey: secret };
    };
    expect((await ask({}, await made({}))).versions).toBeDefined();
    expect(await ask({}, await made({ repos: ["r"] }))).toEqual({ status: 200, ready: true, failed: [] });
    expect((await ask({}, { ...ROOT, secretAccessKey: "wrong-secret" })).versions).toBeUndefined();
  });

  test("knows the newest migration by its name", () => {
    expect(NEWEST_MIGRATION).toBe(env.TEST_MIGRATIONS.at(-1)?.name);
  });

  test("does not mind the migrations of a newer release", async () => {
    await env.DB.prepare("INSERT INTO d1_migrations (name) VALUES ('9999_later.sql')").run();
    expect((await ask()).status).toBe(200);
    await env.DB.prepare("DELETE FROM d1_migrations WHERE name = '9999_later.sql'").run();
  });

  test("names the blobs if their store does not answer", async () => {
    const BLOBS = { get: () => Promise.reject(new Error("internal error")) };
    expect(await ask({ BLOBS, DISK: undefined })).toEqual({ status: 503, ready: false, failed: ["blobs"] });
  });

  test("asks the stores once for a crowd", async () => {
    let asked = 0;
    const BLOBS = {
      get: () => {
        asked += 1;
        return Promise.resolve(null);
      },
    };
    const one = { ...WHOLE, BLOBS, DISK: undefined } as unknown as Env;
    const request = () => new Request("http://gateway/readyz") as Parameters<typeof gateway.fetch>[0];
    const answers = await Promise.all(Array.from({ length: 20 }, () => gateway.fetch(request(), one)));
    expect(answers.map(({ status }) => status)).toEqual(Array.from({ length: 20 }, () => 200));
    expect(asked).toBe(1);
  });
});

/** A host whose disks have so much room, in bytes. */
function hostWithRoom(...spaces: readonly { freeBytes: number; totalBytes: number }[]) {
  const HOST = { fetch: async () => Response.json({ spaces }) };
  return { HOST, SLUICE_HOST_TOKEN: "token" };
}

describe("a full disk", () => {
  const GIB = 1024 ** 3;
  const FULL = hostWithRoom(
    { freeBytes: 50 * GIB, totalBytes: 100 * GIB },
    { freeBytes: 1024 ** 2, totalBytes: 100 * GIB },
  );

  async function s3(method: string, { host = FULL, body }: { host?: object; body?: string } = {}) {
    const signer = new AwsClient({ ...ROOT, service: "s3", region: "auto", retries: 0 });
    const url = "http://gateway/master.nearly/key";
    const request = await signer.sign(url, { method, ...(body !== undefined && { body }) });
    return await gateway.fetch(
      request as Parameters<typeof gateway.fetch>[0],
      {
        ...WHOLE,
        ...host,
      } as unknown as Env,
    );
  }

  test("is named by /readyz, which stays 200, and its cure is told to keys that are for all repos", async () => {
    expect(await ask(FULL)).toEqual({ status: 200, ready: true, failed: ["disk"] });
    expect(await ask(FULL, ROOT)).toMatchObject({ status: 200, ...FAULTS["a full disk"] });
    const roomy = hostWithRoom({ freeBytes: GIB, totalBytes: 100 * GIB });
    expect(await ask(roomy)).toEqual({ status: 200, ready: true, failed: [] });
    const small = hostWithRoom({ freeBytes: 9 * 1024 ** 2, totalBytes: 64 * 1024 ** 2 });
    expect(await ask(small)).toEqual({ status: 200, ready: true, failed: [] });
  });

  test("takes no new files, small ones neither, while others are read and deleted; a host that can't tell refuses none", async () => {
    vi.spyOn(console, "error").mockImplementation(() => {});
    vi.spyOn(console, "warn").mockImplementation(() => {});
    await good("POST /repos/nearly/branches", { body: { name: "master" } });
    const silent = { HOST: { fetch: () => Promise.reject(new Error("away")) }, SLUICE_HOST_TOKEN: "token" };
    expect((await s3("PUT", { host: silent, body: "old" })).status).toBe(200);
    for (const body of ["small", "x".repeat(20_000)]) {
      const refused = await s3("PUT", { body });
      expect(refused.status).toBe(503);
      expect(await refused.text()).toContain("<Code>StorageFull</Code>");
    }
    expect(await (await s3("GET")).text()).toBe("old");
    expect((await s3("DELETE")).status).toBe(204);
    expect((await s3("GET")).status).toBe(404);
  });

  test("takes no contents by uploads, no pages of imports and no copies, and still names what came before, deletes and erases", async () => {
    vi.spyOn(console, "error").mockImplementation(() => {});
    const signer = new AwsClient({ ...ROOT, service: "s3", region: "auto", retries: 0 });
    const ask = async (target: string, body: object, host: object = {}) => {
      const [method = "", path = ""] = target.split(" ");
      const url = `http://gateway${path}`;
      const copy = path.startsWith("/master.") && { headers: { "x-amz-copy-source": "/master.brimful/old" } };
      const sent = copy || (method !== "DELETE" && { body: JSON.stringify(body) });
      const request = await signer.sign(url, { method, ...sent });
      const whole = { ...WHOLE, ...host } as unknown as Env;
      const answer = await gateway.fetch(request as Parameters<typeof gateway.fetch>[0], whole);
      return { status: answer.status, text: await answer.text() };
    };
    const refused = async (target: string, body: object = {}) => {
      const { status, text } = await ask(target, body, FULL);
      expect(`${target}: ${status} ${text}`).toMatch(/: 503 .*StorageFull/s);
    };
    const taken = async (target: string, body: object = {}) => {
      const { status, text } = await ask(target, body, FULL);
      expect(`${target}: ${status} ${text}`).toMatch(/: 20\d /);
    };
    const branch = "/api/v1/repos/brimful/branches/master";
    const commits = `${branch}/commits`;
    await good("POST /repos/brimful/branches", { body: { name: "master" } });
    const { upload } = await good("POST /uploads", { body: { repo: "brimful", branch: "master" } });
    const [old, fresh] = [await contentOf("old"), await contentOf("fresh")];
    await good(`POST /uploads/${upload}/contents`, { body: { contents: [{ ...old.id, bytes: old.bytes }] } });

    const uploads = `/api/v1/uploads/${upload}`;
    await refused(`POST ${uploads}/contents`, { contents: [{ ...fresh.id, bytes: fresh.bytes }] });
    await refused(`POST ${uploads}/reserve`, { contents: [old.id] });
    const lacking = { upload, operations: [{ put: "fresh", ...fresh.id }] };
    expect((await ask(`POST ${commits}`, lacking, FULL)).text).toContain("NoSuchContent");
    await taken(`POST ${commits}`, { upload, operations: [{ put: "old", ...old.id }] });
    await refused("PUT /master.brimful/copy");

    const imports = "/repos/brimful/branches/back/imports";
    const settings = { public: false, cors: null, writer: null };
    const beginning = { archive: "0".repeat(64), branch: { createdAt: 1, head: 1, settings } };
    await refused(`POST /api/v1${imports}`, beginning);
    const { import: begun } = await good(`POST ${imports}`, { body: beginning });
    const pages = `/api/v1${imports}/${begun}`;
    await refused(`POST ${pages}/commits`, { after: 0, commits: [] });
    await refused(`POST ${pages}/tags`, { after: "", tags: [] });
    await refused(`POST ${pages}/files`, { after: { path: "", born: 0 }, files: [], contents: [] });
    await taken(`DELETE ${pages}`);

    const { upload: second } = await good("POST /uploads", { body: { repo: "brimful", branch: "master" } });
    await taken(`POST ${commits}`, { upload: second, operations: [{ delete: "old" }] });
    await taken(`POST ${branch}/erasures`, { path: "old", allVersions: true });
    await taken(`PUT ${branch}/keep`, { keep: { commits: 1 } });
  });

  test("asks the host once for many files", async () => {
    let asked = 0;
    const HOST = {
      fetch: async () => {
        asked += 1;
        return Response.json({ spaces: [] });
      },
    };
    await good("POST /repos/nearly/branches", { body: { name: "master" } }).catch(() => undefined);
    const whole = { ...WHOLE, HOST, SLUICE_HOST_TOKEN: "token" } as unknown as Env;
    const signer = new AwsClient({ ...ROOT, service: "s3", region: "auto", retries: 0 });
    for (let each = 0; each < 5; each++) {
      const request = await signer.sign("http://gateway/master.nearly/many", {
        method: "PUT",
        body: `${each}`,
      });
      expect((await gateway.fetch(request as Parameters<typeof gateway.fetch>[0], whole)).status).toBe(200);
    }
    expect(asked).toBeLessThan(5);
  });

  test("is named for a minute by a write that found no room, whatever is free by then", async () => {
    const clock = { now: 0 };
    const spaces = [{ freeBytes: 50 * GIB, totalBytes: 100 * GIB }];
    const room = new DiskRoom(
      async () => ({ spaces }),
      () => clock.now,
    );
    expect(await room.shortage()).toBeUndefined();
    room.noteFull();
    expect(await room.shortage()).toMatchObject({ check: "disk" });
    // Another file may be smaller.
    await room.admit();
    clock.now = 61_000;
    expect(await room.shortage()).toBeUndefined();
    room.noteFull();
    clock.now -= 3_600_000;
    expect(await room.shortage()).toBeUndefined();
  });
});

/** What a client hears: of an S3 request, and of one to the control API. */
async function clientHears(
  given: Partial<Record<keyof Env, unknown>>,
  path = "/master.full/key",
  key = ROOT,
): Promise<string[]> {
  const signer = new AwsClient({ ...key, service: "s3", region: "auto", retries: 0 });
  const whole = { ...WHOLE, ...given } as unknown as Env;
  const heard: string[] = [];
  for (const [target, method] of [
    [path, path === "/" ? "GET" : "PUT"],
    ["/api/v1/repos", "GET"],
  ] as const) {
    const isFile = target.split("/").length === 3;
    const request = await signer.sign(`http://gateway${target}`, { method, ...(isFile && { body: "x" }) });
    const answer = await gateway.fetch(request as Parameters<typeof gateway.fetch>[0], whole);
    heard.push(`${answer.status} ${await answer.text()}`);
  }
  return heard;
}

describe("a fault is told in /readyz, by doctor, and to a client with its cure:", () => {
  test("a D1 that is away", async () => {
    vi.spyOn(console, "warn").mockImplementation(() => {});
    vi.spyOn(console, "error").mockImplementation(() => {});
    expect(await ask({ DB: AWAY_DB })).toEqual({ status: 503, ready: false, failed: ["catalogue"] });
    expect(await ask({ DB: AWAY_DB }, ROOT)).toMatchObject({ status: 503, ...FAULTS["a D1 that is away"] });
    const [buckets, repos] = await clientHears({ DB: AWAY_DB }, "/");
    const words = "The catalogue (D1) can't be reached or written for now: try again.";
    expect(buckets).toMatch(/^503 /);
    expect(buckets).toContain(words);
    expect(repos).toMatch(/^503 /);
    expect(repos).toContain(words);
  });

  test("a forgotten migration", async () => {
    vi.spyOn(console, "warn").mockImplementation(() => {});
    vi.spyOn(console, "error").mockImplementation(() => {});
    const forget = env.DB.batch([
      env.DB.prepare("DELETE FROM d1_migrations WHERE name = ?").bind(NEWEST_MIGRATION),
      env.DB.prepare("ALTER TABLE branches RENAME COLUMN forking TO forgotten"),
    ]);
    await forget;
    try {
      expect(await ask()).toEqual({ status: 503, ready: false, failed: ["migrations"] });
      const fault = FAULTS["a forgotten migration"];
      const causes = fault.causes.map((each) => ({ ...each, cause: expect.stringContaining(each.cause) }));
      expect(await ask({}, ROOT)).toMatchObject({ status: 503, ...fault, causes });
      for (const heard of await clientHears({}, "/")) {
        expect(heard).toMatch(/^503 /);
        expect(heard).toContain("apply the migrations (`wrangler d1 migrations apply`), then try again");
      }
    } finally {
      await env.DB.batch([
        env.DB.prepare("ALTER TABLE branches RENAME COLUMN forgotten TO forking"),
        env.DB.prepare("INSERT INTO d1_migrations (name) VALUES (?)").bind(NEWEST_MIGRATION),
      ]);
    }
  });

  test("tables of another family, of which nothing is written and nothing read", async () => {
    vi.spyOn(console, "warn").mockImplementation(() => {});
    vi.spyOn(console, "error").mockImplementation(() => {});
    await env.DB.prepare("ALTER TABLE family RENAME TO books").run();
    const prepared: string[] = [];
    // Nobody has asked this one yet.
    const DB = {
      prepare(query: string) {
        prepared.push(query);
        return env.DB.prepare(query);
      },
      batch: (statements: D1PreparedStatement[]) => env.DB.batch(statements),
    };
    try {
      expect(await ask({ DB })).toEqual({ status: 503, ready: false, failed: ["migrations"] });
      expect(await ask({ DB }, ROOT)).toMatchObject({ status: 503, ...FAULTS["tables of another family"] });
      for (const heard of await clientHears({ DB }, "/")) {
        expect(heard).toMatch(/^503 /);
        expect(heard).toContain("code from before the first release");
      }
      const sent = prepared.filter((query) => !query.includes("sqlite_master"));
      expect(sent.filter((query) => !query.trim().startsWith("SELECT"))).toEqual([]);
    } finally {
      await env.DB.prepare("ALTER TABLE books RENAME TO family").run();
    }
  });

  test("a missing secret", async () => {
    const without = { SLUICE_SECRET_ACCESS_KEY: undefined };
    expect(await ask(without, ROOT)).toEqual({ status: 503, ...FAULTS["a missing secret"] });
    for (const heard of await clientHears(without)) {
      expect(heard).toMatch(/^503 The gateway is not set up: SLUICE_SECRET_ACCESS_KEY is missing: set it /);
    }
  });

  test("a missing encryption key, if there are keys that it opens", async () => {
    const { id, secret } = await good("POST /keys", { body: { level: "read", description: "sealed" } });
    const without = { SLUICE_ENCRYPTION_KEY: undefined };
    expect(await ask(without)).toEqual({ status: 503, ready: false, failed: ["configuration"] });
    expect(await ask(without, ROOT)).toMatchObject({ status: 503, ...FAULTS["a missing encryption key"] });
    vi.spyOn(console, "error").mockImplementation(() => {});
    for (const heard of await clientHears(without, "/", { accessKeyId: id, secretAccessKey: secret })) {
      expect(heard).toMatch(/^403 /);
      expect(heard).toContain("since the gateway has no SLUICE_ENCRYPTION_KEY: its operator has to set it");
    }
    const none = {
      config: { encryptionKeys: [] },
      catalogue: {
        fault: async () => undefined,
        newestMigration: async () => NEWEST_MIGRATION,
        keys: { list: async () => [] },
      },
      blobs: { get: async () => null },
    };
    expect(await findCauses(none, Date.now())).toEqual([]);
  });

  test("an object near its limit, which does not keep the gateway from serving", async () => {
    const fault = FAULTS["an object near its limit"];
    const [space] = fault.almostFull;
    await good("POST /repos/full/branches", { body: { name: "master" } });
    await withSize({ usedBytes: space.usedBytes, limitBytes: space.limitBytes }, async () => {
      vi.spyOn(console, "warn").mockImplementation(() => {});
      const [put] = await clientHears({});
      expect(put).toMatch(/^400 /);
      expect(put).toContain("<Code>BranchFull</Code>");
      expect(put).toContain("sluice branch keep");
      await vi.waitFor(
        async () => expect(await ask({}, ROOT)).toMatchObject({ status: 200, ...fault }),
        45_000,
      );
      expect(await ask()).toEqual({ status: 200, ready: true, failed: [] });
    });
    expect((await ask({}, ROOT)).almostFull).toEqual([]);
    const { results } = await env.DB.prepare("SELECT name FROM almost_full").all();
    expect(results).toEqual([]);
  });
});

/** As if each branch's database had this size, and might have that much. */
async function withSize(
  space: { usedBytes: number; limitBytes: number },
  work: () => Promise<void>,
): Promise<void> {
  const spy = vi.spyOn(Ledger.prototype, "space", "get").mockReturnValue(space);
  try {
    await work();
  } finally {
    spy.mockRestore();
  }
}

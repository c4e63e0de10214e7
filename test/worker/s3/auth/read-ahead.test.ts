import { env } from "cloudflare:test";
import { afterEach, beforeEach, describe, expect, test, vi } from "vitest";
import { type Context, openContext } from "../../../../worker/app.ts";
import type { AccessKey } from "../../../../worker/keys/key-ring.ts";
import { NearFiles } from "../../../../worker/near-files.ts";
import { handleS3 } from "../../../../worker/s3/gateway.ts";
import { CONFIG, good, signed } from "../support.ts";

const LARGE = 10_000;
const bytes = new Uint8Array(LARGE).fill(7);

let ids = 0;
/** A key that nobody has asked for yet. */
function freshKey(repos: string[] | null = null): AccessKey {
  const id = `ahead-${++ids}`;
  return { id, secret: `secret-of-${id}`, scope: { level: "read", repos } };
}

/** A gateway whose lookup of keys does not end before it is let. */
function gateway(key: AccessKey | undefined, { config = CONFIG, ...more }: Partial<Context> = {}) {
  const lookup = Promise.withResolvers<AccessKey | undefined>();
  const event: Context["event"] = {};
  const context: Context = {
    ...openContext(env, config),
    event,
    ...more,
    keys: {
      find() {
        looked += 1;
        return lookup.promise;
      },
      used() {},
    },
  };
  let now = Date.now();
  let looked = 0;
  return {
    event,
    looked: () => looked,
    found: () => lookup.resolve(key),
    later: (ms: number) => {
      now += ms;
    },
    async ask(line: string, as: Pick<AccessKey, "id" | "secret"> = key ?? freshKey(), body?: string) {
      const request = await signed(line, { key: as, ...(body !== undefined && { body }) });
      return handleS3(request, { context, now: () => now });
    },
  };
}

const called: string[] = [];
let opened = 0;

beforeEach(async () => {
  await good("PUT /master.ahead").catch(() => {});
  await good("PUT /master.ahead/small", { body: "small" });
  await good("PUT /master.ahead/large", { body: bytes });
  const namespaces = Object.getPrototypeOf(env.BRANCH);
  const { getByName } = namespaces;
  called.length = 0;
  opened = 0;
  vi.spyOn(namespaces, "getByName").mockImplementation(function (this: unknown, ...args: unknown[]) {
    return new Proxy(getByName.apply(this, args), {
      get(stub, call) {
        if (call !== "call") return stub[call];
        return (...given: unknown[]) => {
          called.push(String(given[0]));
          return stub.call(...given);
        };
      },
    });
  });
  const bucket = Object.getPrototypeOf(env.BLOBS);
  const { get } = bucket;
  vi.spyOn(bucket, "get").mockImplementation(function (this: unknown, ...args: unknown[]) {
    opened += 1;
    return get.apply(this, args);
  });
});
afterEach(() => {
  vi.restoreAllMocks();
});

describe("while a key is looked up", () => {
  test("GET and HEAD of an object ask its branch, once, and open no bytes before the signature was found good", async () => {
    for (const [line, body] of [
      ["GET /master.ahead/small", "small"],
      ["GET /master.ahead/large", new TextDecoder().decode(bytes)],
      ["HEAD /master.ahead/large", ""],
    ] as const) {
      called.length = 0;
      opened = 0;
      const { ask, found, event } = gateway(freshKey());
      const answering = ask(line);
      await expect.poll(() => called).toEqual(["files.read"]);
      expect(opened).toBe(0);
      found();
      const answer = await answering;
      expect([line, answer.status, await answer.text()]).toEqual([line, 200, body]);
      expect([called, event.read, event.operation]).toEqual([
        ["files.read"],
        "call",
        line.startsWith("GET") ? "GetObject" : "HeadObject",
      ]);
    }
  });

  test("what is not there, or can't be read so, is told once the signature was found good", async () => {
    for (const [line, status] of [
      ["GET /master.ahead/none", 404],
      ["GET /master.ahead/small?versionId=nonsense", 404],
      ["GET /master.none/small", 404],
    ] as const) {
      const { ask, found } = gateway(freshKey());
      const answering = ask(line);
      found();
      expect([line, (await answering).status]).toEqual([line, status]);
    }
  });

  test("what is kept near the reader counts by its age once the key is known", async () => {
    const nearFiles = new NearFiles({ trustsCommits: true, trustsNear: true });
    const put = await good("PUT /master.ahead/kept", { body: "kept" });
    const line = `GET /${put.headers.get("x-amz-version-id")?.toLowerCase()}.master.ahead/kept`;
    const read = async (waitMs: number) => {
      const { ask, looked, later, found, event } = gateway(freshKey(), { nearFiles });
      called.length = 0;
      const answering = ask(line);
      await expect.poll(looked).toBe(1);
      later(waitMs);
      found();
      const answer = await answering;
      return [await answer.text(), event.read, called];
    };
    expect(await read(0)).toEqual(["kept", "call", ["files.read"]]);
    expect(await read(0)).toEqual(["kept", "cache", []]);
    expect(await read(6000)).toEqual(["kept", "unchanged", ["files.read"]]);
  });

  test("bytes of what was read before are not opened before the signature was found good", async () => {
    const nearFiles = new NearFiles({ trustsCommits: true, trustsNear: true });
    for (const times of [1, 2]) {
      const { ask, found } = gateway(freshKey(), { nearFiles, blobCache: { get: async () => null } });
      called.length = 0;
      opened = 0;
      const answering = ask("GET /master.ahead/large");
      await expect.poll(() => called).toEqual(["files.read"]);
      expect([times, opened]).toEqual([times, 0]);
      found();
      expect((await (await answering).arrayBuffer()).byteLength).toBe(LARGE);
      expect([times, opened]).toEqual([times, 1]);
    }
  });

  test("nothing else begins: no write, no listing, no read of other operations", async () => {
    for (const [line, body] of [
      ["PUT /master.ahead/small", "new"],
      ["DELETE /master.ahead/small"],
      ["GET /master.ahead?list-type=2"],
      ["GET /master.ahead/small?tagging"],
    ] as const) {
      const { ask, looked, found } = gateway(undefined);
      const answering = ask(line, undefined, body);
      await expect.poll(looked).toBe(1);
      // What was begun has come to its branch by then.
      await env.BLOBS.head("none");
      expect([line, called]).toEqual([line, []]);
      found();
      expect([line, (await answering).status]).toEqual([line, 403]);
      expect([line, called]).toEqual([line, []]);
    }
  });
});

describe("what was read is thrown away unseen", () => {
  test("if the signature is wrong, and for a minute nothing is read ahead for that id", async () => {
    const key = freshKey();
    const wrong = { ...key, secret: "another-secret" };
    const { ask, found, later, event } = gateway(key);
    const answering = ask("GET /master.ahead/large", wrong);
    await expect.poll(() => called).toEqual(["files.read"]);
    found();
    const refused = await answering;
    expect([refused.status, await refused.text()]).toEqual([
      403,
      expect.stringContaining("SignatureDoesNotMatch"),
    ]);
    expect([opened, event.read, event.bytesOut]).toEqual([0, undefined, undefined]);
    called.length = 0;
    expect((await ask("GET /master.ahead/large", wrong)).status).toBe(403);
    expect(called).toEqual([]);
    later(59_000);
    expect((await ask("GET /master.ahead/large")).status).toBe(200);
    later(60_000);
    called.length = 0;
    expect((await ask("GET /master.ahead/large", wrong)).status).toBe(403);
    expect(called).toEqual(["files.read"]);
  });

  test("if nobody has the key", async () => {
    const { ask, found } = gateway(undefined);
    const answering = ask("GET /master.ahead/large", { id: "ahead-nobody", secret: "nothing" });
    await expect.poll(() => called).toEqual(["files.read"]);
    found();
    expect([(await answering).status, opened]).toEqual([403, 0]);
    called.length = 0;
    expect((await ask("GET /master.ahead/large", { id: "ahead-nobody", secret: "nothing" })).status).toBe(
      403,
    );
    expect(called).toEqual([]);
  });

  test("if the key may not read there", async () => {
    const { ask, found, event } = gateway(freshKey(["elsewhere"]));
    const answering = ask("GET /master.ahead/large");
    await expect.poll(() => called).toEqual(["files.read"]);
    found();
    const refused = await answering;
    expect([refused.status, await refused.text()]).toEqual([403, expect.stringContaining("AccessDenied")]);
    expect([opened, event.read]).toEqual([0, undefined]);
  });
});

describe("a made-up key", () => {
  const madeUp = () => ({ id: `ahead-made-up-${++ids}`, secret: "nothing" });

  test("calls and places no bucket that is not there", async () => {
    const { ask, found } = gateway(undefined);
    const answering = ask("GET /master.ahead-none/small", madeUp());
    // Its marker is looked for, since D1 does not know it.
    await expect.poll(() => opened).toBe(1);
    found();
    expect((await answering).status).toBe(403);
    // What was begun has come to its end by then.
    await env.BLOBS.head("none");
    expect(called).toEqual([]);
  });

  test("calls nothing at all where buckets are not looked for", async () => {
    for (const bucket of ["master.ahead", "master.ahead-none"]) {
      const { ask, looked, found } = gateway(undefined, { config: { ...CONFIG, probesBuckets: false } });
      const answering = ask(`GET /${bucket}/small`, madeUp());
      await expect.poll(looked).toBe(1);
      found();
      expect((await answering).status).toBe(403);
      expect([bucket, called, opened]).toEqual([bucket, [], 0]);
    }
  });
});

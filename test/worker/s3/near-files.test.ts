import { env } from "cloudflare:test";
import { afterEach, beforeAll, describe, expect, test, vi } from "vitest";
import type { Context } from "../../../worker/app.ts";
import { R2BlobStore } from "../../../worker/blobs/stores.ts";
import type { BranchApi } from "../../../worker/branch/contract/api.ts";
import type { ReadFile } from "../../../worker/branch/contract/files.ts";
import { type Env, readConfig } from "../../../worker/env.ts";
import { type NearFile, NearFiles } from "../../../worker/near-files.ts";
import { handleS3 } from "../../../worker/s3/gateway.ts";
import { MemoryCache } from "../blobs/memory-cache.ts";
import { branchOf } from "../branch/support.ts";
import { bytes, MIB, sha256 } from "./multipart/support.ts";
import { good, ROOT_KEY, scopedKey, signed, testContext, unsigned } from "./support.ts";

const BUCKET = "master.nearby";
const store = new R2BlobStore(env.BLOBS);

afterEach(() => {
  vi.restoreAllMocks();
});

beforeAll(async () => {
  await good(`PUT /${BUCKET}`);
});

/** A gateway of its own, far from the branch, with a cache of blobs near its readers. */
function nearGateway({ trustsCommits = true, trustsNear = true } = {}) {
  const cache = new MemoryCache(store);
  const nearFiles = new NearFiles({ trustsCommits, trustsNear });
  const calls: ReadFile[] = [];
  const clock = { now: Date.now() };
  let last: Context | undefined;
  /** Does something at the branch while a read is on its way there, and makes another answer of its answer. */
  const far = { before: async () => {}, answered: (answer: object): object | Promise<object> => answer };
  const contextOf = (): Context => {
    const context = { ...testContext(), blobCache: cache, nearFiles, event: {} };
    last = {
      ...context,
      branch: (address) => {
        const branch = context.branch(address);
        const read = async (request: ReadFile) => {
          calls.push(request);
          await far.before();
          return far.answered(await branch.files.read(request));
        };
        const files = new Proxy(branch.files, {
          get: (of, name) => (name === "read" ? read : Reflect.get(of, name)),
        });
        return new Proxy(branch, {
          get: (of, name) => (name === "files" ? files : Reflect.get(of, name)),
        }) as BranchApi;
      },
    };
    return last;
  };
  const send = async (request: Request) => {
    const answer = await handleS3(request, { context: contextOf(), now: () => clock.now });
    return answer;
  };
  const s3 = async (line: string, headers: Record<string, string> = {}, key = ROOT_KEY) =>
    await send(await signed(line, { headers, key }));
  const by = () => last?.event.read;
  const from = () => last?.event.bytesFrom;
  return { cache, s3, send, by, from, calls, clock, far };
}

const text = async (answer: Promise<Response>) => await (await answer).text();

/** Waits until the branch has told whom it tells, which counts as a change of anything. */
async function unchanged(gateway: ReturnType<typeof nearGateway>, line: string): Promise<Response> {
  return await vi.waitFor(
    async () => {
      const answer = await gateway.s3(line);
      if (gateway.by() !== "unchanged") throw new Error(`it is ${gateway.by()}`);
      return answer;
    },
    { timeout: 20_000, interval: 5 },
  );
}

describe("the newest state", () => {
  test("is asked for each time, and the branch answers once in full", async () => {
    await good(`PUT /${BUCKET}/a`, { body: "one", headers: { "x-amz-meta-of": "a" } });
    const gateway = nearGateway();
    const first = await gateway.s3(`GET /${BUCKET}/a`);
    expect([await first.text(), gateway.by()]).toEqual(["one", "call"]);
    const again = await unchanged(gateway, `GET /${BUCKET}/a`);
    expect(await again.text()).toBe("one");
    for (const [name, value] of first.headers) {
      if (name !== "x-amz-request-id" && name !== "x-amz-id-2")
        expect(again.headers.get(name), name).toBe(value);
    }
    expect(gateway.calls.length).toBeGreaterThanOrEqual(2);
    expect((await unchanged(gateway, `HEAD /${BUCKET}/a`)).headers.get("x-amz-meta-of")).toBe("a");
  });

  test("has the time of a commit elsewhere, and what was written since", async () => {
    await good(`PUT /${BUCKET}/b`, { body: "one" });
    const gateway = nearGateway();
    const before = (await gateway.s3(`HEAD /${BUCKET}/b`)).headers.get("last-modified");
    await vi.waitFor(
      async () => {
        await good(`PUT /${BUCKET}/elsewhere`, { body: crypto.randomUUID() });
        const head = await gateway.s3(`HEAD /${BUCKET}/b`);
        const asked = await good(`HEAD /${BUCKET}/b`);
        expect(head.headers.get("last-modified")).toBe(asked.headers.get("last-modified"));
        expect(head.headers.get("last-modified")).not.toBe(before);
      },
      { timeout: 45_000, interval: 300 },
    );
    await good(`PUT /${BUCKET}/b`, { body: "two" });
    expect([await text(gateway.s3(`GET /${BUCKET}/b`)), gateway.by()]).toEqual(["two", "call"]);
    await good(`DELETE /${BUCKET}/b`);
    expect((await gateway.s3(`GET /${BUCKET}/b`)).status).toBe(404);
    await good(`PUT /${BUCKET}/b`, { body: "two" });
    expect([await text(gateway.s3(`GET /${BUCKET}/b`)), gateway.by()]).toEqual(["two", "call"]);
  });

  test("is found again by nobody who may not read it", async () => {
    await good(`PUT /${BUCKET}/secret`, { body: "one" });
    const gateway = nearGateway();
    await gateway.s3(`GET /${BUCKET}/secret`);
    const elsewhere = scopedKey({ level: "read", repos: ["other"] });
    expect((await gateway.s3(`GET /${BUCKET}/secret`, {}, elsewhere)).status).toBe(403);
    expect((await gateway.send(unsigned(`GET /${BUCKET}/secret`))).status).toBe(403);
    expect(gateway.calls).toHaveLength(1);
  });

  test("of a branch that answers as a release before this one did is asked for in full each time", async () => {
    const put = await good(`PUT /${BUCKET}/old`, { body: "one" });
    const version = put.headers.get("x-amz-version-id");
    const gateway = nearGateway();
    gateway.far.answered = (answer) => ({ ...answer, stamp: undefined, lasting: undefined });
    for (const line of [`GET /${BUCKET}/old`, `GET /${BUCKET}/old?versionId=${version}`]) {
      for (let times = 0; times < 2; times++) {
        expect([await text(gateway.s3(line)), gateway.by()]).toEqual(["one", "call"]);
      }
    }
    expect(gateway.calls.map(({ have }) => have)).toEqual([null, null, null, null]);
  });
});

describe("bytes near the reader", () => {
  let files = 0;
  async function putLarge(path: string): Promise<Uint8Array<ArrayBuffer>> {
    const whole = bytes(9 * MIB, 700 + files++);
    await good(`PUT /${BUCKET}/${path}`, { body: whole });
    return whole;
  }

  test("are opened while the branch is asked, and given once it says that they are the ones", async () => {
    const whole = await putLarge("large");
    const gateway = nearGateway();
    await (await gateway.s3(`GET /${BUCKET}/large`)).bytes();
    let opened = 0;
    gateway.far.before = async () => {
      await vi.waitFor(() => expect(gateway.cache.gets.length).toBeGreaterThan(3));
      opened = gateway.cache.gets.length;
    };
    const again = await gateway.s3(`GET /${BUCKET}/large`);
    expect([sha256(await again.bytes()), gateway.from()]).toEqual([sha256(whole), "cache"]);
    expect(opened).toBeGreaterThan(3);
    expect(gateway.cache.gets).toHaveLength(6);
    const range = await gateway.s3(`GET /${BUCKET}/large`, { range: `bytes=${4 * MIB - 2}-${4 * MIB + 1}` });
    expect([range.status, await range.bytes()]).toEqual([206, whole.slice(4 * MIB - 2, 4 * MIB + 2)]);
  });

  test("are given to nobody once the file is another one, or is gone", async () => {
    await putLarge("moved");
    const gateway = nearGateway();
    await (await gateway.s3(`GET /${BUCKET}/moved`)).bytes();
    let now: Uint8Array<ArrayBuffer> | undefined;
    gateway.far.before = async () => {
      now ??= await putLarge("moved");
    };
    const other = await gateway.s3(`GET /${BUCKET}/moved`);
    expect([sha256(await other.bytes()), gateway.by()]).toEqual([sha256(now ?? new Uint8Array()), "call"]);
    gateway.far.before = async () => void (await good(`DELETE /${BUCKET}/moved`));
    expect((await gateway.s3(`GET /${BUCKET}/moved`)).status).toBe(404);
  });

  test("that could not be opened early are opened again", async () => {
    const whole = await putLarge("away");
    const gateway = nearGateway();
    await (await gateway.s3(`GET /${BUCKET}/away`)).bytes();
    vi.spyOn(gateway.cache, "get").mockResolvedValueOnce(null);
    vi.spyOn(R2BlobStore.prototype, "get").mockResolvedValueOnce(null);
    expect(sha256(await (await gateway.s3(`GET /${BUCKET}/away`)).bytes())).toEqual(sha256(whole));
  });

  test("are not opened before the answer to a condition", async () => {
    await putLarge("tagged");
    const gateway = nearGateway();
    const first = await gateway.s3(`GET /${BUCKET}/tagged`);
    await first.bytes();
    const gets = gateway.cache.gets.length;
    const etag = first.headers.get("etag") ?? "";
    expect((await gateway.s3(`GET /${BUCKET}/tagged`, { "if-none-match": etag })).status).toBe(304);
    expect(gateway.cache.gets).toHaveLength(gets);
  });
});

describe("the newest state of a branch that is set to near reads", () => {
  const NEAR = "master.aging";
  const age = (answer: Response) => answer.headers.get("x-sluice-age");

  beforeAll(async () => {
    await good(`PUT /${NEAR}`);
    expect(await branchOf(NEAR).settings.change({ nearReads: true })).toEqual({ ok: true });
  });

  /** A gateway that has read a file a moment ago. */
  async function hasRead(path: string, options?: Parameters<typeof nearGateway>[0]) {
    await good(`PUT /${NEAR}/${path}`, { body: "one" });
    const gateway = nearGateway(options);
    const first = await gateway.s3(`GET /${NEAR}/${path}`);
    expect([await first.text(), gateway.by(), age(first)]).toEqual(["one", "call", "0"]);
    return { gateway, first };
  }

  test("is answered without a call for five seconds, and says how old that may be", async () => {
    const { gateway, first } = await hasRead("a");
    await good(`PUT /${NEAR}/a`, { body: "two" });
    gateway.clock.now += 1;
    const second = await gateway.s3(`GET /${NEAR}/a`);
    expect([await second.text(), gateway.by(), age(second)]).toEqual(["one", "cache", "1"]);
    expect(second.headers.get("last-modified")).toBe(first.headers.get("last-modified"));
    gateway.clock.now += 4998;
    expect(age(await gateway.s3(`HEAD /${NEAR}/a`))).toBe("5");
    gateway.clock.now += 1;
    const third = await gateway.s3(`GET /${NEAR}/a`);
    expect([await third.text(), gateway.by(), age(third)]).toEqual(["two", "call", "0"]);
    expect(gateway.calls).toHaveLength(2);
  });

  test("never goes back: whatever was read before a newer commit was seen is asked for again", async () => {
    const { gateway } = await hasRead("b");
    await good(`PUT /${NEAR}/b`, { body: "two" });
    await good(`PUT /${NEAR}/c`, { body: "one" });
    await gateway.s3(`GET /${NEAR}/c`);
    expect([await text(gateway.s3(`GET /${NEAR}/b`)), gateway.by()]).toEqual(["two", "call"]);
    // Also what is not there was seen.
    await good(`DELETE /${NEAR}/b`);
    expect((await gateway.s3(`GET /${NEAR}/nothing`)).status).toBe(404);
    expect((await gateway.s3(`GET /${NEAR}/b`)).status).toBe(404);
  });

  test("does not go back to what an answer has that comes late", async () => {
    const { gateway } = await hasRead("late");
    gateway.clock.now += 5000;
    const asked = Promise.withResolvers<void>();
    const told = Promise.withResolvers<void>();
    gateway.far.answered = async (answer: object) => {
      asked.resolve();
      await told.promise;
      return answer;
    };
    const late = text(gateway.s3(`GET /${NEAR}/late`));
    await asked.promise;
    await good(`PUT /${NEAR}/late`, { body: "two" });
    gateway.far.answered = (answer: object) => answer;
    expect(await text(gateway.s3(`GET /${NEAR}/late`))).toBe("two");
    told.resolve();
    expect(await late).toBe("one");
    expect(await text(gateway.s3(`GET /${NEAR}/late`))).toBe("two");
  });

  test("of a branch that is gone, and there again, is asked for", async () => {
    const bucket = "other.aging";
    const make = async (body: string) => {
      await good(`PUT /${bucket}`);
      await branchOf(bucket).settings.change({ nearReads: true });
      await good(`PUT /${bucket}/a`, { body });
    };
    await make("one");
    const gateway = nearGateway();
    expect(await text(gateway.s3(`GET /${bucket}/a`))).toBe("one");
    await good(`DELETE /${bucket}`);
    expect((await gateway.s3(`HEAD /${bucket}/b`)).status).toBe(404);
    expect((await gateway.s3(`GET /${bucket}/a`)).status).toBe(404);
    await make("two");
    expect(await text(gateway.s3(`GET /${bucket}/a`))).toBe("two");
  });

  test("is asked for by whoever has a condition, or no key, and in a listing", async () => {
    const { gateway, first } = await hasRead("d");
    const etag = first.headers.get("etag") ?? "";
    await good(`PUT /${NEAR}/d`, { body: "two" });
    await gateway.s3(`GET /${NEAR}/d`, { "if-none-match": etag });
    expect(gateway.by()).toBe("call");
    await good(`PUT /${NEAR}/d`, { body: "three" });
    expect(await text(gateway.s3(`GET /${NEAR}?list-type=2`))).toContain("<Key>d</Key><LastModified>");
    expect(gateway.by()).toBe("call");
    await branchOf(NEAR).settings.change({ public: true });
    const anybody = async () => await gateway.send(unsigned(`GET /${NEAR}/d`));
    await vi.waitFor(async () => expect((await anybody()).status).toBe(200), { timeout: 10_000 });
    const answer = await anybody();
    expect([await answer.text(), age(answer)]).toEqual(["three", null]);
    await branchOf(NEAR).settings.change({ public: false });
  });

  test("is asked for each time if that is switched off, at the gateway or of the branch", async () => {
    const { gateway: off } = await hasRead("e", { trustsNear: false });
    expect(age(await off.s3(`GET /${NEAR}/e`))).toBe("0");
    expect(off.calls).toHaveLength(2);
    const { gateway } = await hasRead("e");
    await branchOf(NEAR).settings.change({ nearReads: false });
    gateway.clock.now += 5000;
    for (let times = 0; times < 2; times++) expect(age(await gateway.s3(`GET /${NEAR}/e`))).toBeNull();
    expect(gateway.calls).toHaveLength(3);
    await branchOf(NEAR).settings.change({ nearReads: true });
  });

  test("does not go back either once nobody knows what was seen, since somebody was refused", async () => {
    for (const isLateNewer of [false, true]) {
      const near = new NearFiles({ trustsCommits: true, trustsNear: true });
      const at = (seq: number) =>
        ({ ...kept().file(), lasting: undefined, near: true, at: { gen: 1, seq } }) as never;
      const late = Promise.withResolvers<never>();
      const read = (path: string, answer: Promise<never> | never) =>
        near.read(of(path), { ask: async () => answer, now: () => 0, mayBeOld: true });
      const asked = read("late", late.promise);
      await read("a", at(20));
      await read("b", { ok: false, reason: "no-such-branch" } as never);
      const newer = isLateNewer && read("a", at(20));
      if (!newer) void read("c", new Promise<never>(() => {}));
      await newer;
      late.resolve(at(isLateNewer ? 30 : 10));
      await asked;
      const again = await read(isLateNewer ? "a" : "late", at(30));
      expect([again.by, "at" in again.answer && again.answer.at?.seq]).toEqual(["call", 30]);
    }
  });

  test("is asked for again once too many branches were read to remember what was seen of each", async () => {
    const near = new NearFiles({ trustsCommits: true, trustsNear: true });
    const file = { ...kept().file(), lasting: undefined, near: true, at: { gen: 1, seq: 1 } };
    const read = (bucket: string) =>
      near.read({ ...of("a"), bucket }, { ask: async () => file as never, now: () => 0, mayBeOld: true });
    const by = async (bucket: string) => (await read(bucket)).by;
    expect([await by("b.r"), await by("b.r")]).toEqual(["call", "cache"]);
    for (let n = 0; n < 1000; n++) await read(`b.${n}`);
    expect([await by("b.r"), await by("b.r")]).toEqual(["call", "cache"]);
  });
});

describe("a commit", () => {
  /** A commit that has a file, and its bucket. */
  async function commitOf(path: string, body = "one"): Promise<{ bucket: string; version: string }> {
    const put = await good(`PUT /${BUCKET}/${path}`, { body });
    const version = put.headers.get("x-amz-version-id") ?? "";
    return { bucket: `${version.toLowerCase()}.${BUCKET}`, version };
  }

  test("is read without a call for five seconds, and then by one that says it is unchanged", async () => {
    const { bucket, version } = await commitOf("c");
    for (const line of [`GET /${bucket}/c`, `GET /${BUCKET}/c?versionId=${version}`]) {
      const gateway = nearGateway();
      const first = await gateway.s3(line);
      expect([await first.text(), gateway.by(), gateway.calls.length]).toEqual(["one", "call", 1]);
      gateway.clock.now += 4999;
      const second = await gateway.s3(line);
      expect([await second.text(), gateway.by(), gateway.calls.length]).toEqual(["one", "cache", 1]);
      expect(second.headers.get("last-modified")).toBe(first.headers.get("last-modified"));
      gateway.clock.now += 1;
      await gateway.s3(line);
      expect(gateway.calls).toHaveLength(2);
      gateway.clock.now += 5000;
      await vi.waitFor(async () => {
        gateway.clock.now += 5000;
        await gateway.s3(line);
        expect(gateway.by()).toBe("unchanged");
      });
      const asked = gateway.calls.length;
      await gateway.s3(line);
      expect([gateway.by(), gateway.calls.length]).toEqual(["cache", asked]);
    }
  });

  test("is as old as the question, however long the answer took", async () => {
    const { near, ask } = kept();
    for (const isFirst of [true, false]) {
      const clock = { now: 100_000 };
      const now = () => clock.now;
      const late = async () => {
        clock.now += 4000;
        return ask(isFirst);
      };
      await near.read(of("slow"), { ask: late, now, mayBeOld: false });
      clock.now += 1000;
      expect((await near.read(of("slow"), { ask: late, now, mayBeOld: false })).by).not.toBe("cache");
      clock.now -= 3000;
      expect((await near.read(of("slow"), { ask: late, now, mayBeOld: false })).by).toBe("cache");
    }
  });

  test("is not young by a clock that was set back, nor once that is as late again", async () => {
    const { bucket } = await commitOf("d");
    const gateway = nearGateway();
    await gateway.s3(`GET /${bucket}/d`);
    gateway.clock.now -= 1000;
    await gateway.s3(`GET /${bucket}/d`);
    expect(gateway.calls).toHaveLength(2);
    // Somebody else sees that the clock is set back.
    gateway.clock.now -= 1000;
    await gateway.s3(`GET /${bucket}/elsewhere`);
    gateway.clock.now += 1001;
    await gateway.s3(`GET /${bucket}/d`);
    expect(gateway.calls).toHaveLength(4);
  });

  test("is asked for each time if that is switched off", async () => {
    const { bucket } = await commitOf("e");
    const gateway = nearGateway({ trustsCommits: false });
    await gateway.s3(`GET /${bucket}/e`);
    await gateway.s3(`GET /${bucket}/e`);
    expect(gateway.calls).toHaveLength(2);
  });

  test("whose file was erased answers nothing of it five seconds later", async () => {
    const { bucket, version } = await commitOf("f");
    const gateway = nearGateway();
    await gateway.s3(`GET /${bucket}/f`);
    await good(`DELETE /${BUCKET}/f?versionId=${version}`);
    gateway.clock.now += 5000;
    expect((await gateway.s3(`GET /${bucket}/f`)).status).toBe(404);
    // A refusal is not kept.
    await gateway.s3(`GET /${bucket}/f`);
    expect(gateway.calls).toHaveLength(3);
  });

  test("is not answered without a call to somebody without a key, nor kept for others by them", async () => {
    const { bucket } = await commitOf("g");
    const branch = branchOf(BUCKET);
    expect(await branch.settings.change({ public: true })).toMatchObject({ ok: true });
    const gateway = nearGateway();
    const anybody = async () => await gateway.send(unsigned(`GET /${bucket}/g`));
    await vi.waitFor(async () => expect((await anybody()).status).toBe(200), { timeout: 10_000 });
    const before = gateway.calls.length;
    await gateway.s3(`GET /${bucket}/g`);
    expect(gateway.calls).toHaveLength(before + 1);
    await anybody();
    expect(gateway.calls).toHaveLength(before + 2);
    expect(gateway.calls.every(({ have, publicOnly }) => !publicOnly || have === undefined)).toBe(true);
    await branch.settings.change({ public: false });
    expect((await anybody()).status).toBe(403);
    expect([await text(gateway.s3(`GET /${bucket}/g`)), gateway.by()]).toEqual(["one", "cache"]);
  });

  test("by its tag is asked for each time, and another one once the tag moved", async () => {
    await commitOf("h", "one");
    const branch = branchOf(BUCKET);
    await branch.tags.create({ name: "v1", force: true, mayKeep: true } as never);
    const gateway = nearGateway();
    expect(await text(gateway.s3(`GET /v1.${BUCKET}/h`))).toBe("one");
    await unchanged(gateway, `GET /v1.${BUCKET}/h`);
    await commitOf("h", "two");
    const asked = gateway.calls.length;
    expect(await text(gateway.s3(`GET /v1.${BUCKET}/h`))).toBe("one");
    expect(gateway.calls).toHaveLength(asked + 1);
    await branch.tags.create({ name: "v1", force: true, mayKeep: true } as never);
    expect([await text(gateway.s3(`GET /v1.${BUCKET}/h`)), gateway.by()]).toEqual(["two", "call"]);
  });

  test("is none as long as it is open: what is written into it is read", async () => {
    const branch = branchOf(BUCKET);
    const opened = await branch.openCommits.start({ ttlMs: 60_000 });
    if (!opened.ok) throw new Error(opened.reason);
    const bucket = `${opened.openCommit.toLowerCase()}.${BUCKET}`;
    const gateway = nearGateway();
    for (const body of ["one", "two"]) {
      await good(`PUT /${bucket}/i`, { body });
      expect([await text(gateway.s3(`GET /${bucket}/i`)), gateway.by()]).toEqual([body, "call"]);
    }
  });
});

/** Something that keeps, and answers of a commit. */
function kept() {
  const near = new NearFiles({ trustsCommits: true, trustsNear: true });
  const file = (size = 1) => ({
    ...{ ok: true, kind: "file", digest: "0".repeat(64), size, attributes: {}, life: null },
    ...{ body: { kind: "inline", bytes: new Uint8Array(size) }, modifiedAt: 0, commit: "c" },
    ...{ stamp: "s", lasting: true },
  });
  const ask = (isWhole: boolean) =>
    (isWhole ? file() : { ok: true, unchanged: true, stamp: "s", lasting: true }) as never;
  return { near, file, ask };
}

function of(path: string, modified: NearFile["modified"] = "branch"): NearFile {
  return { bucket: "b.r", path, commit: undefined, modified };
}

test("what is kept is bounded, and so is each file of it", async () => {
  const { near, file } = kept();
  const read = async (path: string, size: number) =>
    await near.read(of(path), { ask: async () => file(size) as never, now: () => 0, mayBeOld: true });
  await read("large", 64 * 1024);
  expect(near.last(of("large"))).toBeUndefined();
  for (let n = 0; n < 200; n++) await read(`${n}`, 60 * 1024);
  expect(near.last(of("0"))).toBeUndefined();
  expect(near.last(of("199"))).toBeDefined();
});

test("what is kept goes once the branch refuses it, and is of the time alone that was asked for", async () => {
  const { near, ask } = kept();
  const clock = { now: 0 };
  const asked: (string | null)[] = [];
  const read = async (file: NearFile, answer: never) =>
    await near.read(file, {
      ask: async (have) => {
        asked.push(have);
        return answer;
      },
      now: () => clock.now,
      mayBeOld: true,
    });
  await read(of("a"), ask(true));
  await read(of("a", "file"), ask(true));
  clock.now = 5000;
  await read(of("a"), { ok: false, reason: "no-such-file" } as never);
  expect(near.last(of("a"))).toBeUndefined();
  await read(of("a"), ask(true));
  expect(asked).toEqual([null, null, "s", null]);
});

test("rows are kept on Cloudflare alone, and each use of them is switched off by a setting", () => {
  const config = (bindings: object) => {
    const read = readConfig({ ...env, SLUICE_ROW_CACHE: undefined, ...bindings } as unknown as Env);
    return read.ok && [read.config.keepsFiles, read.config.trustsCommits, read.config.trustsNear];
  };
  expect(config({})).toEqual([true, true, true]);
  expect(config({ DISK: {} })).toEqual([false, true, true]);
  expect(config({ SLUICE_ROW_CACHE: "off" })).toEqual([false, true, true]);
  expect(config({ SLUICE_COMMIT_CACHE: "off" })).toEqual([true, false, true]);
  expect(config({ SLUICE_NEAR_CACHE: "off" })).toEqual([true, true, false]);
  expect(testContext({ keepsFiles: true }).nearFiles).toBeDefined();
  expect(testContext().nearFiles).toBeUndefined();
});

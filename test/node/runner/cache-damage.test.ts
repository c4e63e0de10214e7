import {
  chmod,
  open,
  readdir,
  readFile,
  realpath,
  rm,
  stat,
  truncate,
  utimes,
  writeFile,
} from "node:fs/promises";
import { join } from "node:path";
import { text } from "node:stream/consumers";
import { afterEach, beforeEach, describe, expect, test } from "vitest";
import type { ContentId } from "../../../protocol/content.ts";
import type { Cache } from "../../../runner/cache/cache.ts";
import { allEntries } from "../../../runner/cache/entries.ts";
import { CacheFiles } from "../../../runner/cache/files.ts";
import { Client } from "../../../runner/gateway/client.ts";
import { Gateway } from "../../../runner/gateway/gateway.ts";
import { openCache } from "./support/caches.ts";
import { KEY } from "./support/fake-gateway.ts";
import { log, Stage } from "./support/running.ts";

const from = { repo: "images", branch: "master" };
const signal = new AbortController().signal;
const BYTES = "0123456789".repeat(10_000);
let stage: Stage;
let client: Client;
let cache: Cache;
let content: ContentId;
let dir: string;
let placed = 0;

beforeEach(async () => {
  stage = await Stage.open();
  client = new Client({ endpoint: stage.gateway.endpoint, ...KEY });
  dir = await realpath(stage.dataDir);
  cache = openCache(dir, { gateway: new Gateway(client) });
  content = stage.gateway.store(BYTES);
  await place();
});
afterEach(async () => {
  expect(await readdir(join(dir, "agents/1/incoming"))).toEqual([]);
  await client.close();
  await stage.close();
});

async function place(from_ = cache): Promise<string> {
  const target = join(dir, `datum-${++placed}`, "file");
  await from_.place({ ...from, content }, { target, signal });
  return readFile(target, "utf8");
}

/** Writes other bytes at a place in the cached file, whose size stays. */
async function flip(): Promise<void> {
  const path = cache.pathOf(content);
  await chmod(path, 0o644);
  const file = await open(path, "r+");
  await file.write("!", 50_000);
  await file.close();
}

const fetches = () => stage.gateway.requests.length;

describe("a file of the cache", () => {
  test("that is as it was is not read again, and not fetched again", async () => {
    const { mtimeMs } = await stat(cache.pathOf(content));
    expect(await place()).toBe(BYTES);
    expect((await stat(cache.pathOf(content))).mtimeMs).toBe(mtimeMs);
    expect(fetches()).toBe(1);
  });

  test("with other bytes and the same size is fetched again", async () => {
    await flip();
    expect(await place()).toBe(BYTES);
    expect(await place()).toBe(BYTES);
    expect(fetches()).toBe(2);
  });

  test("that was cut short is fetched again", async () => {
    await truncate(cache.pathOf(content), 17);
    expect(await place()).toBe(BYTES);
    expect(fetches()).toBe(2);
  });

  test("that was cut short is fetched again, even where its time was put back", async () => {
    const { atime, mtime } = await stat(cache.pathOf(content));
    await truncate(cache.pathOf(content), 17);
    await utimes(cache.pathOf(content), atime, mtime);
    expect(await place()).toBe(BYTES);
    expect(fetches()).toBe(2);
  });

  test("that was removed is fetched again", async () => {
    await rm(cache.pathOf(content));
    expect(await place()).toBe(BYTES);
    expect(fetches()).toBe(2);
  });

  test("that was only touched is read again, and used where its bytes are right", async () => {
    await utimes(cache.pathOf(content), new Date(), new Date());
    expect(await place()).toBe(BYTES);
    expect(fetches()).toBe(1);
  });

  test("that is damaged is not read as it is by a lazy input", async () => {
    await flip();
    expect(await text(cache.read({ ...from, content }, signal))).toBe(BYTES);
    expect(fetches()).toBe(2);
    expect(await place()).toBe(BYTES);
    expect(fetches()).toBe(2);
  });

  test("that is small and damaged is not had at once, whatever its time says", async () => {
    const small = stage.gateway.store("small");
    await cache.place({ ...from, content: small }, { target: join(dir, "small"), signal });
    const path = cache.pathOf(small);
    const { atime, mtime } = await stat(path);
    await chmod(path, 0o644);
    await writeFile(path, "smell");
    await utimes(path, atime, mtime);
    expect(cache.readSmall(small)).toBeUndefined();
    expect(await text(cache.read({ ...from, content: small }, signal))).toBe("small");
  });

  test("that many want while it is damaged is fetched once more", async () => {
    await flip();
    const all = await Promise.all(Array.from({ length: 10 }, () => place()));
    expect(all).toEqual(all.map(() => BYTES));
    expect(fetches()).toBe(2);
  });
});

describe("after a reboot", () => {
  const rebooted = () => openCache(dir, { gateway: new Gateway(client), boot: "boot-2" });

  test("a file whose bytes are right is read once, and kept", async () => {
    const before = await stat(cache.pathOf(content));
    const later = rebooted();
    expect(await place(later)).toBe(BYTES);
    const sealed = await stat(cache.pathOf(content));
    expect(sealed.ino).toBe(before.ino);
    expect(sealed.mtimeMs).not.toBe(before.mtimeMs);
    expect(await place(later)).toBe(BYTES);
    expect((await stat(cache.pathOf(content))).mtimeMs).toBe(sealed.mtimeMs);
    expect(fetches()).toBe(1);
  });

  test("a file that came back hollow is fetched again", async () => {
    const { atime, mtime } = await stat(cache.pathOf(content));
    await chmod(cache.pathOf(content), 0o644);
    await writeFile(cache.pathOf(content), Buffer.alloc(BYTES.length));
    await utimes(cache.pathOf(content), atime, mtime);
    expect(await place(rebooted())).toBe(BYTES);
    expect(fetches()).toBe(2);
  });
});

describe("the scrub", () => {
  const check = async () => {
    const files = new CacheFiles({
      dir: join(dir, "cache"),
      boot: "boot-1",
      log,
      now: Date.now,
      kill: signal,
    });
    for await (const entry of allEntries(join(dir, "cache"))) await files.check(entry, signal);
  };

  test("finds what no time tells: bytes that the disk has lost", async () => {
    const { atime, mtime } = await stat(cache.pathOf(content));
    await flip();
    await utimes(cache.pathOf(content), atime, mtime);
    await check();
    expect(await place()).toBe(BYTES);
    expect(fetches()).toBe(2);
  });

  test("leaves a file that is right as it is, and does not use it", async () => {
    const path = cache.pathOf(content);
    const long = new Date(Date.now() - 100 * 24 * 3600_000);
    await utimes(path, long, (await stat(path)).mtime);
    const before = await stat(path);
    await check();
    const after = await stat(path);
    expect([after.atimeMs, after.mtimeMs]).toEqual([before.atimeMs, before.mtimeMs]);
  });
});

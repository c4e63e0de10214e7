import { randomBytes } from "node:crypto";
import { existsSync } from "node:fs";
import { readdir, readFile, realpath, rm, stat } from "node:fs/promises";
import { join } from "node:path";
import { text } from "node:stream/consumers";
import { afterEach, beforeEach, expect, test } from "vitest";
import { type ContentId, contentName } from "../../../protocol/content.ts";
import type { Cache } from "../../../runner/cache/cache.ts";
import { Client } from "../../../runner/gateway/client.ts";
import { Gateway } from "../../../runner/gateway/gateway.ts";
import { openCache } from "./support/caches.ts";
import { Answer, KEY } from "./support/fake-gateway.ts";
import { Stage } from "./support/running.ts";

const from = { repo: "images", branch: "master" };
const signal = new AbortController().signal;
let stage: Stage;
let client: Client;
let cache: Cache;
let dir: string;
let placed = 0;

beforeEach(async () => {
  stage = await Stage.open();
  client = new Client({ endpoint: stage.gateway.endpoint, ...KEY });
  dir = await realpath(stage.dataDir);
  cache = openCache(dir, { gateway: new Gateway(client) });
});
afterEach(async () => {
  expect(await readdir(join(dir, "agents/1/incoming"))).toEqual([]);
  await client.close();
  await stage.close();
});

/** Lays a content out as a datum's file, and returns its path. */
async function place(content: ContentId, more: { signal?: AbortSignal } = {}): Promise<string> {
  const target = join(dir, `datum-${++placed}`, "file");
  await cache.place({ ...from, content }, { target, signal, ...more });
  return target;
}

test("a content is fetched once, however many want it at the same time", async () => {
  const content = stage.gateway.store("shared");
  const files = await Promise.all(Array.from({ length: 20 }, () => place(content)));
  for (const file of files) expect(await readFile(file, "utf8")).toBe("shared");
  expect(stage.gateway.requests).toHaveLength(1);
});

test("a file is the cache's own, and can only be read", async () => {
  const content = stage.gateway.store("shared");
  const file = await stat(await place(content));
  expect(file.ino).toBe((await stat(cache.pathOf(content))).ino);
  expect(file.mode & 0o777).toBe(0o444);
});

test("a large content comes whole", async () => {
  const content = stage.gateway.store(Buffer.alloc(5_000_000, "abc"));
  expect((await readFile(await place(content))).equals(Buffer.alloc(5_000_000, "abc"))).toBe(true);
});

test("a large content that comes damaged, in whichever of its leaves, short or long, is fetched again", async () => {
  const right = randomBytes(9_000_001);
  const content = stage.gateway.store(right);
  const damaged = [0, 4_194_304, 9_000_000].map((at) => right.map((byte, i) => (i === at ? byte ^ 1 : byte)));
  // More tries than one fetch makes.
  for (const body of [...damaged, right.subarray(1), Buffer.concat([right, right.subarray(0, 1)])]) {
    const bodies = [body];
    const asked = stage.gateway.requests.length;
    stage.gateway.before = () => {
      const wrong = bodies.shift();
      return wrong && new Answer(200, Buffer.from(wrong));
    };
    expect((await readFile(await place(content))).equals(right)).toBe(true);
    expect(stage.gateway.requests.length - asked).toBe(2);
    await rm(cache.pathOf(content));
  }
});

test("a damaged body is fetched again, and nothing damaged is ever kept", async () => {
  const content = stage.gateway.store("right bytes");
  const bodies = ["wrong bytes", "right bytes and more", "right", undefined];
  stage.gateway.before = () => {
    const body = bodies.shift();
    return body === undefined ? undefined : new Answer(200, body);
  };
  expect(await readFile(await place(content), "utf8")).toBe("right bytes");
  expect(await readFile(cache.pathOf(content), "utf8")).toBe("right bytes");
  expect(stage.gateway.requests).toHaveLength(4);
});

test("a body that stays damaged fails, naming the content and the damage", async () => {
  const content = stage.gateway.store("right bytes");
  stage.gateway.before = () => new Answer(200, "wrong bytes");
  await expect(place(content)).rejects.toThrow(`${contentName(content)} came damaged`);
  expect(existsSync(cache.pathOf(content))).toBe(false);
});

test("a failure is not remembered", async () => {
  const content = stage.gateway.store("later");
  stage.gateway.before = () => new Answer(404, "");
  await expect(place(content)).rejects.toThrow("404");
  stage.gateway.before = () => undefined;
  expect(await readFile(await place(content), "utf8")).toBe("later");
});

test("who stops waiting does not end the fetch for the others", async () => {
  const content = stage.gateway.store("shared");
  const { promise: held, resolve: letGo } = Promise.withResolvers<undefined>();
  stage.gateway.before = () => held;
  const impatient = new AbortController();
  const [stopped, waiting] = [place(content, { signal: impatient.signal }), place(content)];
  impatient.abort(new Error("stopped"));
  await expect(stopped).rejects.toThrow("stopped");
  letGo(undefined);
  expect(await readFile(await waiting, "utf8")).toBe("shared");
  expect(stage.gateway.requests).toHaveLength(1);
});

test("what a datum has stays whole when the cache loses it", async () => {
  const content = stage.gateway.store("shared");
  const file = await place(content);
  await rm(join(dir, "cache"), { recursive: true });
  expect(await readFile(file, "utf8")).toBe("shared");
});

test("a content that is read as it comes is fetched once for those who want it whole", async () => {
  const content = stage.gateway.store("shared");
  const placing = place(content);
  // It is not in the cache yet: the fetch is on its way.
  await expect.poll(() => stage.gateway.requests.length).toBe(1);
  expect(await text(cache.read({ ...from, content }, signal))).toBe("shared");
  await placing;
  expect(stage.gateway.requests).toHaveLength(1);
});

test("reading goes on by itself where a fetch that it waited for has failed", async () => {
  const content = stage.gateway.store("shared");
  const { promise: held, resolve: letGo } = Promise.withResolvers<Answer>();
  stage.gateway.before = () => held;
  const failing = place(content).catch(() => "failed");
  await expect.poll(() => stage.gateway.requests.length).toBe(1);
  const reading = text(cache.read({ ...from, content }, signal));
  stage.gateway.before = () => undefined;
  letGo(new Answer(404, ""));
  expect(await reading).toBe("shared");
  expect(await failing).toBe("failed");
});

test("what was read to its end is there from then on, and what was not is not", async () => {
  const bytes = "x".repeat(1_000_000);
  const content = stage.gateway.store(bytes);
  for await (const _ of cache.read({ ...from, content }, signal)) break;
  expect(existsSync(cache.pathOf(content))).toBe(false);
  for (const _ of ["from the gateway", "from the cache"])
    expect(await text(cache.read({ ...from, content }, signal))).toBe(bytes);
  expect(await readFile(cache.pathOf(content), "utf8")).toBe(bytes);
  expect(stage.gateway.requests).toHaveLength(2);
});

test("what is small and there is had at once", async () => {
  const [small, large] = ["small", "x".repeat(100_000)].map((bytes) => stage.gateway.store(bytes));
  if (!small || !large) throw new Error("not stored");
  expect(cache.readSmall(small)).toBeUndefined();
  for (const content of [small, large]) await place(content);
  expect(cache.readSmall(small)?.toString()).toBe("small");
  expect(cache.readSmall(large)).toBeUndefined();
});

import { mkdir, readdir, readFile, realpath, stat, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { text } from "node:stream/consumers";
import { afterEach, beforeEach, expect, test } from "vitest";
import { contentName } from "../../../protocol/content.ts";
import { Cache, openCacheDir } from "../../../runner/cache.ts";
import { Client } from "../../../runner/client.ts";
import { Gateway } from "../../../runner/gateway.ts";
import { Answer, KEY } from "./support/fake-gateway.ts";
import { Stage } from "./support/running.ts";

const from = { repo: "images", branch: "master" };
let stage: Stage;
let client: Client;
let cache: Cache;
let incoming: string;

beforeEach(async () => {
  stage = await Stage.open();
  client = new Client({ endpoint: stage.gateway.endpoint, ...KEY });
  const dir = join(await realpath(stage.dataDir), "cache");
  incoming = join(stage.dataDir, "incoming");
  await mkdir(incoming);
  await openCacheDir({ dir, boot: "boot-1" });
  cache = new Cache({ dir, incoming, gateway: new Gateway(client), kill: new AbortController().signal });
});
afterEach(async () => {
  expect(await readdir(incoming)).toEqual([]);
  await client.close();
  await stage.close();
});

test("a content is fetched once, however many want it at the same time", async () => {
  const content = stage.gateway.store("shared");
  await Promise.all(Array.from({ length: 20 }, () => cache.fetch({ ...from, content })));
  expect(await readFile(cache.pathOf(content), "utf8")).toBe("shared");
  expect(stage.gateway.requests).toHaveLength(1);
});

test("a cached file can only be read", async () => {
  const content = stage.gateway.store("shared");
  await cache.fetch({ ...from, content });
  expect((await stat(cache.pathOf(content))).mode & 0o777).toBe(0o444);
});

test("a large content comes whole", async () => {
  const content = stage.gateway.store(Buffer.alloc(5_000_000, "abc"));
  await cache.fetch({ ...from, content });
  expect((await stat(cache.pathOf(content))).size).toBe(5_000_000);
});

test("a damaged body is fetched again, and nothing damaged is ever kept", async () => {
  const content = stage.gateway.store("right bytes");
  const bodies = ["wrong bytes", "right bytes and more", "right", undefined];
  stage.gateway.before = () => {
    const body = bodies.shift();
    return body === undefined ? undefined : new Answer(200, body);
  };
  await cache.fetch({ ...from, content });
  expect(await readFile(cache.pathOf(content), "utf8")).toBe("right bytes");
  expect(stage.gateway.requests).toHaveLength(4);
});

test("a body that stays damaged fails, naming the content and the damage", async () => {
  const content = stage.gateway.store("right bytes");
  stage.gateway.before = () => new Answer(200, "wrong bytes");
  await expect(cache.fetch({ ...from, content })).rejects.toThrow(`${contentName(content)} came damaged`);
  await expect(stat(cache.pathOf(content))).rejects.toThrow("ENOENT");
});

test("a failure is not remembered", async () => {
  const content = stage.gateway.store("later");
  stage.gateway.before = () => new Answer(404, "");
  await expect(cache.fetch({ ...from, content })).rejects.toThrow("404");
  stage.gateway.before = () => undefined;
  await cache.fetch({ ...from, content });
  expect(await readFile(cache.pathOf(content), "utf8")).toBe("later");
});

test("what an earlier boot of the machine left is dropped, what this one left is kept", async () => {
  const dir = join(stage.dataDir, "cache");
  await writeFile(join(dir, "file"), "x");
  await openCacheDir({ dir, boot: "boot-1" });
  expect(await readdir(dir)).toContain("file");
  await openCacheDir({ dir, boot: "boot-2" });
  expect(await readdir(dir)).toEqual(["boot"]);
});

test("a content that is read as it comes is fetched once for those who want it whole", async () => {
  const content = stage.gateway.store("shared");
  const signal = new AbortController().signal;
  const fetching = cache.fetch({ ...from, content });
  expect(await text(cache.read({ ...from, content }, signal))).toBe("shared");
  await fetching;
  expect(stage.gateway.requests).toHaveLength(1);
});

test("reading goes on by itself where a fetch that it waited for has failed", async () => {
  const content = stage.gateway.store("shared");
  const answers = [new Answer(404, "")];
  stage.gateway.before = () => answers.shift();
  const fetching = cache.fetch({ ...from, content }).catch(() => "failed");
  expect(await text(cache.read({ ...from, content }, new AbortController().signal))).toBe("shared");
  expect(await fetching).toBe("failed");
});

test("what is small and there is had at once", async () => {
  const [small, large] = ["small", "x".repeat(100_000)].map((bytes) => stage.gateway.store(bytes));
  if (!small || !large) throw new Error("not stored");
  expect(cache.readSmall(small)).toBeUndefined();
  for (const content of [small, large]) await cache.fetch({ ...from, content });
  expect(cache.readSmall(small)?.toString()).toBe("small");
  expect(cache.readSmall(large)).toBeUndefined();
});

import { execFileSync } from "node:child_process";
import { existsSync } from "node:fs";
import { mkdir, readdir, readFile, realpath, rm, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { text } from "node:stream/consumers";
import { afterEach, beforeEach, describe, expect, test } from "vitest";
import type { ContentId } from "../../../protocol/content.ts";
import type { Cache, CacheOptions } from "../../../runner/cache/cache.ts";
import { allEntries } from "../../../runner/cache/entries.ts";
import { Ages } from "../../../runner/cache/room.ts";
import { Client } from "../../../runner/gateway/client.ts";
import { Gateway } from "../../../runner/gateway/gateway.ts";
import { REST } from "../../support/suite.ts";
import { openCache } from "./support/caches.ts";
import { KEY } from "./support/fake-gateway.ts";
import { Stage } from "./support/running.ts";

const from = { repo: "images", branch: "master" };
const signal = new AbortController().signal;
const KIB = 1024;
const HOUR = 3600_000;
let stage: Stage;
let client: Client;
let dir: string;
let clock: number;

beforeEach(async () => {
  stage = await Stage.open();
  client = new Client({ endpoint: stage.gateway.endpoint, ...KEY });
  dir = await realpath(stage.dataDir);
  clock = Date.now();
});
afterEach(async () => {
  await client.close();
  await stage.close();
});

function agent(name: string, more: Partial<CacheOptions> = {}): Cache {
  const gateway = new Gateway(client);
  return openCache(dir, { agent: name, gateway, maxBytes: 1000 * KIB, now: () => clock, ...more });
}

/** A content of so many KiB that no other number gives. */
function content(number: number, kib: number): ContentId {
  return stage.gateway.store(Buffer.alloc(kib * KIB, `content ${number};`));
}

let placed = 0;

/** Uses a content as a datum does that has ended: its file is gone. An hour later. */
async function use(cache: Cache, what: ContentId): Promise<void> {
  clock += HOUR;
  const target = join(dir, `datum-${++placed}`);
  await cache.place({ ...from, content: what }, { target, signal });
  expect((await readFile(target)).length).toBe(what.size);
  await rm(target);
}

async function held(): Promise<number> {
  let total = 0;
  for await (const { bytes } of allEntries(join(dir, "cache"))) total += bytes;
  return total;
}

describe("the bound of the cache", () => {
  test("holds, and what was used least lately goes first", async () => {
    const cache = agent("1");
    const contents = Array.from({ length: 8 }, (_, i) => content(i, 100));
    for (const one of contents) await use(cache, one);
    // The first is used again, and is then younger than the others.
    await use(cache, contents[0] as ContentId);
    for (const one of [content(8, 100), content(9, 100), content(10, 100)]) await use(cache, one);
    const there = contents.map((one) => existsSync(cache.pathOf(one)));
    expect(there).toEqual([true, false, false, true, true, true, true, true]);
    expect(await held()).toBeLessThanOrEqual(1000 * KIB);
  });

  test("holds at every moment with two agents that fetch at the same time", REST, async () => {
    const agents = [agent("1"), agent("2")];
    const most: number[] = [];
    for (let round = 0; round < 15; round += 1) {
      await Promise.all(
        agents.flatMap((cache, index) =>
          Array.from({ length: 4 }, (_, i) => use(cache, content(round * 100 + index * 10 + i, 8 + 4 * i))),
        ),
      );
      most.push(await held());
    }
    expect(Math.max(...most)).toBeLessThanOrEqual(1000 * KIB);
    // And it is made use of.
    expect(most.at(-1)).toBeGreaterThan(700 * KIB);
  });

  test("holds from the start on where it was lowered", async () => {
    const before = agent("1");
    for (let i = 0; i < 8; i += 1) await use(before, content(i, 100));
    const stop = new AbortController();
    const after = agent("1", { maxBytes: 300 * KIB });
    const upkeep = after.upkeep(stop.signal);
    await expect.poll(held).toBeLessThanOrEqual(300 * KIB);
    // And it says how full it is.
    await expect.poll(() => after.use?.usedBytes).toBeLessThanOrEqual(300 * KIB);
    expect(after.use).toEqual({ usedBytes: expect.any(Number), maxBytes: 300 * KIB });
    stop.abort();
    await upkeep;
    expect(existsSync(after.pathOf(content(7, 100)))).toBe(true);
  });

  test("holds soon after a start at which it could not be counted", async () => {
    const before = agent("1");
    for (let i = 0; i < 8; i += 1) await use(before, content(i, 100));
    const stop = new AbortController();
    const after = agent("1", { maxBytes: 300 * KIB });
    const { digest } = content(7, 100);
    // A folder of the cache that can't be read.
    const shard = join(dir, "cache", digest.startsWith("00") ? "01" : "00");
    await rm(shard, { recursive: true, force: true });
    await writeFile(shard, "");
    const upkeep = after.upkeep(stop.signal);
    await rm(shard);
    await expect.poll(held).toBeLessThanOrEqual(300 * KIB);
    stop.abort();
    await upkeep;
  });

  test("counts what running datums hold, and takes nothing from them", async () => {
    const cache = agent("1");
    const running = content(0, 500);
    await cache.place({ ...from, content: running }, { target: join(dir, "running"), signal });
    for (let i = 1; i < 12; i += 1) await use(cache, content(i, 100));
    expect(existsSync(cache.pathOf(running))).toBe(true);
    expect(await held()).toBeLessThanOrEqual(1000 * KIB);
    await rm(join(dir, "running"));
    for (let i = 12; i < 24; i += 1) await use(cache, content(i, 100));
    expect(existsSync(cache.pathOf(running))).toBe(false);
  });

  test("is no bound for a datum: what is larger is fetched for it alone", async () => {
    const cache = agent("1");
    const [kept, large] = [content(1, 50), content(2, 5000)];
    await use(cache, kept);
    await use(cache, large);
    expect(await text(cache.read({ ...from, content: large }, signal))).toHaveLength(large.size);
    expect(existsSync(cache.pathOf(large))).toBe(false);
    expect(existsSync(cache.pathOf(kept))).toBe(true);
    expect(await readdir(join(dir, "agents/1/incoming"))).toEqual([]);
  });

  test("is no bound for many that want what is larger at the same time: it is fetched once", async () => {
    const cache = agent("1");
    const large = content(2, 5000);
    await Promise.all(Array.from({ length: 5 }, () => use(cache, large)));
    expect(stage.gateway.requests).toHaveLength(1);
    expect(await readdir(join(dir, "agents/1/incoming"))).toEqual([]);
  });
});

test("a restart keeps the cache, and what was used when", async () => {
  const contents = Array.from({ length: 8 }, (_, i) => content(i, 100));
  for (const one of contents) await use(agent("1"), one);
  await use(agent("2"), contents[0] as ContentId);
  expect(stage.gateway.requests).toHaveLength(8);
  for (const one of [content(8, 100), content(9, 100)]) await use(agent("3"), one);
  const cache = agent("4");
  expect(contents.map((one) => existsSync(cache.pathOf(one))).indexOf(false)).toBe(1);
  expect(existsSync(cache.pathOf(contents[0] as ContentId))).toBe(true);
});

test("how long ago is told for any age, and what must go is the oldest", () => {
  const now = 1e12;
  const ages = new Ages(now);
  const used = [now + HOUR, now, now - 1000, now - HOUR, now - 1000 * HOUR];
  for (const usedAt of used) ages.add({ usedAt, bytes: 10 });
  const cut = (bytes: number) => {
    const { step, bytes: left } = ages.cut(bytes);
    return { gone: used.filter((at) => ages.stepOf(at) > step).length, left };
  };
  expect(cut(10)).toEqual({ gone: 0, left: 10 });
  expect(cut(15)).toEqual({ gone: 1, left: 5 });
  expect(cut(25)).toEqual({ gone: 2, left: 5 });
  expect(cut(45)).toEqual({ gone: 3, left: 15 });
  expect(cut(1000)).toEqual({ gone: 5, left: 0 });
});

const root = process.getuid?.() === 0;

describe("a disk that is full", () => {
  let disk: string;
  beforeEach(async () => {
    if (!root) return;
    disk = join(dir, "disk");
    await mkdir(disk);
    execFileSync("mount", ["-t", "tmpfs", "-o", "size=2m", "none", disk]);
  });
  afterEach(() => {
    if (root) execFileSync("umount", [disk]);
  });
  const on = (name: string) =>
    openCache(disk, { agent: name, gateway: new Gateway(client), now: () => clock });
  const lay = (cache: Cache, what: ContentId, name: string) =>
    cache.place({ ...from, content: what }, { target: join(disk, name), signal });

  test.skipIf(!root)("has room again when the cache makes it (root, to mount a small disk)", async () => {
    const cache = on("1");
    for (let i = 0; i < 6; i += 1) {
      await lay(cache, content(i, 500), "datum");
      await rm(join(disk, "datum"));
    }
    await lay(cache, content(6, 1500), "datum");
    expect((await readFile(join(disk, "datum"))).length).toBe(1500 * KIB);
  });

  test.skipIf(!root)(
    "fails the datum, saying so, where others have filled it (root, to mount a small disk)",
    async () => {
      const cache = on("1");
      await writeFile(join(disk, "of-others"), Buffer.alloc(1800 * KIB));
      await expect(lay(cache, content(1, 1000), "datum")).rejects.toThrow(
        /^the disk of this node is full: there is no room in .*incoming for 1024000 bytes of input$/,
      );
      expect(await readdir(join(disk, "agents/1/incoming"))).toEqual([]);
      await rm(join(disk, "of-others"));
      await lay(cache, content(1, 1000), "datum");
    },
  );
});

import { existsSync } from "node:fs";
import { mkdir, readdir, readFile, realpath, rm, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { text } from "node:stream/consumers";
import { afterEach, beforeEach, describe, expect, test, vi } from "vitest";
import { type ContentId, contentName } from "../../../protocol/content.ts";
import { ERASED_SILENCE_MS, type ErasedSince } from "../../../protocol/runner.ts";
import type { Cache, CacheOptions } from "../../../runner/cache/cache.ts";
import { ErasedPlaceFile } from "../../../runner/cache/erasures.ts";
import { CacheFiles } from "../../../runner/cache/files.ts";
import { Client } from "../../../runner/gateway/client.ts";
import { Gateway } from "../../../runner/gateway/gateway.ts";
import { findTool } from "../../../runner/lib/system-calls.ts";
import { REST } from "../../support/suite.ts";
import { openCache } from "./support/caches.ts";
import { KEY } from "./support/fake-gateway.ts";
import { Stage, soon } from "./support/running.ts";

const from = { repo: "images", branch: "master" };
const signal = new AbortController().signal;
let stage: Stage;
let client: Client;
let dir: string;
let wall = 0;
let steady = 0;
let placed = 0;

beforeEach(async () => {
  stage = await Stage.open();
  client = new Client({ endpoint: stage.gateway.endpoint, ...KEY });
  dir = await realpath(stage.dataDir);
  wall = 1e12;
  steady = 0;
});
afterEach(async () => {
  vi.restoreAllMocks();
  await client.close();
  await stage.close();
});

/** A place of the list: its number. */
function at(number: number): string {
  return `${number}.00000000000000aa`;
}

async function agent(
  name: string,
  { alive = [], ...more }: Partial<CacheOptions> & { alive?: readonly string[] } = {},
): Promise<Cache> {
  const isAlive = async (other: string) => alive.includes(other);
  const erased = await ErasedPlaceFile.open({ dir: join(dir, "cache"), agent: name, isAlive });
  const clocks = { now: () => wall, steady: () => steady };
  return openCache(dir, { agent: name, gateway: new Gateway(client), erased, ...clocks, ...more });
}

/** An agent that has been told all, by the place that it has then. */
async function toldAgent(name = "1", place = at(0)): Promise<Cache> {
  const cache = await agent(name);
  await cache.hear(cache.ask(), { upTo: place, contents: [], everything: true });
  return cache;
}

function told(cache: Cache, answer: Partial<ErasedSince> = {}): Promise<boolean> {
  const asked = cache.ask();
  return cache.hear(asked, { upTo: asked.erasedTo ?? at(0), contents: [], ...answer });
}

/** Lays a content out as a datum's file, and returns its path. */
async function place(cache: Cache, content: ContentId): Promise<string> {
  const target = join(dir, `datum-${++placed}`, "file");
  await cache.place({ ...from, content }, { target, signal });
  return target;
}

/** Whether a content was asked of the gateway to lay it out. */
async function isFetched(cache: Cache, content: ContentId): Promise<boolean> {
  const before = stage.gateway.requests.length;
  await place(cache, content);
  return stage.gateway.requests.length > before;
}

function store(...texts: readonly string[]): ContentId[] {
  return texts.map((each) => stage.gateway.store(each));
}

describe("what an answer names", () => {
  test("goes, and nothing else; what a datum has of it stays whole", async () => {
    const cache = await toldAgent();
    const [gone, kept] = store("gone", "kept") as [ContentId, ContentId];
    const [file] = [await place(cache, gone), await place(cache, kept)];
    const contents = [contentName(gone), `${"0".repeat(64)}-1`, "no name/../of a content"];
    expect(await told(cache, { upTo: at(3), contents })).toBe(false);
    expect([existsSync(cache.pathOf(gone)), existsSync(cache.pathOf(kept))]).toEqual([false, true]);
    expect(await readFile(file, "utf8")).toBe("gone");
    expect(cache.ask().erasedTo).toBe(at(3));
    expect([await isFetched(cache, kept), await isFetched(cache, gone)]).toEqual([false, true]);
  });

  test("goes page by page, and nothing is used before the last one", async () => {
    await place(await toldAgent(), (store("used") as [ContentId])[0]);
    const cache = await agent("2");
    const [used] = store("used") as [ContentId];
    expect(await told(cache, { upTo: at(1), contents: [], more: true })).toBe(true);
    expect(await isFetched(cache, used)).toBe(true);
    expect(await told(cache, { upTo: at(2) })).toBe(false);
    expect(await isFetched(cache, used)).toBe(false);
  });

  test("is everything if the gateway does not know the place: nothing of the cache is left", async () => {
    const cache = await toldAgent();
    const [one, two] = store("one", "two") as [ContentId, ContentId];
    for (const content of [one, two]) await place(cache, content);
    await writeFile(join(cache.pathOf(one), "..", "beside"), "one");
    const emptying = told(cache, { upTo: at(7), everything: true });
    // Nobody knows which are good until all are gone.
    expect(await isFetched(cache, one)).toBe(true);
    await emptying;
    expect(existsSync(join(cache.pathOf(one), "..", "beside"))).toBe(false);
    expect(existsSync(cache.pathOf(two))).toBe(false);
    expect(cache.ask().erasedTo).toBe(at(7));
    await place(cache, two);
    expect(await isFetched(cache, two)).toBe(false);
  });

  test("is named again if it could not be removed, and nothing is used when that lasts", async () => {
    const [content] = store("kept") as [ContentId];
    const file = { write: async () => Promise.reject(new Error("the disk can't be written")) };
    const cache = await agent("1", { erased: { file, place: at(0) } });
    await told(cache);
    await place(cache, content);
    await told(cache, { upTo: at(1), contents: ["x"] });
    expect(cache.ask().erasedTo).toBe(at(0));
    expect(await isFetched(cache, content)).toBe(false);
    wall += ERASED_SILENCE_MS;
    await told(cache, { upTo: at(1), contents: ["x"] });
    expect(await isFetched(cache, content)).toBe(true);
  });

  test("is what was asked: an answer to an earlier question changes nothing", async () => {
    const cache = await toldAgent();
    const asked = cache.ask();
    await told(cache, { upTo: at(5), contents: ["x"] });
    await cache.hear(asked, { upTo: at(4), contents: ["y"] });
    expect(cache.ask().erasedTo).toBe(at(5));
  });
});

describe("the cache is not used", () => {
  test("before the first answer after a start", async () => {
    const [content] = store("there") as [ContentId];
    await place(await toldAgent(), content);
    const cache = await agent("2");
    expect(cache.ask().erasedTo).toBe(at(0));
    expect(existsSync(cache.pathOf(content))).toBe(true);
    expect(cache.readSmall(content)).toBeUndefined();
    expect(await isFetched(cache, content)).toBe(true);
    const before = stage.gateway.requests.length;
    expect(await text(cache.read({ ...from, content }, signal))).toBe("there");
    expect(stage.gateway.requests.length).toBe(before + 1);
    await told(cache);
    expect(cache.readSmall(content)?.toString()).toBe("there");
    expect(await isFetched(cache, content)).toBe(false);
  });

  test.each([
    ["wall", { wall: ERASED_SILENCE_MS, steady: 0 }],
    ["steady", { wall: -3600_000, steady: ERASED_SILENCE_MS }],
  ])("after a silence of 60 s by the %s clock, until the next answer", async (_, passed) => {
    const [content] = store("there") as [ContentId];
    const cache = await toldAgent();
    await place(cache, content);
    [wall, steady] = [wall + passed.wall - 1, steady + passed.steady - 1];
    expect(await isFetched(cache, content)).toBe(false);
    [wall, steady] = [wall + 1, steady + 1];
    expect(await isFetched(cache, content)).toBe(true);
    await told(cache);
    expect(await isFetched(cache, content)).toBe(false);
  });

  test("after an answer that took longer than that", async () => {
    const [content] = store("there") as [ContentId];
    const cache = await toldAgent();
    await place(cache, content);
    const asked = cache.ask();
    wall += ERASED_SILENCE_MS;
    await cache.hear(asked, { upTo: at(0), contents: [] });
    expect(await isFetched(cache, content)).toBe(true);
  });
});

describe("what is on its way while it is erased", () => {
  const everything: ErasedSince = { upTo: at(9), contents: [], everything: true };
  const named = (content: ContentId): ErasedSince => ({ upTo: at(9), contents: [contentName(content)] });

  test.each([
    ["named", named],
    ["one of everything", () => everything],
  ])("is for those alone who waited, if it is %s", async (_, answer) => {
    const cache = await toldAgent();
    const [content] = store("secret") as [ContentId];
    const { promise: held, resolve: letGo } = Promise.withResolvers<undefined>();
    stage.gateway.before = () => held;
    const waiting = place(cache, content);
    await soon(() => stage.gateway.requests.length).toBe(1);
    await told(cache, answer(content));
    // Who comes from now on asks the gateway, which may say that it is gone.
    const later = place(cache, content);
    await soon(() => stage.gateway.requests.length).toBe(2);
    letGo(undefined);
    expect(await readFile(await waiting, "utf8")).toBe("secret");
    await later;
    stage.gateway.before = () => undefined;
    await told(cache, { upTo: at(10), contents: [contentName(content)] });
    expect(existsSync(cache.pathOf(content))).toBe(false);
  });

  test("is not kept when it arrives, as a whole or as it is read", async () => {
    const cache = await toldAgent();
    const contents = store("secret one", "secret two") as [ContentId, ContentId];
    const { promise: held, resolve: letGo } = Promise.withResolvers<undefined>();
    stage.gateway.before = () => held;
    const whole = place(cache, contents[0]);
    const read = text(cache.read({ ...from, content: contents[1] }, signal));
    await soon(() => stage.gateway.requests.length).toBe(2);
    await told(cache, { upTo: at(2), contents: contents.map(contentName) });
    letGo(undefined);
    await whole;
    expect(await read).toBe("secret two");
    // The fetch is over when the file that it brought is gone.
    await soon(() => readdir(join(dir, "agents/1/incoming"))).toEqual([]);
    expect(contents.map((content) => existsSync(cache.pathOf(content)))).toEqual([false, false]);
  });
});

describe("what is erased in the moment when it is put into the cache", () => {
  test("does not stay there, whichever of the two comes first", async () => {
    const cache = await toldAgent();
    const [content] = store("secret") as [ContentId];
    const { promise: putting, resolve: isPutting } = Promise.withResolvers<undefined>();
    const { promise: erased, resolve: isErased } = Promise.withResolvers<undefined>();
    const { keep } = CacheFiles.prototype;
    vi.spyOn(CacheFiles.prototype, "keep").mockImplementation(async function (this: CacheFiles, ...given) {
      isPutting(undefined);
      await erased;
      return await keep.apply(this, given);
    });
    const placing = place(cache, content);
    await putting;
    await told(cache, { upTo: at(1), contents: [contentName(content)] });
    isErased(undefined);
    expect(await readFile(await placing, "utf8")).toBe("secret");
    await soon(() => readdir(join(dir, "agents/1/incoming"))).toEqual([]);
    expect(existsSync(cache.pathOf(content))).toBe(false);
  });
});

describe("the place of an agent", () => {
  const placesAt = async (files: Record<string, string>) => {
    await mkdir(join(dir, "cache/erased"), { recursive: true });
    for (const [name, place] of Object.entries(files))
      await writeFile(join(dir, "cache/erased", name), place);
  };
  const left = async () => (await readdir(join(dir, "cache/erased"))).sort();

  test("is none where nobody has one", async () => {
    expect((await agent("1")).ask().erasedTo).toBeNull();
    expect((await agent("2")).ask().erasedTo).toBeNull();
  });

  test("is the earliest of those that there are; the dead ones' files go", async () => {
    await placesAt({ "dead-1": at(12), "dead-2": at(9), live: at(100), "dead-3.new": "9" });
    expect((await agent("1", { alive: ["live"] })).ask().erasedTo).toBe(at(9));
    expect(await left()).toEqual(["1", "live"]);
    expect((await agent("2", { alive: ["live"] })).ask().erasedTo).toBe(at(9));
    expect(await left()).toEqual(["2", "live"]);
  });

  test("is none where it can't be written down, and nothing is used until it can", async () => {
    await mkdir(join(dir, "cache"), { recursive: true });
    await writeFile(join(dir, "cache/erased"), "no folder");
    const cache = await agent("1");
    const [content] = store("there") as [ContentId];
    expect(cache.ask().erasedTo).toBeNull();
    await told(cache, { upTo: at(3), everything: true });
    await place(cache, content);
    expect([cache.ask().erasedTo, await isFetched(cache, content)]).toEqual([null, true]);
    await rm(join(dir, "cache/erased"));
    await told(cache, { upTo: at(3), everything: true });
    await place(cache, content);
    expect([cache.ask().erasedTo, await isFetched(cache, content)]).toEqual([at(3), false]);
  });

  test("is none where one of them can't be read", async () => {
    await placesAt({ "dead-1": at(12), "dead-2": "" });
    expect((await agent("1")).ask().erasedTo).toBeNull();
    expect((await agent("2")).ask().erasedTo).toBeNull();
  });
});

const absent = (await findTool("bwrap")) === undefined && (await findTool("setpriv")) === undefined;

describe.skipIf(absent)("an agent (bubblewrap or unshare)", () => {
  /** Runs a datum of one file, and returns the content. */
  async function worked(name: string): Promise<ContentId> {
    const reported = stage.gateway.outcomes.length;
    stage.gateway.add(name);
    await stage.reported(reported + 1);
    const content = stage.gateway.store(`content of ${name}`);
    return content;
  }
  const pathOf = ({ digest, size }: ContentId) => join(dir, "cache", digest.slice(0, 2), `${digest}-${size}`);

  test("takes what is erased out of its cache, page after page, and hears on after a restart", async () => {
    stage.gateway.erasedAtOnce = 1;
    const first = await stage.runner();
    const contents = [await worked("one"), await worked("two"), await worked("kept")];
    stage.gateway.erased.push(...contents.slice(0, 2).map(contentName));
    await soon(() => contents.map((content) => existsSync(pathOf(content)))).toEqual([false, false, true]);
    await soon(() => stage.gateway.places.at(-1)).toBe(at(2));
    first.drain();
    await first.done;
    stage.gateway.erased.push(contentName(contents[2] as ContentId));
    await stage.runner();
    await soon(() => existsSync(pathOf(contents[2] as ContentId))).toBe(false);
    // The second agent begins where the first one ended.
    await soon(() => stage.gateway.places).toEqual([null, at(0), at(1), at(2), at(3)]);
  });

  test("asks for the next page at once", REST, async () => {
    stage.gateway.erasedAtOnce = 1;
    await stage.runner();
    await soon(() => stage.gateway.places.at(-1)).toBe(at(0));
    // A page with each heartbeat would take longer than this test may.
    for (let n = 1; n <= 200; n++) stage.gateway.erased.push(`${"0".repeat(64)}-${n}`);
    await soon(() => stage.gateway.places.at(-1)).toBe(at(200));
  });

  test("empties its cache for a gateway that does not know its place", REST, async () => {
    await stage.runner();
    const content = await worked("one");
    stage.gateway.erasedToken = "00000000000000bb";
    await soon(() => existsSync(pathOf(content))).toBe(false);
    await soon(() => stage.gateway.places.at(-1)).toBe("0.00000000000000bb");
  });
});

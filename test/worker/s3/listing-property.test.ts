import { env } from "cloudflare:test";
import { describe, expect, test } from "vitest";
import type { BranchApi } from "../../../worker/branch/contract/api.ts";
import type { Operation } from "../../../worker/branch/contract/files.ts";
import { clientOf } from "../../../worker/objects/facets.ts";
import { good, xml } from "./support.ts";

const SEGMENTS = [
  "a",
  "a-1",
  "a.b",
  "a0",
  "b c",
  "foo",
  "foo+1",
  "\u{1F600}",
  "\uE000",
  "\uFFFD",
  "é",
  "%2F",
];
const PREFIXES = ["", "a", "a/", "a-", "foo", "foo/", "foo/a", "\u{1F600}", "\uE000/", "é", "zz"];
/** By way of this key the contents came into the branch; no listing of the model has it. */
const SCRATCH = "~scratch";
const EVENTS = 200;
const ROUNDS = 20;

/** What happened to a path at a commit: what it holds from then on, or null where it is gone. */
interface Event {
  readonly path: string;
  readonly commit: string;
  readonly body: string | null;
}

/** The order of S3: bytes of UTF-8. */
function byBytes(a: string, b: string): number {
  const encoder = new TextEncoder();
  const [left, right] = [encoder.encode(a), encoder.encode(b)];
  for (let i = 0; i < Math.min(left.length, right.length); i++) {
    const difference = (left[i] ?? 0) - (right[i] ?? 0);
    if (difference !== 0) return difference;
  }
  return left.length - right.length;
}

/** Numbers from 0 up to 1, the same ones each run. */
function randomNumbers(seed: number): () => number {
  let state = seed;
  return () => {
    state = (state * 1664525 + 1013904223) % 2 ** 32;
    return state / 2 ** 32;
  };
}

interface Random {
  (): number;
  pick<T>(from: readonly T[]): T;
  below(end: number): number;
}

function randomFrom(seed: number): Random {
  const random = randomNumbers(seed);
  return Object.assign(() => random(), {
    pick: <T>(from: readonly T[]): T => from[Math.floor(random() * from.length)] as T,
    below: (end: number): number => Math.floor(random() * end),
  });
}

function isFree(path: string, tree: ReadonlyMap<string, string>): boolean {
  const plain = path.endsWith("/") ? path.slice(0, -1) : path;
  return [...tree.keys()].every((other) => {
    const below = other.startsWith(`${plain}/`) && !path.endsWith("/");
    return !below && !path.startsWith(`${other}/`) && !(other === `${path}/`) && !(path === `${other}/`);
  });
}

/** Random commits over a new bucket; answers the tree that they leave, and what happened to paths, the newest first. */
async function grow(bucket: string, random: Random) {
  await good(`PUT /${bucket}`);
  const branch = clientOf<BranchApi>(env.BRANCH.getByName(bucket));
  const bodies = new Map<string, { digest: string; size: number }>();
  for (const body of ["", "1", "22", "333"]) {
    const put = await good(`PUT /${bucket}/${SCRATCH}`, { body });
    const [digest = "", size] = (put.headers.get("etag") ?? "").slice(1, -1).split("-");
    bodies.set(body, { digest, size: Number(size) });
  }
  const events: Event[] = [];
  let tree = new Map([[SCRATCH, "333"]]);
  while (events.length < EVENTS) {
    const { next, changed } = change(tree, random);
    const operations: Operation[] = [...changed].map(([path, body]) =>
      body === null ? { delete: path } : { put: path, ...(bodies.get(body) ?? { digest: "", size: 0 }) },
    );
    if (operations.length === 0) continue;
    const done = await branch.files.commit({ operations });
    if (!done.ok) throw new Error(JSON.stringify(done));
    const commit = done.commit;
    if (commit !== null) for (const [path, body] of changed) events.unshift({ path, commit, body });
    tree = next;
  }
  tree.delete(SCRATCH);
  return { tree, events };
}

/** What really changes: a write of what is there already is none. */
function change(tree: ReadonlyMap<string, string>, random: Random) {
  const next = new Map(tree);
  const changed = new Map<string, string | null>();
  for (const path of tree.keys()) {
    if (path === SCRATCH || random() >= 0.08) continue;
    next.delete(path);
    changed.set(path, null);
  }
  for (let n = random.below(16); n > 0; n--) {
    const depth = 1 + random.below(3);
    const segments = Array.from({ length: depth }, () => random.pick(SEGMENTS));
    const path = segments.join("/") + (random() < 0.15 ? "/" : "");
    const body = path.endsWith("/") ? "" : random.pick(["1", "22", "333"]);
    if (!isFree(path, next)) continue;
    next.set(path, body);
    if (tree.get(path) === body) changed.delete(path);
    else changed.set(path, body);
  }
  return { next, changed };
}

interface Question {
  readonly prefix: string;
  readonly delimiter: "/" | undefined;
  readonly after: string;
}

/** The common prefix that a path folds into, in brackets, or else the path. */
function fold(path: string, { prefix, delimiter }: Question): string {
  const slash = delimiter ? path.indexOf("/", prefix.length) : -1;
  return slash < 0 ? path : `[${path.slice(0, slash + 1)}]`;
}

function isAfter(path: string, question: Question): boolean {
  const { after } = question;
  // A common prefix was shown already, with all that is in it.
  if (after !== "" && fold(path, question) === `[${after}]`) return false;
  return byBytes(path, after) > 0;
}

/** The whole listing as S3 describes it, with nothing clever. */
function naiveListing(paths: Iterable<string>, question: Question): string[] {
  const shown = [...paths]
    .sort(byBytes)
    .filter((path) => path.startsWith(question.prefix) && isAfter(path, question))
    .map((path) => fold(path, question));
  return [...new Set(shown)];
}

function naiveVersions(events: readonly Event[], question: Question): string[] {
  const shown = new Set<string>();
  for (const entry of naiveListing(new Set(events.map(({ path }) => path)), question)) {
    if (entry.startsWith("[")) shown.add(entry);
    const own = events.filter(({ path }) => path === entry);
    for (const [index, event] of own.entries()) shown.add(versionText({ ...event, latest: index === 0 }));
  }
  return [...shown];
}

function versionText({ path, commit, body, latest }: Event & { latest: boolean }): string {
  return `${path} ${commit} ${body === null ? "gone" : body.length}${latest ? " latest" : ""}`;
}

function ask(random: Random, paths: readonly string[]): { question: Question; size: number; query: string } {
  const prefix = random() < 0.4 ? "" : random.pick(PREFIXES);
  const delimiter = random() < 0.6 ? "/" : undefined;
  const path = random() < 0.5 ? "" : random.pick(["", "a", "a/", "foo+1/", "\u{1F600}", ...paths]);
  const question = { prefix, delimiter, after: path } as const;
  const size = 1 + random.below(random() < 0.5 ? 5 : 40);
  const query = `max-keys=${size}&prefix=${encodeURIComponent(prefix)}${delimiter ? "&delimiter=/" : ""}`;
  return { question, size, query };
}

/** Pages until the listing ends. Each must be full but the last. */
async function allPages(
  size: number,
  page: (more: string) => Promise<{ entries: string[]; truncated: boolean; more: string }>,
): Promise<string[]> {
  const seen: string[] = [];
  for (let more = ""; ; ) {
    const { entries, truncated, more: next } = await page(more);
    expect(entries.length).toBe(truncated ? size : entries.length);
    expect(entries.length).toBeLessThanOrEqual(size);
    seen.push(...entries);
    if (!truncated) return seen;
    more = next;
  }
}

const encode = encodeURIComponent;

// biome-ignore lint/suspicious/noExplicitAny: the shape is what the test asserts.
function listed(result: any): string[] {
  const keys = (result.Contents ?? []).map((each: { Key: string }) => each.Key);
  const prefixes = (result.CommonPrefixes ?? []).map((each: { Prefix: string }) => `[${each.Prefix}]`);
  for (const each of [keys, prefixes]) expect(each).toEqual(each.toSorted(byBytes));
  const bare = (entry: string): string => entry.replace(/^\[(.*)\]$/s, "$1");
  return [...keys, ...prefixes].sort((a, b) => byBytes(bare(a), bare(b)));
}

/** Entries of a page of versions in the order of its XML, but for common prefixes, which stand at its end there. */
function listedVersions(text: string): string[] {
  const entries = [...text.matchAll(/<(Version|DeleteMarker|CommonPrefixes)>(.*?)<\/\1>/gs)].map(
    ([, tag, inner = ""]) => {
      const of = (name: string): string => new RegExp(`<${name}>(.*?)</${name}>`, "s").exec(inner)?.[1] ?? "";
      if (tag === "CommonPrefixes") return { path: of("Prefix"), text: `[${of("Prefix")}]` };
      const path = of("Key");
      const body = tag === "Version" ? "x".repeat(Number(of("Size"))) : null;
      const latest = of("IsLatest") === "true";
      return { path, text: versionText({ path, commit: of("VersionId"), body, latest }) };
    },
  );
  // A stable sort: what the gateway has in order stays so.
  return entries.sort((a, b) => byBytes(a.path, b.path)).map((entry) => entry.text);
}

describe.each([1, 2])("random history %i", (seed) => {
  test("lists by version 1, version 2 and versions, page by page, what a naive model has", async () => {
    const random = randomFrom(seed);
    const bucket = `master.random-${seed}`;
    const { tree, events } = await grow(bucket, random);
    const isScratch = (entry: string): boolean => entry.startsWith(SCRATCH);
    for (let round = 0; round < ROUNDS; round++) {
      const { question, size, query } = ask(random, [...tree.keys()]);
      const expected = naiveListing(tree.keys(), question);
      const { after } = question;

      const v1 = await allPages(size, async (more) => {
        const start = more || `&marker=${encode(after)}`;
        const { ListBucketResult: page } = await xml(good(`GET /${bucket}?${query}${start}`));
        const next = `&marker=${encode(page.NextMarker ?? "")}`;
        return { entries: listed(page), truncated: page.IsTruncated === "true", more: next };
      });
      expect(v1.filter((path) => !isScratch(path))).toEqual(expected);

      const v2 = await allPages(size, async (more) => {
        const start = `&start-after=${encode(after)}${more}`;
        const { ListBucketResult: page } = await xml(good(`GET /${bucket}?list-type=2&${query}${start}`));
        const entries = listed(page);
        expect(page.KeyCount).toBe(String(entries.length));
        const next = `&continuation-token=${page.NextContinuationToken}`;
        return { entries, truncated: page.IsTruncated === "true", more: next };
      });
      expect(v2.filter((path) => !isScratch(path))).toEqual(expected);

      const versions = await allPages(size, async (more) => {
        const start = more || `&key-marker=${encode(after)}`;
        const text = await (await good(`GET /${bucket}?versions&${query}${start}`)).text();
        const of = (name: string): string =>
          new RegExp(`<${name}>(.*?)</${name}>`, "s").exec(text)?.[1] ?? "";
        const version = of("NextVersionIdMarker");
        const next = `&key-marker=${encode(of("NextKeyMarker"))}${version && `&version-id-marker=${version}`}`;
        return { entries: listedVersions(text), truncated: of("IsTruncated") === "true", more: next };
      });
      expect(versions.filter((path) => !isScratch(path))).toEqual(naiveVersions(events, question));
    }
  }, 60_000);
});

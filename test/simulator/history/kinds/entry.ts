import { decodeTime } from "ulid";
import type { VersionEntry } from "../../../../worker/branch/contract/files.ts";
import { decodeToken } from "../../../../worker/s3/request/query-values.ts";
import type { Random } from "../../platform/random.ts";
import type { S3Request } from "../../platform/sign.ts";
import { askAside, type Said } from "../asides.ts";
import { digestOf, idOf } from "../bytes.ts";
import { isMishap } from "../mishaps.ts";
import { type Answer, type Change, changed, UNKNOWN } from "../model.ts";
import { ALL, byBytes, isPageOf, type PageAsked, type PageRead } from "../pages.ts";
import { type Asked, BRANCHES, bucketOf, type Kind, PATHS, type Stage, type Turn } from "../stage.ts";
import { isSame, type State } from "../states.ts";
import { isPageOfVersions } from "../versions.ts";
import { someText } from "./files.ts";
import { somePage } from "./pages.ts";

/** Requests of S3 clients, by the entry of the Worker. */
export const ENTRY_KINDS = {
  "S3 request": { weight: 3, take },
  "S3 reads around a write": { weight: 0, take: aroundWrite },
} satisfies Record<string, Kind>;

/** Longer than what a row keeps. */
const LONG = 5_000;

async function take(stage: Stage, turn: Turn): Promise<void> {
  await turn.random.pick([
    putObject,
    putObject,
    ofKey(getObject),
    ofKey(getObject),
    ofKey(headObject),
    ofKey(getUnsigned),
    deleteObject,
    ofPage(list),
    ofPage(listUnsigned),
    ofPage(listVersions),
    copyObject,
  ])(stage, turn);
}

/**
 * One key is read, something is written, other keys are read, and then the first one again: it must not be as it was before what the
 * others had. All within the seconds for which a gateway may answer by what it read.
 */
async function aroundWrite(stage: Stage, turn: Turn): Promise<void> {
  const { id, random, bucket } = turn;
  const first = random.pick(PATHS);
  const others = PATHS.filter((path) => path !== first);
  let step = 0;
  const next = () => `${id}.${++step}`;
  const read = (key: string) => getObject(stage, { id: next(), bucket, key });
  for (let left = 1 + random.below(MOST_TIMES); left > 0; left--) {
    await read(first);
    await putObject(stage, { ...turn, id: next() });
    await read(random.pick(others));
    await read(random.pick(others));
    await read(first);
    await scheduler.wait(random.next() * BETWEEN_MS);
  }
}

/** Reads are often repeated, and what was read before may be answered out of memory: each time it must still be so. */
export const MOST_TIMES = 4;
export const BETWEEN_MS = 12;

function again<Of>(
  choose: (random: Random) => Of,
  read: (stage: Stage, asks: Reads & Of) => Promise<void>,
): (stage: Stage, turn: Turn) => Promise<void> {
  return async (stage, { id, random, bucket }) => {
    const of = choose(random);
    for (let left = 1 + Math.floor(random.next() * MOST_TIMES); left > 0; left--) {
      await read(stage, { id: `${id}.${left}`, bucket, ...of });
      await scheduler.wait(random.next() * BETWEEN_MS);
    }
  };
}

type Reads = Pick<Turn, "id" | "bucket">;
/** A read of one key. */
type Asks = Reads & { readonly key: string };
/** A listing, as it is asked by all. */
type Lists = Reads & { readonly page: PageAsked };

const ofKey = (read: (stage: Stage, asks: Asks) => Promise<void>) =>
  again((random) => ({ key: random.pick(PATHS) }), read);

/** Most listings are of all: those are what is asked again by others. */
const ofPage = (read: (stage: Stage, lists: Lists) => Promise<void>) =>
  again((random) => ({ page: random.chance(0.6) ? ALL : somePage(random) }), read);

interface Heard {
  readonly status: number;
  readonly headers: Headers;
  readonly text: string;
  /** Of an error. */
  readonly code: string | undefined;
}

/** Sends a request. What fails in the gateway must be a mishap: all else is a fault of its own. */
export async function send(stage: Stage, request: S3Request): Promise<Heard> {
  const { simulation } = stage;
  const answer = await simulation.s3(request);
  const text = await answer.text();
  for (const [what, told] of simulation.world.errors.splice(0)) {
    const error = typeof told === "object" && told !== null && "error" in told ? told.error : told;
    if (!isMishap(error))
      throw new Error(`${request.method} of ${request.bucket}: ${what}`, { cause: error });
  }
  // A long answer may have begun before it failed.
  const [, code] = /<Error><Code>(\w+)/.exec(text) ?? [];
  return { status: answer.status, headers: answer.headers, text, code };
}

/** A bucket that is not there, or whatever else was refused; undefined: it was done. */
export function refusedBy({ status, code }: Heard): Answer | undefined {
  if (status >= 500 || code === "InternalError" || code === "ServiceUnavailable") return UNKNOWN;
  if (code === "NoSuchBucket")
    return { kind: "saw", what: code, of: ({ generation }) => generation === null };
  return status >= 300 ? { kind: "saw", what: code ?? String(status), of: () => true } : undefined;
}

/** The answer of a write: its commit is the version, unless nothing had to be changed. */
function wrote(stage: Stage, heard: Heard, { bucket, id }: Pick<Turn, "bucket" | "id">): Answer {
  const refused = refusedBy(heard);
  if (refused) return refused;
  const version = heard.headers.get("x-amz-version-id");
  const isOwn = version !== null && stage.messageOf(bucket, version) === id;
  return { kind: "made", commit: isOwn ? version : null };
}

function message(id: string): Record<string, string> {
  return { "x-sluice-commit-message": id };
}

async function putObject(stage: Stage, turn: Turn): Promise<void> {
  const { id, random, bucket } = turn;
  const key = random.pick(PATHS);
  const isLong = random.chance(0.5);
  const text = isLong ? `text ${id} `.padEnd(LONG, "-") : someText(turn);
  const digest = stage.text(text);
  const mustBeNew = random.chance(0.2);
  const isFree = ({ tree }: State) => !tree.has(key);
  const asked: Asked = {
    id,
    bucket,
    text: `PutObject ${id} of ${key} = ${digest.slice(0, 6)}${mustBeNew ? " if nothing is there" : ""}`,
    leads: ({ before, after }) =>
      (!mustBeNew || isFree(before)) && isSame(after.tree, changed(before.tree, [[key, digest]])),
  };
  const headers = { ...message(id), ...(mustBeNew && { "if-none-match": "*" }) };
  const body = new TextEncoder().encode(text);
  await stage.ask(
    asked,
    () => send(stage, { method: "PUT", bucket, key, headers, body }),
    (heard): Answer => {
      if (heard.status === 412) {
        const of = (state: State) => state.generation !== null && !isFree(state);
        return { kind: "saw", what: "412", of };
      }
      const answer = wrote(stage, heard, turn);
      // Nobody else writes a text like this.
      if (answer.kind === "made" && isLong) {
        for (const blob of stage.simulation.blobs.blobs.keys())
          if (blob.includes(digest)) stage.known.add(blob);
      }
      return answer;
    },
  );
}

async function getObject(stage: Stage, { id, bucket, key }: Asks): Promise<void> {
  await stage.ask(
    { id, bucket, text: `GetObject ${id} of ${key}` },
    () => send(stage, { method: "GET", bucket, key }),
    (heard) => {
      // Byte for byte: the digest is that of what came.
      const digest = heard.status === 200 ? digestOf(heard.text) : undefined;
      return found(stage, heard, { bucket, key, digest });
    },
  );
}

async function headObject(stage: Stage, { id, bucket, key }: Asks): Promise<void> {
  await stage.ask(
    { id, bucket, text: `HeadObject ${id} of ${key}` },
    () => send(stage, { method: "HEAD", bucket, key }),
    (heard) => {
      const digest = digestOfTag(heard.headers.get("etag") ?? "");
      const text = stage.texts.get(digest);
      const length = heard.headers.get("content-length");
      if (heard.status === 200 && (text === undefined || length !== String(idOf(text).size)))
        return { kind: "saw", what: `head ${digest} of ${length}`, of: () => false };
      return found(stage, heard, { bucket, key, digest: heard.status === 200 ? digest : undefined });
    },
  );
}

/** A read without a signature: what is answered was public. */
async function getUnsigned(stage: Stage, { id, bucket, key }: Asks): Promise<void> {
  await askAside(
    stage,
    { id, bucket, text: `GetObject ${id} of ${key} without a signature` },
    {
      call: () => send(stage, { method: "GET", bucket, key, isUnsigned: true }),
      saidOf({ status, code, text }): Said {
        const isRead = status === 200 || code === "NoSuchKey";
        if (!isRead) return { kind: "saw", what: code ?? String(status), of: () => true };
        const digest = status === 200 ? digestOf(text) : undefined;
        return {
          kind: "saw",
          what: `read ${digest?.slice(0, 6) ?? "nothing"} without a signature`,
          of: ({ settled }, _, { tree }) => settled.public && tree.get(key) === digest,
        };
      },
    },
  );
}

/** What a read saw at a key. */
function found(
  stage: Stage,
  heard: Heard,
  { bucket, key, digest }: Pick<Asks, "bucket" | "key"> & { digest: string | undefined },
): Answer {
  const refused = refusedBy(heard);
  // An answer to HEAD does not say whether it is the bucket that is not there.
  if (refused && (heard.status !== 404 || heard.code === "NoSuchBucket")) return refused;
  const modified = heard.headers.get("last-modified");
  const age = Number(heard.headers.get("x-sluice-age"));
  const isOf = (state: State) =>
    age <= OLDEST_SECONDS &&
    state.tree.get(key) === digest &&
    (digest === undefined || isTimeOf(stage, { bucket, state, modified }));
  const what = `read ${digest?.slice(0, 6) ?? "nothing"} of ${modified} ${age} s ago`;
  return { kind: "saw", what, of: isOf, ageMs: age * 1000 };
}

/** How old what is answered of the newest state may be, where a branch is set so. */
const OLDEST_SECONDS = 5;

/** Whether a Last-Modified is the time of a state's commit, as it is unless files were ever to have their own. */
function isTimeOf(
  stage: Stage,
  { bucket, state, modified }: { bucket: string; state: State; modified: string | null },
): boolean {
  const hasOwnTimes = stage.facts.get(bucket)?.states.some(({ settled }) => settled.modified === "file");
  if (hasOwnTimes || state.commit === null || state.isOfArchive) return true;
  return modified === new Date(decodeTime(state.commit)).toUTCString();
}

/** ETags are `"<digest>-<size>"`. */
function digestOfTag(tag: string): string {
  return /([0-9a-f]{64})-\d+/.exec(tag)?.[1] ?? "";
}

async function deleteObject(stage: Stage, turn: Turn): Promise<void> {
  const { id, random, bucket } = turn;
  const key = random.pick(PATHS);
  const asked: Asked = {
    id,
    bucket,
    text: `DeleteObject ${id} of ${key}`,
    leads: ({ before, after }: Change) => isSame(after.tree, changed(before.tree, [[key, null]])),
  };
  await stage.ask(
    asked,
    () => send(stage, { method: "DELETE", bucket, key, headers: message(id) }),
    (heard) => wrote(stage, heard, turn),
  );
}

async function list(stage: Stage, { id, bucket, page }: Lists): Promise<void> {
  const query = queryOf(page);
  await stage.ask(
    { id, bucket, text: `ListObjectsV2 ${id} ${JSON.stringify(query)}` },
    () => send(stage, { method: "GET", bucket, query }),
    (heard) => {
      const refused = refusedBy(heard);
      if (refused) return refused;
      const listed = listedIn(heard);
      const of = (state: State) =>
        state.generation !== null && isListedOf(stage, { bucket, page, listed, state });
      return { kind: "saw", what: `listed ${JSON.stringify(listed)}`, of };
    },
  );
}

/** A listing without a signature: what is answered was public. */
async function listUnsigned(stage: Stage, { id, bucket, page }: Lists): Promise<void> {
  const query = queryOf(page);
  await askAside(
    stage,
    { id, bucket, text: `ListObjectsV2 ${id} ${JSON.stringify(query)} without a signature` },
    {
      call: () => send(stage, { method: "GET", bucket, query, isUnsigned: true }),
      saidOf(heard): Said {
        const { status, code } = heard;
        if (status !== 200) return { kind: "saw", what: code ?? String(status), of: () => true };
        const listed = listedIn(heard);
        return {
          kind: "saw",
          what: `listed ${JSON.stringify(listed)} without a signature`,
          of: ({ settled }, _, state) => settled.public && isListedOf(stage, { bucket, page, listed, state }),
        };
      },
    },
  );
}

function queryOf({ prefix, delimiter, after, limit }: PageAsked): Record<string, string> {
  return {
    ...{ "list-type": "2", prefix, "max-keys": String(limit) },
    ...(delimiter && { delimiter }),
    ...(after !== undefined && { "start-after": after }),
  };
}

interface Listed extends PageRead {
  readonly files: readonly { readonly path: string; readonly digest: string; readonly modified: string }[];
}

/** What an answer lists: files and folders are each in order, and together they are one page. */
function listedIn({ text }: Heard): Listed {
  const rows = text.matchAll(
    /<Contents><Key>([^<]*)<\/Key><LastModified>([^<]*)<.*?<ETag>([^<]*)<.*?<\/Contents>/g,
  );
  const files = [...rows].map(([, path = "", modified = "", tag = ""]) => ({
    ...{ path, digest: digestOfTag(tag), modified },
  }));
  const names = [...files.map(({ path }) => path), ...foldersIn(text)].sort(byBytes);
  const token = tagIn(text, "NextContinuationToken");
  return { files, names, next: token === undefined ? null : decodeToken(token) };
}

function foldersIn(text: string): string[] {
  return [...text.matchAll(/<CommonPrefixes><Prefix>([^<]*)</g)].map(([, path = ""]) => path);
}

/** What the first tag of a name holds. */
function tagIn(text: string, tag: string): string | undefined {
  return new RegExp(`<${tag}>([^<]*)<`).exec(text)?.[1];
}

/** Whether a page is one of a state, and each file on it is as it was then. */
function isListedOf(
  stage: Stage,
  { bucket, page, listed, state }: { bucket: string; page: PageAsked; listed: Listed; state: State },
): boolean {
  const { tree } = state;
  const isThere = ({ path, digest, modified }: Listed["files"][number]) =>
    tree.get(path) === digest &&
    isTimeOf(stage, { bucket, state, modified: new Date(modified).toUTCString() });
  return listed.files.every(isThere) && isPageOf(tree.keys(), page, listed);
}

async function listVersions(stage: Stage, { id, bucket, page }: Lists): Promise<void> {
  const { after, prefix, delimiter, limit } = page;
  const query = {
    ...{ versions: "", prefix, "max-keys": String(limit) },
    ...(delimiter && { delimiter }),
    ...(after && { "key-marker": after }),
  };
  const request = {
    prefix,
    limit,
    ...(delimiter && { delimiter }),
    ...(after && { after: { path: after } }),
  };
  await askAside(
    stage,
    { id, bucket, text: `ListObjectVersions ${id} ${JSON.stringify(query)}` },
    {
      call: () => send(stage, { method: "GET", bucket, query }),
      saidOf(heard): Said {
        const { status, code, text } = heard;
        if (status >= 500 || code === "InternalError" || code === "ServiceUnavailable")
          return { kind: "unknown" };
        if (status !== 200) return { kind: "saw", what: code ?? String(status), of: () => true };
        const entries = versionsIn(text);
        const path = tagIn(text, "NextKeyMarker");
        const version = tagIn(text, "NextVersionIdMarker");
        const next = path === undefined ? null : { path, ...(version !== undefined && { version }) };
        return {
          kind: "saw",
          what: `versions ${JSON.stringify(entries)} ${JSON.stringify(next)}`,
          of: (facts, observer, state) =>
            isPageOfVersions(stage, { bucket, facts, observer, state, request, entries, next }),
        };
      },
    },
  );
}

/** The versions and folders that an answer lists, by path. */
function versionsIn(text: string): VersionEntry[] {
  const rows = text.matchAll(/<(Version|DeleteMarker)>(.*?)<\/\1>/g);
  const versions = [...rows].map(([, kind, of = ""]): VersionEntry => {
    const event = {
      path: tagIn(of, "Key") ?? "",
      version: tagIn(of, "VersionId") ?? "",
      latest: tagIn(of, "IsLatest") === "true",
      modifiedAt: Date.parse(tagIn(of, "LastModified") ?? ""),
    };
    if (kind === "DeleteMarker") return { kind: "deletion", ...event };
    return { kind: "version", ...event, digest: digestOfTag(tagIn(of, "ETag") ?? ""), size: 0 };
  });
  const folders = foldersIn(text).map((path): VersionEntry => ({ kind: "prefix", path }));
  // Those of one path stay in their order.
  return [...versions, ...folders].sort((one, other) => byBytes(one.path, other.path));
}

/** From the same branch, or from another one, whose bytes are then copied. */
async function copyObject(stage: Stage, turn: Turn): Promise<void> {
  const { id, random, bucket } = turn;
  const [from, key] = [random.pick(PATHS), random.pick(PATHS)];
  const source = random.chance(0.6) ? bucket : bucketOf(random.pick(BRANCHES));
  const since = stage.stamp();
  let answered = since;
  const asked: Asked = {
    id,
    bucket,
    text: `CopyObject ${id} of ${from} of ${source} to ${key}`,
    leads: ({ before, after }) => {
      // A state that was there before has all of it already, and what was copied was read until the answer.
      const until = after.since > since ? after.since : answered;
      const states = stage.observers.get(source)?.between(since, until) ?? [];
      const digests = new Set(states.map(({ tree }) => tree.get(from)));
      return [...digests].some(
        (digest) => digest !== undefined && isSame(after.tree, changed(before.tree, [[key, digest]])),
      );
    },
  };
  const headers = { ...message(id), "x-amz-copy-source": `/${source}/${from}` };
  await stage.ask(
    asked,
    () => send(stage, { method: "PUT", bucket, key, headers }),
    (heard) => {
      answered = stage.stamp();
      // The one that is not there may be the source.
      if (heard.status === 404) return { kind: "saw", what: heard.code ?? "404", of: () => true };
      return wrote(stage, heard, turn);
    },
  );
}

import { encodePath, GatewayError, queryOf } from "../../protocol/requests.ts";
import type { Gateway } from "./gateway.ts";

/*
 * What the console asks of the S3 API: folders, files and their versions, and writes into open commits. Answers in XML are
 * read by the browser's parser; keys in them are percent-encoded, since XML can't hold every key.
 */

/** A branch of a repo, as it is now or as it was. */
export interface Place {
  readonly repo: string;
  readonly branch: string;
  /** The id of a commit or of an open commit, or a tag. Absent: HEAD. */
  readonly at?: string | undefined;
}

/** The bucket that shows it. What is no name stands percent-encoded in targets: it reaches no other path. */
export function bucketOf({ repo, branch, at }: Place): string {
  return at === undefined ? `${branch}.${repo}` : `${at}.${branch}.${repo}`;
}

function targetOf(bucket: string, key?: string): string {
  return `/${encodePath(key === undefined ? bucket : `${bucket}/${key}`)}`;
}

interface FileInFolder {
  readonly key: string;
  readonly size: number;
}

/** A page of a folder. */
export interface FolderPage {
  /** Whole prefixes, each with its `/` at the end. */
  readonly folders: readonly string[];
  readonly files: readonly FileInFolder[];
  /** Goes into `after` of the next page. */
  readonly next: string | undefined;
}

/** Entries of one page of a folder. */
const PAGE_ENTRIES = 500;

/** What is directly in a folder; `prefix` is "" or ends in `/`. */
export async function listFolder(
  gateway: Gateway,
  place: Place,
  {
    prefix,
    after,
    signal,
  }: { readonly prefix: string; readonly after?: string; readonly signal: AbortSignal },
): Promise<FolderPage> {
  const query = {
    ...{ "list-type": 2, delimiter: "/", "encoding-type": "url", "max-keys": PAGE_ENTRIES },
    ...{ prefix, "continuation-token": after },
  };
  const answer = await gateway.send(targetOf(bucketOf(place)) + queryOf(query), { signal });
  const root = await xmlOf(answer);
  return {
    folders: childrenOf(root, "CommonPrefixes").map((entry) => keyIn(entry, "Prefix")),
    files: childrenOf(root, "Contents")
      .map((entry) => ({ key: keyIn(entry, "Key"), size: Number(textIn(entry, "Size")) }))
      .filter(({ key }) => key !== prefix),
    next: textIn(root, "NextContinuationToken") || undefined,
  };
}

/** What one commit wrote at a path, or its deletion there. */
export interface Version {
  /** The commit. */
  readonly id: string;
  readonly isDeletion: boolean;
  /** Milliseconds since 1970. */
  readonly at: number;
  readonly size: number;
  readonly etag: string;
}

/** Versions of a key, the newest first. */
export interface Versions {
  readonly versions: readonly Version[];
  /** Older ones are there, too. */
  readonly more: boolean;
}

const PAGE_VERSIONS = 100;

/** The newest versions of a key, in the branch. */
export async function listVersions(
  gateway: Gateway,
  { repo, branch }: Place,
  { key, signal }: { readonly key: string; readonly signal: AbortSignal },
): Promise<Versions> {
  const query = { versions: "", prefix: key, "encoding-type": "url", "max-keys": PAGE_VERSIONS };
  const answer = await gateway.send(targetOf(bucketOf({ repo, branch })) + queryOf(query), { signal });
  const root = await xmlOf(answer);
  const entries = [...root.children].filter(({ localName }) => VERSION_TAGS.has(localName));
  // The key itself comes before all others that begin with it.
  const own = entries.filter((entry) => keyIn(entry, "Key") === key);
  return {
    versions: own.map((entry) => ({
      id: textIn(entry, "VersionId"),
      isDeletion: entry.localName === "DeleteMarker",
      at: Date.parse(textIn(entry, "LastModified")),
      size: Number(textIn(entry, "Size")),
      etag: textIn(entry, "ETag"),
    })),
    more: own.length === entries.length && textIn(root, "IsTruncated") === "true",
  };
}

const VERSION_TAGS: ReadonlySet<string> = new Set(["Version", "DeleteMarker"]);

/** What is kept with a file beside its bytes. */
interface FileFacts {
  readonly size: number;
  readonly type: string;
  readonly etag: string;
  readonly metadata: readonly (readonly [name: string, value: string])[];
}

/** A file with its first bytes. */
export interface FileStart extends FileFacts {
  readonly tags: readonly (readonly [key: string, value: string])[];
  /** As they are stored: if a Content-Encoding is kept with them, they are still encoded. */
  readonly bytes: Uint8Array<ArrayBuffer>;
}

/** Bytes are answered as they are stored: a part of what is encoded can't be decoded by the browser. */
const AS_STORED = { "response-content-encoding": "identity" };

/** The first `most` bytes of a file, or all if there are fewer. */
export async function readStart(
  gateway: Gateway,
  place: Place,
  { key, most, signal }: { readonly key: string; readonly most: number; readonly signal: AbortSignal },
): Promise<FileStart> {
  const target = targetOf(bucketOf(place), key) + queryOf(AS_STORED);
  try {
    const answer = await gateway.send(target, { headers: { range: `bytes=0-${most - 1}` }, signal });
    const bytes = new Uint8Array(await answer.arrayBuffer());
    return { ...factsOf(answer), tags: await readTags(gateway, place, { key, answer, signal }), bytes };
  } catch (error) {
    // No range is satisfied by an empty file.
    if (!(error instanceof GatewayError) || error.status !== 416) throw error;
    const answer = await gateway.send(target, { method: "HEAD", signal });
    const tags = await readTags(gateway, place, { key, answer, signal });
    return { ...factsOf(answer), tags, bytes: new Uint8Array() };
  }
}

/** The tags of a file. `answer`: of a read of it, which says whether there are any. */
async function readTags(
  gateway: Gateway,
  place: Place,
  { key, answer, signal }: { readonly key: string; readonly answer: Response; readonly signal: AbortSignal },
): Promise<FileStart["tags"]> {
  if (!answer.headers.has("x-amz-tagging-count")) return [];
  const target = targetOf(bucketOf(place), key) + queryOf({ tagging: "" });
  const [set] = childrenOf(await xmlOf(await gateway.send(target, { signal })), "TagSet");
  return set ? tagsIn(set) : [];
}

/** All bytes of a file, as a stream. */
export async function readFile(
  gateway: Gateway,
  place: Place,
  { key, signal }: { readonly key: string; readonly signal: AbortSignal },
): Promise<ReadableStream<Uint8Array<ArrayBuffer>>> {
  const answer = await gateway.send(targetOf(bucketOf(place), key) + queryOf(AS_STORED), { signal });
  return answer.body ?? new Blob().stream();
}

function factsOf({ headers }: Response): FileFacts {
  const total = headers.get("content-range")?.split("/").pop() ?? headers.get("content-length");
  return {
    size: Number(total ?? 0),
    type: headers.get("content-type") ?? "",
    etag: headers.get("etag") ?? "",
    metadata: [...headers]
      .filter(([name]) => name.startsWith(META))
      .map(([name, value]) => [name.slice(META.length), value] as const),
  };
}

const META = "x-amz-meta-";

interface Put {
  readonly key: string;
  readonly body: Blob;
  readonly signal: AbortSignal;
}

export async function putFile(gateway: Gateway, bucket: string, { key, body, signal }: Put): Promise<void> {
  await gateway.send(targetOf(bucket, key), { method: "PUT", body, headers: typeHeader(body), signal });
}

/** Begins an upload in parts; returns its id. */
export async function beginParts(
  gateway: Gateway,
  bucket: string,
  { key, body, signal }: Put,
): Promise<string> {
  const target = targetOf(bucket, key) + queryOf({ uploads: "" });
  const answer = await gateway.send(target, { method: "POST", headers: typeHeader(body), signal });
  return textIn(await xmlOf(answer), "UploadId");
}

/** The type that the browser knows of a file; without one the gateway goes by the name. */
function typeHeader({ type }: Blob): Record<string, string> {
  return type === "" ? {} : { "content-type": type };
}

/** Puts one part; returns its ETag. */
export async function putPart(
  gateway: Gateway,
  bucket: string,
  { key, body, signal, upload, number }: Put & { readonly upload: string; readonly number: number },
): Promise<string> {
  const target = targetOf(bucket, key) + queryOf({ partNumber: number, uploadId: upload });
  const answer = await gateway.send(target, { method: "PUT", body, signal });
  return answer.headers.get("etag") ?? "";
}

export async function completeParts(
  gateway: Gateway,
  bucket: string,
  {
    key,
    upload,
    etags,
    signal,
  }: {
    readonly key: string;
    readonly upload: string;
    /** By the numbers of the parts, from 1 on. */
    readonly etags: readonly string[];
    readonly signal: AbortSignal;
  },
): Promise<void> {
  const parts = etags.map(
    (etag, index) => `<Part><PartNumber>${index + 1}</PartNumber><ETag>${etag}</ETag></Part>`,
  );
  const body = `<CompleteMultipartUpload>${parts.join("")}</CompleteMultipartUpload>`;
  const target = targetOf(bucket, key) + queryOf({ uploadId: upload });
  const answer = await gateway.send(target, { method: "POST", body, signal });
  // If it takes long, the answer begins before its end is known, and an error is inside.
  const root = await xmlOf(answer);
  if (root.localName !== "Error") return;
  throw new GatewayError(textIn(root, "Message"), { status: 500, code: textIn(root, "Code") });
}

export async function createBucket(gateway: Gateway, place: Place): Promise<void> {
  await gateway.send(targetOf(bucketOf(place)), { method: "PUT" });
}

/** What goes with time: files and uploads of a prefix, and how long commits are kept. */
export interface LifecycleRule {
  readonly id: string;
  readonly isEnabled: boolean;
  /** "": it is about all. */
  readonly prefix: string;
  /** Files go so many days after they were written, or from a date of ISO 8601 on. */
  readonly days: number | undefined;
  readonly date: string | undefined;
  /** Which tags a file has that it is about; none: it is about all below the prefix. */
  readonly tags: readonly (readonly [key: string, value: string])[];
  /** Uploads in parts go so many days after they began. */
  readonly abortDays: number | undefined;
  /** What was replaced stays in the history for so many days. */
  readonly noncurrentDays: number | undefined;
}

/** What pages of other origins may do. */
export interface CorsRule {
  readonly origins: readonly string[];
  readonly methods: readonly string[];
  readonly headers: readonly string[];
  readonly exposed: readonly string[];
  readonly maxAgeSeconds: number | undefined;
}

/** Rules of a bucket, by what stands in the query for them. */
export interface RuleKind {
  readonly lifecycle: LifecycleRule;
  readonly cors: CorsRule;
}

const RULES: { readonly [K in keyof RuleKind]: { tag: string; read(rule: Element): RuleKind[K] } } = {
  lifecycle: { tag: "Rule", read: lifecycleRule },
  cors: { tag: "CORSRule", read: corsRule },
};

/** The rules that are set; none if there is no configuration. */
export async function readRules<K extends keyof RuleKind>(
  gateway: Gateway,
  place: Place,
  { kind, signal }: { readonly kind: K; readonly signal: AbortSignal },
): Promise<readonly RuleKind[K][]> {
  const { tag, read } = RULES[kind];
  try {
    const answer = await gateway.send(targetOf(bucketOf(place)) + queryOf({ [kind]: "" }), { signal });
    return childrenOf(await xmlOf(answer), tag).map(read);
  } catch (error) {
    if (error instanceof GatewayError && NOT_SET.has(error.code)) return [];
    throw error;
  }
}

const NOT_SET: ReadonlySet<string> = new Set(["NoSuchLifecycleConfiguration", "NoSuchCORSConfiguration"]);

/** Takes all rules of a kind away. */
export async function deleteRules(gateway: Gateway, place: Place, kind: keyof RuleKind): Promise<void> {
  await gateway.send(targetOf(bucketOf(place)) + queryOf({ [kind]: "" }), { method: "DELETE" });
}

function lifecycleRule(rule: Element): LifecycleRule {
  const [filter] = childrenOf(rule, "Filter");
  const [and] = filter ? childrenOf(filter, "And") : [];
  const about = and ?? filter ?? rule;
  const within = (action: string, name: string): string | undefined => {
    const [element] = childrenOf(rule, action);
    return (element && textIn(element, name)) || undefined;
  };
  const daysOf = (action: string, name: string): number | undefined => {
    const text = within(action, name);
    return text === undefined ? undefined : Number(text);
  };
  return {
    id: textIn(rule, "ID"),
    isEnabled: textIn(rule, "Status") === "Enabled",
    prefix: textIn(about, "Prefix"),
    tags: tagsIn(about),
    days: daysOf("Expiration", "Days"),
    date: within("Expiration", "Date"),
    abortDays: daysOf("AbortIncompleteMultipartUpload", "DaysAfterInitiation"),
    noncurrentDays: daysOf("NoncurrentVersionExpiration", "NoncurrentDays"),
  };
}

function tagsIn(element: Element): (readonly [key: string, value: string])[] {
  return childrenOf(element, "Tag").map((tag) => [textIn(tag, "Key"), textIn(tag, "Value")]);
}

function corsRule(rule: Element): CorsRule {
  const texts = (name: string): string[] =>
    childrenOf(rule, name).map(({ textContent }) => textContent ?? "");
  const [age] = texts("MaxAgeSeconds");
  return {
    origins: texts("AllowedOrigin"),
    methods: texts("AllowedMethod"),
    headers: texts("AllowedHeader"),
    exposed: texts("ExposeHeader"),
    maxAgeSeconds: age === undefined ? undefined : Number(age),
  };
}

async function xmlOf(answer: Response): Promise<Element> {
  const text = (await answer.text()).trim();
  return new DOMParser().parseFromString(text, "application/xml").documentElement;
}

function childrenOf(element: Element, name: string): Element[] {
  return [...element.children].filter(({ localName }) => localName === name);
}

function textIn(element: Element, name: string): string {
  return childrenOf(element, name)[0]?.textContent ?? "";
}

function keyIn(element: Element, name: string): string {
  return decodeURIComponent(textIn(element, name));
}

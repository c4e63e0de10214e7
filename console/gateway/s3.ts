import { encodePath, GatewayError, queryOf } from "../../protocol/requests.ts";
import type { Ask, Gateway } from "./gateway.ts";

/*
 * What the console asks of the S3 API: files and their versions, and writes into open commits. Answers in XML are
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

/** What one commit wrote at a path, or its deletion there. */
export interface Version {
  /** The commit. */
  readonly id: string;
  readonly isDeletion: boolean;
  /** Milliseconds since 1970. */
  readonly at: number;
  readonly size: number;
}

/** Versions of a key, the newest first. */
export interface Versions {
  readonly versions: readonly Version[];
  /** Older ones are there, too. */
  readonly more: boolean;
}

const PAGE_VERSIONS = 100;
const VERSION_TAGS: ReadonlySet<string> = new Set(["Version", "DeleteMarker"]);

type Pairs = readonly (readonly [name: string, value: string])[];

/** A file with its first bytes, and what is kept beside them. */
export interface FileStart {
  readonly size: number;
  readonly type: string;
  readonly etag: string;
  readonly metadata: Pairs;
  readonly tags: Pairs;
  /** As they are stored: if a Content-Encoding is kept with them, they are still encoded. */
  readonly bytes: Uint8Array<ArrayBuffer>;
}

/** Bytes are answered as they are stored: a part of what is encoded can't be decoded by the browser. */
const AS_STORED = { "response-content-encoding": "identity" };
const META = "x-amz-meta-";

interface BucketAsk extends Ask {
  /** Absent: it is about the bucket. */
  readonly key?: string;
}

interface Put {
  readonly body: Blob;
  readonly signal: AbortSignal;
}

/** A bucket: a branch as it is or was, or an open commit. */
export class Bucket {
  readonly #gateway: Gateway;
  readonly #name: string;

  constructor(gateway: Gateway, place: Place | string) {
    this.#gateway = gateway;
    this.#name = typeof place === "string" ? place : bucketOf(place);
  }

  async #send({ key, query, ...ask }: BucketAsk): Promise<Response> {
    const path = key === undefined ? this.#name : `${this.#name}/${key}`;
    return await this.#gateway.send(`/${encodePath(path)}${queryOf(query)}`, ask);
  }

  async #xml(ask: BucketAsk): Promise<Element> {
    const text = (await (await this.#send(ask)).text()).trim();
    return new DOMParser().parseFromString(text, "application/xml").documentElement;
  }

  async create(): Promise<void> {
    await this.#send({ method: "PUT" });
  }

  /** The newest versions of a key. */
  async versions(key: string, signal: AbortSignal): Promise<Versions> {
    const query = { versions: "", prefix: key, "encoding-type": "url", "max-keys": PAGE_VERSIONS };
    const root = await this.#xml({ query, signal });
    const entries = [...root.children].filter(({ localName }) => VERSION_TAGS.has(localName));
    // The key itself comes before all others that begin with it.
    const own = entries.filter((entry) => keyIn(entry, "Key") === key);
    return {
      versions: own.map((entry) => ({
        id: textIn(entry, "VersionId"),
        isDeletion: entry.localName === "DeleteMarker",
        at: Date.parse(textIn(entry, "LastModified")),
        size: Number(textIn(entry, "Size")),
      })),
      more: own.length === entries.length && textIn(root, "IsTruncated") === "true",
    };
  }

  /** A file with its first `most` bytes, or all if there are fewer. */
  async start(key: string, { most, signal }: { most: number; signal: AbortSignal }): Promise<FileStart> {
    const ask = { key, query: AS_STORED, signal };
    const range = { range: `bytes=0-${most - 1}` };
    const answer = await this.#send({ ...ask, headers: range }).catch((error: unknown) => {
      // No range is satisfied by an empty file.
      if (!(error instanceof GatewayError) || error.status !== 416) throw error;
      return this.#send({ ...ask, method: "HEAD" });
    });
    const bytes = new Uint8Array(await answer.arrayBuffer());
    const { headers } = answer;
    const tagged =
      headers.has("x-amz-tagging-count") && (await this.#xml({ key, query: { tagging: "" }, signal }));
    const total = headers.get("content-range")?.split("/").pop() ?? headers.get("content-length");
    return {
      size: Number(total ?? 0),
      type: headers.get("content-type") ?? "",
      etag: headers.get("etag") ?? "",
      metadata: [...headers]
        .filter(([name]) => name.startsWith(META))
        .map(([name, value]) => [name.slice(META.length), value] as const),
      tags: tagged ? tagsIn(childIn(tagged, "TagSet")) : [],
      bytes,
    };
  }

  /** Some bytes of a file, which is still the one that has this ETag. */
  async part(
    key: string,
    { start, end, etag, signal }: { start: number; end: number; etag: string; signal: AbortSignal },
  ): Promise<Uint8Array<ArrayBuffer>> {
    const headers = { range: `bytes=${start}-${end - 1}`, "if-match": etag };
    const answer = await this.#send({ key, query: AS_STORED, headers, signal });
    return new Uint8Array(await answer.arrayBuffer());
  }

  /** All bytes of a file, as a stream. */
  async read(key: string, signal: AbortSignal): Promise<ReadableStream<Uint8Array<ArrayBuffer>>> {
    const answer = await this.#send({ key, query: AS_STORED, signal });
    return answer.body ?? new Blob().stream();
  }

  async put(key: string, { body, signal }: Put): Promise<void> {
    await this.#send({ key, method: "PUT", body, headers: typeHeader(body), signal });
  }

  /** Begins an upload in parts; returns its id. */
  async beginParts(key: string, { body, signal }: Put): Promise<string> {
    const ask = { key, method: "POST", query: { uploads: "" }, headers: typeHeader(body), signal } as const;
    return textIn(await this.#xml(ask), "UploadId");
  }

  /** Puts one part; returns its ETag. */
  async putPart(key: string, { body, signal, ...part }: Put & { uploadId: string; partNumber: number }) {
    const answer = await this.#send({ key, method: "PUT", query: part, body, signal });
    return answer.headers.get("etag") ?? "";
  }

  /** `etags`: by the numbers of the parts, from 1 on. */
  async completeParts(
    key: string,
    { uploadId, etags, signal }: { uploadId: string; etags: readonly string[]; signal: AbortSignal },
  ): Promise<void> {
    const parts = etags.map(
      (etag, index) => `<Part><PartNumber>${index + 1}</PartNumber><ETag>${etag}</ETag></Part>`,
    );
    const body = `<CompleteMultipartUpload>${parts.join("")}</CompleteMultipartUpload>`;
    const root = await this.#xml({ key, method: "POST", query: { uploadId }, body, signal });
    // If it takes long, the answer begins before its end is known, and an error is inside.
    if (root.localName !== "Error") return;
    throw new GatewayError(textIn(root, "Message"), { status: 500, code: textIn(root, "Code") });
  }

  /** The rules of a kind that are set; none if there is no configuration. */
  async rules<K extends keyof RuleKind>(kind: K, signal: AbortSignal): Promise<readonly RuleKind[K][]> {
    const { tag, read } = RULES[kind];
    try {
      return childrenOf(await this.#xml({ query: { [kind]: "" }, signal }), tag).map(read);
    } catch (error) {
      if (error instanceof GatewayError && NOT_SET.has(error.code)) return [];
      throw error;
    }
  }

  /** Takes all rules of a kind away. */
  async deleteRules(kind: keyof RuleKind): Promise<void> {
    await this.#send({ method: "DELETE", query: { [kind]: "" } });
  }
}

/** The type that the browser knows of a file; without one the gateway goes by the name. */
function typeHeader({ type }: Blob): Record<string, string> {
  return type === "" ? {} : { "content-type": type };
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
  readonly tags: Pairs;
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
const NOT_SET: ReadonlySet<string> = new Set(["NoSuchLifecycleConfiguration", "NoSuchCORSConfiguration"]);

function lifecycleRule(rule: Element): LifecycleRule {
  const about = childIn(rule, "Filter", "And") ?? childIn(rule, "Filter") ?? rule;
  return {
    id: textIn(rule, "ID"),
    isEnabled: textIn(rule, "Status") === "Enabled",
    prefix: textIn(about, "Prefix"),
    tags: tagsIn(about),
    days: numberIn(rule, "Expiration", "Days"),
    date: textIn(rule, "Expiration", "Date") || undefined,
    abortDays: numberIn(rule, "AbortIncompleteMultipartUpload", "DaysAfterInitiation"),
    noncurrentDays: numberIn(rule, "NoncurrentVersionExpiration", "NoncurrentDays"),
  };
}

function corsRule(rule: Element): CorsRule {
  const texts = (name: string): string[] =>
    childrenOf(rule, name).map(({ textContent }) => textContent ?? "");
  return {
    origins: texts("AllowedOrigin"),
    methods: texts("AllowedMethod"),
    headers: texts("AllowedHeader"),
    exposed: texts("ExposeHeader"),
    maxAgeSeconds: numberIn(rule, "MaxAgeSeconds"),
  };
}

function tagsIn(element: Element | undefined): Pairs {
  return childrenOf(element, "Tag").map((tag) => [textIn(tag, "Key"), textIn(tag, "Value")]);
}

function childrenOf(element: Element | undefined, name: string): Element[] {
  return [...(element?.children ?? [])].filter(({ localName }) => localName === name);
}

/** The first element on the way of these names. */
function childIn(element: Element, ...names: readonly string[]): Element | undefined {
  return names.reduce<Element | undefined>((inside, name) => childrenOf(inside, name)[0], element);
}

function textIn(element: Element, ...names: readonly string[]): string {
  return childIn(element, ...names)?.textContent ?? "";
}

function numberIn(element: Element, ...names: readonly string[]): number | undefined {
  const text = textIn(element, ...names);
  return text === "" ? undefined : Number(text);
}

function keyIn(element: Element, name: string): string {
  return decodeURIComponent(textIn(element, name));
}

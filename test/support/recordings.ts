import { createHash, createHmac } from "node:crypto";
import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { AwsV4Signer } from "aws4fetch";
import { type Answer, exchange } from "./http.ts";
import type { Door } from "./keys.ts";

/**
 * What clients sent that are not installed where the tests run, and what they were answered: `scripts/recordings.ts`
 * writes it down, and a test sends it again. Signatures are made anew. Ids that a gateway chooses (of commits, uploads and
 * pages) stand there by names, `{{version-1}}`, and are learned from the answers again.
 */
export interface Recording {
  /** The client and its version. */
  readonly client: string;
  readonly exchanges: readonly RecordedExchange[];
}

export interface RecordedExchange {
  readonly method: string;
  /** As it went over the wire, without what signs it. */
  readonly target: string;
  /** Those that say something to a gateway, in lower case; the hashes of the body are the word `body`. */
  readonly headers: Readonly<Record<string, string>>;
  readonly body?: RecordedBody;
  /** Told no length of its body. */
  readonly lengthless?: boolean;
  /** Signed by its query, as links are. */
  readonly link?: boolean;
  readonly answer: RecordedAnswer;
}

/** Text, or runs of one letter each with their lengths in bytes; in chunks of so many bytes if it was sent as `aws-chunked`. */
export interface RecordedBody {
  readonly text?: string;
  readonly runs?: readonly (readonly [letter: string, bytes: number])[];
  readonly chunkBytes?: number;
  /** `name:value`, each, behind the chunks. */
  readonly trailers?: readonly string[];
}

export interface RecordedAnswer {
  readonly status: number;
  readonly headers: Readonly<Record<string, string>>;
  /** Of an error. */
  readonly code?: string;
  /** Each key and prefix that it lists, in its order. */
  readonly keys?: readonly string[];
  /** The names of the ids in it, in their order. */
  readonly ids?: readonly string[];
}

const FOLDER = join(import.meta.dirname, "../fixtures/recordings");

/** Every recording that there is, by the name of its file. */
export function recordings(): { readonly name: string; readonly recording: Recording }[] {
  return readdirSync(FOLDER)
    .sort()
    .map((file) => ({
      name: file.replace(/\.json$/, ""),
      recording: JSON.parse(readFileSync(join(FOLDER, file), "utf8")),
    }));
}

/** The file of a recording. */
export function recordingFile(name: string): string {
  return join(FOLDER, `${name}.json`);
}

const VERSION_HEADERS = ["x-amz-version-id", "x-amz-copy-source-version-id"];

/** The ids that a gateway chose and that an answer tells: of versions, uploads, and where the next page begins. */
export function idsIn({ headers, text }: Pick<Answer, "headers" | "text">): string[] {
  const elements =
    /<(?:UploadId|VersionId|DeleteMarkerVersionId|NextVersionIdMarker|NextContinuationToken|NextUploadIdMarker)>([^<]+)</g;
  const found = isXml(headers) ? [...text.matchAll(elements)].map(([, id]) => id ?? "") : [];
  return [...new Set([...VERSION_HEADERS.flatMap((name) => headers[name] ?? []), ...found])];
}

/** What is written down of an answer, whose ids have these names. */
export function answerOf(
  { status, headers, text }: Answer,
  nameOf: (id: string) => string,
  { listsAll }: { readonly listsAll: boolean },
): RecordedAnswer {
  const kept = Object.entries(headers).filter(([name]) =>
    /^(etag|content-(type|range)|x-amz-.*)$/.test(name),
  );
  const named = kept
    .filter(([name]) => !["x-amz-request-id", "x-amz-id-2"].includes(name))
    .map(([name, value]) => [name, VERSION_HEADERS.includes(name) ? nameOf(value) : value]);
  const code = isXml(headers) && status >= 300 ? /<Code>([^<]+)</.exec(text)?.[1] : undefined;
  const listed = isXml(headers) && status < 300 ? [...text.matchAll(/<(?:Key|Prefix|Name)>([^<]*)</g)] : [];
  const keys = listsAll ? [] : listed.map(([, key]) => key ?? "").filter((key) => key !== "");
  const ids = idsIn({ headers, text }).map(nameOf);
  return {
    status,
    headers: Object.fromEntries(named.sort()),
    ...(code === undefined ? {} : { code }),
    ...(keys.length === 0 ? {} : { keys }),
    ...(ids.length === 0 ? {} : { ids }),
  };
}

function isXml(headers: Answer["headers"]): boolean {
  return headers["content-type"]?.startsWith("application/xml") ?? false;
}

/** Whether a request asks for the list of all buckets, which other recordings have a part in. */
export function listsAllBuckets({ method, target }: { method: string; target: string }): boolean {
  return method === "GET" && /^\/(\?|$)/.test(target);
}

/** Sends a recording again, request after request, and answers what each was answered, beside what was recorded. */
export async function* replay(
  door: Door,
  { exchanges }: Recording,
): AsyncGenerator<{
  readonly asked: string;
  readonly recorded: RecordedAnswer;
  readonly answered: RecordedAnswer;
}> {
  const known = new Map<string, string>();
  const names = new Map<string, string>();
  const learn = (id: string, name: string): void => {
    known.set(name, id);
    names.set(id, name);
  };
  const filled = (text: string): string =>
    text.replace(/\{\{([a-z]+-\d+)\}\}/g, (_, name) => known.get(name) ?? `no-${name}`);
  for (const recorded of exchanges) {
    const target = filled(recorded.target);
    const answer = await send(door, { ...recorded, target }, filled);
    for (const [n, id] of idsIn(answer).entries()) {
      const name = recorded.answer.ids?.[n];
      if (name !== undefined && !names.has(id)) learn(id, name);
    }
    const nameOf = (id: string): string => names.get(id) ?? "an id of its own";
    yield {
      asked: `${recorded.method} ${recorded.target}`,
      recorded: recorded.answer,
      answered: answerOf(answer, nameOf, { listsAll: listsAllBuckets(recorded) }),
    };
  }
}

async function send(
  door: Door,
  { method, target, headers, body, link, lengthless = false }: RecordedExchange,
  filled: (text: string) => string,
): Promise<Answer> {
  const bytes = body && bytesOf(body, filled);
  const sent = Object.fromEntries(Object.entries(headers).map(([name, value]) => [name, filled(value)]));
  for (const [name, hash] of Object.entries(BODY_HASHES))
    if (sent[name] === "body") sent[name] = hash(bytes ?? Buffer.alloc(0));
  const [path = "", query] = target.split("?");
  // The signer takes a plus sign of a path for a space.
  const canonical = path.replaceAll("+", "%2B") + (query === undefined ? "" : `?${query}`);
  const signer = new AwsV4Signer({
    method,
    url: `${door.endpoint}${canonical}`,
    headers: sent,
    accessKeyId: door.accessKeyId,
    secretAccessKey: door.secretAccessKey,
    service: "s3",
    region: "us-east-1",
    signQuery: link ?? false,
  });
  const signed = await signer.sign();
  if (link) {
    const asked = `${path}${signed.url.search}`;
    return exchange(door.endpoint, { method, target: asked, headers: sent, ...(bytes && { body: bytes }) });
  }
  const all = Object.fromEntries(signed.headers);
  const framed =
    bytes && (body?.chunkBytes === undefined ? bytes : inChunks(bytes, body, { door, headers: all }));
  return exchange(door.endpoint, {
    method,
    target,
    headers: all,
    lengthless,
    ...(framed && { body: framed }),
  });
}

/** The headers that hold a hash of the body. */
export const BODY_HASHES: Readonly<Record<string, (body: Buffer) => string>> = {
  "x-amz-content-sha256": sha256,
  "content-md5": (body) => createHash("md5").update(body).digest("base64"),
};

function bytesOf({ text, runs = [] }: RecordedBody, filled: (text: string) => string): Buffer {
  if (text !== undefined) return Buffer.from(filled(text));
  return Buffer.concat(runs.map(([letter, bytes]) => Buffer.alloc(bytes, letter)));
}

/** "Signature Calculations for the Authorization Header: Transferring Payload in Multiple Chunks", with trailers or without. */
function inChunks(
  bytes: Buffer,
  { chunkBytes = 0, trailers = [] }: RecordedBody,
  { door, headers }: { readonly door: Door; readonly headers: Readonly<Record<string, string>> },
): Buffer {
  const claim = /Credential=[^/]+\/([^,]+).*Signature=([0-9a-f]{64})/.exec(headers.authorization ?? "");
  const [, scope = "", seed = ""] = claim ?? [];
  const key = scope
    .split("/")
    .reduce<Buffer | string>((last, word) => hmac(last, word), `AWS4${door.secretAccessKey}`);
  const signs = !headers["x-amz-content-sha256"]?.startsWith("STREAMING-UNSIGNED");
  let before = seed;
  const signature = (what: "PAYLOAD" | "TRAILER", ...hashes: string[]): string => {
    const words = [`AWS4-HMAC-SHA256-${what}`, headers["x-amz-date"], scope, before, ...hashes];
    before = hmac(key, words.join("\n")).toString("hex");
    return before;
  };
  const pieces: (Buffer | string)[] = [];
  for (let at = 0; ; at += chunkBytes) {
    const chunk = bytes.subarray(at, at + chunkBytes);
    const signed = signs ? `;chunk-signature=${signature("PAYLOAD", sha256(""), sha256(chunk))}` : "";
    pieces.push(`${chunk.length.toString(16)}${signed}\r\n`);
    if (chunk.length === 0) break;
    pieces.push(chunk, "\r\n");
  }
  for (const trailer of trailers) pieces.push(`${trailer}\r\n`);
  if (signs && trailers.length > 0) {
    const hash = sha256(trailers.map((trailer) => `${trailer}\n`).join(""));
    pieces.push(`x-amz-trailer-signature:${signature("TRAILER", hash)}\r\n`);
  }
  pieces.push("\r\n");
  return Buffer.concat(pieces.map((piece) => Buffer.from(piece)));
}

function sha256(bytes: Buffer | string): string {
  return createHash("sha256").update(bytes).digest("hex");
}

function hmac(key: Buffer | string, text: string): Buffer {
  return createHmac("sha256", key).update(text).digest();
}

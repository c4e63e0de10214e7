import { bucketName, viewBucket } from "../../../protocol/names.ts";
import { blobsNear } from "../../app.ts";
import type { ByteRange } from "../../blobs/port.ts";
import { readContent } from "../../blobs/read/read-content.ts";
import type { FileRead, PartLayout } from "../../branch/contract/files.ts";
import type { NearFile } from "../../near-files.ts";
import type { RequestEvent } from "../../request-log.ts";
import { type S3Error, s3Error } from "../answer/errors.ts";
import { accepted } from "../answer/failures.ts";
import { checksumHeader, etag, httpDate, readVersionHeader } from "../answer/fields.ts";
import type { ObjectRequest, Operation } from "../operation.ts";
import { evaluateConditions, hasConditions, rangeApplies } from "../request/conditions.ts";
import { partNumberOf, versionId } from "../request/query-values.ts";
import { contentRange, parseRange } from "../request/range.ts";
import { setAttributeHeaders, setOverrides } from "./attributes.ts";
import { tagsHeader } from "./tag-set.ts";

/** The bytes of a file, or a range or a part of them. */
export const getObject: Operation<ObjectRequest> = {
  permission: "read",
  tellsEncryption: true,
  unsigned: true,
  readsAhead: true,

  async handle(request) {
    const early = openEarly(request);
    try {
      const { status, headers, file, range } = await selectObject(request);
      if (status === 304) return new Response(null, { status, headers });
      const { context, address } = request;
      context.event.bytesOut = range.length;
      const body = (await early?.take(file, range)) ?? (await openBytes({ context, address, file, range }));
      // The platform would compress bytes that a Content-Encoding says are compressed already.
      return new Response(body, { status, headers, encodeBody: "manual" });
    } finally {
      early?.close();
    }
  },
};

type Bytes = Awaited<ReturnType<typeof readContent>>;

interface OpenBytes extends Pick<ObjectRequest, "context" | "address"> {
  readonly file: FileRead;
  readonly range: ByteRange;
}

function openBytes({ context, address, file: { body, size }, range }: OpenBytes): Promise<Bytes> {
  return readContent(blobsNear(context), { body, size, range, hold: context.hold(address) });
}

/** Bytes that are opened before it is known whether they are what is asked for. */
interface EarlyBytes {
  /** The bytes, if they are those of the file; undefined if not, or if they could not be opened. */
  take(file: FileRead, range: ByteRange): Promise<Bytes | undefined>;
  /** Gives up what was not taken. */
  close(): void;
}

/** Opens what lies near the reader of the file that was there last, while the branch is asked whether it is still there. */
function openEarly(request: ObjectRequest): EarlyBytes | undefined {
  const { address, headers, query } = request;
  const { nearFiles, blobCache } = request.context;
  if (!nearFiles || !blobCache || query.has("partNumber") || hasConditions(headers)) return undefined;
  const near = nearOf(request, versionId(query));
  const file = near && nearFiles.last(near);
  if (!file || file.body.kind === "inline") return undefined;
  const asked = parseRange(headers.get("range"), file.size);
  if (asked === "unsatisfiable") return undefined;
  const range = asked ?? { offset: 0, length: file.size };
  const context = { ...request.context, event: {} as RequestEvent };
  const opening = openBytes({ context, address, file, range });
  // If they are the ones, they are opened once more, and whoever reads hears why they can't be.
  let bytes: Promise<Bytes | undefined> | undefined = opening.catch(() => undefined);
  return {
    async take(now, { offset, length }) {
      const isSame = isSameBody(now.body, file.body) && offset === range.offset && length === range.length;
      if (!isSame) return undefined;
      const taken = bytes;
      bytes = undefined;
      const opened = await taken;
      if (opened) Object.assign(request.context.event, context.event);
      return opened;
    },
    close() {
      const cancel = async () => {
        const unread = await bytes;
        if (unread instanceof ReadableStream) await unread.cancel();
      };
      cancel().catch(() => {});
    },
  };
}

/** Names of blobs are never used twice: what is in equal lists of them is equal. */
function isSameBody(one: FileRead["body"], other: FileRead["body"]): boolean {
  return one === other || JSON.stringify(one) === JSON.stringify(other);
}

/** What GET would answer, without the bytes. */
export const headObject: Operation<ObjectRequest> = {
  permission: "read",
  tellsEncryption: true,
  unsigned: true,
  readsAhead: true,

  async handle(request) {
    const { status, headers, range } = await selectObject(request);
    if (status !== 304) headers["content-length"] = String(range.length);
    return new Response(null, { status, headers, encodeBody: "manual" });
  },
};

/** The answer of both GET and HEAD: everything but the bytes. */
interface Selected {
  readonly status: 200 | 206 | 304;
  /** Made for this answer: the caller may add to them. */
  readonly headers: Record<string, string>;
  readonly file: FileRead;
  readonly range: ByteRange;
}

/** Which bytes of a file are asked for. */
interface Selection {
  readonly range: ByteRange;
  readonly status: 200 | 206;
  /** Set if one part was asked for, of an object that was put together from parts. */
  readonly part?: { readonly number: number; readonly layout: PartLayout };
}

/** Finds a file at HEAD or at `versionId`, and applies the request's conditions, and its range or part, to it. */
async function selectObject(request: ObjectRequest): Promise<Selected> {
  const { headers, query } = request;
  const part = query.has("partNumber") ? partNumberOf(query) : undefined;
  if (part !== undefined && headers.has("range"))
    throw s3Error.InvalidRequest("Range and partNumber cannot both be asked for: leave one of them out.");
  const commit = versionId(query);
  const shared = sharedFile(request, commit);
  const { file, ageMs } = shared ? { file: shared, ageMs: 0 } : await nearFile(request, commit);
  const answered = describeVersion(file, request);
  // Whoever lets its reads be old hears of each how old it may be.
  if (file.near) answered["x-sluice-age"] = String(Math.ceil(ageMs / 1000));
  const validators = { etag: etag(file), modifiedAt: file.modifiedAt };
  const verdict = evaluateConditions(headers, validators);
  if (verdict === "precondition-failed") throw preconditionFailed();
  if (verdict === "not-modified") return notModified(answered, file);
  const range = rangeApplies(headers, validators) ? headers.get("range") : undefined;
  const selection = part === undefined ? selectRange(file, range) : selectPart(file, part);
  describeFile(answered, { file, request });
  describeSelection(answered, { selection, file, request });
  return { status: selection.status, headers: answered, file, range: selection.range };
}

/** What memory has of the newest state, so that the branch need not be asked. Throws NoSuchKey if it has that nothing is there. */
function sharedFile({ tree, key, context }: ObjectRequest, commit: string | undefined): FileRead | undefined {
  const { config, event } = context;
  const shared =
    commit === undefined ? tree.shared?.read({ path: key, modified: config.lastModified }) : undefined;
  event.read = shared ? "memory" : "call";
  return shared && accepted(shared);
}

/** The file at the request's key, asked of the branch as far as nothing that is kept near the reader answers for it. */
async function nearFile(
  request: ObjectRequest,
  commit: string | undefined,
): Promise<{ readonly file: FileRead; readonly ageMs: number }> {
  const { tree, context, now, headers } = request;
  const near = nearOf(request, commit);
  if (!near || !context.nearFiles) return { file: await readVersion(request, commit), ageMs: 0 };
  const { path, modified } = near;
  const ask = (have: string | null) =>
    tree.readAgain({ path, modified, ...(commit !== undefined && { commit }), have });
  const mayBeOld = !hasConditions(headers);
  const { answer, by, ageMs } = await context.nearFiles.read(near, { ask, now, mayBeOld });
  context.event.read = by;
  return { file: accepted(answer), ageMs };
}

/** Which file it is that may be kept; undefined: nothing is for somebody who has no key. */
function nearOf(
  { caller, address: { view, ...branch }, key: path, context }: ObjectRequest,
  commit: string | undefined,
): NearFile | undefined {
  if (caller.keyId === "") return undefined;
  const bucket = view === undefined ? bucketName(branch) : viewBucket({ ...branch, view });
  return { bucket, path, commit, modified: context.config.lastModified };
}

/** The file at the request's key, at HEAD or at a commit. */
export async function readVersion(
  { tree, key, context }: Pick<ObjectRequest, "tree" | "key" | "context">,
  commit: string | undefined,
): Promise<FileRead> {
  const modified = context.config.lastModified;
  const asked = { path: key, modified, ...(commit !== undefined && { commit }) };
  return accepted(await tree.read(asked));
}

/** The headers of every answer about a file, also of a 304. */
function describeVersion(
  file: FileRead,
  request: Pick<ObjectRequest, "address" | "besideApi">,
): Record<string, string> {
  return {
    etag: etag(file),
    "last-modified": httpDate(file.modifiedAt),
    ...readVersionHeader(request, file),
    ...(request.besideApi && SANDBOX),
  };
}

/** A page of HTML that somebody stored runs no script under a host that has more than this bucket. */
const SANDBOX = { "x-content-type-options": "nosniff", "content-security-policy": "sandbox" };

/** A 304 repeats the headers that caches go by (RFC 9110 §15.4.5). */
function notModified(headers: Record<string, string>, file: FileRead): Selected {
  const { cacheControl, expires } = file.attributes;
  if (cacheControl !== undefined) headers["cache-control"] = cacheControl;
  if (expires !== undefined) headers.expires = expires;
  return { status: 304, headers, file, range: { offset: 0, length: 0 } };
}

function describeFile(
  headers: Record<string, string>,
  { file, request }: { file: FileRead; request: ObjectRequest },
): void {
  headers["accept-ranges"] = "bytes";
  // A proxy that compresses would take Content-Length away. If it sees an encoding, it leaves the bytes alone.
  if (request.compressingProxy) headers["content-encoding"] = "identity";
  setAttributeHeaders(headers, { attributes: file.attributes, key: request.key });
  const { tags } = file.attributes;
  const asksForTags = request.headers.has("x-amz-tagging-directive");
  // As on S3, told to those alone who may read the tags.
  if (tags && request.caller.keyId !== "") {
    headers["x-amz-tagging-count"] = String(tags.length);
    if (asksForTags) headers["x-amz-tagging"] = tagsHeader(tags);
  }
  setOverrides(headers, request.query);
}

function describeSelection(
  headers: Record<string, string>,
  { selection, file, request }: { selection: Selection; file: FileRead; request: ObjectRequest },
): void {
  const { range, part, status } = selection;
  if (status === 206) headers["content-range"] = contentRange(range, file.size);
  if (part) headers["x-amz-mp-parts-count"] = String(partCount(part.layout));
  const { checksum } = file.attributes;
  if (!checksum || request.headers.get("x-amz-checksum-mode")?.toUpperCase() !== "ENABLED") return;
  // The checksum must be that of the bytes that come: a range has none, a part has its own.
  const value = part ? part.layout.checksums?.[part.number - 1] : checksum.value;
  if (value === undefined || range.length !== (part ? range.length : file.size)) return;
  headers[checksumHeader(checksum.algorithm)] = value;
  headers["x-amz-checksum-type"] = checksum.type;
}

function selectRange({ size }: FileRead, header: string | undefined): Selection {
  const range = parseRange(header, size);
  if (range === "unsatisfiable")
    throw s3Error.InvalidRange(`The range lies outside of the object, which has ${size} bytes.`, {
      headers: { "content-range": `bytes */${size}` },
      form: "short",
      more: { ActualObjectSize: size },
    });
  return range === null ? { range: { offset: 0, length: size }, status: 200 } : { range, status: 206 };
}

/** An object that was not put together from parts is its own first part. An empty part is a 200: Content-Range cannot name no bytes. */
function selectPart({ size, attributes }: FileRead, number: number): Selection {
  const layout = attributes.parts;
  const whole = number === 1 ? { offset: 0, length: size } : undefined;
  const range = layout ? partRange(layout, number) : whole;
  if (!range) throw invalidPartNumber(number, layout ? partCount(layout) : 1);
  const status = range.length === 0 ? 200 : 206;
  return layout ? { range, status, part: { number, layout } } : { range, status };
}

/** Plain text, not XML: such is the contract of conditions. */
function preconditionFailed(): S3Error {
  return s3Error.PreconditionFailed("If-Match or If-Unmodified-Since does not hold for this object.", {
    form: "text",
  });
}

function invalidPartNumber(number: number, count: number): S3Error {
  return s3Error.InvalidPartNumber(
    `partNumber is ${number}, but the object has ${count === 1 ? "one part" : `${count} parts`}.`,
    { form: "short" },
  );
}

/** How many parts an object was put together from. */
export function partCount({ sizes }: PartLayout): number {
  return sizes.reduce((count, [, parts]) => count + parts, 0);
}

/** The place of a part in its object. Numbers begin at 1. Returns undefined if the object has no such part. */
function partRange({ sizes }: PartLayout, number: number): ByteRange | undefined {
  let offset = 0;
  let before = 0;
  for (const [length, parts] of sizes) {
    const index = number - before - 1;
    if (index < parts) return { offset: offset + index * length, length };
    offset += length * parts;
    before += parts;
  }
  return undefined;
}

/** The sizes of the parts after a number, at most `limit` of them. */
export function partSizes(
  { sizes }: PartLayout,
  { after, limit }: { readonly after: number; readonly limit: number },
): number[] {
  const page: number[] = [];
  let before = 0;
  for (const [length, parts] of sizes) {
    const skipped = Math.min(parts, Math.max(0, after - before));
    const taken = Math.min(parts - skipped, limit - page.length);
    for (let part = 0; part < taken; part++) page.push(length);
    before += parts;
  }
  return page;
}

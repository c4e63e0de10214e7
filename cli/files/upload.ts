import { createReadStream } from "node:fs";
import { readFile } from "node:fs/promises";
import { Readable } from "node:stream";
import type { SaidOfCommit } from "../../protocol/annotations.ts";
import { type ContentId, contentName, INLINE_LIMIT_BYTES } from "../../protocol/content.ts";
import { guessContentType } from "../../protocol/content-types.ts";
import {
  type Attributes,
  ContentAdded,
  ContentComposed,
  ContentsReserved,
  MAX_CONTENTS_PER_CALL,
} from "../../protocol/files.ts";
import { type BucketAddress, bucketName, viewBucket } from "../../protocol/names.ts";
import { forEachLimited } from "../../runner/lib/concurrency.ts";
import { type Range, sendInParts } from "../../runner/lib/in-parts.ts";
import { contentIdOf } from "../../runner/lib/tree-hash.ts";
import type { Client } from "../gateway/client.ts";
import { existingFiles, mayExpire, readAttributes } from "../gateway/objects.ts";
import { asOneCommit, commitUpload, type OpenedUpload } from "../gateway/open-commits.ts";
import { CliError } from "../output/failure.ts";
import { type EntryPage, hashBytes, hashFile, inPages, type LocalEntry } from "./local-tree.ts";
import type { Progress } from "./progress.ts";

/** Large contents on their way at once, and files read at once for their hash. */
const LANES = 4;
/** Files whose attributes are asked for at once. */
const HEAD_LANES = 8;
/** Bytes of small contents in one call. */
const INLINE_BATCH_BYTES = 1024 * 1024;
const NO_BYTES = Buffer.alloc(0);

interface Hashed extends LocalEntry {
  readonly content: ContentId;
}

/** An entry with what is to be kept beside its bytes. */
interface Put extends Hashed {
  readonly attributes: Attributes | undefined;
}

/** What a commit does at one path: it puts an entry, or removes what is there. */
export type Change = LocalEntry | { readonly target: string; readonly size: 0 };

export interface Uploaded {
  /** The one commit that holds all; null if nothing changed, or if all was staged in an open commit. */
  readonly commit: string | null;
  readonly files: number;
  readonly bytes: number;
  /** Bytes that the branch did not have yet. */
  readonly sentBytes: number;
  /** It was put into an open commit. */
  readonly staged?: true;
}

export interface Upload {
  /** A branch, or one of its open commits. */
  readonly to: BucketAddress;
  readonly first: EntryPage<Change>;
  /** The pages behind the first. */
  readonly rest: AsyncIterable<EntryPage<Change>>;
  readonly progress: Progress;
  /** Of the commit; not in an open commit, which is told when it is finished. */
  readonly said?: SaidOfCommit | undefined;
  /** Of all files. By default that of each name, and a file that is there with the same bytes keeps what it has. */
  readonly contentType?: string | undefined;
}

/**
 * Puts entries and removes paths as one commit, however many they are: a single page by itself, more of them through an open commit of
 * their own. Nothing is seen of it before the end. Into a commit that is open they are staged, and it stays open.
 */
export async function uploadAsCommit(client: Client, upload: Upload): Promise<Uploaded> {
  const { to, first, rest, said } = upload;
  const done = { files: 0, bytes: 0, sentBytes: 0 };
  const put = async (
    place: BucketAddress,
    { entries }: EntryPage<Change>,
    said?: SaidOfCommit,
  ): Promise<string | null> => {
    const { commit, ...page } = await uploadPage(client, entries, { ...upload, to: place, said });
    done.files += page.files;
    done.bytes += page.bytes;
    done.sentBytes += page.sentBytes;
    return commit;
  };
  const putAll = async (place: BucketAddress): Promise<void> => {
    await put(place, first);
    for await (const page of rest) await put(place, page);
  };
  if (to.view !== undefined) {
    await putAll(to);
    return { commit: null, ...done, staged: true };
  }
  const commit = first.isLast
    ? await put(to, first, said)
    : await asOneCommit(client, { to, said, fill: putAll });
  return { commit, ...done };
}

/**
 * Does at most MAX_COMMIT_OPERATIONS changes as one commit, or in an open one: tells the branch the digests of entries, sends what it
 * lacks, then names them all at once. A failure leaves only unnamed bytes, which are swept.
 */
async function uploadPage(
  client: Client,
  changes: readonly Change[],
  { to, progress, said, contentType }: Omit<Upload, "first" | "rest">,
): Promise<Uploaded> {
  const entries = changes.filter((change) => "source" in change);
  const removals = changes.filter((change) => !("source" in change));
  const hashed = await hashAll(entries, progress);
  const done = { files: entries.length, bytes: totalSize(hashed), sentBytes: 0 };
  const puts = await putsOf(client, { to, hashed, contentType });
  if (puts.length + removals.length === 0) return { commit: null, ...done };
  const fill = async (opened: OpenedUpload) => {
    const missing = await reserve(client, { ...opened, hashed: puts });
    await sendSmall(client, { ...opened, missing });
    await sendLarge(client, { ...opened, missing, progress });
    done.sentBytes = totalSize(missing);
    return [
      ...removals.map(({ target }) => ({ delete: target })),
      ...puts.map(({ target, content, attributes }) => ({ put: target, ...content, attributes })),
    ];
  };
  return { commit: await commitUpload(client, { to, said, fill }), ...done };
}

/**
 * What is to be put of a page. A file that the branch has with the same bytes is left as it is, so that a copy of the same
 * changes neither its type nor its metadata and makes no commit. It is put all the same, with what it has beside its bytes, into
 * an open commit, since the branch may change before that is finished, and where files expire, since it then has a new age.
 */
async function putsOf(
  client: Client,
  { to, hashed, contentType }: Pick<Upload, "to" | "contentType"> & { hashed: readonly Hashed[] },
): Promise<Put[]> {
  const typed = hashed.map((file) => ({ ...file, attributes: attributesOf(file, contentType) }));
  if (contentType !== undefined) return typed;
  const { view } = to;
  const bucket = view === undefined ? bucketName(to) : viewBucket({ ...to, view });
  const there = await existingFiles(client, { bucket, paths: hashed.map(({ target }) => target) });
  const isThere = ({ target, content }: Hashed) => there.get(target)?.etag === contentName(content);
  const changed = typed.filter((file) => !isThere(file));
  const unchanged = typed.filter(isThere);
  if (unchanged.length === 0) return changed;
  if (view === undefined && !(await mayExpire(client, bucket))) return changed;
  const same: Put[] = [];
  await forEachLimited(unchanged, {
    limit: HEAD_LANES,
    work: async (file) => {
      const address = { ...to, bucket, path: file.target };
      same.push({ ...file, attributes: await readAttributes(client, address) });
    },
  });
  return [...changed, ...same];
}

/** The same type as S3's PUT would give it. */
function attributesOf({ target }: LocalEntry, contentType: string | undefined): Attributes | undefined {
  return target.endsWith("/") ? undefined : { contentType: contentType ?? guessContentType(target) };
}

async function hashAll(entries: readonly LocalEntry[], progress: Progress): Promise<Hashed[]> {
  progress.begin("reading", totalSize(entries.filter(({ content }) => content === undefined)));
  const hashed: Hashed[] = [];
  await forEachLimited(entries.entries(), {
    limit: LANES,
    work: async ([index, entry]) => {
      const content = entry.content ?? (await contentOf(entry, progress));
      hashed[index] = { ...entry, size: content.size, content };
    },
  });
  progress.end();
  return hashed;
}

async function contentOf({ source, target }: LocalEntry, progress: Progress): Promise<ContentId> {
  if (target.endsWith("/")) return contentIdOf(NO_BYTES);
  return await (typeof source === "string"
    ? hashFile(source, { onBytes: (bytes) => progress.advance(bytes) })
    : hashBytes(source));
}

/** One file of each content that the branch lacks. */
async function reserve(
  client: Client,
  { upload, hashed }: { upload: string; hashed: readonly Hashed[] },
): Promise<Hashed[]> {
  const byContent = new Map(hashed.map((file) => [contentName(file.content), file]));
  const lacking: Hashed[] = [];
  for await (const { entries } of inPages(byContent.values(), { maxEntries: MAX_CONTENTS_PER_CALL })) {
    const contents = entries.map(({ content }) => content);
    for (const content of await missingOf(client, { upload, contents })) {
      const file = byContent.get(contentName(content));
      if (file) lacking.push(file);
    }
  }
  return lacking;
}

/** Keeps for the upload what the branch has. Returns what it lacks. */
export async function missingOf(
  client: Client,
  { upload, contents }: { upload: string; contents: readonly ContentId[] },
): Promise<readonly ContentId[]> {
  const ask = { json: { contents }, repeatable: true } as const;
  return (await client.post(ContentsReserved, `/uploads/${upload}/reserve`, ask)).missing;
}

async function sendSmall(
  client: Client,
  { upload, missing }: { upload: string; missing: readonly Hashed[] },
): Promise<void> {
  const small = missing.filter(({ size }) => size <= INLINE_LIMIT_BYTES);
  const most = { maxEntries: MAX_CONTENTS_PER_CALL, maxBytes: INLINE_BATCH_BYTES };
  for await (const { entries } of inPages(small, most)) {
    const contents = await Promise.all(
      entries.map(async ({ source, target, content }) => {
        const held = target.endsWith("/") ? NO_BYTES : source;
        const bytes = typeof held === "string" ? await readFile(held) : held;
        if (contentIdOf(bytes).digest !== content.digest) throw changed(source);
        return { ...content, bytes: bytes.toString("base64") };
      }),
    );
    const answer = await client.send({
      method: "POST",
      path: `/api/v1/uploads/${upload}/contents`,
      json: { contents },
      repeatable: true,
    });
    await answer.body.dump();
  }
}

async function sendLarge(
  client: Client,
  { missing, progress, ...opened }: OpenedUpload & { missing: readonly Hashed[]; progress: Progress },
): Promise<void> {
  const large = missing.filter(({ size }) => size > INLINE_LIMIT_BYTES);
  progress.begin("sending", totalSize(large));
  await forEachLimited(large, {
    limit: LANES,
    work: async ({ source, content }) => {
      const isFile = typeof source === "string";
      try {
        await sendContent(client, {
          ...{ upload: opened.upload, content, pieces: (range) => piecesOf(source, { progress, range }) },
          // Bytes that are at hand go in one body.
          partBytes: isFile ? opened.partBytes : content.size,
          hash: async (range) => (isFile ? await hashFile(source, { range }) : content),
          passed: (bytes) => progress.advance(bytes),
        });
      } catch (error) {
        // The gateway refuses bytes that are not what they were said to be; mostly somebody has written to the file.
        const now = isFile ? await hashFile(source) : content;
        throw contentName(now) === contentName(content) ? error : changed(source);
      }
    },
  });
  progress.end();
}

interface ContentToSend extends OpenedUpload {
  readonly content: ContentId;
  /** The bytes, or a run of them; asked for anew if they are sent again. */
  readonly pieces: (range?: Range) => AsyncIterable<Buffer>;
  readonly hash: (range: Range) => Promise<ContentId>;
  /** Told of bytes that the branch has already. */
  readonly passed?: (bytes: number) => void;
}

/** Sends a content in one body, or, if it is longer than a part, in parts. */
export async function sendContent(client: Client, toSend: ContentToSend): Promise<void> {
  const { upload, partBytes, content, pieces, hash, passed } = toSend;
  const add = ({ digest, size }: ContentId, range?: Range) =>
    client.call(ContentAdded, {
      method: "PUT",
      path: `/uploads/${upload}/contents`,
      query: { digest, size: String(size) },
      headers: { "content-type": "application/octet-stream", "content-length": String(size) },
      stream: () => Readable.from(pieces(range), { objectMode: false }),
    });
  if (content.size <= partBytes) return void (await add(content));
  await sendInParts(
    { content, partBytes },
    {
      send: async (range) => {
        const part = await hash(range);
        // What an earlier try brought, or another part of the same bytes, is there.
        const [missing] = await missingOf(client, { upload, contents: [part] });
        if (missing) await add(part, range);
        else passed?.(part.size);
        return part;
      },
      compose: (json) =>
        client.post(ContentComposed, `/uploads/${upload}/compose`, { json, repeatable: true }),
    },
  );
}

/** Counts bytes as they are asked for. A listener on the stream would make it flow before its reader is ready. */
async function* piecesOf(
  source: LocalEntry["source"],
  { progress, range }: { progress: Progress; range: Range | undefined },
): AsyncGenerator<Buffer> {
  const bounds = range && { start: range.offset, end: range.offset + range.length - 1 };
  const pieces = typeof source === "string" ? createReadStream(source, bounds) : [source];
  for await (const piece of pieces) {
    progress.advance(piece.length);
    yield piece as Buffer;
  }
}

function changed(source: LocalEntry["source"]): CliError {
  return new CliError(`${source} changed while it was copied; nothing was committed`, {
    code: "FileChanged",
  });
}

function totalSize(files: readonly LocalEntry[]): number {
  return files.reduce((sum, { size }) => sum + size, 0);
}

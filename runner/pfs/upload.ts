import type { ReadStream } from "node:fs";
import { type ContentId, contentName, type InlineContent } from "../../protocol/content.ts";
import { MAX_CONTENTS_PER_CALL } from "../../protocol/files.ts";
import type { BranchAddress } from "../../protocol/names.ts";
import type { Output } from "../../protocol/runner.ts";
import type { Grant, UploadCalls } from "../gateway/gateway.ts";
import { retrying } from "../gateway/retry.ts";
import { forEachLimited } from "../lib/concurrency.ts";
import { type Range, sendInParts } from "../lib/in-parts.ts";
import { hashPieces } from "../lib/tree-hash.ts";
import { type Collected, openPlain } from "./collect.ts";

export interface UploadRequest {
  readonly collected: readonly Collected[];
  readonly output: BranchAddress;
  readonly lease: string;
  readonly grant?: Grant | undefined;
  readonly signal: AbortSignal;
}

export interface Sent {
  readonly outputs: Output[];
  /** The upload that keeps the contents that are not in `outputs`. */
  readonly upload?: string;
}

/** Bytes of small outputs that a datum's outcome carries itself. What is beyond them is sent before, so that the message stays small. */
export const INLINE_BUDGET_BYTES = 256 * 1024;
const TRANSFERS_AT_ONCE = 4;
const MAX_TRIES = 8;
const READ_BYTES = 1024 * 1024;

/** Brings to the output branch those of a datum's contents that it lacks. Returns what the outcome has to name. */
export async function sendOutputs(gateway: UploadCalls, request: UploadRequest): Promise<Sent> {
  const { collected } = request;
  const carried = new Set(withinBudget(collected));
  const apart = distinct(collected.filter((entry) => !carried.has(entry) && entry.content.size > 0));
  const outputs = collected.map((entry) => outputOf(entry, carried.has(entry) ? "carried" : "apart"));
  if (apart.length === 0) return { outputs };
  return { outputs, upload: await upload(gateway, { ...request, collected: apart }) };
}

function withinBudget(collected: readonly Collected[]): Collected[] {
  let left = INLINE_BUDGET_BYTES;
  return collected.filter((entry) => {
    if (!entry.bytes || entry.bytes.length > left) return false;
    left -= entry.bytes.length;
    return true;
  });
}

function distinct(collected: readonly Collected[]): Collected[] {
  return [...new Map(collected.map((entry) => [contentName(entry.content), entry])).values()];
}

function outputOf({ path, content, bytes }: Collected, how: "carried" | "apart"): Output {
  return { path, ...content, ...(how === "carried" && bytes && { bytes: base64(bytes) }) };
}

async function upload(gateway: UploadCalls, request: UploadRequest): Promise<string> {
  const { collected, output, lease, grant, signal } = request;
  const again: Again = (work) => retrying(work, { signal, maxTransient: MAX_TRIES });
  const { upload: id, partBytes } = await again(() =>
    gateway.openUpload({ ...output, lease, grant }, signal),
  );
  for (let start = 0; start < collected.length; start += MAX_CONTENTS_PER_CALL) {
    const page = collected.slice(start, start + MAX_CONTENTS_PER_CALL);
    const contents = page.map((entry) => entry.content);
    const missing = new Set(
      (await again(() => gateway.reserve({ upload: id, contents, grant }, signal))).map(contentName),
    );
    const wanted = page.filter((entry) => missing.has(contentName(entry.content)));
    const inline = wanted.flatMap(inlineOf);
    if (inline.length > 0) {
      await again(() => gateway.addInline({ upload: id, contents: inline, grant }, signal));
    }
    await forEachLimited(
      wanted.filter((entry) => !entry.bytes),
      {
        limit: TRANSFERS_AT_ONCE,
        work: (entry) => sendFile(gateway, { upload: id, partBytes, entry, grant, again, signal }),
      },
    );
  }
  return id;
}

function inlineOf({ content, bytes }: Collected): InlineContent[] {
  return bytes ? [{ ...content, bytes: base64(bytes) }] : [];
}

function base64(bytes: Uint8Array): string {
  return Buffer.from(bytes.buffer, bytes.byteOffset, bytes.length).toString("base64");
}

type Again = <T>(work: () => Promise<T>) => Promise<T>;

interface FileToSend {
  readonly upload: string;
  /** A larger file goes in parts. */
  readonly partBytes: number;
  readonly entry: Collected;
  readonly grant: Grant | undefined;
  readonly again: Again;
  readonly signal: AbortSignal;
}

async function sendFile(
  gateway: UploadCalls,
  { upload, partBytes, entry, grant, again, signal }: FileToSend,
): Promise<void> {
  const { content, source } = entry;
  const add = (part: ContentId, range: Range) =>
    again(() =>
      reading(source, range, (bytes) => gateway.addContent({ upload, content: part, bytes, grant }, signal)),
    );
  if (content.size <= partBytes) {
    return await add(content, { offset: 0, length: content.size });
  }
  await sendInParts(
    { content, partBytes },
    {
      send: async (range) => {
        signal.throwIfAborted();
        const part = await reading(source, range, (bytes) => hashPieces(bytes));
        // What an earlier try brought, or another part of the same bytes, is there.
        const [missing] = await again(() => gateway.reserve({ upload, contents: [part], grant }, signal));
        if (missing) await add(part, range);
        return part;
      },
      compose: (request) => again(() => gateway.compose({ upload, ...request, grant }, signal)),
    },
  );
}

/** Reads a run of a file. */
async function reading<T>(
  source: Collected["source"],
  { offset, length }: Range,
  use: (bytes: ReadStream) => Promise<T>,
): Promise<T> {
  const file = await openPlain(source);
  const range = { start: offset, end: offset + length - 1 };
  const bytes = file.createReadStream({ ...range, highWaterMark: READ_BYTES, autoClose: true });
  try {
    return await use(bytes);
  } finally {
    bytes.destroy();
  }
}

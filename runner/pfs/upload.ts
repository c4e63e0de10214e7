import type { ReadStream } from "node:fs";
import { type ContentId, contentName } from "../../protocol/content.ts";
import { MAX_CONTENTS_PER_CALL } from "../../protocol/files.ts";
import type { BranchAddress } from "../../protocol/names.ts";
import type { Output } from "../../protocol/runner.ts";
import type { Grant, UploadCalls } from "../gateway/gateway.ts";
import { retrying } from "../gateway/retry.ts";
import { forEachLimited } from "../lib/concurrency.ts";
import { type PartCalls, type Range, sendInParts } from "../lib/in-parts.ts";
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
  return { outputs, upload: await uploadOf(gateway, { ...request, collected: apart }) };
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

/** A file that is larger than one part goes in parts. Returns the upload. */
async function uploadOf(gateway: UploadCalls, request: UploadRequest): Promise<string> {
  const { collected, output, lease, grant, signal } = request;
  const again = <T>(work: () => Promise<T>) => retrying(work, { signal, maxTransient: MAX_TRIES });
  const opened = { ...output, lease, grant };
  const { upload, partBytes } = await again(() => gateway.openUpload(opened, signal));
  const missingOf = (contents: ContentId[]) =>
    again(() => gateway.reserve({ upload, contents, grant }, signal));
  const add = (source: Collected["source"], content: ContentId, range: Range) =>
    again(() =>
      reading(source, range, (bytes) => gateway.addContent({ upload, content, bytes, grant }, signal)),
    );
  const sendFile = async ({ content, source }: Collected) => {
    if (content.size <= partBytes) return await add(source, content, { offset: 0, length: content.size });
    const send = async (range: Range) => {
      signal.throwIfAborted();
      const part = await reading(source, range, (bytes) => hashPieces(bytes));
      // What an earlier try brought, or another part of the same bytes, is there.
      const [missing] = await missingOf([part]);
      if (missing) await add(source, part, range);
      return part;
    };
    const compose: PartCalls["compose"] = (request) =>
      again(() => gateway.compose({ upload, ...request, grant }, signal));
    await sendInParts({ content, partBytes }, { send, compose });
  };
  for (let start = 0; start < collected.length; start += MAX_CONTENTS_PER_CALL) {
    const page = collected.slice(start, start + MAX_CONTENTS_PER_CALL);
    const missing = new Set((await missingOf(page.map((entry) => entry.content))).map(contentName));
    const wanted = page.filter((entry) => missing.has(contentName(entry.content)));
    const inline = wanted.flatMap(({ content, bytes }) =>
      bytes ? [{ ...content, bytes: base64(bytes) }] : [],
    );
    if (inline.length > 0) {
      await again(() => gateway.addInline({ upload, contents: inline, grant }, signal));
    }
    const files = wanted.filter((entry) => !entry.bytes);
    await forEachLimited(files, { limit: TRANSFERS_AT_ONCE, work: sendFile });
  }
  return upload;
}

function base64(bytes: Uint8Array): string {
  return Buffer.from(bytes.buffer, bytes.byteOffset, bytes.length).toString("base64");
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

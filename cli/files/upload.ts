import { createReadStream } from "node:fs";
import { readFile } from "node:fs/promises";
import { type ContentId, contentName, INLINE_LIMIT_BYTES } from "../../protocol/content.ts";
import {
  CommitCreated,
  ContentAdded,
  ContentsReserved,
  MAX_CONTENTS_PER_CALL,
  UploadOpened,
} from "../../protocol/files.ts";
import type { BranchAddress } from "../../protocol/names.ts";
import { contentIdOf } from "../../runner/tree-hash.ts";
import type { Client } from "../client.ts";
import { CliError } from "../failure.ts";
import { hashFile } from "./hash-file.ts";
import type { LocalEntry } from "./local-tree.ts";
import { inParallel, pages } from "./parallel.ts";
import type { Progress } from "./progress.ts";

/** Large contents on their way at once, and files read at once for their hash. */
const LANES = 4;
/** Bytes of small contents in one call. */
const INLINE_BATCH_BYTES = 1024 * 1024;

export interface Uploaded {
  /** The one commit that holds all; null where nothing changed. */
  readonly commit: string | null;
  readonly files: number;
  readonly bytes: number;
  /** Bytes that the branch did not have yet. */
  readonly sentBytes: number;
}

interface Hashed extends LocalEntry {
  readonly content: ContentId;
}

/**
 * Puts files as one commit: says what it has, sends what the branch lacks, then names them all at once (design §4).
 * Nothing is seen of it before the commit; a failure leaves nothing but bytes that are swept away. At most
 * MAX_COMMIT_OPERATIONS entries.
 */
export async function uploadAsCommit(
  client: Client,
  { to, entries, progress }: { to: BranchAddress; entries: readonly LocalEntry[]; progress: Progress },
): Promise<Uploaded> {
  const hashed = await hashAll(entries, progress);
  const { upload } = await client.call(UploadOpened, {
    method: "POST",
    path: "/uploads",
    json: { ...branchOf(to) },
  });
  const missing = await reserve(client, { upload, hashed });
  await sendSmall(client, { upload, missing });
  await sendLarge(client, { upload, missing, progress });
  const { commit } = await client.call(CommitCreated, {
    method: "POST",
    path: `/repos/${to.repo}/branches/${to.branch}/commits`,
    json: { upload, operations: hashed.map(({ target, content }) => ({ put: target, ...content })) },
  });
  return {
    commit,
    files: hashed.length,
    bytes: totalSize(hashed),
    sentBytes: totalSize(missing),
  };
}

function branchOf({ repo, branch }: BranchAddress): BranchAddress {
  return { repo, branch };
}

async function hashAll(entries: readonly LocalEntry[], progress: Progress): Promise<Hashed[]> {
  progress.begin(
    "reading",
    entries.reduce((sum, { size }) => sum + size, 0),
  );
  const hashed: Hashed[] = [];
  await inParallel(entries.entries(), {
    lanes: LANES,
    act: async ([index, entry]) => {
      const content = entry.target.endsWith("/")
        ? contentIdOf(new Uint8Array(0))
        : await hashFile(entry.source, (bytes) => progress.advance(bytes));
      hashed[index] = { ...entry, size: content.size, content };
    },
  });
  progress.end();
  return hashed;
}

/** One file of each content that the branch lacks. */
async function reserve(
  client: Client,
  { upload, hashed }: { upload: string; hashed: readonly Hashed[] },
): Promise<Hashed[]> {
  const byContent = new Map(hashed.map((file) => [contentName(file.content), file]));
  const lacking: Hashed[] = [];
  for (const page of pages([...byContent.values()], MAX_CONTENTS_PER_CALL)) {
    const { missing } = await client.call(ContentsReserved, {
      method: "POST",
      path: `/uploads/${upload}/reserve`,
      json: { contents: page.map(({ content }) => content) },
      repeatable: true,
    });
    for (const content of missing) {
      const file = byContent.get(contentName(content));
      if (file) lacking.push(file);
    }
  }
  return lacking;
}

async function sendSmall(
  client: Client,
  { upload, missing }: { upload: string; missing: readonly Hashed[] },
): Promise<void> {
  for (const batch of inlineBatches(missing.filter(({ size }) => size <= INLINE_LIMIT_BYTES))) {
    const contents = await Promise.all(
      batch.map(async ({ source, target, content }) => {
        const bytes = target.endsWith("/") ? Buffer.alloc(0) : await readFile(source);
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

function* inlineBatches(files: readonly Hashed[]): Generator<Hashed[]> {
  let batch: Hashed[] = [];
  let bytes = 0;
  for (const file of files) {
    if (batch.length === MAX_CONTENTS_PER_CALL || bytes + file.size > INLINE_BATCH_BYTES) {
      yield batch;
      batch = [];
      bytes = 0;
    }
    batch.push(file);
    bytes += file.size;
  }
  if (batch.length > 0) yield batch;
}

async function sendLarge(
  client: Client,
  { upload, missing, progress }: { upload: string; missing: readonly Hashed[]; progress: Progress },
): Promise<void> {
  const large = missing.filter(({ size }) => size > INLINE_LIMIT_BYTES);
  progress.begin("sending", totalSize(large));
  await inParallel(large, {
    lanes: LANES,
    act: async ({ source, content }) => {
      try {
        await client.call(ContentAdded, {
          method: "PUT",
          path: `/uploads/${upload}/contents`,
          query: { digest: content.digest, size: String(content.size) },
          headers: { "content-type": "application/octet-stream", "content-length": String(content.size) },
          stream: () => createReadStream(source).on("data", (piece) => progress.advance(piece.length)),
        });
      } catch (error) {
        // The gateway refuses bytes that are not what they were said to be; mostly somebody has written to the file.
        const now = await hashFile(source, () => {});
        throw contentName(now) === contentName(content) ? error : changed(source);
      }
    },
  });
  progress.end();
}

function changed(source: string): CliError {
  return new CliError(`${source} changed while it was copied; nothing was committed`, {
    code: "FileChanged",
  });
}

function totalSize(files: readonly LocalEntry[]): number {
  return files.reduce((sum, { size }) => sum + size, 0);
}

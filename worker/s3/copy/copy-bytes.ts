import { byteSource } from "../../blobs/body-reader.ts";
import type { Content } from "../../blobs/content.ts";
import type { ByteRange } from "../../blobs/port.ts";
import { readContent } from "../../blobs/read/read-content.ts";
import type { ReadHold } from "../../blobs/read/read-hold.ts";
import { type WriteOptions, writeContent } from "../../blobs/write-content.ts";
import type { FileRead } from "../../branch/contract/files.ts";
import { S3Error } from "../answer/errors.ts";
import { BODY_IDLE_MS } from "../limits.ts";

type Passed = Pick<
  WriteOptions,
  "store" | "openUpload" | "renewUpload" | "uploadLeaseMs" | "checksum" | "inline" | "now"
>;

export interface BytesToCopy extends Passed {
  readonly file: FileRead;
  /** Of the branch that has the file. */
  readonly hold: ReadHold;
  /** Absent: the whole. */
  readonly range?: ByteRange;
}

/** What was written, and its checksum if one was asked for. */
export interface CopiedBytes {
  readonly content: Content;
  readonly checksum: string | null;
}

/** Streams the bytes of a file into blobs of another branch. A whole file must come out with the digest that it has. */
export async function copyBytes({ file, hold, range, ...passed }: BytesToCopy): Promise<CopiedBytes> {
  const { digest, size, body } = file;
  const bytes = await readContent(passed.store, { body, size, hold, ...(range && { range }) });
  const written = await writeContent(byteSource(streamOf(bytes)), {
    ...passed,
    declaredSize: range?.length ?? size,
    ...(range ? {} : { expect: { digest: { digest, size } } }),
    idleMs: BODY_IDLE_MS,
  });
  // The client sent no body: this is no fault of its.
  if (!written.ok) {
    throw new S3Error("ServiceUnavailable", {
      message: `The bytes of the copy source could not be read to the end (${written.reason}): try again.`,
    });
  }
  return { content: written.content, checksum: written.checksum };
}

function streamOf(bytes: Uint8Array<ArrayBuffer> | ReadableStream<Uint8Array>): ReadableStream<Uint8Array> {
  return bytes instanceof Uint8Array ? new Blob([bytes]).stream() : bytes;
}

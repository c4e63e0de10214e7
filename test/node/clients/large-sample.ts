import { readFileSync } from "node:fs";
import { join } from "node:path";
import { fileHash, writeSample } from "../../support/clients/samples.ts";
import { expectedEtag } from "../../support/expected-etag.ts";

/** A file on disk that every client of a suite sends. */
export interface LargeSample {
  readonly file: string;
  readonly sizeBytes: number;
  /** Hex. */
  readonly sha256: string;
  /** The ETag that the gateway must answer. */
  readonly etag: string;
}

/** Writes it into a folder. */
export function largeSample(folder: string, { sizeBytes }: { sizeBytes: number }): LargeSample {
  const file = join(folder, "large");
  writeSample(file, { sizeBytes, seed: "large" });
  return { file, sizeBytes, sha256: fileHash(file), etag: expectedEtag(readFileSync(file)) };
}

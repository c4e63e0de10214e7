// @module-tag rest
import { createHash } from "node:crypto";
import { readFileSync } from "node:fs";
import { afterAll, beforeAll, expect, test } from "vitest";
import { type ApiTool, bytesOf, good } from "../../support/clients/api-tool.ts";
import { jsSdk } from "../../support/clients/js-sdk.ts";
import { type DevServer, startDevServer } from "../../support/dev-server.ts";
import { S3 } from "../../support/s3.ts";
import { removeScratch, scratchFolder } from "../../support/scratch.ts";
import { type LargeSample, largeSample } from "./large-sample.ts";

const MIB = 1024 * 1024;
const BUCKET = "master.one-etag";

let server: DevServer;
let tool: ApiTool;
let sample: LargeSample;
const scratch = scratchFolder();
beforeAll(async () => {
  server = await startDevServer();
  tool = jsSdk(server);
  sample = largeSample(scratch, { sizeBytes: 100 * MIB });
  await new S3(server).createBucket(BUCKET);
});
afterAll(async () => {
  await tool?.close();
  await server?.stop();
  removeScratch(scratch);
});

test("100 MiB have one ETag by PUT, by parts of 5 MiB, 8 MiB and an odd size, and by copies", {
  timeout: 120_000,
}, async () => {
  const bytes = readFileSync(sample.file);
  const put = good(await tool.call("put-object", { Bucket: BUCKET, Key: "put" }, bytes));
  const etags = [put.ETag];
  for (const partBytes of [5 * MIB, 8 * MIB, 7_654_321]) {
    const send = (first: number): Sender => ({
      operation: "upload-part",
      body: bytes.subarray(first, first + partBytes),
    });
    etags.push(await inParts(`parts of ${partBytes}`, { partBytes, send }));
  }
  for (const partBytes of [16 * MIB, 12_345_678]) {
    const send = (first: number): Sender => {
      const last = Math.min(first + partBytes, bytes.length) - 1;
      const source = { CopySource: `${BUCKET}/put`, CopySourceRange: `bytes=${first}-${last}` };
      return { operation: "upload-part-copy", source };
    };
    etags.push(await inParts(`copies of ${partBytes}`, { partBytes, send }));
  }
  const copy = { Bucket: BUCKET, Key: "copy", CopySource: `${BUCKET}/put` };
  etags.push(good(await tool.call("copy-object", copy)).CopyObjectResult?.ETag);

  expect(etags).toEqual(etags.map(() => sample.etag));
  // The two that were put together from pieces which meet nowhere on the bounds of chunks.
  for (const key of ["parts of 7654321", "copies of 12345678"]) {
    const got = await tool.call("get-object", { Bucket: BUCKET, Key: key });
    expect(good(got).ETag).toBe(sample.etag);
    expect(sha256(bytesOf(got))).toBe(sample.sha256);
  }
});

test("a file of two leaf hashes has not the ETag of the 2 MiB which they are the hashes of", async () => {
  const bytes = readFileSync(sample.file).subarray(0, 2 * MIB);
  const leaves = [bytes.subarray(0, MIB), bytes.subarray(MIB)].map((leaf) =>
    Buffer.from(sha256(leaf), "hex"),
  );
  const whole = await tool.call("put-object", { Bucket: BUCKET, Key: "2 MiB" }, bytes);
  const crafted = await tool.call("put-object", { Bucket: BUCKET, Key: "64 bytes" }, Buffer.concat(leaves));
  expect(good(crafted).ETag).not.toBe(good(whole).ETag);
});

interface Sender {
  readonly operation: "upload-part" | "upload-part-copy";
  readonly body?: Buffer;
  readonly source?: object;
}

interface Parts {
  readonly partBytes: number;
  /** How the part is sent that begins at a byte. */
  send(first: number): Sender;
}

/** A multipart upload, four parts at a time; answers the object's ETag. */
async function inParts(key: string, { partBytes, send }: Parts): Promise<string | undefined> {
  const at = { Bucket: BUCKET, Key: key };
  const { UploadId } = good(await tool.call("create-multipart-upload", at));
  const upload = { ...at, UploadId };
  const count = Math.ceil(sample.sizeBytes / partBytes);
  const Parts: { PartNumber: number; ETag: string | undefined }[] = [];
  let next = 1;
  const loop = async (): Promise<void> => {
    for (let PartNumber = next++; PartNumber <= count; PartNumber = next++) {
      const { operation, body, source } = send((PartNumber - 1) * partBytes);
      const sent = good(await tool.call(operation, { ...upload, PartNumber, ...source }, body));
      Parts.push({ PartNumber, ETag: sent.ETag ?? sent.CopyPartResult?.ETag });
    }
  };
  await Promise.all([loop(), loop(), loop(), loop()]);
  Parts.sort((a, b) => a.PartNumber - b.PartNumber);
  const done = await tool.call("complete-multipart-upload", { ...upload, MultipartUpload: { Parts } });
  return good(done).ETag;
}

function sha256(bytes: Buffer): string {
  return createHash("sha256").update(bytes).digest("hex");
}

// @module-tag rest
import { readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import {
  hasPythonClients,
  PYTHON_CLIENTS,
  type PythonObjects,
  pythonObjects,
} from "../../support/clients/python.ts";
import { fileHash, fileRange, inByteOrder } from "../../support/clients/samples.ts";
import { type DevServer, sluiceOk, startDevServer } from "../../support/dev-server.ts";
import { S3 } from "../../support/s3.ts";
import { removeScratch, scratchFolder } from "../../support/scratch.ts";
import { type LargeSample, largeSample } from "./large-sample.ts";

const HERE = hasPythonClients();
const TEST = { timeout: 120_000 };
/** Parts of 5 MiB to 50 MiB, whatever the client takes, and an odd rest. */
const LARGE_BYTES = 60_000_123;
const ODD_KEYS = [
  "a b",
  "a+b",
  "a%20b",
  "ü/😀.txt",
  "day=2026-11-25/part-0 [1].csv",
  "it's (not) odd!~*&$@=;:,?#",
];

let server: DevServer;
let s3: S3;
let large: LargeSample;
const scratch = scratchFolder();
const [sent, received] = [join(scratch, "sent"), join(scratch, "received")];

beforeAll(async () => {
  if (!HERE) return;
  server = await startDevServer();
  s3 = new S3(server);
  large = largeSample(scratch, { sizeBytes: LARGE_BYTES });
});
afterAll(async () => {
  await server?.stop();
  removeScratch(scratch);
});

describe.each(PYTHON_CLIENTS)("%s", (name) => {
  let client: PythonObjects;
  beforeAll(() => {
    if (HERE) client = pythonObjects(server, name);
  });
  afterAll(() => client?.close());

  let buckets = 0;
  async function newBucket(): Promise<string> {
    buckets += 1;
    const bucket = `master.${name.replaceAll("_", "-")}-${buckets}`;
    await s3.createBucket(bucket);
    return bucket;
  }
  async function put(text: string, to: { bucket: string; key: string }): Promise<void> {
    writeFileSync(sent, text);
    await client.put(sent, to);
  }
  async function got(from: { bucket: string; key: string }): Promise<string> {
    await client.get(from, received);
    return readFileSync(received, "utf8");
  }

  test.skipIf(!HERE)("writes, reads, measures and overwrites an object", TEST, async () => {
    const place = { bucket: await newBucket(), key: "folder/notes.txt" };
    await put("to be or not to be\n", place);
    expect(await got(place)).toBe("to be or not to be\n");
    await put("that is the question\n", place);
    expect(await got(place)).toBe("that is the question\n");
    expect(await client.size(place)).toBe(21);
    expect((await s3.get(place.bucket, place.key))?.toString()).toBe("that is the question\n");
  });

  test.skipIf(!HERE)("writes and reads an empty object", TEST, async () => {
    const place = { bucket: await newBucket(), key: "empty" };
    await put("", place);
    expect((await s3.get(place.bucket, place.key))?.length).toBe(0);
    expect(await client.size(place)).toBe(0);
    expect(await got(place)).toBe("");
  });

  test.skipIf(!HERE)(
    "writes, lists and reads keys with spaces, plus signs and other letters",
    TEST,
    async () => {
      const bucket = await newBucket();
      for (const key of ODD_KEYS) await put(`in ${key}`, { bucket, key: `odd/${key}` });
      const keys = ODD_KEYS.map((key) => `odd/${key}`);
      expect(await s3.keys(bucket)).toEqual(inByteOrder(keys));
      expect(inByteOrder(await client.list(bucket, "odd/"))).toEqual(inByteOrder(keys));
      for (const key of ODD_KEYS) expect(await got({ bucket, key: `odd/${key}` })).toBe(`in ${key}`);
    },
  );

  test.skipIf(!HERE)("lists more keys than a page has, and only those under a prefix", TEST, async () => {
    const bucket = await newBucket();
    const keys = Array.from({ length: 1005 }, (_, n) => `many/${String(n).padStart(4, "0")}`);
    const { bucket: open } = JSON.parse(
      await sluiceOk(server, "commit", "start", `s3://${bucket}`, "--json"),
    );
    await Promise.all(keys.map((key) => s3.put(open, key, key)));
    await sluiceOk(server, "commit", "finish", `s3://${open}`);
    await s3.put(bucket, "other", "other");
    expect(inByteOrder(await client.list(bucket, "many/"))).toEqual(keys);
  });

  test.skipIf(!HERE)("writes a large object, reads it whole and in ranges", TEST, async () => {
    const place = { bucket: await newBucket(), key: "large.bin" };
    await client.put(large.file, place);
    const head = await s3.ask("HEAD", `/${place.bucket}/${place.key}`);
    expect(head.headers.etag).toBe(large.etag);
    await client.get(place, received);
    expect(fileHash(received)).toBe(large.sha256);
    // Over the end of a chunk of 4 MiB, far into the object, one byte, and the last bytes.
    const mib = 1024 * 1024;
    for (const [first, last] of [
      [4 * mib - 10, 4 * mib + 9],
      [24 * mib, 33 * mib],
      [0, 0],
      [LARGE_BYTES - 5, LARGE_BYTES - 1],
    ] as const) {
      await client.range(place, { first, last, file: received });
      expect(readFileSync(received).equals(fileRange(large.file, { first, last }))).toBe(true);
    }
  });

  test.skipIf(!HERE)("says that there is no such key, and no such bucket", TEST, async () => {
    const bucket = await newBucket();
    const missing = /not ?found|does not exist|no ?such ?(key|bucket)|404/i;
    await expect(got({ bucket, key: "absent" })).rejects.toThrow(missing);
    await expect(got({ bucket: "master.absent", key: "absent" })).rejects.toThrow(missing);
  });

  test.skipIf(!HERE)("reads a tag while its branch goes on, and cannot write there", TEST, async () => {
    const bucket = await newBucket();
    await s3.put(bucket, "a.txt", "first");
    const { version } = await s3.put(bucket, "gone.txt", "gone");
    await sluiceOk(server, "tag", "create", "v1", `${bucket}@${version}`);
    await s3.put(bucket, "a.txt", "second");
    await s3.delete(bucket, "gone.txt");
    const tag = `v1.${bucket}`;
    expect(await got({ bucket: tag, key: "a.txt" })).toBe("first");
    expect(await got({ bucket: tag, key: "gone.txt" })).toBe("gone");
    expect(inByteOrder(await client.list(tag, ""))).toEqual(["a.txt", "gone.txt"]);
    await expect(put("refused", { bucket: tag, key: "b.txt" })).rejects.toThrow();
    expect(await s3.keys(tag)).toEqual(["a.txt", "gone.txt"]);
  });

  test.skipIf(!HERE)("is refused a key below one that is a file, whatever was asked", TEST, async () => {
    const bucket = await newBucket();
    await s3.put(bucket, "file", "a file");
    const refusal = await put("below", { bucket, key: "file/below" }).catch((error) => String(error));
    expect(refusal).toMatch(/PathConflict|400|Bad ?Request|client error/i);
    expect(refusal).not.toMatch(/AlreadyExists/);
    expect(await s3.keys(bucket)).toEqual(["file"]);
  });

  // smart_open has no word for either.
  if (name === "smart_open") return;

  // aws-c-s3 looks at the source by its bare name, which must do as a path of HTTP.
  const copied = ODD_KEYS.filter((key) => name !== "s3torchconnectorclient" || !/[ ?#%]/.test(key));
  test.skipIf(!HERE)("copies and deletes, also what has odd names", TEST, async () => {
    const bucket = await newBucket();
    for (const key of copied) await s3.put(bucket, `from/${key}`, `in ${key}`);
    for (const key of copied) await client.copy({ bucket, key: `from/${key}` }, `to/${key}`);
    for (const key of copied) expect((await s3.get(bucket, `to/${key}`))?.toString()).toBe(`in ${key}`);
    await client.remove(
      bucket,
      copied.map((key) => `from/${key}`),
    );
    // pyarrow keeps the folder of what it deletes, as an object without bytes.
    const left = (await s3.keys(bucket)).filter((key) => !key.endsWith("/"));
    expect(left).toEqual(inByteOrder(copied.map((key) => `to/${key}`)));
  });
});

test.skipIf(!HERE)("obstore puts an object once if it asks for that, however many try", TEST, async () => {
  const bucket = "master.once";
  await s3.createBucket(bucket);
  const clients = Array.from({ length: 4 }, () => pythonObjects(server, "obstore"));
  const outcomes = await Promise.all(
    clients.map(async (client, n) => {
      const file = join(scratch, `once-${n}`);
      writeFileSync(file, `by ${n}`);
      return client.putNew(file, { bucket, key: "once" }).then(
        () => "put",
        (error) => String(error),
      );
    }),
  );
  await Promise.all(clients.map((client) => client.close()));
  const winner = outcomes.indexOf("put");
  expect(outcomes.filter((outcome) => outcome === "put")).toHaveLength(1);
  for (const [n, outcome] of outcomes.entries()) if (n !== winner) expect(outcome).toMatch(/AlreadyExists/);
  expect((await s3.get(bucket, "once"))?.toString()).toBe(`by ${winner}`);
});

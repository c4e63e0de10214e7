import { env, runInDurableObject } from "cloudflare:test";
import { createHash } from "node:crypto";
import { beforeEach, describe, expect, test } from "vitest";
import { branchOf } from "../../branch/support.ts";
import { failure, good, s3 } from "../support.ts";
import { begin, bytes, complete, completed, part, SMALLEST, type Upload } from "./support.ts";

let bucket = "";
let buckets = 0;
beforeEach(async () => {
  bucket = `master.left-${buckets++}`;
  await good(`PUT /${bucket}`);
});

/** Rows of the tables that uploads use. */
async function rows(): Promise<Record<string, number>> {
  const tables = ["uploads", "holds", "multiparts", "parts", "contents", "blobs", "files"];
  return await runInDurableObject(branchOf(bucket), (_, { storage }) =>
    Object.fromEntries(
      tables.map((table) => {
        const [row] = storage.sql.exec<{ n: number }>(`SELECT count(*) AS n FROM ${table}`);
        return [table, row?.n ?? 0];
      }),
    ),
  );
}

const NOTHING = { uploads: 0, holds: 0, multiparts: 0, parts: 0, contents: 0, blobs: 0, files: 0 };

/** Blobs of the branch that are in the store and not condemned, which is to say: deleted soon. */
async function blobs(): Promise<string[]> {
  const branch = branchOf(bucket);
  const condemned = await runInDurableObject(branch, (_, { storage }) =>
    storage.sql.exec<{ blob: string }>("SELECT blob FROM pending_deletions").toArray(),
  );
  const status = await branch.lifecycle.status();
  if (!status.ok) throw new Error(status.reason);
  const gone = new Set(condemned.map(({ blob }) => blob));
  const { objects } = await env.BLOBS.list({ prefix: "b/" });
  return objects.map(({ key }) => key).filter((key) => key.includes(`/${status.uid}/`) && !gone.has(key));
}

/** Three parts, of which one came twice and two are the same. */
async function someParts(upload: Upload): Promise<void> {
  await part(upload, 1, bytes(SMALLEST, 1));
  await part(upload, 1, bytes(SMALLEST, 2));
  await part(upload, 2, bytes(SMALLEST, 2));
  await part(upload, 3, "end");
}

describe("nothing is left", () => {
  test("of an upload that is aborted", async () => {
    const upload = await begin(`/${bucket}/key`);
    await someParts(upload);
    expect(await rows()).toMatchObject({ uploads: 1, multiparts: 1, parts: 3, holds: 2, contents: 2 });
    expect((await good(`DELETE ${upload.target}`)).status).toBe(204);
    expect([await rows(), await blobs()]).toEqual([NOTHING, []]);
    expect(await failure(s3(`DELETE ${upload.target}`))).toMatchObject({ status: 404, Code: "NoSuchUpload" });
  });

  test("of an upload that is aborted while a part of it is on its way", async () => {
    const upload = await begin(`/${bucket}/key`);
    const late = new TransformStream<Uint8Array, Uint8Array>();
    const writer = late.writable.getWriter();
    const answer = s3(`PUT ${upload.target}&partNumber=1`, { body: late.readable });
    await writer.write(bytes(SMALLEST));
    await good(`DELETE ${upload.target}`);
    await writer.close();
    expect(await failure(answer)).toMatchObject({ status: 404, Code: "NoSuchUpload" });
    expect([await rows(), await blobs()]).toEqual([NOTHING, []]);
  });

  const long = bytes(SMALLEST + 10);
  const wrong: [what: string, headers: Record<string, string>, Code: string][] = [
    ["Content-MD5", { "content-md5": "1B2M2Y8AsgTpgAmY7PhCfg==" }, "BadDigest"],
    ["SHA-256", { "x-amz-content-sha256": "0".repeat(64) }, "XAmzContentSHA256Mismatch"],
    ["checksum", { "x-amz-checksum-crc32": "AAAAAA==" }, "BadDigest"],
    ["length, which is too short", { "content-length": String(long.length + 1) }, "IncompleteBody"],
    ["length, which is too long", { "content-length": String(long.length - 1) }, "IncompleteBody"],
  ];

  test.each(
    wrong,
  )("of a part whose %s is wrong, and the earlier part of the number stays", async (_, headers, Code) => {
    const upload = await begin(`/${bucket}/key`);
    const kept = await part(upload, 1, "kept");
    const [before, there] = [await rows(), await blobs()];
    const refused = await failure(s3(`PUT ${upload.target}&partNumber=1`, { body: long, headers }));
    expect(refused).toMatchObject({ status: 400, Code });
    expect([await rows(), await blobs()]).toEqual([before, there]);
    await completed(complete(upload, [kept]));
    expect(await (await good(`GET /${bucket}/key`)).text()).toBe("kept");
  });

  test.each(wrong)("of a PUT whose %s is wrong", async (_, headers, Code) => {
    expect(await failure(s3(`PUT /${bucket}/key`, { body: long, headers }))).toMatchObject({
      status: 400,
      Code,
    });
    expect([await rows(), await blobs()]).toEqual([NOTHING, []]);
  });

  test("of a PUT whose condition does not hold", async () => {
    const headers = { "if-match": "*" };
    expect((await failure(s3(`PUT /${bucket}/key`, { body: long, headers }))).Code).toBe("NoSuchKey");
    expect([await rows(), await blobs()]).toEqual([NOTHING, []]);
  });

  test("of a PUT whose sender goes away", async () => {
    const { readable, writable } = new TransformStream<Uint8Array, Uint8Array>();
    const writer = writable.getWriter();
    const answer = s3(`PUT /${bucket}/key`, { body: readable });
    await writer.write(long);
    await writer.abort(new Error("gone")).catch(() => {});
    expect((await failure(answer)).status).toBe(400);
    expect([await rows(), await blobs()]).toEqual([NOTHING, []]);
  });

  test("but the object of one that was completed and then deleted, in its history", async () => {
    const upload = await begin(`/${bucket}/key`);
    const parts = [await part(upload, 1, bytes(SMALLEST, 1)), await part(upload, 2, "end")];
    await part(upload, 3, "left out");
    const done = await complete(upload, parts);
    await completed(done.clone());
    expect(await rows()).toMatchObject({ uploads: 0, multiparts: 0, parts: 0, holds: 0, contents: 3 });
    await good(`DELETE /${bucket}/key`);
    expect((await blobs()).length).toBe(3);
    const old = await good(`GET /${bucket}/key?versionId=${done.headers.get("x-amz-version-id")}`);
    const read = new Uint8Array(await old.arrayBuffer());
    expect(createHash("sha256").update(read.subarray(0, SMALLEST)).digest("hex")).toBe(
      createHash("sha256").update(bytes(SMALLEST, 1)).digest("hex"),
    );
  });
});

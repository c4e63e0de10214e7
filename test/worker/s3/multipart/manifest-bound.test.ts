import { env } from "cloudflare:test";
import { beforeAll, expect, test } from "vitest";
import type { BranchApi } from "../../../../worker/branch/contract/api.ts";
import { clientOf } from "../../../../worker/objects/facets.ts";
import { good, lowerManifestBound } from "../support.ts";
import { begin, bytes, complete, completed, expectedEtag, MIB, part, SMALLEST, sha256 } from "./support.ts";

const BUCKET = "/master.bound";
const WHOLE = bytes(9 * MIB + 77, 5);
const ETAG = expectedEtag(WHOLE);

// Bytes of JSON: a list of one chunk fits, one of two does not.
lowerManifestBound(500);
beforeAll(async () => {
  await good(`PUT ${BUCKET}`);
});

/** The object is there whole, and so is what lies across its chunks; its list of chunks went to a manifest. */
async function check(key: string): Promise<void> {
  const branch = clientOf<BranchApi>(env.BRANCH.getByName("master.bound"));
  const file = await branch.files.read({ path: key });
  expect(file.ok && file.body.kind).toBe("manifest");
  const get = await good(`GET ${BUCKET}/${key}`);
  expect(get.headers.get("etag")).toBe(ETAG);
  expect(sha256(new Uint8Array(await get.arrayBuffer()))).toEqual(sha256(WHOLE));
  for (const start of [0, 4 * MIB - 5, SMALLEST - 5, 8 * MIB - 5, WHOLE.length - 10]) {
    const range = await good(`GET ${BUCKET}/${key}`, { headers: { range: `bytes=${start}-${start + 9}` } });
    expect(new Uint8Array(await range.arrayBuffer())).toEqual(WHOLE.slice(start, start + 10));
  }
}

test("with a low bound of manifests, a PUT, its copy, and objects in parts of any kind are whole", async () => {
  const put = await good(`PUT ${BUCKET}/put`, { body: WHOLE });
  expect(put.headers.get("etag")).toBe(ETAG);
  await check("put");

  await good(`PUT ${BUCKET}/copy`, { headers: { "x-amz-copy-source": `${BUCKET}/put` } });
  await check("copy");

  for (const size of [SMALLEST, SMALLEST + 1]) {
    const upload = await begin(`${BUCKET}/parts-${size}`);
    const parts = [await part(upload, 1, WHOLE.slice(0, size)), await part(upload, 2, WHOLE.slice(size))];
    expect((await completed(complete(upload, parts))).ETag).toBe(ETAG);
    await check(`parts-${size}`);
  }
});

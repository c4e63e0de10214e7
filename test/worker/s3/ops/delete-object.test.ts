import { beforeAll, describe, expect, test } from "vitest";
import { answer, failure, good, s3, scopedKey, unsigned } from "../support.ts";

const BUCKET = "/master.deleted";
beforeAll(async () => {
  await good(`PUT ${BUCKET}`);
});
const put = (key: string, body = key) => good(`PUT ${BUCKET}/${key}`, { body });
const remove = (key: string, headers: Record<string, string> = {}) =>
  s3(`DELETE ${BUCKET}/${key}`, { headers });

test("a deletion answers the commit that it is, as S3 does a delete marker", async () => {
  await put("gone");
  const { status, headers } = await remove("gone");
  expect([status, headers.get("x-amz-delete-marker")]).toEqual([204, "true"]);
  const version = headers.get("x-amz-version-id");
  expect((await failure(s3(`GET ${BUCKET}/gone?versionId=${version}`))).Code).toBe("MethodNotAllowed");
});

test("a key that is not there makes no commit and no delete marker", async () => {
  const { status, headers } = await remove("never-there");
  expect(status).toBe(204);
  expect([headers.get("x-amz-delete-marker"), headers.get("x-amz-version-id")]).toEqual([null, null]);
});

test("a directory is deleted by its key with the slash, a file below it stays", async () => {
  await put("dir/", "");
  expect((await remove("dir/")).status).toBe(204);
  expect((await s3(`HEAD ${BUCKET}/dir/`)).status).toBe(404);
  await put("full/file");
  expect((await remove("full/")).status).toBe(204);
  expect((await s3(`HEAD ${BUCKET}/full/file`)).status).toBe(200);
});

describe("If-Match", () => {
  test("lets only that content be deleted", async () => {
    const etag = (await put("matched")).headers.get("etag") ?? "";
    expect(await failure(remove("matched", { "if-match": '"other"' }))).toMatchObject({
      status: 412,
      Code: "PreconditionFailed",
    });
    expect((await s3(`HEAD ${BUCKET}/matched`)).status).toBe(200);
    expect((await remove("matched", { "if-match": etag })).status).toBe(204);
    expect((await s3(`HEAD ${BUCKET}/matched`)).status).toBe(404);
  });

  test("of * lets anything be deleted that is there", async () => {
    await put("any");
    expect((await remove("any", { "if-match": "*" })).status).toBe(204);
    expect(await failure(remove("any", { "if-match": "*" }))).toMatchObject({
      status: 404,
      Code: "NoSuchKey",
    });
  });
});

describe("a version", () => {
  test("is erased for good: the one before is current again, and nothing shows it any more", async () => {
    const [one, two] = [await put("erased", "1"), await put("erased", "22")].map((made) =>
      made.headers.get("x-amz-version-id"),
    );
    const { status, headers } = await s3(`DELETE ${BUCKET}/erased?versionId=${two}`);
    expect([status, headers.get("x-amz-version-id"), headers.get("x-amz-delete-marker")]).toEqual([
      204,
      two,
      null,
    ]);
    const head = await good(`HEAD ${BUCKET}/erased`);
    expect([head.headers.get("content-length"), head.headers.get("x-amz-version-id")]).toEqual(["1", one]);
    expect((await failure(s3(`GET ${BUCKET}/erased?versionId=${two}`))).Code).toBe("NoSuchVersion");
    expect((await failure(s3(`GET /${two}.master.deleted/erased`))).Code).toBe("NoSuchKey");
    expect(await (await good(`GET ${BUCKET}?versions&prefix=erased`)).text()).not.toContain(`${two}`);
  });

  test("that is a deletion brings the key back, and says what it was", async () => {
    await put("back");
    const marker = (await remove("back")).headers.get("x-amz-version-id");
    const { status, headers } = await s3(`DELETE ${BUCKET}/back?versionId=${marker}`);
    expect([status, headers.get("x-amz-delete-marker")]).toEqual([204, "true"]);
    expect(await (await good(`GET ${BUCKET}/back`)).text()).toBe("back");
  });

  test("that the key does not have changes nothing", async () => {
    await put("stays");
    const other = (await put("other")).headers.get("x-amz-version-id");
    for (const id of [other, "null", "01ARZ3NDEKTSV4RRFFQ69G5FAV"]) {
      expect((await s3(`DELETE ${BUCKET}/stays?versionId=${id}`)).status).toBe(204);
    }
    expect((await s3(`HEAD ${BUCKET}/stays`)).status).toBe(200);
    expect((await s3(`HEAD ${BUCKET}/other`)).status).toBe(200);
  });
});

describe("a deletion is refused", () => {
  test("for an empty version, for a version under a condition, and for one to a key that may only write", async () => {
    const version = (await put("kept")).headers.get("x-amz-version-id");
    const target = `DELETE ${BUCKET}/kept?versionId=${version}`;
    expect((await failure(s3(`DELETE ${BUCKET}/kept?versionId=`))).Code).toBe("InvalidArgument");
    for (const id of ["%00", "a%0D%0Ab", "%C3%BC"]) {
      for (const method of ["DELETE", "GET"]) {
        expect(await failure(s3(`${method} ${BUCKET}/kept?versionId=${id}`))).toMatchObject({
          status: 400,
          Code: "InvalidArgument",
          Message: expect.stringContaining("versionId"),
        });
      }
    }
    expect((await failure(s3(target, { headers: { "if-match": "*" } }))).Code).toBe("InvalidRequest");
    const key = scopedKey({ level: "write", repos: null });
    expect(await failure(s3(target, { key }))).toMatchObject({
      Code: "AccessDenied",
      Message: expect.stringContaining("needs admin"),
    });
    expect((await s3(`HEAD ${BUCKET}/kept`)).status).toBe(200);
  });

  test("with conditions that S3 does not know here", async () => {
    await put("kept-too");
    for (const name of ["if-none-match", "if-modified-since", "if-unmodified-since", "x-amz-if-match-size"]) {
      expect((await remove("kept-too", { [name]: "x" })).status).toBe(501);
    }
    expect((await s3(`HEAD ${BUCKET}/kept-too`)).status).toBe(200);
  });

  test("without a signature", async () => {
    await put("unsigned");
    expect((await answer(unsigned(`DELETE ${BUCKET}/unsigned`))).status).toBe(403);
    expect((await s3(`HEAD ${BUCKET}/unsigned`)).status).toBe(200);
  });
});

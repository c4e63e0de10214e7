import { AwsClient } from "aws4fetch";
import { beforeAll, describe, expect, test } from "vitest";
import type { Annotation } from "../../../../worker/branch/contract/answers.ts";
import type { CommitEntry } from "../../../../worker/branch/contract/history.ts";
import { readAnnotation } from "../../../../worker/s3/request/annotation.ts";
import {
  answer,
  ENDPOINT,
  failure,
  good,
  ROOT_KEY,
  s3,
  scopedKey,
  signed,
  testContext,
  xml,
} from "../support.ts";

const BUCKET = "/master.noted";
const MESSAGE = "x-sluice-commit-message";
const META = "x-sluice-commit-meta-";
const SAID = { [MESSAGE]: "why", [`${META}run`]: "7" };
const ANNOTATION: Annotation = { key: ROOT_KEY.id, message: "why", meta: { run: "7" } };

beforeAll(async () => {
  await good(`PUT ${BUCKET}`);
});

function branch() {
  return testContext().branch({ repo: "noted", branch: "master" });
}

async function newest(): Promise<CommitEntry | undefined> {
  const log = await branch().history.list({ limit: 1 });
  return log.ok ? log.commits[0] : undefined;
}

/** Begins an upload of one part, which it uploads. */
async function parts(key: string, headers: Record<string, string> = {}) {
  const begun = await xml(good(`POST ${BUCKET}/${key}?uploads`, { headers }));
  const target = `${BUCKET}/${key}?uploadId=${begun.InitiateMultipartUploadResult.UploadId}`;
  const part = await good(`PUT ${target}&partNumber=1`, { body: key });
  const etag = part.headers.get("etag") ?? "";
  const list = `<Part><PartNumber>1</PartNumber><ETag>${etag}</ETag></Part>`;
  return { target, body: `<CompleteMultipartUpload>${list}</CompleteMultipartUpload>` };
}

describe("what the headers of a write say of its commit", () => {
  test.each<[string, (headers: Record<string, string>) => Promise<unknown>]>([
    ["PutObject", (headers) => good(`PUT ${BUCKET}/put`, { body: "1", headers })],
    [
      "PutObject of a long body",
      (headers) => good(`PUT ${BUCKET}/long`, { body: "x".repeat(9000), headers }),
    ],
    [
      "CopyObject",
      (headers) =>
        good(`PUT ${BUCKET}/copy`, { headers: { ...headers, "x-amz-copy-source": `${BUCKET}/put` } }),
    ],
    ["DeleteObject", (headers) => good(`DELETE ${BUCKET}/put`, { headers })],
    [
      "DeleteObjects",
      (headers) =>
        good(`POST ${BUCKET}?delete`, { headers, body: "<Delete><Object><Key>copy</Key></Object></Delete>" }),
    ],
    [
      "CompleteMultipartUpload",
      async (headers) => {
        const { target, body } = await parts("completed");
        await good(`POST ${target}`, { body, headers });
      },
    ],
    [
      "CreateMultipartUpload",
      async (headers) => {
        const { target, body } = await parts("created", headers);
        await good(`POST ${target}`, { body });
      },
    ],
  ])("is kept with the commit of %s, beside the key", async (_, write) => {
    await write(SAID);
    expect((await newest())?.annotation).toEqual(ANNOTATION);
  });

  test("is no metadata of the object; without it, the commit has its key alone", async () => {
    await good(`PUT ${BUCKET}/plain`, { body: "1", headers: { ...SAID, "x-amz-meta-run": "8" } });
    const headers = Object.fromEntries((await good(`HEAD ${BUCKET}/plain`)).headers);
    expect(headers).toMatchObject({ "x-amz-meta-run": "8" });
    expect(Object.keys(headers).filter((name) => name.startsWith("x-sluice"))).toEqual([]);
    const key = scopedKey({ level: "write", repos: ["noted"] });
    await good(`PUT ${BUCKET}/plain`, { body: "2", key });
    expect((await newest())?.annotation).toEqual({ key: key.id });
  });

  test("is kept as it came, and counted in bytes of UTF-8", () => {
    expect(annotationOf({ [MESSAGE]: "Größe → 7 🙂", [`${META}wo`]: "Köln" })).toEqual({
      key: "k",
      message: "Größe → 7 🙂",
      meta: { wo: "Köln" },
    });
    expect(() => annotationOf({ [MESSAGE]: "ä".repeat(1025) })).toThrow("hold 2050 bytes");
    expect(() => annotationOf({ [MESSAGE]: "a\u0001b" })).toThrow("control character");
  });

  test("is refused if it is not signed, by name", async () => {
    for (const name of [MESSAGE, `${META}run`]) {
      const request = await signed(`PUT ${BUCKET}/forged`, { body: "1" });
      request.headers.set(name, "put there on the way");
      expect(await failure(answer(request))).toMatchObject({
        status: 403,
        Code: "AccessDenied",
        Message: expect.stringContaining(`${name} is not signed`),
      });
    }
    const changed = await signed(`PUT ${BUCKET}/forged`, { body: "1", headers: SAID });
    changed.headers.set(MESSAGE, "another");
    expect(await failure(answer(changed))).toMatchObject({ Code: "SignatureDoesNotMatch" });
  });

  test("goes with a presigned URL that names the header, and not in the URL's query", async () => {
    const url = await presigned(`${ENDPOINT}${BUCKET}/given`, { [MESSAGE]: "by url" });
    const send = (headers: Record<string, string>, to = url) =>
      answer(new Request(to, { method: "PUT", body: "1", headers: { "content-length": "1", ...headers } }));
    expect(await failure(send({ [MESSAGE]: "another" }))).toMatchObject({ Code: "SignatureDoesNotMatch" });
    expect(await failure(send({ [MESSAGE]: "by url", [`${META}x`]: "1" }))).toMatchObject({
      Code: "AccessDenied",
      Message: expect.stringContaining(`${META}x is not signed`),
    });
    expect((await send({ [MESSAGE]: "by url" })).status).toBe(200);
    expect((await newest())?.annotation).toMatchObject({ message: "by url" });
    const inQuery = await presigned(`${ENDPOINT}${BUCKET}/given?${MESSAGE}=x`);
    expect(await failure(send({}, inQuery))).toMatchObject({
      Code: "NotImplemented",
      Message: expect.stringContaining(MESSAGE),
    });
  });

  test("of 2048 bytes is kept; of one more it is refused with its size", async () => {
    // 7 bytes are the entry's: its name and value.
    const of = (length: number) => ({ [MESSAGE]: "m".repeat(length), [`${META}four`]: "val" });
    await good(`PUT ${BUCKET}/full`, { body: "1", headers: of(2041) });
    expect((await newest())?.annotation).toMatchObject({ meta: { four: "val" } });
    expect(await failure(s3(`PUT ${BUCKET}/full`, { body: "2", headers: of(2042) }))).toMatchObject({
      status: 400,
      Code: "MetadataTooLarge",
      Message: expect.stringMatching(/hold 2049 bytes.*at most 2048/),
    });
  });

  test.each([
    ["a name that no entry can have", { [`${META}_x`]: "1" }, 400, `${META}_x is not a name`],
    ["an entry without a name", { [META]: "1" }, 400, "is not a name"],
    ["another header of that beginning", { "x-sluice-commit-author": "me" }, 501, "x-sluice-commit-author"],
  ])("is refused if it is %s", async (_, headers, status, text) => {
    const refused = await failure(s3(`PUT ${BUCKET}/bad`, { body: "1", headers }));
    expect(refused).toMatchObject({ status, Message: expect.stringContaining(text) });
  });

  test("is refused where no commit is made: by reads, parts, buckets and open commits", async () => {
    const opened = await branch().openCommits.start({ ttlMs: 100_000 });
    if (!opened.ok) throw new Error(opened.reason);
    const { target } = await parts("refused");
    await good(`PUT ${BUCKET}/read`, { body: "1" });
    for (const line of [`GET ${BUCKET}/read`, "PUT /other.noted", `PUT ${target}&partNumber=1`]) {
      expect(await failure(s3(line, { headers: SAID })), line).toMatchObject({
        status: 501,
        Code: "NotImplemented",
      });
    }
    const open = `/${opened.openCommit.toLowerCase()}.master.noted`;
    for (const line of [`PUT ${open}/a`, `DELETE ${open}/a`, `POST ${open}/a?uploads`]) {
      expect(await failure(s3(line, { headers: SAID })), line).toMatchObject({
        status: 400,
        Code: "InvalidRequest",
        Message: expect.stringContaining("commit finish --message"),
      });
    }
  });
});

function annotationOf(headers: Record<string, string>): Annotation {
  const caller = {
    keyId: "k",
    scope: { level: "root", repos: null },
    payload: { form: "plain", sha256: null },
  } as const;
  return readAnnotation({
    headers: new Map(Object.entries(headers)),
    address: { repo: "r", branch: "b" },
    caller,
  });
}

async function presigned(url: string, headers: Record<string, string> = {}): Promise<string> {
  const client = new AwsClient({
    accessKeyId: ROOT_KEY.id,
    secretAccessKey: ROOT_KEY.secret,
    service: "s3",
    region: "auto",
  });
  const request = await client.sign(url, {
    method: "PUT",
    headers,
    aws: { signQuery: true, allHeaders: true },
  });
  return request.url;
}

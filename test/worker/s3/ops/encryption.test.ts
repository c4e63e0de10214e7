import { env } from "cloudflare:test";
import { beforeAll, describe, expect, test, vi } from "vitest";
import type { Config } from "../../../../worker/env.ts";
import { readConfig } from "../../../../worker/env.ts";
import { PATIENCE_MS } from "../../../../worker/s3/answer/keep-waiting.ts";
import { publicBranch } from "../public/support.ts";
import { type Ask, answer, failure, signed, unsigned, xml } from "../support.ts";

const BUCKET = "/master.sealed";
const SSE = "x-amz-server-side-encryption";
const asked = { [SSE]: "AES256" };

function gateway(config: Partial<Config>) {
  return async (line: string, ask: Ask = {}) => answer(await signed(line, ask), { config });
}
const sealed = gateway({ isEncrypted: true });
const plain = gateway({ isEncrypted: false });

/** The answer of a gateway whose patience is over before any work can be done. */
async function early(line: string, ask: Ask): Promise<Response> {
  const wait = scheduler.wait.bind(scheduler);
  let isOver = false;
  vi.spyOn(scheduler, "wait").mockImplementation(async (ms, options) => {
    if (isOver || ms !== PATIENCE_MS) return await wait(ms, options);
    isOver = true;
  });
  try {
    const response = await sealed(line, ask);
    expect(isOver).toBe(true);
    return response;
  } finally {
    vi.restoreAllMocks();
  }
}

beforeAll(async () => {
  await publicBranch(BUCKET, { key: "x" });
});

/** Every operation whose answer tells how an object or a part lies there; the last one ends the upload. */
async function answers(
  ask: typeof sealed,
  headers: Record<string, string>,
): Promise<readonly (readonly [string, Response])[]> {
  const put = await ask(`PUT ${BUCKET}/put`, { headers, body: "bytes" });
  const copied = await ask(`PUT ${BUCKET}/copy`, {
    headers: { ...headers, "x-amz-copy-source": `${BUCKET}/key` },
  });
  const begun = await ask(`POST ${BUCKET}/parts?uploads`, { headers });
  const { UploadId } = (await xml(begun.clone())).InitiateMultipartUploadResult;
  const target = `${BUCKET}/parts?uploadId=${UploadId}`;
  const part = await ask(`PUT ${target}&partNumber=1`, { body: "part" });
  const partCopied = await ask(`PUT ${target}&partNumber=2`, {
    headers: { "x-amz-copy-source": `${BUCKET}/key` },
  });
  const body = `<CompleteMultipartUpload><Part><PartNumber>1</PartNumber><ETag>${part.headers.get("etag")}</ETag></Part></CompleteMultipartUpload>`;
  return [
    ["PutObject", put],
    ["CopyObject", copied],
    ["CreateMultipartUpload", begun],
    ["UploadPart", part],
    ["UploadPartCopy", partCopied],
    ["CompleteMultipartUpload", await ask(`POST ${target}`, { body })],
    ["GetObject", await ask(`GET ${BUCKET}/key`)],
    ["GetObject of a range", await ask(`GET ${BUCKET}/key`, { headers: { range: "bytes=0-0" } })],
    ["HeadObject", await ask(`HEAD ${BUCKET}/key`)],
    [
      "GetObject without a signature",
      await answer(unsigned(`GET ${BUCKET}/key`), {
        config: ask === sealed ? { isEncrypted: true } : { isEncrypted: false },
      }),
    ],
  ];
}

describe("a gateway on which what is stored lies encrypted", () => {
  test("takes AES256, and says so of each object and part, asked or not", async () => {
    for (const headers of [asked, {}]) {
      for (const [name, response] of await answers(sealed, headers)) {
        expect([name, response.ok, response.headers.get(SSE)]).toEqual([name, true, "AES256"]);
      }
    }
  });

  test("says so as well in a 200 that begins before its work is done", async () => {
    const begun = await xml(sealed(`POST ${BUCKET}/long?uploads`));
    const target = `${BUCKET}/long?uploadId=${begun.InitiateMultipartUploadResult.UploadId}`;
    const headers = { "x-amz-copy-source": `${BUCKET}/key` };
    const copied = await early(`PUT ${target}&partNumber=1`, { headers });
    const { ETag } = (await xml(copied)).CopyPartResult;
    const body = `<CompleteMultipartUpload><Part><PartNumber>1</PartNumber><ETag>${ETag}</ETag></Part></CompleteMultipartUpload>`;
    const completed = await early(`POST ${target}`, { body });
    expect((await xml(completed)).CompleteMultipartUploadResult.Key).toBe("long");
    const copy = await early(`PUT ${BUCKET}/long-copy`, { headers });
    expect((await xml(copy)).CopyObjectResult.ETag).toBe(ETag);
    for (const response of [copied, completed, copy]) expect(response.headers.get(SSE)).toBe("AES256");
  });

  test("says nothing of it where no object is told of", async () => {
    const { etag = "" } = Object.fromEntries((await sealed(`HEAD ${BUCKET}/key`)).headers);
    const lines: [string, Ask?][] = [
      [`GET ${BUCKET}/absent`],
      [`GET ${BUCKET}/key`, { headers: { "if-none-match": etag } }],
      [`GET ${BUCKET}?list-type=2`],
      [`HEAD ${BUCKET}`],
      [`DELETE ${BUCKET}/absent`],
    ];
    for (const [line, ask] of lines) expect((await sealed(line, ask)).headers.get(SSE), line).toBeNull();
  });

  test("takes it as what a copy of an object onto itself changes, as S3 does", async () => {
    const headers = { ...asked, "x-amz-copy-source": `${BUCKET}/key` };
    expect((await sealed(`PUT ${BUCKET}/key`, { headers })).status).toBe(200);
  });

  test.each([
    { [SSE]: "aws:kms" },
    { [SSE]: "aes256" },
    { [SSE]: "aws:kms", [`${SSE}-aws-kms-key-id`]: "x" },
    { [`${SSE}-customer-algorithm`]: "AES256" },
  ])("refuses keys of a KMS or of the client: %j", async (headers) => {
    for (const line of [`PUT ${BUCKET}/refused`, `POST ${BUCKET}/refused?uploads`]) {
      const refused = await failure(sealed(line, { headers, ...(line.startsWith("PUT") && { body: "x" }) }));
      expect(refused).toMatchObject({ status: 501, Code: "NotImplemented" });
    }
    expect((await sealed(`HEAD ${BUCKET}/refused`)).status).toBe(404);
  });

  test("takes no such header where S3 has none", async () => {
    const refused = await failure(sealed(`GET ${BUCKET}/key`, { headers: asked }));
    expect(refused).toMatchObject({ status: 501, Code: "NotImplemented" });
  });
});

describe("a gateway of whose disk nobody says that it encrypts", () => {
  test.each([
    ["PUT", `${BUCKET}/refused`, {}],
    ["PUT", `${BUCKET}/refused`, { "x-amz-copy-source": `${BUCKET}/key` }],
    ["POST", `${BUCKET}/refused?uploads`, {}],
  ])("refuses AES256, with the setting that says so: %s %s %j", async (method, target, more) => {
    const body = method === "PUT" && !("x-amz-copy-source" in more) ? { body: "x" } : {};
    const refused = await failure(plain(`${method} ${target}`, { headers: { ...asked, ...more }, ...body }));
    expect(refused).toMatchObject({ status: 501, Code: "NotImplemented" });
    expect(refused.Message).toContain("SLUICE_DISK_ENCRYPTED=on");
    expect((await plain(`HEAD ${BUCKET}/refused`)).status).toBe(404);
  });

  test("says nothing of encryption", async () => {
    for (const [name, response] of await answers(plain, {})) {
      expect([name, response.ok, response.headers.get(SSE)]).toEqual([name, true, null]);
    }
  });
});

describe("what is stored lies encrypted", () => {
  const DISK = env.CONSOLE as unknown as Fetcher;
  const told = (more: object) => {
    const read = readConfig({ ...env, DISK: undefined, ...more } as never);
    return read.ok ? read.config.isEncrypted : read.problem;
  };

  test("on R2, and on a disk of which that is said; whoever says something else is believed", () => {
    expect(told({})).toBe(true);
    expect(told({ SLUICE_DISK_ENCRYPTED: "off" })).toBe(false);
    expect(told({ DISK })).toBe(false);
    expect(told({ DISK, SLUICE_DISK_ENCRYPTED: "on" })).toBe(true);
    expect(told({ DISK, SLUICE_DISK_ENCRYPTED: "off" })).toBe(false);
  });
});

import { describe, expect, test } from "vitest";
import { handleApi } from "../../worker/api/api.ts";
import { ROUTES } from "../../worker/api/routes.ts";
import { MAX_COMPLETE_XML_BYTES, MAX_XML_BYTES } from "../../worker/s3/limits.ts";
import { makeBranch, ROOT, testContext } from "./api/support.ts";
import { answer, good, signed } from "./s3/support.ts";

const MIB = 1024 * 1024;
/** The largest JSON body that the control API takes. */
const MAX_JSON_BYTES = 16 * MIB;
/** What is on its way: the chunk that showed that it is too much, and one more. */
const ON_ITS_WAY_BYTES = MIB;

/** A body of spaces without end, and how much of it was taken. */
class Endless {
  taken = 0;
  readonly body = new ReadableStream<Uint8Array>(
    {
      pull: (controller) => {
        const chunk = new Uint8Array(256 * 1024).fill(0x20);
        this.taken += chunk.length;
        controller.enqueue(chunk);
      },
    },
    { highWaterMark: 0 },
  );
}

/** Every call of the control API that may have a body. */
const CALLS = Object.entries(ROUTES).flatMap(([path, methods]) =>
  Object.keys(methods)
    .filter((method) => method !== "GET")
    .map((method) => `${method} ${path}`),
);
/** Those that read their body before anything else. */
const TOO_LARGE = ["/pipelines", "/uploads", "/keys", "/runner/heartbeat", "/runner/lease", "/runner/finish"];

async function callApi(call: string, headers: Record<string, string> = {}): Promise<[number, number]> {
  const [method = "", path = ""] = call.split(" ");
  const endless = new Endless();
  const named = path.replace(":repo", "bounded").replace(":branch", "master").replaceAll(/:\w+/g, "none");
  const url = `http://gateway/api/v1${named}`;
  const request = new Request(url, { method, body: endless.body, headers });
  const { status } = await handleApi(request, { context: testContext(), caller: ROOT });
  return [status, endless.taken];
}

describe("a body of the control API", () => {
  test.each(CALLS)("%s takes no more of it than may come", async (call) => {
    await makeBranch({ repo: "bounded", branch: "master" }).catch(() => {});
    const [status, taken] = await callApi(call);
    expect(taken).toBeLessThanOrEqual(MAX_JSON_BYTES + ON_ITS_WAY_BYTES);
    if (TOO_LARGE.some((path) => call === `POST ${path}`)) expect([call, status]).toEqual([call, 413]);
  });

  test.each(TOO_LARGE)("POST %s takes nothing of one that says that it is too large", async (path) => {
    const headers = { "content-length": String(MAX_JSON_BYTES + 1) };
    expect(await callApi(`POST ${path}`, headers)).toEqual([413, 0]);
  });
});

describe("a body of an S3 operation that reads it whole", () => {
  async function uploadId(): Promise<string> {
    const created = await (await good("POST /master.bounded-s3/key?uploads")).text();
    return /<UploadId>(.*)<\/UploadId>/.exec(created)?.[1] ?? "";
  }

  test.each([
    ["CreateBucket", MAX_XML_BYTES, async () => "PUT /master.bounded-new"],
    ["DeleteObjects", MAX_XML_BYTES, async () => "POST /master.bounded-s3?delete"],
    [
      "CompleteMultipartUpload",
      MAX_COMPLETE_XML_BYTES,
      async () => `POST /master.bounded-s3/key?uploadId=${await uploadId()}`,
    ],
  ])("%s takes no more of it than may come, and nothing if it says how much", async (_, maxBytes, lineOf) => {
    await good("PUT /master.bounded-s3").catch(() => {});
    const headers = { "x-amz-content-sha256": "UNSIGNED-PAYLOAD" };
    const line = await lineOf();
    const unsaid = new Endless();
    const refused = await answer(await signed(line, { headers, body: unsaid.body }));
    expect(await refused.text()).toContain("MaxMessageLengthExceeded");
    expect(unsaid.taken).toBeGreaterThan(maxBytes);
    expect(unsaid.taken).toBeLessThanOrEqual(maxBytes + ON_ITS_WAY_BYTES);

    const said = new Endless();
    const more = { ...headers, "content-length": String(maxBytes + 1) };
    const unread = await answer(await signed(line, { headers: more, body: said.body }));
    expect(await unread.text()).toContain("MaxMessageLengthExceeded");
    expect(said.taken).toBe(0);
  });
});

describe("a body that becomes content", () => {
  test("is taken no further than the size that was said", async () => {
    await makeBranch({ repo: "bounded-put", branch: "master" });
    const endless = new Endless();
    const opened = await handleApi(
      new Request("http://gateway/api/v1/uploads", {
        method: "POST",
        body: JSON.stringify({ repo: "bounded-put", branch: "master" }),
      }),
      { context: testContext(), caller: ROOT },
    );
    const { upload } = (await opened.json()) as { upload: string };
    const url = `http://gateway/api/v1/uploads/${upload}/contents?digest=${"0".repeat(64)}&size=1000`;
    const request = new Request(url, { method: "PUT", body: endless.body });
    const { status } = await handleApi(request, { context: testContext(), caller: ROOT });
    expect(status).toBe(400);
    expect(endless.taken).toBeLessThanOrEqual(ON_ITS_WAY_BYTES);
  });
});

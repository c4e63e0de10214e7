import { describe, expect, test } from "vitest";
import { handleApi } from "../../worker/api/api.ts";
import { ROUTES, SMALL_BODY } from "../../worker/api/routes.ts";
import { MAX_COMPLETE_XML_BYTES, MAX_XML_BYTES } from "../../worker/s3/limits.ts";
import { makeBranch, ROOT, testContext } from "./api/support.ts";
import { answer, good, signed } from "./s3/support.ts";

const MIB = 1024 * 1024;
/** The largest JSON body that a call takes. */
function maxJsonBytes(call: string): number {
  const [method = "", path = ""] = call.split(" ");
  return (ROUTES[path]?.[method]?.body ?? SMALL_BODY).bytes;
}
/** What is on its way: the chunk that showed that it is too much, one more, and what is still taken of a client that sends on. */
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

/** The id of an upload to the branch that these tests make. */
const UPLOAD = "master.bounded.01ARZ3NDEKTSV4RRFFQ69G5FAV";

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
    expect(taken).toBeLessThanOrEqual(maxJsonBytes(call) + ON_ITS_WAY_BYTES);
    if (TOO_LARGE.some((path) => call === `POST ${path}`)) expect([call, status]).toEqual([call, 413]);
  });

  test("is bounded by what its call can be about: few take more than 64 KiB", () => {
    const large = CALLS.filter((call) => maxJsonBytes(call) > 64 * 1024);
    expect(large.sort()).toEqual([
      "POST /keys/import",
      "POST /pipelines",
      "POST /repos/:repo/branches/:branch/commits",
      "POST /repos/:repo/branches/:branch/fsck",
      "POST /repos/:repo/branches/:branch/imports",
      "POST /repos/:repo/branches/:branch/imports/:import/commits",
      "POST /repos/:repo/branches/:branch/imports/:import/files",
      "POST /repos/:repo/branches/:branch/imports/:import/tags",
      "POST /runner/finish",
      "POST /runner/logs",
      "POST /uploads/:upload/compose",
      "POST /uploads/:upload/contents",
      "POST /uploads/:upload/reserve",
    ]);
  });

  // Each is within the bytes of its call. They are refused by one look at their bytes: to parse and to check them, and to
  // name each fault, would take seconds in which nobody else is served.
  test.each([
    ["POST /pipelines", '{"inputs":[', "0,"],
    ["POST /repos/:repo/branches/:branch/commits", '{"operations":[', "{},"],
    ["POST /runner/finish", '{"outcomes":[', "[],"],
    ["POST /runner/logs", '{"entries":[', "{},"],
    ["POST /uploads/:upload/contents", '{"contents":[', "1,"],
    ["POST /uploads/:upload/reserve", '{"contents":[', "1,"],
    ["POST /keys", '{"repos":[', "1,"],
  ])("%s is refused before it is parsed if it holds too many values", async (call, start, value) => {
    const [method = "", path = ""] = call.split(" ");
    const room = maxJsonBytes(call) - start.length;
    const body = start + value.repeat(Math.floor(room / value.length));
    await makeBranch({ repo: "bounded", branch: "master" }).catch(() => {});
    const named = path.replace(":repo", "bounded").replace(":branch", "master").replaceAll(/:\w+/g, UPLOAD);
    const request = new Request(`http://gateway/api/v1${named}`, { method, body });
    const answered = await handleApi(request, { context: testContext(), caller: ROOT });
    expect(await answered.json()).toMatchObject({
      error: { code: "BodyTooLarge", message: expect.stringContaining("too much") },
    });
  });

  test.each(
    CALLS.filter((call) => TOO_LARGE.some((path) => call === `POST ${path}`)),
  )("%s is refused before it is parsed if it nests too deep", async (call) => {
    const [method, path] = call.split(" ");
    const body = "[".repeat(17) + "]".repeat(17);
    const request = new Request(`http://gateway/api/v1${path}`, { method: method ?? "", body });
    const answered = await handleApi(request, { context: testContext(), caller: ROOT });
    expect(await answered.json()).toMatchObject({
      error: { code: "InvalidRequest", message: expect.stringContaining("more than 16 deep") },
    });
  });

  // What does not parse shows that nothing is parsed.
  test.each(
    CALLS.filter((call) => TOO_LARGE.some((path) => call === `POST ${path}`)),
  )("%s is refused before it is parsed if an object has more than 100 fields", async (call) => {
    const [method, path] = call.split(" ");
    const body = `{${Array.from({ length: 101 }, (_, n) => `"k${n}":0`).join()}`;
    const request = new Request(`http://gateway/api/v1${path}`, { method: method ?? "", body });
    const answered = await handleApi(request, { context: testContext(), caller: ROOT });
    expect(await answered.json()).toMatchObject({
      error: { code: "InvalidRequest", message: expect.stringContaining("more than 100 fields") },
    });
  });

  test.each(TOO_LARGE)("POST %s takes nothing of one that says that it is too large", async (path) => {
    const headers = { "content-length": String(maxJsonBytes(`POST ${path}`) + 1) };
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

import { AwsClient } from "aws4fetch";
import { beforeAll, describe, expect, test } from "vitest";
import { answer, ENDPOINT, good, ROOT_KEY, s3 } from "../support.ts";
import { anybody, publicBranch } from "./support.ts";

const OPEN = "/master.cached";
const FOREVER = "public, max-age=31536000, immutable";
const EXPIRES = "Thu, 01 Jan 2037 00:00:00 GMT";
const ASK = "private, no-cache";

beforeAll(async () => {
  await publicBranch(OPEN, { plain: "a" });
  await good(`PUT ${OPEN}/forever`, { body: "a", headers: { "cache-control": FOREVER } });
  await good(`PUT ${OPEN}/expires`, { body: "a", headers: { expires: EXPIRES } });
});

/** The answer to what anybody may ask who was given the address. */
async function presigned(line: string, headers: Record<string, string> = {}): Promise<Response> {
  const [method = "", target = ""] = line.split(" ");
  const client = new AwsClient({
    accessKeyId: ROOT_KEY.id,
    secretAccessKey: ROOT_KEY.secret,
    service: "s3",
    region: "auto",
  });
  const { url } = await client.sign(ENDPOINT + target, { method, aws: { signQuery: true } });
  return await answer(new Request(url, { method, headers }));
}

const caching = ({ headers }: Response) => [headers.get("cache-control"), headers.get("expires")];

describe.each([
  ["unsigned", anybody],
  ["presigned", presigned],
])("an answer to a request that is %s", (_, ask) => {
  test.each([
    "GET",
    "HEAD",
  ])("may not be kept without asking again, if the object says nothing (%s)", async (method) => {
    const whole = await ask(`${method} ${OPEN}/plain`);
    expect([whole.status, ...caching(whole)]).toEqual([200, ASK, null]);
    const range = await ask(`${method} ${OPEN}/plain`, { range: "bytes=0-0" });
    expect([range.status, ...caching(range)]).toEqual([206, ASK, null]);
    const etag = whole.headers.get("etag") ?? "";
    const again = await ask(`${method} ${OPEN}/plain`, { "if-none-match": etag });
    expect([again.status, ...caching(again)]).toEqual([304, ASK, null]);
  });

  test("says what the object says, also with a 304", async () => {
    expect(caching(await ask(`GET ${OPEN}/expires`))).toEqual([null, EXPIRES]);
    const whole = await ask(`GET ${OPEN}/forever`);
    expect(caching(whole)).toEqual([FOREVER, null]);
    const etag = whole.headers.get("etag") ?? "";
    expect(caching(await ask(`GET ${OPEN}/forever`, { "if-none-match": etag }))).toEqual([FOREVER, null]);
  });

  test("is not kept either if it is a refusal or a listing: what is not there now may come", async () => {
    const absent = await ask(`GET ${OPEN}/absent`);
    expect([absent.status, ...caching(absent)]).toEqual([404, ASK, null]);
    const listing = await ask(`GET ${OPEN}?list-type=2`);
    expect([listing.status, ...caching(listing)]).toEqual([200, ASK, null]);
  });
});

test("a presigned URL can say itself how its answer may be kept", async () => {
  const kept = await presigned(`GET ${OPEN}/plain?response-cache-control=max-age%3D60`);
  expect(caching(kept)).toEqual(["max-age=60", null]);
});

test("an answer to a request that is signed in a header has what the object has, since tools copy it", async () => {
  expect(caching(await good(`GET ${OPEN}/plain`))).toEqual([null, null]);
  expect(caching(await good(`HEAD ${OPEN}/forever`))).toEqual([FOREVER, null]);
  expect(caching(await s3(`GET ${OPEN}/absent`))).toEqual([null, null]);
});

import { env } from "cloudflare:test";
import { AwsClient } from "aws4fetch";
import { afterEach, describe, expect, test, vi } from "vitest";
import type { Env } from "../../worker/env.ts";
import gateway from "../../worker/index.ts";

const ID = env.SLUICE_ACCESS_KEY_ID;
const signer = new AwsClient({
  accessKeyId: ID,
  secretAccessKey: env.SLUICE_SECRET_ACCESS_KEY,
  service: "s3",
  region: "auto",
  retries: 0,
});
const LOGGED = { ...env, SLUICE_REQUEST_LOG: "on" } as unknown as Env;

/** The answer to a request, and the lines that the log has of it. */
async function send(
  target: string,
  { body, headers = {}, by = signer, on = LOGGED }: Partial<Sent> = {},
): Promise<{ answer: Response; lines: Record<string, unknown>[] }> {
  const [method = "", path = ""] = target.split(" ");
  const request = await by.sign(`http://gateway${path}`, { method, headers, ...(body && { body }) });
  const log = vi.spyOn(console, "log").mockImplementation(() => {});
  const answer = await gateway.fetch(request as Parameters<typeof gateway.fetch>[0], on);
  const lines = log.mock.calls.map(([line]) => JSON.parse(String(line)));
  log.mockRestore();
  return { answer, lines };
}

interface Sent {
  readonly body: string;
  readonly headers: Record<string, string>;
  readonly by: AwsClient;
  readonly on: Env;
}

afterEach(() => {
  vi.restoreAllMocks();
});

describe("the log of requests", () => {
  test("has one line for a request of S3: what it was, whose, how it ended, how much it moved", async () => {
    await send("PUT /logged");
    const headers = { "user-agent": `some-tool/${"1".repeat(200)}`, "content-length": "5" };
    const put = await send("PUT /logged/secret-name.txt", { body: "hello", headers });
    expect(put.lines).toEqual([
      {
        event: "request",
        requestId: put.answer.headers.get("x-amz-request-id"),
        method: "PUT",
        operation: "PutObject",
        bucket: "master.logged",
        status: 200,
        bytesIn: 5,
        ms: expect.any(Number),
        key: ID,
        agent: headers["user-agent"].slice(0, 120),
      },
    ]);
    const [get] = (await send("GET /master.logged/secret-name.txt")).lines;
    expect(get).toMatchObject({ operation: "GetObject", bucket: "master.logged", status: 200, bytesOut: 5 });
    const [head] = (await send("HEAD /logged/secret-name.txt")).lines;
    expect(head).toMatchObject({ operation: "HeadObject", status: 200 });
    expect(head).not.toHaveProperty("bytesOut");
  });

  test("has the code of an error, also of one that the signature ends", async () => {
    const [absent] = (await send("GET /logged-nowhere/key")).lines;
    expect(absent).toMatchObject({ operation: "GetObject", status: 404, code: "NoSuchBucket", key: ID });
    const by = new AwsClient({
      accessKeyId: ID,
      secretAccessKey: "another-secret",
      service: "s3",
      region: "auto",
    });
    const [refused, ...others] = (await send("GET /logged-nowhere/key", { by })).lines;
    expect(refused).toMatchObject({ status: 403, code: "SignatureDoesNotMatch" });
    expect(refused).not.toHaveProperty("key");
    expect(others).toEqual([]);
  });

  test("has the route of a request to the control API, and its bucket", async () => {
    const [listed] = (await send("GET /api/v1/repos")).lines;
    expect(listed).toMatchObject({ operation: "GET /repos", status: 200, key: ID });
    const [absent] = (await send("GET /api/v1/repos/none/branches/other")).lines;
    expect(absent).toMatchObject({
      operation: "GET /repos/:repo/branches/:branch",
      bucket: "other.none",
      status: 404,
      code: "NoSuchBranch",
    });
  });

  test("has neither a secret, nor a signature, nor the name of a file", async () => {
    const { lines } = await send("PUT /logged/the-name-of-a-file", { body: "hello" });
    const text = JSON.stringify(lines);
    expect(lines).toHaveLength(1);
    expect(text).not.toContain("the-name-of-a-file");
    expect(text).not.toContain(env.SLUICE_SECRET_ACCESS_KEY);
    expect(text).not.toMatch(/Signature=|Credential=/);
  });

  test("has no line of GET /healthz and GET /readyz, and none at all if it is off", async () => {
    expect((await send("GET /healthz")).lines).toEqual([]);
    expect((await send("GET /readyz")).lines).toEqual([]);
    const on = { ...env, SLUICE_REQUEST_LOG: "off" } as unknown as Env;
    expect((await send("GET /api/v1/repos", { on })).lines).toEqual([]);
  });
});

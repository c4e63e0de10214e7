import { describe, expect, test } from "vitest";
import { handleApi } from "../../../worker/api/api.ts";
import { failed, makeBranch, paths, ROOT, signedBody, testContext } from "./support.ts";

const text = (value: string) => Uint8Array.from(new TextEncoder().encode(value));

async function sha256(bytes: Uint8Array<ArrayBuffer>): Promise<string> {
  const hash = new Uint8Array(await crypto.subtle.digest("SHA-256", bytes));
  return [...hash].map((byte) => byte.toString(16).padStart(2, "0")).join("");
}

describe("the JSON body of a request", () => {
  test("that is not JSON, not UTF-8 or not there is refused", async () => {
    for (const body of [text("{"), text(""), Uint8Array.of(0x22, 0xff, 0x22), text("{}{}")])
      expect(await failed("POST /uploads", { body })).toMatchObject({ status: 400, code: "InvalidRequest" });
    expect(await failed("POST /uploads")).toMatchObject({ status: 400, code: "InvalidRequest" });
  });

  test("must have the SHA-256 that was signed", async () => {
    await makeBranch({ repo: "signed", branch: "master" });
    const body = text('{"repo":"signed","branch":"none"}');
    const wrong = signedBody(await sha256(text("other")));
    expect(await failed("POST /uploads", { body, caller: wrong })).toMatchObject({
      status: 400,
      message: expect.stringContaining("SHA-256"),
    });
    const right = signedBody(await sha256(body));
    expect(await failed("POST /uploads", { body, caller: right })).toMatchObject({ code: "NoSuchBranch" });
  });

  test("is refused when it is too large, whether it says so or not", async () => {
    const headers = { "content-length": String(17 * 1024 * 1024) };
    expect(await failed("POST /uploads", { body: {}, headers })).toMatchObject({
      status: 413,
      code: "BodyTooLarge",
    });
    const endless = new ReadableStream<Uint8Array>({
      pull: (controller) => controller.enqueue(new Uint8Array(256 * 1024).fill(0x20)),
    });
    const request = new Request("http://gateway/api/v1/uploads", { method: "POST", body: endless });
    expect((await handleApi(request, { context: testContext(), caller: ROOT })).status).toBe(413);
  });

  test("that breaks off is the client's failure", async () => {
    const broken = new ReadableStream<Uint8Array>({
      start(controller) {
        controller.enqueue(text('{"repo":'));
      },
      pull: (controller) => controller.error(new Error("gone")),
    });
    const request = new Request("http://gateway/api/v1/uploads", { method: "POST", body: broken });
    expect((await handleApi(request, { context: testContext(), caller: ROOT })).status).toBe(408);
  });

  test("in aws-chunked framing is refused, signed or not", async () => {
    const key = {
      key: { sign: () => new Uint8Array(32) },
      time: "20260101T000000Z",
      scope: "s",
      seed: "0",
    };
    for (const signing of [null, key]) {
      const caller = { payload: { form: "aws-chunked", signing, trailer: "none" } } as const;
      const error = await failed("POST /uploads", { body: text("2\r\n{}\r\n0\r\n\r\n"), caller });
      expect(error).toMatchObject({ status: 400, code: "InvalidRequest" });
      expect(error.message).toContain("aws-chunked");
    }
  });

  test("is held to its schema: every problem is named by its path", async () => {
    const error = await failed("POST /uploads", { body: { repo: "a.b", brunch: "x" } });
    expect(error).toMatchObject({ status: 400, code: "InvalidRequest" });
    expect(paths(error)).toEqual(["branch", "brunch", "repo"]);
  });

  test("names the problem inside the operation that fits best", async () => {
    const upload = "master.r.U";
    const operations = [{ delete: "a" }, { put: "b", digest: "xyz", size: 1 }, { delete: "c", put: 1 }, {}];
    const error = await failed("POST /repos/r/branches/master/commits", { body: { upload, operations } });
    expect(error.status).toBe(400);
    expect(paths(error)).toEqual(["operations[1].digest", "operations[2].put", "operations[3].delete"]);
  });
});

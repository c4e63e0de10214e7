import { describe, expect, test } from "vitest";
import { S3Error } from "../../../worker/s3/answer/errors.ts";
import { keepWaiting } from "../../../worker/s3/answer/keep-waiting.ts";
import { renderError } from "../../../worker/s3/answer/render-error.ts";
import { xmlAnswer } from "../../../worker/s3/answer/xml.ts";
import { failure, xml } from "./support.ts";

const fail = (error: unknown) =>
  renderError(error, { method: "POST", resource: "/r", requestId: "id", event: {} });
/** So short that what has not come yet is late. */
const HASTY = { fail, patienceMs: 1, intervalMs: 1 };

describe("an answer that comes soon", () => {
  test("goes out as it is", async () => {
    const answer = new Response("x", { status: 201 });
    expect(await keepWaiting(Promise.resolve(answer), { fail })).toBe(answer);
  });

  test("keeps its error", async () => {
    const error = new S3Error("InvalidPart");
    const caught = await keepWaiting(Promise.reject(error), { fail }).catch((reason: unknown) => reason);
    expect(caught).toBe(error);
  });
});

describe("an answer that takes long", () => {
  /** The body as it comes: the document's beginning, one byte of waiting, and the rest. */
  async function comes(
    settle: (resolve: (answer: Response) => void, reject: (error: unknown) => void) => void,
  ) {
    const { promise, resolve, reject } = Promise.withResolvers<Response>();
    const response = await keepWaiting(promise, HASTY);
    const reader = response.body?.pipeThrough(new TextDecoderStream()).getReader();
    let text = "";
    while (!text.endsWith(" ")) text += (await reader?.read())?.value ?? "";
    settle(resolve, reject);
    for (let step = await reader?.read(); step?.done === false; step = await reader?.read())
      text += step.value;
    return { response, text };
  }

  test("keeps its client with white space, and is a good document in the end", async () => {
    const { response, text } = await comes((resolve) => resolve(xmlAnswer("Root", { Tag: "value" })));
    expect([response.status, response.headers.get("content-type")]).toEqual([200, "application/xml"]);
    expect(text).toMatch(
      /^<\?xml version="1.0" encoding="UTF-8"\?>\n +<Root [^>]*><Tag>value<\/Tag><\/Root>$/,
    );
    expect((await xml(new Response(text))).Root).toEqual({ Tag: "value" });
  });

  test("tells of an error inside the 200", async () => {
    const { response, text } = await comes((_, reject) => reject(new S3Error("InvalidPart")));
    expect(response.status).toBe(200);
    expect(await failure(new Response(text))).toMatchObject({ Code: "InvalidPart", RequestId: "id" });
  });

  test("is worked out to the end where the client leaves", async () => {
    const { promise, resolve } = Promise.withResolvers<Response>();
    const answer = xmlAnswer("Root", {});
    let asked = false;
    const response = await keepWaiting(
      promise.then((done) => {
        asked = true;
        return done;
      }),
      HASTY,
    );
    await response.body?.cancel();
    resolve(answer);
    await promise;
    expect(asked).toBe(true);
  });
});

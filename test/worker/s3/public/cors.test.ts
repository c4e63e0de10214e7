import { beforeAll, describe, expect, test, vi } from "vitest";
import { BranchSettingsTable } from "../../../../worker/catalogue/branch-settings.ts";
import { openAgain } from "../open-commits/support.ts";
import { failure, good, s3, scopedKey, xml } from "../support.ts";
import { anybody, publicBranch, putAll } from "./support.ts";

const BUCKET = "/master.cors";
const PAGE = "https://app.example";
const VARY = "Origin, Access-Control-Request-Headers, Access-Control-Request-Method";
const RULE = `<CORSRule><ID>first</ID><AllowedHeader>x-amz-*</AllowedHeader><AllowedHeader>content-type</AllowedHeader><AllowedMethod>GET</AllowedMethod><AllowedMethod>PUT</AllowedMethod><AllowedOrigin>https://*.example</AllowedOrigin><ExposeHeader>ETag</ExposeHeader><MaxAgeSeconds>3000</MaxAgeSeconds></CORSRule>`;

const rules = (...texts: string[]): string =>
  `<CORSConfiguration xmlns="http://s3.amazonaws.com/doc/2006-03-01/">${texts.join("")}</CORSConfiguration>`;
const putRules = (bucket: string, ...texts: string[]) => s3(`PUT ${bucket}?cors`, { body: rules(...texts) });
const preflight = (target: string, headers: Record<string, string> = {}) =>
  anybody(`OPTIONS ${target}`, { origin: PAGE, "access-control-request-method": "PUT", ...headers });
const least = (more = ""): string =>
  `<CORSRule><AllowedMethod>GET</AllowedMethod><AllowedOrigin>*</AllowedOrigin>${more}</CORSRule>`;

beforeAll(async () => {
  await good(`PUT ${BUCKET}`);
  await putAll(BUCKET, { key: "x" });
  await good(`PUT ${BUCKET}?cors`, { body: rules(RULE) });
});

describe("the rules of a bucket", () => {
  test("are given back as they were put, and replaced and deleted as a whole", async () => {
    const bucket = "/master.rules";
    await good(`PUT ${bucket}`);
    expect(await failure(s3(`GET ${bucket}?cors`))).toMatchObject({
      status: 404,
      Code: "NoSuchCORSConfiguration",
    });
    expect((await putRules(bucket, RULE, least())).status).toBe(200);
    const text = await (await good(`GET ${bucket}?cors`)).text();
    expect(text).toContain(RULE + least());
    expect((await s3(`PUT ${bucket}?cors`, { body: text })).status).toBe(200);
    expect((await putRules(bucket, least())).status).toBe(200);
    const { CORSConfiguration } = await xml(good(`GET ${bucket}?cors`));
    expect(CORSConfiguration.CORSRule).toEqual({ AllowedMethod: "GET", AllowedOrigin: "*" });
    expect((await s3(`DELETE ${bucket}?cors`)).status).toBe(204);
    expect((await s3(`DELETE ${bucket}?cors`)).status).toBe(204);
    expect((await s3(`GET ${bucket}?cors`)).status).toBe(404);
  });

  test("end with the branch", async () => {
    const bucket = "/master.ended";
    await good(`PUT ${bucket}`);
    await putRules(bucket, RULE);
    expect((await preflight(`${bucket}/key`)).status).toBe(200);
    await good(`DELETE ${bucket}`);
    expect((await preflight(`${bucket}/key`)).status).toBe(403);
    await good(`PUT ${bucket}`);
    expect((await preflight(`${bucket}/key`)).status).toBe(403);
    expect((await s3(`GET ${bucket}?cors`)).status).toBe(404);
  });

  test("are 100 at most, in 64 KiB", async () => {
    const hundred = Array.from({ length: 100 }, () => least());
    expect((await putRules(BUCKET, ...hundred)).status).toBe(200);
    const many = await failure(putRules(BUCKET, ...hundred, least()));
    expect(many).toMatchObject({
      status: 400,
      Code: "InvalidRequest",
      Message: expect.stringContaining("100"),
    });
    const long = await failure(putRules(BUCKET, least(`<ID>${"x".repeat(64 * 1024)}</ID>`)));
    expect(long).toMatchObject({ status: 400, Code: "MaxMessageLengthExceeded" });
    await good(`PUT ${BUCKET}?cors`, { body: rules(RULE) });
  });

  test.each([
    ["no rule", rules(), "MalformedXML", "CORSRule"],
    ["no XML", "nonsense", "MalformedXML", ""],
    ["another root", "<Other/>", "MalformedXML", "CORSConfiguration"],
    ["another tag", rules("<Rule/>"), "MalformedXML", "Rule"],
    ["another tag in a rule", rules(least("<Allowed>x</Allowed>")), "MalformedXML", "Allowed"],
    [
      "no method",
      rules("<CORSRule><AllowedOrigin>*</AllowedOrigin></CORSRule>"),
      "MalformedXML",
      "AllowedMethod",
    ],
    [
      "no origin",
      rules("<CORSRule><AllowedMethod>GET</AllowedMethod></CORSRule>"),
      "MalformedXML",
      "AllowedOrigin",
    ],
    ["an empty origin", rules(least("<AllowedOrigin></AllowedOrigin>")), "MalformedXML", "AllowedOrigin"],
    [
      "an origin of tags",
      rules(least("<AllowedOrigin><A>x</A></AllowedOrigin>")),
      "MalformedXML",
      "AllowedOrigin",
    ],
    [
      "two ages",
      rules(least("<MaxAgeSeconds>1</MaxAgeSeconds><MaxAgeSeconds>2</MaxAgeSeconds>")),
      "MalformedXML",
      "MaxAgeSeconds",
    ],
    ["an age of a word", rules(least("<MaxAgeSeconds>soon</MaxAgeSeconds>")), "MalformedXML", "'soon'"],
    ["an age below 0", rules(least("<MaxAgeSeconds>-1</MaxAgeSeconds>")), "MalformedXML", "'-1'"],
    [
      "a method that S3 does not have",
      rules(least("<AllowedMethod>OPTIONS</AllowedMethod>")),
      "InvalidRequest",
      "OPTIONS",
    ],
    ["a method in lower case", rules(least("<AllowedMethod>get</AllowedMethod>")), "InvalidRequest", "get"],
    [
      "an origin with two wildcards",
      rules(least("<AllowedOrigin>http://*.*.x</AllowedOrigin>")),
      "InvalidRequest",
      "http://*.*.x",
    ],
    [
      "a header with two wildcards",
      rules(least("<AllowedHeader>*-*</AllowedHeader>")),
      "InvalidRequest",
      "*-*",
    ],
    ["a header that is no name", rules(least("<AllowedHeader>a b</AllowedHeader>")), "InvalidRequest", "a b"],
    [
      "an exposed header with a wildcard",
      rules(least("<ExposeHeader>x-*</ExposeHeader>")),
      "InvalidRequest",
      "x-*",
    ],
    [
      "an exposed header that is no name",
      rules(least("<ExposeHeader>a:b</ExposeHeader>")),
      "InvalidRequest",
      "a:b",
    ],
    ["an ID of 256 characters", rules(least(`<ID>${"x".repeat(256)}</ID>`)), "InvalidRequest", "256"],
  ])("are refused with %s, and those of before stay", async (_, body, Code, named) => {
    const refused = await failure(s3(`PUT ${BUCKET}?cors`, { body }));
    expect(refused).toMatchObject({ status: 400, Code });
    expect(refused.Message).toContain(named);
    expect(await (await good(`GET ${BUCKET}?cors`)).text()).toContain(RULE);
  });

  test("are those of the branch, not of an open commit", async () => {
    const { bucket } = await openAgain("cors");
    for (const method of ["GET", "PUT", "DELETE"]) {
      const refused = await failure(
        s3(`${method} ${bucket}?cors`, method === "PUT" ? { body: rules(RULE) } : {}),
      );
      expect(refused).toMatchObject({ status: 400, Code: "InvalidRequest" });
    }
    expect((await preflight(`${bucket}/key`)).status).toBe(200);
  });

  test("are put where there is a branch, by keys of level admin", async () => {
    expect(await failure(putRules("/master.no-cors", RULE))).toMatchObject({
      status: 404,
      Code: "NoSuchBucket",
    });
    const key = scopedKey({ level: "write", repos: ["cors"] });
    for (const method of ["GET", "PUT", "DELETE"]) {
      expect((await s3(`${method} ${BUCKET}?cors`, { key })).status).toBe(403);
    }
  });
});

describe("a preflight", () => {
  test("is answered by the rules, for a key that is there or not, without a signature", async () => {
    for (const target of [
      `${BUCKET}/key`,
      `${BUCKET}/absent`,
      BUCKET,
      `${BUCKET}/k?X-Amz-Signature=0&X-Amz-Algorithm=x`,
    ]) {
      const answer = await preflight(target, {
        "access-control-request-headers": "content-type, x-amz-date",
      });
      expect(answer.status).toBe(200);
      expect(Object.fromEntries([...answer.headers].filter(([name]) => name !== "x-amz-request-id"))).toEqual(
        {
          "access-control-allow-origin": PAGE,
          "access-control-allow-credentials": "true",
          "access-control-allow-methods": "GET, PUT",
          "access-control-allow-headers": "content-type, x-amz-date",
          "access-control-expose-headers": "ETag",
          "access-control-max-age": "3000",
          vary: VARY,
        },
      );
    }
  });

  test.each([
    ["a page from elsewhere", { origin: "https://evil.test" }],
    ["a method that is not allowed", { "access-control-request-method": "DELETE" }],
    ["a header that is not allowed", { "access-control-request-headers": "x-custom" }],
  ])("is refused for %s", async (_, headers) => {
    const refused = await preflight(`${BUCKET}/key`, headers);
    expect(refused.headers.get("access-control-allow-origin")).toBeNull();
    expect(await failure(refused)).toMatchObject({
      status: 403,
      Code: "AccessForbidden",
      Message: expect.stringContaining("CORSResponse: This CORS request is not allowed"),
    });
  });

  test("hears the same of a branch without rules, be it private, public or not there", async () => {
    await good("PUT /master.plain");
    await publicBranch("/master.plain-public");
    for (const bucket of [
      "/master.plain",
      "/master.plain-public",
      "/master.made-up",
      "/no.such.bucket.name",
      "/",
    ]) {
      expect(await failure(preflight(bucket))).toMatchObject({
        status: 403,
        Code: "AccessForbidden",
        Message: "CORSResponse: CORS is not enabled for this bucket.",
      });
    }
  });

  test("says which header it lacks", async () => {
    const without = (name: string) =>
      failure(
        anybody(
          `OPTIONS ${BUCKET}/key`,
          Object.fromEntries(
            [
              ["origin", PAGE],
              ["access-control-request-method", "GET"],
            ].filter(([header]) => header !== name),
          ),
        ),
      );
    expect(await without("origin")).toMatchObject({ status: 400, Code: "BadRequest" });
    const { status, Message } = await without("access-control-request-method");
    expect([status, Message]).toEqual([400, expect.stringContaining("Access-Control-Request-Method")]);
  });

  test.each([
    { "access-control-request-method": "get" },
    { "access-control-request-method": "PATCH" },
    { "access-control-request-method": "GET", "access-control-request-headers": "x-a,no name" },
  ])("is refused if it asks for what no request has: %o", async (asked) => {
    const headers = { origin: PAGE, ...asked };
    for (const bucket of [BUCKET, "/master.nowhere"]) {
      expect(await failure(anybody(`OPTIONS ${bucket}/key`, headers))).toMatchObject({
        status: 400,
        Code: "BadRequest",
      });
    }
  });
});

describe("an answer to a page from elsewhere", () => {
  const from = (origin: string) => ({ headers: { origin } });

  test("has the headers that let it in, be it good or bad", async () => {
    const answers = [
      await s3(`GET ${BUCKET}/key`, from(PAGE)),
      await s3(`GET ${BUCKET}/absent`, from(PAGE)),
      await s3(`GET ${BUCKET}?list-type=2`, from(PAGE)),
      await s3(`PUT ${BUCKET}/key`, { ...from(PAGE), body: "x" }),
      await s3(`GET ${BUCKET}/key`, { ...from(PAGE), key: { id: "nobody", secret: "none" } }),
      await anybody(`GET ${BUCKET}/key`, { origin: PAGE }),
    ];
    expect(answers.map(({ status }) => status)).toEqual([200, 404, 200, 200, 403, 403]);
    for (const { headers } of answers) {
      expect(headers.get("access-control-allow-origin")).toBe(PAGE);
      expect(headers.get("access-control-expose-headers")).toBe("ETag");
      expect(headers.get("vary")).toBe(VARY);
      expect(headers.get("x-amz-request-id")).not.toBeNull();
    }
  });

  test("has none of them for a page or a method that no rule names, and is done all the same", async () => {
    for (const answer of [
      await s3(`GET ${BUCKET}/key`, from("https://evil.test")),
      await s3(`HEAD ${BUCKET}/key`, from(PAGE)),
    ]) {
      expect(answer.status).toBe(200);
      expect(answer.headers.get("access-control-allow-origin")).toBeNull();
      expect(answer.headers.get("vary")).toBe(VARY);
    }
  });

  test("does without them if the rules can't be read, for a request that is signed", async () => {
    const list = vi
      .spyOn(BranchSettingsTable.prototype, "listOpen")
      .mockRejectedValue(new Error("D1_ERROR: away"));
    try {
      const answer = await s3(`GET ${BUCKET}/key`, from(PAGE));
      expect([answer.status, answer.headers.get("access-control-allow-origin")]).toEqual([200, null]);
      expect((await anybody(`GET ${BUCKET}/key`)).status).toBe(503);
      list.mockClear();
      await s3(`GET ${BUCKET}/key`);
      expect(list).not.toHaveBeenCalled();
    } finally {
      list.mockRestore();
    }
  });
});

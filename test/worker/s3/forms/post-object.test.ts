import { beforeAll, describe, expect, test } from "vitest";
import { openForm } from "../../../../worker/s3/forms/open-form.ts";
import { FORM_FIELDS, headerLine } from "../../../../worker/s3/request/members.ts";
import model from "../../../fixtures/s3-model.json";
import { finish, openOn } from "../open-commits/support.ts";
import { failure, good, s3, scopedKey, testContext, xml } from "../support.ts";
import {
  BOUNDARY,
  type Field,
  type FormToPost,
  formBody,
  post,
  refused,
  send,
  signedFields,
} from "./support.ts";

const BUCKET = "master.forms";
const MIB = 1024 * 1024;

beforeAll(async () => {
  await good(`PUT /${BUCKET}`);
});

const form = (more: Partial<FormToPost> = {}): FormToPost => ({
  bucket: BUCKET,
  fields: [["key", "a.txt"]],
  file: "content",
  ...more,
});
const text = async (key: string): Promise<string> => (await good(`GET /${BUCKET}/${key}`)).text();
const commits = async (): Promise<number> => {
  const { ListVersionsResult } = await xml(good(`GET /${BUCKET}?versions`));
  return [ListVersionsResult.Version ?? []].flat().length;
};
const fieldsFor = (key: string, ...more: Field[]): Field[] => [["key", key], ...more];

describe("a form that its policy allows", () => {
  test("makes an object in one commit, and answers 204 with where it is", async () => {
    const answered = await post(form({ fields: fieldsFor("dir/made it.txt") }));
    expect([answered.status, await answered.text()]).toEqual([204, ""]);
    const head = await good(`HEAD /${BUCKET}/dir/made%20it.txt`);
    expect(answered.headers.get("etag")).toBe(head.headers.get("etag"));
    expect(answered.headers.get("x-amz-version-id")).toBe(head.headers.get("x-amz-version-id"));
    expect(answered.headers.get("location")).toBe(`http://sluice.test/${BUCKET}/dir/made%20it.txt`);
    expect(await text("dir/made%20it.txt")).toBe("content");
  });

  test("keeps what a PUT would keep of the same headers", async () => {
    const kept: Record<string, string> = {
      "Content-Type": "image/png",
      "Cache-Control": "max-age=100",
      "Content-Disposition": "inline",
      "Content-Encoding": "gzip",
      "Content-Language": "en-US",
      Expires: "Fri, 21 Mar 2026 00:00:00 GMT",
      "x-amz-meta-Foo": " bar ",
      "x-amz-storage-class": "STANDARD",
    };
    expect((await post(form({ fields: fieldsFor("kept", ...Object.entries(kept)) }))).status).toBe(204);
    const { headers } = await good(`HEAD /${BUCKET}/kept`);
    for (const [name, value] of Object.entries(kept))
      if (name !== "x-amz-storage-class") expect(headers.get(name)).toBe(value.trim());
  });

  test("has metadata of any letters, and joins what comes twice", async () => {
    const fields = fieldsFor(
      "twice",
      ["x-amz-meta-n", "Zoë €"],
      ["x-amz-meta-m", "1"],
      ["x-amz-meta-m", "2"],
    );
    const conditions = [
      ["starts-with", "$key", ""],
      ["eq", "$x-amz-meta-n", "Zoë €"],
      { "x-amz-meta-m": "1,2" },
    ];
    expect((await post(form({ fields, conditions }))).status).toBe(204);
    await good(`PUT /${BUCKET}/by-put`, { body: "content", headers: { "x-amz-meta-n": "Zoë €" } });
    const [posted, put] = await Promise.all(["twice", "by-put"].map((key) => good(`HEAD /${BUCKET}/${key}`)));
    expect(posted?.headers.get("x-amz-meta-n")).toBe(put?.headers.get("x-amz-meta-n"));
    expect(posted?.headers.get("x-amz-meta-m")).toBe("1,2");
  });

  test("has its type guessed from the key if it has none, as of a PUT", async () => {
    for (const fields of [fieldsFor("page.html"), fieldsFor("page.html", ["Content-Type", ""])]) {
      await post(form({ fields }));
      expect((await good(`HEAD /${BUCKET}/page.html`)).headers.get("content-type")).toBe("text/html");
    }
  });

  test.each([
    ["C:\\dir\\photo.png", "up/photo.png"],
    ["/home/x/photo 2.png", "up/photo%202.png"],
    ["$&$1.txt", "up/$&$1.txt"],
  ])("of the file %s has its name in the place of its variable, without its directories", async (filename, key) => {
    const conditions = [
      ["starts-with", "$key", "up/"],
      ["starts-with", "$x-amz-meta-name", ""],
    ];
    const fields = fieldsFor(`up/\${filename}`, ["x-amz-meta-name", `was \${filename}`]);
    expect((await post(form({ fields, conditions, filename }))).status).toBe(204);
    const { headers } = await good(`HEAD /${BUCKET}/${key}`);
    expect(headers.get("x-amz-meta-name")).toBe(`was ${decodeURIComponent(key.slice("up/".length))}`);
  });

  test("may have more behind its file, which is ignored", async () => {
    const late = `\r\nContent-Disposition: form-data; name="key"\r\n\r\nother\r\n--${BOUNDARY}--\r\ntail`;
    expect((await post(form({ fields: fieldsFor("late"), behind: late }))).status).toBe(204);
    expect(await text("late")).toBe("content");
    expect((await s3(`GET /${BUCKET}/other`)).status).toBe(404);
  });

  test("may come without Content-Length, and its file may be empty", async () => {
    const body = formBody(signedFields(form({ fields: fieldsFor("chunked") })), { file: "" });
    const stream = new Blob([body]).stream();
    expect((await send(stream, { bucket: BUCKET })).status).toBe(204);
    expect(await text("chunked")).toBe("");
  });

  test("has a file of many megabytes kept to the byte", async () => {
    const file = new Uint8Array(9 * MIB + 5).map((_, index) => (index * 7919) >>> 3);
    expect((await post(form({ fields: fieldsFor("large"), file }))).status).toBe(204);
    const got = new Uint8Array(await (await good(`GET /${BUCKET}/large`)).arrayBuffer());
    expect(got.length).toBe(file.length);
    expect(got.every((byte, index) => byte === file[index])).toBe(true);
  });

  test("stages into an open commit, and is seen when that is finished", async () => {
    const open = await openOn("formed");
    const answered = await post(form({ bucket: open.bucket.slice(1), fields: fieldsFor("staged") }));
    expect([answered.status, answered.headers.has("x-amz-version-id")]).toEqual([204, false]);
    expect((await s3(`GET ${open.branch}/staged`)).status).toBe(404);
    await finish(open);
    expect(await (await good(`GET ${open.branch}/staged`)).text()).toBe("content");
  });

  test("may have fields of HTTP's headers that are empty, and mean nothing", async () => {
    const names = ["If-Match", "If-None-Match", "Content-MD5", "Content-Type", "Cache-Control"];
    const empty = names.map((name): Field => [name, ""]);
    expect((await post(form({ fields: fieldsFor("none", ...empty) }))).status).toBe(204);
    expect(await text("none")).toBe("content");
  });

  test("may say something of its commit, beside the key that signed it", async () => {
    const more: Field[] = [
      ["x-sluice-commit-message", "from a page"],
      ["x-sluice-commit-meta-page", "7"],
    ];
    const key = scopedKey({ level: "write", repos: ["forms"] });
    await post(form({ fields: fieldsFor("noted", ...more), key }));
    const log = await testContext().branch({ repo: "forms", branch: "master" }).history.list({ limit: 1 });
    if (!log.ok) throw new Error(log.reason);
    expect(log.commits[0]?.annotation).toEqual({ key: key.id, message: "from a page", meta: { page: "7" } });
  });

  test("may give its object tags, in XML", async () => {
    const tag = (key: string, value: string) => `<Tag><Key>${key}</Key><Value>${value}</Value></Tag>`;
    const tagging = `<Tagging><TagSet>${tag("env", "a b+c/d=")}${tag("by", "\u00e9")}</TagSet></Tagging>`;
    expect((await post(form({ fields: fieldsFor("tagged", ["tagging", tagging]) }))).status).toBe(204);
    const { Tagging } = await xml(good(`GET /${BUCKET}/tagged?tagging`));
    expect(Tagging.TagSet.Tag).toEqual([
      { Key: "by", Value: "\u00e9" },
      { Key: "env", Value: "a b+c/d=" },
    ]);
    const malformed = await refused(form({ fields: fieldsFor("tagged", ["tagging", "env=a"]) }));
    expect(malformed).toMatchObject({ status: 400, Code: "MalformedXML" });
    const twice = fieldsFor("tagged", ["tagging", tagging], ["x-amz-tagging", "a=b"]);
    expect(await refused(form({ fields: twice }))).toMatchObject({ status: 400, Code: "InvalidArgument" });
  });

  test("may ask for its checksum to be checked, or to be worked out", async () => {
    // Of "test data".
    const sums: Field[] = [
      ["x-amz-checksum-crc32", "0wiusg=="],
      ["x-amz-checksum-sha256", "kW8AJ6V1B0znKjMXd8NHjWUT94alkb2JLaGld78jNfk="],
      ["x-amz-checksum-xxhash128", "8BLDqqIWji+ITOsp/JjN/Q=="],
    ];
    for (const sum of sums) {
      const answered = await post(form({ fields: fieldsFor("summed", sum), file: "test data" }));
      expect([answered.status, answered.headers.get(sum[0])]).toEqual([204, sum[1]]);
      const wrong = await refused(form({ fields: fieldsFor("summed", sum), file: "other data" }));
      expect(wrong).toMatchObject({ status: 400, Code: "BadDigest" });
    }
    const fields = fieldsFor("summed", ["x-amz-checksum-algorithm", "CRC32"]);
    const asked = await post(form({ fields, file: "test data" }));
    expect(asked.headers.get("x-amz-checksum-crc32")).toBe("0wiusg==");
    const md5 = fieldsFor("summed", ["Content-MD5", "1B2M2Y8AsgTpgAmY7PhCfg=="]);
    expect(await refused(form({ fields: md5 }))).toMatchObject({ status: 400, Code: "BadDigest" });
    expect(await text("summed")).toBe("test data");
  });
});

describe("the answer to a form", () => {
  test.each([
    ["200", 200],
    ["204", 204],
    ["418", 204],
    ["", 204],
  ])("whose success_action_status is '%s' is %i", async (value, status) => {
    const answered = await post(form({ fields: fieldsFor("status", ["success_action_status", value]) }));
    expect([answered.status, await answered.text()]).toEqual([status, ""]);
  });

  test("whose success_action_status is 201 is S3's document", async () => {
    const answered = await post(form({ fields: fieldsFor("a&b.txt", ["success_action_status", "201"]) }));
    expect([answered.status, answered.headers.get("content-type")]).toEqual([201, "application/xml"]);
    const location = `http://sluice.test/${BUCKET}/a%26b.txt`;
    expect(answered.headers.get("location")).toBe(location);
    const { PostResponse } = await xml(Promise.resolve(answered));
    const ETag = answered.headers.get("etag");
    expect(PostResponse).toEqual({ Location: location, Bucket: BUCKET, Key: "a&b.txt", ETag });
  });

  test.each([
    "success_action_redirect",
    "redirect",
  ])("goes to the page that %s names, and tells it what was made", async (name) => {
    const fields = fieldsFor(
      "a b",
      [name, "https://example.com/done?by=form"],
      ["success_action_status", "201"],
    );
    const answered = await post(form({ fields }));
    expect(answered.status).toBe(303);
    const url = new URL(answered.headers.get("location") ?? "");
    expect(url.origin + url.pathname).toBe("https://example.com/done");
    expect(Object.fromEntries(url.searchParams)).toEqual({
      by: "form",
      bucket: BUCKET,
      key: "a b",
      etag: answered.headers.get("etag"),
    });
  });

  test.each([
    "not a url",
    "javascript:alert(1)",
    "/relative",
    "",
  ])("goes nowhere if success_action_redirect is '%s'", async (url) => {
    expect((await post(form({ fields: fieldsFor("a", ["success_action_redirect", url]) }))).status).toBe(204);
  });
});

describe("content-length-range", () => {
  const range = (min: number, max: number, file: FormToPost["file"] = "") =>
    form({
      fields: fieldsFor("ranged"),
      conditions: [{ key: "ranged" }, ["content-length-range", min, max]],
      file,
    });

  test("lets a file through that is as large as it may be, or as small", async () => {
    for (const file of ["12345", "1234567890"]) {
      expect((await post(range(5, 10, file))).status).toBe(204);
      expect(await text("ranged")).toBe(file);
    }
  });

  test.each([
    ["1234", "EntityTooSmall", { ProposedSize: "4", MinSizeAllowed: "5" }],
    ["12345678901", "EntityTooLarge", { ProposedSize: "11", MaxSizeAllowed: "10" }],
  ])("refuses '%s' with %s, and nothing is committed", async (file, Code, more) => {
    const before = await commits();
    expect(await refused(range(5, 10, file))).toMatchObject({ status: 400, Code, ...more });
    expect(await commits()).toBe(before);
  });

  test("is held by what comes, not by what is said: a form that says no length is stopped at the bound", async () => {
    const before = await commits();
    const max = 6 * MIB;
    let sent = 0;
    const head = formBody(signedFields(range(0, max)), { file: "", behind: "" });
    const start = head.subarray(0, head.length - BOUNDARY.length - "\r\n--".length);
    const endless = new ReadableStream<Uint8Array>({
      pull(controller) {
        const piece = sent === 0 ? start : new Uint8Array(256 * 1024).fill(120);
        sent += piece.length;
        controller.enqueue(piece.slice());
      },
    });
    expect(await failure(send(endless, { bucket: BUCKET }))).toMatchObject({
      status: 400,
      Code: "EntityTooLarge",
    });
    expect(sent).toBeLessThan(max + 9 * MIB);
    expect(await commits()).toBe(before);
  });
});

describe("a form is told what is wrong with it, and nothing is committed:", () => {
  const rows: readonly (readonly [
    what: string,
    form: FormToPost,
    status: number,
    code: string,
    said: string | RegExp,
  ])[] = [
    [
      "a wrong secret",
      form({ key: { id: "test-root", secret: "x" } }),
      403,
      "SignatureDoesNotMatch",
      "x-amz-signature",
    ],
    [
      "a signature that is none",
      form({ tampered: { "x-amz-signature": "zz" } }),
      403,
      "SignatureDoesNotMatch",
      "policy",
    ],
    [
      "another policy than the signed one",
      form({ tampered: { policy: btoa("{}") } }),
      403,
      "SignatureDoesNotMatch",
      "policy",
    ],
    [
      "a key that nobody has",
      form({ key: { id: "nobody", secret: "x" } }),
      403,
      "InvalidAccessKeyId",
      "nobody",
    ],
    ["no key", form({ fields: [] }), 400, "InvalidArgument", "must contain a field named 'key'"],
    ["no file", form({ file: undefined as never }), 400, "InvalidArgument", "exactly one file upload"],
    ...["policy", "x-amz-algorithm", "x-amz-credential", "x-amz-date", "x-amz-signature"].map(
      (name) =>
        [
          `no ${name}`,
          form({ tampered: { [name]: undefined } }),
          400,
          "InvalidArgument",
          `must contain a field named '${name}'`,
        ] as const,
    ),
    [
      "another algorithm",
      form({ tampered: { "x-amz-algorithm": "X" } }),
      400,
      "InvalidArgument",
      "Only AWS4-HMAC-SHA256",
    ],
    [
      "a date that is none",
      form({ tampered: { "x-amz-date": "now" } }),
      400,
      "InvalidArgument",
      "X-Amz-Date",
    ],
    [
      "a credential that is none",
      form({ tampered: { "x-amz-credential": "me" } }),
      400,
      "InvalidArgument",
      "mal-formed",
    ],
    ["a policy of tomorrow", form({ at: Date.now() + 3_600_000 }), 403, "AccessDenied", "x-amz-date"],
    [
      "a key of last week",
      form({ at: Date.now() - 8 * 86_400_000, expiresAt: Date.now() + 9 }),
      403,
      "AccessDenied",
      "expired",
    ],
    ["a policy that expired", form({ expiresAt: Date.now() - 1000 }), 403, "AccessDenied", "Policy expired"],
    [
      "a policy that is none",
      form({ policy: btoa("nothing") }),
      400,
      "InvalidPolicyDocument",
      "Invalid JSON",
    ],
    [
      "another bucket",
      form({ conditions: [{ key: "a.txt" }, { bucket: "other" }] }),
      403,
      "AccessDenied",
      '"$bucket", "other"',
    ],
    [
      "another key",
      form({ tampered: { key: "b.txt" } }),
      403,
      "AccessDenied",
      'Condition failed: ["eq", "$key", "a.txt"]',
    ],
    [
      "a field too many",
      form({ conditions: [["starts-with", "$key", ""]], fields: fieldsFor("a", ["acl", "private"]) }),
      403,
      "AccessDenied",
      "Extra input fields: acl",
    ],
    [
      "a field twice",
      form({ fields: fieldsFor("a", ["key", "b"]) }),
      400,
      "InvalidArgument",
      "key comes twice",
    ],
    [
      "two fields for one header",
      form({ fields: fieldsFor("a", ["acl", "private"], ["x-amz-acl", "private"]) }),
      400,
      "InvalidArgument",
      "mean the same",
    ],
    [
      "a session token",
      form({ fields: fieldsFor("a", ["x-amz-security-token", "t"]) }),
      400,
      "InvalidToken",
      "token",
    ],
    [
      "version 2",
      form({ fields: fieldsFor("a", ["AWSAccessKeyId", "me"]) }),
      400,
      "InvalidRequest",
      "AWS4-HMAC-SHA256",
    ],
    [
      "an ACL that is not here",
      form({ fields: fieldsFor("a", ["acl", "public-read"]) }),
      501,
      "NotImplemented",
      "x-amz-acl",
    ],
    [
      "a key of KMS",
      form({ fields: fieldsFor("a", ["x-amz-server-side-encryption", "aws:kms"]) }),
      501,
      "NotImplemented",
      "field x-amz-server-side-encryption",
    ],
    [
      "a condition on what is there",
      form({ fields: fieldsFor("a", ["If-None-Match", "*"]) }),
      501,
      "NotImplemented",
      "field if-none-match",
    ],
    [
      "what nobody knows",
      form({ fields: fieldsFor("a", ["x-amz-new", "1"]) }),
      501,
      "NotImplemented",
      "x-amz-new",
    ],
    [
      "a header that is not signed",
      form({ headers: { "x-amz-meta-a": "1" } }),
      501,
      "NotImplemented",
      "header x-amz-meta-a",
    ],
    [
      "another owner",
      form({ headers: { "x-amz-expected-bucket-owner": "me" } }),
      403,
      "AccessDenied",
      "owner",
    ],
    [
      "two checksums",
      form({
        fields: fieldsFor("a", ["x-amz-checksum-crc32", "AAAAAA=="], ["x-amz-checksum-crc32c", "AAAAAA=="]),
      }),
      400,
      "InvalidRequest",
      "single",
    ],
    ["a key that can be none", form({ fields: fieldsFor("a/../b") }), 400, "InvalidArgument", "a/../b"],
    [
      "a directory with bytes",
      form({ fields: fieldsFor("dir/") }),
      400,
      "InvalidArgument",
      "empty directory",
    ],
    [
      "too much metadata",
      form({ fields: fieldsFor("a", ["x-amz-meta-a", "x".repeat(2049)]) }),
      400,
      "MetadataTooLarge",
      "2048",
    ],
    ...["", "a b", "tags[0]", "a:b", "größe"].map(
      (name) =>
        [
          `metadata with the name '${name}'`,
          form({ fields: fieldsFor("a", [`x-amz-meta-${name}`, "1"]) }),
          400,
          "InvalidArgument",
          `x-amz-meta-${name}`,
        ] as const,
    ),
    [
      "a control character",
      form({ fields: fieldsFor("a", ["x-amz-meta-a", "a\nb"]) }),
      400,
      "InvalidArgument",
      "control character",
    ],
    [
      "too much before its file",
      form({ fields: fieldsFor("a", ["x-ignore-a", "x".repeat(20_000)]) }),
      400,
      "MaxPostPreDataLengthExceededError",
      "too large",
    ],
    ["a bucket that is not there", form({ bucket: "master.absent" }), 404, "NoSuchBucket", ""],
    ["a file without an end", form({ behind: "" }), 400, "MalformedPOSTRequest", "well-formed"],
  ];
  test.each(rows)("%s", async (_, bad, status, Code, said) => {
    const before = await commits();
    const failed = await refused(bad);
    expect(failed).toMatchObject({ status, Code });
    expect(failed.Message).toMatch(
      said instanceof RegExp ? said : new RegExp(said.replace(/[.*+?^${}()|[\]\\]/g, "\\$&")),
    );
    expect(await commits()).toBe(before);
  });

  test("no signature at all", async () => {
    const failed = await failure(send(formBody([["key", "a"]], { file: "x" }), { bucket: BUCKET }));
    expect(failed).toMatchObject({ status: 403, Code: "AccessDenied" });
    expect(failed.Message).toContain("policy");
  });

  test("fields that its file's name would make too large, before anybody asks who signed it", async () => {
    const filename = "&".repeat(8000);
    const many = `\${filename}`.repeat(800);
    for (const name of ["key", "x-amz-meta-a", "x-ignore-a"]) {
      const fields: Field[] = [
        ["x-ignore-key", "k"],
        [name, many],
        ...(name === "key" ? [] : fieldsFor("k")),
      ];
      const failed = await failure(send(formBody(fields, { file: "x", filename }), { bucket: BUCKET }));
      expect(failed).toMatchObject({ status: 400, Code: "MaxPostPreDataLengthExceededError" });
    }
    // What was signed is taken as it is, and told as far as it helps.
    for (const name of ["x-amz-algorithm", "x-amz-credential", "x-amz-date"]) {
      const bad = form({ tampered: { [name]: many }, filename });
      const answered = await post(bad);
      expect(answered.status).toBe(400);
      expect((await answered.text()).length).toBeLessThan(5000);
      expect(await refused(bad)).toMatchObject({ ArgumentValue: many.slice(0, 1000) });
    }
  });

  test("that it comes too slowly, if its fields take more than a minute, though something always comes", async () => {
    let time = Date.now();
    const bytes = formBody(signedFields(form()), { file: "x" });
    let sent = 0;
    const slow = new ReadableStream<Uint8Array>({
      pull(controller) {
        time += 7000;
        controller.enqueue(bytes.slice(sent, ++sent));
      },
    });
    const headers = new Map([["content-type", `multipart/form-data; boundary=${BOUNDARY}`]]);
    const keys = { find: () => undefined, expiryOf: () => undefined, used() {} };
    await expect(
      openForm({ body: slow, headers, bucket: BUCKET }, { keys, now: () => time }),
    ).rejects.toMatchObject({ code: "RequestTimeout" });
    expect(sent).toBeLessThan(15);
  });

  test("what was to be signed, if the signature is wrong", async () => {
    const bad = form({ key: { id: "test-root", secret: "x" } });
    const policy = new Map(signedFields(bad)).get("policy") ?? "";
    const failed = await refused({ ...bad, policy });
    expect(failed).toMatchObject({ AWSAccessKeyId: "test-root", StringToSign: policy });
  });

  test("a body that is no form", async () => {
    const headers = { "content-type": "application/json" };
    const failed = await failure(send("{}", { bucket: BUCKET, headers }));
    expect(failed).toMatchObject({ status: 412, Code: "PreconditionFailed" });
    for (const type of [
      "multipart/form-data",
      "multipart/form-data; boundary=",
      `multipart/form-data; boundary=${"x".repeat(71)}`,
    ]) {
      const broken = await failure(send("x", { bucket: BUCKET, headers: { "content-type": type } }));
      expect(broken).toMatchObject({ status: 400, Code: "MalformedPOSTRequest" });
    }
    expect(await failure(send("nothing", { bucket: BUCKET }))).toMatchObject({
      Code: "MalformedPOSTRequest",
    });
  });

  test("a query parameter that no form takes", async () => {
    expect(await failure(send("x", { bucket: `${BUCKET}?delete` }))).toMatchObject({
      status: 403,
      Code: "AccessDenied",
    });
    const body = formBody(signedFields(form()), { file: "x" });
    expect(await failure(send(body, { bucket: `${BUCKET}?acl` }))).toMatchObject({ status: 501 });
  });
});

describe("the key that signed a form", () => {
  test("must be one that may write here", async () => {
    for (const scope of [
      { level: "read", repos: ["forms"] },
      { level: "write", repos: ["elsewhere"] },
      { level: "runner", repos: null },
    ] as const) {
      const failed = await refused(form({ key: scopedKey(scope) }));
      expect(failed).toMatchObject({ status: 403, Code: "AccessDenied" });
    }
    expect((await post(form({ key: scopedKey({ level: "write", repos: ["forms"] }) }))).status).toBe(204);
  });

  test("must not have expired, whatever the policy says, and is told when it did", async () => {
    const at = Date.parse("2026-11-26T11:00:00Z");
    const now = () => at + 1000;
    const keys = { find: () => undefined, expiryOf: () => at, used() {} };
    const signed = form({ at });
    const headers = new Map([["content-type", `multipart/form-data; boundary=${BOUNDARY}`]]);
    const body = new Blob([formBody(signedFields(signed), signed)]).stream();
    await expect(openForm({ body, headers, bucket: BUCKET }, { keys, now })).rejects.toMatchObject({
      code: "InvalidAccessKeyId",
      message: expect.stringContaining("2026-11-26"),
    });
  });

  test("cannot write where nobody can: into the bucket of a tag or a commit", async () => {
    const commit = (await post(form({ file: "a commit" }))).headers.get("x-amz-version-id")?.toLowerCase();
    for (const view of ["v1", commit])
      expect(await refused(form({ bucket: `${view}.${BUCKET}` }))).toMatchObject({
        status: 405,
        Code: "MethodNotAllowed",
      });
  });

  test("is the one that may write, if the branch is protected", async () => {
    await good("PUT /master.guarded");
    const mine = scopedKey({ level: "write", repos: ["guarded"] });
    const branch = testContext().branch({ repo: "guarded", branch: "master" });
    expect(await branch.settings.change({ writer: { key: mine.id } })).toEqual({ ok: true });
    for (const file of ["small", "x".repeat(5000)]) {
      const failed = await refused(form({ bucket: "master.guarded", file }));
      expect(failed).toMatchObject({ status: 403, Code: "AccessDenied" });
      expect(failed.Message).toContain(`only the access key '${mine.id}' may write`);
      expect((await post(form({ bucket: "master.guarded", file, key: mine }))).status).toBe(204);
    }
  });
});

test("no header of a PutObject that S3's model has would be ignored as a field of a form", () => {
  const without = model.operations.PutObject.headers.filter(
    (name) => !name.startsWith("x-amz-") && headerLine(FORM_FIELDS, name) === undefined,
  );
  // The file's size is known when it has come.
  expect(without).toEqual(["content-length"]);
});

test("a page from elsewhere may read the answer if the bucket's rules let it", async () => {
  const rule =
    "<CORSRule><AllowedMethod>POST</AllowedMethod><AllowedOrigin>https://example.com</AllowedOrigin><ExposeHeader>ETag</ExposeHeader></CORSRule>";
  await good(`PUT /${BUCKET}?cors`, { body: `<CORSConfiguration>${rule}</CORSConfiguration>` });
  const headers = { origin: "https://example.com" };
  const answered = await post(form({ headers }));
  expect(answered.headers.get("access-control-allow-origin")).toBe("https://example.com");
  const failed = await post(form({ headers, key: { id: "nobody", secret: "x" } }));
  expect([failed.status, failed.headers.get("access-control-allow-origin")]).toEqual([
    403,
    "https://example.com",
  ]);
  await good(`DELETE /${BUCKET}?cors`);
});

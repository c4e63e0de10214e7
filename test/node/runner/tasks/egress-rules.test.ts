import { describe, expect, test } from "vitest";
import { environmentCredentials, secretCredentials } from "../../../../runner/tasks/credentials.ts";
import { objectKey, parseDestination, placeText } from "../../../../runner/tasks/destination.ts";
import { EgressFault, storeFailureOf, storeMessage } from "../../../../runner/tasks/store-failure.ts";
import { openAzure } from "../../../../runner/tasks/stores/azure.ts";
import { openGcs } from "../../../../runner/tasks/stores/gcs.ts";
import { openS3 } from "../../../../runner/tasks/stores/s3.ts";
import { partBytes } from "../../../../runner/tasks/stores/store.ts";

const MIB = 1024 * 1024;

function inSecret(values: Record<string, string>) {
  const entries = Object.entries(values).map(([key, text]) => [key, Buffer.from(text)] as const);
  const secrets = { read: async () => new Map(entries) };
  return secretCredentials(secrets, { name: "keys", signal: new AbortController().signal });
}

describe("an egress URL", () => {
  test.each([
    ["s3://bucket", { kind: "s3", bucket: "bucket", dir: "" }],
    ["s3://bucket/", { kind: "s3", bucket: "bucket", dir: "" }],
    ["s3://master.repo/a/b/", { kind: "s3", bucket: "master.repo", dir: "a/b" }],
    ["gs://my_bucket/with space/50%20", { kind: "gs", bucket: "my_bucket", dir: "with space/50%20" }],
    ["wasb://box/dir", { kind: "azure", bucket: "box", dir: "dir" }],
    ["as://box/dir", { kind: "azure", bucket: "box", dir: "dir" }],
    ["wasbs://box@acct/dir", { kind: "azure", bucket: "box", dir: "dir", account: { name: "acct" } }],
    [
      "wasb://box@acct.blob.core.windows.net/a/b",
      {
        kind: "azure",
        bucket: "box",
        dir: "a/b",
        account: { name: "acct", host: "acct.blob.core.windows.net" },
      },
    ],
  ])("%s names its bucket and its folder", (url, destination) => {
    expect(parseDestination(url)).toEqual(destination);
  });

  test.each([
    "s3://AKIA1:secret@bucket/dir",
    "gs://box@acct/dir",
    "wasb://a@b@c/dir",
    "http://host/dir",
    "s3://",
  ])("%s is refused, and not repeated: a key may be in it", (url) => {
    expect(() => parseDestination(url)).toThrow("egress.URL must be <scheme>://<bucket>/<dir>");
    expect(() => parseDestination(url)).not.toThrow(url);
  });

  test.each([
    "s3://bucket/a/../b",
    "wasb://box/..",
    "gs://bucket/./a",
  ])("%s is refused: some clients would go up in it", (url) =>
    expect(() => parseDestination(url)).toThrow("'.' or '..'"));

  test("puts a file below its folder", () => {
    expect(objectKey(parseDestination("s3://b/a/b/"), "c/d")).toBe("a/b/c/d");
    expect(objectKey(parseDestination("s3://b"), "c/d")).toBe("c/d");
    expect(placeText(parseDestination("as://box@acct/dir"))).toBe("wasb://box@acct/dir");
  });
});

describe("credentials", () => {
  test("come from the keys of a secret, without the newline that ends a file", async () => {
    const credentials = await inSecret({ AWS_ACCESS_KEY_ID: "AKIA123\n" });
    expect(credentials.need("AWS_ACCESS_KEY_ID")).toBe("AKIA123");
    expect(() => credentials.need("AWS_SECRET_ACCESS_KEY")).toThrow(
      'secret "keys" has no AWS_SECRET_ACCESS_KEY',
    );
  });

  test("that are not in the environment are named", () => {
    const credentials = environmentCredentials({ AZURE_STORAGE_ACCOUNT: "acct" });
    expect(() => credentials.need("AZURE_STORAGE_KEY")).toThrow(
      "the environment of the runner has no AZURE_STORAGE_KEY",
    );
  });

  test.each([
    ["AWS_SECRET_ACCESS_KEY", "abc/def+ghi/jkl", "the key abc/def+ghi/jkl as abc%2Fdef%2Bghi%2Fjkl"],
    ["AWS_SESSION_TOKEN", "a-session-token", "with a-session-token"],
    ["AZURE_STORAGE_KEY", "c2VjcmV0IGtleQ==", "signed with c2VjcmV0IGtleQ=="],
    ["AZURE_STORAGE_SAS_TOKEN", "?sv=1&sig=bm90aGluZw%3D%3D", "sig=bm90aGluZw%3D%3D or bm90aGluZw=="],
    [
      "AZURE_STORAGE_CONNECTION_STRING",
      "AccountName=acct;AccountKey=c2VjcmV0IGtleQ==;EndpointSuffix=core.windows.net",
      "at acct.blob.core.windows.net with c2VjcmV0IGtleQ==",
    ],
    [
      "GOOGLE_APPLICATION_CREDENTIALS_JSON",
      JSON.stringify({ private_key: "-----BEGIN PRIVATE KEY-----\nbGluZSBvbmU=\nbGluZSB0d28=\n" }),
      "lines bGluZSBvbmU= and bGluZSB0d28=",
    ],
  ])("no part of %s is left in what people see", async (name, value, text) => {
    const shown = (await inSecret({ [name]: value })).redact(text);
    for (const part of value
      .split(/[^A-Za-z0-9/+=%-]+|AccountKey=|sig=/)
      .filter((part) => part.length > 12)) {
      if (/^(EndpointSuffix|AccountName)|PRIVATE|private/.test(part)) continue;
      expect(shown).not.toContain(part);
    }
    expect(shown).toContain("***");
    expect(environmentCredentials({ [name]: value }).redact(text)).toBe(shown);
  });

  test("that hold no secret stay in what people see", async () => {
    const credentials = await inSecret({ AWS_REGION: "eu-central-1", AZURE_STORAGE_ACCOUNT: "myaccount" });
    expect(credentials.redact("myaccount in eu-central-1")).toBe("myaccount in eu-central-1");
  });
});

describe("a store", () => {
  const at = (url: string) => ({ destination: parseDestination(url), endpoint: undefined });
  const account = { AZURE_STORAGE_ACCOUNT: "acct", AZURE_STORAGE_KEY: "a2V5" };

  test.each([
    ["s3", { AWS_ACCESS_KEY_ID: "AKIA" }, 'secret "keys" has no AWS_SECRET_ACCESS_KEY'],
    ["gs", {}, 'secret "keys" has no GOOGLE_APPLICATION_CREDENTIALS_JSON and no service-account.json'],
    ["gs", { "service-account.json": "no json" }, "does not hold the JSON of a service account's key"],
    [
      "gs",
      { "service-account.json": '{"type":"external_account","credential_source":{"file":"/etc/shadow"}}' },
      "does not hold the JSON of a service account's key",
    ],
    ["azure", { AZURE_STORAGE_KEY: "a2V5" }, 'secret "keys" has no AZURE_STORAGE_ACCOUNT'],
    ["azure", { AZURE_STORAGE_ACCOUNT: "acct" }, 'secret "keys" has no AZURE_STORAGE_KEY'],
    [
      "azure",
      { AZURE_STORAGE_CONNECTION_STRING: "hush-hush" },
      "AZURE_STORAGE_CONNECTION_STRING is not a connection string of a storage account",
    ],
  ])("%s tells what a secret lacks", async (kind, values, words) => {
    const credentials = await inSecret(values);
    const opening = {
      s3: () => openS3({ ...at("s3://bucket"), credentials }),
      gs: () => openGcs({ ...at("gs://bucket"), credentials }),
      azure: () => openAzure({ ...at("wasb://box"), credentials }),
    }[kind];
    await expect(opening?.()).rejects.toThrow(words);
  });

  test("of Azure takes the account of its URL, and not another one's connection string", async () => {
    const connection =
      "DefaultEndpointsProtocol=https;AccountName=other;AccountKey=a2V5;EndpointSuffix=core.windows.net";
    const credentials = await inSecret({ AZURE_STORAGE_CONNECTION_STRING: connection });
    await expect(openAzure({ ...at("wasb://box@acct/dir"), credentials })).rejects.toThrow(
      'egress.URL names the account "acct", AZURE_STORAGE_CONNECTION_STRING the account "other"',
    );
    const keyed = await inSecret({ AZURE_STORAGE_KEY: account.AZURE_STORAGE_KEY });
    await expect(openAzure({ ...at("wasb://box@acct/dir"), credentials: keyed })).resolves.toBeDefined();
  });

  test("has parts that are no more than it takes, and no smaller than they need be", () => {
    expect(partBytes({ size: 20 * MIB, maxParts: 10_000 })).toBe(8 * MIB);
    expect(partBytes({ size: 5 * 1024 * 1024 * MIB, maxParts: 10_000 }) * 10_000).toBeGreaterThanOrEqual(
      5 * 1024 * 1024 * MIB,
    );
  });
});

describe("a store's failure", () => {
  const withStatus = (status: number, name = "Error") =>
    Object.assign(new Error("no"), { name, $metadata: { httpStatusCode: status } });

  test.each([
    [withStatus(503, "SlowDown"), "transient"],
    [withStatus(500), "transient"],
    [withStatus(429), "transient"],
    [withStatus(400, "RequestTimeout"), "transient"],
    [withStatus(400, "InvalidArgument"), "final"],
    [withStatus(403, "AccessDenied"), "final"],
    [Object.assign(new Error("reset"), { code: "ECONNRESET" }), "transient"],
    [Object.assign(new Error("no"), { code: "AuthenticationFailed", statusCode: 403 }), "final"],
    [Object.assign(new Error("no"), { code: 401 }), "final"],
    [Object.assign(new Error("none"), { name: "CredentialsProviderError" }), "final"],
  ])("%s is %s", (error, failure) => {
    expect(storeFailureOf(error)).toBe(failure);
  });

  test.each([
    [withStatus(403, "AccessDenied"), "AccessDenied (status 403)"],
    [withStatus(301), "status 301"],
    [Object.assign(withStatus(403, "UnknownError"), { message: "UnknownError" }), "status 403"],
    [Object.assign(new Error("words"), { code: "Long_code" }), "no answer (Long_code)"],
    [Object.assign(new Error("words"), { code: "words, not a code" }), "no answer"],
    [
      Object.assign(new Error("no"), { code: 412, errors: [{ reason: "conditionNotMet" }] }),
      "conditionNotMet (status 412)",
    ],
    [
      new AggregateError([Object.assign(new Error("connect ECONNREFUSED"), { code: "ECONNREFUSED" })]),
      "no answer (ECONNREFUSED)",
    ],
    [new Error("outer", { cause: withStatus(404, "NoSuchBucket") }), "NoSuchBucket (status 404)"],
    [new Error("outer", { cause: new EgressFault("our own words") }), "our own words"],
    [new SyntaxError('Unexpected token i, "internal words" is not valid JSON'), "no answer"],
    ["just text", "no answer"],
  ])("%s is told as %s: nothing of what was answered but its code", (error, words) => {
    expect(storeMessage(error, (text) => text)).toBe(words);
  });

  test("shows no key that came back as a code", async () => {
    const { redact } = await inSecret({ AWS_ACCESS_KEY_ID: "AKIA0123456789" });
    expect(storeMessage(withStatus(403, "AKIA0123456789"), redact)).toBe("*** (status 403)");
  });
});

// @module-tag rest
import { createHash } from "node:crypto";
import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { S3Client } from "@aws-sdk/client-s3";
import { createPresignedPost } from "@aws-sdk/s3-presigned-post";
import * as minio from "minio";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import {
  type Boto3,
  boto3,
  type FormTerms,
  hasBoto3,
  type PresignedForm,
} from "../../support/clients/boto3.ts";
import { hasCurl } from "../../support/clients/curl.ts";
import { Control } from "../../support/control.ts";
import { type DevServer, startDevServer } from "../../support/dev-server.ts";
import { mustRun } from "../../support/processes.ts";
import { seededBytes } from "../../support/random.ts";
import { S3 } from "../../support/s3.ts";
import { removeScratch, scratchFolder } from "../../support/scratch.ts";

const HAS = { boto3: await hasBoto3(), curl: await hasCurl() };
const TEST = { timeout: 180_000 };
const BUCKET = "master.uploads";
const BYTES = seededBytes(6 * 1024 * 1024 + 11, 25);

let server: DevServer;
let s3: S3;
const scratch = scratchFolder();

beforeAll(async () => {
  server = await startDevServer();
  s3 = new S3(server);
  await s3.createBucket(BUCKET);
});
afterAll(async () => {
  await server?.stop();
  removeScratch(scratch);
});

/** Posts it as a page does: the fields, then the file. */
function submit({ url, fields }: PresignedForm, file: Blob, name = "photo.bin"): Promise<Response> {
  const form = new FormData();
  for (const [field, value] of Object.entries(fields)) form.append(field, value);
  form.append("file", file, name);
  return fetch(url, { method: "POST", body: form, redirect: "manual" });
}

const TERMS: FormTerms = {
  bucket: BUCKET,
  key: `user/\${filename}`,
  fields: { "Content-Type": "image/png", success_action_status: "201", "x-amz-meta-from": "a page" },
  conditions: [
    ["starts-with", "$Content-Type", "image/"],
    { success_action_status: "201" },
    ["starts-with", "$x-amz-meta-from", ""],
    ["content-length-range", 1, BYTES.length],
  ],
};

/** Each signs the same terms as its users do. */
const SIGNERS: Readonly<
  Record<string, { readonly has: boolean; sign(terms: FormTerms): Promise<PresignedForm> }>
> = {
  boto3: {
    has: HAS.boto3,
    async sign(terms) {
      const sdk: Boto3 = boto3(server);
      try {
        return await sdk.presignPost(terms);
      } finally {
        await sdk.close();
      }
    },
  },
  "@aws-sdk/s3-presigned-post": {
    has: true,
    sign({ bucket, key, fields, conditions }) {
      const client = new S3Client({
        endpoint: server.endpoint,
        region: "us-east-1",
        credentials: server,
        forcePathStyle: true,
      });
      const Conditions = conditions as NonNullable<Parameters<typeof createPresignedPost>[1]["Conditions"]>;
      return createPresignedPost(client, { Bucket: bucket, Key: key, Fields: { ...fields }, Conditions });
    },
  },
  "minio-js": {
    has: true,
    async sign({ bucket, fields }) {
      const { hostname, port } = new URL(server.endpoint);
      const client = new minio.Client({
        endPoint: hostname,
        port: Number(port),
        useSSL: false,
        accessKey: server.accessKeyId,
        secretKey: server.secretAccessKey,
        region: "us-east-1",
      });
      const policy = client.newPostPolicy();
      policy.setBucket(bucket);
      policy.setKeyStartsWith("user/");
      policy.setContentType("image/png");
      policy.setContentLengthRange(1, BYTES.length);
      policy.setExpires(new Date(Date.now() + 60_000));
      policy.setUserMetaData({ from: fields["x-amz-meta-from"] ?? "" });
      policy.policy.conditions.push(["eq", "$success_action_status", "201"]);
      const { postURL, formData } = await client.presignedPostPolicy(policy);
      const sent = { ...formData, key: `user/\${filename}`, success_action_status: "201" };
      return { url: postURL, fields: sent as Record<string, string> };
    },
  },
};

describe.each(Object.entries(SIGNERS))("a form that %s signs", (_, { has, sign }) => {
  test.skipIf(!has)(
    "is sent by a page with a file of megabytes, which becomes one commit",
    TEST,
    async () => {
      const form = await sign(TERMS);
      const answered = await submit(form, new Blob([BYTES]));
      expect([answered.status, await answered.text()]).toEqual([
        201,
        expect.stringContaining("<PostResponse>"),
      ]);
      expect((await s3.get(BUCKET, "user/photo.bin"))?.equals(BYTES)).toBe(true);
      const { headers } = await s3.ask("HEAD", `/${BUCKET}/user/photo.bin`);
      expect([headers["content-type"], headers["x-amz-meta-from"]]).toEqual(["image/png", "a page"]);
    },
  );

  test.skipIf(!has)("takes no file that is larger, smaller, or elsewhere than it says", TEST, async () => {
    const form = await sign(TERMS);
    const commits = async () =>
      (await new Control(server).ask("GET", "/repos/uploads/branches/master/commits")).text;
    const before = await commits();
    const said = async (changed: PresignedForm, file: Blob) => {
      const answered = await submit(changed, file);
      return [answered.status, /<Code>(.*?)<\/Code>/.exec(await answered.text())?.[1]];
    };
    expect(await said(form, new Blob([BYTES, "x"]))).toEqual([400, "EntityTooLarge"]);
    expect(await said(form, new Blob([]))).toEqual([400, "EntityTooSmall"]);
    const elsewhere = { ...form, fields: { ...form.fields, key: "other/photo.bin" } };
    expect(await said(elsewhere, new Blob(["x"]))).toEqual([403, "AccessDenied"]);
    const forged = { ...form, fields: { ...form.fields, "x-amz-meta-admin": "true" } };
    expect(await said(forged, new Blob(["x"]))).toEqual([403, "AccessDenied"]);
    expect(await commits()).toBe(before);
  });

  test.skipIf(!has || !HAS.curl)(
    "is sent by curl, which asks with Expect before a large body",
    TEST,
    async () => {
      const { url, fields } = await sign(TERMS);
      const file = join(scratch, "from curl.bin");
      writeFileSync(file, BYTES);
      const sent = Object.entries(fields).flatMap(([name, value]) => ["--form-string", `${name}=${value}`]);
      const answered = await mustRun(["curl", "-fsS", ...sent, "--form", `file=@${file}`, url]);
      expect(answered).toContain("<PostResponse>");
      const got = await s3.get(BUCKET, "user/from curl.bin");
      expect(got && createHash("sha256").update(got).digest("hex")).toBe(
        createHash("sha256").update(BYTES).digest("hex"),
      );
    },
  );
});

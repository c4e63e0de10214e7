// @module-tag rest
import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { AWS, hasAws } from "../../support/clients/aws-api.ts";
import { hasBoto3 } from "../../support/clients/boto3.ts";
import { curl } from "../../support/clients/curl.ts";
import { hasRclone } from "../../support/clients/rclone.ts";
import { type DevServer, sluice, sluiceOk, startDevServer } from "../../support/dev-server.ts";
import { exchange, signedExchange } from "../../support/http.ts";
import { type Ended, run } from "../../support/processes.ts";
import { S3 } from "../../support/s3.ts";
import { removeScratch, scratchFolder } from "../../support/scratch.ts";

const OPEN = "master.public-docs";
const SHUT = "master.private-docs";
const FILES = { "index.html": "<h1>hi</h1>", "dir/a.txt": "a", "dir/b.txt": "b" };
const PAGE = "https://app.example";

const [AWS_CLI, BOTO3, RCLONE] = [await hasAws(), await hasBoto3(), hasRclone()];

let server: DevServer;
let s3: S3;
const scratch = scratchFolder();

beforeAll(async () => {
  server = await startDevServer({ variables: { SLUICE_DOMAIN: "s3.test" } });
  s3 = new S3(server);
  await sluiceOk(server, "mb", `s3://${OPEN}`);
  await s3.createBucket(SHUT);
  for (const bucket of [OPEN, SHUT])
    for (const [key, body] of Object.entries(FILES)) await s3.put(bucket, key, body);
  expect(await sluiceOk(server, "branch", "public", `s3://${OPEN}`, "on")).toContain("is public");
});
afterAll(async () => {
  await server?.stop();
  removeScratch(scratch);
});

/** A program that has no key, and no settings of this machine's user. */
function keyless(...command: string[]): Promise<Ended> {
  return run(command, {
    env: { HOME: scratch, AWS_EC2_METADATA_DISABLED: "true", AWS_REGION: "us-east-1", LC_ALL: "C.UTF-8" },
  });
}

function url(bucket: string, key = ""): string {
  return `${server.endpoint}/${bucket}/${key}`;
}

describe("a public branch is read without a key", () => {
  test("by curl", async () => {
    expect(await curl(url(OPEN, "dir/a.txt"))).toBe("a");
    expect(await curl(url(OPEN, "?list-type=2&prefix=dir/"))).toContain("<Key>dir/b.txt</Key>");
    await expect(curl(url(SHUT, "dir/a.txt"))).rejects.toThrow("403");
  });

  test.skipIf(!AWS_CLI)("by the AWS command line", async () => {
    const aws = (...args: string[]) =>
      keyless(AWS, "--endpoint-url", server.endpoint, "--no-sign-request", ...args);
    const target = join(scratch, "synced");
    const { code, stderr } = await aws("s3", "sync", `s3://${OPEN}`, target, "--only-show-errors");
    expect([code, stderr]).toEqual([0, ""]);
    const listed = await aws("s3", "ls", "--recursive", `s3://${OPEN}`);
    for (const key of Object.keys(FILES)) expect(listed.stdout.toString()).toContain(key);
    expect((await aws("s3api", "head-bucket", "--bucket", OPEN)).code).toBe(0);
    for (const args of [
      ["s3", "ls", `s3://${SHUT}`],
      ["s3", "cp", `s3://${SHUT}/dir/a.txt`, join(scratch, "never")],
      ["s3", "cp", join(scratch, "synced/dir/a.txt"), `s3://${OPEN}/dir/c.txt`],
      ["s3", "rm", `s3://${OPEN}/dir/a.txt`],
      ["s3api", "list-object-versions", "--bucket", OPEN],
      ["s3", "ls"],
    ]) {
      const refused = await aws(...args);
      expect([refused.code, refused.stderr], args.join(" ")).toEqual([
        expect.toSatisfy((ended) => ended !== 0),
        expect.stringMatching(/AccessDenied|Forbidden/),
      ]);
    }
    expect(await curl(url(OPEN, "dir/a.txt"))).toBe("a");
  });

  test.skipIf(!BOTO3)("by boto3", async () => {
    const script = join(scratch, "unsigned.py");
    writeFileSync(
      script,
      `import sys, boto3
from botocore import UNSIGNED
from botocore.config import Config
from botocore.exceptions import ClientError
client = boto3.client("s3", endpoint_url=sys.argv[1], config=Config(signature_version=UNSIGNED, s3={"addressing_style": "path"}))
print(client.get_object(Bucket="${OPEN}", Key="dir/b.txt")["Body"].read().decode())
print(sorted(entry["Key"] for entry in client.list_objects_v2(Bucket="${OPEN}")["Contents"]))
print(client.head_object(Bucket="${OPEN}", Key="dir/b.txt")["ContentLength"])
for call in (
    lambda: client.get_object(Bucket="${SHUT}", Key="dir/b.txt"),
    lambda: client.get_object(Bucket="no.such", Key="dir/b.txt"),
    lambda: client.put_object(Bucket="${OPEN}", Key="x", Body=b"x"),
    lambda: client.get_object(Bucket="${OPEN}", Key="dir/b.txt", VersionId="01ARZ3NDEKTSV4RRFFQ69G5FAV"),
):
    try:
        call()
        print("was let in")
    except ClientError as error:
        print(error.response["Error"]["Code"])
`,
    );
    const { code, stdout, stderr } = await keyless("/usr/bin/python3", script, server.endpoint);
    expect([code, stderr]).toEqual([0, ""]);
    expect(stdout.toString().trim().split("\n")).toEqual([
      "b",
      "['dir/a.txt', 'dir/b.txt', 'index.html']",
      "1",
      ...Array.from({ length: 4 }, () => "AccessDenied"),
    ]);
  });

  test.skipIf(!RCLONE)("by rclone", async () => {
    const remote = `:s3,provider=Other,force_path_style=true,endpoint='${server.endpoint}':`;
    const rclone = (...args: string[]) =>
      keyless(
        "/usr/bin/rclone",
        "--config",
        join(scratch, "none.conf"),
        "--retries",
        "1",
        "--low-level-retries",
        "1",
        ...args,
      );
    writeFileSync(join(scratch, "none.conf"), "");
    const listed = await rclone("lsf", "--recursive", "--files-only", `${remote}${OPEN}`);
    expect([listed.stderr, listed.stdout.toString().trim().split("\n").toSorted()]).toEqual([
      "",
      Object.keys(FILES).toSorted(),
    ]);
    expect((await rclone("cat", `${remote}${OPEN}/dir/a.txt`)).stdout.toString()).toBe("a");
    expect((await rclone("lsf", `${remote}${SHUT}`)).code).not.toBe(0);
  });

  test("at a tag and by the repo's name alone", async () => {
    await sluiceOk(server, "tag", "create", "v1", OPEN);
    expect(await curl(url(`v1.${OPEN}`, "dir/a.txt"))).toBe("a");
    expect(await curl(url("public-docs", "dir/a.txt"))).toBe("a");
    await expect(curl(url("private-docs", "dir/a.txt"))).rejects.toThrow("403");
  });

  test("on its own host, where a page is no prisoner", async () => {
    const answer = await exchange(server.endpoint, {
      method: "GET",
      target: "/index.html",
      headers: { host: `${OPEN}.s3.test` },
    });
    expect([answer.status, answer.text, answer.headers["content-security-policy"]]).toEqual([
      200,
      FILES["index.html"],
      undefined,
    ]);
    const beside = await exchange(server.endpoint, { method: "GET", target: `/${OPEN}/index.html` });
    expect([beside.headers["content-security-policy"], beside.headers["x-content-type-options"]]).toEqual([
      "sandbox",
      "nosniff",
    ]);
  });
});

test("the command line makes a branch public and ends that, and shows which ones are", async () => {
  await sluiceOk(server, "mb", "s3://master.switch");
  await s3.put("master.switch", "key", "x");
  const key = { method: "GET", target: "/master.switch/key" };
  const shown = async () =>
    JSON.parse(await sluiceOk(server, "branch", "list", "switch", "--json")).branches[0].public;
  expect(await shown()).toBe(false);
  await sluiceOk(server, "branch", "public", "master.switch", "on");
  expect([(await exchange(server.endpoint, key)).status, await shown()]).toEqual([200, true]);
  expect(await sluiceOk(server, "branch", "list", "switch")).toMatch(/PUBLIC[^\n]*\n.*yes/);
  await sluiceOk(server, "branch", "public", "master.switch", "off");
  expect([(await exchange(server.endpoint, key)).status, await shown()]).toEqual([403, false]);
  const wrong = await sluice(server, "branch", "public", "master.switch", "maybe");
  expect([wrong.code, wrong.stderr]).toEqual([2, expect.stringContaining("on or off")]);
  const absent = await sluice(server, "branch", "public", "master.absent", "on");
  expect([absent.code, absent.stderr]).toEqual([7, expect.stringContaining("master.absent")]);
});

test("the command line protects a branch for a key, which alone may write then", async () => {
  await sluiceOk(server, "mb", "s3://master.held");
  const made = JSON.parse(
    await sluiceOk(server, "key", "create", "--level", "write", "--repo", "held", "--json"),
  );
  expect(await sluiceOk(server, "branch", "protect", "master.held", "--key", made.id)).toContain(made.id);
  expect(await sluiceOk(server, "branch", "list", "held")).toContain(`the key ${made.id}`);
  const file = join(scratch, "held.txt");
  writeFileSync(file, "held");
  const refused = await sluice(server, "cp", file, "s3://master.held/a.txt");
  expect([refused.code, refused.stderr]).toEqual([
    1,
    expect.stringContaining(`only the access key '${made.id}'`),
  ]);
  const { endpoint } = server;
  await sluiceOk(
    { endpoint, accessKeyId: made.id, secretAccessKey: made.secret },
    "cp",
    file,
    "s3://master.held/a.txt",
  );
  expect((await sluice(server, "rb", "--force", "s3://master.held")).code).toBe(1);
  await sluiceOk(server, "branch", "protect", "master.held", "--off");
  await sluiceOk(server, "rb", "--force", "s3://master.held");
  const unclear = await sluice(server, "branch", "protect", "master.held", "--off", "--key", made.id);
  expect([unclear.code, unclear.stderr]).toEqual([
    2,
    expect.stringContaining("one of --key, --pipeline and --off"),
  ]);
});

describe("a page from elsewhere", () => {
  const rules = {
    CORSRules: [
      {
        AllowedOrigins: [PAGE],
        AllowedMethods: ["GET", "PUT"],
        AllowedHeaders: ["*"],
        ExposeHeaders: ["ETag"],
        MaxAgeSeconds: 60,
      },
    ],
  };

  test.skipIf(!AWS_CLI)(
    "is let in by rules that the AWS command line puts, and shows, and deletes",
    async () => {
      const bucket = "master.cors-docs";
      await s3.createBucket(bucket);
      await s3.put(bucket, "key", "x");
      const env = {
        HOME: scratch,
        AWS_ACCESS_KEY_ID: server.accessKeyId,
        AWS_SECRET_ACCESS_KEY: server.secretAccessKey,
        AWS_REGION: "us-east-1",
      };
      const api = (...args: string[]) =>
        run([AWS, "--endpoint-url", server.endpoint, "s3api", ...args, "--bucket", bucket], { env });
      const asked = {
        origin: PAGE,
        "access-control-request-method": "PUT",
        "access-control-request-headers": "content-type",
      };
      const preflight = () =>
        exchange(server.endpoint, { method: "OPTIONS", target: `/${bucket}/key`, headers: asked });
      expect(await preflight()).toMatchObject({
        status: 403,
        text: expect.stringContaining("CORS is not enabled"),
      });
      expect((await api("get-bucket-cors")).stderr).toContain("NoSuchCORSConfiguration");
      expect((await api("put-bucket-cors", "--cors-configuration", JSON.stringify(rules))).code).toBe(0);
      expect(JSON.parse((await api("get-bucket-cors")).stdout.toString())).toEqual(rules);
      const allowed = await preflight();
      expect([
        allowed.status,
        allowed.headers["access-control-allow-origin"],
        allowed.headers["access-control-allow-headers"],
      ]).toEqual([200, PAGE, "content-type"]);
      const read = await signedExchange(server, {
        method: "GET",
        target: `/${bucket}/key`,
        headers: { origin: PAGE },
      });
      expect([read.status, read.headers["access-control-allow-origin"], read.headers.vary]).toEqual([
        200,
        PAGE,
        expect.stringContaining("Origin"),
      ]);
      expect((await api("delete-bucket-cors")).code).toBe(0);
      expect((await preflight()).status).toBe(403);
    },
  );
});

// @module-tag rest
import { rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { PutObjectCommand, S3Client } from "@aws-sdk/client-s3";
import { Upload } from "@aws-sdk/lib-storage";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { z } from "zod";
import { type Commit, CommitPage, Provenance } from "../../../protocol/commits.ts";
import { DatumPage } from "../../../protocol/pipelines.ts";
import { awsEnvironment } from "../../support/clients/aws-environment.ts";
import { hasBoto3 } from "../../support/clients/boto3.ts";
import { hasCurl, signingCurl } from "../../support/clients/curl.ts";
import { Control } from "../../support/control.ts";
import { type DevServer, sluiceOk, startDevServer, startRunner } from "../../support/dev-server.ts";
import { FakeRunner } from "../../support/fake-runner.ts";
import { isGone, signedExchange } from "../../support/http.ts";
import { mustRun } from "../../support/processes.ts";
import { S3 } from "../../support/s3.ts";
import { scratchFolder } from "../../support/scratch.ts";

let server: DevServer;
let control: Control;
let s3: S3;

beforeAll(async () => {
  server = await startDevServer();
  control = new Control(server);
  s3 = new S3(server);
});
afterAll(() => server?.stop());

const BOTO3 = await hasBoto3();
const CURL = await hasCurl();

const MESSAGE = "x-sluice-commit-message";
const META = "x-sluice-commit-meta-";

/** The newest commits of a bucket's branch, the newest first. */
async function commitsOf(bucket: string, limit = 1000): Promise<Commit[]> {
  const [branch, repo] = bucket.split(".");
  const path = `/repos/${repo}/branches/${branch}/commits?limit=${limit}`;
  return (await control.call("GET", path, { answers: CommitPage })).commits;
}

describe("what a client says of its commit", () => {
  const boto3Script = `
import sys, boto3
from botocore.config import Config
client = boto3.client("s3", endpoint_url=sys.argv[1], config=Config(signature_version="s3v4"))
def say(request, **_):
    request.headers["${MESSAGE}"] = "from boto3"
    request.headers["${META}run"] = "7"
client.meta.events.register("before-sign.s3.PutObject", say)
client.meta.events.register("before-sign.s3.DeleteObjects", say)
client.put_object(Bucket="master.boto3-said", Key="a", Body=b"1", Metadata={"mine": "8"})
client.delete_objects(Bucket="master.boto3-said", Delete={"Objects": [{"Key": "a"}]})
`;

  test.skipIf(!BOTO3)("goes with boto3, in headers that it signs", async () => {
    await s3.createBucket("master.boto3-said");
    const folder = scratchFolder();
    const env = { PATH: process.env.PATH ?? "", ...awsEnvironment(server, folder) };
    await mustRun(["/usr/bin/python3", "-c", boto3Script, server.endpoint], { env });
    const said = { key: server.accessKeyId, message: "from boto3", meta: { run: "7" } };
    expect(await commitsOf("master.boto3-said")).toMatchObject([said, said]);
  });

  test("goes with the SDK for JavaScript, whole and in parts", async () => {
    await s3.createBucket("master.sdk-said");
    const client = new S3Client({
      endpoint: server.endpoint,
      region: "us-east-1",
      credentials: server,
      forcePathStyle: true,
    });
    client.middlewareStack.add(
      (next) => (args) => {
        const { headers } = args.request as { headers: Record<string, string> };
        Object.assign(headers, { [MESSAGE]: "from the SDK", [`${META}run`]: "7" });
        return next(args);
      },
      { step: "build", name: "say" },
    );
    await client.send(new PutObjectCommand({ Bucket: "master.sdk-said", Key: "whole", Body: "1" }));
    const said = { key: server.accessKeyId, message: "from the SDK", meta: { run: "7" } };
    expect(await commitsOf("master.sdk-said")).toMatchObject([said]);
    // A part makes no commit, so that it is told to leave the header out.
    const Body = Buffer.alloc(6 * 1024 * 1024);
    const parts = new Upload({ client, params: { Bucket: "master.sdk-said", Key: "parts", Body } });
    await expect(parts.done()).rejects.toThrow(MESSAGE);
    client.destroy();
  });

  test.skipIf(!CURL)("goes with curl, in UTF-8", async () => {
    await s3.createBucket("master.curl-said");
    const folder = scratchFolder();
    const file = join(folder, "file");
    writeFileSync(file, "1");
    const said = "Größe → 7";
    await signingCurl(server)(
      "-T",
      file,
      "-H",
      `${MESSAGE}: ${said}`,
      `${server.endpoint}/master.curl-said/a`,
    );
    expect(await commitsOf("master.curl-said")).toMatchObject([{ message: said }]);
    rmSync(folder, { recursive: true });
  });

  test("is with every commit that is there after the gateway was killed, and with no other", async () => {
    await s3.createBucket("master.killed-said");
    const acknowledged = new Map<string, string>();
    let begun = 0;
    const write = async (): Promise<void> => {
      for (;;) {
        const n = begun++;
        const headers = { [MESSAGE]: `put ${n}`, [`${META}n`]: `${n}` };
        const ask = { method: "PUT", target: `/master.killed-said/${n}`, headers, body: `${n}` };
        const answer = await signedExchange(server, ask);
        if (answer.status !== 200) throw new Error(answer.text);
        acknowledged.set(answer.headers["x-amz-version-id"] ?? "", `put ${n}`);
        if (acknowledged.size === 60) await server.kill9();
      }
    };
    const writers = await Promise.allSettled(Array.from({ length: 8 }, write));
    for (const writer of writers) {
      if (writer.status === "rejected" && !isGone(writer.reason)) throw writer.reason;
    }
    await server.restart();
    const commits = await commitsOf("master.killed-said");
    const messages = new Map(commits.map(({ id, message }) => [id, message]));
    for (const [id, message] of acknowledged) expect(messages.get(id)).toBe(message);
    for (const { message, meta, key } of commits) {
      expect([message, key]).toEqual([`put ${meta.n}`, server.accessKeyId]);
    }
  });
});

describe("what made an output", () => {
  const spec = (name: string, cmd: string) => ({
    pipeline: { name },
    transform: { image: "ignored:1", cmd: ["sh", "-c", cmd] },
    parallelism_spec: { strategy: "CONSTANT", constant: 1 },
    inputs: [{ repo: { name: `${name}-in` }, glob: "/*" }],
  });

  test("is told with its code, whichever runner ran it", async () => {
    await s3.createBucket("master.coded-in");
    await control.createPipeline(spec("coded", "cp /pfs/coded-in/* /pfs/out/"));
    const runner = startRunner(server, { node: "teller" });
    await s3.put("master.coded-in", "a", "1");
    await control.ended("coded", { count: 1 });
    await runner.stop();
    const silent = new FakeRunner(server, { node: "silent" });
    await s3.put("master.coded-in", "b", "1");
    await silent.work("coded", { count: 1, outputs: () => [{ path: "b", ...EMPTY }] });
    await control.ended("coded", { count: 2 });
    const [head] = await commitsOf("master.coded");
    const codeOf = async (path: string) => {
      const at = `/repos/coded/branches/master/commits/${head?.id}/provenance?path=${path}`;
      return (await control.call("GET", at, { answers: Provenance })).datums[0]?.code;
    };
    expect(await codeOf("a")).toEqual({ version: 1, node: "teller", executor: "process", image: null });
    expect(await codeOf("b")).toEqual({ version: 1, node: "silent", executor: "process", image: null });
    expect(await sluiceOk(server, "commit", "inspect", "master.coded/a")).toContain(
      "  code    version 1 of the specification, as a process of the node: the image is ignored\n",
    );
    expect(await sluiceOk(server, "commit", "inspect", "master.coded/b")).toContain(
      "  code    version 1 of the specification, as a process of the node: the image is ignored\n",
    );
  });

  test("is told with the reason why each datum was run, or was not", async () => {
    await s3.createBucket("master.why-in");
    const runner = new FakeRunner(server, { node: "why" });
    await control.createPipeline(spec("why", "true"));
    const work = async (count: number, jobs: number) => {
      await runner.work("why", { count, outputs: ({ datum }) => [{ path: datum, ...EMPTY }] });
      return (await control.ended("why", { count: jobs })).at(-1)?.id ?? "";
    };
    const whyOf = (job: string) => sluiceOk(server, "job", "datums", job, "--why");
    await s3.put("master.why-in", "a", "1");
    const first = await work(1, 1);
    await s3.put("master.why-in", "b", "1");
    const second = await work(1, 2);
    expect(await whyOf(second)).toMatch(/ why-in:\/b +new: why-in:\/b\n/);
    expect(await whyOf(second)).toContain(`has the result of job ${first}\n`);
    await s3.put("master.why-in", "a", "22");
    const third = await work(1, 3);
    expect(await whyOf(third)).toMatch(/ changed: why-in:\/a [0-9a-f]{12} \(1 B\) -> [0-9a-f]{12} \(2 B\)\n/);
    expect(await whyOf(third)).toContain(`has the result of job ${second}\n`);
    const json = JSON.parse(await sluiceOk(server, "job", "datums", third, "--why", "--json"));
    const reasons = DatumPage.parse(json).datums.flatMap(({ why = [] }) => why.map(({ reason }) => reason));
    expect(reasons.sort()).toEqual(["changed", "result"]);
    expect(await sluiceOk(server, "job", "datums", third)).not.toContain("WHY");
    await control.call("POST", "/pipelines?update=true", {
      body: spec("why", "false"),
      answers: z.unknown(),
    });
    const fourth = await work(2, 4);
    expect((await whyOf(fourth)).match(/ version 1 -> 2: transform\.cmd\n/g)).toHaveLength(2);
  });
});

const EMPTY = {
  digest: "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855",
  size: 0,
  bytes: "",
};

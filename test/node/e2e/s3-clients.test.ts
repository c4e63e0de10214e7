import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { Control } from "../../support/control.ts";
import { type Server, startDevServer, startRunner } from "../../support/dev-server.ts";
import { expectedEtag } from "../../support/expected-etag.ts";
import { mustRun } from "../../support/processes.ts";
import { S3 } from "../../support/s3.ts";
import { awsTool, boto3Tool, hasAws, hasBoto3, hasCurl, type S3Tool } from "../../support/s3-tools.ts";
import { removeScratch, scratchFolder } from "../../support/scratch.ts";
import { startWrangler } from "../../support/wrangler.ts";
import { S3_SCENARIOS } from "./s3-scenarios.ts";

const TOOLS = [
  { name: "aws s3api", here: await hasAws(), open: awsTool },
  { name: "boto3", here: await hasBoto3(), open: boto3Tool },
];

const CURL = await hasCurl();

describe.each([
  { host: "the embedded gateway", startServer: (): Promise<Server> => startDevServer() },
  { host: "wrangler dev", startServer: startWrangler },
])("on $host", ({ startServer }) => {
  let server: Server;
  beforeAll(async () => {
    server = await startServer();
  });
  afterAll(() => server?.stop());

  describe.each(TOOLS)("$name", ({ name, here, open }) => {
    let tool: S3Tool;
    beforeAll(() => {
      if (here) tool = open(server);
    });
    afterAll(() => tool?.close());

    test.skipIf(!here).each(S3_SCENARIOS)("$sentence", { timeout: 120_000 }, async ({ run, sentence }) => {
      const s3 = new S3(server);
      const bucket = `master.${`${name} ${sentence}`.replaceAll(/[^a-z0-9]+/g, "-").slice(0, 50)}`;
      await s3.createBucket(bucket);
      const fill = async (keys: readonly string[]): Promise<void> => {
        for (const key of keys) await s3.put(bucket, key, key);
      };
      await run({ tool, bucket, fill });
    });
  });

  test.skipIf(!CURL)("plain curl with --aws-sigv4 writes, reads and reaches the control API", async () => {
    const curl = (...args: string[]): Promise<string> => runCurl(server, args);
    const s3 = new S3(server);
    await s3.createBucket("master.curl");
    const object = `${server.endpoint}/master.curl/as-you-like-it.txt`;
    await curl("--data-binary", "all the world is a stage", "-X", "PUT", object);
    expect(await curl(object)).toBe("all the world is a stage");
    expect(await curl("--dump-header", "-", "--output", "/dev/null", object)).toContain(
      expectedEtag(Buffer.from("all the world is a stage")),
    );
    expect(await curl(`${server.endpoint}/master.curl?list-type=2`)).toContain(
      "<Key>as-you-like-it.txt</Key>",
    );
    expect(JSON.parse(await curl(`${server.endpoint}/api/v1/pipelines`))).toEqual({ pipelines: [] });

    const folder = scratchFolder();
    const file = join(folder, "streamed");
    writeFileSync(file, Buffer.alloc(6 * 1024 * 1024, "sluice"));
    await curl("--upload-file", file, `${server.endpoint}/master.curl/streamed`);
    expect((await s3.get("master.curl", "streamed"))?.length).toBe(6 * 1024 * 1024);
    removeScratch(folder);
  });

  test("a pipeline runs over what was put through S3", async () => {
    const [s3, control] = [new S3(server), new Control(server)];
    await s3.createBucket("master.words");
    await s3.put("master.words", "one.txt", "to be or not to be\n");
    // Over 4 KiB and over one chunk, so that it goes through the blob store in both directions.
    const long = "word ".repeat(1_000_000);
    await s3.put("master.words", "long.txt", long);
    const runner = startRunner(server, { node: "words-node" });
    try {
      await control.createPipeline({
        pipeline: { name: "upper" },
        transform: {
          image: "busybox",
          cmd: ["sh"],
          stdin: ["for f in /pfs/words/*; do", "  tr a-z A-Z < $f > /pfs/out/$(basename $f)", "done"],
        },
        inputs: [{ repo: { name: "words" }, glob: "/*" }],
      });
      const [job] = await control.ended("upper", { count: 1 });
      expect(job).toMatchObject({
        state: "success",
        datums: { total: 2, processed: 2, skipped: 0, failed: 0 },
      });
      expect(await s3.keys("master.upper")).toEqual(["long.txt", "one.txt"]);
      expect((await s3.get("master.upper", "one.txt"))?.toString()).toBe("TO BE OR NOT TO BE\n");
      expect((await s3.get("master.upper", "long.txt"))?.toString()).toBe(long.toUpperCase());
    } finally {
      await runner.stop();
    }
  });
});

function runCurl({ accessKeyId, secretAccessKey }: Server, args: readonly string[]): Promise<string> {
  return mustRun([
    ...["curl", "--silent", "--show-error", "--fail", "--noproxy", "*"],
    ...["--aws-sigv4", "aws:amz:auto:s3", "--user", `${accessKeyId}:${secretAccessKey}`],
    ...["-H", "x-amz-content-sha256: UNSIGNED-PAYLOAD", ...args],
  ]);
}

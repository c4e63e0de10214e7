// @module-tag rest
import { rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { afterAll, beforeAll, expect, test } from "vitest";
import { SessionEnd, SessionOpened } from "../../../protocol/files.ts";
import { AWS, hasAws } from "../../support/clients/aws-api.ts";
import { awsEnvironment } from "../../support/clients/aws-environment.ts";
import type { Client } from "../../support/clients/client.ts";
import { CLIENTS } from "../../support/clients/roster.ts";
import { readFolder, writeFolder, writeSample } from "../../support/clients/samples.ts";
import { Control } from "../../support/control.ts";
import { type DevServer, startDevServer } from "../../support/dev-server.ts";
import { mustRun } from "../../support/processes.ts";
import { S3 } from "../../support/s3.ts";
import { removeScratch, scratchFolder } from "../../support/scratch.ts";

const HAS_AWS = await hasAws();
const TEST = { timeout: 180_000 };
/** Goes in parts with every client. */
const LARGE_BYTES = 20_000_000;

let server: DevServer;
let s3: S3;
let control: Control;
const scratch = scratchFolder();
beforeAll(async () => {
  server = await startDevServer();
  s3 = new S3(server);
  control = new Control(server);
});
afterAll(async () => {
  await server?.stop();
  removeScratch(scratch);
});

interface Opened {
  /** The open commit's. */
  readonly bucket: string;
  finish(): Promise<string | null>;
}

async function open(repo: string): Promise<Opened> {
  const sessions = `/repos/${repo}/branches/master/sessions`;
  const { session, bucket } = await control.call("POST", sessions, { answers: SessionOpened });
  return {
    bucket,
    async finish() {
      for (;;) {
        const end = await control.call("POST", `${sessions}/${session}/finish`, { answers: SessionEnd });
        if (end.state === "finished") return end.commit;
      }
    },
  };
}

/** A branch that a pipeline of the name `<repo>-jobs` reads. */
async function watchedBranch(repo: string): Promise<void> {
  await s3.createBucket(`master.${repo}`);
  await control.createPipeline({
    pipeline: { name: `${repo}-jobs` },
    transform: { image: "busybox", cmd: ["true"] },
    inputs: [{ repo: { name: repo }, glob: "/" }],
  });
}

async function jobCommits(repo: string): Promise<unknown[]> {
  const jobs = await control.jobs(`${repo}-jobs`);
  return jobs.map(({ inputs }) => inputs[0]?.commit);
}

test.skipIf(!HAS_AWS)(
  "aws s3 sync into an open commit, with --delete too, becomes one commit and one job",
  TEST,
  async () => {
    const repo = "aws-sync";
    const branch = `master.${repo}`;
    const folder = join(scratch, repo);
    const env = awsEnvironment(server, join(scratch, "aws"));
    const sync = (bucket: string, ...more: string[]): Promise<string> =>
      mustRun(
        [
          AWS,
          "--endpoint-url",
          server.endpoint,
          "s3",
          "sync",
          "--no-progress",
          folder,
          `s3://${bucket}/`,
          ...more,
        ],
        {
          env,
        },
      );
    await watchedBranch(repo);
    writeFolder(
      folder,
      Object.fromEntries(Array.from({ length: 50 }, (_, n) => [`${n % 5}/${n}`, `${n}\n`])),
    );
    writeSample(join(folder, "large.bin"), { sizeBytes: LARGE_BYTES, seed: repo });

    const first = await open(repo);
    await sync(first.bucket);
    expect([await s3.keys(branch), await jobCommits(repo)]).toEqual([[], []]);
    const one = await first.finish();
    const keys = await s3.keys(branch);
    expect(keys).toEqual(Object.keys(readFolder(folder)));
    expect(await jobCommits(repo)).toEqual([one]);

    rmSync(join(folder, "3"), { recursive: true });
    writeFileSync(join(folder, "new"), "new\n");
    const second = await open(repo);
    const said = await sync(second.bucket, "--delete", "--size-only");
    expect(said.split("\n").filter((line) => line.startsWith("delete:")).length).toBe(10);
    expect(await s3.keys(branch)).toEqual(keys);
    const two = await second.finish();
    expect(await s3.keys(branch)).toEqual(Object.keys(readFolder(folder)));
    expect([await s3.headCommit(branch), await jobCommits(repo)]).toEqual([two, [one, two]]);
  },
);

for (const { name, here, open: openClient } of CLIENTS) {
  test.skipIf(!here)(
    `${name} puts, lists, gets, copies and deletes in an open commit, large files in parts, and it becomes one commit and one job`,
    TEST,
    async () => {
      const repo = `by-${name.toLowerCase().replaceAll(" ", "-")}`;
      const branch = `master.${repo}`;
      await watchedBranch(repo);
      const client = openClient(server);
      try {
        const opened = await open(repo);
        await fill(client, opened.bucket, join(scratch, repo));
        expect([await s3.keys(branch), await jobCommits(repo)]).toEqual([[], []]);
        const commit = await opened.finish();
        expect(await s3.keys(branch)).toEqual(["copy.txt", "dir/large.bin", "dir/small.txt"]);
        expect((await s3.get(branch, "dir/large.bin"))?.length).toBe(LARGE_BYTES);
        expect((await s3.get(branch, "copy.txt"))?.toString()).toBe("small\n");
        expect([await s3.headCommit(branch), await jobCommits(repo)]).toEqual([commit, [commit]]);
      } finally {
        await client.close?.();
      }
    },
  );
}

async function fill(client: Client, bucket: string, folder: string): Promise<void> {
  writeFolder(folder, { "small.txt": "small\n" });
  writeSample(join(folder, "large.bin"), { sizeBytes: LARGE_BYTES, seed: bucket });
  const small = { bucket, key: "dir/small.txt" };
  await client.put(join(folder, "small.txt"), small);
  await client.put(join(folder, "large.bin"), { bucket, key: "dir/large.bin" });
  await client.put(join(folder, "small.txt"), { bucket, key: "gone" });
  await client.copy(small, { bucket, key: "copy.txt" });
  await client.remove(bucket, ["gone"]);
  const keys = await client.list({ bucket, prefix: "" });
  expect([...keys].sort()).toEqual(["copy.txt", "dir/large.bin", "dir/small.txt"]);
  await client.get(small, join(folder, "received"));
  expect(readFolder(folder).received).toBe(readFolder(folder)["small.txt"]);
}

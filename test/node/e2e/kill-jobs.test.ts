// @module-tag rest
import { setTimeout as pause } from "node:timers/promises";
import { afterAll, beforeAll, expect, test } from "vitest";
import { Control } from "../../support/control.ts";
import { type DevServer, startDevServer, startRunner } from "../../support/dev-server.ts";
import { isGone } from "../../support/http.ts";
import type { Started } from "../../support/processes.ts";
import { seededRandom, testSeed } from "../../support/random.ts";
import { S3 } from "../../support/s3.ts";

const ROUNDS = 6;
const WRITERS = 4;
/** The kill comes at a random moment of this span. */
const SPAN_MS = 1500;

let server: DevServer;
let runner: Started;
beforeAll(async () => {
  server = await startDevServer();
  runner = startRunner(server, { node: "steady" });
});
afterAll(async () => {
  await runner?.kill9();
  await server?.stop();
});

test("a gateway killed under two chained pipelines still makes exactly one job for each commit, and runs it right", {
  timeout: 240_000,
}, async () => {
  const random = seededRandom(testSeed());
  const [s3, control] = [new S3(server), new Control(server)];
  await s3.createBucket("master.in");
  await control.createPipeline(copySpec("first", "in"));
  await control.createPipeline(copySpec("second", "first"));

  const acknowledged: string[] = [];
  let number = 0;
  const write = async (): Promise<void> => {
    try {
      for (;;) {
        const key = `file-${number++}`;
        await s3.put("master.in", key, key);
        acknowledged.push(key);
      }
    } catch (error) {
      if (!isGone(error)) throw error;
    }
  };
  for (let round = 0; round < ROUNDS; round++) {
    const writing = Promise.all(Array.from({ length: WRITERS }, write));
    await pause(random() * SPAN_MS);
    await server.kill9();
    await writing;
    await server.restart();
  }

  const keys = await s3.keys("master.in");
  expect(keys).toEqual(expect.arrayContaining(acknowledged));
  // Each file came with a commit of its own; the second pipeline's input has one commit for each job of the first.
  for (const pipeline of ["first", "second"]) {
    const jobs = await control.ended(pipeline, { count: keys.length, withinMs: 180_000 });
    expect(new Set(jobs.map(({ state, reason }) => reason ?? state))).toEqual(new Set(["success"]));
    expect(jobs.map(({ datums }) => datums.total)).toEqual(keys.map((_, n) => n + 1));
    expect(jobs.reduce((sum, { datums }) => sum + datums.processed, 0)).toBe(keys.length);
    expect(new Set(jobs.map(({ inputs }) => inputs[0]?.commit)).size).toBe(keys.length);
    expect(await s3.keys(`master.${pipeline}`)).toEqual(keys);
    expect(await s3.headCommit(`master.${pipeline}`)).toBe(jobs.at(-1)?.outputCommit);
  }
});

function copySpec(name: string, repo: string): object {
  return {
    pipeline: { name },
    transform: { image: "busybox", cmd: ["sh"], stdin: [`cp /pfs/${repo}/* /pfs/out/`] },
    inputs: [{ repo: { name: repo }, glob: "/*" }],
  };
}

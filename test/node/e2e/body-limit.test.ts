// @module-tag rest
import { afterAll, beforeAll, expect, test } from "vitest";
import { Control } from "../../support/control.ts";
import { type DevServer, startDevServer, startRunner } from "../../support/dev-server.ts";
import type { Started } from "../../support/processes.ts";
import { S3 } from "../../support/s3.ts";

const MIB = 1024 * 1024;

let server: DevServer;
let runner: Started;
let s3: S3;
let control: Control;
beforeAll(async () => {
  server = await startDevServer({ bodyLimit: 65 * MIB });
  runner = startRunner(server, { node: "limited" });
  s3 = new S3(server);
  control = new Control(server);
});
afterAll(async () => {
  await runner?.stop();
  await server?.stop();
});

test("outputs and merges of jobs that are longer than what goes through in one body arrive whole", async () => {
  await s3.createBucket("master.seeds");
  for (const name of ["a", "b"]) await s3.put("master.seeds", name, name);
  const script =
    "for f in /pfs/seeds/*; do n=$(basename $f); head -c 70000000 /dev/zero | tr '\\0' $n > /pfs/out/$n; " +
    "head -c 40000000 /dev/zero | tr '\\0' $n > /pfs/out/both; done";
  await control.createPipeline({
    pipeline: { name: "long" },
    transform: { image: "busybox", cmd: ["sh"], stdin: [script] },
    inputs: [{ repo: { name: "seeds" }, glob: "/*" }],
  });
  const [job] = await control.ended("long", { count: 1 });
  expect(job).toMatchObject({ state: "success", reason: null });
  for (const name of ["a", "b"]) {
    expect((await s3.get("master.long", name))?.equals(Buffer.alloc(70_000_000, name))).toBe(true);
  }
  const both = Buffer.concat([Buffer.alloc(40_000_000, "a"), Buffer.alloc(40_000_000, "b")]);
  expect((await s3.get("master.long", "both"))?.equals(both)).toBe(true);
});

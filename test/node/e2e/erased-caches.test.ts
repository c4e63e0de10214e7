// @module-tag rest
import { readdir, readFile } from "node:fs/promises";
import { join } from "node:path";
import { afterAll, beforeAll, expect, test } from "vitest";
import { findTool } from "../../../runner/lib/system-calls.ts";
import { Control } from "../../support/control.ts";
import { type DevServer, sluiceOk, startDevServer, startRunner } from "../../support/dev-server.ts";
import { eventually } from "../../support/eventually.ts";
import type { Started } from "../../support/processes.ts";
import { S3 } from "../../support/s3.ts";
import { removeScratch, scratchFolder } from "../../support/scratch.ts";

const absent = (await findTool("bwrap")) === undefined && (await findTool("setpriv")) === undefined;
/** Bounds a hang. */
const PATIENCE = { withinMs: 120_000 };

let server: DevServer;
let s3: S3;
let control: Control;
/** The data folder of the node, which stays when its agent ends. */
const data = scratchFolder();
let agent: Started | undefined;

beforeAll(async () => {
  server = await startDevServer();
  s3 = new S3(server);
  control = new Control(server);
});
afterAll(async () => {
  await agent?.kill9();
  await server?.stop();
  removeScratch(data);
});

function startNode(): void {
  agent = startRunner(server, { node: "keeper", options: ["--data", data] });
}

/** The files of the node that have these bytes anywhere. */
async function nodeFilesWith(bytes: string): Promise<string[]> {
  const entries = await readdir(data, { recursive: true, withFileTypes: true });
  const found: string[] = [];
  for (const entry of entries) {
    if (!entry.isFile()) continue;
    const path = join(entry.parentPath, entry.name);
    const content = await readFile(path).catch(() => Buffer.alloc(0));
    if (content.includes(bytes)) found.push(path.slice(data.length + 1));
  }
  return found;
}

const nodeForgets = (bytes: string) =>
  eventually("the node had nothing of it", async () => (await nodeFilesWith(bytes)).length === 0, PATIENCE);

/** A pipeline that copies its input and then waits for a file. */
async function createPipeline(name: string, gate: string): Promise<void> {
  await s3.createBucket(`master.${name}-in`);
  const script = `cat /pfs/${name}-in/* > /pfs/out/$RANDOM-copy; until [ -e ${gate} ]; do sleep 0.05; done`;
  await control.createPipeline({
    pipeline: { name },
    transform: { image: "busybox", cmd: ["sh", "-e", "-c", script] },
    inputs: [{ repo: { name: `${name}-in` }, glob: "/*" }],
  });
}

test.skipIf(absent)(
  "what was erased is nowhere in the folder of a node: not in its cache, not where a killed agent left it",
  async () => {
    startNode();
    await createPipeline("ends", "/");
    const [cached, left] = [
      "the secret that is cached ".repeat(500),
      "the secret of a killed agent ".repeat(500),
    ];
    // A node keeps nothing in its cache before it has heard what was erased: the first files may come too early.
    await s3.put("master.ends-in", "first", "1");
    await control.ended("ends", { count: 1, ...PATIENCE });
    await s3.put("master.ends-in", "cached", cached);
    await s3.put("master.ends-in", "stays", "what stays ".repeat(500));
    await control.ended("ends", { count: 3, ...PATIENCE });
    // A file that is renamed while the folder is read is missed.
    const isCached = async () => (await nodeFilesWith("secret that is cached")).length > 0;
    await eventually("the node had the file", isCached, PATIENCE);
    expect(await nodeFilesWith("secret that is cached")).toEqual([expect.stringMatching(/^cache\//)]);

    await sluiceOk(server, "file", "erase", "s3://master.ends-in/cached");
    await nodeForgets("secret that is cached");
    // The folder of the last datum may go after the node has heard.
    await expect.poll(() => nodeFilesWith("what stays")).toEqual([expect.stringMatching(/^cache\//)]);

    await createPipeline("waits", join(data, "never"));
    await s3.put("master.waits-in", "left", left);
    await eventually(
      "the command had written",
      async () => (await nodeFilesWith("secret of a killed agent")).some((path) => path.endsWith("-copy")),
      PATIENCE,
    );
    await agent?.kill9();
    await sluiceOk(server, "file", "erase", "s3://master.waits-in/left");
    // Nobody runs there: what is left goes when an agent starts.
    expect((await nodeFilesWith("secret of a killed agent")).length).toBeGreaterThanOrEqual(2);
    startNode();
    await nodeForgets("secret of a killed agent");
    expect(await nodeFilesWith("what stays")).toEqual([expect.stringMatching(/^cache\//)]);
  },
);

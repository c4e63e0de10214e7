import { randomBytes } from "node:crypto";
import { readdirSync } from "node:fs";
import { readFile } from "node:fs/promises";
import { join } from "node:path";
import { afterEach, beforeEach, describe, expect, test } from "vitest";
import { allEntries } from "../../../runner/cache/entries.ts";
import { findTool } from "../../../runner/lib/system-calls.ts";
import { TreeHash } from "../../../runner/lib/tree-hash.ts";
import {
  childrenOf,
  handlesOf,
  limitHandles,
  mostHandles,
  needsPrlimit,
  prlimit,
} from "../../support/handle-limits.ts";
import { mustRun, type Started, start } from "../../support/processes.ts";
import { REST } from "../../support/suite.ts";
import { KEY } from "./support/fake-gateway.ts";
import { Stage, soon } from "./support/running.ts";

/*
 * An agent's process that may open nothing more for a while.
 */

const AGENT = join(import.meta.dirname, "support/agent-process.ts");
const DEAD_OR_ALIVE = join(import.meta.dirname, "support/handles-process.ts");
const WORDS = "no file handles are left: raise the limit that this program is started with ('ulimit -n')";
const hasJail = (await findTool("bwrap")) !== undefined || (await findTool("setpriv")) !== undefined;
const needs = hasJail ? needsPrlimit : test.skip;

let stage: Stage;
let agent: Started | undefined;

beforeEach(async () => {
  stage = await Stage.open();
});
afterEach(async () => {
  await agent?.stop();
  agent = undefined;
  await stage.close();
});

async function startAgent(): Promise<Started> {
  const env = {
    SLUICE_ENDPOINT: stage.gateway.endpoint,
    SLUICE_ACCESS_KEY_ID: KEY.accessKeyId,
    SLUICE_SECRET_ACCESS_KEY: KEY.secretAccessKey,
    SLUICE_TEST_LOG: "info",
  };
  const started = start([process.execPath, AGENT, stage.dataDir, "n1"], { env });
  agent = started;
  await soon(() => started.output()).toContain("ready\n");
  return started;
}

function addFile(sizeBytes: number): Buffer {
  const bytes = randomBytes(sizeBytes);
  const path = `file-${stage.gateway.contents.size}`;
  stage.gateway.addDatum({ path, kind: "file", content: stage.gateway.store(bytes) });
  return bytes;
}

const done = () => stage.gateway.outcomes.filter(({ state }) => state === "success");
const failed = () => stage.gateway.outcomes.filter(({ state }) => state === "failed");

/** Lets a process open so little more, and then everything again when the agent has said why it can't go on. */
async function withoutHandles(
  agent: Started,
  { pid, spare = 0 }: { pid: number; spare?: number },
  meanwhile: () => void,
): Promise<void> {
  const before = mostHandles(pid);
  const said = agent.output().length;
  await limitHandles(pid, handlesOf(pid) + spare);
  meanwhile();
  await soon(() => agent.output().slice(said)).toContain(WORDS);
  await limitHandles(pid, before);
}

async function expectWholeCache(): Promise<void> {
  for await (const { path, content } of allEntries(join(stage.dataDir, "cache"))) {
    const hash = new TreeHash();
    hash.update(await readFile(path));
    expect(hash.finish()).toEqual(content);
  }
}

describe("an agent without file handles", () => {
  needs(
    "fails no datum, says what is missing, and goes on by itself when it has some again (prlimit)",
    REST,
    async () => {
      stage.gateway.transform = { image: "any", cmd: ["sh"], stdin: ["cp /pfs/in/* /pfs/out/copy"] };
      const started = await startAgent();
      const inputs = [addFile(100_000)];
      await stage.reported(1);
      const [launcher = 0] = childrenOf(started.pid);
      await withoutHandles(started, started, () => {
        inputs.push(addFile(100_000), addFile(2_000_000));
      });
      await soon(() => done().length).toBe(3);
      // The process that starts commands is another one.
      await withoutHandles(started, { pid: launcher }, () => inputs.push(addFile(1000)));
      await soon(() => done().length).toBe(4);
      // Enough for the files of a command, and not for its pipes.
      await withoutHandles(started, { pid: launcher, spare: 3 }, () => inputs.push(addFile(1000)));
      await soon(() => done().length).toBe(5);
      expect(failed()).toEqual([]);
      const copies = done().map((outcome) => stage.gateway.outputBytes(outcome, "copy"));
      expect(copies).toEqual(expect.arrayContaining(inputs));
      await soon(() => stage.gateway.troubles.at(-1) ?? null).toBe(null);
      await expectWholeCache();
      // Of what was given back nothing is left on the disk.
      const agents = join(stage.dataDir, "agents");
      const left = () => readdirSync(agents, { recursive: true, encoding: "utf8" });
      await soon(() => left().filter((path) => path.includes("datum-"))).toEqual([]);
    },
  );

  needs("takes none for dead, whose folder it would remove (prlimit)", async () => {
    const told = await mustRun([process.execPath, DEAD_OR_ALIVE, prlimit]);
    expect(told).toBe(`${WORDS}; true\n`);
  });
});

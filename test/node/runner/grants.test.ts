import { mkdir, readFile, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { afterEach, beforeEach, describe, expect, test } from "vitest";
import { GRANT_HEADER, WIRE_HEADER, WIRE_VERSION } from "../../../protocol/runner.ts";
import type { Command } from "../../../runner/executors/executor.ts";
import { type FakeAgent, startFakeAgent } from "./support/fake-agent.ts";
import { FakeExecutor } from "./support/fake-executor.ts";
import type { Call } from "./support/fake-gateway.ts";
import { Stage, soon } from "./support/running.ts";

let stage: Stage;
let executor: FakeExecutor;
let agent: FakeAgent;

/** Copies the inputs to the output, and writes a file that does not fit into an outcome beside them. */
async function copyInputs({ pfs }: Command): Promise<undefined> {
  await writeFile(join(pfs, "out", "large"), Buffer.alloc(2_000_000, 7));
  await mkdir(join(pfs, "out", "copies"));
  await writeFile(join(pfs, "out", "copies", "a"), await readFile(join(pfs, "in", "a")));
}

const start = () => startFakeAgent({ endpoint: stage.gateway.endpoint, dataDir: stage.dataDir, executor });
const states = () => stage.gateway.outcomes.map(({ state }) => state);

beforeEach(async () => {
  stage = await Stage.open();
  executor = new FakeExecutor();
  executor.onRun = copyInputs;
});
afterEach(async () => {
  await agent.kill();
  await stage.close();
});

describe("with a key of level runner, a runner", () => {
  beforeEach(() => {
    stage.gateway.withGrants = true;
  });

  test("presents the grant of a lease with all that it reads and uploads for it", async () => {
    const presented: string[] = [];
    stage.gateway.before = ({ method, path, headers }: Call) => {
      const grant = headers[GRANT_HEADER];
      if (grant !== undefined) presented.push(`${method} ${path.split("/").at(-1)?.slice(0, 8)} ${grant}`);
    };
    const content = stage.gateway.store("content of a");
    stage.gateway.files.set("c1", [{ path: "a", kind: "file", ...content }]);
    stage.gateway.addDatum({ path: "", kind: "dir" });
    agent = start();
    await stage.reported(1);
    expect(states()).toEqual(["success"]);
    const [grant = ""] = stage.gateway.grants;
    expect(presented.every((call) => call.endsWith(grant))).toBe(true);
    const calls = presented.map((call) => call.replace(` ${grant}`, ""));
    expect(calls).toEqual([
      "GET files",
      `GET ${content.digest.slice(0, 8)}`,
      "POST uploads",
      "POST reserve",
      "PUT contents",
    ]);
  });

  test("has a lease renewed whose grant is good no more, and goes on with the fresh one", async () => {
    // A pause of the machine, or a change of the root key: what was granted is good no more.
    stage.gateway.before = ({ path }: Call) => {
      if (path.includes("/contents/") && stage.gateway.requests.filter(isRenewal).length === 0) {
        stage.gateway.grants.clear();
      }
    };
    stage.gateway.add("a");
    agent = start();
    await stage.reported(1);
    expect(states()).toEqual(["success"]);
    expect(stage.gateway.requests.filter(isRenewal).length).toBeGreaterThan(0);
  });

  test("stops the work of a lease that is lost when its grant is", async () => {
    stage.gateway.before = ({ path }: Call) => {
      if (!path.includes("/contents/")) return;
      stage.gateway.grants.clear();
      stage.gateway.lose(...stage.gateway.held.keys());
    };
    stage.gateway.add("a");
    agent = start();
    await soon(() => stage.gateway.requests.filter(isRenewal).length).toBeGreaterThan(0);
    stage.gateway.before = () => undefined;
    stage.gateway.add("b");
    executor.onRun = () => undefined;
    await stage.reported(1);
    expect(stage.gateway.outcomes).toHaveLength(1);
    expect(states()).toEqual(["success"]);
  });
});

const isRenewal = (request: string) => request === "POST /api/v1/runner/renew";

describe("a runner", () => {
  test("says with each request of which version of the wire it is", async () => {
    const versions = new Set<unknown>();
    stage.gateway.before = ({ headers }: Call) => void versions.add(headers[WIRE_HEADER]);
    stage.gateway.add("a");
    agent = start();
    await stage.reported(1);
    expect([...versions]).toEqual([String(WIRE_VERSION)]);
  });
});

// @module-tag rest
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { join } from "node:path";
import { afterAll, beforeAll, expect, test } from "vitest";
import { spaceFindings } from "../../../cli/doctor/loops.ts";
import { ROOT } from "../../support/dev-server.ts";
import { doorVariables, ROOT_KEY } from "../../support/keys.ts";
import { run } from "../../support/processes.ts";
import { scratchFolder } from "../../support/scratch.ts";

/** What the catalogue of the gateway has, which has nothing else. */
let usedBytes = 0;

const gateway = createServer(({ url = "" }, answer) => {
  const told = url.startsWith("/api/v1/usage")
    ? { catalogue: { usedBytes, limitBytes: 10_000_000_000 } }
    : { repos: [] };
  answer.writeHead(200, { "content-type": "application/json" }).end(JSON.stringify(told));
});

let env: Record<string, string>;

beforeAll(async () => {
  await new Promise<void>((resolve) => {
    gateway.listen(0, "127.0.0.1", resolve);
  });
  const { port } = gateway.address() as AddressInfo;
  env = doorVariables({ endpoint: `http://127.0.0.1:${port}`, ...ROOT_KEY });
});
afterAll(() => {
  gateway.close();
});

test("of a catalogue that is 80 % full, `repo usage` and `doctor` warn, and of one with more room not", async () => {
  const usage = [process.execPath, join(ROOT, "bin/sluice.js"), "repo", "usage"];
  const said = async () => (await run(usage, { cwd: scratchFolder(), env })).stderr.toString();
  const found = () => spaceFindings({}, env);
  usedBytes = 7_900_000_000;
  expect(await said()).toBe("");
  expect(await found()).toEqual([]);
  usedBytes = 8_000_000_000;
  expect(await said()).toMatch(/^Warning: the catalogue has .*80 %/);
  expect(await found()).toEqual([
    {
      ...{ check: "space", state: "warn", found: "the database of the catalogue is 80 % full" },
      fix: expect.stringContaining("pipelines"),
    },
  ]);
});

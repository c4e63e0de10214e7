// @module-tag rest
import { randomBytes } from "node:crypto";
import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { NodeList } from "../../../protocol/runner.ts";
import { ROOT, sluiceOk } from "../../support/dev-server.ts";
import { eventually } from "../../support/eventually.ts";
import type { Started } from "../../support/processes.ts";
import { scratchFolder } from "../../support/scratch.ts";
import { Fleet } from "./support/fleet.ts";

/*
 * The clocks of the gateway's host and of its nodes are set while work is under way. That of the runtime is not: the objects'
 * own tests set theirs.
 */

const HOUR_MS = 3600_000;
const clocks = scratchFolder();

/** A clock that can be set, and the variables of a program that goes by it. */
function settable(name: string) {
  const file = join(clocks, name);
  const set = (byMs: number): void => writeFileSync(file, String(byMs));
  set(0);
  const variables = {
    NODE_OPTIONS: `--import=${join(ROOT, "test/support/shifted-clock.ts")}`,
    SLUICE_TEST_CLOCK_FILE: file,
  };
  return { set, variables };
}

const host = settable("host");
let fleet: Fleet;
beforeAll(async () => {
  fleet = await Fleet.open({ variables: host.variables });
});
afterAll(async () => {
  await fleet?.[Symbol.asyncDispose]();
});

async function stop(...agents: Started[]): Promise<void> {
  for (const agent of agents) process.kill(agent.pid, "SIGTERM");
  for (const agent of agents) expect(await agent.ended).toMatchObject({ code: 0 });
}

const lastSeen = async (): Promise<number[]> => {
  const { nodes } = await fleet.control.call("GET", "/nodes", { answers: NodeList });
  return nodes.map(({ seenAt }) => seenAt);
};

describe.each([
  ["an hour back", -HOUR_MS],
  ["a day ahead", 24 * HOUR_MS],
])("clocks of host and nodes that are set %s while commands run", (_, byMs) => {
  test("lose no lease, end no heartbeat, and keep nothing from being written, flushed, fetched and scrubbed", async () => {
    const name = byMs < 0 ? "back" : "ahead";
    const nodes = [settable(`${name}-1`), settable(`${name}-2`)];
    const agents = nodes.map(({ variables }, n) => fleet.agent(`${name}-${n}`, { variables }));
    await fleet.live(2);
    const workers = { strategy: "CONSTANT", constant: 2 };
    await fleet.createPipeline({ name, workers, files: 8, together: 2 });
    await fleet.started(name, 2);
    for (const clock of [host, ...nodes]) clock.set(byMs);

    const large = randomBytes(300_000);
    await fleet.s3.put(`master.${name}-in`, "later", large);
    const before = await lastSeen();
    await eventually("all nodes are heard of again", async () => {
      const after = await lastSeen();
      return after.length === before.length && Math.min(...after) > Math.max(...before);
    });
    fleet.letEnd(name);
    const jobs = await fleet.ended(name, 2);
    expect(jobs.map(({ state }) => state)).toEqual(["success", "success"]);
    expect(jobs.reduce((sum, { datums }) => sum + datums.processed, 0)).toBe(9);
    expect(fleet.told(name)).toMatchObject({ started: 9, ended: 9 });
    expect(await fleet.s3.get(`master.${name}`, "later")).toEqual(large);
    for (const agent of agents) expect(agent.output()).not.toMatch(/was lost|broke down/);

    await sluiceOk(fleet.server, "admin", "scrub", "--all");
    await fleet.server.killRuntime();
    expect(await fleet.s3.get(`master.${name}-in`, "later")).toEqual(large);
    await stop(...agents);
    await fleet.control.deletePipeline(name);
    host.set(0);
  });
});

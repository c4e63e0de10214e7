// @module-tag rest
import { join } from "node:path";
import { expect, test } from "vitest";
import { ROOT } from "../../support/dev-server.ts";
import { eventually } from "../../support/eventually.ts";
import { canMakeNetworks, openNetwork } from "../../support/netns.ts";
import { mustRun, run, start } from "../../support/processes.ts";

const MARK = "4242.4242";

const READY = "there is a process";

/** Makes a node, starts a process there, says so, and waits to be killed. */
const KILLED = `
  import { spawn } from "node:child_process";
  import { openNetwork } from ${JSON.stringify(join(ROOT, "test/support/netns.ts"))};
  const node = await (await openNetwork()).join();
  const [program, ...args] = node.command(["sleep", "${MARK}"]);
  spawn(program, args, { detached: true, stdio: "ignore" });
  while ((await node.processes()).length === 0);
  console.log(${JSON.stringify(READY)});
  setInterval(() => {}, 1000);
`;

test.skipIf(!canMakeNetworks())(
  "what a killed test run left of its network goes with the next one",
  async () => {
    const killed = start([process.execPath, "--input-type=module", "-e", KILLED], { cwd: ROOT });
    await eventually(READY, () => killed.output().includes(READY));
    // Once it is killed, another test that opens a network may clear this away at any time.
    expect(await namespacesOf(killed.pid)).toHaveLength(1);
    await killed.kill9();
    const network = await openNetwork();
    await network.close();
    expect(await namespacesOf(killed.pid)).toEqual([]);
    const left = async () => (await run(["pgrep", "-f", `sleep ${MARK}`])).stdout.toString();
    await expect.poll(left).toBe("");
  },
);

async function namespacesOf(pid: number): Promise<string[]> {
  const lines = (await mustRun(["ip", "netns", "list"])).split("\n");
  return lines.filter((line) => line.startsWith(`sluice-test-${pid}-`));
}

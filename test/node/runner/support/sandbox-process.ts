import { mkdir } from "node:fs/promises";
import { join } from "node:path";
import { findBubblewrap, findUnshare } from "../../../../runner/executors/detect.ts";
import { readRootEntries } from "../../../../runner/executors/process/machine.ts";
import { processExecutor } from "../../../../runner/executors/process/process.ts";

/** Runs one shell script in a sandbox, as a process of its own. `argv`: tool, folder with `datum` in it, script, where secrets are mounted. `SLUICE_TEST_HIDDEN` is what the script is not to see. */
const [, , tool, dir = "", script = "", ...mountPaths] = process.argv;
const find = tool === "bubblewrap" ? findBubblewrap : findUnshare;
const hidden = process.env.SLUICE_TEST_HIDDEN;
const root = await readRootEntries();
const jail = await find({ root, dataDir: dir, ...(hidden && { hidden: [hidden] }) });
if (typeof jail === "string") throw new Error(jail);
await mkdir(join(dir, "own"));
const executor = processExecutor(jail);
const { signal } = new AbortController();
const image = { image: "any", pipeline: "any", pullSecrets: [] };
const sandbox = await executor.prepare({ dir: join(dir, "own"), ...image, signal });
const env = { PATH: process.env.PATH ?? "/usr/bin:/bin" };
const cmd = ["sh", "-c", script];
const secrets = mountPaths.map((mountPath) => ({
  name: "key",
  mountPath,
  secret: new Map([["key", Buffer.from("value")]]),
}));
console.error(await sandbox.run({ pfs: join(dir, "datum"), cmd, stdin: null, env, secrets, signal }));
await executor.close();

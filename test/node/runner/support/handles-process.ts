import { execFileSync } from "node:child_process";
import { closeSync, openSync } from "node:fs";
import { messageOf } from "../../../../runner/lib/fault.ts";
import { agentName, isAgentAlive } from "../../../../runner/pfs/folders.ts";

/** Asks whether it is alive itself, as another agent would, with no file handle left; prints what it hears. `argv`: prlimit. */
const [, , prlimit = ""] = process.argv;
const name = await agentName();
execFileSync(prlimit, ["--pid", String(process.pid), "--nofile=64:"]);
const taken: number[] = [];
try {
  for (;;) taken.push(openSync("/dev/null", "r"));
} catch {
  // That was the last one.
}
const without = await isAgentAlive(name).then(String, messageOf);
for (const handle of taken) closeSync(handle);
process.stdout.write(`${without.replace(/ \(EMFILE.*$/, "")}; ${await isAgentAlive(name)}\n`);

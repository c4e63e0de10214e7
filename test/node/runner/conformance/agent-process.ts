import { mkdir } from "node:fs/promises";
import { join } from "node:path";
import { findSubject, type SubjectName } from "./subjects.ts";

/** An agent's process that runs one shell script, to be killed. `argv`: the executor, its image, the data folder with a datum in `datum`, the script. */
const [, , name, image = "", dataDir = "", script = ""] = process.argv;
const subject = await findSubject(name as SubjectName);
const executor = await subject.open(dataDir);
const dir = join(dataDir, "own");
await mkdir(dir);
const signal = new AbortController().signal;
const sandbox = await executor.prepare({ dir, image, pipeline: "killed", pullSecrets: [], signal });
const env = { PATH: subject.path };
console.error(
  await sandbox.run({ pfs: join(dataDir, "datum"), cmd: ["sh", "-c", script], stdin: null, env, signal }),
);
await executor.close();

import { chmodSync, cpSync, readdirSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { z } from "zod";
import type { Door } from "../../support/keys.ts";
import { run } from "../../support/processes.ts";
import { go, lacksGo } from "../go.ts";
import type { Outcome, Suite } from "../suite.ts";
import { PATCHES } from "./patches.ts";

const MODULE = "github.com/versity/versitygw";
/** Tests of its own wait for each other up to here. */
const AT_ONCE = 6;

/** What `versitygw test full-flow` runs. */
export const versitygw: Suite = {
  name: "versitygw",
  title: "versitygw 1.8.0",
  about:
    "The tests that `versitygw test full-flow` runs, by a program of ours that tells what each came to " +
    "(`test/conformance/versitygw/`), with the patches of `patches.ts` there.",
  // What whoever has plain S3 in mind sets.
  variables: { SLUICE_LAST_MODIFIED: "object", SLUICE_DELETE: "empty-only", SLUICE_DISK_ENCRYPTED: "on" },
  lacks: lacksGo,
  run: runTests,
};

async function runTests(door: Door, folder: string): Promise<Outcome[]> {
  const program = await build(folder);
  const { code, stdout, stderr } = await run(
    [program, "-source", join(folder, "module/tests/integration"), "-at-once", String(AT_ONCE)],
    {
      cwd: folder,
      env: {
        AWS_ENDPOINT_URL: door.endpoint,
        AWS_ACCESS_KEY_ID: door.accessKeyId,
        AWS_SECRET_ACCESS_KEY: door.secretAccessKey,
        // Files of the machine would say more.
        HOME: folder,
      },
    },
  );
  if (code !== 0) throw new Error(`the tests of versitygw ended with ${code}:\n${stderr}`);
  const lines = stdout.toString().trimEnd().split("\n");
  return lines.map((line) => Told.parse(JSON.parse(line)));
}

const Told = z.object({ test: z.string(), passed: z.boolean(), said: z.string() });

/** Builds the tests from a copy of the module: modules as they were fetched can't be changed. */
async function build(folder: string): Promise<string> {
  const here = import.meta.dirname;
  for (const file of ["go.mod", "go.sum", "main.go", "listed.go"])
    cpSync(join(here, file), join(folder, file));
  const { Dir } = Fetched.parse(JSON.parse(await go(["mod", "download", "-json", MODULE], { cwd: folder })));
  const copy = join(folder, "module");
  cpSync(Dir, copy, { recursive: true });
  makeWritable(copy);
  for (const { file, from, to } of PATCHES) {
    const path = join(copy, file);
    const before = readFileSync(path, "utf8");
    const after = before.replaceAll(from, to);
    if (after === before) throw new Error(`${file} of ${MODULE} has nothing that is to be patched`);
    writeFileSync(path, after);
  }
  await go(["mod", "edit", "-replace", `${MODULE}=./module`], { cwd: folder });
  const program = join(folder, "tests");
  // What was compiled is found again, wherever the folder is.
  await go(["build", "-trimpath", "-o", program, "."], { cwd: folder });
  return program;
}

const Fetched = z.object({ Dir: z.string() });

function makeWritable(folder: string): void {
  chmodSync(folder, 0o755);
  for (const entry of readdirSync(folder, { withFileTypes: true })) {
    const path = join(folder, entry.name);
    if (entry.isDirectory()) makeWritable(path);
    else chmodSync(path, 0o644);
  }
}

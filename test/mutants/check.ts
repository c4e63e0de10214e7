import { readFileSync } from "node:fs";
import { join } from "node:path";
import { faultsOf } from "./faults.ts";
import { INVARIANTS } from "./list/all.ts";

/** Holds that each mutant still has its place in the code and its tests. `npm run mutants` runs them. */
const root = join(import.meta.dirname, "../..");
const faults = faultsOf(root, readFileSync(join(root, "docs/invariants.md"), "utf8"), INVARIANTS);
for (const fault of faults) console.error(fault);
if (faults.length > 0) process.exitCode = 1;

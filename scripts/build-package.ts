import { join } from "node:path";
import { buildProgram } from "./package/program.ts";

/**
 * `npm pack` runs this first. Makes `dist/`, which `bin/sluice.js` runs if the sources are not there, so nothing in the
 * repository needs it.
 */
await buildProgram(join(import.meta.dirname, "../dist"));

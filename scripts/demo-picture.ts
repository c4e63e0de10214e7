import { spawnSync } from "node:child_process";
import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { terminalPicture } from "./pictures/terminal-picture.ts";

/** `npm run picture:generate`: what `npm run demo` prints, as the picture that the README shows. */

const ROOT = join(import.meta.dirname, "..");
const { status, stdout, stderr } = spawnSync(process.execPath, [join(ROOT, "scripts/demo.ts")], {
  encoding: "utf8",
});
if (status !== 0) throw new Error(`the demo ended with ${status}:\n${stderr}`);
writeFileSync(join(ROOT, "docs/pictures/demo.svg"), terminalPicture("npm run demo", stdout));

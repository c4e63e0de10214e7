import { gzipSync } from "node:zlib";
import { buildConsole } from "../embedded/bundle/console.ts";

/** What a browser may load before the console shows anything, gzipped. */
const MOST_BYTES = 120 * 1024;

const { value: files, first } = await buildConsole();
const sizes = first.map((name) => [name, gzipSync(files.get(name) ?? "", { level: 9 }).length] as const);
const total = sizes.reduce((sum, [, size]) => sum + size, 0);
console.log(sizes.map(([name, size]) => `${size} ${name}`).join("\n"));
console.log(`${total} bytes of ${MOST_BYTES} on the first load, gzipped`);
if (total > MOST_BYTES) process.exitCode = 1;

import { readFileSync, writeFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";

/**
 * `npm run wasm:generate`: takes the WebAssembly modules that the Worker uses out of the installed hash-wasm, which
 * carries them as base64. The platform only runs modules that are files of the bundle.
 */

const NAMES = ["crc32", "crc64", "xxhash3", "xxhash64", "xxhash128"] as const;
const PACKAGE = dirname(fileURLToPath(import.meta.resolve("hash-wasm")));

/** The generated files are checked in here. */
export const WASM_FOLDER = join(import.meta.dirname, "../worker/blobs/hash/wasm");

/** What the installed package holds, by file name. Throws if it is built differently than we know it. */
export function wasmFiles(): Map<string, Buffer> {
  const files = new Map<string, Buffer>();
  for (const name of NAMES) files.set(`${name}.wasm`, wasmModule(name));
  files.set("LICENSE", readFileSync(join(PACKAGE, "../LICENSE")));
  return files;
}

function wasmModule(name: string): Buffer {
  const code = readFileSync(join(PACKAGE, `${name}.umd.min.js`), "utf8");
  const [, base64] = new RegExp(`name:"${name}",data:"([^"]+)"`).exec(code) ?? [];
  if (base64 === undefined) throw new Error(`hash-wasm's ${name}.umd.min.js has no module named ${name}`);
  return Buffer.from(base64, "base64");
}

if (import.meta.main) {
  for (const [file, bytes] of wasmFiles()) writeFileSync(join(WASM_FOLDER, file), bytes);
}

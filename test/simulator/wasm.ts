import { readFileSync } from "node:fs";

/** A module of WebAssembly as the gateway's runtime imports it: compiled, and not yet an instance. */
export function loadWasm(path: string): string {
  const bytes = readFileSync(path).toString("base64");
  return `export default new WebAssembly.Module(Buffer.from("${bytes}", "base64"));`;
}

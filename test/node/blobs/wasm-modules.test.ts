import { readFileSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, test } from "vitest";
import { WASM_FOLDER, wasmFiles } from "../../../scripts/wasm-modules.ts";

describe("the WebAssembly modules that are checked in", () => {
  for (const [file, bytes] of wasmFiles())
    test(`are what the installed package holds (npm run wasm:generate): ${file}`, () => {
      expect(readFileSync(join(WASM_FOLDER, file)).equals(bytes)).toBe(true);
    });
});

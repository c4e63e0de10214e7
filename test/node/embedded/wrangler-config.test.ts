import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { expect, test } from "vitest";
import { readRuntimeConfig } from "../../../embedded/workerd/runtime.ts";
import { scratchFolder } from "../../support/scratch.ts";

function configFile(text: string): string {
  const file = join(scratchFolder(), "wrangler.toml");
  writeFileSync(file, text);
  return file;
}

test("the runtime's settings are those of wrangler.toml", () => {
  const file = configFile(
    'name = "x"\ncompatibility_date = "2026-01-02"\ncompatibility_flags = ["a", "b"]\n\n[vars]\nx = 1\n',
  );
  expect(readRuntimeConfig(file)).toEqual({
    compatibilityDate: "2026-01-02",
    compatibilityFlags: ["a", "b"],
  });
});

test("keys of other tables are not taken for the top level's", () => {
  const file = configFile(
    'name = "x"\n[env.test]\ncompatibility_date = "2026-01-02"\ncompatibility_flags = []\n',
  );
  expect(() => readRuntimeConfig(file)).toThrow("compatibility_date");
});

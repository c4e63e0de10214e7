import { readFileSync } from "node:fs";
import { z } from "zod";

const RuntimeSettings = z.object({
  compatibility_date: z.string(),
  compatibility_flags: z.array(z.string()),
});

/** What decides how workerd behaves, for this host as for `wrangler`. */
export interface RuntimeConfig {
  readonly compatibilityDate: string;
  readonly compatibilityFlags: string[];
}

/**
 * Reads the runtime's settings from `wrangler.toml`, so that the embedded gateway and `wrangler` can't differ. They are
 * among its top-level keys, whose values (strings, arrays of strings) are JSON as well as TOML.
 */
export function readRuntimeConfig(file: string): RuntimeConfig {
  const [topLevel = ""] = readFileSync(file, "utf8").split(/^\[/m, 1);
  const values = [...topLevel.matchAll(/^(compatibility_\w+) *= *(.+)$/gm)].map(([, key, value]) => [
    key,
    JSON.parse(value ?? ""),
  ]);
  const settings = RuntimeSettings.parse(Object.fromEntries(values));
  return {
    compatibilityDate: settings.compatibility_date,
    compatibilityFlags: settings.compatibility_flags,
  };
}

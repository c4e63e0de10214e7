import { randomBytes } from "node:crypto";
import { join } from "node:path";
import { z } from "zod";
import { keep, readKept } from "./kept-file.ts";

/** The key that may do everything (design §5). */
export const RootKey = z.object({ accessKeyId: z.string().min(3), secretAccessKey: z.string().min(8) });
export type RootKey = z.infer<typeof RootKey>;

/** Where a data folder keeps the root key that was made for it. */
export function rootKeyFile(dataDir: string): string {
  return join(dataDir, "root-key.json");
}

/** The root key of a data folder; made, random, at the first time. Only its owner may read the file. */
export function keptRootKey(dataDir: string): RootKey {
  return readRootKey(dataDir) ?? makeRootKey(dataDir);
}

/** The root key that a data folder keeps, or undefined where it keeps none. */
export function readRootKey(dataDir: string): RootKey | undefined {
  return readKept({
    file: rootKeyFile(dataDir),
    schema: RootKey,
    damaged:
      'does not hold a key ({"accessKeyId": …, "secretAccessKey": …}): repair it, or remove it to have a new key made',
  });
}

function makeRootKey(dataDir: string): RootKey {
  const key: RootKey = {
    accessKeyId: `SLUICE${randomBytes(7).toString("hex").toUpperCase()}`,
    secretAccessKey: randomBytes(30).toString("base64url"),
  };
  keep(rootKeyFile(dataDir), key);
  return key;
}

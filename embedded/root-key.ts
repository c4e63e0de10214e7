import { randomBytes } from "node:crypto";
import { readFileSync, renameSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { z } from "zod";
import { HostError } from "./host-error.ts";

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
  const file = rootKeyFile(dataDir);
  let text: string;
  try {
    text = readFileSync(file, "utf8");
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === "ENOENT") return undefined;
    throw error;
  }
  const key = RootKey.safeParse(parsedJson(text));
  if (!key.success) {
    throw new HostError(
      `${file} does not hold a key ({"accessKeyId": …, "secretAccessKey": …}): repair it, or remove it to have a new key made`,
    );
  }
  return key.data;
}

function makeRootKey(dataDir: string): RootKey {
  const key: RootKey = {
    accessKeyId: `SLUICE${randomBytes(7).toString("hex").toUpperCase()}`,
    secretAccessKey: randomBytes(30).toString("base64url"),
  };
  const file = rootKeyFile(dataDir);
  // Written whole under another name first: a crash never leaves half a key.
  const draft = `${file}.${process.pid}`;
  writeFileSync(draft, `${JSON.stringify(key, null, 2)}\n`, { mode: 0o600 });
  renameSync(draft, file);
  return key;
}

function parsedJson(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}

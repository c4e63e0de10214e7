import { randomBytes } from "node:crypto";
import { join } from "node:path";
import { z } from "zod";
import { Settings } from "../../protocol/settings.ts";
import { keep, readKept } from "./kept-file.ts";

const KEY_BYTES = 32;
const Kept = z.object({ encryptionKey: Settings.shape.SLUICE_ENCRYPTION_KEY.unwrap() });

/**
 * What encrypts the secrets of the access keys of a data folder, in base64; made, random, at the first time. Only its
 * owner may read the file. Without it those keys are lost.
 */
export function keptEncryptionKey(dataDir: string): string {
  const file = join(dataDir, "encryption-key.json");
  const kept = readKept({
    file,
    schema: Kept,
    damaged:
      'does not hold a key ({"encryptionKey": the base64 of 32 bytes}): repair it, or remove it to have a new one made, which ends all access keys but the root key',
  });
  if (kept) return kept.encryptionKey;
  const encryptionKey = randomBytes(KEY_BYTES).toString("base64");
  keep(file, { encryptionKey });
  return encryptionKey;
}

import { randomBytes } from "node:crypto";
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { z } from "zod";
import { jsonOf } from "../../protocol/json.ts";
import { Settings } from "../../protocol/settings.ts";
import { HostError } from "../host-error.ts";
import { keepFile } from "./flush.ts";

/**
 * The secrets that a data folder keeps, each in a file of JSON that only its owner may read. They are random, made at the
 * first start. A damaged file is never replaced, since what it held may be all that opens the data.
 */

/** An id and its secret, such as those of the root key. */
export const AccessKey = z.object({ accessKeyId: z.string().min(3), secretAccessKey: z.string().min(8) });
export type AccessKey = z.infer<typeof AccessKey>;

/** The file of the root key that was made for a data folder. */
export function rootKeyFile(dataDir: string): string {
  return join(dataDir, "root-key.json");
}

/** The root key of a data folder; made if it keeps none. */
export function keptRootKey(dataDir: string): AccessKey {
  const kept = readRootKey(dataDir);
  if (kept) return kept;
  const key = madeKey();
  keep(rootKeyFile(dataDir), key);
  return key;
}

/** The root key that a data folder keeps; undefined if it keeps none. */
export function readRootKey(dataDir: string): AccessKey | undefined {
  return readKept({
    file: rootKeyFile(dataDir),
    schema: AccessKey,
    damaged:
      'does not hold a key ({"accessKeyId": …, "secretAccessKey": …}): repair it, or remove it to have a new key made',
  });
}

/** A random key, which is kept nowhere yet. */
export function madeKey(): AccessKey {
  return {
    accessKeyId: `SLUICE${randomBytes(7).toString("hex").toUpperCase()}`,
    secretAccessKey: randomBytes(30).toString("base64url"),
  };
}

const ENCRYPTION_KEY_BYTES = 32;
const EncryptionKey = z.object({ encryptionKey: Settings.shape.SLUICE_ENCRYPTION_KEY.unwrap() });

/**
 * What encrypts the secrets of the access keys of a data folder, in base64; made if it keeps none. Without it those keys
 * are lost.
 */
export function keptEncryptionKey(dataDir: string): string {
  const file = join(dataDir, "encryption-key.json");
  const kept = readKept({
    file,
    schema: EncryptionKey,
    damaged:
      'does not hold a key ({"encryptionKey": the base64 of 32 bytes}): repair it, or remove it to have a new one made, which ends all access keys but the root key',
  });
  if (kept) return kept.encryptionKey;
  const encryptionKey = randomBytes(ENCRYPTION_KEY_BYTES).toString("base64");
  keep(file, { encryptionKey });
  return encryptionKey;
}

interface KeptFile<Schema extends z.ZodType> {
  readonly file: string;
  readonly schema: Schema;
  /** What the owner of a damaged file is told that it should hold, and what to do. */
  readonly damaged: string;
}

/** Undefined if there is no such file. Throws a HostError if it is damaged. */
function readKept<Schema extends z.ZodType>({
  file,
  schema,
  damaged,
}: KeptFile<Schema>): z.infer<Schema> | undefined {
  let text: string;
  try {
    text = readFileSync(file, "utf8");
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === "ENOENT") return undefined;
    throw error;
  }
  const kept = schema.safeParse(jsonOf(text));
  if (!kept.success) throw new HostError(`${file} ${damaged}`);
  return kept.data;
}

function keep(file: string, value: unknown): void {
  keepFile(file, { text: `${JSON.stringify(value, null, 2)}\n`, mode: 0o600 });
}

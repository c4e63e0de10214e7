import { toHex } from "../../protocol/digest.ts";
import type { CreateKey, KeyCreated } from "../../protocol/keys.ts";
import type { Catalogue } from "../catalogue/catalogue.ts";
import { base64url } from "./base64url.ts";
import { sealSecret } from "./sealed-secret.ts";

const ID_PATTERN = /^SLUICE[0-9A-F]{14}$/;
const ID_RANDOM_BYTES = 7;
const SECRET_BYTES = 30;

export interface MakeKeyOptions {
  readonly catalogue: Pick<Catalogue, "keys">;
  /** 32 bytes in base64 or base64url. */
  readonly encryptionKey: string;
  /** Milliseconds since 1970. */
  readonly now: number;
  /** From when on it is refused; milliseconds since 1970. Absent: never. */
  readonly expiresAt?: number;
}

/** Makes an access key with a random id and secret. The secret is only in the answer and, sealed, in D1. */
export async function makeKey(
  { level, repos, pipelines, description }: CreateKey,
  { catalogue, encryptionKey, now, expiresAt }: MakeKeyOptions,
): Promise<KeyCreated> {
  const id = `SLUICE${toHex(crypto.getRandomValues(new Uint8Array(ID_RANDOM_BYTES))).toUpperCase()}`;
  const secret = base64url(crypto.getRandomValues(new Uint8Array(SECRET_BYTES)));
  const about = { level, repos: repos && [...new Set(repos)], pipelines, description, createdAt: now };
  const key = { id, ...about, ...(expiresAt !== undefined && { expiresAt }) };
  await catalogue.keys.add({ ...key, sealedSecret: await sealSecret(secret, { id, encryptionKey }) });
  return { ...key, secret };
}

/** Whether an id has the form of the ids made here. Others need no look-up. */
export function isMadeId(id: string): boolean {
  return ID_PATTERN.test(id);
}

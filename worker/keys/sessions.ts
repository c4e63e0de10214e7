/*
 * Sessions of the console. Whoever has an access key makes one with it, and a browser keeps that in place of the key. It is the
 * same key under another id and secret, for some hours: what it signs is done as the key, by what the key may do at
 * that moment. Nobody finds the secret of a key in that of its session.
 *
 * The secret of a session is stored nowhere: it follows from the session's id and the secret of its key. So a session ends with
 * its key, however that ends: it is deleted, it expires, or the environment has another secret for it.
 */

import { hkdf } from "@noble/hashes/hkdf.js";
import { hmac } from "@noble/hashes/hmac.js";
import { sha256 } from "@noble/hashes/sha2.js";
import { utf8ToBytes } from "@noble/hashes/utils.js";
import { toHex } from "../../protocol/digest.ts";
import { base64url } from "./base64url.ts";

/** Unlike that of any access key that was made. */
const ID_PATTERN = /^SLUICES[0-9A-F]{14}$/;
const ID_RANDOM_BYTES = 7;

/** Of the key that is derived from an access key's secret. Another use of the secret must have another. */
const PURPOSE = "sluice: sessions of the console, version 1";
const KEY_BYTES = 32;

/** A random id of a new session. */
export function newSessionId(): string {
  return `SLUICES${toHex(crypto.getRandomValues(new Uint8Array(ID_RANDOM_BYTES))).toUpperCase()}`;
}

/** Whether an id has the form of those of sessions. */
export function isSessionId(id: string): boolean {
  return ID_PATTERN.test(id);
}

/** The secret of a session. `keySecret`: that of the access key. */
export function sessionSecret(id: string, keySecret: string): string {
  const key = hkdf(sha256, utf8ToBytes(keySecret), undefined, utf8ToBytes(PURPOSE), KEY_BYTES);
  return base64url(hmac(sha256, key, utf8ToBytes(id)));
}

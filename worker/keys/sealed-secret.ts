import { bytesOfBase64 } from "./base64url.ts";

const NONCE_BYTES = 12;

export interface Seal {
  /** Whose secret it is: a sealed secret opens under no other id. */
  readonly id: string;
  /** 32 bytes in base64 or base64url. */
  readonly encryptionKey: string;
}

/** A secret that was sealed, and which of the keys it was sealed with. */
export interface Opened {
  readonly secret: string;
  readonly encryptionKey: string;
}

/** Encrypts a secret with AES-256-GCM: base64 of a random nonce of 12 bytes, ciphertext and tag. */
export async function sealSecret(secret: string, seal: Seal): Promise<string> {
  const nonce = crypto.getRandomValues(new Uint8Array(NONCE_BYTES));
  const key = await importKey(seal.encryptionKey);
  const encrypted = await crypto.subtle.encrypt(
    algorithm(nonce, seal),
    key,
    new TextEncoder().encode(secret),
  );
  return btoa(String.fromCharCode(...nonce, ...new Uint8Array(encrypted)));
}

/** The secret; undefined if it was sealed with none of the keys or for another id, or is damaged. */
export async function openSecret(
  sealed: string,
  { id, encryptionKeys }: { readonly id: string; readonly encryptionKeys: readonly string[] },
): Promise<Opened | undefined> {
  for (const encryptionKey of encryptionKeys) {
    const secret = await openWith(sealed, { id, encryptionKey });
    if (secret !== undefined) return { secret, encryptionKey };
  }
  return undefined;
}

async function openWith(sealed: string, seal: Seal): Promise<string | undefined> {
  const key = await importKey(seal.encryptionKey);
  try {
    const bytes = bytesOfBase64(sealed);
    const nonce = bytes.subarray(0, NONCE_BYTES);
    const secret = await crypto.subtle.decrypt(algorithm(nonce, seal), key, bytes.subarray(NONCE_BYTES));
    return new TextDecoder().decode(secret);
  } catch {
    return undefined;
  }
}

function algorithm(nonce: Uint8Array<ArrayBuffer>, { id }: Seal): SubtleCryptoEncryptAlgorithm {
  return { name: "AES-GCM", iv: nonce, additionalData: new TextEncoder().encode(id) };
}

function importKey(encryptionKey: string): Promise<CryptoKey> {
  const bytes = bytesOfBase64(encryptionKey);
  return crypto.subtle.importKey("raw", bytes, "AES-GCM", false, ["encrypt", "decrypt"]);
}

import type { KeysResealed } from "../../protocol/keys.ts";
import type { Catalogue } from "../catalogue/catalogue.ts";
import { openSecret, sealSecret } from "./sealed-secret.ts";

export interface ResealOptions {
  readonly catalogue: Pick<Catalogue, "keys">;
  /** The first seals; what it did not seal is opened with the others. */
  readonly encryptionKeys: readonly [string, ...string[]];
  /** The last key of the page before. */
  readonly after?: string;
  readonly limit: number;
}

/**
 * Seals the secrets of one page of the keys with the first encryption key, unless they are already. May be asked again at
 * any time. Keys work meanwhile, because either of the encryption keys opens them.
 */
export async function resealKeys({
  catalogue,
  encryptionKeys,
  after,
  limit,
}: ResealOptions): Promise<KeysResealed> {
  const rows = await catalogue.keys.sealed({ limit: limit + 1, ...(after !== undefined && { after }) });
  const page = rows.slice(0, limit);
  const [encryptionKey] = encryptionKeys;
  const resealed: string[] = [];
  const unreadable: string[] = [];
  for (const { id, sealedSecret } of page) {
    const opened = await openSecret(sealedSecret, { id, encryptionKeys });
    if (opened === undefined) unreadable.push(id);
    else if (opened.encryptionKey !== encryptionKey) {
      const sealed = await sealSecret(opened.secret, { id, encryptionKey });
      // A key that is deleted meanwhile stays deleted.
      if (await catalogue.keys.reseal({ id, from: sealedSecret, to: sealed })) resealed.push(id);
    }
  }
  const next = rows.length > limit ? (page.at(-1)?.id ?? null) : null;
  return { resealed, unreadable, checked: page.length, next };
}

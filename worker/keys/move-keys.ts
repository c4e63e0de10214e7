import {
  type KeysExported,
  type KeysImported,
  type KeysResealed,
  MovedKey,
  type SealedKey,
} from "../../protocol/keys.ts";
import type { Catalogue } from "../catalogue/catalogue.ts";
import type { KeyRow } from "../catalogue/keys.ts";
import { hasExpired } from "./expiry.ts";
import { isMadeId } from "./make-key.ts";
import { type Opened, openSecret, sealSecret } from "./sealed-secret.ts";

interface Sealing {
  readonly catalogue: Pick<Catalogue, "keys">;
  /** Those of the gateway: the first seals, any of them opens. */
  readonly encryptionKeys: readonly [string, ...string[]];
}

interface Page extends Sealing {
  /** The last key of the page before. */
  readonly after?: string | undefined;
  readonly limit: number;
}

interface OpenedPage {
  readonly keys: readonly (KeyRow & { readonly opened: Opened })[];
  /** The ids of those that none of the encryption keys opens. */
  readonly unreadable: string[];
  readonly next: string | null;
}

async function openPage({ catalogue, encryptionKeys, after, limit }: Page): Promise<OpenedPage> {
  const rows = await catalogue.keys.sealed({ limit: limit + 1, after });
  const page = rows.slice(0, limit);
  const keys: (KeyRow & { opened: Opened })[] = [];
  const unreadable: string[] = [];
  for (const row of page) {
    const opened = await openSecret(row.sealedSecret, { id: row.id, encryptionKeys });
    if (opened) keys.push({ ...row, opened });
    else unreadable.push(row.id);
  }
  return { keys, unreadable, next: rows.length > limit ? (page.at(-1)?.id ?? null) : null };
}

/**
 * Seals the secrets of one page of the keys with the first encryption key, unless they are already. May be asked again at
 * any time. Keys work meanwhile, because either of the encryption keys opens them.
 */
export async function resealKeys(page: Page): Promise<KeysResealed> {
  const { keys, unreadable, next } = await openPage(page);
  const [encryptionKey] = page.encryptionKeys;
  const resealed: string[] = [];
  for (const { id, sealedSecret: from, opened } of keys) {
    if (opened.encryptionKey === encryptionKey) continue;
    const to = await sealSecret(opened.secret, { id, encryptionKey });
    // A key that is deleted meanwhile stays deleted.
    if (await page.catalogue.keys.reseal({ id, from, to })) resealed.push(id);
  }
  return { resealed, unreadable, checked: keys.length + unreadable.length, next };
}

/**
 * One page of the keys, each with its secret and all that it may do, sealed as a whole: so nobody can raise in a file what
 * a key may do. No secret leaves the gateway in plain.
 */
export async function exportKeys({
  sealWith,
  ...page
}: Page & { readonly sealWith: string }): Promise<KeysExported> {
  const { keys, unreadable, next } = await openPage(page);
  const sealed = keys.map(async ({ id, sealedSecret: _, opened, ...about }): Promise<SealedKey> => {
    const text = JSON.stringify({ ...about, secret: opened.secret });
    return { id, sealed: await sealSecret(text, { id, encryptionKey: sealWith }) };
  });
  return { keys: await Promise.all(sealed), unreadable, next };
}

interface Import extends Sealing {
  readonly openWith: string;
  readonly keys: readonly SealedKey[];
  readonly now: number;
}

/**
 * Makes keys again, their secrets sealed with the gateway's own encryption key. One that is there stays as it is, and one
 * that has expired by `now` (milliseconds since 1970) is not made.
 */
export async function importKeys({
  catalogue,
  encryptionKeys,
  openWith,
  keys,
  now,
}: Import): Promise<KeysImported> {
  const answer: KeysImported = { added: [], there: [], taken: [], refused: [], expired: [] };
  for (const { id, sealed } of keys) {
    const key = await openMoved(sealed, { id, openWith });
    if (!key) {
      answer.refused.push(id);
      continue;
    }
    const { secret, ...about } = key;
    if (hasExpired(about, now)) {
      answer.expired.push(id);
      continue;
    }
    const sealedSecret = await sealSecret(secret, { id, encryptionKey: encryptionKeys[0] });
    const added = await catalogue.keys.addUnlessThere({ ...about, id, sealedSecret });
    if (added) answer.added.push(id);
    else {
      const there = await catalogue.keys.find(id);
      const own = there && (await openSecret(there.sealedSecret, { id, encryptionKeys }));
      answer[own?.secret === secret ? "there" : "taken"].push(id);
    }
  }
  return answer;
}

async function openMoved(
  sealed: string,
  { id, openWith }: { readonly id: string; readonly openWith: string },
): Promise<(Omit<KeyRow, "id" | "sealedSecret"> & { readonly secret: string }) | undefined> {
  const opened = isMadeId(id) ? await openSecret(sealed, { id, encryptionKeys: [openWith] }) : undefined;
  if (!opened) return undefined;
  // Only who has the key could have written it: a fault here is of a release that says more than this one knows.
  return MovedKey.safeParse(JSON.parse(opened.secret)).data;
}

import { type KeysExported, type KeysImported, MovedKey, type SealedKey } from "../../protocol/keys.ts";
import type { Catalogue } from "../catalogue/catalogue.ts";
import type { KeyRow } from "../catalogue/keys.ts";
import { hasExpired } from "./expiry.ts";
import { isMadeId } from "./make-key.ts";
import { openSecret, sealSecret } from "./sealed-secret.ts";

interface Moving {
  readonly catalogue: Pick<Catalogue, "keys">;
  /** Those of the gateway: the first seals, any of them opens. */
  readonly encryptionKeys: readonly [string, ...string[]];
}

/**
 * One page of the keys, each with its secret and all that it may do, sealed as a whole: so nobody can raise in a file what
 * a key may do. No secret leaves the gateway in plain.
 */
export async function exportKeys({
  catalogue,
  encryptionKeys,
  sealWith,
  after,
  limit,
}: Moving & {
  readonly sealWith: string;
  readonly after?: string;
  readonly limit: number;
}): Promise<KeysExported> {
  const rows = await catalogue.keys.sealed({ limit: limit + 1, ...(after !== undefined && { after }) });
  const page = rows.slice(0, limit);
  const keys: SealedKey[] = [];
  const unreadable: string[] = [];
  for (const { id, sealedSecret, ...about } of page) {
    const opened = await openSecret(sealedSecret, { id, encryptionKeys });
    if (!opened) {
      unreadable.push(id);
      continue;
    }
    const text = JSON.stringify({ ...about, secret: opened.secret });
    keys.push({ id, sealed: await sealSecret(text, { id, encryptionKey: sealWith }) });
  }
  return { keys, unreadable, next: rows.length > limit ? (page.at(-1)?.id ?? null) : null };
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
}: Moving & {
  readonly openWith: string;
  readonly keys: readonly SealedKey[];
  readonly now: number;
}): Promise<KeysImported> {
  const answer = {
    added: [] as string[],
    there: [] as string[],
    taken: [] as string[],
    refused: [] as string[],
    expired: [] as string[],
  };
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

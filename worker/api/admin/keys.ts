import { z } from "zod";
import { parseExpiry } from "../../../protocol/key-expiry.ts";
import {
  CreateKey,
  ExportKeys,
  ImportKeys,
  type Key,
  type KeyCreated,
  type KeyPage,
  type KeysExported,
  type KeysImported,
  type KeysResealed,
  MAX_LIST_KEYS,
  MAX_MOVED_KEYS,
  type WhoAmI,
} from "../../../protocol/keys.ts";
import { runsCode } from "../../core/permissions.ts";
import type { Config } from "../../env.ts";
import { hasExpired } from "../../keys/expiry.ts";
import { makeKey } from "../../keys/make-key.ts";
import { exportKeys, importKeys, resealKeys } from "../../keys/move-keys.ts";
import { conditionalJson } from "../answer/conditional.ts";
import { apiError } from "../answer/errors.ts";
import { type ApiRequest, readJson, readQuery } from "../request/api-request.ts";
import { invalidField } from "../request/issues.ts";

const ListQuery = z.strictObject({
  limit: z.coerce.number().int().min(1).max(MAX_LIST_KEYS).default(100),
  after: z.string().optional(),
});

/** `GET /keys`: by id, without their secrets. 304 until something is new to who brings the ETag of the last answer. */
export async function listKeys(asked: ApiRequest): Promise<Response> {
  const { limit, after } = readQuery(asked, ListQuery);
  const keys = await asked.context.catalogue.keys.list({ limit: limit + 1, after });
  const page = keys.slice(0, limit);
  const next = keys.length > limit ? (page.at(-1)?.id ?? null) : null;
  const now = Date.now();
  const ids = page.map(({ id }) => id);
  const ofKeys = await asked.context.catalogue.sessions.ofKeys(ids, now);
  const listed = page.map((key) => {
    const sessions = ofKeys.get(key.id);
    return { ...shown(key, now), ...(sessions && { sessions }) };
  });
  const body: KeyPage = { keys: listed, next };
  return await conditionalJson(asked.request, { body });
}

/** What a key may do, whichever of its fields says so: one for all repos runs code by its level. And whether it has expired. */
function shown<Shown extends Key>(key: Shown, now: number): Shown {
  return { ...key, pipelines: runsCode(key), ...(hasExpired(key, now) && { expired: true }) };
}

/** `GET /whoami`: what the caller's own key may do. Every key may know that. */
export async function whoAmI(asked: ApiRequest): Promise<Response> {
  const { keyId, session, scope, expiresAt } = asked.caller;
  const { level, repos } = scope;
  const may = { level, repos: repos && [...repos], pipelines: runsCode(scope) };
  const ofSession = session !== undefined && { session };
  const told = { id: keyId, ...may, ...(expiresAt !== undefined && { expiresAt }), ...ofSession };
  return Response.json(told satisfies WhoAmI);
}

/** `POST /keys`: 201, and the only answer that ever holds the secret. */
export async function createKey(asked: ApiRequest): Promise<Response> {
  const wish = await readJson(asked, CreateKey);
  const { catalogue, config } = asked.context;
  const [encryptionKey] = encryptionKeysOf(config, "made");
  const now = Date.now();
  const expiry = wish.expires === undefined ? undefined : parseExpiry(wish.expires, now);
  if (expiry?.ok === false) throw invalidField("expires", expiry.fault);
  const options = { catalogue, encryptionKey, now, ...(expiry && { expiresAt: expiry.at }) };
  const key = await makeKey(wish, options);
  return Response.json(shown(key, now) satisfies KeyCreated, {
    status: 201,
    headers: { "cache-control": "no-store" },
  });
}

/** `POST /keys/reseal`: encrypts the secrets of a page of the keys with the present encryption key. */
export async function reseal(asked: ApiRequest): Promise<Response> {
  const { limit, after } = readQuery(asked, ListQuery);
  const { catalogue, config } = asked.context;
  const encryptionKeys = encryptionKeysOf(config, "encrypted anew");
  const done = await resealKeys({ catalogue, encryptionKeys, limit, after });
  return Response.json(done satisfies KeysResealed);
}

/** Throws NoEncryptionKey if the gateway has none. */
export function encryptionKeysOf(
  { encryptionKeys: [first, ...others] }: Config,
  what: "made" | "encrypted anew" | "opened",
): [string, ...string[]] {
  if (first !== undefined) return [first, ...others];
  throw apiError.NoEncryptionKey(
    `No access keys can be ${what}, because there is nothing to encrypt their secrets with: give the gateway SLUICE_ENCRYPTION_KEY, the base64 of 32 random bytes ('openssl rand -base64 32').`,
  );
}

/** `POST /keys/export` */
export async function exportAccessKeys(asked: ApiRequest): Promise<Response> {
  const { sealWith, after } = await readJson(asked, ExportKeys);
  const { catalogue, config } = asked.context;
  const encryptionKeys = encryptionKeysOf(config, "opened");
  const page = { sealWith, limit: MAX_MOVED_KEYS, after };
  const exported = await exportKeys({ catalogue, encryptionKeys, ...page });
  return Response.json(exported satisfies KeysExported, { headers: { "cache-control": "no-store" } });
}

/** `POST /keys/import` */
export async function importAccessKeys(asked: ApiRequest): Promise<Response> {
  const { openWith, keys } = await readJson(asked, ImportKeys);
  const { catalogue, config } = asked.context;
  const encryptionKeys = encryptionKeysOf(config, "made");
  const imported = await importKeys({ catalogue, encryptionKeys, openWith, keys, now: Date.now() });
  return Response.json(imported satisfies KeysImported);
}

/** `DELETE /keys/{id}`: the key, or the session, stops working within KEY_MEMORY_MS. */
export async function deleteKey(asked: ApiRequest): Promise<Response> {
  const id = asked.params.key ?? "";
  const { catalogue, config, fleet } = asked.context;
  const rank = config.rootKeys.findIndex((root) => root.id === id);
  if (rank >= 0) {
    const message =
      rank === 0
        ? `'${id}' is the root key, which can't be deleted: change SLUICE_ACCESS_KEY_ID and SLUICE_SECRET_ACCESS_KEY of the gateway instead.`
        : `'${id}' is the root key from before, which can't be deleted: unset SLUICE_ACCESS_KEY_ID_PREVIOUS and SLUICE_SECRET_ACCESS_KEY_PREVIOUS of the gateway instead.`;
    throw apiError.InvalidRequest(message);
  }
  if (await catalogue.keys.remove(id)) {
    await fleet.revoke(id);
    return new Response(null, { status: 204 });
  }
  if (await catalogue.sessions.remove(id)) return new Response(null, { status: 204 });
  throw apiError.NoSuchAccessKey(`There is no access key '${id}': 'sluice key list' shows those there are.`);
}

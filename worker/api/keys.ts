import { z } from "zod";
import {
  CreateKey,
  type Key,
  type KeyCreated,
  type KeyPage,
  type KeysResealed,
  MAX_LIST_KEYS,
} from "../../protocol/keys.ts";
import { runsCode } from "../core/permissions.ts";
import type { Config } from "../env.ts";
import { makeKey } from "../keys/make-key.ts";
import { resealKeys } from "../keys/reseal.ts";
import { ApiError } from "./answer/errors.ts";
import { type ApiRequest, noQuery, readQuery } from "./request/api-request.ts";
import { readJson } from "./request/read-json.ts";

const ListQuery = z.strictObject({
  limit: z.coerce.number().int().min(1).max(MAX_LIST_KEYS).default(100),
  after: z.string().optional(),
});

/** `GET /keys`: by id, without their secrets. */
export async function listKeys(asked: ApiRequest): Promise<Response> {
  const { limit, after } = readQuery(asked, ListQuery);
  const keys = await asked.context.catalogue.keys.list({ limit: limit + 1, ...(after && { after }) });
  const page = keys.slice(0, limit);
  const next = keys.length > limit ? (page.at(-1)?.id ?? null) : null;
  return Response.json({ keys: page.map(shown), next } satisfies KeyPage);
}

/** What a key may do, whichever of its fields says so: one for all repos runs code by its level. */
function shown<Shown extends Key>(key: Shown): Shown {
  return { ...key, pipelines: runsCode(key) };
}

/** `POST /keys`: 201, and the only answer that ever holds the secret. */
export async function createKey(asked: ApiRequest): Promise<Response> {
  noQuery(asked);
  const wish = await readJson(asked, CreateKey);
  const { catalogue, config } = asked.context;
  const [encryptionKey] = encryptionKeysOf(config, "made");
  const key = await makeKey(wish, { catalogue, encryptionKey, now: Date.now() });
  return Response.json(shown(key) satisfies KeyCreated, {
    status: 201,
    headers: { "cache-control": "no-store" },
  });
}

/** `POST /keys/reseal`: encrypts the secrets of a page of the keys with the present encryption key. */
export async function reseal(asked: ApiRequest): Promise<Response> {
  const { limit, after } = readQuery(asked, ListQuery);
  const { catalogue, config } = asked.context;
  const encryptionKeys = encryptionKeysOf(config, "encrypted anew");
  const done = await resealKeys({ catalogue, encryptionKeys, limit, ...(after && { after }) });
  return Response.json(done satisfies KeysResealed);
}

/** Throws NoEncryptionKey if the gateway has none. */
function encryptionKeysOf(
  { encryptionKeys: [first, ...others] }: Config,
  what: "made" | "encrypted anew",
): [string, ...string[]] {
  if (first !== undefined) return [first, ...others];
  throw new ApiError(
    "NoEncryptionKey",
    `No access keys can be ${what}, because there is nothing to encrypt their secrets with: give the gateway SLUICE_ENCRYPTION_KEY, the base64 of 32 random bytes ('openssl rand -base64 32').`,
  );
}

/** `DELETE /keys/{id}`: the key stops working within KEY_MEMORY_MS. */
export async function deleteKey(asked: ApiRequest): Promise<Response> {
  noQuery(asked);
  const id = asked.params.key ?? "";
  const { catalogue, config } = asked.context;
  const rank = config.rootKeys.findIndex((root) => root.id === id);
  if (rank >= 0) {
    const message =
      rank === 0
        ? `'${id}' is the root key, which can't be deleted: change SLUICE_ACCESS_KEY_ID and SLUICE_SECRET_ACCESS_KEY of the gateway instead.`
        : `'${id}' is the root key from before, which can't be deleted: unset SLUICE_ACCESS_KEY_ID_PREVIOUS and SLUICE_SECRET_ACCESS_KEY_PREVIOUS of the gateway instead.`;
    throw new ApiError("InvalidRequest", message);
  }
  if (await catalogue.keys.remove(id)) return new Response(null, { status: 204 });
  throw new ApiError(
    "NoSuchAccessKey",
    `There is no access key '${id}': 'sluice key list' shows those there are.`,
  );
}

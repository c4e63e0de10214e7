import { SESSION_MS, type SessionCreated, type SessionList } from "../../../protocol/sessions.ts";
import { permits } from "../../core/permissions.ts";
import { newSessionId, sessionSecret } from "../../keys/sessions.ts";
import { type ApiError, apiError } from "../answer/errors.ts";
import type { ApiRequest } from "../request/api-request.ts";
import { encryptionKeysOf } from "./keys.ts";

/** `POST /console/sessions`: 201, and the only answer that ever holds the secret. */
export async function createSession({ caller, context }: ApiRequest): Promise<Response> {
  const { keyId, scope, session } = caller;
  if (session !== undefined) {
    throw apiError.AccessDenied(
      "A session makes no other one, which would outlast it: sign with the key itself.",
    );
  }
  encryptionKeysOf(context.config, "made");
  const key = await context.keys.find(keyId);
  if (!key) throw isGone(keyId);
  const descriptions = await context.catalogue.keys.descriptions([keyId]);
  const description = descriptions.get(keyId) ?? "";
  const id = newSessionId();
  const createdAt = Date.now();
  const expiresAt = Math.min(createdAt + SESSION_MS, key.expiresAt ?? Number.POSITIVE_INFINITY);
  const row = { id, key: keyId, createdAt, expiresAt };
  if (!(await context.catalogue.sessions.add(row, { isGiven: scope.level === "root" }))) throw isGone(keyId);
  const secret = sessionSecret(id, key.secret);
  return Response.json({ ...row, secret, description } satisfies SessionCreated, {
    status: 201,
    headers: { "cache-control": "no-store" },
  });
}

function isGone(keyId: string): ApiError {
  return apiError.NoSuchAccessKey(`There is no access key '${keyId}' any more.`);
}

/** `GET /console/sessions`: those of the caller's key. */
export async function listSessions({ caller, context }: ApiRequest): Promise<Response> {
  const { keyId } = caller;
  const ofKeys = await context.catalogue.sessions.ofKeys([keyId], Date.now());
  return Response.json({ sessions: ofKeys.get(keyId) ?? [] } satisfies SessionList);
}

/**
 * `DELETE /console/sessions/{id}`: it stops working within KEY_MEMORY_MS. A key, and each of its sessions, ends those of the key; a
 * key that handles keys ends any.
 */
export async function endSession({ params, caller, context }: ApiRequest): Promise<Response> {
  const { session: id = "" } = params;
  const endsAny = permits(caller.scope, { permission: "admin", repo: null });
  const removed = await context.catalogue.sessions.remove(id, endsAny ? {} : { of: caller.keyId });
  if (removed) return new Response(null, { status: 204 });
  throw apiError.NoSuchSession(`There is no session '${id}' of this key: it has ended.`);
}

import { parseContentName } from "../../protocol/content.ts";
import { readContent } from "../blobs/read/read-content.ts";
import { hasLevel } from "../core/permissions.ts";
import { apiError } from "./answer/errors.ts";
import { type ApiRequest, branchInPath } from "./request/api-request.ts";

/**
 * `GET /repos/{repo}/branches/{branch}/contents/{digest}-{size}`: the bytes of a content, without a path. Runners also
 * read what a deleted branch held, since their jobs began before it was deleted.
 */
export async function readContents(asked: ApiRequest): Promise<Response> {
  const { content = "" } = asked.params;
  const id = parseContentName(content);
  if (!id) throw apiError.InvalidRequest(`'${content}' is not a content: it is '<64 hex digits>-<size>'.`);
  const { branch, address } = branchInPath(asked);
  const liveOnly = !hasLevel(asked.caller.scope, "work");
  const found = await branch.files.content({ ...id, liveOnly });
  if (!found.ok) throw apiError.NotFound(`The branch does not have the content '${content}'.`);
  const headers = {
    "content-type": "application/octet-stream",
    "content-length": String(id.size),
    "x-content-type-options": "nosniff",
    "content-security-policy": "sandbox",
  };
  const { blobs, hold } = asked.context;
  const bytes = await readContent(blobs, { body: found.body, size: id.size, hold: hold(address) });
  return new Response(bytes, { headers });
}

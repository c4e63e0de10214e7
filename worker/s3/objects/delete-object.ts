import { S3Error } from "../answer/errors.ts";
import { accepted } from "../answer/failures.ts";
import type { ObjectRequest, Operation } from "../operation.ts";
import { readAnnotation } from "../request/annotation.ts";
import { writeCondition } from "../request/conditions.ts";
import { versionId } from "../request/query-values.ts";
import { eraseVersions, heldFailure } from "./erase-versions.ts";

/**
 * One commit. A missing key makes no commit and the same good answer, as on S3. With `versionId` that version is erased for
 * good; an id that is none of the key changes nothing.
 */
export const deleteObject: Operation<ObjectRequest> = {
  permission: "write",
  permissionOf: (query) => (query.has("versionId") ? "admin" : "write"),

  async handle(request) {
    const { tree, key, headers, query } = request;
    const version = versionId(query);
    const condition = writeCondition(headers);
    if (version !== undefined) {
      if (condition) throw new S3Error("InvalidRequest", { message: NO_CONDITION });
      return await eraseVersion(request, version);
    }
    const operations = [{ delete: key, ...(condition && { condition }) }];
    const done = accepted(await tree.commit({ operations, annotation: readAnnotation(request) }));
    return new Response(null, { status: 204, headers: deletionHeaders(done.commit) });
  },
};

const NO_CONDITION =
  "If-Match is about the newest version of a key, and versionId names one: leave one of them out.";

async function eraseVersion(request: ObjectRequest, version: string): Promise<Response> {
  const versions = [{ path: request.key, version }];
  const { erased, held } = await eraseVersions(request, { versions, annotation: readAnnotation(request) });
  if (held.length > 0) throw heldFailure(request, held);
  const wasDeletion = erased.some(({ kind }) => kind === "deletion");
  const headers = { "x-amz-version-id": version, ...(wasDeletion && { "x-amz-delete-marker": "true" }) };
  return new Response(null, { status: 204, headers });
}

/** The commit is what S3 calls a delete marker. */
function deletionHeaders(commit: string | null): Record<string, string> {
  return commit === null ? {} : { "x-amz-delete-marker": "true", "x-amz-version-id": commit };
}

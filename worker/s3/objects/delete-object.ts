import { S3Error } from "../answer/errors.ts";
import { branchFailure } from "../answer/failures.ts";
import type { ObjectRequest, Operation } from "../operation.ts";
import { writeCondition } from "../request/conditions.ts";
import { NOTE_HEADERS, readNote } from "../request/note.ts";
import { NO_VERSION_GOES } from "./delete-objects.ts";

/** One commit. A missing key makes no commit and the same good answer, as on S3. */
export const deleteObject: Operation<ObjectRequest> = {
  permission: "write",
  query: ["versionId"],
  takes: NOTE_HEADERS,
  refuses: ["if-none-match", "if-modified-since", "if-unmodified-since"],

  async handle(request) {
    const { tree, key, headers, query } = request;
    if (query.has("versionId")) throw new S3Error("NotImplemented", { message: NO_VERSION_GOES });
    const condition = writeCondition(headers);
    const operations = [{ delete: key, ...(condition && { condition }) }];
    const done = await tree.commit({ operations, note: readNote(request) });
    if (!done.ok) throw branchFailure(done);
    return new Response(null, { status: 204, headers: deletionHeaders(done.commit) });
  },
};

/** The commit is what S3 calls a delete marker. */
function deletionHeaders(commit: string | null): Record<string, string> {
  return commit === null ? {} : { "x-amz-delete-marker": "true", "x-amz-version-id": commit };
}

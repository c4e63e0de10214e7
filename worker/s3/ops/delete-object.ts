import { branchFailure } from "../failures.ts";
import type { ObjectRequest, Operation } from "../operation.ts";

/** One commit; none, and as good an answer, where the key is missing (S3's DeleteObject). */
export const deleteObject: Operation<ObjectRequest> = {
  permission: "write",
  refuses: ["if-match", "if-none-match", "if-modified-since", "if-unmodified-since"],

  async handle({ branch, key }) {
    const done = await branch.commit({ operations: [{ delete: key }] });
    if (!done.ok) throw branchFailure(done);
    const headers: HeadersInit = done.commit === null ? {} : { "x-amz-version-id": done.commit };
    return new Response(null, { status: 204, headers });
  },
};

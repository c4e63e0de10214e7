import { OpenUpload } from "../../../protocol/files.ts";
import { type BranchAddress, bucketName } from "../../../protocol/names.ts";
import type { Grant } from "../../keys/grants.ts";
import type { ApiRequest } from "../request/api-request.ts";
import { readJson } from "../request/read-json.ts";
import { uploadAddress } from "../uploads.ts";

/**
 * What the grant of a lease lets a runner's key do: list its input commits, read contents of the branches that it names,
 * and upload to its output branch. A content is known by its digest alone, so that a branch is granted for it as a whole.
 */

/** The files of a commit: of an input as the lease has it, with the commit after which it counts if there is one. */
export function grantsFiles({ inputs }: Grant, asked: ApiRequest): boolean {
  const bucket = bucketInPath(asked);
  const { commit } = asked.params;
  const since = asked.query.get("since");
  return inputs.some(
    (input) => bucketName(input) === bucket && input.commit === commit && input.from === since,
  );
}

/** Contents of an input branch, and of the output branch: merges and egress read those. */
export function grantsContents({ inputs, output }: Grant, asked: ApiRequest): boolean {
  const bucket = bucketInPath(asked);
  return [output, ...inputs].some((branch) => bucketName(branch) === bucket);
}

/** An upload to the output branch that belongs to a lease. */
export async function grantsNewUpload({ output }: Grant, asked: ApiRequest): Promise<boolean> {
  const { lease, ...branch } = await readJson(asked, OpenUpload);
  return lease !== undefined && bucketName(branch) === bucketName(output);
}

/** What is added to an upload to the output branch. */
export function grantsUpload({ output }: Grant, asked: ApiRequest): boolean {
  return bucketName(uploadAddress(asked)) === bucketName(output);
}

function bucketInPath({ params }: ApiRequest): string {
  const { repo = "", branch = "" } = params;
  return bucketName({ repo, branch } satisfies BranchAddress);
}

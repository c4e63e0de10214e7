import type { Committed } from "../../branch/contract.ts";
import { branchFailure } from "../answer/failures.ts";
import { type XmlTags, xmlAnswer } from "../answer/xml.ts";
import { BODY_HEADERS } from "../body/open-body.ts";
import { readTextBody } from "../body/read-body.ts";
import { MAX_XML_BYTES } from "../limits.ts";
import { existing } from "../listings/listing.ts";
import type { BucketRequest, Operation } from "../operation.ts";
import {
  type DeleteRequest,
  type Deletion,
  type FailedDeletion,
  failedDeletion,
  parseDeleteRequest,
} from "./delete-request.ts";

/** Up to 1,000 keys in one commit. What cannot be deleted, or must not by its ETag, is an error of its own and stops no other. */
export const deleteObjects: Operation<BucketRequest> = {
  permission: "write",
  query: ["delete"],
  takes: BODY_HEADERS,

  async handle(request) {
    const asked = parseDeleteRequest(await readTextBody(request, MAX_XML_BYTES));
    const commit = await commitDeletions(request, asked.deletions);
    const { gone, kept } = outcome(asked, commit);
    return xmlAnswer("DeleteResult", {
      Deleted: asked.verbosity === "quiet" ? [] : gone.map(({ key }) => deletedTags(key, commit)),
      Error: kept.map(errorTags),
    });
  },
};

type Outcome = Pick<Committed, "commit" | "leftOut">;

async function commitDeletions({ tree }: BucketRequest, deletions: readonly Deletion[]): Promise<Outcome> {
  if (deletions.length === 0) {
    await existing(tree);
    return { commit: null };
  }
  const operations = deletions.map(({ key, condition }) => ({
    delete: key,
    ...(condition && { condition }),
  }));
  const done = await tree.commit({ operations, onFailedCondition: "leave-out" });
  if (!done.ok) throw branchFailure(done);
  return done;
}

function outcome(
  { deletions, failed }: DeleteRequest,
  { leftOut = [] }: Outcome,
): { gone: readonly Deletion[]; kept: readonly FailedDeletion[] } {
  const reasons = new Map(leftOut.map(({ path, reason }) => [path, reason]));
  const gone: Deletion[] = [];
  const kept = [...failed];
  for (const deletion of deletions) {
    // Of a key that is named twice, only the deletion that has a condition can have been left out.
    const reason = deletion.condition && reasons.get(deletion.key);
    if (reason === undefined) gone.push(deletion);
    else kept.push(failedDeletion(deletion.key, branchFailure({ reason })));
  }
  return { gone, kept };
}

function deletedTags(key: string, { commit }: Outcome): XmlTags {
  return commit === null ? { Key: key } : { Key: key, DeleteMarker: true, DeleteMarkerVersionId: commit };
}

function errorTags({ key, version, code, message }: FailedDeletion): XmlTags {
  return { Key: key, VersionId: version, Code: code, Message: message };
}

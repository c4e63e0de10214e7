import { pathFault } from "../../../protocol/paths.ts";
import type { CommitNote, Committed, WriteCondition } from "../../branch/contract.ts";
import { type S3Code, S3Error } from "../answer/errors.ts";
import { branchFailure, keyFailure } from "../answer/failures.ts";
import { malformed, type ParsedXml, parseXml, tagsOf, type XmlTags, xmlAnswer } from "../answer/xml.ts";
import { BODY_HEADERS } from "../body/open-body.ts";
import { readTextBody } from "../body/read-body.ts";
import { type BucketTree, existing } from "../bucket-tree.ts";
import { MAX_KEYS, MAX_XML_BYTES } from "../limits.ts";
import type { BucketRequest, Operation } from "../operation.ts";
import { ownTag } from "../request/conditions.ts";
import { NOTE_HEADERS, readNote } from "../request/note.ts";

/** Up to 1,000 keys in one commit. A key that cannot be deleted, or that its ETag protects, is an error of its own and stops no other. */
export const deleteObjects: Operation<BucketRequest> = {
  permission: "write",
  query: ["delete"],
  takes: [...BODY_HEADERS, ...NOTE_HEADERS],

  async handle(request) {
    const note = readNote(request);
    const asked = parseDeleteRequest(await readTextBody(request, MAX_XML_BYTES));
    const commit = await commitDeletions(request.tree, { ...asked, note });
    const { gone, kept } = outcome(asked, commit);
    return xmlAnswer("DeleteResult", {
      Deleted: asked.verbosity === "quiet" ? [] : gone.map(({ key }) => deletedTags(key, commit)),
      Error: kept.map(errorTags),
    });
  },
};

type Outcome = Pick<Committed, "commit" | "leftOut">;

async function commitDeletions(
  tree: BucketTree,
  { deletions, note }: Pick<DeleteRequest, "deletions"> & { readonly note: CommitNote },
): Promise<Outcome> {
  if (deletions.length === 0) {
    await existing(tree);
    return { commit: null };
  }
  const operations = deletions.map(({ key, condition }) => ({
    delete: key,
    ...(condition && { condition }),
  }));
  const done = await tree.commit({ operations, onFailedCondition: "leave-out", note });
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
    // If a key is named twice, only the deletion with a condition can have been left out.
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

/** The answer to a client that wants a version deleted. */
export const NO_VERSION_GOES =
  "Deleting a version is not implemented: every commit stays readable by its id. Leave the version out to delete the key.";

/** What the body of a DeleteObjects asks for. */
interface DeleteRequest {
  readonly deletions: readonly Deletion[];
  /** Objects whose deletion cannot even be tried. */
  readonly failed: readonly FailedDeletion[];
  readonly verbosity: "verbose" | "quiet";
}

interface Deletion {
  readonly key: string;
  readonly condition?: WriteCondition;
}

interface FailedDeletion {
  readonly key: string;
  readonly version?: string;
  readonly code: S3Code;
  readonly message: string;
}

/** Reads the XML. Throws MalformedXML. A fault of one object is an error of that object alone. */
function parseDeleteRequest(text: string): DeleteRequest {
  const tags = tagsOf(parseXml(text, "Delete"));
  const objects = tags.get("Object") ?? [];
  if (objects.length === 0) throw malformed("Delete has no Object");
  if (objects.length > MAX_KEYS) {
    throw malformed(`Delete has ${objects.length} Objects, at most ${MAX_KEYS} are taken`);
  }
  const unknown = [...tags.keys()].find((name) => name !== "Object" && name !== "Quiet");
  if (unknown !== undefined) throw malformed(`Delete holds ${unknown}, it may hold Object and Quiet`);
  const parsed = objects.map(parseObject);
  return {
    deletions: parsed.filter((each) => !isFailed(each)),
    failed: parsed.filter(isFailed),
    verbosity: parseQuiet(tags.get("Quiet") ?? []),
  };
}

/** An object's failure as it goes into the answer. */
function failedDeletion(key: string, { code, message }: S3Error): FailedDeletion {
  return { key, code, message };
}

function parseQuiet([quiet = "false", ...others]: readonly ParsedXml[]): "verbose" | "quiet" {
  const text = typeof quiet === "string" && others.length === 0 ? quiet.trim().toLowerCase() : "";
  if (text !== "true" && text !== "false") throw malformed("Quiet must be true or false");
  return text === "true" ? "quiet" : "verbose";
}

function parseObject(object: ParsedXml): Deletion | FailedDeletion {
  const tags = tagsOf(object);
  const key = textOf(tags, "Key");
  if (key === undefined) throw malformed("each Object must have one Key");
  const version = textOf(tags, "VersionId");
  if (version !== undefined) return { ...failedDeletion(key, notImplemented(NO_VERSION_GOES)), version };
  const unknown = [...tags.keys()].find((name) => name !== "Key" && name !== "ETag");
  if (unknown !== undefined) {
    const message = `${unknown} of an Object is not implemented: send the Key, and the ETag where it must be that one.`;
    return failedDeletion(key, notImplemented(message));
  }
  const fault = pathFault(key);
  if (fault !== undefined) return failedDeletion(key, keyFailure(key, fault));
  const tag = textOf(tags, "ETag");
  if (tag === undefined) return { key };
  return { key, condition: { match: tag.trim() === "*" ? "any" : ownTag(tag) } };
}

/** The text of a tag that may be there once. */
function textOf(tags: ReadonlyMap<string, readonly ParsedXml[]>, name: string): string | undefined {
  const [text, ...others] = tags.get(name) ?? [];
  if (text === undefined || (typeof text === "string" && others.length === 0)) return text;
  throw malformed(`an Object may have one ${name}, which holds text`);
}

function isFailed(each: Deletion | FailedDeletion): each is FailedDeletion {
  return "code" in each;
}

function notImplemented(message: string): S3Error {
  return new S3Error("NotImplemented", { message });
}

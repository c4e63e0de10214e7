import { pathFault } from "../../../protocol/paths.ts";
import type { Annotation } from "../../branch/contract/answers.ts";
import type { Committed, WriteCondition } from "../../branch/contract/files.ts";
import { permits, refusalText } from "../../core/permissions.ts";
import {
  type ErasedThrough,
  type Erasing,
  eraseThroughForks,
  type HoldingFork,
  heldAt,
  heldText,
} from "../../erase.ts";
import { type S3Code, type S3Error, s3Error } from "../answer/errors.ts";
import { accepted, branchFailure, keyFailure } from "../answer/failures.ts";
import { malformed, type ParsedXml, parseXml, tagsOf, type XmlTags, xmlAnswer } from "../answer/xml.ts";
import { readTextBody } from "../body/read-body.ts";
import { type BucketTree, existing } from "../bucket-tree.ts";
import { MAX_KEYS, MAX_TAGS, MAX_XML_BYTES } from "../limits.ts";
import type { BucketRequest, ObjectRequest, Operation } from "../operation.ts";
import { readAnnotation } from "../request/annotation.ts";
import { ownTag, writeCondition } from "../request/conditions.ts";
import { versionId } from "../request/query-values.ts";

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
      if (condition) throw s3Error.InvalidRequest(NO_CONDITION);
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

/**
 * Up to 1,000 keys in one commit, or versions of keys, which are erased for good; all in one step. A key that cannot be deleted,
 * or that its ETag protects, is an error of its own and stops no other; so is a version that a fork has.
 */
export const deleteObjects: Operation<BucketRequest> = {
  permission: "write",

  async handle(request) {
    const annotation = readAnnotation(request);
    const asked = parseDeleteRequest(await readTextBody(request, MAX_XML_BYTES));
    const done = await deleteAll(request, mayErase(request, asked), annotation);
    return xmlAnswer("DeleteResult", {
      Deleted: asked.verbosity === "quiet" ? [] : done.gone,
      Error: done.kept.map(errorTags),
    });
  },
};

interface Answered {
  readonly gone: readonly XmlTags[];
  readonly kept: readonly FailedDeletion[];
}

/** Refuses the versions if the caller may only write, or if the bucket has none. */
function mayErase({ address, caller }: BucketRequest, asked: DeleteRequest): DeleteRequest {
  const need = { permission: "admin", repo: address.repo } as const;
  const refusal =
    address.view !== undefined
      ? s3Error.InvalidRequest(NO_VERSIONS)
      : permits(caller.scope, need)
        ? undefined
        : s3Error.AccessDenied(refusalText(caller.scope, need));
  if (refusal === undefined) return asked;
  const refused = asked.erasures.map(({ key, version }) => ({ ...failedDeletion(key, refusal), version }));
  return { ...asked, erasures: [], failed: [...asked.failed, ...refused] };
}

async function deleteAll(
  request: BucketRequest,
  asked: DeleteRequest,
  annotation: Annotation,
): Promise<Answered> {
  const { erasures } = asked;
  if (erasures.length === 0) {
    const commit = await commitDeletions(request.tree, { ...asked, annotation });
    return answered(asked, commit);
  }
  const versions = erasures.map(({ key, version }) => ({ path: key, version }));
  const deletions = operationsOf(asked);
  const done = await eraseVersions(request, { versions, deletions, annotation });
  const { deleted = { ok: true, commit: null } } = done;
  const answers = deleted.ok
    ? answered(asked, deleted)
    : {
        gone: [],
        kept: [
          ...asked.failed,
          ...asked.deletions.map(({ key }) => failedDeletion(key, branchFailure(deleted))),
        ],
      };
  const markers = new Set(
    done.erased.flatMap(({ kind, path, version }) => (kind === "deletion" ? [nameOf(path, version)] : [])),
  );
  const gone = [...answers.gone];
  const kept = [...answers.kept];
  for (const { key, version } of erasures) {
    const held = heldAt(done.held, key);
    if (held.length > 0) kept.push({ ...failedDeletion(key, heldFailure(request, held)), version });
    else {
      const marker = markers.has(nameOf(key, version));
      gone.push({
        Key: key,
        VersionId: version,
        ...(marker && { DeleteMarker: true, DeleteMarkerVersionId: version }),
      });
    }
  }
  return { gone, kept };
}

function nameOf(key: string, version: string): string {
  return JSON.stringify([key, version]);
}

type Outcome = Pick<Committed, "commit" | "leftOut">;

async function commitDeletions(
  tree: BucketTree,
  { deletions, annotation }: Pick<DeleteRequest, "deletions"> & { readonly annotation: Annotation },
): Promise<Outcome> {
  if (deletions.length === 0) {
    await existing(tree);
    return { commit: null };
  }
  const operations = operationsOf({ deletions });
  return accepted(await tree.commit({ operations, onFailedCondition: "leave-out", annotation }));
}

function operationsOf({ deletions }: Pick<DeleteRequest, "deletions">) {
  return deletions.map(({ key, condition }) => ({ delete: key, ...(condition && { condition }) }));
}

/** What a commit of the deletions did. */
function answered({ deletions, failed }: DeleteRequest, commit: Outcome): Answered {
  const reasons = new Map(commit.leftOut?.map(({ path, reason }) => [path, reason]));
  const gone: XmlTags[] = [];
  const kept = [...failed];
  for (const { key, condition } of deletions) {
    // If a key is named twice, only the deletion with a condition can have been left out.
    const reason = condition && reasons.get(key);
    if (reason === undefined) gone.push(deletedTags(key, commit));
    else kept.push(failedDeletion(key, branchFailure({ reason })));
  }
  return { gone, kept };
}

function deletedTags(key: string, { commit }: Outcome): XmlTags {
  return commit === null ? { Key: key } : { Key: key, DeleteMarker: true, DeleteMarkerVersionId: commit };
}

function errorTags({ key, version, code, message }: FailedDeletion): XmlTags {
  return { Key: key, VersionId: version, Code: code, Message: message };
}

const NO_VERSIONS =
  "The bucket of an open commit, a commit or a tag has no versions: erase the version in the branch's own bucket.";

/** What the body of a DeleteObjects asks for. */
interface DeleteRequest {
  readonly deletions: readonly Deletion[];
  /** Versions to be erased. */
  readonly erasures: readonly VersionErasure[];
  /** Objects whose deletion cannot even be tried. */
  readonly failed: readonly FailedDeletion[];
  readonly verbosity: "verbose" | "quiet";
}

interface Deletion {
  readonly key: string;
  readonly condition?: WriteCondition;
}

interface VersionErasure {
  readonly key: string;
  readonly version: string;
}

interface FailedDeletion {
  readonly key: string;
  readonly version?: string;
  readonly code: S3Code;
  readonly message: string;
}

/** Reads the XML. Throws MalformedXML. A fault of one object is an error of that object alone. */
function parseDeleteRequest(text: string): DeleteRequest {
  const tags = tagsOf(parseXml(text, "Delete", { tags: MAX_TAGS.delete }));
  const objects = tags.get("Object") ?? [];
  if (objects.length === 0) throw malformed("Delete has no Object");
  if (objects.length > MAX_KEYS) {
    throw malformed(`Delete has ${objects.length} Objects, at most ${MAX_KEYS} are taken`);
  }
  const unknown = [...tags.keys()].find((name) => name !== "Object" && name !== "Quiet");
  if (unknown !== undefined) throw malformed(`Delete holds ${unknown}, it may hold Object and Quiet`);
  const parsed = objects.map(parseObject);
  return {
    deletions: parsed.filter((each) => !isFailed(each) && !isErasure(each)),
    erasures: parsed.filter(isErasure),
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

function parseObject(object: ParsedXml): Deletion | VersionErasure | FailedDeletion {
  const tags = tagsOf(object);
  const key = textOf(tags, "Key");
  if (key === undefined) throw malformed("each Object must have one Key");
  const version = textOf(tags, "VersionId");
  const failed = (error: S3Error): FailedDeletion => ({
    ...failedDeletion(key, error),
    ...(version !== undefined && { version }),
  });
  const unknown = [...tags.keys()].find((name) => name !== "Key" && name !== "ETag" && name !== "VersionId");
  if (unknown !== undefined) {
    const message = `${unknown} of an Object is not implemented: send the Key, and the ETag where it must be that one.`;
    return failed(s3Error.NotImplemented(message));
  }
  const fault = pathFault(key);
  if (fault !== undefined) return failed(keyFailure(key, fault));
  const tag = textOf(tags, "ETag");
  if (version !== undefined) {
    if (version !== "" && tag === undefined) return { key, version };
    return failed(s3Error.InvalidArgument(BAD_VERSION));
  }
  if (tag === undefined) return { key };
  return { key, condition: { match: tag.trim() === "*" ? "any" : ownTag(tag) } };
}

const BAD_VERSION =
  "The VersionId of an Object is empty, or comes with an ETag, which is about the newest version: give the id of a version alone.";

/** The text of a tag that may be there once. */
function textOf(tags: ReadonlyMap<string, readonly ParsedXml[]>, name: string): string | undefined {
  const [text, ...others] = tags.get(name) ?? [];
  if (text === undefined || (typeof text === "string" && others.length === 0)) return text;
  throw malformed(`an Object may have one ${name}, which holds text`);
}

function isFailed(each: Deletion | VersionErasure | FailedDeletion): each is FailedDeletion {
  return "code" in each;
}

function isErasure(each: Deletion | VersionErasure | FailedDeletion): each is VersionErasure {
  return !isFailed(each) && "version" in each;
}

/** Erases versions for good, but for those that forks have, which it says: S3 has no word for "there too". */
async function eraseVersions(
  { address, context }: Pick<BucketRequest, "address" | "context">,
  erasure: Pick<Erasing, "versions" | "deletions" | "annotation">,
): Promise<ErasedThrough> {
  const { repo, branch } = address;
  const done = await eraseThroughForks(context.branch, {
    ...erasure,
    address: { repo, branch },
    forks: "leave-out",
  });
  if (done.ok) return done;
  if (done.reason === "held" || done.reason === "fork-denied") {
    throw new Error("a fork stopped what was to go on without it");
  }
  throw branchFailure(done);
}

/** The error of one version that forks have. */
function heldFailure({ caller }: Pick<BucketRequest, "caller">, forks: readonly HoldingFork[]): S3Error {
  const mayRead = (repo: string) => permits(caller.scope, { permission: "read", repo });
  return s3Error.HeldByFork(heldText(forks, mayRead));
}

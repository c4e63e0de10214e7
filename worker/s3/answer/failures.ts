import { MAX_PATH_BYTES, PATH_FAULT_TEXT, type PathFault } from "../../../protocol/paths.ts";
import type { WriteFailure } from "../../blobs/write-content.ts";
import type { BadPath, Protected } from "../../branch/contract/answers.ts";
import type { CommitRefused, DeletionRead } from "../../branch/contract/files.ts";
import { CATALOGUE_WORDS } from "../../core/catalogue-fault.ts";
import { NOT_SIGNED, type S3Code, S3Error, s3Error } from "./errors.ts";
import { httpDate } from "./fields.ts";

/** Refusals that tell more than their reason, which their words need. */
type Telling = BadPath | DeletionRead | Protected | Extract<CommitRefused, { readonly other: string }>;
type Refusal<R extends string> = Telling | { readonly reason: Exclude<R, Telling["reason"]> };
type Answer<R extends string> = { readonly ok: true } | ({ readonly ok: false } & Refusal<R>);
type BranchReason = keyof typeof BRANCH_WORDS;
type UploadReason = keyof typeof UPLOAD_WORDS;

interface Word {
  readonly code: S3Code;
  readonly message?: string;
  readonly headers?: Readonly<Record<string, string>>;
}

const OUTPUT_BRANCH =
  "This branch is the output of a pipeline and belongs to its jobs: write to another branch, or delete the pipeline first.";

/** A call that is refused for a new reason does not compile until that has a word here. */
const BRANCH_WORDS = {
  "already-exists": { code: "BucketAlreadyOwnedByYou" },
  "bad-path": { code: "InvalidArgument" },
  "branch-full": { code: "BranchFull" },
  busy: {
    code: "SlowDown",
    message: "A large commit is being made in this branch, and other writes wait for it: try again.",
  },
  "catalogue-outdated": { code: "ServiceUnavailable", message: CATALOGUE_WORDS["catalogue-outdated"] },
  "other-family": { code: "ServiceUnavailable", message: CATALOGUE_WORDS["other-family"] },
  "catalogue-unavailable": {
    code: "ServiceUnavailable",
    message: "The catalogue of buckets cannot be reached for the moment: try again.",
  },
  "condition-failed": {
    code: "PreconditionFailed",
    message:
      "If-Match or If-None-Match does not hold for what is at the key: look at its ETag, then try again.",
  },
  "held-by-forks": { code: "HeldByFork" },
  forking: {
    code: "ServiceUnavailable",
    message:
      "The bucket is made from a commit of another one, and its rows are still on their way: try again ('sluice branch list' shows how far it is).",
    headers: { "retry-after": "1" },
  },
  "is-deletion": { code: "MethodNotAllowed" },
  "lost-claim": { code: "AccessDenied", message: OUTPUT_BRANCH },
  "no-such-branch": { code: "NoSuchBucket" },
  "no-such-content": { code: "OperationAborted" },
  "no-such-file": { code: "NoSuchKey" },
  "no-such-open-commit": {
    code: "NoSuchBucket",
    message:
      "The branch has nothing of that name: the bucket '<x>.<branch>.<repo>' is that of a commit ('sluice commit list'), of a tag ('sluice tag list'), or of an open commit, which was finished, was aborted, ran out or was never there: open one with 'sluice commit start s3://<branch>.<repo>'.",
  },
  "no-such-upload": { code: "OperationAborted" },
  "lost-lease": { code: "OperationAborted" },
  "no-such-version": { code: "NoSuchVersion" },
  "not-empty": { code: "BucketNotEmpty" },
  "not-newest": {
    code: "MethodNotAllowed",
    message:
      "The version is not what the bucket has at the key now, and what a commit has never changes: leave versionId out, or name the newest version.",
    headers: { allow: "GET" },
  },
  "not-its-output": {
    code: "InvalidRequest",
    message: "The branch is not the output of that pipeline: name the one whose output it is.",
  },
  "not-public": { code: "AccessDenied", message: NOT_SIGNED },
  "path-conflict": { code: "PathConflict" },
  "pipeline-output": { code: "AccessDenied", message: OUTPUT_BRANCH },
  protected: { code: "AccessDenied" },
  "read-only": {
    code: "MethodNotAllowed",
    message: "The bucket shows a commit, which never changes: write to the branch's own bucket.",
  },
  "too-many-operations": {
    code: "InvalidRequest",
    message:
      "The request changes more files than one request takes: send fewer at a time, into an open commit ('sluice commit start') where they are to be one commit.",
  },
} satisfies Record<string, Word>;

/** A client of a multipart upload knows its upload, and hears if it is gone; a PUT's upload is our own affair. */
const UPLOAD_WORDS = {
  ...BRANCH_WORDS,
  "no-such-upload": { code: "NoSuchUpload" },
  "part-changed": {
    code: "InvalidPart",
    message:
      "A part was uploaded again while the upload was being completed: list the parts, then complete it again.",
  },
} satisfies Record<string, Word>;

const WRITE_CODES: Record<WriteFailure, S3Code> = {
  "body-too-long": "IncompleteBody",
  "checksum-mismatch": "BadDigest",
  "digest-mismatch": "BadDigest",
  "incomplete-body": "IncompleteBody",
  "md5-mismatch": "BadDigest",
  "request-timeout": "RequestTimeout",
  "sha256-mismatch": "XAmzContentSHA256Mismatch",
};

/** What a Branch object answered. Throws the error for a refusal. */
export function accepted<A extends Answer<BranchReason>>(answer: A): Extract<A, { ok: true }> {
  if (answer.ok) return answer as Extract<A, { ok: true }>;
  throw branchFailure(answer as Refusal<BranchReason>);
}

/** The same, of a call on a multipart upload. */
export function acceptedOfUpload<A extends Answer<UploadReason>>(answer: A): Extract<A, { ok: true }> {
  if (answer.ok) return answer as Extract<A, { ok: true }>;
  throw uploadFailure(answer as Refusal<UploadReason>);
}

/** The error for a Branch object's refusal. */
export function branchFailure(refused: Refusal<BranchReason>): S3Error {
  return refusalError(refused, BRANCH_WORDS);
}

/** The error for a Branch object's refusal of a call on a multipart upload. */
export function uploadFailure(refused: Refusal<UploadReason>): S3Error {
  return refusalError(refused, UPLOAD_WORDS);
}

/** The error for a body that could not be taken in. */
export function writeFailure(reason: WriteFailure): S3Error {
  return new S3Error(WRITE_CODES[reason]);
}

/** The error for a key that the tree cannot hold. */
export function keyFailure(key: string, fault: PathFault): S3Error {
  if (fault === "too-long") {
    return s3Error.KeyTooLongError(
      `The key is longer than ${MAX_PATH_BYTES} bytes of UTF-8: take a shorter one.`,
    );
  }
  return s3Error.InvalidArgument(`The key '${key}' cannot be stored: ${PATH_FAULT_TEXT[fault]}.`);
}

function refusalError<R extends string>(refused: Refusal<R>, words: Readonly<Record<R, Word>>): S3Error {
  if ("fault" in refused) return keyFailure(refused.path, refused.fault);
  if ("other" in refused) return conflict(refused);
  if ("writer" in refused) return protectedFailure(refused);
  if ("deletedAt" in refused) return deletionFailure(refused);
  const word = words[refused.reason as R];
  return new S3Error(word.code, word.message, word);
}

function protectedFailure({ writer }: Protected): S3Error {
  const who = "key" in writer ? `the access key '${writer.key}'` : `the pipeline '${writer.pipeline}'`;
  return s3Error.AccessDenied(
    `The branch is protected, and only ${who} may write to it: write to another branch, or end that with 'sluice branch protect <branch>.<repo> --off'.`,
  );
}

/** As S3 answers if the version that is asked for is a deletion. */
function deletionFailure({ commit, deletedAt }: DeletionRead): S3Error {
  return s3Error.MethodNotAllowed(
    `The version '${commit}' is the deletion of the key, and has no bytes: read the version before it, which ListObjectVersions lists.`,
    {
      headers: {
        allow: "DELETE",
        "last-modified": httpDate(deletedAt),
        "x-amz-delete-marker": "true",
        "x-amz-version-id": commit,
      },
    },
  );
}

function conflict({ path, other }: { path: string; other: string }): S3Error {
  return s3Error.PathConflict(
    `The key '${path}' cannot be written while '${other}' is there, because a path cannot be a file and a directory at once: delete '${other}', or take another key.`,
  );
}

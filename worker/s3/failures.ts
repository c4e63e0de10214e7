import type { PathFault } from "../../protocol/paths.ts";
import { MAX_PATH_BYTES, PATH_FAULT_TEXT } from "../../protocol/paths.ts";
import type { WriteFailure } from "../blobs/write-content.ts";
import type { BranchApi, CommitRefused } from "../branch/contract.ts";
import { type S3Code, S3Error } from "./errors.ts";

type Answer<M extends keyof BranchApi> = Awaited<ReturnType<BranchApi[M]>>;
type ReasonOf<A> = A extends { ok: false; reason: infer R extends string } ? R : never;

/** Every reason for which a Branch object refuses what the S3 operations ask of it. */
export type BranchReason =
  | ReasonOf<Answer<"create" | "destroy" | "status" | "read" | "list" | "openUpload" | "renewUpload">>
  | CommitRefused["reason"];

interface Word {
  readonly code: S3Code;
  readonly message?: string;
}

const OUTPUT_BRANCH =
  "This branch is the output of a pipeline and belongs to its jobs: write to another branch, or delete the pipeline first.";

/** A new reason does not compile until it has a word here. */
const BRANCH_WORDS: Record<BranchReason, Word> = {
  "already-exists": { code: "BucketAlreadyOwnedByYou" },
  "bad-path": { code: "InvalidArgument" },
  "branch-full": { code: "BranchFull" },
  "catalogue-unavailable": {
    code: "ServiceUnavailable",
    message: "The catalogue of buckets cannot be reached for the moment: try again.",
  },
  "lost-claim": { code: "AccessDenied", message: OUTPUT_BRANCH },
  "no-such-branch": { code: "NoSuchBucket" },
  "no-such-content": { code: "OperationAborted" },
  "no-such-file": { code: "NoSuchKey" },
  "no-such-upload": { code: "OperationAborted" },
  "no-such-version": { code: "NoSuchVersion" },
  "path-conflict": { code: "PathConflict" },
  "pipeline-output": { code: "AccessDenied", message: OUTPUT_BRANCH },
  "too-many-operations": {
    code: "InvalidRequest",
    message: "The request changes more files than one commit takes: send fewer at a time.",
  },
};

const WRITE_CODES: Record<WriteFailure, S3Code> = {
  "body-too-long": "IncompleteBody",
  "digest-mismatch": "BadDigest",
  "incomplete-body": "IncompleteBody",
  "md5-mismatch": "BadDigest",
  "request-timeout": "RequestTimeout",
  "sha256-mismatch": "XAmzContentSHA256Mismatch",
};

/** The error for a Branch object's refusal. */
export function branchFailure(
  refused: { readonly reason: Exclude<BranchReason, "bad-path" | "path-conflict"> } | CommitRefused,
): S3Error {
  if (refused.reason === "bad-path" && "fault" in refused) return keyFailure(refused.path, refused.fault);
  if (refused.reason === "path-conflict" && "other" in refused) return conflict(refused);
  return new S3Error(BRANCH_WORDS[refused.reason].code, BRANCH_WORDS[refused.reason]);
}

/** The error for a body that could not be taken in. */
export function writeFailure(reason: WriteFailure): S3Error {
  return new S3Error(WRITE_CODES[reason]);
}

/** The error for a key that the tree cannot hold. */
export function keyFailure(key: string, fault: PathFault): S3Error {
  if (fault === "too-long") {
    return new S3Error("KeyTooLongError", {
      message: `The key is longer than ${MAX_PATH_BYTES} bytes of UTF-8: take a shorter one.`,
    });
  }
  return new S3Error("InvalidArgument", {
    message: `The key '${key}' cannot be stored: ${PATH_FAULT_TEXT[fault]}.`,
  });
}

function conflict({ path, other }: { path: string; other: string }): S3Error {
  return new S3Error("PathConflict", {
    message: `The key '${path}' cannot be written while '${other}' is there, because a path cannot be a file and a directory at once: delete '${other}', or take another key.`,
  });
}

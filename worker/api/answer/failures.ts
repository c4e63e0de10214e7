import { type BranchAddress, bucketName } from "../../../protocol/names.ts";
import { PATH_FAULT_TEXT } from "../../../protocol/paths.ts";
import type { WriteFailure } from "../../blobs/write-content.ts";
import type { Protected, Refused } from "../../branch/contract/answers.ts";
import type { CommitRefused, ConditionFailure } from "../../branch/contract/files.ts";
import type { ChangedCondition, ConditionsChanged } from "../../branch/contract/open-commits.ts";
import { CATALOGUE_WORDS, type CatalogueFault } from "../../core/catalogue-fault.ts";
import type { RetryAnswer } from "../../pipeline/contract.ts";
import { type ApiCode, ApiError, apiError } from "./errors.ts";

type PlainReason =
  | Exclude<
      CommitRefused["reason"],
      "bad-path" | "path-conflict" | "no-such-content" | "protected" | ConditionFailure
    >
  | "no-such-version"
  | "lost-lease"
  | "not-public"
  | "not-its-output"
  | "not-empty"
  | CatalogueFault;

/** What each reason of a branch means to a client. A new reason does not compile until it has its words here. */
const WORDS: Record<PlainReason, readonly [ApiCode, string]> = {
  "no-such-branch": ["NoSuchBranch", "There is no such branch: create the bucket '<branch>.<repo>' first."],
  forking: [
    "Unavailable",
    "The branch is made from a commit of another one, and its rows are still on their way: try again ('sluice branch list' shows how far it is).",
  ],
  "no-such-upload": ["NoSuchUpload", "There is no such upload, or it is closed: open a new one."],
  "lost-lease": ["NoSuchUpload", "The lease is lost: nothing is uploaded under it any more."],
  "no-such-open-commit": [
    "NoSuchSession",
    "There is no such open commit: it was finished, was aborted, ran out or was never there. Open one with POST …/sessions.",
  ],
  busy: [
    "Unavailable",
    "A large commit is being made in the branch, and other writes wait for it: try again.",
  ],
  "no-such-version": [
    "NoSuchCommit",
    "The branch has no such commit, or keeps it no more ('sluice branch keep' shows how much of its history stays).",
  ],
  "not-public": ["AccessDenied", "The branch is not public."],
  "not-its-output": [
    "InvalidRequest",
    "writer.pipeline: the branch is not the output of that pipeline: name the one whose output it is, or a key.",
  ],
  "not-empty": [
    "NotEmpty",
    "The branch has files, and is to be deleted only if it has none: delete them first, or leave out 'empty=true'.",
  ],
  "pipeline-output": ["AccessDenied", "The branch is the output of a pipeline: only its jobs write to it."],
  "read-only": [
    "MethodNotAllowed",
    "A commit never changes, and neither does its bucket: write to the branch, or open a commit with POST …/sessions.",
  ],
  "too-many-operations": [
    "InvalidRequest",
    "One call takes at most 10,000 operations: for a commit of more, open a session (POST …/sessions), send them in several calls that name it, and finish it.",
  ],
  "branch-full": [
    "BranchFull",
    "The branch's database is full. Keep less of its history (PUT …/keep), and delete files, which is still possible: both give room within minutes. GET /repos/{repo}/usage shows what holds most; or write to another branch.",
  ],
  "lost-claim": ["AccessDenied", "The branch belongs to another pipeline by now."],
  "catalogue-unavailable": ["Unavailable", CATALOGUE_WORDS["catalogue-unavailable"]],
  "catalogue-outdated": ["Unavailable", CATALOGUE_WORDS["catalogue-outdated"]],
  "other-family": ["Unavailable", CATALOGUE_WORDS["other-family"]],
};

type BranchFailure = CommitRefused | ConditionsChanged | { readonly ok: false; readonly reason: PlainReason };

/** What a Branch object answered. Throws the error for a refusal. `address`: the branch that the client named. */
export function accepted<A extends { readonly ok: true } | BranchFailure>(
  answer: A,
  address?: BranchAddress,
): Extract<A, { ok: true }> {
  if (answer.ok) return answer as Extract<A, { ok: true }>;
  throw branchError(answer as BranchFailure, address);
}

/** The error for a branch's refusal. `address`: the branch that the client named. */
export function branchError(failure: BranchFailure, address?: BranchAddress): ApiError {
  if (failure.reason === "no-such-branch" && address) {
    const bucket = bucketName(address);
    return apiError.NoSuchBranch(`There is no branch '${bucket}': create the bucket '${bucket}' first.`);
  }
  if (failure.reason === "bad-path")
    return apiError.InvalidRequest(
      `The path '${failure.path}' can't be stored: ${PATH_FAULT_TEXT[failure.fault]}.`,
    );
  if (failure.reason === "path-conflict") {
    const message = `'${failure.path}' can't be put while '${failure.other}' is there, because a path can't be a file and a directory at once: delete '${failure.other}', or take another path.`;
    return apiError.PathConflict(message);
  }
  if (failure.reason === "no-such-content") {
    const message = `The branch does not have the content of '${failure.path}': send it to the upload first.`;
    return apiError.NoSuchContent(message);
  }
  if (failure.reason === "condition-failed" || failure.reason === "no-such-file") {
    const is = failure.reason === "no-such-file" ? "is not there" : "is not as it was asked to be";
    return apiError.PreconditionFailed(`'${failure.path}' ${is}: look at it, then ask again.`);
  }
  if (failure.reason === "protected") return protectedError(failure);
  if (failure.reason === "conditions-changed") return conditionsChanged(failure);
  return new ApiError(...WORDS[failure.reason]);
}

function protectedError({ writer }: Protected): ApiError {
  const who = "key" in writer ? `the access key '${writer.key}'` : `the pipeline '${writer.pipeline}'`;
  return apiError.AccessDenied(
    `The branch is protected, and only ${who} may write to it: write to another branch, or end that with PUT …/writer.`,
  );
}

const CHANGE_WORDS: Record<ChangedCondition["change"], string> = {
  added: "there was nothing when its condition was judged, and somebody has written it since",
  changed: "somebody has written it since its condition was judged",
  deleted: "somebody has deleted it since its condition was judged",
};

/** The paths are the issues. */
function conditionsChanged({ changes, others }: ConditionsChanged): ApiError {
  const [first] = changes;
  const count = changes.length + others;
  const where = count === 1 ? `at '${first?.path}'` : `at ${count} paths, the first is '${first?.path}'`;
  return apiError.ConditionalRequestConflict(
    `Nothing was committed and the open commit stays open, because conditions of it were judged on what is no longer there: ${where}. Put or delete these paths without a condition, or abort the open commit.`,
    { issues: changes.map(({ path, change }) => ({ path, message: CHANGE_WORDS[change] })) },
  );
}

const STOP_WORDS: Record<"job-ended" | "job-ending", string> = {
  "job-ended": "has ended: only a job that has not can be stopped",
  "job-ending": "is committing its output, which can't be stopped any more: it ends in a moment",
};

/** The error for a job that can't be stopped. */
export function stopError(reason: keyof typeof STOP_WORDS, job: string): ApiError {
  return apiError.JobEnded(`The job '${job}' ${STOP_WORDS[reason]}.`);
}

type RetryRefused = Exclude<RetryAnswer, { readonly ok: true } | Refused<"no-such-job">>;

/** The error for a job that can't be retried just now. */
export function retryError(refused: RetryRefused, pipeline: string): ApiError {
  switch (refused.reason) {
    case "job-running": {
      const { job } = refused;
      const message = `The job '${job}' of the pipeline '${pipeline}' has not ended, and tries what failed before it: wait for it (sluice job wait ${job}) or stop it (sluice job stop ${job}), then retry.`;
      return apiError.JobRunning(message);
    }
    case "stopped":
      return apiError.PipelineStopped(
        `The pipeline '${pipeline}' is stopped, and makes no jobs: start it (sluice pipeline start ${pipeline}), then retry.`,
      );
    case "no-data":
      return apiError.NoInputData(
        `The inputs of the pipeline '${pipeline}' were changed, and one of them holds no file: its next job comes with the commit that fills it (sluice pipeline inspect ${pipeline}).`,
      );
    case "unavailable":
      return apiError.Unavailable(
        `The pipeline '${pipeline}' is being changed, or is still reading its inputs: try again.`,
      );
  }
}

const WRITE_WORDS: Record<WriteFailure, readonly [ApiCode, string]> = {
  "incomplete-body": [
    "InvalidRequest",
    "The body ended early: send as many bytes as Content-Length and size say.",
  ],
  "body-too-long": ["InvalidRequest", "The body is longer than size says: send exactly that many bytes."],
  "request-timeout": ["RequestTimeout", "The body stopped coming: send it whole."],
  "md5-mismatch": ["InvalidRequest", "The body does not have the MD5 that Content-MD5 says."],
  "sha256-mismatch": ["InvalidRequest", "The body does not have the SHA-256 that x-amz-content-sha256 says."],
  "checksum-mismatch": ["InvalidRequest", "The body does not have the checksum that its headers say."],
  "digest-mismatch": ["InvalidRequest", "The body does not have the digest and size that the query says."],
};

/** The error for a body that could not be taken in. */
export function writeError(reason: WriteFailure): ApiError {
  return new ApiError(...WRITE_WORDS[reason]);
}

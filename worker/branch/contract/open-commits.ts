import type { Annotation, Done, Protected, Refused } from "./answers.ts";
import type { CommitRefused } from "./files.ts";
import type { CommitDiff } from "./history.ts";

/** Commits that are made of many writes, and such as take long. */
export interface OpenCommitCalls {
  /** Starts an open commit: writes that name it fill it, and finishOpenCommit makes it a commit. */
  start(request: {
    ttlMs: number;
    /** For the commit that it becomes, as far as the finish says nothing else. */
    annotation?: Annotation;
  }): Promise<OpenCommitStarted | Protected | Refused<"no-such-branch" | "forking" | "pipeline-output">>;
  /** How an open commit stands; also one that was finished lately. */
  status(request: { openCommit: string }): Promise<OpenCommitStatus | Refused<"no-such-open-commit">>;
  /** The open commits that are not finished, in the order in which they began. `next` goes into `after`. */
  list(request: {
    after?: number;
    limit: number;
  }): Promise<OpenCommitList | Refused<"no-such-branch" | "forking">>;
  /** What an open commit would change if it were finished now. A page may be short; `next` says whether that was all. */
  changes(request: {
    openCommit: string;
    after: string;
    limit: number;
  }): Promise<CommitDiff | Refused<"no-such-open-commit">>;
  /**
   * Makes one commit of what an open commit holds; may be asked again. `applying`: it is large and goes on by itself, ask
   * again. `commit` null: nothing would change, none was made. If it is refused, the open commit is open as before.
   * `conditions-changed`: somebody wrote where a condition had been checked.
   */
  finish(request: {
    openCommit: string;
    annotation?: Annotation;
  }): Promise<OpenCommitEnd | CommitRefused | ConditionsChanged>;
  /** Forgets an open commit and what it alone kept; does nothing if it is gone. `applying`: too late. */
  abort(request: { openCommit: string }): Promise<Done | Refused<"applying">>;
  /**
   * Begins with one commit whose tree is that of an earlier commit; finishOpenCommit tells its end. All writes until it is
   * made wait.
   */
  revert(request: {
    commit: string;
    annotation?: Annotation;
  }): Promise<OpenCommitStarted | CommitRefused | Refused<"no-such-version">>;
}

/**
 * HEAD has something else at these paths than when conditions of the open commit were checked there. Nothing was
 * committed, and the open commit stays open.
 */
export interface ConditionsChanged {
  readonly ok: false;
  readonly reason: "conditions-changed";
  /** In order of the path; at most MAX_CHANGED_CONDITIONS. */
  readonly changes: readonly ChangedCondition[];
  /** How many more there are. */
  readonly others: number;
}

export interface ChangedCondition {
  readonly path: string;
  /** What became of it at HEAD since. */
  readonly change: "added" | "changed" | "deleted";
}

/** Most paths that one refusal names. */
export const MAX_CHANGED_CONDITIONS = 1000;

interface OpenCommitStarted {
  readonly ok: true;
  /** A ULID: the first word of the open commit's bucket `<open commit>.<branch>.<repo>`. */
  readonly openCommit: string;
}

interface OpenCommitStatus {
  readonly ok: true;
  readonly openedAt: number;
  /** When it expires unless something is added before; null once it is applying or finished. */
  readonly due: number | null;
  /** Paths that it holds an operation for. */
  readonly operations: number;
  readonly state: "open" | "applying" | "finished";
  /** Set if it is finished and changed something. */
  readonly commit: string | null;
}

interface OpenCommitList {
  readonly ok: true;
  readonly openCommits: readonly (Omit<OpenCommitStatus, "ok"> & {
    readonly openCommit: string;
    /** What was said of its commit when it began. */
    readonly annotation?: Annotation;
  })[];
  readonly next: number | null;
}

export type OpenCommitEnd =
  | { readonly ok: true; readonly state: "applying" }
  | {
      readonly ok: true;
      readonly state: "finished";
      readonly commit: string | null;
      readonly modifiedAt: number;
    };

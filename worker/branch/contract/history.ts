import type { ChangeSummary } from "../../../protocol/commits.ts";
import type { ContentId } from "../../../protocol/content.ts";
import type { Annotation, Done, Protected, Redaction, Refused } from "./answers.ts";

/** The commits of a branch, for people. */
export interface HistoryCalls {
  /** Commits of the branch, the newest first, those before `after`. */
  list(request: {
    after?: string;
    limit: number;
    /** Each commit has a summary: costs what they changed. */
    summary?: boolean;
  }): Promise<CommitLog | Refused<"no-such-branch" | "forking" | "no-such-version">>;
  /** One of those. */
  commit(request: {
    commit: string;
  }): Promise<({ ok: true } & CommitEntry) | Refused<"no-such-branch" | "forking" | "no-such-version">>;
  /** What differs between two of those, by path, after `after`. Pages may be short; `next` says whether that was all. */
  diff(request: DiffCommits): Promise<CommitDiff | Refused<"no-such-branch" | "forking" | "no-such-version">>;
  /**
   * Takes the message and the metadata out of a commit, named by its id or a tag, for good; all else of it stays. `redacted`
   * is null if it never had any. Asked again, it changes nothing.
   */
  redact(request: { commit: string; key: string }): Promise<
    | {
        readonly ok: true;
        readonly commit: string;
        readonly redacted: Redaction | null;
        readonly change: "redacted" | "none";
      }
    | Protected
    | Refused<"no-such-branch" | "forking" | "no-such-version" | "busy">
  >;
}

/** Names of commits. */
export interface TagCalls {
  /** A tag as the branch has it. */
  find(request: { name: string }): Promise<Tag | Refused<"no-such-branch" | "forking" | "no-such-tag">>;
  /**
   * Names a commit: that of the id or tag `commit`, or the newest one. A tag that names another commit is moved only with
   * `force`. `catalogue-unavailable`: the tag is as it was asked to be, but lists do not show it yet; ask again.
   */
  create(request: { name: string; commit?: string; force: boolean } & TagChanger): Promise<
    | TagSet
    | { readonly ok: false; readonly reason: "tag-exists"; readonly commit: string }
    | Refused<"tag-kept">
    /** `no-commit`: the branch has none yet. */
    | Refused<"no-such-branch" | "forking" | "no-such-version" | "no-commit" | "catalogue-unavailable">
  >;
  /** As with createTag, `catalogue-unavailable` says that the tag is gone; asked again, it may be found gone already. */
  delete(
    request: { name: string } & TagChanger,
  ): Promise<
    Done | Refused<"no-such-branch" | "forking" | "no-such-tag" | "tag-kept" | "catalogue-unavailable">
  >;
}

export interface CommitEntry {
  readonly id: string;
  /** Null: it is the first of its branch. */
  readonly parent: string | null;
  readonly createdAt: number;
  /** The job that made it. */
  readonly origin: string | null;
  /** Absent: a job made it, or nobody said who did. */
  readonly annotation?: Annotation;
  /** It came out of an archive: what it says of itself is what that said. */
  readonly imported?: true;
  /** Files that it wrote, and files that it replaced or deleted. */
  readonly changes: { readonly written: number; readonly ended: number };
  /** Null: too much to add up, or some of it is kept no more. Absent: nobody asked. */
  readonly summary?: ChangeSummary | null;
}

export interface CommitLog {
  readonly ok: true;
  readonly commits: readonly CommitEntry[];
  /** What to pass as `after` for the next page; null if there is none. */
  readonly next: string | null;
}

/** Who deletes or moves a tag. */
export interface TagChanger {
  /** The key of somebody who does not administer the repo: it may only if the branch is protected for it. */
  readonly asWriter?: string | undefined;
}

interface Tag {
  readonly ok: true;
  readonly name: string;
  /** The commit's id. */
  readonly commit: string;
  /** When it was made or last moved. */
  readonly createdAt: number;
}

interface TagSet {
  readonly ok: true;
  readonly name: string;
  readonly commit: string;
  /** `none`: it named this commit already. */
  readonly change: "made" | "moved" | "none";
  /** The commit that it named before; null if it was not there. */
  readonly before: string | null;
}

export interface DiffCommits {
  /** Null: what was there before the first commit, which is nothing. */
  readonly from: string | null;
  readonly to: string;
  readonly after: string;
  /** At most 1,000. */
  readonly limit: number;
}

/** A path that is not the same in both. Null: it is not there. If the contents are equal, its attributes differ. */
export interface PathDifference {
  readonly path: string;
  readonly before: ContentId | null;
  readonly after: ContentId | null;
}

export interface CommitDiff {
  readonly ok: true;
  readonly changes: readonly PathDifference[];
  readonly next: string | null;
}

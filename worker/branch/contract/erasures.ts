import type { ContentId } from "../../../protocol/content.ts";
import type { Annotation, Protected, Refused } from "./answers.ts";
import type { CommitRefused, Committed, Operation } from "./files.ts";
import type { Subscriber } from "./pipelines.ts";

/** Versions that are erased for good. */
export interface ErasureCalls {
  /**
   * Erases versions of paths for good, all in one transaction. What is no version of its path changes nothing. If the
   * newest one of a path goes, HEAD goes back to the one before, in a commit. `held-by-forks`: forks had them in the commit
   * that they were made from, and the caller has not asked these what they still have (`copies`).
   */
  erase(
    request: EraseVersions,
  ): Promise<ErasedVersions | HeldByForks | Protected | Refused<"no-such-branch" | "forking" | "busy">>;
  /** The commits of the live generation that have what some of them have at a path, and who reads the branch. */
  spans(request: {
    /** Each the id of a commit. */
    versions: readonly VersionName[];
  }): Promise<{ readonly files: readonly FileSpans[]; readonly readers: readonly Subscriber[] }>;
  /** What of the live generation has one of these contents. Pages may be empty; `next` says whether that was all. */
  holders(request: {
    contents: readonly ContentId[];
    after?: string;
  }): Promise<
    { ok: true; holders: readonly ByteHolder[]; next: string | null } | Refused<"no-such-branch" | "forking">
  >;
  /**
   * What was erased, for a pipeline that reads the branch or writes to it: those after a number, all before which it has heard
   * of. `upTo`: these are all up to that number, so that it goes on from there; the number that was asked for if there are no more.
   */
  list(request: { uid: string; after: number }): Promise<{ erasures: readonly Erasure[]; upTo: number }>;
}

/** A version of a path: what one commit wrote there, or its deletion. */
export interface VersionName {
  readonly path: string;
  /** The commit's id. */
  readonly version: string;
}

export interface EraseVersions {
  /** Of the generation of this uid, whether it lives or not. Absent: the live one. */
  readonly uid?: string;
  readonly versions: readonly VersionName[];
  /** The deletion of a version that goes is erased, too: it may have come after the caller listed the versions. */
  readonly withDeletions?: boolean;
  /**
   * The forks that the caller has asked, which of the contents each still has, and the number of its answer: a fork that gave
   * back something since has to be asked again. Absent: there is no such fork, or it was not asked.
   */
  readonly forks?: readonly {
    readonly fork: string;
    readonly has: readonly ContentId[];
    readonly number?: number;
  }[];
  /** Deletions of paths in the same step, after it: a commit of their own. Those whose condition does not hold are left out. */
  readonly deletions?: readonly Operation[];
  /** Of the commits. */
  readonly annotation?: Annotation;
}

interface ErasedVersions {
  readonly ok: true;
  /** The commit by which HEAD went back; null if HEAD is as it was. */
  readonly commit: string | null;
  readonly modifiedAt: number;
  /** Those of the versions that were there, each once. */
  readonly erased: readonly ErasedVersion[];
  /** What became of the deletions, if there were any. */
  readonly deleted?: Committed | CommitRefused;
  /** The pipelines that read the branch. */
  readonly readers: readonly Subscriber[];
}

/** Commits from one up to another, without that. */
export interface Span {
  readonly born: number;
  readonly died: number;
}

/** The commits of a generation that had something at a path. */
export interface FileSpans {
  readonly path: string;
  readonly generation: number;
  readonly spans: readonly Span[];
}

export type ErasedVersion =
  | (VersionName &
      ContentId & {
        readonly kind: "version";
        /** Something else in the branch has the same bytes. */
        readonly stays: boolean;
        /** The commits that had it, of this generation. */
        readonly generation: number;
        readonly spans: readonly Span[];
      })
  | (VersionName & { readonly kind: "deletion" });

export interface HeldByForks {
  readonly ok: false;
  readonly reason: "held-by-forks";
  readonly forks: readonly {
    /** Uid of the fork's generation. */
    readonly fork: string;
    readonly bucket: string;
    /** What of it was in the commit that the fork was made from. */
    readonly paths: readonly string[];
    readonly contents: readonly ContentId[];
    /** The highest number of a give-back of the fork that came here. */
    readonly given: number;
  }[];
}

/** What has some bytes beside a version that was erased. */
export type ByteHolder = ContentId &
  (
    | (VersionName & { readonly kind: "version" })
    | { readonly kind: "open-commit"; readonly openCommit: string; readonly path: string }
    /** `path`: of a multipart upload; null: a runner's, for results of a pipeline, or one that is under way. */
    | { readonly kind: "upload"; readonly upload: string; readonly path: string | null }
  );

/** A row that was erased: the commits from `born` up to `died`, without that, had it at the path. */
export interface Erasure extends ContentId {
  readonly number: number;
  readonly generation: number;
  readonly path: string;
  readonly born: number;
  readonly died: number;
  /** The job that made the commit that wrote it. */
  readonly origin: string | null;
  /** What HEAD has at the path by now. */
  readonly now: ContentId | null;
  /** Whether any version of the path is left in that generation, deletions included. */
  readonly left: boolean;
}

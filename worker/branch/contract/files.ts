import type { ContentId } from "../../../protocol/content.ts";
import type { Attributes } from "../../../protocol/files.ts";
import type { ObjectTag } from "../../../protocol/object-tags.ts";
import type { Body, Content, Life } from "../../blobs/content.ts";
import type { Checksum } from "../../core/checksums.ts";
import type { Annotation, BadPath, NotOpen, Protected, PublicRead, Refused } from "./answers.ts";
import type { ModifiedOf } from "./settings.ts";

/** The tree: what is read of it, and what is written into it. */
export interface FileCalls {
  /** What a view is: first an open commit of that id is looked for, then a commit of the id or the tag. */
  view(
    request: { view: string } & PublicRead,
  ): Promise<ViewShown | Refused<"no-such-open-commit" | "no-such-version" | "forking" | "not-public">>;
  /** One file at HEAD, or at a commit. */
  read(request: ReadFile & { readonly have?: never }): Promise<ReadAnswer>;
  /** The same, for somebody who keeps what it answers. */
  read(request: ReadFile): Promise<ReadAnswer | Unchanged>;
  /** One page of the tree, in byte order of the path. It may be short, and even empty, if much has to be passed over; `next` says whether that was all. */
  list(
    request: ListFiles,
  ): Promise<
    | FileList
    | Refused<"no-such-branch" | "forking" | "no-such-version" | "no-such-open-commit" | "not-public">
  >;
  /** One page of the history of the paths: every version and every deletion, by path, the newest first. It may be short like one of `list`. */
  versions(request: ListVersions): Promise<VersionList | Refused<"no-such-branch" | "forking">>;
  /** Where a content's bytes are, in any generation unless only the live one is asked for. */
  content(request: ReadContent): Promise<{ ok: true; body: Body } | Refused<"no-such-content">>;
  /**
   * Somebody still reads these blobs: those that are to be deleted stay for another while. Says what else must be kept, and
   * where: `borrowed` of a manifest that lists blobs of others, which go by themselves; `parents` if some are on loan.
   */
  keepBlobs(request: { blobs: readonly string[] }): Promise<BlobsKept>;
  /** Writes one file as one commit: the way of PutObject. Calls that wait together share a transaction. */
  put(request: PutFile): Promise<Committed | CommitRefused>;
  /** Many operations as one commit. Later operations on a path win. Nothing to change: `commit` is null and no commit is made. */
  commit(request: CommitRequest): Promise<Committed | CommitRefused>;
  /** Gives what is at a path other tags, as one commit in which its bytes stay as old as they are. `commit` is null if it has them. */
  setTags(request: SetTags): Promise<TagsSet | TagsRefused>;
}

interface BlobsKept {
  readonly ok: true;
  readonly borrowed: boolean;
  /** Buckets of the branches that own some of the blobs, or know who does. */
  readonly parents: readonly string[];
}

/** A view that is there. */
export interface ViewShown {
  readonly ok: true;
  readonly shows: "open-commit" | "commit";
  /** Of the commit; of an open commit, the time of the branch's newest commit. */
  readonly modifiedAt: number;
}

export interface ReadFile extends PublicRead {
  /**
   * A view, not with `commit`: HEAD as it would be if the open commit of this id were finished now; else the commit of
   * this id, or the tag. It has the name that it has in writes, so that the view of a bucket goes into every call alike.
   */
  readonly openCommit?: string;
  readonly path: string;
  /** A commit id. Absent: HEAD. */
  readonly commit?: string;
  /** Whose time `modifiedAt` is, if the branch is not set to one. Absent: the branch's. */
  readonly modified?: ModifiedOf;
  /** The stamp of what the same question was answered with before; null: there is none, but one is wanted. */
  readonly have?: string | null;
}

export type ReadAnswer =
  | FileRead
  | DeletionRead
  | (Newest & Refused<"no-such-file">)
  | Refused<"no-such-branch" | "forking" | "no-such-version" | "no-such-open-commit" | "not-public">;

/** Where the newest state stood that an answer is of, for somebody who asked with `have`. Absent: it is of something else. */
interface Newest {
  readonly at?: NewestPosition;
}

/** The number of a branch's generation, and that of its newest commit: of two, the later one is the higher one. */
export interface NewestPosition {
  readonly gen: number;
  readonly seq: number;
}

/** Says of an answer that it may be kept, for somebody who asked with `have`. */
interface Stamped extends Newest {
  /** What to ask the same question with next time. Means something to this object alone. */
  readonly stamp: string;
  /** The question names one commit by its id: it is answered so for ever, unless the file is erased, or the commit or the branch goes. */
  readonly lasting?: true;
  /** It is of the newest state, and the branch is set to such reads: it may be given for some seconds without asking again. */
  readonly near?: true;
}

/** The answer is the one that `have` is of. */
export interface Unchanged extends Stamped {
  readonly ok: true;
  readonly unchanged: true;
  /** What has changed of it, if that is the time of the newest commit. Absent: as it was. */
  readonly modifiedAt?: number;
}

interface ReadContent extends ContentId {
  /** What a deleted branch held is not found. */
  readonly liveOnly?: boolean;
}

export interface FileRead extends Partial<Stamped> {
  readonly ok: true;
  readonly kind: "file" | "dir";
  readonly digest: string;
  readonly size: number;
  readonly attributes: StoredAttributes;
  readonly body: Body;
  /** Of the content, for those who name what they read here as kept. */
  readonly life: Life;
  /** Of the commit that `modified` asks for. */
  readonly modifiedAt: number;
  /** The version: the commit that was asked for; of a read at HEAD, the one that wrote the file. */
  readonly commit: string;
}

/** The version that was asked for is the deletion of the path. */
export interface DeletionRead {
  readonly ok: false;
  readonly reason: "is-deletion";
  /** The commit that deleted it, and its time. */
  readonly commit: string;
  readonly deletedAt: number;
}

/** What a file's row keeps beside its content. */
export interface StoredAttributes extends Attributes {
  readonly checksum?: Checksum;
  readonly parts?: PartLayout;
}

/** The parts that a multipart object was put together from. */
export interface PartLayout {
  /** Sizes in order, as runs of equal ones: [bytes, how many][]. */
  readonly sizes: readonly (readonly [size: number, count: number])[];
  /** Base64, one a part, of the algorithm of the object's checksum; absent if it has none. */
  readonly checksums?: readonly string[];
}

export interface ListFiles extends PublicRead {
  /** A view, not with `commit`; as in ReadFile. */
  readonly openCommit?: string;
  readonly prefix: string;
  /** "/" folds. Absent: a flat list. */
  readonly delimiter?: "/";
  /** Only entries after this one: a path, or a common prefix (ends in "/"), whose whole subtree is then skipped when `delimiter` is set. */
  readonly after?: string;
  /** At most 1,000. */
  readonly limit: number;
  readonly commit?: string;
  /** Also find commits of earlier generations of the branch (jobs read those). */
  readonly anyGeneration?: boolean;
  /** With "file", each entry has its own `modifiedAt`, if the branch is not set to another. */
  readonly modified?: ModifiedOf;
  /** Each has its own, whatever the branch is set to. */
  readonly ownTimes?: boolean;
}

export type ListEntry =
  | {
      readonly kind: "file" | "dir";
      readonly path: string;
      readonly digest: string;
      readonly size: number;
      /** Set if the request asks for the file's own. */
      readonly modifiedAt?: number;
    }
  | { readonly kind: "prefix"; readonly path: string };

export interface FileList {
  readonly ok: true;
  readonly entries: readonly ListEntry[];
  readonly truncated: boolean;
  /** What to pass as `after` for the next page; set exactly when truncated. */
  readonly next: string | null;
  readonly modifiedAt: number;
}

export interface ListVersions {
  readonly prefix: string;
  readonly delimiter?: "/";
  /** Only what comes after this: a path with all its versions, a common prefix with its subtree, or with `version` one version of a path. */
  readonly after?: VersionMark;
  /** At most 1,000. */
  readonly limit: number;
}

export interface VersionMark {
  readonly path: string;
  /** A version's commit, whose older ones of the path still come. */
  readonly version?: string;
}

export type VersionEntry =
  | {
      readonly kind: "version";
      readonly path: string;
      /** The commit that wrote it. */
      readonly version: string;
      readonly latest: boolean;
      readonly digest: string;
      readonly size: number;
      readonly modifiedAt: number;
      /** What its checksum is; absent if it has none. */
      readonly checksum?: Pick<Checksum, "algorithm" | "type">;
    }
  | {
      readonly kind: "deletion";
      readonly path: string;
      /** The commit that deleted it. */
      readonly version: string;
      readonly latest: boolean;
      readonly modifiedAt: number;
    }
  | { readonly kind: "prefix"; readonly path: string };

export interface VersionList {
  readonly ok: true;
  readonly entries: readonly VersionEntry[];
  readonly truncated: boolean;
  /** Set exactly when truncated. */
  readonly next: VersionMark | null;
}

/** What must hold of the present state of a path for a write to be done (S3 User Guide, "Conditional writes"). */
export interface WriteCondition {
  /** One of these must be there; "any": something must. Refused with `no-such-file` if nothing is there, else with `condition-failed`. */
  readonly match?: readonly ContentId[] | "any";
  /** None of these may be there; "any": nothing may. */
  readonly noneMatch?: readonly ContentId[] | "any";
}

export interface PutFile {
  /** Into this open commit instead of a commit of its own: the answer's `commit` is then null. */
  readonly openCommit?: string;
  readonly path: string;
  readonly content: Content;
  readonly attributes: StoredAttributes;
  /** The upload that the content's blobs carry; absent for inline content. */
  readonly upload?: string;
  readonly condition?: WriteCondition;
  /** Of an open commit's write, only the key counts: it says who writes. */
  readonly annotation?: Annotation;
}

export interface SetTags {
  /** Into this open commit instead of a commit of its own, if the branch still has at its finish what it has at the path now. */
  readonly openCommit?: string;
  readonly path: string;
  readonly tags: readonly ObjectTag[];
  /** A commit that must have what is there at HEAD. */
  readonly version?: string;
  /** As in PutFile. */
  readonly annotation?: Annotation;
}

export interface TagsSet extends Committed {
  /** The commit that names what is there now; null in an open commit. */
  readonly version: string | null;
}

export type TagsRefused =
  | CommitRefused
  | DeletionRead
  | Refused<
      | "no-such-version"
      /** The version is there, and is not what HEAD has: tags of the past never change. */
      | "not-newest"
    >;

export type Operation =
  | {
      readonly put: string;
      readonly digest: string;
      readonly size: number;
      readonly attributes?: StoredAttributes;
      readonly condition?: WriteCondition;
    }
  | { readonly delete: string; readonly condition?: WriteCondition };

export interface CommitRequest {
  /** Into this open commit instead of a commit of its own: the answer's `commit` is then null. */
  readonly openCommit?: string;
  readonly operations: readonly Operation[];
  /** If the condition of an operation does not hold: nothing is committed (the default), or only the rest is. */
  readonly onFailedCondition?: "refuse" | "leave-out";
  /** The upload that the contents came by; the commit closes it. */
  readonly upload?: string;
  /** As in PutFile. */
  readonly annotation?: Annotation;
}

export interface Committed {
  readonly ok: true;
  /** The commit; null if nothing changed and none was made. */
  readonly commit: string | null;
  readonly modifiedAt: number;
  /** The paths whose conditions did not hold, if the request wanted them left out. */
  readonly leftOut?: readonly { readonly path: string; readonly reason: ConditionFailure }[];
}

export type ConditionFailure = "condition-failed" | "no-such-file";

export type CommitRefused =
  | BadPath
  | NotOpen
  | Protected
  /** A large commit is being applied and the write waited too long: try again later. */
  | Refused<"busy">
  | { readonly ok: false; readonly reason: ConditionFailure; readonly path: string }
  | Refused<
      | "no-such-branch"
      /** It is made from a commit of another branch, and its rows are still on their way: try again. */
      | "forking"
      | "no-such-upload"
      | "pipeline-output"
      | "too-many-operations"
      | "branch-full"
      | "lost-claim"
    >
  /** A file at the place of a directory, or the other way round. `other` is the path that is in the way. */
  | { readonly ok: false; readonly reason: "path-conflict"; readonly path: string; readonly other: string }
  /** The content is not in the branch. */
  | { readonly ok: false; readonly reason: "no-such-content"; readonly path: string };

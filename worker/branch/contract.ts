import type { Loops } from "../../protocol/admin.ts";
import type {
  ArchivedCommit,
  ArchivedFile,
  ArchivedTag,
  FilePlace,
  ImportProgress,
  MoreOfFile,
} from "../../protocol/archives.ts";
import type { ContentId } from "../../protocol/content.ts";
import type { Attributes, FileEntry } from "../../protocol/files.ts";
import type { ObjectTag } from "../../protocol/object-tags.ts";
import type { PathFault } from "../../protocol/paths.ts";
import type { Body, Content, Life } from "../blobs/content.ts";
import type { CatalogueFault } from "../core/catalogue-fault.ts";
import type { Checksum, ChecksumAlgorithm, ChecksumType } from "../core/checksums.ts";
import type { CorsRule } from "../core/cors.ts";
import type { LifecycleRule } from "../core/lifecycle-rules.ts";

/** How long an upload without a pipeline's lease stays open after it was opened, renewed or last added to; milliseconds. */
export const UPLOAD_LEASE_MS = 60 * 60 * 1000;

/**
 * What the gateway and Pipeline objects ask of a Branch object. Failures are data: `reason` is a closed union. Every
 * method may be called on a name that was never created; reading leaves no trace there.
 */
export interface BranchApi {
  /**
   * Makes the branch; the catalogue knows it before this returns. `catalogue-unavailable`: it could not be told, and the
   * branch is there or not; ask again. `catalogue-outdated`, `other-family`: nothing was made.
   */
  create(request?: CreateBranch): Promise<Made | Refused<"already-exists" | CatalogueFault>>;
  /**
   * Makes the branch from a commit of another one, whose rows are copied and whose bytes are shared. Answers when the
   * catalogue knows of it; until the rows are there it is `forking` to everybody. Asked again with the same source it
   * answers the same. `parent-unavailable`: the parent could not be told; it is tried again by itself.
   */
  fork(request: ForkBranch): Promise<ForkAnswer>;
  /** The branch and what it was made from, also while its rows are on their way. */
  inspect(): Promise<BranchInspection | Refused<"no-such-branch">>;
  /** Writes down that a fork is made from a commit of this branch (absent: the newest): all that the commit has then stays. Idempotent. */
  addRoot(request: {
    /** Uid of the fork's generation. */
    fork: string;
    bucket: string;
    commit?: string;
  }): Promise<RootAdded | Refused<"no-such-parent" | "no-such-version" | "parent-forking" | "let-go">>;
  /** What the fork is to have, after a path, in slices that one transaction writes. Also if the branch was deleted since. */
  rootPage(request: { fork: string; after: string }): Promise<RootPage | Refused<"no-such-root">>;
  /** The fork names nothing of this branch any more. Idempotent. */
  dropRoot(request: { fork: string }): Promise<void>;
  /** Begins to read the branch with its history, as it is now, in pages. It ends by itself if nothing is read for EXPORT_LEASE_MS. */
  beginExport(): Promise<ExportBegun | Refused<"no-such-branch" | "forking">>;
  /** The next page of an export. `no-such-export`: it has ended, or the branch was deleted. */
  exportCommits(request: {
    export: string;
    after: number;
  }): Promise<
    | { readonly ok: true; readonly commits: ArchivedCommit[]; readonly next: number | null }
    | Refused<"no-such-export">
  >;
  exportTags(request: {
    export: string;
    after: string;
  }): Promise<
    | { readonly ok: true; readonly tags: ArchivedTag[]; readonly next: string | null }
    | Refused<"no-such-export">
  >;
  /** With the bytes of contents that are in rows. */
  exportFiles(request: { export: string; after: FilePlace }): Promise<
    | {
        readonly ok: true;
        readonly files: ArchivedFile[];
        readonly contents: ArchivedBytes[];
        readonly next: FilePlace | null;
      }
    | Refused<"no-such-export">
  >;
  endExport(request: { export: string }): Promise<void>;

  /**
   * Begins to make the branch of an archive, or goes on with that. Nobody sees it until finishImport. `followed`: pipelines
   * read the branch of this name. `done`: it was made of this archive, and is there.
   */
  beginImport(request: {
    archive: string;
    branch: {
      readonly createdAt: number;
      readonly head: number;
      readonly floor: number;
      readonly settings: ImportSettings;
    };
  }): Promise<
    | {
        readonly ok: true;
        readonly import: string;
        /** By it contents are brought that do not come in pages. */
        readonly upload: string;
        readonly done: boolean;
        readonly progress: ImportProgress;
      }
    | ImportRefused
    | BadArchive
    | Refused<CatalogueFault>
  >;
  /** The next page of an import. One that does not come after what is there changes nothing: the answer says how far it is. */
  importCommits(request: {
    import: string;
    after: number;
    commits: readonly ArchivedCommit[];
  }): Promise<PageImported | PageRefused>;
  importTags(request: {
    import: string;
    after: string;
    tags: readonly ArchivedTag[];
  }): Promise<PageImported | PageRefused>;
  importFiles(request: {
    import: string;
    after: FilePlace;
    files: readonly ImportedFile[];
    /** Small ones; the others were brought by the upload. */
    contents: readonly ArchivedBytes[];
  }): Promise<
    | PageImported
    | PageRefused
    | { readonly ok: false; readonly reason: "no-such-content"; readonly path: string }
  >;
  /** All came: the branch is there. */
  finishImport(request: {
    import: string;
    counts: { readonly commits: number; readonly tags: number; readonly files: number };
    /** The access key that it is for: the branch tells by whom it was imported. Absent: a release before asks. */
    key?: string;
  }): Promise<
    | { readonly ok: true; readonly head: string | null }
    | ImportRefused
    | BadArchive
    | Refused<"no-such-import" | "catalogue-unavailable">
  >;
  /** Gives an import up that is not finished. */
  abortImport(request: { import: string }): Promise<void>;

  /**
   * Deletes the branch, empty or not: the history ends with a tombstone, and the next create begins a new generation.
   * `not-empty`: it is to go only when it is empty, and HEAD has a file. `forking`: whether it is empty is not known yet.
   */
  destroy(
    request?: DestroyBranch,
  ): Promise<
    | Done
    | Protected
    | Refused<
        "no-such-branch" | "forking" | "pipeline-output" | "not-empty" | "catalogue-unavailable" | "busy"
      >
  >;
  /**
   * Tells the catalogue again all that it is to know of the branch, of its settings and its tags, whatever it knows.
   * `deleted`: so it is told that there is none any more. `catalogue-unavailable`: it will be told later.
   */
  announce(): Promise<
    { readonly ok: true; readonly deleted: boolean } | Refused<"no-such-branch" | "catalogue-unavailable">
  >;
  status(request?: PublicRead): Promise<BranchStatus | Refused<"no-such-branch" | "forking" | "not-public">>;
  /** What a view is: first an open commit of that id is looked for, then a commit of the id or the tag. */
  view(
    request: { view: string } & PublicRead,
  ): Promise<ViewShown | Refused<"no-such-open-commit" | "no-such-version" | "forking" | "not-public">>;
  /** What the branch is set to. */
  settings(): Promise<BranchSettings | Refused<"no-such-branch" | "forking">>;
  /**
   * Sets what is asked. What shuts somebody out holds from now on. What lets somebody in is known to the catalogue before
   * this returns; `catalogue-unavailable`: it will be told later, ask again. `catalogue-outdated`, `other-family`: nothing was set.
   */
  configure(
    change: SettingsChange,
  ): Promise<
    | Done
    | Protected
    | Refused<"no-such-branch" | "forking" | "not-its-output" | "pipeline-output" | CatalogueFault>
  >;

  /** How its background jobs stand; null if the object was never made. */
  loops(): Promise<Loops | null>;

  /** What the branch takes up. `sizes`: only how large its database is. */
  usage(request: { sizes?: boolean }): Promise<BranchUsage | Refused<"no-such-branch" | "forking">>;

  /** One file at HEAD, or at a commit. */
  read(
    request: ReadFile,
  ): Promise<
    | FileRead
    | DeletionRead
    | Refused<
        | "no-such-branch"
        | "forking"
        | "no-such-version"
        | "no-such-file"
        | "no-such-open-commit"
        | "not-public"
      >
  >;
  /** One page of the tree, in byte order of the path. It may be short, and even empty, if much has to be passed over; `next` says whether that was all. */
  list(
    request: ListFiles,
  ): Promise<
    | FileList
    | Refused<"no-such-branch" | "forking" | "no-such-version" | "no-such-open-commit" | "not-public">
  >;
  /** One page of the history of the paths: every version and every deletion, by path, the newest first. It may be short like one of `list`. */
  listVersions(request: ListVersions): Promise<VersionList | Refused<"no-such-branch" | "forking">>;
  /** Where a content's bytes are, in any generation unless only the live one is asked for. */
  content(request: ReadContent): Promise<{ ok: true; body: Body } | Refused<"no-such-content">>;

  /** Opens an upload: the names of its blobs end in `.<upload>`. With the `lease` of a datum only on the output branch of a pipeline, where the lease has one upload; without it everywhere else. */
  openUpload(request: {
    lease?: string;
    /** What it brings goes into this open commit, which must be there. */
    openCommit?: string;
    /** Of the client that is to write; a lease has none. */
    key?: string;
  }): Promise<
    | UploadOpened
    | NotOpen
    | Protected
    | Refused<"no-such-branch" | "forking" | "pipeline-output" | "lost-lease" | "branch-full">
  >;
  /** Keeps a long upload open: to be called well within UPLOAD_LEASE_MS. */
  renewUpload(request: { upload: string }): Promise<UploadOpened | Refused<"no-such-upload">>;
  /** These leases ended without a result, and nothing can give them one any more: their uploads end, and what still comes for them is refused. */
  abortLeases(request: { leases: readonly string[] }): Promise<void>;
  /** Gives an upload up: what it alone kept is condemned, and deleted within a minute if no file ever had it. Does nothing if it is closed already. */
  abortUpload(request: {
    upload: string;
    /** Set if blobs may be left in the store that nothing names. */
    leaves?: boolean;
  }): Promise<void>;
  /**
   * Of what each of these uploads holds, keeps only the contents of these names, as `contentName` makes them; with none, the
   * upload ends. Does nothing to one that is closed. For the pipeline whose results named them.
   */
  trimUploads(request: {
    uploads: readonly { readonly upload: string; readonly keep: readonly string[] }[];
  }): Promise<void>;
  /**
   * Looks in the store for blobs of all generations that nothing names, and removes them or counts them. Answers at once;
   * `sweepStatus` tells how far that is, of what was asked for since then.
   */
  sweep(request: { remove: boolean }): Promise<{ ok: true; since: number } | Refused<"no-such-branch">>;
  sweepStatus(request: { since: number }): Promise<({ ok: true } & SweepTotals) | Refused<"no-such-branch">>;
  /**
   * Somebody still reads these blobs: those that are to be deleted stay for another while. Says what else must be kept, and
   * where: `borrowed` of a manifest that lists blobs of others, which go by themselves; `parents` if some are lent.
   */
  keepBlobs(request: { blobs: readonly string[] }): Promise<BlobsKept>;
  /** Looks whether names, of all commits of all generations, have their content, some thousand rows at a time. */
  checkNames(request: { after: NamedRow | null }): Promise<NamesChecked | Refused<"no-such-branch">>;
  /** Where the bytes of contents are that anything keeps, in the order of their rows, as many as fit one answer. */
  checkContents(request: { after: number }): Promise<ContentsToCheck | Refused<"no-such-branch">>;
  /** Some of the names that a content of a generation has. */
  namesOf(request: ContentId & { gen: number; limit: number }): Promise<CheckedName[]>;
  /** The buckets of the forks that a content is pinned for, which this branch has erased. */
  pinnedFor(request: ContentId): Promise<string[]>;
  /** Registers contents whose bytes are up (or inline) and keeps them for the upload. `branch-full`: of a client's upload alone. */
  addContents(request: {
    upload: string;
    contents: readonly Content[];
  }): Promise<Done | Refused<"no-such-upload" | "branch-full">>;
  /** Uploads keep these contents no more, each as it is named here. */
  letGo(request: { contents: readonly (ContentId & { readonly upload: string })[] }): Promise<void>;
  /** Keeps, for the upload, those of the contents that the branch has; returns those that it lacks. */
  reserve(request: {
    upload: string;
    contents: readonly ContentId[];
  }): Promise<{ ok: true; missing: ContentId[] } | Refused<"no-such-upload">>;

  /** Where the bytes of contents are that the upload holds, in the order asked: as many as fit one answer, up to the first that it does not hold. */
  heldBodies(request: {
    upload: string;
    contents: readonly ContentId[];
  }): Promise<{ ok: true; bodies: Body[] } | Refused<"no-such-upload">>;

  /** Begins a multipart upload. Its id is an upload's id: parts are written under it, and abortUpload ends it too. */
  createMultipart(
    request: CreateMultipart,
  ): Promise<
    UploadOpened | NotOpen | Protected | Refused<"no-such-branch" | "forking" | "pipeline-output"> | BadPath
  >;
  /** What was said when a multipart upload began; also of one that was completed lately. */
  multipart(request: { upload: string }): Promise<MultipartStatus | Refused<"no-such-upload">>;
  /** Registers a part whose bytes are up and renews the upload. It replaces a part of the same number. `no-such-content`: what it keeps is not there. */
  addPart(request: AddPart): Promise<Done | Refused<"no-such-upload" | "no-such-content">>;
  /** Parts by number, greater than `after`. */
  listParts(request: {
    upload: string;
    after: number;
    limit: number;
  }): Promise<PartList | Refused<"no-such-upload">>;
  /** Where the bytes of parts are, of those asked for that are there, in the order asked: as many as fit one answer, at least one. */
  partBodies(request: {
    upload: string;
    numbers: readonly number[];
  }): Promise<{ ok: true; parts: PartBody[] } | Refused<"no-such-upload">>;
  /** Multipart uploads in progress, by path, then by id. */
  listMultiparts(request: ListMultiparts): Promise<MultipartList | Refused<"no-such-branch" | "forking">>;
  /** Writes down how far a long completion came, for the call that goes on with it; at most 1 MiB of text. Renews the upload. */
  saveProgress(request: { upload: string; progress: string }): Promise<Done | Refused<"no-such-upload">>;
  /**
   * Makes the object of a multipart upload as one commit and ends the upload; asked again, it gives the same answer.
   * `part-changed`: a part named is not there (any more) with that content.
   */
  completeMultipart(request: CompleteMultipart): Promise<Completed | CommitRefused | Refused<"part-changed">>;
  /** Ends a multipart upload and forgets its parts. */
  abortMultipart(request: { upload: string }): Promise<Done | Refused<"no-such-upload">>;

  /** Writes one file as one commit: the way of PutObject. Calls that wait together share a transaction. */
  put(request: PutFile): Promise<Committed | CommitRefused>;
  /** Many operations as one commit. Later operations on a path win. Nothing to change: `commit` is null and no commit is made. */
  commit(request: CommitRequest): Promise<Committed | CommitRefused>;

  /** Gives what is at a path other tags, as one commit in which its bytes stay as old as they are. `commit` is null if it has them. */
  setTags(request: SetTags): Promise<TagsSet | TagsRefused>;

  /**
   * Begins with one commit whose tree is that of an earlier commit; finishOpenCommit tells its end. All writes until it is
   * made wait.
   */
  revert(request: {
    commit: string;
    note?: CommitNote;
  }): Promise<OpenCommitStarted | CommitRefused | Refused<"no-such-version">>;

  /** Starts an open commit: writes that name it fill it, and finishOpenCommit makes it a commit. */
  startOpenCommit(request: {
    ttlMs: number;
    /** For the commit that it becomes, as far as the finish says nothing else. */
    note?: CommitNote;
  }): Promise<OpenCommitStarted | Protected | Refused<"no-such-branch" | "forking" | "pipeline-output">>;
  /** How an open commit stands; also one that was finished lately. */
  openCommitStatus(request: {
    openCommit: string;
  }): Promise<OpenCommitStatus | Refused<"no-such-open-commit">>;
  /** The open commits that are not finished, in the order in which they began. `next` goes into `after`. */
  openCommits(request: {
    after?: number;
    limit: number;
  }): Promise<OpenCommitList | Refused<"no-such-branch" | "forking">>;
  /** What an open commit would change if it were finished now. A page may be short; `next` says whether that was all. */
  openCommitChanges(request: {
    openCommit: string;
    after: string;
    limit: number;
  }): Promise<CommitDiff | Refused<"no-such-open-commit">>;
  /**
   * Makes one commit of what an open commit holds; may be asked again. `applying`: it is large and goes on by itself, ask
   * again. `commit` null: nothing would change, none was made. If it is refused, the open commit is open as before.
   * `conditions-changed`: somebody wrote where a condition had been judged.
   */
  finishOpenCommit(request: {
    openCommit: string;
    note?: CommitNote;
  }): Promise<OpenCommitEnd | CommitRefused | ConditionsChanged>;
  /** Forgets an open commit and what it alone kept; does nothing if it is gone. `applying`: too late. */
  abortOpenCommit(request: { openCommit: string }): Promise<Done | Refused<"applying">>;

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
  /** What a fork, by the uid of its generation, still has of its parent's; asked of the fork. `forking`: that is not known yet. */
  copies(request: {
    fork: string;
    paths: readonly string[];
    contents: readonly ContentId[];
    /** The highest number of a give-back of the fork that the parent knows of. */
    given?: number;
  }): Promise<Copies | Refused<"forking">>;
  /**
   * A fork of this branch names these contents of it no more, and never will; called by the fork, perhaps twice or late. A
   * branch that does not know the fork says yes as well. `number`: the highest of these; absent: an earlier release calls.
   */
  giveBack(request: { fork: string; contents: readonly ContentId[]; number?: number }): Promise<Done>;
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
  erasures(request: { uid: string; after: number }): Promise<{ erasures: readonly Erasure[]; upTo: number }>;

  /** From now on this pipeline's doorbell is rung after each commit. Makes the object's tables if need be, but not the branch. Idempotent. */
  subscribe(request: Subscription): Promise<{ ok: true; cursor: Cursor; exists: boolean }>;
  /** `stopped`: the pipeline may be started again; the commits that its inputs start after stay. */
  unsubscribe(request: { uid: string; stopped?: true }): Promise<void>;
  /** What a subscriber still needs of the history, all of it since a position: what nobody needs may be given back. */
  need(request: SubscriberNeed): Promise<void>;
  /** What happened after a cursor, oldest first, about `limit` changes. */
  feed(request: { cursor: Cursor; limit: number }): Promise<FeedPage>;
  /** The rest of a commit whose changes did not fit its feed page: those with a path greater than `after`. */
  changes(
    request: CommitPosition & { after: string; limit: number },
  ): Promise<{ changes: Change[]; next: string | null }>;
  /** The files at a position whose path starts with `prefix`, after `after`; with `since`, only those that were written after that position. Pages may be short; `next` says whether that was all. */
  filesAt(
    request: CommitPosition & { prefix: string; after: string; limit: number; since?: CommitPosition },
  ): Promise<{ files: FileEntry[]; next: string | null }>;
  /** One digest over everything under a directory ("" is the root, else without trailing slash) at a position; null if nothing is there. */
  fingerprint(request: CommitPosition & { path: string; since?: CommitPosition }): Promise<ContentId | null>;
  /**
   * What became of paths between two positions, of any generations: of each, and of what is below it. At most
   * MAX_COMPARED paths. Null: the branch knows no such positions.
   */
  compare(request: ComparePaths): Promise<{ paths: readonly ComparedPath[] } | null>;
  /** Commits of the branch, the newest first, those before `after`. */
  commits(request: {
    after?: string;
    limit: number;
  }): Promise<CommitLog | Refused<"no-such-branch" | "forking" | "no-such-version">>;
  /** One of those. */
  commitEntry(request: {
    commit: string;
  }): Promise<({ ok: true } & CommitEntry) | Refused<"no-such-branch" | "forking" | "no-such-version">>;
  /**
   * Takes the message and the metadata out of a commit, named by its id or a tag, for good; all else of it stays. `redacted`
   * is null if it never had any. Asked again, it changes nothing.
   */
  redactCommit(request: { commit: string; key: string }): Promise<
    | {
        readonly ok: true;
        readonly commit: string;
        readonly redacted: Redaction | null;
        readonly change: "redacted" | "none";
      }
    | Protected
    | Refused<"no-such-branch" | "forking" | "no-such-version" | "busy">
  >;
  /** What differs between two of those, by path, after `after`. Pages may be short; `next` says whether that was all. */
  diff(request: DiffCommits): Promise<CommitDiff | Refused<"no-such-branch" | "forking" | "no-such-version">>;
  /** A tag as the branch has it. */
  tag(request: { name: string }): Promise<Tag | Refused<"no-such-branch" | "forking" | "no-such-tag">>;
  /**
   * Names a commit: that of the id or tag `commit`, or the newest one. A tag that names another commit is moved only with
   * `force`. `catalogue-unavailable`: the tag is as it was asked to be, but lists do not show it yet; ask again.
   */
  createTag(request: { name: string; commit?: string; force: boolean } & TagChanger): Promise<
    | TagSet
    | { readonly ok: false; readonly reason: "tag-exists"; readonly commit: string }
    | Refused<"tag-kept">
    /** `no-commit`: the branch has none yet. */
    | Refused<"no-such-branch" | "forking" | "no-such-version" | "no-commit" | "catalogue-unavailable">
  >;
  /** As with createTag, `catalogue-unavailable` says that the tag is gone; asked again, it may be found gone already. */
  deleteTag(
    request: { name: string } & TagChanger,
  ): Promise<
    Done | Refused<"no-such-branch" | "forking" | "no-such-tag" | "tag-kept" | "catalogue-unavailable">
  >;
  /** Which of these commits are kept, of any generation. What is not kept never is again. */
  keptCommits(request: { commits: readonly string[] }): Promise<{ kept: string[] }>;
  /** Where a commit stands in the history, of any generation; null if none of that id is kept, unless a pipeline's input starts after it. */
  position(request: { commit: string }): Promise<CommitPosition | null>;

  /** Takes the branch as a pipeline's output, and makes it if need be. A higher epoch fences off every earlier holder. */
  claim(request: {
    pipeline: string;
    uid: string;
  }): Promise<
    { ok: true; epoch: number } | Refused<"already-claimed" | "already-exists" | "catalogue-unavailable">
  >;
  /** Gives the claim up; with `destroy` the branch goes too. */
  release(request: { uid: string; destroy: boolean }): Promise<void>;
  /**
   * The commit of a job: unique per `origin`, so asking twice returns the first one. It is made even if it changes
   * nothing. `applying`: it is large and goes on by itself, ask again.
   */
  commitOutput(request: OutputCommit): Promise<Committed | CommitRefused | Refused<"applying">>;
  /**
   * Stages some of the operations of a job's commit that has more than fit one call; commitOutput with `staged: true` then
   * makes it. The last one on a path wins; done again, it changes nothing. `applying`: the commit is being made already.
   */
  stageOutput(request: StageOutput): Promise<Done | CommitRefused | Refused<"applying">>;
}

/** How a look for blobs that nothing names stands, or ended. */
export interface SweepTotals {
  readonly done: boolean;
  /** Blobs that were there. */
  readonly seen: number;
  /** Those that nothing named, and their bytes. */
  readonly found: number;
  readonly foundBytes: number;
}

export interface BlobsKept {
  readonly ok: true;
  readonly borrowed: boolean;
  /** Buckets of the branches that own some of the blobs, or know who does. */
  readonly parents: readonly string[];
}

/** A row of files, as it is sorted. */
export interface NamedRow {
  readonly gen: number;
  readonly path: string;
  readonly born: number;
}

/** A name, and the commit that wrote it; null if that one is not kept. */
export interface CheckedName {
  readonly path: string;
  readonly commit: string | null;
}

interface NamesChecked {
  readonly ok: true;
  readonly checked: number;
  /** Those whose content is not there. */
  readonly lacking: readonly CheckedName[];
  /** Null: these were the last ones. */
  readonly next: NamedRow | null;
}

export interface ContentToCheck extends ContentId {
  readonly row: number;
  readonly gen: number;
  readonly body: Body;
}

interface ContentsToCheck {
  readonly ok: true;
  readonly contents: readonly ContentToCheck[];
  /** The last row that there is. */
  readonly last: number;
  readonly more: boolean;
}

/** What a call is asked. */
export type RequestOf<M extends keyof BranchApi> = Parameters<BranchApi[M]>[0];
/** What a call answers. */
export type AnswerOf<M extends keyof BranchApi> = Awaited<ReturnType<BranchApi[M]>>;

export interface Done {
  readonly ok: true;
}
export interface Refused<R extends string> {
  readonly ok: false;
  readonly reason: R;
}
export interface Made {
  readonly ok: true;
  readonly uid: string;
  readonly createdAt: number;
}

/** What the branch is set to from the beginning; what is absent, to nothing. */
export type CreateBranch = Partial<Pick<BranchSettings, "public" | "keep" | "modified" | "emptyOnly">>;

export interface DestroyBranch {
  /** Of the client; a protected branch is deleted by whom it is protected for alone. */
  readonly key?: string;
  /**
   * True: also a branch that is set to `emptyOnly`, with what it has. False: no branch that has a file, whatever it is set
   * to. Absent: as the branch is set.
   */
  readonly withFiles?: boolean;
}

/** A read for somebody who has no key. */
export interface PublicRead {
  /**
   * Only if the branch is public, which it looks at in the same call: `not-public` otherwise, also if it is not there.
   * Open commits are not public, and are not found.
   */
  readonly publicOnly?: boolean;
}

/** What a branch is set to; its deletion ends that. */
interface BranchSettings {
  readonly ok: true;
  readonly public: boolean;
  /** In order; null if there are none. */
  readonly cors: readonly CorsRule[] | null;
  /** Null: it is not protected. */
  readonly writer: Writer | null;
  /** Null: there are none. */
  readonly lifecycle: Lifecycle | null;
  /** Null: all of its history stays. */
  readonly keep: Keep | null;
  /** Whose time Last-Modified is; null: as each read asks. */
  readonly modified: ModifiedOf | null;
  /** While HEAD has a file, only a deletion takes it that says so (`withFiles`). */
  readonly emptyOnly: boolean;
}
/**
 * How much of the history stays at least: the newest commits, and those that were replaced less than so many days ago. One
 * of them at least, each at least 1; a commit stays while either says so.
 */
export interface Keep {
  readonly commits?: number;
  readonly days?: number;
}
/** Lifecycle rules, and the key that put them: what expires by them is deleted as by that key. */
export interface Lifecycle {
  readonly rules: readonly LifecycleRule[];
  readonly key?: string;
}
/** Who alone may write to a protected branch: one access key, or the jobs of the pipeline whose output it is or was. */
export type Writer = { readonly key: string } | { readonly pipeline: string };
/**
 * What is absent stays as it is. `not-its-output`: the pipeline that alone is to write has no claim on the branch.
 * `pipeline-output`: a key is to write, or files are to expire, where a pipeline's jobs write. `protected`: files are to
 * expire, as deleted by a key that may not write.
 */
export type SettingsChange = Partial<Omit<BranchSettings, "ok">>;

/** Rows of files or blobs, and the bytes that they stand for: the same bytes in two rows count twice. */
export interface Amount {
  readonly count: number;
  readonly bytes: number;
}
export interface BranchUsage {
  readonly ok: true;
  /** The branch is deleted, and something of it is still there. */
  readonly deleted?: true;
  readonly database: { readonly usedBytes: number; readonly limitBytes: number };
  /** Null: it was not asked for. */
  readonly contents: {
    /** What HEAD has. */
    readonly live: Amount;
    /** What only earlier commits have that are kept, also those from before the branch was deleted. */
    readonly history: Amount;
    /** What no kept commit has: it is being given back. */
    readonly reclaimable: Amount;
    /** Blobs that are to be deleted. */
    readonly condemned: Amount;
    /** Who keeps most of the history; null: there is none. */
    readonly holder: Holder | null;
    /**
     * Contents of erased files that stay since a fork still has them, by its bucket. Absent: an earlier release answers.
     */
    readonly pins?: readonly (Amount & { readonly bucket: string })[];
  } | null;
}
/** `count`: how many rows go if it lets go. */
export type Holder =
  | { readonly kind: "keep"; readonly keep: Keep | null; readonly count: number }
  | {
      readonly kind: "pipeline";
      readonly pipeline: string;
      /** Its oldest job that has not ended, if it is that. */
      readonly job: string | null;
      /** The time of the oldest commit that it needs. */
      readonly since: number | null;
      readonly count: number;
    }
  /** One that is under way; `since` it began. */
  | { readonly kind: "export"; readonly since: number; readonly count: number }
  | {
      readonly kind: "commit";
      readonly commit: string;
      /** It is from before the branch was deleted. */
      readonly deleted?: true;
      readonly since: number | null;
      /** What of the branch itself names it, in words. */
      readonly names: readonly string[];
      /**
       * Buckets of branches that were made from it, and pipelines whose inputs start after it, of which not everybody may
       * know. Absent: of a release that has them among the names. The name of a pipeline is empty if a release stopped it that
       * did not write it down. At most five of all.
       */
      readonly forks?: readonly string[];
      readonly pipelines?: readonly string[];
      readonly count: number;
    };

/** Somebody else alone may write to the branch. */
export interface Protected {
  readonly ok: false;
  readonly reason: "protected";
  readonly writer: Writer;
}

interface BranchStatus {
  readonly ok: true;
  readonly uid: string;
  readonly createdAt: number;
  /** Time of the newest commit; of the creation if there is none. Milliseconds since 1970. */
  readonly modifiedAt: number;
  /** The newest commit; null if there is none. */
  readonly head: string | null;
  /** The pipeline whose output this is. */
  readonly claimedBy: string | null;
}

/** A view that is there. */
export interface ViewShown {
  readonly ok: true;
  readonly shows: "open-commit" | "commit";
  /** Of the commit; of an open commit, the time of the branch's newest commit. */
  readonly modifiedAt: number;
}
/** A write names what is no open commit: nothing of that name is there, or a commit, which never changes. */
export type NotOpen = Refused<"no-such-open-commit" | "read-only">;
/** What an export begins with. */
interface ExportBegun {
  readonly ok: true;
  readonly export: string;
  readonly branch: {
    readonly createdAt: number;
    /** Number of the newest commit; 0 if there is none. */
    readonly head: number;
    /** Commits before this one are kept only if something names them. */
    readonly floor: number;
    /** Null: it did not come out of an archive. */
    readonly imported: Imported | null;
    readonly settings: Omit<BranchSettings, "ok">;
  };
  /** Rows of files that were ever written. */
  readonly rows: number;
}
/** How a branch came out of an archive. */
export interface Imported {
  /** Milliseconds since 1970. */
  readonly at: number;
  /** The access key that had it do so; null: a release before did not write that down. */
  readonly by: string | null;
  /** Commits up to this number came so. */
  readonly head: number;
}
/** What a branch is set to when it comes out of an archive: nothing that deletes by itself. */
export type ImportSettings = Pick<BranchSettings, "public" | "cors" | "writer" | "modified" | "emptyOnly">;
/** The bytes of a small content. */
export interface ArchivedBytes extends ContentId {
  readonly bytes: Uint8Array;
}
/** A row of files out of an archive. */
export interface ImportedFile extends ContentId {
  readonly path: string;
  readonly born: number;
  readonly died: number | null;
  readonly attributes: StoredAttributes;
  readonly more: MoreOfFile | null;
}
type ImportRefused =
  | Refused<"already-exists">
  | { readonly ok: false; readonly reason: "followed"; readonly pipelines: readonly string[] };
/** What came does not fit together; `path` is which part of it. */
interface BadArchive {
  readonly ok: false;
  readonly reason: "bad-archive";
  readonly path: string;
  readonly message: string;
}
interface PageImported {
  readonly ok: true;
  readonly progress: ImportProgress;
}
type PageRefused = Refused<"no-such-import" | "already-exists" | "branch-full"> | BadArchive;

/** What a branch is to be made from. */
export interface ForkBranch {
  /** Bucket of the parent. */
  readonly parent: string;
  /** Absent: its newest one. */
  readonly commit?: string;
  /** Of the commit that it begins with. */
  readonly note?: CommitNote;
}
/** What a branch was made from, and how far that is. */
export interface ShownFork {
  /** That of the branch's generation. */
  readonly uid: string;
  readonly parent: string;
  /** Null: the parent had none. */
  readonly commit: string | null;
  readonly createdAt: number;
  /** Whether all rows are there. */
  readonly ready: boolean;
  /** Files and empty directories: how many are there, of how many. */
  readonly copied: number;
  readonly total: number;
}
type ForkAnswer =
  | ({ readonly ok: true } & ShownFork)
  | Refused<
      | "already-exists"
      | "no-such-parent"
      /** The parent has no such commit. */
      | "no-such-version"
      /** The parent is itself still on its way. */
      | "parent-forking"
      | "parent-unavailable"
      | CatalogueFault
    >;
export interface BranchInspection {
  readonly ok: true;
  /** Null: all of its history stays. */
  readonly keep: Keep | null;
  readonly uid: string;
  readonly createdAt: number;
  /** The newest commit; null if there is none. */
  readonly head: string | null;
  readonly fork: ShownFork | null;
  /** When it came out of an archive, and the access key that had it do so, if that is known; null: it did not. */
  readonly imported: { readonly at: number; readonly by: string | null } | null;
}
interface RootAdded {
  readonly ok: true;
  /** Null: there is none yet. */
  readonly commit: string | null;
  /** Files and empty directories that it has. */
  readonly total: number;
}
interface RootPage {
  readonly ok: true;
  readonly slices: readonly RootSlice[];
  /** What the next page comes after; null if there is none. */
  readonly next: string | null;
}
/** Files of a commit, in order of their paths, and where their bytes are. */
export interface RootSlice {
  /** It has what comes after this path, up to and with that one. */
  readonly after: string;
  readonly last: string;
  readonly files: readonly LentFile[];
  readonly contents: readonly LentContent[];
}
/** As a row of `files` has it; the attributes as text. */
export type LentFile = readonly [path: string, digest: string, size: number, attributes: string | null];
/** As a row of `contents` has it; the bytes of one that is inline as hex digits. */
export interface LentContent extends ContentId {
  readonly kind: number;
  readonly body: string;
  readonly life: Life;
}

export interface ReadFile extends PublicRead {
  /**
   * A view, not with `commit`: HEAD as it would be if the open commit of this id were finished now; else the commit of
   * this id, or the tag. The name is from when open commits were the only views: an object of a release that knows no
   * others refuses them, and would read HEAD if they came under another name.
   */
  readonly openCommit?: string;
  readonly path: string;
  /** A commit id. Absent: HEAD. */
  readonly commit?: string;
  /** Whose time `modifiedAt` is, if the branch is not set to one. Absent: the branch's. */
  readonly modified?: ModifiedOf;
}
export interface ReadContent extends ContentId {
  /** What a deleted branch held is not found. */
  readonly liveOnly?: boolean;
}
/** The branch's newest commit (or the asked one), or the commit that wrote the file. */
export type ModifiedOf = "branch" | "file";
export interface FileRead {
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

export interface CreateMultipart {
  /** For the commit of the completion, as far as that says nothing else. */
  readonly note?: CommitNote;
  /** The object goes into this open commit when it is completed. */
  readonly openCommit?: string;
  readonly path: string;
  readonly attributes: Attributes;
  /** What the object's checksum is to be, if the client said. */
  readonly checksum?: { readonly algorithm: ChecksumAlgorithm; readonly type: ChecksumType };
  /** An upload to which nothing is added for so long is given up, in milliseconds. */
  readonly ttlMs: number;
}
export interface MultipartStatus {
  readonly ok: true;
  /** The open commit that the object goes into; absent if it goes into none, and once it is completed. */
  readonly openCommit?: string;
  readonly path: string;
  readonly uid: string;
  readonly attributes: Attributes;
  readonly checksum: { readonly algorithm: ChecksumAlgorithm; readonly type: ChecksumType } | null;
  readonly initiatedAt: number;
  /** As the last saveProgress wrote it. */
  readonly progress: string | null;
  /** Set if it was completed already. */
  readonly completed: Completed | null;
}
export interface AddPart {
  readonly upload: string;
  /** 1 to 10,000. */
  readonly number: number;
  readonly content: Content;
  /** Base64, of the upload's algorithm. */
  readonly checksum?: string;
}
export interface Part extends ContentId {
  readonly number: number;
  readonly checksum: string | null;
  readonly modifiedAt: number;
}
export interface PartList {
  readonly ok: true;
  readonly path: string;
  readonly initiatedAt: number;
  readonly checksum: MultipartStatus["checksum"];
  readonly parts: readonly Part[];
  readonly truncated: boolean;
}
export interface PartBody extends ContentId {
  readonly number: number;
  readonly body: Body;
  readonly life: Life;
}
export interface ListMultiparts {
  /** Only uploads whose objects go into this open commit. Absent: only those that go into none. */
  readonly openCommit?: string;
  readonly prefix: string;
  /** Only uploads after this path, or with `upload` after this upload of the path. */
  readonly after?: { readonly path: string; readonly upload?: string };
  /** At most 1,000. */
  readonly limit: number;
}
export interface MultipartList {
  readonly ok: true;
  readonly uploads: readonly {
    readonly upload: string;
    readonly path: string;
    readonly initiatedAt: number;
    readonly checksum: MultipartStatus["checksum"];
  }[];
  readonly truncated: boolean;
}
export interface CompleteMultipart {
  readonly upload: string;
  /** In order: each must still be there with this content. */
  readonly parts: readonly (ContentId & { readonly number: number })[];
  /** All parts together; it `keeps` them. */
  readonly content: Content;
  /** Those of the upload are kept too. */
  readonly attributes: Pick<StoredAttributes, "checksum" | "parts">;
  readonly condition?: WriteCondition;
  readonly note?: CommitNote;
}
export interface Completed extends ContentId {
  readonly ok: true;
  readonly path: string;
  /** Null if the same object was there already and no commit was made. */
  readonly commit: string | null;
  readonly checksum: Checksum | null;
}

/** What must hold of the present state of a path for a write to be done (S3 User Guide, "Conditional writes"). */
export interface WriteCondition {
  /** One of these must be there; "any": something must. Refused with `no-such-file` if nothing is there, else with `condition-failed`. */
  readonly match?: readonly ContentId[] | "any";
  /** None of these may be there; "any": nothing may. */
  readonly noneMatch?: readonly ContentId[] | "any";
}

export interface UploadOpened {
  readonly ok: true;
  /** `<branch>.<repo>.<ulid>` */
  readonly upload: string;
  /** Uid of the branch's generation; part of blob names. */
  readonly uid: string;
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
  readonly note?: CommitNote;
}

export interface SetTags {
  /** Into this open commit instead of a commit of its own, if the branch still has at its finish what it has at the path now. */
  readonly openCommit?: string;
  readonly path: string;
  readonly tags: readonly ObjectTag[];
  /** A commit that must have what is there at HEAD. */
  readonly version?: string;
  /** As in PutFile. */
  readonly note?: CommitNote;
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
  readonly note?: CommitNote;
}

/**
 * Who makes a commit, and what they say of it: kept with the commit, in the transaction that makes it. If nothing
 * changes, there is no commit, and the note goes with it. Of an output commit the job tells; it has no note.
 */
export interface CommitNote {
  /** The id of the access key. */
  readonly key?: string;
  readonly message?: string;
  /** At least one entry. */
  readonly meta?: Readonly<Record<string, string>>;
  /** The message and the metadata were taken out of it. */
  readonly redacted?: Redaction;
}

/** Who took out what was said of a commit. */
export interface Redaction {
  /** Milliseconds since 1970. */
  readonly at: number;
  /** The id of the access key. */
  readonly by: string;
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

/**
 * HEAD has something else at these paths than when conditions of the open commit were judged there. Nothing was
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

export interface BadPath {
  readonly ok: false;
  readonly reason: "bad-path";
  readonly path: string;
  readonly fault: PathFault;
}

export interface OutputCommit {
  readonly uid: string;
  readonly epoch: number;
  /** The job's id. */
  readonly origin: string;
  /** At most MAX_COMMIT_OPERATIONS. */
  readonly operations: readonly Operation[];
  /** What the commit descends from. Absent: nobody knows. */
  readonly lineage?: Lineage;
  /** The operations were staged before (stageOutput); none come along. */
  readonly staged?: true;
  /** Small contents of the operations that the branch may lack: they come along with their bytes. */
  readonly contents?: readonly Content[];
}

/**
 * What a commit descends from through commits that jobs made: by the uid of each pipeline, the newest of its versions.
 * Commits of clients descend from nothing.
 */
export type Lineage = Readonly<Record<string, number>>;

/** Operations to be staged for an OutputCommit. */
export interface StageOutput extends Omit<OutputCommit, "staged" | "lineage"> {
  /** Forgets first what was staged for this origin before. */
  readonly anew: boolean;
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
  /**
   * The forks that the caller has asked, which of the contents each still has, and the number of its answer: a fork that gave
   * back something since has to be asked again. Absent: an earlier release has asked or answered.
   */
  readonly forks?: readonly {
    readonly fork: string;
    readonly has: readonly ContentId[];
    readonly number?: number;
  }[];
  /** Deletions of paths in the same step, after it: a commit of their own. Those whose condition does not hold are left out. */
  readonly deletions?: readonly Operation[];
  /** Of the commits. */
  readonly note?: CommitNote;
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
interface Copies {
  readonly ok: true;
  /** Those of the paths that it still has as they were copied, by the names of their versions in the fork. */
  readonly versions: readonly VersionName[];
  /** Those of the contents whose bytes it has from its parent. */
  readonly has: readonly ContentId[];
  /** Of the newest that it gave back; absent: there is no such fork, or an earlier release answers. */
  readonly number?: number;
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
    readonly note?: CommitNote;
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

export interface CommitEntry {
  readonly id: string;
  /** Null: it is the first of its branch. */
  readonly parent: string | null;
  readonly createdAt: number;
  /** The job that made it. */
  readonly origin: string | null;
  /** Absent: a job made it, or a release that kept none. */
  readonly note?: CommitNote;
  /** It came out of an archive: what it says of itself is what that said. */
  readonly imported?: true;
  /** Files that it wrote, and files that it replaced or deleted. */
  readonly changes: { readonly written: number; readonly ended: number };
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
/** Most paths of one `compare`. */
export const MAX_COMPARED = 100;
export interface ComparePaths {
  readonly from: CommitPosition;
  readonly to: CommitPosition;
  /** Only what was written after this counts, as in `filesAt`. */
  readonly since?: CommitPosition;
  /** Without trailing slashes; "" is the root. */
  readonly paths: readonly string[];
}
export interface ComparedPath {
  readonly path: string;
  /** Whether anything was there, at the path or below it. */
  readonly was: boolean;
  /** The first files that have another content, are new or are gone: the path itself first, then those below it. */
  readonly changes: readonly PathDifference[];
  /** There are more, or may be: it was not looked at everything. */
  readonly more: boolean;
}

export interface CommitDiff {
  readonly ok: true;
  readonly changes: readonly PathDifference[];
  readonly next: string | null;
}

/** A commit that an input of a pipeline starts after, and where it stands. */
export interface InputStart extends CommitPosition {
  readonly commit: string;
}
export interface Subscription extends Subscriber {
  /** Of the inputs that read the branch. Absent: it is of a release that never tells what it needs, and needs everything. */
  readonly starts?: readonly InputStart[];
}
export interface SubscriberNeed extends CommitPosition {
  readonly uid: string;
  /** The oldest job that has not ended, if that is why; null if none runs. */
  readonly job: string | null;
  readonly starts: readonly InputStart[];
}
export interface Subscriber {
  readonly uid: string;
  readonly pipeline: string;
}

/** A position in a branch's history: its generation (0 before the first) and the commit in it (0 before the first). */
export interface Cursor {
  readonly generation: number;
  readonly seq: number;
}
export interface CommitPosition {
  readonly generation: number;
  readonly seq: number;
}

export interface Change {
  readonly path: string;
  /** What is there now; null: nothing any more. */
  readonly now: { readonly kind: "file" | "dir"; readonly digest: string; readonly size: number } | null;
}
export interface FeedEvent extends CommitPosition {
  /** The commit id; for a deletion an id of its own. */
  readonly id: string;
  readonly createdAt: number;
  /** `deletion`: the branch was deleted, and everything in it is gone. It counts as a commit, so that pipelines hear of it. */
  readonly kind: "commit" | "deletion";
  readonly changes: readonly Change[];
  /** The path to continue after with `changes`; null if all are here. */
  readonly next: string | null;
  /** Of the commit, if a job made it. */
  readonly lineage?: Lineage;
  /** Events before it, after the position that was asked for, are lost: what they changed is not told. */
  readonly gap?: true;
}
export interface FeedPage {
  readonly events: readonly FeedEvent[];
  /** The object's clock when it answered. Every later commit has a later time. */
  readonly now: number;
  /** More events wait. */
  readonly more: boolean;
  /** The number of the last erasure; absent if there never was one. */
  readonly erased?: number;
}

/** What a branch calls of a pipeline, which answers it as its own `wakeUps`. */
export interface WakeUpCalls {
  /** An input may have news. Idempotent; returns at once. `uid` is that of the pipeline that subscribed; a stale one is ignored. */
  ring(request: { uid: string; output?: true }): Promise<void>;
  /**
   * The output branch keeps fewer of its commits than it did: what only those needed may go. Idempotent; returns at once.
   * `uid` is that of the pipeline that holds the branch; a stale one is ignored.
   */
  outputKept(request: { uid: string }): Promise<void>;
}

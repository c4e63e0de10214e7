import type { ContentId } from "../../../protocol/content.ts";
import type { FileEntry } from "../../../protocol/files.ts";
import type { Content } from "../../blobs/content.ts";
import type { Done, Refused } from "./answers.ts";
import type { CommitRefused, Committed, Operation } from "./files.ts";
import type { PathDifference } from "./history.ts";
import type { Placed } from "./lifecycle.ts";

/** The history for pipelines, which follow it and read the tree at positions in it. */
export interface FeedCalls {
  /** From now on each commit wakes this pipeline. Makes the object's tables if need be, but not the branch. Idempotent. */
  subscribe(request: Subscription): Promise<{ ok: true; cursor: Cursor; exists: boolean }>;
  /** `stopped`: the pipeline may be started again; the commits that its inputs start after stay. */
  unsubscribe(request: { uid: string; stopped?: true }): Promise<void>;
  /** The low-water mark of a subscriber: it still needs the history since that position. What nobody needs may be given back. */
  setMark(request: SubscriberMark): Promise<void>;
  /** What happened after a cursor, oldest first, about `limit` changes. */
  read(request: { cursor: Cursor; limit: number }): Promise<FeedPage>;
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
  /** Which of these commits are kept, of any generation. What is not kept never is again. */
  kept(request: { commits: readonly string[] }): Promise<{ kept: string[] }>;
  /** Where a commit stands in the history, of any generation; null if none of that id is kept, unless a pipeline's input starts after it. */
  position(request: { commit: string }): Promise<CommitPosition | null>;
}

/** What the pipeline does whose output a branch is. */
export interface OutputCalls {
  /** Takes the branch as a pipeline's output, and makes it if need be. A higher epoch fences off every earlier holder. */
  claim(
    request: { pipeline: string; uid: string } & Placed,
  ): Promise<
    { ok: true; epoch: number } | Refused<"already-claimed" | "already-exists" | "catalogue-unavailable">
  >;
  /** Gives the claim up; with `destroy` the branch goes too. */
  release(request: { uid: string; destroy: boolean }): Promise<void>;
  /**
   * The commit of a job: unique per `origin`, so asking twice returns the first one. It is made even if it changes
   * nothing. `applying`: it is large and goes on by itself, ask again.
   */
  commit(request: OutputCommit): Promise<Committed | CommitRefused | Refused<"applying">>;
  /**
   * Stages some of the operations of a job's commit that has more than fit one call; commitOutput with `staged: true` then
   * makes it. The last one on a path wins; done again, it changes nothing. `applying`: the commit is being made already.
   */
  stage(request: StageOutput): Promise<Done | CommitRefused | Refused<"applying">>;
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

/** Most paths of one `compare`. */
export const MAX_COMPARED = 100;

interface ComparePaths {
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

/** A commit that an input of a pipeline starts after, and where it stands. */
export interface InputStart extends CommitPosition {
  readonly commit: string;
}

interface Subscription extends Subscriber {
  /** Of the inputs that read the branch. Absent: it has not told what it needs yet, and needs everything. */
  readonly starts?: readonly InputStart[];
}

/** The oldest position whose history a subscriber may still read. */
export interface SubscriberMark extends CommitPosition {
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
  /** Which of these uploads to the output branch a result or a merge names. None if a pipeline of another `uid` is there, or none. */
  named(request: { uid: string; uploads: readonly string[] }): Promise<{ named: string[] }>;
}

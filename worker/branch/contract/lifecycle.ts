import type { CatalogueFault } from "../../core/catalogue-fault.ts";
import type { Place } from "../../core/places.ts";
import type { Annotation, Done, Protected, PublicRead, Refused } from "./answers.ts";
import type { BranchSettings, Keep } from "./settings.ts";

/** Makes a branch and ends it, and says whether it is there. */
export interface LifecycleCalls {
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
  status(request?: PublicRead): Promise<BranchStatus | Refused<"no-such-branch" | "forking" | "not-public">>;
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
}

export interface Made {
  readonly ok: true;
  readonly uid: string;
  readonly createdAt: number;
}

/** What the branch is set to from the beginning; what is absent, to nothing. */
export type CreateBranch = Partial<Pick<BranchSettings, "public" | "keep" | "modified" | "emptyOnly">> &
  Placed;

/** Of a call that may make the object. */
export interface Placed {
  /** Where it is called to be made. It is written down by the first such call alone, since an object never moves. */
  readonly place?: Place | null;
}

export interface DestroyBranch {
  /** Of the client; a protected branch is deleted by whom it is protected for alone. */
  readonly key?: string;
  /**
   * True: also a branch that is set to `emptyOnly`, with what it has. False: no branch that has a file, whatever it is set
   * to. Absent: as the branch is set.
   */
  readonly withFiles?: boolean;
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

/** What a branch is to be made from. */
export interface ForkBranch extends Placed {
  /** Bucket of the parent. */
  readonly parent: string;
  /** Absent: its newest one. */
  readonly commit?: string;
  /** Of the commit that it begins with. */
  readonly annotation?: Annotation;
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
  /** Where it was made to live; null: no region was named. Absent: of an object of the release before. */
  readonly place?: Place | null;
  /** The pipeline whose output this is. Absent: as above, or it can't be read yet. */
  readonly claimedBy?: string | null;
}

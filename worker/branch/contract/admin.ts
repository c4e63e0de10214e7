import type { Loops } from "../../../protocol/admin.ts";
import type { ContentId } from "../../../protocol/content.ts";
import type { Body } from "../../blobs/content.ts";
import type { Refused, Writer } from "./answers.ts";
import type { Keep } from "./settings.ts";

/** What administrators and the gateway's checks ask of a branch. */
export interface AdminCalls {
  /** How its background jobs stand; null if the object was never made. */
  loops(): Promise<Loops | null>;
  /**
   * Tells the catalogue again all that it is to know of the branch, of its settings and its tags, whatever it knows.
   * `deleted`: so it is told that there is none any more. `catalogue-unavailable`: it will be told later.
   */
  announce(): Promise<
    { readonly ok: true; readonly deleted: boolean } | Refused<"no-such-branch" | "catalogue-unavailable">
  >;
  /** What HEAD has, and whose the branch is. */
  sums(): Promise<HeadSums | Refused<"no-such-branch" | "forking">>;
  /** What the branch takes up. `sizes`: only how large its database is. */
  usage(request: { sizes?: boolean }): Promise<BranchUsage | Refused<"no-such-branch" | "forking">>;
  /**
   * Looks in the store for blobs of all generations that nothing names, and removes them or counts them. Answers at once;
   * `sweepStatus` tells how far that is, of what was asked for since then.
   */
  sweep(request: { remove: boolean }): Promise<{ ok: true; since: number } | Refused<"no-such-branch">>;
  sweepStatus(request: { since: number }): Promise<({ ok: true } & SweepTotals) | Refused<"no-such-branch">>;
  /** Looks whether names, of all commits of all generations, have their content, some thousand rows at a time. */
  checkNames(request: { after: NamedRow | null }): Promise<NamesChecked | Refused<"no-such-branch">>;
  /** Where the bytes of contents are that anything keeps, in the order of their rows, as many as fit one answer. */
  checkContents(request: { after: number }): Promise<ContentsToCheck | Refused<"no-such-branch">>;
  /** Some of the names that a content of a generation has. */
  namesOf(request: ContentId & { gen: number; limit: number }): Promise<CheckedName[]>;
  /** The buckets of the forks that a content is held for, which this branch has erased. */
  forksHolding(request: ContentId): Promise<string[]>;
}

export interface HeadSums {
  readonly ok: true;
  readonly files: number;
  /** Null: there are more than MAX_SUMMED_FILES. */
  readonly bytes: number | null;
  /** Of the newest commit; null: there is none. */
  readonly changedAt: number | null;
  readonly claimedBy: string | null;
  readonly public: boolean;
  readonly writer: Writer | null;
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

export interface NamesChecked {
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

export interface ContentsToCheck {
  readonly ok: true;
  readonly contents: readonly ContentToCheck[];
  /** The last row that there is. */
  readonly last: number;
  readonly more: boolean;
}

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
    /** Contents of erased files that stay since a fork still has them, by its bucket. */
    readonly forkHolds: readonly (Amount & { readonly bucket: string })[];
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
       * know. At most five of all, with the names.
       */
      readonly forks: readonly string[];
      readonly pipelines: readonly string[];
      readonly count: number;
    };

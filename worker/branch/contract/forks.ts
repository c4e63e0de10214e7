import type { ContentId } from "../../../protocol/content.ts";
import type { Life } from "../../blobs/content.ts";
import type { Done, Refused } from "./answers.ts";
import type { VersionName } from "./erasures.ts";

/** What a branch and the branches that are made from it tell each other. */
export interface ForkCalls {
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
   * branch that does not know the fork says yes as well. `number`: the highest of these.
   */
  giveBack(request: { fork: string; contents: readonly ContentId[]; number: number }): Promise<Done>;
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
  readonly files: readonly FileOnLoan[];
  readonly contents: readonly ContentOnLoan[];
}

/** As a row of `files` has it; the attributes as text. */
export type FileOnLoan = readonly [path: string, digest: string, size: number, attributes: string | null];

/** As a row of `contents` has it; the bytes of one that is inline as hex digits. */
export interface ContentOnLoan extends ContentId {
  readonly kind: number;
  readonly body: string;
  readonly life: Life;
}

interface Copies {
  readonly ok: true;
  /** Those of the paths that it still has as they were copied, by the names of their versions in the fork. */
  readonly versions: readonly VersionName[];
  /** Those of the contents whose bytes it has from its parent. */
  readonly has: readonly ContentId[];
  /** Of the newest that it gave back; absent: there is no such fork. */
  readonly number?: number;
}

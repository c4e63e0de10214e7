import type {
  ArchivedCommit,
  ArchivedFile,
  ArchivedTag,
  FilePlace,
  ImportProgress,
  MoreOfFile,
} from "../../../protocol/archives.ts";
import type { ContentId } from "../../../protocol/content.ts";
import type { CatalogueFault } from "../../core/catalogue-fault.ts";
import type { Refused } from "./answers.ts";
import type { StoredAttributes } from "./files.ts";
import type { BranchSettings } from "./settings.ts";

/** Reads a branch with its history, in pages. */
export interface ExportCalls {
  /** Begins to read the branch with its history, as it is now, in pages. It ends by itself if nothing is read for EXPORT_LEASE_MS. */
  begin(): Promise<ExportBegun | Refused<"no-such-branch" | "forking">>;
  /** The next page of an export. `no-such-export`: it has ended, or the branch was deleted. */
  commits(request: {
    export: string;
    after: number;
  }): Promise<
    | { readonly ok: true; readonly commits: ArchivedCommit[]; readonly next: number | null }
    | Refused<"no-such-export">
  >;
  tags(request: {
    export: string;
    after: string;
  }): Promise<
    | { readonly ok: true; readonly tags: ArchivedTag[]; readonly next: string | null }
    | Refused<"no-such-export">
  >;
  /** With the bytes of contents that are in rows. */
  files(request: { export: string; after: FilePlace }): Promise<
    | {
        readonly ok: true;
        readonly files: ArchivedFile[];
        readonly contents: ArchivedBytes[];
        readonly next: FilePlace | null;
      }
    | Refused<"no-such-export">
  >;
  end(request: { export: string }): Promise<void>;
}

/** Makes a branch of the pages of an archive. */
export interface ImportCalls {
  /**
   * Begins to make the branch of an archive, or goes on with that. Nobody sees it until finishImport. `followed`: pipelines
   * read the branch of this name. `done`: it was made of this archive, and is there.
   */
  begin(request: {
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
  commits(request: {
    import: string;
    after: number;
    commits: readonly ArchivedCommit[];
  }): Promise<PageImported | PageRefused>;
  tags(request: {
    import: string;
    after: string;
    tags: readonly ArchivedTag[];
  }): Promise<PageImported | PageRefused>;
  files(request: {
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
  finish(request: {
    import: string;
    counts: { readonly commits: number; readonly tags: number; readonly files: number };
    /** The access key that it is for: the branch tells by whom it was imported. Absent: that is not known. */
    key?: string;
  }): Promise<
    | { readonly ok: true; readonly head: string | null }
    | ImportRefused
    | BadArchive
    | Refused<"no-such-import" | "catalogue-unavailable">
  >;
  /** Gives an import up that is not finished. */
  abort(request: { import: string }): Promise<void>;
}

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
  /** The access key that had it do so; null: that is not known. */
  readonly by: string | null;
  /** Commits up to this number came so. */
  readonly head: number;
}

/** What a branch is set to when it comes out of an archive: nothing that deletes by itself. */
export type ImportSettings = Pick<BranchSettings, "public" | "cors" | "writer" | "modified" | "emptyOnly"> &
  Partial<Pick<BranchSettings, "nearReads">>;

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

export type ImportRefused =
  | Refused<"already-exists">
  | { readonly ok: false; readonly reason: "followed"; readonly pipelines: readonly string[] };

/** What came does not fit together; `path` is which part of it. */
export interface BadArchive {
  readonly ok: false;
  readonly reason: "bad-archive";
  readonly path: string;
  readonly message: string;
}

export interface PageImported {
  readonly ok: true;
  readonly progress: ImportProgress;
}

type PageRefused = Refused<"no-such-import" | "already-exists" | "branch-full"> | BadArchive;

import type { ContentId } from "../../../protocol/content.ts";
import type { Body, Content } from "../../blobs/content.ts";
import type { Done, NotOpen, Protected, Refused } from "./answers.ts";

/** How bytes come before something names them. */
export interface UploadCalls {
  /** Opens an upload: the names of its blobs end in `.<upload>`. With the `lease` of a datum only on the output branch of a pipeline, where the lease has one upload; without it everywhere else. */
  open(request: {
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
  renew(request: { upload: string }): Promise<UploadOpened | Refused<"no-such-upload">>;
  /** Registers contents whose bytes are up (or inline) and keeps them for the upload. `branch-full`: of a client's upload alone. */
  add(request: {
    upload: string;
    contents: readonly Content[];
  }): Promise<Done | Refused<"no-such-upload" | "branch-full">>;
  /** Keeps, for the upload, those of the contents that the branch has; returns those that it lacks. */
  reserve(request: {
    upload: string;
    contents: readonly ContentId[];
  }): Promise<{ ok: true; missing: ContentId[] } | Refused<"no-such-upload">>;
  /** Where the bytes of contents are that the upload holds, in the order asked: as many as fit one answer, up to the first that it does not hold. */
  bodies(request: {
    upload: string;
    contents: readonly ContentId[];
  }): Promise<{ ok: true; bodies: Body[] } | Refused<"no-such-upload">>;
  /** Uploads keep these contents no more, each as it is named here. */
  letGo(request: { contents: readonly (ContentId & { readonly upload: string })[] }): Promise<void>;
  /**
   * Of what each of these uploads holds, keeps only the contents of these names, as `contentName` makes them; with none, the
   * upload ends. Does nothing to one that is closed. For the pipeline whose results named them.
   */
  trim(request: {
    uploads: readonly { readonly upload: string; readonly keep: readonly string[] }[];
  }): Promise<void>;
  /** Gives an upload up: what it alone kept is pending deletion, and deleted within a minute if no file ever had it. Does nothing if it is closed already. */
  abort(request: {
    upload: string;
    /** Set if blobs may be left in the store that nothing names. */
    leaves?: boolean;
  }): Promise<void>;
  /** These leases ended without a result, and nothing can give them one any more: their uploads end, and what still comes for them is refused. */
  abortLeases(request: { leases: readonly string[] }): Promise<void>;
}

/** How long an upload without a pipeline's lease stays open after it was opened, renewed or last added to; milliseconds. */
export const UPLOAD_LEASE_MS = 60 * 60 * 1000;

export interface UploadOpened {
  readonly ok: true;
  /** `<branch>.<repo>.<ulid>` */
  readonly upload: string;
  /** Uid of the branch's generation; part of blob names. */
  readonly uid: string;
}

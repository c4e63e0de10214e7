import type { ContentId } from "../../../protocol/content.ts";
import type { Attributes } from "../../../protocol/files.ts";
import type { Body, Content, Life } from "../../blobs/content.ts";
import type { Checksum, ChecksumAlgorithm, ChecksumType } from "../../core/checksums.ts";
import type { Annotation, BadPath, Done, NotOpen, Protected, Refused } from "./answers.ts";
import type { CommitRefused, StoredAttributes, WriteCondition } from "./files.ts";
import type { UploadOpened } from "./uploads.ts";

/** Uploads of one object in parts. */
export interface MultipartCalls {
  /** Begins a multipart upload. Its id is an upload's id: parts are written under it, and abortUpload ends it too. */
  create(
    request: CreateMultipart,
  ): Promise<
    UploadOpened | NotOpen | Protected | Refused<"no-such-branch" | "forking" | "pipeline-output"> | BadPath
  >;
  /** What was said when a multipart upload began; also of one that was completed lately. */
  status(request: { upload: string }): Promise<MultipartStatus | Refused<"no-such-upload">>;
  /** Registers a part whose bytes are up and renews the upload. It replaces a part of the same number. `no-such-content`: what it keeps is not there. */
  addPart(request: AddPart): Promise<Done | Refused<"no-such-upload" | "no-such-content">>;
  /** Parts by number, greater than `after`. */
  parts(request: {
    upload: string;
    after: number;
    limit: number;
  }): Promise<PartList | Refused<"no-such-upload">>;
  /** Where the bytes of parts are, of those asked for that are there, in the order asked: as many as fit one answer, at least one. */
  bodies(request: {
    upload: string;
    numbers: readonly number[];
  }): Promise<{ ok: true; parts: PartBody[] } | Refused<"no-such-upload">>;
  /** Multipart uploads in progress, by path, then by id. */
  list(request: ListMultiparts): Promise<MultipartList | Refused<"no-such-branch" | "forking">>;
  /** Writes down how far a long completion came, for the call that goes on with it; at most 1 MiB of text. Renews the upload. */
  saveProgress(request: { upload: string; progress: string }): Promise<Done | Refused<"no-such-upload">>;
  /**
   * Makes the object of a multipart upload as one commit and ends the upload; asked again, it gives the same answer.
   * `part-changed`: a part named is not there (any more) with that content.
   */
  complete(request: CompleteMultipart): Promise<Completed | CommitRefused | Refused<"part-changed">>;
  /** Ends a multipart upload and forgets its parts. */
  abort(request: { upload: string }): Promise<Done | Refused<"no-such-upload">>;
}

export interface CreateMultipart {
  /** For the commit of the completion, as far as that says nothing else. */
  readonly annotation?: Annotation;
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

interface AddPart {
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
  readonly annotation?: Annotation;
}

export interface Completed extends ContentId {
  readonly ok: true;
  readonly path: string;
  /** Null if the same object was there already and no commit was made. */
  readonly commit: string | null;
  readonly checksum: Checksum | null;
}

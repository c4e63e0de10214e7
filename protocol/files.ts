import { z } from "zod";
import { ANNOTATION_FIELDS, boundAnnotation, Line } from "./annotations.ts";
import { PathChange } from "./commits.ts";
import { ContentId, Digest, INLINE_LIMIT_BYTES, InlineContent } from "./content.ts";
import { LEAF_BYTES } from "./digest.ts";
import { Duration } from "./duration.ts";
import { list } from "./errors.ts";
import { Name, SessionId } from "./names.ts";
import { ObjectTags } from "./object-tags.ts";

/** Most operations in one call; a commit of more is staged in a session, call by call. */
export const MAX_COMMIT_OPERATIONS = 10_000;
/** Most contents in one reserve or inline-contents call. */
export const MAX_CONTENTS_PER_CALL = 1000;
/** Bytes of a part of a larger content: below what proxies in front of a gateway take as one body (Cloudflare: 100 MB). */
export const PART_BYTES = 64 * 1024 * 1024;
/** Most contents that one call puts together; more are put together in several steps. */
export const MAX_PARTS_PER_CALL = 512;
/** Most entries in one page of a listing. */
export const MAX_LIST_ENTRIES = 1000;

/** What can stand behind `x-amz-meta-` in the name of a header (RFC 9110 §5.6.2). */
export const METADATA_NAME = /^[!#$%&'*+.^_`|~0-9a-z-]+$/;
const MetadataName = z
  .string()
  .regex(METADATA_NAME, { error: "must be the name of a header, in lower case" });

/** What is kept with a file beside its bytes: the headers that HTTP knows, and user metadata as S3 has it, in lower-case names without `x-amz-meta-`, and its tags. */
export const Attributes = z.strictObject({
  contentType: Line.optional(),
  cacheControl: Line.optional(),
  contentDisposition: Line.optional(),
  contentEncoding: Line.optional(),
  contentLanguage: Line.optional(),
  expires: Line.optional(),
  metadata: z.record(MetadataName, Line).optional(),
  tags: ObjectTags.optional(),
});
export type Attributes = z.infer<typeof Attributes>;

/** Most versions that one call erases; `more` says that others are left. */
export const MAX_ERASED_VERSIONS = 5000;

/** `POST /api/v1/repos/{repo}/branches/{branch}/erasures`: erases versions of a path for good. */
export const EraseFile = z
  .strictObject({
    path: z.string().min(1),
    /** The id of the commit that wrote or deleted the path. Absent: the newest version. */
    version: z.string().min(1).optional(),
    /** Every version instead of one. */
    allVersions: z.boolean().optional(),
    /** Copies in branches that were made from this one are erased, too. Absent: such a copy is 409. */
    forks: z.boolean().optional(),
    ...ANNOTATION_FIELDS,
  })
  .superRefine(boundAnnotation);
export type EraseFile = z.infer<typeof EraseFile>;

const ErasedVersion = z.object({
  version: z.string(),
  kind: z.enum(["version", "deletion"]),
});
/** What has bytes of what was erased beside it, by its kind. */
const ByteHolder = z.object({
  kind: z.enum(["version", "open-commit", "upload", "fork"]),
  bucket: z.string(),
  /** Null: of an upload that has none, and of a fork. */
  path: z.string().nullable(),
  /** Of a version its id, of an open commit or an upload the id of that; null: of a fork. */
  id: z.string().nullable(),
});
export type ByteHolder = z.infer<typeof ByteHolder>;
/** A file that a pipeline computed from what was erased. */
const ComputedFile = z.object({
  bucket: z.string(),
  path: z.string(),
  job: z.string(),
  commit: z.string().nullable(),
});
export type ComputedFile = z.infer<typeof ComputedFile>;

/**
 * `GET …/commits/{id}/derived?path=&after=`: files that pipelines computed from a file, as the commit has it. Pages may be
 * short, and even empty; `next` says whether that was all.
 */
export const Derived = z.object({
  path: z.string(),
  /** By pipeline and path. A file is there once for each job whose commit wrote it. */
  files: z.array(ComputedFile),
  next: z.string().nullable(),
});
export type Derived = z.infer<typeof Derived>;

export const FileErased = z.object({
  path: z.string(),
  erased: z.array(ErasedVersion),
  /** The commit by which HEAD went back to an earlier version, or to nothing; null: HEAD is as it was. */
  commit: z.string().nullable(),
  /** The same of the copies in branches that were made from this one. */
  forks: z.array(
    z.object({ bucket: z.string(), commit: z.string().nullable(), erased: z.array(ErasedVersion) }),
  ),
  /** What has the same bytes, so that they stay; the first of them. */
  stays: z.array(ByteHolder),
  /** Files that were computed from what was erased; the first of them. */
  outputs: z.array(ComputedFile),
  /** Other versions are left: ask again. */
  more: z.boolean(),
});
export type FileErased = z.infer<typeof FileErased>;

/** `POST /api/v1/uploads`: opens an upload. With `lease`, the upload belongs to that datum lease. */
export const OpenUpload = z.strictObject({ repo: Name, branch: Name, lease: z.string().optional() });
/** `partBytes`: a content of more bytes is to come in parts of so many. */
export const UploadOpened = z.object({
  upload: z.string(),
  partBytes: z
    .int()
    .min(2 * LEAF_BYTES)
    .multipleOf(LEAF_BYTES),
});

/** `POST /api/v1/uploads/{id}/reserve`: keeps the contents that the branch has for this upload; names those it lacks. */
export const ReserveContents = z.strictObject({ contents: list(ContentId).max(MAX_CONTENTS_PER_CALL) });
export const ContentsReserved = z.object({ missing: z.array(ContentId) });

/** `POST /api/v1/uploads/{id}/contents`: many small contents in one call. `PUT …/contents?digest=&size=` takes one of any size as its body. */
export const AddInlineContents = z.strictObject({
  contents: list(InlineContent).max(MAX_CONTENTS_PER_CALL),
});
export const ContentAdded = ContentId;

/**
 * `POST /api/v1/uploads/{id}/compose`: puts contents that the upload holds one after the other into one, which the upload
 * then holds, too. `content`: what must come of it. Parts are whole leaves, so that none of their bytes is read again.
 */
export const ComposeContent = z
  .strictObject({ parts: list(ContentId).min(2).max(MAX_PARTS_PER_CALL), content: ContentId.optional() })
  .superRefine(({ parts }, context) => {
    for (const [index, { size }] of parts.entries()) {
      const message = partFault({ size, isLast: index === parts.length - 1 });
      if (message) context.addIssue({ code: "custom", path: ["parts", index, "size"], message });
    }
  });
export const ContentComposed = ContentId;

function partFault({ size, isLast }: { size: number; isLast: boolean }): string | undefined {
  if (size <= INLINE_LIMIT_BYTES) return `must be more than ${INLINE_LIMIT_BYTES} bytes`;
  if (isLast || size % LEAF_BYTES === 0) return undefined;
  return `must be a multiple of ${LEAF_BYTES} bytes, in every part but the last`;
}

const PutFile = z.strictObject({
  put: z.string(),
  digest: Digest,
  size: z.int().nonnegative(),
  attributes: Attributes.optional(),
});
const DeleteFile = z.strictObject({ delete: z.string() });

/**
 * `POST /api/v1/repos/{repo}/branches/{branch}/commits`: many puts and deletes as one commit, or with `session` staged
 * in that open commit. A path ending in `/` puts an empty directory (size 0).
 */
export const CreateCommit = z
  .strictObject({
    upload: z.string(),
    session: SessionId.optional(),
    ...ANNOTATION_FIELDS,
    operations: list(z.union([PutFile, DeleteFile]))
      .min(1)
      .max(MAX_COMMIT_OPERATIONS, {
        error: `must be at most ${MAX_COMMIT_OPERATIONS} in one call: for a commit of more, open a session (POST …/sessions), send them in several calls that name it, and finish it`,
      }),
  })
  .superRefine(({ session, ...said }, context) => {
    boundAnnotation(said, context);
    if (session === undefined) return;
    for (const field of ["message", "meta"] as const) {
      if (said[field] === undefined) continue;
      const message = "belongs to the commit, and none is made here: give it when the session is finished";
      context.addIssue({ code: "custom", path: [field], message });
    }
  });
export type CreateCommit = z.infer<typeof CreateCommit>;
/** `commit` is null if nothing would change, so that no commit was made, and if the operations were staged in a session. */
export const CommitCreated = z.object({ commit: z.string().nullable() });

/** `POST /api/v1/repos/{repo}/branches/{branch}/sessions`: begins an open commit, a session on the wire, which many writes fill. `ttl`: it expires when nothing is added for so long. `message` and `meta` are the commit's, each unless the finish has another. */
export const OpenSession = z
  .strictObject({ ttl: Duration.optional(), ...ANNOTATION_FIELDS })
  .superRefine((session, context) => boundAnnotation(session, context));
/** `bucket` is the S3 bucket by which tools fill it. */
export const SessionOpened = z.object({ session: z.string(), bucket: z.string() });

/** `GET …/sessions/{session}` */
export const Session = z.object({
  session: z.string(),
  bucket: z.string(),
  /** `applying`: it is being made the branch's newest commit, which can't be stopped any more. */
  state: z.enum(["open", "applying", "finished"]),
  /** Paths that it holds an operation for. */
  operations: z.int(),
  /** Both in milliseconds since 1970; `dueAt` is when it expires unless something is added; null if it does not expire. */
  openedAt: z.number(),
  dueAt: z.number().nullable(),
  /** Set once it is finished, if it changed something. */
  commit: z.string().nullable(),
});
export type Session = z.infer<typeof Session>;

/** Most open commits, and most of their changes, in one page. */
export const MAX_LIST_SESSIONS = 1000;
/** `GET …/sessions?after=&limit=`: those that are not finished, in the order in which they began; `next` goes into `after`. */
export const SessionPage = z.object({
  sessions: z.array(
    Session.extend({
      /** What was said of the commit when it began, and by whose key. */
      key: z.string().nullable(),
      message: z.string().nullable(),
      meta: z.record(z.string(), z.string()),
    }),
  ),
  next: z.string().nullable(),
});
export type SessionPage = z.infer<typeof SessionPage>;

/** `GET …/sessions/{session}/diff?after=&limit=`: what it would change if it were finished now, by path. Pages may be short. */
export const SessionDiff = z.object({ changes: z.array(PathChange), next: z.string().nullable() });
export type SessionDiff = z.infer<typeof SessionDiff>;

/** What answers `POST …/sessions/{session}/finish`, whose body may be a `SaidAnnotation`. While the state is `applying`, ask again. */
export const SessionEnd = z.object({
  state: z.enum(["applying", "finished"]),
  /** Null if nothing changed, and while it is applying. */
  commit: z.string().nullable(),
});
export type SessionEnd = z.infer<typeof SessionEnd>;

/** `POST …/commits/{id}/revert`. While the state is `applying`, finish the session to hear of its end. */
export const RevertEnd = SessionEnd.extend({ session: z.string() });
export type RevertEnd = z.infer<typeof RevertEnd>;

/**
 * `GET /api/v1/repos/{repo}/branches/{branch}/commits/{id}/files?prefix=&after=&limit=`: files in path order. With `delimiter=/`
 * those directly below the prefix, and the folders there; with `times=true` when each was last changed.
 */
export const FileEntry = z.object({
  path: z.string(),
  kind: z.enum(["file", "dir"]),
  digest: Digest,
  size: z.int(),
});
export type FileEntry = z.infer<typeof FileEntry>;
/** Milliseconds since 1970. Absent: it was not asked for. */
const ListedFile = FileEntry.extend({ modifiedAt: z.int().optional() });
export const FilePage = z.object({
  files: z.array(ListedFile),
  /** Each with its slash at the end. Absent: they were not asked for. */
  folders: z.array(z.string()).optional(),
  next: z.string().nullable(),
});
export type FilePage = z.infer<typeof FilePage>;

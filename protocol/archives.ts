import { z } from "zod";
import { Line, SaidAnnotation } from "./annotations.ts";
import { CommitId } from "./commits.ts";
import { Digest, InlineContent } from "./content.ts";
import { list } from "./errors.ts";
import { Attributes } from "./files.ts";
import { isUlid, Name, TagName } from "./names.ts";
import { PATH_FAULT_TEXT, pathFault } from "./paths.ts";
import { BranchWriter } from "./repos.ts";

/*
 * A branch with its history, as it goes from one gateway to another. It travels in pages, which are the same on the wire
 * and in the file of an archive: its head, then its commits, tags and files. Numbers of commits (`seq`) count from 1.
 *
 * An export is read as it comes: whatever a branch has by now, it can be kept. What an import brings may have been written by
 * anybody, so each row must be one that a gateway could have written (the schemas that are called sound), and the rows must
 * fit together (archive-rules.ts).
 */

/** Most commits, tags and rows of files in one page. */
export const MAX_ARCHIVE_COMMITS = 1000;
export const MAX_ARCHIVE_TAGS = 1000;
export const MAX_ARCHIVE_FILES = 1000;
/** About the most text of a page; what one page brings of the last row may be more. */
export const ARCHIVE_PAGE_BYTES = 1024 * 1024;
/** Most characters of a file's attributes: 10,000 parts of different sizes, each with a SHA512, come to some 1,030,000. */
const MAX_ATTRIBUTES_LENGTH = 2_000_000;
/** Nothing that an export has not read goes for so long after its last call; milliseconds. */
export const EXPORT_LEASE_MS = 10 * 60 * 1000;
/** An import to which nothing comes for so long is given up; milliseconds. */
export const IMPORT_LEASE_MS = 24 * 60 * 60 * 1000;

/**
 * The most that the number of a commit, or a count of rows, may be in an import. A branch goes on from there: numbers that
 * are no longer exact would end it.
 */
const MAX_IMPORTED = 2 ** 48;

const Seq = z.int().min(1).max(Number.MAX_SAFE_INTEGER);
const Millis = z.int().nonnegative().max(Number.MAX_SAFE_INTEGER);
const Count = z.int().nonnegative().max(Number.MAX_SAFE_INTEGER);

/** What goes into headers of answers must be what these can carry (RFC 9110 §5.6.2). */
const Token = z.string().regex(/^[!#$%&'*+.^_`|~0-9A-Za-z-]+$/, { error: "must be the name of a header" });

const CorsRule = z.strictObject({
  id: z.string().max(255).optional(),
  origins: z.array(z.string().max(2048)).max(100),
  methods: z.array(z.string().regex(/^[A-Z]{1,16}$/, { error: "must be a method of HTTP" })).max(10),
  headers: z.array(z.string().max(1024)).max(100),
  exposed: z.array(Token.max(1024)).max(100),
  maxAgeSeconds: z.int().nonnegative().optional(),
});

/** What the branch is set to. What another release adds is passed over. */
const ArchivedSettings = z.object({
  public: z.boolean(),
  cors: z.array(CorsRule).max(100).nullable(),
  /** A key counts at a gateway that has it: until then nobody writes. */
  writer: BranchWriter.nullable(),
  /** Whose time Last-Modified is; null: as the gateway is set to. */
  modified: z.enum(["branch", "file"]).nullable().default(null),
  /** Whether DeleteBucket leaves it alone while it has a file. */
  emptyOnly: z.boolean().default(false),
  /** Whether what is read of the newest state may be some seconds old. */
  nearReads: z.boolean().default(false),
  /** What deletes by itself. No import sets it: it would delete at once what somebody has just brought back. */
  keep: z.json().nullable().default(null),
  lifecycle: z.json().nullable().default(null),
});

/** That a branch came out of an archive, or a part of it. */
const ArchivedImport = z.object({
  /** When, in milliseconds since 1970, and the access key that did it; null: that was not written down yet. */
  at: Millis,
  by: z.string().nullable(),
  /** Its commits up to this number came so; those behind it were made at the gateway. */
  head: Count,
});

/** The first page: what the branch is, and where it stands. */
export const ArchivedBranch = z.object({
  name: z.string(),
  /** Milliseconds since 1970. */
  createdAt: Millis,
  /** The newest commit; 0 if there is none. */
  head: Count,
  /** Commits before this one are kept only if a tag names them. */
  floor: Count.default(0),
  /** Null: it was made at the gateway that it was exported from, as far as that knows. */
  imported: ArchivedImport.nullable().default(null),
  settings: ArchivedSettings,
});
export type ArchivedBranch = z.infer<typeof ArchivedBranch>;

/**
 * A commit: number, id, time, rows of files that were born and that died up to it, the job that made it, the access key,
 * JSON of message and metadata, JSON of what it descends from, and 1 if it is kept no more and only named by versions.
 */
export const ArchivedCommit = z.tuple([
  Seq,
  CommitId,
  Millis,
  Count,
  Count,
  z.string().min(1).max(64).nullable(),
  z.string().min(1).max(128).nullable(),
  z.string().max(16_384).nullable(),
  z.string().max(65_536).nullable(),
  z.union([z.literal(0), z.literal(1)]),
]);
export type ArchivedCommit = z.infer<typeof ArchivedCommit>;

/** A tag: its name, the commit's id, and when it was made or moved. */
export const ArchivedTag = z.tuple([TagName, CommitId, Millis]);
export type ArchivedTag = z.infer<typeof ArchivedTag>;

/** What a row of files has beside that, if anything. */
const MoreOfFile = z.strictObject({
  /** When its bytes were written, if the commit that it came with set nothing but tags. */
  bytesAt: Millis.optional(),
  /** When somebody last wrote again what is there already. */
  renewed: Millis.optional(),
  /** The commit whose id the version has, if it is not the one that the row came with: a later version was erased. */
  version: Seq.optional(),
  /** Its end is no version of the path: what came then was erased. */
  unmarked: z.literal(true).optional(),
  /** It is a deletion alone, at the commit that it came and went with: what was deleted was erased. It has no bytes. */
  deletion: z.literal(true).optional(),
});
export type MoreOfFile = z.infer<typeof MoreOfFile>;

/**
 * What was at a path from one commit on until another: path, the commit that it came with, the one that it went with (null:
 * it is there), digest, size, JSON of attributes, and what else there is. What was erased is in none.
 */
export const ArchivedFile = z.tuple([
  z.string(),
  Seq,
  Seq.nullable(),
  Digest,
  z.int().nonnegative(),
  z.string().max(MAX_ATTRIBUTES_LENGTH).nullable(),
  MoreOfFile.nullable(),
]);
export type ArchivedFile = z.infer<typeof ArchivedFile>;

/** By number, by name, and by path and number. */
export const CommitsPage = z.object({ commits: list(ArchivedCommit).max(MAX_ARCHIVE_COMMITS) });
export type CommitsPage = z.infer<typeof CommitsPage>;
export const TagsPage = z.object({ tags: list(ArchivedTag).max(MAX_ARCHIVE_TAGS) });
export type TagsPage = z.infer<typeof TagsPage>;
/** `contents`: the bytes of small contents of the page. Those of the others are read, and written, one by one. */
export const FilesPage = z.object({
  files: list(ArchivedFile).max(MAX_ARCHIVE_FILES),
  contents: list(InlineContent).max(MAX_ARCHIVE_FILES),
});
export type FilesPage = z.infer<typeof FilesPage>;

/*
 * What an import takes: rows that a gateway could have written.
 */

const KeyId = Line.min(1).max(128);
const JobId = z.string().regex(/^[0-9A-Za-z_-]{1,64}$/, { error: "must be the id of a job" });
const SoundSeq = Seq.max(MAX_IMPORTED);
const SoundCount = Count.max(MAX_IMPORTED);
const SoundCommitId = CommitId.refine(isUlid, { error: "must be a ULID" });
const SoundPath = z.string().superRefine((path, context) => {
  const fault = pathFault(path);
  if (fault) context.addIssue({ code: "custom", message: PATH_FAULT_TEXT[fault] });
});

/** A text that is the JSON of what a schema takes. The first problem is named by its place in that. */
function jsonOf(schema: z.ZodType, { most }: { readonly most: number }) {
  return z
    .string()
    .max(most)
    .superRefine((text, context) => {
      const [issue] = problemsOf(text, schema);
      if (issue) context.addIssue({ code: "custom", path: [...issue.path], message: issue.message });
    });
}

function problemsOf(text: string, schema: z.ZodType): readonly Pick<z.core.$ZodIssue, "path" | "message">[] {
  try {
    return schema.safeParse(JSON.parse(text)).error?.issues ?? [];
  } catch {
    return [{ path: [], message: "must be JSON" }];
  }
}

/** What was said of a commit, or who took that out (worker/branch/tree/annotation.ts writes both). */
const SoundAnnotation = z.record(z.string(), z.unknown()).superRefine((annotation, context) => {
  const { error } = ("redacted" in annotation ? RedactedAnnotation : SaidAnnotation).safeParse(annotation);
  for (const { path, message } of error?.issues ?? [])
    context.addIssue({ code: "custom", path: [...path], message });
});
const RedactedAnnotation = z.strictObject({ redacted: z.strictObject({ at: Millis, by: KeyId }) });

/** The newest version of each pipeline that a commit descends from, by the pipeline's uid. */
const SoundLineage = z.record(JobId, SoundCount);

const SoundCommit = z.tuple([
  SoundSeq,
  SoundCommitId,
  Millis,
  SoundCount,
  SoundCount,
  JobId.nullable(),
  KeyId.nullable(),
  jsonOf(SoundAnnotation, { most: 16_384 }).nullable(),
  jsonOf(SoundLineage, { most: 65_536 }).nullable(),
  z.union([z.literal(0), z.literal(1)]),
]);

const SoundTag = z.tuple([TagName, SoundCommitId, Millis]);

/** Base64, behind which a checksum of parts says how many there are. */
const ChecksumValue = z
  .string()
  .max(128)
  .regex(/^[A-Za-z0-9+/]+=*(-[0-9]+)?$/, { error: "must be a checksum in base64" });
/** The additional checksums that S3 knows (S3 User Guide, "Checking object integrity"). */
export const CHECKSUM_ALGORITHMS = [
  "CRC32",
  "CRC32C",
  "CRC64NVME",
  "SHA1",
  "SHA256",
  "SHA512",
  "MD5",
  "XXHASH64",
  "XXHASH3",
  "XXHASH128",
] as const;
/** Sizes of parts, and how many follow each other of each. */
const RUNS = z.array(z.tuple([z.int().nonnegative(), z.int().min(1).max(10_000)])).max(10_000);
/** What a row of files keeps beside its content: what a client gave, and what an upload in parts left. */
export const ArchivedAttributes = Attributes.extend({
  checksum: z
    .strictObject({
      algorithm: z.enum(CHECKSUM_ALGORITHMS),
      type: z.enum(["FULL_OBJECT", "COMPOSITE"]),
      value: ChecksumValue,
    })
    .optional(),
  parts: z.strictObject({ sizes: RUNS, checksums: z.array(ChecksumValue).max(10_000).optional() }).optional(),
});

const SoundFile = z.tuple([
  SoundPath,
  SoundSeq,
  SoundSeq.nullable(),
  Digest,
  z.int().nonnegative(),
  jsonOf(ArchivedAttributes, { most: MAX_ATTRIBUTES_LENGTH }).nullable(),
  MoreOfFile.extend({ version: SoundSeq.optional() }).nullable(),
]);

/** Where there may be one `*`. */
const Pattern = Line.min(1).refine((text) => text.split("*").length <= 2, {
  error: "must have one '*' at most",
});
const SoundCorsRule = CorsRule.extend({
  id: Line.max(255).optional(),
  origins: z.array(Pattern.max(2048)).min(1).max(100),
  methods: z
    .array(z.enum(["GET", "PUT", "HEAD", "POST", "DELETE"], { error: "must be a method of HTTP" }))
    .min(1)
    .max(10),
  headers: z.array(Token.max(1024).and(Pattern)).max(100),
  maxAgeSeconds: z.int().nonnegative().max(999_999_999).optional(),
});
/** What the branch is set to, of that what an import sets. */
const SoundBranch = ArchivedBranch.omit({ name: true }).extend({
  head: SoundCount,
  floor: SoundCount.default(0),
  settings: ArchivedSettings.extend({ cors: z.array(SoundCorsRule).max(100).nullable() }),
});

export const SoundCommits = z.object({ commits: list(SoundCommit).max(MAX_ARCHIVE_COMMITS) });
export const SoundTags = z.object({ tags: list(SoundTag).max(MAX_ARCHIVE_TAGS) });
export const SoundFiles = FilesPage.extend({ files: list(SoundFile).max(MAX_ARCHIVE_FILES) });
export const SoundHead = SoundBranch.extend({ name: Name });

/** Where a walk over the rows of files stands: at the row of this path that came with this commit. */
export const FilePlace = z.strictObject({ path: z.string().max(1024), born: Count });
export type FilePlace = z.infer<typeof FilePlace>;

/** `POST /api/v1/repos/{repo}/branches/{branch}/exports`: what is there now is read in pages, whatever is written meanwhile. */
export const ExportBegun = z.object({
  export: z.string(),
  branch: ArchivedBranch,
  /** About how many rows of files there are. */
  rows: Count,
});
export type ExportBegun = z.infer<typeof ExportBegun>;

/** `GET …/exports/{export}/commits?after=<number>`, `…/tags?after=<name>` and `…/files?after=<path>&born=<number>`; null: that was all. */
export const ExportedCommits = CommitsPage.extend({ next: Count.nullable() });
export type ExportedCommits = z.infer<typeof ExportedCommits>;
export const ExportedTags = TagsPage.extend({ next: z.string().nullable() });
export type ExportedTags = z.infer<typeof ExportedTags>;
export const ExportedFiles = FilesPage.extend({ next: FilePlace.nullable() });
export type ExportedFiles = z.infer<typeof ExportedFiles>;

/** `POST /api/v1/repos/{repo}/branches/{branch}/imports`: begins an import, or goes on with the one of the same archive. */
export const BeginImport = z.strictObject({
  /** Names the archive's branch: an import of another archive does not go on with this one. */
  archive: z.string().regex(/^[0-9a-f]{64}$/, { error: "must be 64 lower-case hex digits" }),
  branch: SoundBranch,
});
export type BeginImport = z.infer<typeof BeginImport>;

/** How far an import is: what it has had already. */
export const ImportProgress = z.object({
  commits: Count,
  tags: z.string(),
  files: FilePlace,
});
export type ImportProgress = z.infer<typeof ImportProgress>;

/** `done`: it was made before, and there is nothing to send. `upload`: contents are brought by it. */
export const ImportBegun = z.object({
  import: z.string(),
  upload: z.string(),
  partBytes: z.int().positive(),
  done: z.boolean(),
  progress: ImportProgress,
});
export type ImportBegun = z.infer<typeof ImportBegun>;

/** `POST …/imports/{import}/commits`, `…/tags` and `…/files`: the next page. One that is there already changes nothing. */
export const ImportCommits = z.strictObject({ after: Count, ...SoundCommits.shape });
export const ImportTags = z.strictObject({ after: z.string(), ...SoundTags.shape });
export const ImportFiles = z.strictObject({ after: FilePlace, ...SoundFiles.shape });
export const ImportedPage = z.object({ progress: ImportProgress });
export type ImportedPage = z.infer<typeof ImportedPage>;

/** How much an archive has of a branch. */
export const ArchiveCounts = z.strictObject({ commits: Count, tags: Count, files: Count });
export type ArchiveCounts = z.infer<typeof ArchiveCounts>;
/** `POST …/imports/{import}/finish`: the branch is there, whole, or not at all. */
export const FinishImport = z.strictObject({ counts: ArchiveCounts });
export const ImportFinished = z.object({ branch: z.string(), head: z.string().nullable() });
export type ImportFinished = z.infer<typeof ImportFinished>;

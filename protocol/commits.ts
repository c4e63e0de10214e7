import { z } from "zod";
import { CommitName } from "./names.ts";
import { Code, FileState, InputCommit } from "./pipelines.ts";
import { COMMIT_ID_PATTERN } from "./spec.ts";

/** The id of a commit: a ULID. */
export const CommitId = z.string().regex(COMMIT_ID_PATTERN, {
  error: "must be the id of a commit, such as 'sluice commit list' shows them",
});

/** Most commits, changes and datums in one page. */
export const MAX_LIST_COMMITS = 1000;
export const MAX_LIST_CHANGES = 1000;
export const MAX_LIST_MAKERS = 100;
/** Most tags in one page. */
export const MAX_LIST_TAGS = 1000;

/** Who took out what was said of a commit. */
const Redaction = z.object({
  /** Milliseconds since 1970. */
  at: z.int(),
  /** The id of the access key. */
  by: z.string(),
});

/** Who made a commit and what they said of it. */
const NOTED = {
  /** The id of the access key; null: a job made the commit. */
  key: z.string().nullable(),
  message: z.string().nullable(),
  meta: z.record(z.string(), z.string()),
  /** The message and the metadata were taken out; absent: they are as they were given. */
  redacted: Redaction.optional(),
  /** It came out of an archive: its key, its job, its time and what is said of it are what that says. Absent: it was made here. */
  imported: z.literal(true).optional(),
};

/** What a commit changed, added up. */
export const ChangeSummary = z.object({
  /** The first path that it changed; null: it changed none. */
  path: z.string().nullable(),
  added: z.int(),
  changed: z.int(),
  deleted: z.int(),
  /** How many bytes more there were after it. */
  bytes: z.int(),
});
export type ChangeSummary = z.infer<typeof ChangeSummary>;

/** A commit as it is listed. */
export const Commit = z.object({
  id: z.string(),
  /** Null: it is the first of its branch. */
  parent: z.string().nullable(),
  /** Milliseconds since 1970. */
  createdAt: z.int(),
  /** The job whose output it is; null if no job made it. */
  job: z.string().nullable(),
  ...NOTED,
  /** Files that it wrote, and files that it replaced or deleted: what is replaced counts in both. */
  changes: z.object({ written: z.int(), ended: z.int() }),
  /** Null: too much to add up, or some of it is kept no more. Absent: it was not asked for. */
  summary: ChangeSummary.nullable().optional(),
});
export type Commit = z.infer<typeof Commit>;

/**
 * `GET /api/v1/repos/{repo}/branches/{branch}/commits?limit=&after=&summary=true`: newest first; `next` goes into `after`.
 * With `summary`, each commit has one.
 */
export const CommitPage = z.object({ commits: z.array(Commit), next: z.string().nullable() });
export type CommitPage = z.infer<typeof CommitPage>;

/** `POST …/commits/{id}/redact`: takes out what was said of a commit, named by its id or a tag. */
export const CommitRedacted = z.object({
  commit: z.string(),
  /** Null: nothing was said of it. */
  redacted: Redaction.nullable(),
  /** `none`: there was nothing to take out, or it was taken out before. */
  change: z.enum(["redacted", "none"]),
});
export type CommitRedacted = z.infer<typeof CommitRedacted>;

/** `GET …/commits/{id}`: a commit with what it was made from. */
export const CommitDetail = Commit.extend({
  /** The pipeline of the job. */
  pipeline: z.string().nullable(),
  /** What the job read, by name. Empty if no job made the commit. */
  inputs: z.array(InputCommit),
});
export type CommitDetail = z.infer<typeof CommitDetail>;

/** What two commits have differently at one path. `changed` with the same content: other attributes. */
export const PathChange = z.object({
  path: z.string(),
  change: z.enum(["added", "changed", "deleted"]),
  /** Null if it was added. */
  before: FileState.nullable(),
  /** Null if it was deleted. */
  after: FileState.nullable(),
});
export type PathChange = z.infer<typeof PathChange>;

/** `GET …/commits/{id}/diff?from=&after=&limit=`: by path, from the parent unless `from` says otherwise. Pages may be short. */
export const DiffPage = z.object({
  /** Null: what there was before the first commit, which is nothing. */
  from: z.string().nullable(),
  to: z.string(),
  /** Of `to`, as with a commit. */
  job: z.string().nullable(),
  ...NOTED,
  changes: z.array(PathChange),
  next: z.string().nullable(),
});
export type DiffPage = z.infer<typeof DiffPage>;

/** A datum that made an output file. */
export const Maker = z.object({
  /** The datum's id. */
  id: z.string(),
  /** `skipped`: an earlier job ran it, and this one took its result. */
  state: z.enum(["success", "skipped"]),
  /** The job that ran it, the node it ran on and how its command ended; null once that is no longer kept. */
  job: z.string().nullable(),
  node: z.string().nullable(),
  exitCode: z.int().nullable(),
  /** What ran it, however long ago; null: its result was gone when the job committed. */
  code: Code.nullable(),
  /** What it read, by name. `path` is from the root of the repo; "" is the root itself. */
  inputs: z.array(InputCommit.extend({ path: z.string(), kind: z.enum(["file", "dir"]) })),
});
export type Maker = z.infer<typeof Maker>;

/** `GET …/commits/{id}/provenance?path=&after=&limit=`: what made a file of a commit, by the datums' inputs. */
export const Provenance = z.object({
  path: z.string(),
  /** Null: no job made the commit, so there are no datums. */
  job: z.string().nullable(),
  /** Several if they all wrote to the path: in the order in which they are in the file. */
  datums: z.array(Maker),
  next: z.string().nullable(),
});
export type Provenance = z.infer<typeof Provenance>;

/** A name for a commit. `bucket` is the S3 bucket by which tools read it. */
export const Tag = z.object({
  name: z.string(),
  branch: z.string(),
  commit: z.string(),
  bucket: z.string(),
  /** When it was made or last moved; milliseconds since 1970. */
  createdAt: z.int(),
});
export type Tag = z.infer<typeof Tag>;

/** `GET /api/v1/repos/{repo}/tags?branch=&after=&limit=`: by branch and name; `next` goes into `after`. */
export const TagPage = z.object({ tags: z.array(Tag), next: z.string().nullable() });
export type TagPage = z.infer<typeof TagPage>;

/**
 * `PUT /api/v1/repos/{repo}/branches/{branch}/tags/{tag}`: names the commit of this id or tag, or else the newest one. A
 * tag that names another commit is moved only with `force`.
 */
export const SetTag = z.strictObject({ commit: CommitName.optional(), force: z.boolean().default(false) });
export const TagSet = Tag.omit({ createdAt: true }).extend({
  /** `none`: it named this commit already. */
  change: z.enum(["made", "moved", "none"]),
  /** The commit that it named before; null if it was not there. */
  before: z.string().nullable(),
});
export type TagSet = z.infer<typeof TagSet>;

import { z } from "zod";
import { CommitName, Name } from "./names.ts";

/**
 * `GET /api/v1/repos?deleted=true`: by name; with `deleted`, behind them some without branches, all of whose branches are deleted.
 */
export const RepoList = z.object({
  repos: z.array(z.object({ name: z.string(), branches: z.array(z.string()) })),
});
export type RepoList = z.infer<typeof RepoList>;

/** Who alone may write to a protected branch: one access key, by its id, or the jobs of the pipeline whose output it is. */
export const BranchWriter = z.union([
  z.strictObject({ key: z.string().min(1).max(128) }),
  z.strictObject({ pipeline: Name }),
]);
export type BranchWriter = z.infer<typeof BranchWriter>;

/** How much of a branch that is made from a commit of another one is there: files and empty directories. */
const Forking = z.object({ copied: z.int(), total: z.int() });
export type Forking = z.infer<typeof Forking>;

/**
 * Where a branch was made to live: the region as its maker named it, and the part of the world that this stands for, in the
 * words of Cloudflare; null: of none that the gateway knows, so that it is where it was called from first.
 */
const Place = z.object({ region: z.string(), hint: z.string().nullable() });
export type Place = z.infer<typeof Place>;

/** `GET /api/v1/repos/{repo}/branches`: by name; times in milliseconds since 1970. */
export const BranchList = z.object({
  branches: z.array(
    z.object({
      name: z.string(),
      createdAt: z.int(),
      /** Whether it answers reads without a signature. */
      public: z.boolean(),
      /** Null: it is not protected. */
      writer: BranchWriter.nullable(),
      /** Set while it can't be read yet. */
      forking: Forking.optional(),
      /** Null: no region was named. Absent: the gateway is of a release that knows none. */
      place: Place.nullable().optional(),
    }),
  ),
});
export type BranchList = z.infer<typeof BranchList>;

/** `PUT /api/v1/repos/{repo}/branches/{branch}/public`: whether reads need no signature. The answer repeats it. */
export const BranchPublic = z.strictObject({ public: z.boolean() });
export type BranchPublic = z.infer<typeof BranchPublic>;

/** `PUT /api/v1/repos/{repo}/branches/{branch}/writer`: who alone may write; null: whoever may write in the repo. The answer repeats it. */
export const BranchProtection = z.strictObject({ writer: BranchWriter.nullable() });
export type BranchProtection = z.infer<typeof BranchProtection>;

/** Most that a branch may be told to keep by number. */
const MAX_KEPT_COMMITS = 1_000_000_000;
const MAX_KEPT_DAYS = 36_500;

/** How much history stays: the newest commits, and those replaced less than so many days ago; either is enough. */
export const Keep = z
  .strictObject({
    commits: z.int().min(1).max(MAX_KEPT_COMMITS).optional(),
    days: z.int().min(1).max(MAX_KEPT_DAYS).optional(),
  })
  .refine(({ commits, days }) => commits !== undefined || days !== undefined, {
    error: "must say commits or days, or be null, which keeps everything",
  });
export type Keep = z.infer<typeof Keep>;

/** `PUT /api/v1/repos/{repo}/branches/{branch}/keep`: null keeps everything. The answer repeats it. */
export const BranchKeep = z.strictObject({ keep: Keep.nullable() });
export type BranchKeep = z.infer<typeof BranchKeep>;

/** Whose time Last-Modified is: the branch's newest commit, or the last write of the object. */
export const LAST_MODIFIED = ["branch", "object"] as const;
/**
 * `PUT /api/v1/repos/{repo}/branches/{branch}/last-modified`. Null: what the gateway is set to (`SLUICE_LAST_MODIFIED`). The
 * answer repeats it.
 */
export const BranchLastModified = z.strictObject({ lastModified: z.enum(LAST_MODIFIED).nullable() });
export type BranchLastModified = z.infer<typeof BranchLastModified>;

/**
 * `PUT /api/v1/repos/{repo}/branches/{branch}/empty-only`: whether DeleteBucket of S3 leaves the branch alone while it has a
 * file. The answer repeats it.
 */
export const BranchEmptyOnly = z.strictObject({ emptyOnly: z.boolean() });
export type BranchEmptyOnly = z.infer<typeof BranchEmptyOnly>;

/** How old what GET and HEAD answer of the newest state may be: of the moment, or of the last seconds, near the reader. */
export const READS = ["fresh", "near"] as const;
/** `PUT /api/v1/repos/{repo}/branches/{branch}/reads`. The answer repeats it. */
export const BranchReads = z.strictObject({ reads: z.enum(READS) });
export type BranchReads = z.infer<typeof BranchReads>;

/** What a database has, and may have. */
const Space = z.object({ usedBytes: z.int(), limitBytes: z.int() });
export type Space = z.infer<typeof Space>;

/** From this part of what a database may have on, operators are told of it. */
export const TOLD_FROM = 0.8;

/** Versions of files, or blobs, and the bytes that they stand for. */
const Amount = z.object({ count: z.int(), bytes: z.int() });

const BranchUsage = z.object({
  name: z.string(),
  /** It is deleted, and something of it is still there. */
  deleted: z.literal(true).optional(),
  /** Rows, with the bytes of small files. */
  database: Space,
  /** Null: only sizes were asked for. */
  contents: z
    .object({
      live: Amount,
      /** What only earlier commits have, also those from before the branch was deleted. */
      history: Amount,
      /** What no kept commit has: it is being given back. */
      reclaimable: Amount,
      /** Blobs that are to be deleted. */
      condemned: Amount,
      /** What holds most of the history back: its kind, in words, and how many versions of files that is. Null: there is none. */
      holder: z.object({ kind: z.string(), what: z.string(), versions: z.int() }).nullable(),
      /** Contents that were erased and stay, since a branch that was made from this one still has them: whose they are, in words. */
      pins: z.array(Amount.extend({ what: z.string() })),
    })
    .nullable(),
});
export type BranchUsage = z.infer<typeof BranchUsage>;

/** `GET /api/v1/repos/{repo}/usage?sizes=true` */
export const RepoUsage = z.object({
  branches: z.array(BranchUsage),
  /** The database of the pipeline whose output the repo is; null if there is none. */
  pipeline: Space.nullable(),
});
export type RepoUsage = z.infer<typeof RepoUsage>;

/** Most branches whose sums one call tells. */
export const MAX_SUMMED_BRANCHES = 50;
/** Beyond so many files of a branch, their bytes are not added up. */
export const MAX_SUMMED_FILES = 20_000;

/** What the newest state of a branch has, and whose it is. */
const BranchSum = z.object({
  repo: z.string(),
  branch: z.string(),
  files: z.int(),
  /** Null: there are too many files to add them up. */
  bytes: z.int().nullable(),
  /** Of the newest commit; null: there is none. Milliseconds since 1970. */
  changedAt: z.int().nullable(),
  /** The pipeline whose output it is. */
  pipeline: z.string().nullable(),
  public: z.boolean(),
  writer: BranchWriter.nullable(),
});
export type BranchSum = z.infer<typeof BranchSum>;

/** `GET /api/v1/repos/sums?buckets=master.photos,master.cats`: of those that are there, can be read now, and by this key. */
export const BranchSums = z.object({ branches: z.array(BranchSum) });
export type BranchSums = z.infer<typeof BranchSums>;

/** `GET /api/v1/usage` */
export const CatalogueUsage = z.object({ catalogue: Space });
export type CatalogueUsage = z.infer<typeof CatalogueUsage>;

/** What a branch can be set to from the moment on that it is there. */
const NEW_SETTINGS = ["keep", "lastModified", "emptyOnly"] as const;
/** What one can't be asked for that is made from another one. */
const NOT_FORKED = [...NEW_SETTINGS, "region"] as const;

/** `POST /api/v1/repos/{repo}/branches` */
export const CreateBranch = z
  .strictObject({
    name: Name,
    ...BranchKeep.partial().shape,
    ...BranchLastModified.partial().shape,
    ...BranchEmptyOnly.partial().shape,
    /** The region to live in; absent: none in particular. One that is made from another branch lives where that does. */
    region: z.string().optional(),
    /** What it is to have. Absent: nothing. */
    from: z
      .strictObject({
        repo: Name,
        branch: Name,
        /** An id, or a tag. Absent: the newest one. */
        commit: CommitName.optional(),
      })
      .optional(),
  })
  .refine(
    ({ from, ...asked }) => from === undefined || NOT_FORKED.every((name) => asked[name] === undefined),
    {
      error: `can't be asked for together with ${NEW_SETTINGS.join(", ")}: set these when the branch is there; nor with region: it lives where the other branch does`,
      path: ["from"],
    },
  );
export type CreateBranch = z.infer<typeof CreateBranch>;

/** `GET /api/v1/repos/{repo}/branches/{branch}`, and the answer to its creation. */
export const BranchDetail = z.object({
  name: z.string(),
  createdAt: z.int(),
  /** The newest commit; null if there is none. */
  head: z.string().nullable(),
  /** What it was made from; null if from nothing. `commit` is null if the other branch had none. */
  from: z.object({ repo: z.string(), branch: z.string(), commit: z.string().nullable() }).nullable(),
  /** When it came out of an archive, in milliseconds since 1970, and the access key that imported it; null: it did not. */
  imported: z.object({ at: z.int(), by: z.string().nullable() }).nullable(),
  /** Null: it can be read. */
  forking: Forking.nullable(),
  /** Null: all of its history stays. */
  keep: z.object({ commits: z.int().optional(), days: z.int().optional() }).nullable(),
  /** As it is set; null: as the gateway is. Absent: it can't be read yet. */
  lastModified: z.enum(LAST_MODIFIED).nullable().optional(),
  /** Whether DeleteBucket leaves it alone while it has a file. Absent: as above. */
  emptyOnly: z.boolean().optional(),
  /** How old what is read of its newest state may be. Absent: as above. */
  reads: z.enum(READS).optional(),
  /** Whether it answers reads without a signature. Absent: as above. */
  public: z.boolean().optional(),
  /** Null: it is not protected. Absent: as above. */
  writer: BranchWriter.nullable().optional(),
  /** The pipeline whose output it is, whose jobs alone write to it; null: of none. Absent: as above. */
  pipeline: z.string().nullable().optional(),
  /** Null: no region was named. Absent: the gateway is of a release that knows none. */
  place: Place.nullable().optional(),
});
export type BranchDetail = z.infer<typeof BranchDetail>;

/** `GET /api/v1/fsck`: every branch that ever was, by its bucket, from what the blob store says. */
export const FsckBranches = z.object({
  branches: z.array(z.object({ repo: z.string(), branch: z.string() })),
  /** What `after` is for the next page; null: this is the last one. */
  next: z.string().nullable(),
});
export type FsckBranches = z.infer<typeof FsckBranches>;

/** `POST /api/v1/repos/{repo}/branches/{branch}/fsck`: a piece of the check of a branch. */
export const FsckAsk = z.strictObject({
  /** Where the piece before ended. Absent: from the beginning. */
  after: z
    .string()
    .max(64 * 1024)
    .optional(),
  /** The share of the contents whose bytes are read, above 0; absent: 1, all of them. */
  sample: z.number().gt(0).max(1).optional(),
  /** Says which ones, if not all are: the same for all pieces. */
  seed: z.int().min(0).max(0xffff_ffff).optional(),
});
export type FsckAsk = z.input<typeof FsckAsk>;

/** Something that does not read. */
export const FsckFault = z.object({
  /** `<digest>-<size>`; null if a name has none. */
  content: z.string().nullable(),
  message: z.string(),
  /** Some of its names, each with the commit that wrote it; null if that is not kept. None: only an upload keeps it. */
  names: z.array(z.object({ path: z.string(), commit: z.string().nullable() })),
  /** Buckets of branches that it stays for, although it was erased here. */
  pinnedFor: z.array(z.string()).optional(),
});
export type FsckFault = z.infer<typeof FsckFault>;

export const FsckPiece = z.object({
  /** How many names were looked up, how many contents proved, and the bytes that were read. */
  names: z.int(),
  contents: z.int(),
  bytes: z.int(),
  faults: z.array(FsckFault),
  /** How much of the contents is behind, from 0 to 1. */
  done: z.number(),
  /** Null: the branch is through. */
  next: z.string().nullable(),
});
export type FsckPiece = z.infer<typeof FsckPiece>;

/** `POST /api/v1/repos/{repo}/branches/{branch}/sweep`: looks for blobs that nothing names. */
export const SweepAsk = z.strictObject({ remove: z.boolean() });
export type SweepAsk = z.infer<typeof SweepAsk>;

/** It goes on by itself; `since` is what to ask with how it stands. */
export const SweepStarted = z.object({ since: z.int() });
export type SweepStarted = z.infer<typeof SweepStarted>;

/** `GET /api/v1/repos/{repo}/branches/{branch}/sweep?since=`: how it stands, or what it found. */
export const SweepState = z.object({
  done: z.boolean(),
  /** Blobs that were there; those that nothing named, and their bytes. */
  seen: z.int(),
  found: z.int(),
  foundBytes: z.int(),
});
export type SweepState = z.infer<typeof SweepState>;

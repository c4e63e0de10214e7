import { z } from "zod";
import { ContentId } from "./content.ts";
import { LeasedInput } from "./runner.ts";
import { PipelineSpec, Transform } from "./spec.ts";

/** `egressing`: its output is committed and is being pushed to the external store. `killed`: it was stopped, by itself or with its pipeline. */
export const JobState = z.enum(["starting", "running", "egressing", "success", "failure", "killed"]);
export type JobState = z.infer<typeof JobState>;

/** A job as the control API shows it. Times are milliseconds since 1970; `reason` says in words why it failed or what it waits for. */
export const Job = z.object({
  id: z.string(),
  pipeline: z.string(),
  state: JobState,
  reason: z.string().nullable(),
  inputs: z.array(
    z.object({ name: z.string(), repo: z.string(), branch: z.string(), commit: z.string().nullable() }),
  ),
  outputCommit: z.string().nullable(),
  /** Its commit to the branch that tells of bad datums. Absent: it made none. */
  errorsCommit: z.string().optional(),
  datums: z.object({ total: z.int(), processed: z.int(), skipped: z.int(), failed: z.int() }),
  createdAt: z.int(),
  startedAt: z.int().nullable(),
  finishedAt: z.int().nullable(),
});
export type Job = z.infer<typeof Job>;

/** What ran a datum's command. */
export const Code = z.object({
  /** The version of the pipeline's specification. */
  version: z.int(),
  node: z.string().nullable(),
  /** `docker` or `podman`, or `process`, which ignores the image; null: the runner is of a release that did not tell. */
  executor: z.string().nullable(),
  /** The image by its digest in its registry, or by its id if it is of none; null: there was none, or it was not told. */
  image: z.string().nullable(),
});
export type Code = z.infer<typeof Code>;

/** `killed`: its job ended before it was done. */
const DatumState = z.enum(["queued", "running", "success", "skipped", "failed", "killed"]);

const FileState = z.object({ digest: z.string(), size: z.int() });

/** Why a job ran a datum, or did not. `inputs` are named as in the specification, paths go from the root of the repo. */
export const KnownWhy = z.discriminatedUnion("reason", [
  /** These inputs had nothing there at the job before, so there was no such datum. */
  z.object({
    reason: z.literal("new"),
    inputs: z.array(z.object({ name: z.string(), path: z.string() })),
  }),
  /** What it reads has another content than at the job before: the first files of each input. Null: it was, or is, not there. */
  z.object({
    reason: z.literal("changed"),
    changes: z.array(
      z.object({
        input: z.string(),
        path: z.string(),
        before: FileState.nullable(),
        after: FileState.nullable(),
      }),
    ),
    /** There are more, or may be. */
    more: z.boolean(),
    /** What changed is shown only to keys that may read all of the inputs. */
    hidden: z.literal(true).optional(),
  }),
  /** The specification has another version since the job before, whose fields say which results count, or what belongs to the inputs. */
  z.object({ reason: z.literal("version"), from: z.int(), to: z.int(), fields: z.array(z.string()) }),
  /** It was asked for: the version makes results of before count no more, and changes nothing of what is computed. */
  z.object({ reason: z.literal("reprocess"), version: z.int() }),
  /** The job before had it, too, and left no result: it failed there, or was killed. Null: the result is gone since. */
  z.object({
    reason: z.literal("again"),
    job: z.string().nullable(),
    state: z.enum(["failed", "killed"]).nullable(),
  }),
  /** It was not run: it has the result of this job. */
  z.object({ reason: z.literal("result"), job: z.string() }),
  /** What would tell is not kept any more. */
  z.object({ reason: z.literal("not-kept") }),
]);
export type KnownWhy = z.infer<typeof KnownWhy>;
/** Later releases may know more reasons. */
const Why = z.union([KnownWhy, z.object({ reason: z.string() })]);

/** A datum of a job. While it is tried again, `exitCode` and `reason` are of the last try that failed. */
export const JobDatum = z.object({
  id: z.string(),
  state: DatumState,
  /** Tries that failed. */
  tries: z.int(),
  exitCode: z.int().nullable(),
  reason: z.string().nullable(),
  /** The node that it runs or ran on. */
  node: z.string().nullable(),
  /** What made its result, in this job or, if it was skipped, in an earlier one; null: it has none, or that is not known. */
  code: Code.nullable().default(null),
  /** `path`: the match, from the root of the repo; "" is the root itself. */
  inputs: z.array(z.object({ name: z.string(), path: z.string(), commit: z.string().nullable() })),
  /** Set if it was asked for: every reason that holds. */
  why: z.array(Why).optional(),
});
export type JobDatum = z.infer<typeof JobDatum>;

/** A page of a job's datums: those that it ran or is to run, then those that it skipped. `next` goes into `after`. */
export const DatumPage = z.object({ datums: z.array(JobDatum), next: z.string().nullable() });
export type DatumPage = z.infer<typeof DatumPage>;

/**
 * `GET /jobs/{job}/datums/{datum}`: a datum with all that it takes to run it again: what its job read, and the command of
 * the version of the specification that its job was made for.
 */
export const DatumDetail = z.object({
  job: z.string(),
  pipeline: z.string(),
  /** Of the specification. */
  version: z.int(),
  datum: JobDatum,
  transform: Transform,
  /** As in the specification. Absent: one try may take as long as it likes. */
  datumTimeout: z.string().optional(),
  /** Whether that version is not known to be of a key for all repos. */
  limited: z.boolean(),
  inputs: z.array(LeasedInput),
  output: z.object({ repo: z.string(), branch: z.string() }),
  /** What the job committed; null: nothing, or nothing yet. */
  outputCommit: z.string().nullable(),
  /**
   * What is known of the files that the job has of this datum. `none`: it has no result of it. `paths`: their contents are
   * kept no more, or only as part of the output commit. `gone`: nothing is.
   */
  outputs: z.enum(["kept", "paths", "none", "gone"]),
});
export type DatumDetail = z.infer<typeof DatumDetail>;

/** Most outputs of a datum in one page. */
export const MAX_LIST_OUTPUTS = 1000;

/** A file or, with a trailing slash, an empty directory that a job has of a datum. */
export const DatumOutput = z.object({
  path: z.string(),
  /** Null: its content is not kept by itself. */
  content: ContentId.nullable(),
  /** Other datums of the job wrote to the path, too: the output commit has what all of them wrote, one after the other. */
  merged: z.boolean(),
});
export type DatumOutput = z.infer<typeof DatumOutput>;

/** `GET /jobs/{job}/datums/{datum}/outputs?after=`: by path. A page may be short or empty though more follow; `next` goes into `after`. */
export const DatumOutputPage = z.object({ outputs: z.array(DatumOutput), next: z.string().nullable() });
export type DatumOutputPage = z.infer<typeof DatumOutputPage>;

/** A job that tries again, and the job that was the newest before it. */
export const JobRetry = z.object({ job: Job, newest: z.string() });
export type JobRetry = z.infer<typeof JobRetry>;

/** One line of what a job's datum wrote on stdout or stderr (NDJSON). `at`: when, in milliseconds since 1970 by the gateway's clock. */
export const LogLine = z.object({
  datum: z.string(),
  /** The node that it ran on. */
  node: z.string().nullable(),
  at: z.int(),
  /** Null: nothing that is kept follows what was left out. */
  line: z.string().nullable(),
  /** So many lines before this one were left out, as the datum printed more than is kept. */
  dropped: z.int().positive().optional(),
  /** The place behind this line: goes into `after`. */
  next: z.string().optional(),
});
export type LogLine = z.infer<typeof LogLine>;

/** A page of jobs, newest first; `next` goes into `after`. */
export const JobPage = z.object({ jobs: z.array(Job), next: z.string().nullable() });
export type JobPage = z.infer<typeof JobPage>;

/** What ends in "ing" goes on by itself. A pipeline that is stopped makes no jobs and follows no input. */
const PipelineState = z.enum([
  "creating",
  "active",
  "stopping",
  "stopped",
  "starting",
  "updating",
  "deleting",
]);

export const Pipeline = z.object({
  name: z.string(),
  state: PipelineState,
  /** Of its specification: 1, and one more with each update. */
  version: z.int(),
  createdAt: z.int(),
  spec: PipelineSpec,
  outputRepo: z.string(),
  outputBranch: z.string(),
  /** The branch of the same repo that tells of bad datums. Absent: it has none. */
  errorsBranch: z.string().optional(),
  /**
   * Whether it belongs to a key that is limited to repos: the one that last created or updated it. Null: it is from a release
   * that did not write that down, and counts as if it did. Absent: so is the gateway.
   */
  limited: z.boolean().nullable().optional(),
  /** JSON paths of what the specification has and this key may not see: it may not read all of the inputs. */
  hidden: z.array(z.string()).optional(),
  /** What it waits for before it makes its first job, in words; null if it waits for nothing. */
  reason: z.string().nullable().default(null),
});
export type Pipeline = z.infer<typeof Pipeline>;

export const PipelineList = z.object({
  pipelines: z.array(
    z.object({
      name: z.string(),
      state: PipelineState,
      createdAt: z.int(),
      inputs: z.array(z.string()),
      output: z.string(),
    }),
  ),
});
export type PipelineList = z.infer<typeof PipelineList>;

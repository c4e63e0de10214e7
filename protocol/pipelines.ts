import { z } from "zod";
import { ContentId } from "./content.ts";
import { LeasedInput, LogStream } from "./runner.ts";
import { PipelineSpec, Transform } from "./spec.ts";

/** `egressing`: its output is committed and is being pushed to the external store. `killed`: it was stopped, by itself or with its pipeline. */
export const JobState = z.enum(["starting", "running", "egressing", "success", "failure", "killed"]);
export type JobState = z.infer<typeof JobState>;

/** What a list of jobs can be asked for: a state, without those jobs that wait, or those that wait, whatever their state is. */
export const ListedState = z.enum([...JobState.options, "waiting"]);
export type ListedState = z.infer<typeof ListedState>;

/**
 * What a job waits for that nobody works on: an earlier job of its pipeline (`job`), a live node that can run it and has a
 * worker for it (`runner`), or that its nodes may run more at once (`room`).
 */
export const WaitsFor = z.enum(["job", "runner", "room"]);
export type WaitsFor = z.infer<typeof WaitsFor>;

/** What a job read of an input. */
export const InputCommit = z.object({
  name: z.string(),
  repo: z.string(),
  branch: z.string(),
  /** Null if the branch was not there. */
  commit: z.string().nullable(),
  /** The branch keeps the commit no more: its files are gone. Said of one job or commit, not in lists. */
  kept: z.literal(false).optional(),
});

/** The paths that a datum reads: each from the root of its repo; "" is the root itself. */
const DatumInputs = z.array(z.object({ name: z.string(), path: z.string() }));

/** A job as the control API shows it. Times are milliseconds since 1970; `reason` says in words why it failed or what it waits for. */
export const Job = z.object({
  id: z.string(),
  pipeline: z.string(),
  /** Of the specification that it was made for. */
  version: z.int(),
  state: JobState,
  reason: z.string().nullable(),
  /** One of `WaitsFor`, or what a later release knows. Absent: it does not wait. */
  waitsFor: z.string().optional(),
  inputs: z.array(InputCommit),
  /** The branch that it writes to; `kept` as of an input. */
  output: z.object({ repo: z.string(), branch: z.string(), kept: z.literal(false).optional() }),
  outputCommit: z.string().nullable(),
  /** Its commit to the branch that tells of bad datums. Absent: it made none. */
  errorsCommit: z.string().optional(),
  datums: z.object({ total: z.int(), processed: z.int(), skipped: z.int(), failed: z.int() }),
  createdAt: z.int(),
  startedAt: z.int().nullable(),
  finishedAt: z.int().nullable(),
});
export type Job = z.infer<typeof Job>;

/** How a job stands, in lists: its state, or that it waits, whatever that is. */
export function listedState({ state, waitsFor }: Pick<Job, "state" | "waitsFor">): ListedState {
  return waitsFor === undefined ? state : "waiting";
}

/** What ran a datum's command. */
export const Code = z.object({
  /** The version of the pipeline's specification. */
  version: z.int(),
  node: z.string().nullable(),
  /** `docker` or `podman`, or `process`, which ignores the image. */
  executor: z.string(),
  /** The image by its digest in its registry, or by its id if it is of none; null: there was none. */
  image: z.string().nullable(),
});
export type Code = z.infer<typeof Code>;

/** `killed`: its job ended before it was done. */
export const DatumState = z.enum(["queued", "running", "success", "skipped", "failed", "killed"]);

export const FileState = z.object({ digest: z.string(), size: z.int() });

/** Why a job ran a datum, or did not. `inputs` are named as in the specification, paths go from the root of the repo. */
export const KnownWhy = z.discriminatedUnion("reason", [
  /** These inputs had nothing there at the job before, so there was no such datum. */
  z.object({ reason: z.literal("new"), inputs: DatumInputs }),
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

/** What a datum is called: the SHA-256, in hex, of what it reads. Clients make names of folders of it. */
const DatumId = z.string().regex(/^[0-9a-f]{64}$/, { error: "must be 64 lower-case hex digits" });

/** A datum of a job. While it is tried again, `exitCode` and `reason` are of the last try that failed. */
export const JobDatum = z.object({
  id: DatumId,
  state: DatumState,
  /** Tries that failed. */
  tries: z.int(),
  exitCode: z.int().nullable(),
  reason: z.string().nullable(),
  /** The node that it runs or ran on. */
  node: z.string().nullable(),
  /** What made its result, in this job or, if it was skipped, in an earlier one; null: it has none, or that is not known. */
  code: Code.nullable(),
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
  /** Whether that version is of a key that is limited to repos. */
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

/** What a job goes through, in this order; it may be without one. */
export const JobStep = z.object({
  /**
   * `fill`: its datums are worked out. `queued`: they wait for a worker. `datums`: they run. `turn`: the jobs before it end first.
   * `merge`: what the output changes is worked out, and what several datums wrote to one path is merged. `commit`: it is
   * committed. `egress`: it is pushed.
   */
  name: z.enum(["fill", "queued", "datums", "turn", "merge", "commit", "egress"]),
  from: z.int(),
  /** Null: it goes on. */
  to: z.int().nullable(),
});
export type JobStep = z.infer<typeof JobStep>;

/** The later job that succeeded where one had failed, and when it did. */
const Mended = z.object({ job: z.string(), at: z.int() });

/** `GET /jobs/{job}/summary`: a job with its datums put together, whether it has ten or 10,000. */
export const JobSummary = z.object({
  job: Job,
  /** Of one that failed: the first after it that succeeded; absent: there is none among the 1,000 after it. */
  mended: Mended.optional(),
  /** What it went through, and what it is at; empty: that is not kept any more. */
  steps: z.array(JobStep),
  /** How long datums ran that it ran with success; null: none has yet, or that is not kept any more. */
  durations: z
    .object({
      /** So many are counted. */
      count: z.int(),
      /** Whether it ran more than were looked at. */
      more: z.boolean(),
      /** In milliseconds: half of them took no longer; 95 of 100 took no longer; the longest. */
      median: z.int(),
      p95: z.int(),
      longest: z.int(),
      /** Each from the bound of the one before it; `below`: in milliseconds, itself excluded. */
      buckets: z.array(z.object({ below: z.int(), count: z.int() })),
    })
    .nullable(),
  /** Those that took longest, the longest first. */
  slowest: z.array(
    z.object({
      id: z.string(),
      inputs: DatumInputs,
      node: z.string().nullable(),
      millis: z.int(),
    }),
  ),
  /**
   * Datums that failed in the same way, of the first 1,000 by their paths: the largest group first, at most 20. `line`: the last
   * that each printed, and `log`: the last lines of the first one. `…` stands for names of what a datum reads.
   */
  failures: z.array(
    z.object({
      reason: z.string().nullable(),
      exitCode: z.int().nullable(),
      line: z.string().nullable(),
      count: z.int(),
      /** The first 20 of them. */
      datums: z.array(z.object({ id: z.string(), inputs: DatumInputs, node: z.string().nullable() })),
      log: z.array(z.string()),
    }),
  ),
  /** How many datums run now, and the 20 that have run longest; `since`: when a node took it. */
  running: z.object({
    count: z.int(),
    datums: z.array(
      z.object({
        id: z.string(),
        inputs: DatumInputs,
        node: z.string().nullable(),
        since: z.int().nullable(),
      }),
    ),
  }),
  /** The last job before this one that succeeded; null: there is none among the 1,000 before it. */
  lastGood: Job.pick({ id: true, version: true, finishedAt: true, inputs: true }).nullable(),
  /** Datums that failed, by their paths: at most 20. `log`: the last lines that each printed. */
  failed: z.array(
    z.object({
      id: z.string(),
      inputs: DatumInputs,
      node: z.string().nullable(),
      tries: z.int(),
      exitCode: z.int().nullable(),
      reason: z.string().nullable(),
      log: z.array(z.string()),
    }),
  ),
});
export type JobSummary = z.infer<typeof JobSummary>;

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
  /** Where it was written. Absent: it is not known. */
  stream: LogStream.optional(),
  /** What the datum reads: in the first line of each datum, at least. Absent there: it is not kept any more. */
  inputs: DatumInputs.optional(),
  /** So many lines before this one were left out, as the datum printed more than is kept. */
  dropped: z.int().positive().optional(),
  /** The place behind this line: goes into `after`. */
  next: z.string().optional(),
});
export type LogLine = z.infer<typeof LogLine>;

/** So many jobs are looked through for a text, the newest. */
export const MAX_SEARCHED_JOBS = 10_000;

/** A page of jobs, newest first; `next` goes into `after`. */
export const JobPage = z.object({
  jobs: z.array(Job),
  next: z.string().nullable(),
  /** Of a search: how many jobs were looked through up to the end of this page, and when the last of them was made; null: there was none. */
  looked: z.object({ jobs: z.int(), since: z.int().nullable() }).optional(),
});
export type JobPage = z.infer<typeof JobPage>;

/** `GET /now`: what runs, what waits and why, and what failed in the last day, of the repos that the key may read. */
export const Overview = z.object({
  /** When it was so, by the gateway's clock. */
  at: z.int(),
  /** Jobs that have not ended, newest first, each with what it waits for. */
  underWay: z.array(Job),
  /** Jobs that failed in the last day, newest first. `mended`: the first later job of the pipeline that succeeded, and when it did. */
  failed: z.array(Job.extend({ mended: Mended.optional() })),
  /** Jobs that ended last, newest first, for a look at how things go. */
  ended: z.array(
    Job.pick({ id: true, pipeline: true, state: true, createdAt: true, startedAt: true, finishedAt: true }),
  ),
  /** How many failed in the last day: of those that were made before it, only those are counted that are shown. At most 10,000. */
  failedCount: z.int(),
  /** Of which lists there is more than is shown. */
  more: z.object({ underWay: z.boolean(), failed: z.boolean() }),
  pipelines: z.object({
    total: z.int(),
    /** Names of those that are stopped: at most 20. */
    stopped: z.array(z.string()),
  }),
  /** Null: the key is limited to repos, and nodes belong to none. `silent`: not heard of lately. `running`: commands. */
  nodes: z
    .object({
      live: z.int(),
      draining: z.int(),
      silent: z.int(),
      running: z.int(),
      /** How many commands can run at once; null: a node does not say. */
      room: z.int().nullable(),
    })
    .nullable(),
});
export type Overview = z.infer<typeof Overview>;

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
  /** Whether it belongs to a key that is limited to repos: the one that last created or updated it. */
  limited: z.boolean(),
  /** JSON paths of what the specification has and this key may not see: it may not read all of the inputs. */
  hidden: z.array(z.string()).optional(),
  /** What it waits for before it makes its first job, in words; null if it waits for nothing. */
  reason: z.string().nullable(),
});
export type Pipeline = z.infer<typeof Pipeline>;

/** A version of a pipeline's specification, without the specification. */
export const PipelineVersion = z.object({
  version: z.int(),
  /** Whether it is the one that holds now. */
  present: z.boolean(),
  /** When it was submitted. */
  createdAt: z.int(),
  /** The id of the key that submitted it; null: it is not known. */
  key: z.string().nullable(),
  /** What that key is for, for keys that may list keys. Absent: nothing was said of it, or it is gone. */
  keyDescription: z.string().optional(),
  /** As `Pipeline.limited`. */
  limited: z.boolean(),
  /** The fields that differ from the version before, by their paths; null: there was none, or it is kept no more. */
  changes: z.array(z.string()).nullable(),
  /** Whether results of the version before count no more. */
  runsAll: z.boolean(),
  /** Whether the text is kept that it was read from. */
  hasText: z.boolean(),
});
export type PipelineVersion = z.infer<typeof PipelineVersion>;

/** Most versions in one page; a page may be shorter though more follow. */
export const MAX_LIST_VERSIONS = 100;

/** `GET /pipelines/{name}/versions?after=&limit=`: newest first; `next` goes into `after`. */
export const PipelineVersionPage = z.object({
  versions: z.array(PipelineVersion),
  next: z.int().nullable(),
});
export type PipelineVersionPage = z.infer<typeof PipelineVersionPage>;

/** `GET /pipelines/{name}/versions/{version}`: one version whole; `latest` is the present one. */
export const WholePipelineVersion = PipelineVersion.extend({
  pipeline: z.string(),
  spec: PipelineSpec,
  /** The text that it was read from. Absent: none is kept, or the key may not see it. */
  text: z.string().optional(),
  /** What this key may not see, as JSON paths; `text` is the text. It may not read all inputs of this version and of the present one. */
  hidden: z.array(z.string()).optional(),
});
export type WholePipelineVersion = z.infer<typeof WholePipelineVersion>;

/** A job as a bar: how it ended, or that it has not, and how long it took. */
export const Run = Job.pick({ id: true, state: true, createdAt: true, startedAt: true, finishedAt: true });
export type Run = z.infer<typeof Run>;

/** What a pipeline is at: the oldest of its jobs that have not ended. */
export const UnderWay = Job.pick({ id: true, state: true, reason: true, waitsFor: true }).extend({
  /** How many of its jobs have not ended. */
  jobs: z.int(),
});
export type UnderWay = z.infer<typeof UnderWay>;

/** Most of its last jobs that a list shows of each pipeline. */
export const MAX_RUNS = 30;
/** Most pipelines in one page of a list that shows jobs. */
export const MAX_LIST_WITH_RUNS = 50;

export const PipelineList = z.object({
  pipelines: z.array(
    z.object({
      name: z.string(),
      state: PipelineState,
      createdAt: z.int(),
      inputs: z.array(z.string()),
      output: z.string(),
      /** As in its specification. */
      description: z.string().optional(),
      /** Its last jobs, newest first. Absent: they were not asked for. */
      runs: z.array(Run).optional(),
      /** Absent: nothing is, or it was not asked for. */
      underWay: UnderWay.optional(),
    }),
  ),
  /** Goes into `after`. Null: these are the last ones. Absent: these are all, in one answer. */
  next: z.string().nullable().optional(),
  /** How many there are on all pages. Absent: as above. */
  total: z.int().optional(),
});
export type PipelineList = z.infer<typeof PipelineList>;

const Neighbour = z.object({ bucket: z.string(), pipeline: z.string() });

/** `GET /pipelines/{name}/summary`: a pipeline, its last jobs, and what is before and after it. */
export const PipelineSummary = z.object({
  pipeline: Pipeline,
  /** The last ones, newest first: at most 30. */
  jobs: z.array(Job),
  /** Whether there are older ones. */
  more: z.boolean(),
  /** Which pipelines make what it reads, and which read what it makes: those that the key may read. */
  makers: z.array(Neighbour),
  readers: z.array(Neighbour),
});
export type PipelineSummary = z.infer<typeof PipelineSummary>;

/** `GET /graph`: all pipelines that the key may read, what feeds what, and how each stands. Buckets are named. */
export const PipelineGraph = z.object({
  pipelines: z.array(
    z.object({
      name: z.string(),
      state: PipelineState,
      inputs: z.array(z.string()),
      /** What it writes to: its output, and the branch that tells of bad datums if it has one. */
      outputs: z.array(z.string()),
      /** Its newest job. Absent: it has none. */
      job: Run.optional(),
      /** Absent: nothing is. */
      underWay: UnderWay.optional(),
    }),
  ),
});
export type PipelineGraph = z.infer<typeof PipelineGraph>;

/**
 * What became of a commit at a pipeline that reads its branch. `running`: its job has not ended, or is about to be made.
 * `none`: it makes no job of it. `unknown`: its job is kept no more. The others are how its job ended.
 */
export const FateState = z.enum(["running", "success", "failure", "killed", "none", "unknown"]);
export type FateState = z.infer<typeof FateState>;

/**
 * `GET …/commits/{id}/downstream`: what became of a commit at pipelines whose own repo the key may not read, and of what
 * these made of it, and so on. Of a key for all repos there are none.
 */
export const Downstream = z.object({
  /** So many are known to the key by their state alone, as they read something that it may not read. */
  unseen: z.record(FateState, z.int()),
  /** Those that read nothing but what the key may read. The reason has nothing that a command printed. */
  named: z.array(z.object({ pipeline: z.string(), state: FateState, reason: z.string().nullable() })),
  /** Pipelines that the key may read and that are among the others: their jobs are asked for as all jobs are. */
  seen: z.array(
    z.object({
      pipeline: z.string(),
      state: FateState,
      job: z.string().nullable(),
      /** Why there is no job. */
      reason: z.string().nullable(),
    }),
  ),
  /** Whether all of the page have come to their end. */
  ended: z.boolean(),
  /** Whether more come after one of them than are looked at: nothing is known of those. */
  more: z.boolean(),
  /** Goes into `after`; null: that was all. */
  next: z.int().nullable(),
});
export type Downstream = z.infer<typeof Downstream>;

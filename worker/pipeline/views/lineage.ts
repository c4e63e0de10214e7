import type { Maker } from "../../../protocol/commits.ts";
import type { BranchAddress } from "../../../protocol/names.ts";
import type { Pipeline } from "../../../protocol/pipelines.ts";
import type { FileSpans } from "../../branch/contract/erasures.ts";
import { datumPaths } from "../../core/datums.ts";
import type { PipelineContext } from "../context.ts";
import type {
  ComputedOutput,
  Fate,
  FateCall,
  MakerPage,
  OutputsCall,
  OutputsPage,
  ProvenanceCall,
} from "../contract.ts";
import { candidates } from "../inputs/candidates.ts";
import { isAfter } from "../inputs/source-store.ts";
import type { JobRow } from "../jobs/job-store.ts";
import type { Ledger } from "../ledger/ledger.ts";
import { type Definition, errorsOf } from "../lifecycle/definition.ts";
import type { MadePlace, MakerRow } from "../output/published-store.ts";
import { failureText } from "../output/reasons.ts";
import { entryAt, isKept } from "./datums.ts";
import { shownJob } from "./job.ts";
import { foundPipeline } from "./pipeline.ts";

/** The datums that made a path of a job's output commit, and what they read at that job, however long ago it was. */
export async function makersOf(
  context: PipelineContext,
  { job: id, branch, path, after, limit }: ProvenanceCall,
): Promise<MakerPage | "no-such-job" | "not-yet"> {
  const { ledger } = context;
  const row = ledger.exists ? ledger.pipeline.row() : undefined;
  const present = row && ledger.pipeline.definition();
  // Its output branch is that of all versions.
  if (present && (branch ?? present.output.branch) !== present.output.branch)
    return { datums: [], next: null };
  const job = row && ledger.jobs.byId(id);
  if (!row || !job) return "no-such-job";
  const definition = ledger.pipeline.versionOf(job);
  if (job.n > row.committed) return "not-yet";
  const makers = ledger.makers.of(path, { job: job.n, after, limit });
  const datums: Maker[] = [];
  for (const maker of makers) {
    const inputs = await inputsOf(context, { definition, job, key: maker.key });
    datums.push({ ...ranOf(ledger, { job, maker }), inputs });
  }
  // A full page may have others after it.
  return { datums, next: makers.length === limit ? (makers.at(-1)?.key ?? null) : null };
}

/** Where a datum ran, how it ended and what ran it, as far as that is kept. */
function ranOf(
  { results, jobs, attempts, codes }: Ledger,
  { job, maker: { id, salt, code: published } }: { job: JobRow; maker: MakerRow },
): Omit<Maker, "inputs"> {
  const result = results.origin({ id, salt });
  // The datum may have run again since, as its content was gone: then this job has what ran it before.
  const origin = result && result.job <= job.n ? result : undefined;
  // What a job ran is known for longer than the results of an earlier version.
  const own = attempts.get(job.n, id);
  const isOwn = own?.state === "success";
  const ran = isOwn ? job : origin && jobs.get(origin.job);
  const attempt = isOwn ? own : ran && attempts.get(ran.n, id);
  const code = codes.get(origin ? origin.code : published);
  return {
    id,
    state: isOwn || origin?.job === job.n ? "success" : "skipped",
    job: ran?.id ?? null,
    node: attempt?.node ?? code?.node ?? null,
    exitCode: (isOwn ? own.exitCode : origin?.exitCode) ?? null,
    code,
  };
}

async function inputsOf(
  { ledger, peers }: PipelineContext,
  { definition, job, key }: { definition: Definition; job: JobRow; key: string },
): Promise<Maker["inputs"]> {
  const paths = datumPaths(key);
  return await Promise.all(
    definition.inputs.map(async ({ name, repo, branch, source }, input) => {
      const path = paths[input] ?? "";
      const position = job.positions[source];
      const commit = position?.commit ?? null;
      const read = { name, repo, branch, commit, path };
      const known = ledger.elements.at({ input, path, job: job.n })?.kind;
      const kept = commit === null || (await isKept(peers.branch({ repo, branch }), commit));
      // Whether it was a file or a directory is not known any more: it is shown as it is named.
      if (!kept) return { ...read, kind: known ?? "file", kept: false };
      // The element itself may be kept no more. What was erased is shown as it is named, too.
      if (known !== undefined || !position || commit === null) return { ...read, kind: known ?? "file" };
      const entry = await entryAt(peers.branch({ repo, branch }), path, { ...position, commit });
      return entry === "not-kept"
        ? { ...read, kind: "file", kept: false }
        : { ...read, kind: entry?.kind ?? "file" };
    }),
  );
}

/** Rows of the history of outputs that one call looks at: what takes some tens of milliseconds. */
const ROWS = 2000;

/**
 * The files of outputs whose datums read files of an input, as the branch had them in some commits: by the history of
 * outputs, which is kept as long as those. There is no index for that question, since only people ask it, about what they
 * erase.
 */
export function computedFrom(ledger: Ledger, { repo, branch, files, after }: OutputsCall): OutputsPage {
  if (!ledger.exists || !ledger.pipeline.definition()) return { outputs: [], next: null };
  const place: MadePlace = after === undefined ? { path: "", born: 0, key: "" } : JSON.parse(after);
  const { rows, next } = ledger.makers.page(place, ROWS);
  const outputs: ComputedOutput[] = [];
  const readers = new Map<number, readonly Reader[]>();
  for (const row of rows) {
    const job = ledger.jobs.get(row.born);
    if (!job) continue;
    const definition = ledger.pipeline.versionOf(job);
    const reading = readers.get(job.revision) ?? readersOf(definition, { repo, branch, files });
    readers.set(job.revision, reading);
    const paths = datumPaths(row.key);
    const reads = reading.some(({ input, source, elements }) => {
      const at = job.positions[source];
      return elements
        .get(paths[input] ?? "")
        ?.some(
          ({ generation, spans }) =>
            at?.generation === generation && spans.some(({ born, died }) => at.seq >= born && at.seq < died),
        );
    });
    if (!reads) continue;
    outputs.push({ ...definition.output, path: row.path, job: job.id, commit: job.outputCommit });
  }
  return { outputs, next: next && JSON.stringify(next) };
}

/** An input that reads the branch. */
interface Reader {
  /** Which of the inputs it is. */
  readonly input: number;
  readonly source: number;
  /** The elements that hold some of the files, and when they did. */
  readonly elements: ReadonlyMap<string, readonly FileSpans[]>;
}

function readersOf({ inputs }: Definition, { repo, branch, files }: Omit<OutputsCall, "after">): Reader[] {
  return inputs.flatMap((input, index) => {
    if (input.repo !== repo || input.branch !== branch) return [];
    const elements = new Map<string, FileSpans[]>();
    for (const file of files) {
      for (const { path } of candidates([{ path: file.path, now: null }], new Map([[index, input]]))) {
        const there = elements.get(path) ?? [];
        elements.set(path, there);
        there.push(file);
      }
    }
    return [{ input: index, source: input.source, elements }];
  });
}

/** Jobs looked at, the newest first, for one that an event of another input made. */
const MAX_LOOKED_AT = 1000;
const PAGE = 100;

/**
 * What became of a commit on an input: the oldest job that has it, or why there is none. A pipeline that makes none is
 * never said to be at it, so nobody waits for it. Returns undefined if there is no pipeline.
 */
export async function fateOf(context: PipelineContext, call: FateCall): Promise<Fate | undefined> {
  const { ledger } = context;
  const found = foundPipeline(ledger);
  const definition = found && ledger.pipeline.definition();
  if (!found || !definition) return undefined;
  const job = jobWith(ledger, { definition, call });
  if (typeof job === "object") return await fateOfJob(context, { definition, job });
  const reads = reposOf(definition);
  const none = whyNone(ledger, { definition, call, pipeline: found.pipeline });
  const nothing = { job: null, reads, outputs: [] };
  if (none === undefined) return { state: "running", reason: null, ...nothing };
  if (job === "not-kept") return { state: "unknown", reason: "its job is kept no more", ...nothing };
  return { state: "none", reason: none, ...nothing };
}

async function fateOfJob(
  context: PipelineContext,
  { definition, job }: { definition: Definition; job: JobRow },
): Promise<Fate> {
  const { ledger } = context;
  const own = ledger.pipeline.versionOf(job);
  const { state, id } = job;
  const made = [
    { address: own.output, commit: job.outputCommit },
    { address: errorsOf(own), commit: job.errorsCommit },
  ];
  return {
    state: state === "success" || state === "failure" || state === "killed" ? state : "running",
    reason: await outlineOf(context, { definition: own, job }),
    job: id,
    reads: [...new Set([...reposOf(definition), ...reposOf(own)])],
    outputs: made.flatMap(({ address, commit }) => (commit === null ? [] : [{ ...address, commit }])),
  };
}

function reposOf({ sources }: Definition): string[] {
  return [...new Set(sources.map(({ repo }) => repo))];
}

/**
 * The oldest job that has the commit in its inputs. `not-kept`: there may have been one. If the commit itself made the job,
 * as it nearly always does, one row is read, however long ago that was.
 */
function jobWith(
  ledger: Ledger,
  { definition, call }: { definition: Definition; call: FateCall },
): JobRow | "none" | "not-kept" {
  const source = sourceOf(definition, call);
  const { revision } = definition;
  const own = call.at && source >= 0 && ledger.jobs.ofEvent({ ...call.at, source }, revision);
  return own || searched(ledger, call);
}

/** The same among the newest jobs, of whatever version. They are in the order of what they read of the branch. */
function searched({ jobs, pipeline }: Ledger, call: FateCall): JobRow | "none" | "not-kept" {
  let oldest: JobRow | undefined;
  let last = 1;
  for (const job of newest(jobs)) {
    const read = job.positions[sourceOf(pipeline.versionOf(job), call)];
    if (read?.commit === call.commit) oldest = job;
    else if (read && call.at && isAfter(call.at, read)) return oldest ?? "none";
    last = job.n;
  }
  return oldest ?? (last > 1 ? "not-kept" : "none");
}

function* newest(jobs: Ledger["jobs"]): Generator<JobRow> {
  let before = AFTER_ALL_IDS;
  for (let looked = 0; looked < MAX_LOOKED_AT; looked += PAGE) {
    const page = jobs.before(before, { limit: PAGE });
    yield* page;
    const last = page.at(-1);
    if (!last || page.length < PAGE) return;
    before = last.id;
  }
}

/** Greater than every job id. */
const AFTER_ALL_IDS = "~";

function sourceOf({ sources }: Definition, { repo, branch }: BranchAddress): number {
  return sources.findIndex((source) => source.repo === repo && source.branch === branch);
}

const CHANGING: readonly Pipeline["state"][] = ["creating", "starting", "updating"];

/** Why a pipeline makes no job of a commit of which it has none; undefined: it is about to make one. */
function whyNone(
  { sources, pipeline: row }: Ledger,
  { definition, call, pipeline }: { definition: Definition; call: FateCall; pipeline: Pipeline },
): string | undefined {
  const { at } = call;
  const { state, reason } = pipeline;
  if (CHANGING.includes(state)) return undefined;
  if (state !== "active") return `it is ${state}`;
  const source = sourceOf(definition, call);
  const cursor = sources.all()[source];
  if (!cursor) return "it reads the branch no more";
  const inputs = definition.inputs.filter((input) => input.source === source);
  const isBehind = at !== null && inputs.every(({ start }) => start !== null && !isAfter(at, start));
  if (isBehind) return "its input begins behind the commit";
  // What is not read yet may fill an input that seems to be empty.
  const isUnread = (at !== null && isAfter(at, cursor)) || (reason !== null && row.row()?.pullDue === 1);
  if (isUnread && row.behind() === null) return undefined;
  return reason ?? "it began with a later commit";
}

/** Reasons that have no names, numbers, or words of a runner in them. */
const PLAIN: readonly string[] = [
  ...["it was stopped", "the pipeline was stopped", "the pipeline was updated", "input erased"],
  ...["its datums are being worked out", "its output is being committed"],
  "what several datums wrote to one path is being put together",
  "no live runner: start one with `sluice runner`",
  "every node is being drained: let one take work again with `sluice node resume`",
  "no live node has a worker for it yet",
];

/**
 * The reason of a job, for who may read what it read. A reason as `GET /jobs/{id}` has it may hold what a command printed, where
 * egress goes, and names of nodes and images: of that nothing is told. What is not known to have none of it is not told
 * either.
 */
async function outlineOf(
  context: PipelineContext,
  { definition, job }: { definition: Definition; job: JobRow },
): Promise<string | null> {
  const { ledger } = context;
  const { reason } = await shownJob(context, job);
  if (reason === null || PLAIN.includes(reason)) return reason;
  if (job.finishedAt === null) return reason.startsWith("behind job ") ? "behind an earlier job" : null;
  if (job.state === "success") return job.failed > 0 ? "datums failed and are left out" : null;
  const timeout = `the job ran longer than ${definition.spec.jobTimeout} (jobTimeout)`;
  if (reason === timeout) return timeout;
  const [first] = ledger.attempts.failed(job.n, { after: null, limit: 1 });
  if (!first) return null;
  const quiet = { ...first, reason: null, log: null };
  const begins = failureText(definition, { first: { ...quiet, exitCode: null }, count: 1 });
  // The job may have failed for another reason, although datums of it did.
  return reason.includes(begins) ? failureText(definition, { first: quiet, count: 1 }) : null;
}

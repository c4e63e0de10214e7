import type { ContentId } from "../../../protocol/content.ts";
import type { FileEntry } from "../../../protocol/files.ts";
import type {
  DatumDetail,
  DatumOutput,
  DatumOutputPage,
  DatumPage,
  JobDatum,
} from "../../../protocol/pipelines.ts";
import type { LeasedDatum } from "../../../protocol/runner.ts";
import type { AnswerOf } from "../../branch/contract/answers.ts";
import type { BranchApi } from "../../branch/contract/api.ts";
import type { FeedCalls } from "../../branch/contract/pipelines.ts";
import { datumPaths } from "../../core/datums.ts";
import type { ShownAttempt } from "../attempts/attempt-store.ts";
import type { PipelineContext } from "../context.ts";
import type { DatumCall } from "../contract.ts";
import type { DatumRow } from "../inputs/datum-store.ts";
import type { Position } from "../inputs/source-store.ts";
import type { JobRow } from "../jobs/job-store.ts";
import type { Ledger } from "../ledger/ledger.ts";
import type { Definition } from "../lifecycle/definition.ts";
import type { MadePlace } from "../output/published-store.ts";

/** A place in the list: among what the job ran, by id, or among what it has beside that, by key. */
type ListPlace =
  | { readonly of: "attempts"; readonly id: string }
  | { readonly of: "rest"; readonly key: string | null };

/**
 * The datums of a job, first what it ran or is to run, then what it inherited. Returns
 * undefined if `after` is no place. Of a job long past (trim.ts) and of what has died since, only what is still kept.
 */
export function listDatums(
  ledger: Ledger,
  { job, after, limit }: { job: JobRow; after: string | undefined; limit: number },
): DatumPage | undefined {
  const place = after === undefined ? FIRST : parseListPlace(after);
  if (!place) return undefined;
  if (place.of === "rest") return restOf(ledger, { job, after: place.key, limit });
  const rows = ledger.attempts.ofJob(job.n, { after: place.id, limit });
  const datums = rows.map((row) => shown(ledger, { job, attempt: row }));
  const last = rows.at(-1);
  const next: ListPlace =
    last && rows.length === limit ? { of: "attempts", id: last.id } : { of: "rest", key: null };
  return { datums, next: listText(next) };
}

/** What a job has without a row of its own: it has a result, or it will get a row when it is the job's turn. */
function restOf(
  ledger: Ledger,
  { job, after, limit }: { job: JobRow; after: string | null; limit: number },
): DatumPage {
  // Until its datums are worked out, those that are there are the ones of the job before.
  if (!isWorkedOut(job)) return { datums: [], next: null };
  const rows = ledger.datums.ofJob(job.n, { after, limit });
  const datums = rows
    .filter(({ id }) => ledger.attempts.get(job.n, id) === undefined)
    .map((row) => inherited(ledger, { job, row }));
  const last = rows.at(-1);
  return { datums, next: last && rows.length === limit ? listText({ of: "rest", key: last.key }) : null };
}

/** Whether it is known which datums a job has. One that was ended early may never come to that. */
function isWorkedOut({ fill }: JobRow): boolean {
  return fill.step === "done";
}

/** A datum that a job runs or ran. */
function shown(ledger: Ledger, { job, attempt }: { job: JobRow; attempt: ShownAttempt }): JobDatum {
  const { id, key, tries, exitCode, reason, node } = attempt;
  const waits = attempt.state === "waiting";
  // What ended with its job may not have been called off yet.
  const over =
    job.finishedAt !== null && (waits || attempt.state === "queued" || attempt.state === "running");
  const state = over ? "killed" : waits ? "queued" : attempt.state;
  const { salt } = ledger.pipeline.versionOf(job);
  const code = codeOf(ledger, { job, id, salt });
  return { id, state, tries, exitCode, reason, node, code, inputs: shownInputs(ledger, { job, key }) };
}

/** A datum that a job has without running it. */
function inherited(ledger: Ledger, { job, row }: { job: JobRow; row: DatumRow }): JobDatum {
  const { id, key, salt } = row;
  const undone = job.finishedAt === null ? "queued" : "killed";
  const done = job.state === "success" || ledger.results.has(id, salt);
  const state = done ? "skipped" : undone;
  const inputs = shownInputs(ledger, { job, key });
  const code = codeOf(ledger, { job, id, salt });
  return { id, state, tries: 0, exitCode: null, reason: null, node: null, code, inputs };
}

/** What made the result that a datum has in a job. One that was made later is of no matter to the job. */
function codeOf(
  { results, codes }: Ledger,
  { job, id, salt }: { job: JobRow; id: string; salt: string },
): JobDatum["code"] {
  const origin = results.origin({ id, salt });
  return origin && origin.job <= job.n ? codes.get(origin.code) : null;
}

function shownInputs(ledger: Ledger, { job, key }: { job: JobRow; key: string }): JobDatum["inputs"] {
  const paths = datumPaths(key);
  return ledger.pipeline.versionOf(job).inputs.map(({ name, source }, index) => ({
    name,
    path: paths[index] ?? "",
    commit: job.positions[source]?.commit ?? null,
  }));
}

const FIRST: ListPlace = { of: "attempts", id: "" };

function listText(place: ListPlace): string {
  return place.of === "attempts"
    ? `a${place.id}`
    : `r${place.key === null ? "" : `=${encodeURIComponent(place.key)}`}`;
}

function parseListPlace(text: string): ListPlace | undefined {
  if (text.startsWith("a")) return { of: "attempts", id: text.slice(1) };
  if (text === "r") return { of: "rest", key: null };
  const key = text.startsWith("r=") ? decoded(text.slice(2)) : undefined;
  return key === undefined ? undefined : { of: "rest", key };
}

function decoded(text: string): string | undefined {
  try {
    return decodeURIComponent(text);
  } catch {
    return undefined;
  }
}

/*
 * One datum of a job, with all that it takes to run it again elsewhere: what its job read, the command of the version that
 * its job was made for, and which files the job has of it.
 *
 * Versions of a specification are kept for good, and so is which datum each path of an output commit came from. The
 * contents that a datum wrote go with its result, once a version with another transform has committed. Then only the output
 * commit has them, merged with those of others if several datums wrote to a path.
 */

type Missing = "no-such-job" | "no-such-datum" | "several-datums";

/** The datum of a job whose id begins so, if there is no other. */
export function findDatum(
  ledger: Ledger,
  { job, datum }: { job: JobRow; datum: string },
): { datum: string } | "no-such-datum" | "several-datums" {
  const found = ledger.datums.startingWith(datum, job.n);
  const [first] = found;
  if (first === undefined) return "no-such-datum";
  return found.length > 1 && first !== datum ? "several-datums" : { datum: first };
}

interface FoundDatum {
  readonly job: JobRow;
  readonly definition: Definition;
  readonly datum: DatumDetail["datum"];
  readonly key: string;
  /** Under which its result counts. */
  readonly salt: string;
}

function find(ledger: Ledger, { job: id, datum }: DatumCall): FoundDatum | Missing {
  const job = ledger.exists ? ledger.jobs.byId(id) : undefined;
  if (!job) return "no-such-job";
  const definition = ledger.pipeline.versionOf(job);
  const found = findDatum(ledger, { job, datum });
  if (typeof found === "string") return found;
  const row = isWorkedOut(job) ? ledger.datums.byId(found.datum, job.n) : undefined;
  const attempt = ledger.attempts.get(job.n, found.datum);
  const salt = row?.salt ?? definition.salt;
  if (attempt) return { job, definition, salt, key: attempt.key, datum: shown(ledger, { job, attempt }) };
  return row
    ? { job, definition, salt, key: row.key, datum: inherited(ledger, { job, row }) }
    : "no-such-datum";
}

/** The datum whose id begins as asked, with what it takes to run it again. */
export async function datumDetail(
  context: PipelineContext,
  call: DatumCall,
): Promise<DatumDetail | Missing | "input-gone" | "input-not-kept"> {
  const { ledger } = context;
  const found = find(ledger, call);
  if (typeof found === "string") return found;
  const { job, definition, datum } = found;
  const { spec, output, limited, revision } = definition;
  const inputs = await inputsOf(context, found);
  if (typeof inputs === "string") return inputs;
  return {
    job: job.id,
    pipeline: definition.name,
    version: revision,
    datum,
    transform: spec.transform,
    ...(spec.datumTimeout !== undefined && { datumTimeout: spec.datumTimeout }),
    limited,
    inputs,
    output,
    outputCommit: job.outputCommit,
    outputs: keptOutputs(ledger, found),
  };
}

/** What it reads at its job, as a lease would say it. Elements of long ago are looked up in the branch. */
async function inputsOf(
  { ledger, peers }: PipelineContext,
  { job, definition, key }: FoundDatum,
): Promise<LeasedDatum["inputs"] | "input-gone" | "input-not-kept"> {
  const paths = datumPaths(key);
  const inputs: LeasedDatum["inputs"] = [];
  for (const [input, { name, repo, branch, source, lazy, from }] of definition.inputs.entries()) {
    const path = paths[input] ?? "";
    const position = job.positions[source];
    if (!position?.commit) return "input-gone";
    const element = ledger.elements.at({ input, path, job: job.n });
    // What is a file is read by its content alone.
    if (element?.kind !== "file" && !(await isKept(peers.branch({ repo, branch }), position.commit)))
      return "input-not-kept";
    const { commit } = position;
    const found = element ?? (await entryAt(peers.branch({ repo, branch }), path, { ...position, commit }));
    if (!found) return "input-gone";
    if (found === "not-kept") return "input-not-kept";
    const { kind } = found;
    const content = kind === "file" ? { digest: found.digest, size: found.size } : null;
    inputs.push({ name, repo, branch, commit, path, kind, content, lazy, from });
  }
  return inputs;
}

/** Whether a branch keeps a commit, so that its files can be asked for. */
export async function isKept(branch: BranchApi, commit: string): Promise<boolean> {
  return (await branch.feed.kept({ commits: [commit] })).kept.length > 0;
}

type Entry = (ContentId & { readonly kind: "file" }) | { readonly kind: "dir" };

/** What is there: a file or a directory; undefined: nothing any more, as it was erased. The branch may have given up the commit just now. */
export async function entryAt(
  branch: BranchApi,
  path: string,
  position: Position & { readonly commit: string },
): Promise<Entry | "not-kept" | undefined> {
  try {
    const first = path === "" ? undefined : await firstFile(branch, path, position);
    if (first?.path === path) return { kind: "file", digest: first.digest, size: first.size };
    const below = path === "" ? "" : `${path}/`;
    return (await firstFile(branch, below, position)) && { kind: "dir" };
  } catch (error) {
    if (await isKept(branch, position.commit)) throw error;
    return "not-kept";
  }
}

/** The first of the files whose paths begin with a prefix. */
async function firstFile(
  branch: BranchApi,
  prefix: string,
  { generation, seq }: Position,
): Promise<FileEntry | undefined> {
  for (let after: string | null = ""; after !== null; ) {
    const page: AnswerOf<FeedCalls["filesAt"]> = await branch.feed.filesAt({
      ...{ generation, seq, prefix, after },
      limit: 1,
    });
    const [first] = page.files;
    if (first) return first;
    after = page.next;
  }
  return undefined;
}

function keptOutputs(
  ledger: Ledger,
  { job, datum, salt }: Omit<FoundDatum, "definition" | "key">,
): DatumDetail["outputs"] {
  if (datum.state !== "success" && datum.state !== "skipped") return "none";
  if (ledger.results.has(datum.id, salt)) return "kept";
  return isRecorded(ledger, job) ? "paths" : "gone";
}

/** Whether it is written down which datums made the paths of the job's output commit. */
function isRecorded(ledger: Ledger, job: JobRow): boolean {
  return job.outputCommit !== null && job.n <= ledger.pipeline.existing.committed;
}

/** Rows of the history of outputs that one call looks through. */
const MADE_PER_CALL = 5000;

/** The files that a job has of a datum: by the datum's result, else by the history of outputs. */
export function datumOutputs(
  { ledger }: PipelineContext,
  { after, limit, ...call }: DatumCall & { readonly after?: string; readonly limit: number },
): DatumOutputPage | Missing | "no-such-place" {
  const found = find(ledger, call);
  if (typeof found === "string") return found;
  const place = after === undefined ? undefined : parsePlace(after);
  if (after !== undefined && !place) return "no-such-place";
  const kept = keptOutputs(ledger, found);
  if (kept === "none" || kept === "gone") return { outputs: [], next: null };
  if (kept === "kept" && place?.of !== "made") return resultPage(ledger, found, { from: place?.path, limit });
  return madePage(ledger, found, place?.of === "made" ? place.at : { path: "", born: 0, key: "" });
}

function resultPage(
  ledger: Ledger,
  { job, datum: { id }, salt }: FoundDatum,
  { from = "", limit }: { from: string | undefined; limit: number },
): DatumOutputPage {
  const rows = ledger.results.outputs({ id, salt }, { from, limit: limit + 1 });
  const outputs = rows.slice(0, limit).map(
    ({ path, digest, size }): DatumOutput => ({
      path,
      content: { digest, size },
      merged: isMerged(ledger, job, path),
    }),
  );
  const next = rows[limit];
  return { outputs, next: next ? textOf({ of: "result", path: next.path }) : null };
}

function madePage(
  ledger: Ledger,
  { job, datum: { id }, salt }: FoundDatum,
  after: MadePlace,
): DatumOutputPage {
  const { paths, next } = ledger.makers.pathsOf({ id, salt }, { job: job.n, after, scan: MADE_PER_CALL });
  const outputs = paths.map(
    (path): DatumOutput => ({ path, content: null, merged: isMerged(ledger, job, path) }),
  );
  return { outputs, next: next && textOf({ of: "made", at: next }) };
}

/** Whether the job has the path from several datums. A job that has committed nothing merges nothing. */
function isMerged(ledger: Ledger, job: JobRow, path: string): boolean {
  return isRecorded(ledger, job) && ledger.makers.of(path, { job: job.n, after: null, limit: 2 }).length > 1;
}

type Place =
  | { readonly of: "result"; readonly path: string }
  | { readonly of: "made"; readonly at: MadePlace };

function textOf(place: Place): string {
  if (place.of === "result") return `r${encodeURIComponent(place.path)}`;
  const { path, born, key } = place.at;
  return `m${[path, String(born), key].map(encodeURIComponent).join("/")}`;
}

function parsePlace(text: string): Place | undefined {
  const parts = decodedParts(text.slice(1));
  const [path, born = "", key] = parts ?? [];
  if (path === undefined) return undefined;
  if (text.startsWith("r") && parts?.length === 1) return { of: "result", path };
  if (!text.startsWith("m") || key === undefined || !/^[0-9]{1,15}$/.test(born)) return undefined;
  return { of: "made", at: { path, born: Number(born), key } };
}

function decodedParts(text: string): string[] | undefined {
  const parts = text.split("/").map(decoded);
  return parts.every((part) => part !== undefined) ? parts : undefined;
}

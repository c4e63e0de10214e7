import type { LogStream } from "../../../protocol/runner.ts";
import { WaitTime } from "../../objects/waiters.ts";
import type { PipelineContext } from "../context.ts";
import type { LogCalls, LogChunk, LogPage, LogsCall } from "../contract.ts";
import type { JobRow } from "../jobs/job-store.ts";
import type { Ledger } from "../ledger/ledger.ts";
import type { ChunkLine, KeptChunk, Tail } from "../logs/log-store.ts";
import { findDatum } from "./datums.ts";
import { inputsOf } from "./said.ts";

/** Datums whose last lines are read at a time, of which nothing else is kept. */
const TAILS_PER_PAGE = 100;
/** Where the tails begin: they come after all that was kept as it came. */
const FIRST_TAIL = "t.0";

/** A page of what a job printed. If the job is followed and has nothing more, waits for more or for its end. */
export async function answerLogs(
  { ledger, peers, memory }: PipelineContext,
  { job: id, datum, after, waitMs, tail, stream }: LogsCall,
): ReturnType<LogCalls["read"]> {
  const time = new WaitTime(waitMs ?? 0, peers.now);
  for (;;) {
    const job = ledger.exists ? ledger.jobs.byId(id) : undefined;
    if (!job) return { ok: false, reason: "no-such-job" };
    const page = readLogs(ledger, { job, datum, after, tail, stream, follows: waitMs !== null });
    if (typeof page === "string") return { ok: false, reason: page };
    const { leftMs } = time;
    if (page.rest !== "later" || page.chunks.length > 0 || leftMs <= 0) return { ok: true, ...page };
    await memory.logged.wait(id, leftMs);
  }
}

/**
 * A place behind so many lines of a chunk that was kept, or of a datum's tail. A place behind no line of a tail is behind
 * the whole datum (its lines count from one); one of no datum is where the tails begin.
 */
type Place = ({ readonly seq: number } | { readonly tail: string }) & { readonly seen: number };

interface Question {
  readonly job: JobRow;
  /** An id, or what it begins with. */
  readonly datum: string | undefined;
  readonly after: string | null;
  /** Without a place: so many of the last lines. */
  readonly tail: number | undefined;
  /** On which the last lines came; undefined: on both. */
  readonly stream: LogStream | undefined;
  /** Whether what will yet be printed is asked for, too. */
  readonly follows: boolean;
}

/**
 * What a job's datums printed, in the order in which it came, then the last lines of failed datums of which nothing
 * came. Of one datum also what it printed in an earlier job, if this one skipped it for its result.
 */
function readLogs(
  ledger: Ledger,
  { job, datum, after, tail, stream, follows }: Question,
): LogPage | "no-such-datum" | "several-datums" | "no-such-place" {
  const asked = parsePlace(after);
  if (!asked) return "no-such-place";
  const found = datum === undefined ? undefined : findDatum(ledger, { job, datum });
  if (found === "no-such-datum" || found === "several-datums") return found;
  const at =
    found === undefined
      ? { job: job.n }
      : { job: homeOf(ledger, { job, id: found.datum }), datum: found.datum };
  const place =
    after === null && tail !== undefined ? ledger.logs.end(at.job, { ...at, stream, lines: tail }) : asked;
  return withInputs(
    ledger,
    at.job,
    pageAt(ledger, { at, place, follows: follows && job.finishedAt === null, after }),
  );
}

function pageAt(
  ledger: Ledger,
  { at, place, follows, after }: { at: At; place: Place; follows: boolean; after: string | null },
): LogPage {
  if ("tail" in place) return tailPage(ledger, { at, place });
  const page = keptPage(ledger, { at, place });
  if (page.rest === "more") return page;
  if (follows) return { ...page, after: page.after ?? after, rest: "later" };
  if (page.chunks.length > 0) return { ...page, after: FIRST_TAIL, rest: "more" };
  return tailPage(ledger, { at, place: { tail: "", seen: 0 } });
}

/** Says of the first piece of each datum what that reads. */
function withInputs(ledger: Ledger, n: number, page: LogPage): LogPage {
  const job = ledger.jobs.get(n);
  if (!job) return page;
  const inputs = inputsOf(ledger, job);
  const told = new Set<string>();
  const chunks = page.chunks.map((chunk) => {
    const { datum } = chunk;
    const key = told.has(datum) ? undefined : ledger.attempts.get(n, datum)?.key;
    told.add(datum);
    return key === undefined ? chunk : { ...chunk, inputs: inputs(key) };
  });
  return { ...page, chunks };
}

/** The job that ran what is asked for, and the datum, if one is. */
interface At {
  readonly job: number;
  readonly datum?: string;
}

function keptPage(ledger: Ledger, { at, place }: { at: At; place: { seq: number; seen: number } }): LogPage {
  const { chunks, more } = ledger.logs.page(at.job, { datum: at.datum, from: place.seq });
  const shown = chunks
    .map((chunk) => shownChunk(chunk, chunk.seq === place.seq ? place.seen : 0))
    .filter(({ seen, lines }) => seen < recordsOf(lines));
  const last = chunks.at(-1);
  return {
    chunks: shown,
    after: last ? `${last.seq}.${recordsOf(last.lines)}` : null,
    rest: more ? "more" : "none",
  };
}

/** A chunk without lines tells of what was left out. */
function recordsOf(lines: KeptChunk["lines"]): number {
  return Math.max(lines.length, 1);
}

function shownChunk({ seq, datum, node, at, dropped, lines }: KeptChunk, seen: number): LogChunk {
  return { place: `${seq}`, datum, node, at, dropped, lines, seen };
}

function tailPage(ledger: Ledger, { at, place }: { at: At; place: { tail: string; seen: number } }): LogPage {
  if (at.datum !== undefined) return { chunks: ownTail(ledger, { at, place }), after: null, rest: "none" };
  const begun = place.tail === "" ? undefined : ledger.attempts.get(at.job, place.tail);
  const after = begun?.key ?? null;
  const rest =
    begun && place.seen > 0 ? ownTail(ledger, { at: { job: at.job, datum: begun.id }, place }) : [];
  const tails = ledger.logs.tails(at.job, { after, limit: TAILS_PER_PAGE });
  const last = tails.at(-1);
  return {
    chunks: [...rest, ...tails.map(tailChunk).filter(hasText)],
    after: last ? `t${last.id}.0` : null,
    rest: tails.length === TAILS_PER_PAGE ? "more" : "none",
  };
}

/** Of one datum, what is left behind a place: of its last try that failed, if it is tried again. */
function ownTail(
  ledger: Ledger,
  { at, place }: { at: At; place: { tail: string; seen: number } },
): LogChunk[] {
  const { job, datum = "" } = at;
  const gone = ledger.logs.goneOf(job, datum);
  const row = ledger.jobs.get(job);
  if (gone === undefined || !row) return [];
  const attempt = ledger.attempts.get(job, datum);
  const tail: Tail = {
    ...{ id: datum, gone },
    node: attempt?.node ?? null,
    finishedAt: attempt?.finishedAt ?? row.startedAt ?? row.createdAt,
    log: attempt?.log ?? "",
  };
  const chunk = { ...tailChunk(tail), seen: place.tail === datum ? place.seen : 0 };
  return hasText(chunk) && chunk.seen < recordsOf(chunk.lines) ? [chunk] : [];
}

function tailChunk({ id, node, finishedAt, log, gone }: Tail): LogChunk {
  const text = log.endsWith("\n") ? log.slice(0, -1) : log;
  const lines = text === "" ? [] : text.split("\n").map((line): ChunkLine => [0, line]);
  return { place: `t${id}`, datum: id, node, at: finishedAt, dropped: gone, lines, seen: 0 };
}

function hasText({ lines, dropped }: LogChunk): boolean {
  return lines.length > 0 || dropped > 0;
}

/** The job in which a datum ran: another one, if this one skipped it or waits for it to end there. */
function homeOf(ledger: Ledger, { job, id }: { job: JobRow; id: string }): number {
  const attempt = ledger.attempts.get(job.n, id);
  if (attempt && attempt.state !== "skipped" && attempt.state !== "waiting") return job.n;
  const salt = ledger.datums.saltAt(id, job.n) ?? ledger.pipeline.versionOf(job).salt;
  return ledger.results.origin({ id, salt })?.job ?? job.n;
}

function parsePlace(text: string | null): Place | undefined {
  if (text === null) return { seq: 0, seen: 0 };
  const [, tail, seq, seen] = /^(?:t([0-9a-z]{0,64})|([0-9]{1,15}))\.([0-9]{1,7})$/.exec(text) ?? [];
  if (seen === undefined) return undefined;
  return seq === undefined
    ? { tail: tail ?? "", seen: Number(seen) }
    : { seq: Number(seq), seen: Number(seen) };
}

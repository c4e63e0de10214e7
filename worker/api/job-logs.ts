import { z } from "zod";
import type { LogLine } from "../../protocol/pipelines.ts";
import { LogStream } from "../../protocol/runner.ts";
import { hasExpired } from "../keys/expiry.ts";
import type { LogChunk, LogPage, LogsCall, PipelineApi } from "../pipeline/contract.ts";
import { type ApiError, apiError } from "./answer/errors.ts";
import { slowLines } from "./answer/slow.ts";
import { jobInPath, noSuchJob } from "./jobs.ts";
import { type ApiRequest, readQuery } from "./request/api-request.ts";
import { invalidField } from "./request/issues.ts";

/** How long one call waits for more output. */
const WAIT_MS = 20_000;
/** Shortest time between two calls that wait. Output that comes in drops is then read in gulps. */
const PAUSE_MS = 250;

/** Most lines that are counted from the end. */
const MAX_TAIL = 10_000;

const LogsQuery = z.strictObject({
  datum: z.string().min(1).optional(),
  after: z.string().optional(),
  follow: z.enum(["true", "false"]).default("false"),
  tail: z.coerce.number().int().min(1).max(MAX_TAIL).optional(),
  stream: LogStream.optional(),
});

/**
 * `GET /jobs/{id}/logs?datum=&stream=&follow=&after=&tail=`: a line of JSON for each line that the job's datums printed, in the order
 * in which they came. `datum` is the beginning of a datum's id, and leaves only that datum's lines; `stream` leaves those of
 * which it is known that they came on it. With `follow=true` the
 * answer goes on until the job has ended, with an empty line now and then while nothing comes. If it breaks off, `after`
 * with the `next` of its last line continues it. `tail` begins so many lines before the end, of
 * that stream if one is asked for. It breaks off soon after the key of the request was deleted or has expired.
 */
export async function readLogs(asked: ApiRequest): Promise<Response> {
  const { datum, after = null, follow, tail, stream } = readQuery(asked, LogsQuery);
  if (tail !== undefined && after !== null) {
    throw invalidField("tail", "counts from the end, and 'after' says where to begin: give one of them");
  }
  const { id: job, pipeline } = await jobInPath(asked);
  const which = { job, ...(datum !== undefined && { datum }), ...(stream && { stream }) };
  const call = { pipeline, which, follows: follow === "true" };
  // The first page finds what is wrong with the request, before the answer begins.
  const first = await pageOf(call, { after, waitMs: 0, ...(tail !== undefined && { tail }) });
  if (!first.ok) throw refusal(first.reason, { job, datum });
  return new Response(slowLines(textOf(first, call), { mayGoOn: () => isKeyThere(asked) }), {
    headers: { "content-type": "application/x-ndjson", "cache-control": "no-store" },
  });
}

/** If D1 can't be asked, the answer goes on: the key was good when it began. When it expires is known without D1. */
async function isKeyThere({ caller, context }: ApiRequest): Promise<boolean> {
  if (hasExpired(caller, Date.now())) return false;
  try {
    return (await context.keys.find(caller.session ?? caller.keyId)) !== undefined;
  } catch {
    return true;
  }
}

interface Call {
  readonly pipeline: PipelineApi;
  readonly which: Pick<LogsCall, "job" | "datum" | "stream">;
  readonly follows: boolean;
}

type Answer = Awaited<ReturnType<PipelineApi["logs"]["read"]>>;

async function pageOf(
  { pipeline, which, follows }: Call,
  { waitMs, ...from }: { after: string | null; waitMs: number; tail?: number },
): Promise<Answer> {
  return await pipeline.logs.read({ ...which, ...from, waitMs: follows ? waitMs : null });
}

/** The first page and those behind it. A job that goes away with its pipeline has no more. */
async function* textOf(first: LogPage, call: Call): AsyncGenerator<string, undefined> {
  for (let page: Answer = { ok: true, ...first }; page.ok; ) {
    const { chunks, after, rest } = page;
    if (chunks.length > 0) yield render(chunks, call.which.stream);
    if (rest === "none") return;
    if (rest === "later") await scheduler.wait(PAUSE_MS);
    page = await pageOf(call, { after, waitMs: WAIT_MS });
  }
}

/**
 * The answer's lines of a page's chunks; with a stream, those that came on it. What a datum reads is told once on each page, so that
 * nothing need be remembered behind one, however many datums have nothing on the stream.
 */
function render(chunks: readonly LogChunk[], asked: LogStream | undefined): string {
  /** What datums read of which no line was shown since it was told. */
  const untold = new Map<string, Pick<LogLine, "inputs">>();
  let text = "";
  for (const { place, datum, inputs, node, at, lines, seen, ...chunk } of chunks) {
    if (inputs) untold.set(datum, { inputs });
    // What is missing is missing before the first line: whoever has read that has been told.
    let dropped = seen === 0 ? chunk.dropped : 0;
    const add = (line: Pick<LogLine, "at" | "line" | "stream">, count: number) => {
      const before = { ...untold.get(datum), ...(dropped > 0 && { dropped }) };
      text += record({ datum, node, ...line, ...before, next: `${place}.${count}` });
      untold.delete(datum);
      dropped = 0;
    };
    for (const [index, [afterMs, line, number]] of lines.entries()) {
      const stream = number && LogStream.options[number - 1];
      const isAsked = asked === undefined || stream === asked;
      if (index >= seen && isAsked) add({ at: at + afterMs, line, ...(stream && { stream }) }, index + 1);
    }
    if (dropped > 0) add({ at, line: null }, Math.max(1, lines.length));
  }
  return text;
}

function record(line: LogLine): string {
  return `${JSON.stringify(line)}\n`;
}

function refusal(
  reason: Extract<Answer, { ok: false }>["reason"],
  { job, datum }: { job: string; datum: string | undefined },
): ApiError {
  switch (reason) {
    case "no-such-job":
      return noSuchJob(job);
    case "no-such-datum":
      return apiError.NotFound(`The job '${job}' has no datum '${datum}'.`);
    case "several-datums":
      return invalidField("datum", `more than one datum's id begins with '${datum}': give more of it`);
    case "no-such-place":
      return invalidField("after", "must be the 'next' of an earlier line");
  }
}

import { z } from "zod";
import type { LogLine } from "../../protocol/pipelines.ts";
import { hasExpired } from "../keys/expiry.ts";
import type { LogChunk, LogPage, PipelineApi } from "../pipeline/contract.ts";
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
});

/**
 * `GET /jobs/{id}/logs?datum=&follow=&after=&tail=`: a line of JSON for each line that the job's datums printed, in the order
 * in which they came. `datum` is the beginning of a datum's id, and leaves only that datum's lines. With `follow=true` the
 * answer goes on until the job has ended, with an empty line now and then while nothing comes. If it breaks off, `after`
 * with the `next` of its last line continues it. `tail` begins so many lines before the end. It breaks off soon after the key of the request was deleted or has expired.
 */
export async function readLogs(asked: ApiRequest): Promise<Response> {
  const { datum, after = null, follow, tail } = readQuery(asked, LogsQuery);
  if (tail !== undefined && after !== null) {
    throw invalidField("tail", "counts from the end, and 'after' says where to begin: give one of them");
  }
  const { id: job, pipeline } = await jobInPath(asked);
  const which = { job, ...(datum !== undefined && { datum }) };
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
  readonly which: { readonly job: string; readonly datum?: string };
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
    if (chunks.length > 0) yield chunks.map(renderChunk).join("");
    if (rest === "none") return;
    if (rest === "later") await scheduler.wait(PAUSE_MS);
    page = await pageOf(call, { after, waitMs: WAIT_MS });
  }
}

function renderChunk({ place, datum, inputs, node, at, dropped, lines, seen }: LogChunk): string {
  const before = dropped > 0 ? { dropped } : {};
  const read = inputs && { inputs };
  if (lines.length === 0)
    return record({ datum, ...read, node, at, line: null, ...before, next: `${place}.1` });
  return lines
    .slice(seen)
    .map(([afterMs, line], index) => {
      const count = seen + index + 1;
      const first = { ...(index === 0 && read), ...(count === 1 && before) };
      return record({ datum, node, at: at + afterMs, line, ...first, next: `${place}.${count}` });
    })
    .join("");
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

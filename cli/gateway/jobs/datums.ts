import { DatumPage, type JobDatum, LogLine } from "../../../protocol/pipelines.ts";
import { encodePath } from "../../../protocol/requests.ts";
import type { LogStream } from "../../../protocol/runner.ts";
import { forEachLimited } from "../../../runner/lib/concurrency.ts";
import { CliError } from "../../output/failure.ts";
import { type Client, GatewayError, patiently } from "../client.ts";

/** Calls of the control API about the datums of a job and what they printed. */

/** Most datums, and most with the reasons why each was run, that one page has. */
const PAGE_DATUMS = 1000;
const LANES = 4;

export interface FindDatums {
  readonly job: string;
  /** Infinity: all of them. */
  readonly limit: number;
  readonly after?: string | undefined;
  readonly why?: true | undefined;
  /** Only those in this state. */
  readonly state?: JobDatum["state"] | undefined;
}

/** Datums of a job in their order: first what it ran or is to run, then what it skipped. */
export async function findDatums(
  client: Client,
  { job, limit, after, why, state }: FindDatums,
): Promise<{ datums: JobDatum[]; next: string | null }> {
  const datums: JobDatum[] = [];
  let next = after ?? null;
  // A page may be shorter than was asked for, though more follow.
  do {
    const wanted = limit - datums.length;
    const query = {
      limit: state === undefined ? Math.min(wanted, PAGE_DATUMS) : PAGE_DATUMS,
      after: next ?? undefined,
      why,
    };
    const path = `/jobs/${encodePath(job)}/datums`;
    let page = await client.get(DatumPage, path, query);
    const matching = page.datums.flatMap((datum, index) =>
      state === undefined || datum.state === state ? [index] : [],
    );
    const last = matching[wanted - 1];
    if (last !== undefined && matching.length > wanted) {
      // A place is known only of the end of a page.
      page = await client.get(DatumPage, path, { ...query, limit: last + 1 });
    }
    next = page.next;
    datums.push(...page.datums.filter((datum) => state === undefined || datum.state === state));
    if (isBehind(page.datums, state)) next = null;
  } while (next !== null && datums.length < limit);
  return { datums, next };
}

/** Whether no later page can have a datum in the state: behind those that were run are only those that were not. */
function isBehind(page: readonly JobDatum[], state: JobDatum["state"] | undefined): boolean {
  return (state === "failed" || state === "running") && page.some((datum) => datum.state === "skipped");
}

/** Most failed datums whose last lines are read. */
const MOST_EXPLAINED = 100;

/** Puts the last line that each failed datum printed behind its reason, as the reason of its job has it. */
export async function addLastLines(
  client: Client,
  { job, datums }: { job: string; datums: JobDatum[] },
): Promise<void> {
  const failed = [...datums.entries()].filter(([, { state }]) => state === "failed").slice(0, MOST_EXPLAINED);
  await forEachLimited(failed, {
    limit: LANES,
    work: async ([index, datum]) => {
      const line = await lastLine(client, { job, datum: datum.id });
      if (line === undefined || datum.reason?.endsWith(line)) return;
      datums[index] = { ...datum, reason: datum.reason === null ? line : `${datum.reason}: ${line}` };
    },
  });
}

async function lastLine(
  client: Client,
  { job, datum }: { job: string; datum: string },
): Promise<string | undefined> {
  let last: string | undefined;
  await readLogs(client, {
    ...{ job, datum, follow: false, lost: () => undefined },
    print({ line }) {
      const text = line?.trim();
      if (text) last = text;
    },
  });
  return last;
}

/** The paths that datums of a job read, by the datums' ids: asked for when the first that is not known is needed. */
export class DatumPaths {
  readonly #client: Client;
  readonly #job: string;
  readonly #known = new Map<string, string>();
  #next: string | null | undefined;
  #isRefused = false;

  constructor(client: Client, job: string) {
    this.#client = client;
    this.#job = job;
  }

  /** Such as "texts:/a.txt"; undefined if the job does not list the datum. */
  async of(id: string): Promise<string | undefined> {
    while (!this.#known.has(id) && this.#next !== null) await this.#more();
    if (!this.#known.has(id) && !this.#isRefused) {
      // A job that goes on may have more of them than when it was asked. One that is not listed is not looked for again.
      this.#next = undefined;
      do await this.#more();
      while (!this.#known.has(id) && this.#next !== null);
      if (!this.#known.has(id)) this.#known.set(id, "");
    }
    return this.#known.get(id) || undefined;
  }

  async #more(): Promise<void> {
    // Lines are followed through a restart of the gateway, so their names are, too.
    const ask = () =>
      findDatums(this.#client, {
        job: this.#job,
        limit: PAGE_DATUMS,
        after: this.#next ?? undefined,
      });
    const { datums, next } = await patiently(ask, { lost: () => undefined }).catch((error: unknown) => {
      // Lines without their names are better than none.
      if (!(error instanceof GatewayError)) throw error;
      this.#isRefused = true;
      return { datums: [], next: null };
    });
    for (const datum of datums) this.#known.set(datum.id, pathsText(datum));
    this.#next = next;
  }
}

function pathsText({ inputs }: JobDatum): string {
  const [only] = inputs;
  if (inputs.length === 1 && only) return `/${only.path}`;
  return inputs.map(({ name, path }) => `${name}:/${path}`).join(" ");
}

/** Which part of a job's logs is read, and what is called with it. */
export interface LogsRequest {
  readonly job: string;
  readonly datum: string | undefined;
  /** Absent: both. */
  readonly stream?: LogStream | undefined;
  readonly follow: boolean;
  /** Only what is behind this place. */
  readonly after?: string | undefined;
  print(line: LogLine): void | Promise<void>;
  /** The answer broke off, and it is tried to go on. */
  lost(why: string): void;
}

/**
 * Reads the logs of a job to their end. If an answer breaks off because the gateway went away, reading goes on after the
 * last whole line, so no line comes twice. Throws a CliError if the first call fails, or if the gateway stays away
 * for ten minutes.
 */
export async function readLogs(client: Client, request: LogsRequest): Promise<void> {
  let { after } = request;
  let body = await openLogs(client, { ...request, after });
  for (;;) {
    try {
      for await (const text of linesOf(body)) {
        const line = parseLine(text);
        await request.print(line);
        after = line.next;
      }
      return;
    } catch (error) {
      if (error instanceof CliError) throw error;
      request.lost(`the connection to ${client.connection.endpoint} is lost`);
    }
    // Told already.
    body = await patiently(() => openLogs(client, { ...request, after }), { lost: () => undefined });
  }
}

type Bytes = AsyncIterable<Uint8Array>;

async function openLogs(client: Client, { job, datum, stream, follow, after }: LogsRequest): Promise<Bytes> {
  const answer = await client.send({
    method: "GET",
    path: `/api/v1/jobs/${encodePath(job)}/logs`,
    query: { datum, stream, follow: follow || undefined, after },
  });
  return answer.body;
}

/** Whole lines that are not empty: an empty one only says that the gateway is there. */
async function* linesOf(body: Bytes): AsyncGenerator<string> {
  const decoder = new TextDecoder();
  let begun = "";
  for await (const bytes of body) {
    const lines = (begun + decoder.decode(bytes, { stream: true })).split("\n");
    begun = lines.pop() ?? "";
    yield* lines.filter((line) => line !== "");
  }
}

function parseLine(text: string): LogLine {
  try {
    return LogLine.parse(JSON.parse(text));
  } catch {
    throw new CliError(`the gateway's logs are not as this version of sluice expects: ${text}`, {
      code: "ContractError",
    });
  }
}

import { setTimeout as pause } from "node:timers/promises";
import { LogLine } from "../../protocol/pipelines.ts";
import { CliError } from "../output/failure.ts";
import { type Client, encodePath, GatewayError } from "./client.ts";

/** Which part of a job's logs is read, and what is called with it. */
export interface LogsRequest {
  readonly job: string;
  readonly datum: string | undefined;
  readonly follow: boolean;
  print(line: LogLine): void;
  /** The answer broke off, and it is tried to go on. */
  lost(why: string): void;
}

/** Pauses between two tries to go on, and how long it is tried. */
const FIRST_PAUSE_MS = 200;
const LAST_PAUSE_MS = 5_000;
const GIVE_UP_MS = 10 * 60_000;

/**
 * Reads the logs of a job to their end. If an answer breaks off because the gateway went away, reading goes on after the
 * last whole line, so no line comes twice. Throws a CliError if the first call fails, or if the gateway stays away for
 * GIVE_UP_MS.
 */
export async function readLogs(client: Client, request: LogsRequest): Promise<void> {
  let after: string | undefined;
  let body = await openLogs(client, { ...request, after });
  for (;;) {
    try {
      for await (const text of linesOf(body)) {
        const line = parseLine(text);
        request.print(line);
        after = line.next;
      }
      return;
    } catch (error) {
      if (error instanceof CliError) throw error;
      request.lost(`the connection to ${client.connection.endpoint} is lost`);
    }
    body = await reopenLogs(client, { ...request, after });
  }
}

type Bytes = AsyncIterable<Uint8Array>;

interface Place extends LogsRequest {
  readonly after: string | undefined;
}

async function openLogs(client: Client, { job, datum, follow, after }: Place): Promise<Bytes> {
  const answer = await client.send({
    method: "GET",
    path: `/api/v1/jobs/${encodePath(job)}/logs`,
    query: { datum, follow: follow || undefined, after },
  });
  return answer.body;
}

/** Tries until the gateway is there again. */
async function reopenLogs(client: Client, place: Place): Promise<Bytes> {
  const deadline = Date.now() + GIVE_UP_MS;
  for (let pauseMs = FIRST_PAUSE_MS; ; pauseMs = Math.min(pauseMs * 2, LAST_PAUSE_MS)) {
    // At random, so that many followers do not come back at once.
    await pause(pauseMs * (0.5 + Math.random() / 2));
    try {
      return await openLogs(client, place);
    } catch (error) {
      const refused = error instanceof GatewayError && error.status < 500 && error.status !== 429;
      if (refused || Date.now() > deadline) throw error;
    }
  }
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

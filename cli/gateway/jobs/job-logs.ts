import { LogLine } from "../../../protocol/pipelines.ts";
import { encodePath } from "../../../protocol/requests.ts";
import { CliError } from "../../output/failure.ts";
import { type Client, patiently } from "../client.ts";

/** Which part of a job's logs is read, and what is called with it. */
export interface LogsRequest {
  readonly job: string;
  readonly datum: string | undefined;
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

async function openLogs(client: Client, { job, datum, follow, after }: LogsRequest): Promise<Bytes> {
  const answer = await client.send({
    method: "GET",
    path: `/api/v1/jobs/${encodePath(job)}/logs`,
    query: { datum, follow: follow || undefined, after },
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

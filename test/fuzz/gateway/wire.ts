import { connect } from "node:net";
import { setTimeout } from "node:timers/promises";

/** A request as its bytes go out: nothing of it is checked, added or put right on the way. */
export interface RawRequest {
  readonly method: string;
  readonly target: string;
  readonly headers: readonly (readonly [name: string, value: string])[];
  readonly body: Buffer;
  /** `chunked`: in the chunks of HTTP, without a length. `cut`: the connection ends before the last bytes that its length says. */
  readonly transfer: "length" | "chunked" | "cut";
}

export interface RawAnswer {
  readonly status: number;
  readonly headers: ReadonlyMap<string, string>;
  readonly body: Buffer;
}

/** Nothing that a test asks for takes so long; milliseconds. A gateway waits for the rest of a body for 20 s or 30 s. */
const MOST_MS = 60_000;

/** Sends one request on a connection of its own. Undefined if that ended without an answer. Throws for one that hangs. */
export async function exchangeRaw(endpoint: string, request: RawRequest): Promise<RawAnswer | undefined> {
  const { hostname, port } = new URL(endpoint);
  const socket = connect({ host: hostname, port: Number(port), allowHalfOpen: true });
  const pieces: Buffer[] = [];
  socket.on("data", (piece) => pieces.push(piece));
  // A gateway that has refused a body need not read it to its end.
  socket.on("error", () => {});
  const closed = new Promise<"closed">((resolve) => {
    socket.once("end", () => resolve("closed"));
    socket.once("close", () => resolve("closed"));
  });
  socket.write(headOf(request, `${hostname}:${port}`));
  if (request.transfer === "cut") socket.end(request.body.subarray(0, request.body.length >> 1));
  else socket.write(request.transfer === "chunked" ? inChunks(request.body) : request.body);
  const deadline = new AbortController();
  const hung = setTimeout(MOST_MS, "hung" as const, { signal: deadline.signal }).catch(
    () => "closed" as const,
  );
  const end = await Promise.race([closed, hung]);
  deadline.abort();
  socket.destroy();
  if (end === "hung") throw new Error(`no answer within ${MOST_MS} ms`);
  return parseAnswer(Buffer.concat(pieces));
}

function headOf({ method, target, headers, body, transfer }: RawRequest, host: string): Buffer {
  const framing = transfer === "chunked" ? "transfer-encoding: chunked" : `content-length: ${body.length}`;
  const hasBody = body.length > 0 || method === "PUT" || method === "POST";
  const lines = [
    `${method} ${target} HTTP/1.1`,
    `host: ${host}`,
    "connection: close",
    ...(hasBody ? [framing] : []),
    ...headers.map(([name, value]) => `${name}: ${value}`),
  ];
  return Buffer.from(`${lines.join("\r\n")}\r\n\r\n`);
}

function inChunks(body: Buffer): Buffer {
  const chunks: Buffer[] = [];
  for (let at = 0; at < body.length; at += 10_000) {
    const chunk = body.subarray(at, at + 10_000);
    chunks.push(Buffer.from(`${chunk.length.toString(16)}\r\n`), chunk, Buffer.from("\r\n"));
  }
  return Buffer.concat([...chunks, Buffer.from("0\r\n\r\n")]);
}

/** Undefined for bytes that end before the answer does. */
function parseAnswer(bytes: Buffer): RawAnswer | undefined {
  const end = bytes.indexOf("\r\n\r\n");
  if (end === -1) return undefined;
  const [first = "", ...lines] = bytes.subarray(0, end).toString().split("\r\n");
  const status = Number(/^HTTP\/1\.1 (\d{3})/.exec(first)?.[1]);
  const rest = bytes.subarray(end + 4);
  if (status === 100) return parseAnswer(rest);
  const headers = new Map(lines.map((line) => [nameOf(line), line.slice(line.indexOf(":") + 1).trim()]));
  const body = headers.get("transfer-encoding") === "chunked" ? outOfChunks(rest) : rest;
  return body && { status, headers, body };
}

function nameOf(line: string): string {
  return line.slice(0, line.indexOf(":")).toLowerCase();
}

function outOfChunks(bytes: Buffer): Buffer | undefined {
  const chunks: Buffer[] = [];
  for (let at = 0; ; ) {
    const feed = bytes.indexOf("\r\n", at);
    if (feed === -1) return undefined;
    const size = Number.parseInt(bytes.subarray(at, feed).toString(), 16);
    if (size === 0) return Buffer.concat(chunks);
    chunks.push(bytes.subarray(feed + 2, feed + 2 + size));
    at = feed + 2 + size + 2;
  }
}

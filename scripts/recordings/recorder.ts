import { createServer, request as forward, type IncomingMessage, type ServerResponse } from "node:http";
import type { Answer } from "../../test/support/http.ts";
import { freePort } from "../../test/support/ports.ts";
import {
  answerOf,
  BODY_HASHES,
  idsIn,
  listsAllBuckets,
  type RecordedBody,
  type RecordedExchange,
} from "../../test/support/recordings.ts";

/** What stands between a client and a gateway, and writes down what passes. */
export interface Recorder {
  readonly endpoint: string;
  /** What has passed so far, in the order in which it was asked, without what some ask again before each step. */
  exchanges(): readonly RecordedExchange[];
  stop(): Promise<void>;
}

/** Of the connection or of the client, or made anew with the signature. */
const LEFT_OUT = new Set([
  ...["authorization", "x-amz-date", "date", "host", "user-agent", "connection", "accept-encoding", "expect"],
  ...[
    "content-length",
    "amz-sdk-invocation-id",
    "amz-sdk-request",
    "x-amz-user-agent",
    "accept",
    "transfer-encoding",
  ],
]);
const LINK = /^X-Amz-(Algorithm|Credential|Date|Expires|SignedHeaders|Signature|Content-Sha256)$/i;
/** Another protocol than S3, which mc asks for sizes and does without. */
const MINIO_ADMIN = "/minio/admin/";
/** Longer bodies must be runs of letters: a recording is read by people. */
const TEXT_BYTES = 4096;

/** Hands every request on as it is, Host included, so that signatures hold. */
export async function startRecorder({ endpoint }: { readonly endpoint: string }): Promise<Recorder> {
  const exchanges: RecordedExchange[] = [];
  const names = new Map<string, string>();
  const nameOf = (id: string): string => {
    const kind = /^[0-9A-HJKMNP-TV-Z]{26}$/.test(id) ? "version" : "id";
    const name = names.get(id) ?? `${kind}-${names.size + 1}`;
    names.set(id, name);
    return name;
  };
  const withNames = (text: string): string =>
    [...names].reduce((last, [id, name]) => last.replaceAll(id, `{{${name}}}`), text);
  const pass = async (incoming: IncomingMessage, answer: ServerResponse): Promise<void> => {
    const body = await bytesOf(incoming);
    const request = recorded(incoming, body);
    const told = await ask(endpoint, incoming, body);
    const sent = JSON.parse(withNames(JSON.stringify(request)));
    for (const id of idsIn(told)) nameOf(id);
    exchanges.push({ ...sent, answer: answerOf(told, nameOf, { listsAll: listsAllBuckets(request) }) });
    answer.writeHead(told.status, told.headers);
    answer.end(told.body);
  };
  // One at a time, since they are sent again one at a time: the answer to one may depend on what came before.
  let last: Promise<void> = Promise.resolve();
  const server = createServer((incoming, answer) => {
    last = last.then(() => pass(incoming, answer)).catch((error) => void answer.destroy(error));
  });
  const port = await freePort();
  await new Promise<void>((listening) => server.listen(port, "127.0.0.1", listening));
  return {
    endpoint: `http://127.0.0.1:${port}`,
    exchanges: () =>
      exchanges
        .filter(({ target }) => !target.startsWith(MINIO_ADMIN))
        .filter((one, at, all) => !isRepeated(one, all.slice(0, at))),
    stop: () =>
      new Promise((stopped) => {
        server.close(() => stopped());
        server.closeAllConnections();
      }),
  };
}

/** Whether a client asked of its bucket what it had asked before, and was answered the same. */
function isRepeated(one: RecordedExchange, before: readonly RecordedExchange[]): boolean {
  if (!/\?(location|object-lock|versioning)=?$/.test(one.target)) return false;
  return before.some((other) => JSON.stringify(other) === JSON.stringify(one));
}

function recorded(incoming: IncomingMessage, body: Buffer): Omit<RecordedExchange, "answer"> {
  const { method = "", url = "" } = incoming;
  const headers = flat(incoming);
  const hash = headers["x-amz-content-sha256"];
  const kept = Object.entries(headers)
    .filter(([name]) => !LEFT_OUT.has(name))
    .map(([name, value]) => [name, value === BODY_HASHES[name ?? ""]?.(body) ? "body" : value]);
  const [path = "", query] = url.split("?");
  const words = query?.split("&").filter((word) => !LINK.test(word.split("=")[0] ?? "")) ?? [];
  const link = query !== undefined && words.length < query.split("&").length;
  const asked = words.length === 0 ? "" : `?${words.join("&")}`;
  return {
    method,
    target: link || query === undefined ? path + asked : url,
    headers: Object.fromEntries(kept.sort()),
    ...(body.length === 0
      ? {}
      : { body: recordedBody(body, { isChunked: hash?.startsWith("STREAMING-") ?? false }) }),
    ...("transfer-encoding" in headers ? { lengthless: true } : {}),
    ...(link ? { link } : {}),
  };
}

function recordedBody(body: Buffer, { isChunked }: { readonly isChunked: boolean }): RecordedBody {
  if (!isChunked) return textOrRuns(body);
  const chunks: Buffer[] = [];
  let at = 0;
  for (;;) {
    const line = body.indexOf("\r\n", at);
    const size = Number.parseInt(body.subarray(at, line).toString(), 16);
    at = line + 2;
    if (size === 0) break;
    chunks.push(body.subarray(at, at + size));
    at += size + 2;
  }
  const trailers = body.subarray(at).toString().split(/\r?\n/);
  const chunkBytes = chunks[0]?.length ?? 1;
  if (chunks.slice(1, -1).some(({ length }) => length !== chunkBytes))
    throw new Error("chunks of several sizes");
  const told = trailers.filter((trailer) => trailer !== "" && !trailer.startsWith("x-amz-trailer-signature"));
  return { ...textOrRuns(Buffer.concat(chunks)), chunkBytes, ...(told.length > 0 ? { trailers: told } : {}) };
}

function textOrRuns(body: Buffer): RecordedBody {
  if (body.length <= TEXT_BYTES) {
    const text = body.toString();
    if (!Buffer.from(text).equals(body)) throw new Error("a body that is no text");
    return { text };
  }
  const runs: [string, number][] = [];
  for (let at = 0; at < body.length; ) {
    const letter = body[at];
    let end = at + 1;
    while (end < body.length && body[end] === letter) end += 1;
    runs.push([String.fromCharCode(letter ?? 0), end - at]);
    at = end;
    if (runs.length > 10) throw new Error("a long body that is no runs of letters");
  }
  return { runs };
}

function flat({ headers }: IncomingMessage): Record<string, string> {
  return Object.fromEntries(
    Object.entries(headers).map(([name, value]) => [name, [value].flat().join(", ")]),
  );
}

function ask(endpoint: string, { method, url, headers }: IncomingMessage, body: Buffer): Promise<Answer> {
  const { expect: _, ...sent } = headers;
  return new Promise((resolve, reject) => {
    const outgoing = forward(
      `${endpoint}${url}`,
      { ...(method && { method }), headers: sent },
      async (response) => {
        const bytes = await bytesOf(response);
        const status = response.statusCode ?? 0;
        resolve({ status, headers: flat(response), body: bytes, text: bytes.toString() });
      },
    );
    outgoing.once("error", reject);
    outgoing.end(body);
  });
}

async function bytesOf(message: IncomingMessage): Promise<Buffer> {
  const chunks: Buffer[] = [];
  for await (const chunk of message) chunks.push(chunk);
  return Buffer.concat(chunks);
}

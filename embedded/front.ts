import { randomUUID } from "node:crypto";
import { once } from "node:events";
import {
  createServer,
  request as httpRequest,
  type IncomingMessage,
  type OutgoingHttpHeaders,
  type Server,
  type ServerResponse,
} from "node:http";
import { ownPath } from "../protocol/names.ts";
import { HostError } from "./host-error.ts";

export interface FrontOptions {
  readonly host: string;
  readonly port: number;
  /** A body of more bytes is refused. */
  readonly maxBodyBytes: number;
  /** The gateway behind it. */
  readonly gateway: { readonly host: string; readonly port: number };
}

/**
 * What stands in front of a gateway on Cloudflare, as far as clients meet it: it refuses bodies above a bound with a page
 * of its own, before the gateway hears of them. Everything else passes as it is.
 */
export async function openFront(options: FrontOptions): Promise<{ close(): Promise<void> }> {
  const handle = (request: IncomingMessage, response: ServerResponse) => serve(request, response, options);
  const server = createServer(handle);
  server.on("checkContinue", (request: IncomingMessage, response: ServerResponse) => {
    if (!isTooLong(request, options)) response.writeContinue();
    handle(request, response);
  });
  const { host, port } = options;
  await once(server.listen({ host, port }), "listening").catch((error: Error) => {
    throw new HostError(`${host}:${port}: ${error.message}`);
  });
  return { close: () => closed(server) };
}

function isTooLong({ headers }: IncomingMessage, { maxBodyBytes }: FrontOptions): boolean {
  return Number(headers["content-length"] ?? 0) > maxBodyBytes;
}

function serve(request: IncomingMessage, response: ServerResponse, options: FrontOptions): void {
  if (isTooLong(request, options)) {
    refuse(request, response);
    return;
  }
  const { method, url: path } = request;
  const { expect: _isAnswered, ...headers } = request.headers;
  const onward = httpRequest({ ...options.gateway, method, path, headers, agent: false }, (answer) => {
    response.writeHead(answer.statusCode ?? 502, rawHeaders(answer));
    answer.pipe(response);
    answer.on("error", () => response.destroy());
  });
  onward.on("error", () => response.destroy());
  response.on("close", () => onward.destroy());
  let received = 0;
  request.on("data", (bytes: Buffer) => {
    received += bytes.length;
    if (received <= options.maxBodyBytes || response.headersSent) return;
    request.unpipe(onward);
    onward.removeAllListeners("error").on("error", () => undefined);
    onward.destroy();
    refuse(request, response);
  });
  request.pipe(onward);
}

/** As they came: several of one name stay several. */
function rawHeaders({ headersDistinct }: IncomingMessage): OutgoingHttpHeaders {
  return Object.fromEntries(Object.entries(headersDistinct).filter(([, values]) => values !== undefined));
}

const PAGE =
  "<html><head><title>413 Payload Too Large</title></head><body>413 Payload Too Large</body></html>\n";

/** The rest of the body is not read. */
function refuse(request: IncomingMessage, response: ServerResponse): void {
  response.writeHead(413, { "content-type": "text/html", connection: "close" });
  response.end(PAGE, () => request.destroy());
}

/** When a client should ask again, in seconds. */
const RETRY_AFTER = "2";
const MESSAGE = "The gateway writes its databases anew and is back in some seconds: try again.";

/**
 * Stands at the gateway's address while the runtime does not run, and answers everything with 503. S3 clients, runners and
 * `sluice` ask again. Undefined if the address can't be had: clients then meet a refused connection, and ask again as well.
 */
export async function openAway(address: {
  readonly host: string;
  readonly port: number;
}): Promise<{ close(): Promise<void> } | undefined> {
  const server = createServer((request, response) => {
    const id = randomUUID();
    const isApi = (request.url ?? "").startsWith(ownPath("api"));
    const body = isApi
      ? JSON.stringify({ error: { code: "Unavailable", message: MESSAGE }, requestId: id })
      : `<?xml version="1.0" encoding="UTF-8"?>\n<Error><Code>ServiceUnavailable</Code><Message>${MESSAGE}</Message><RequestId>${id}</RequestId></Error>`;
    response.writeHead(503, {
      "content-type": isApi ? "application/json" : "application/xml",
      "retry-after": RETRY_AFTER,
      "x-amz-request-id": id,
      connection: "close",
    });
    response.end(request.method === "HEAD" ? undefined : body, () => request.destroy());
  });
  const close = { close: () => closed(server) };
  return await once(server.listen(address), "listening").then(
    () => close,
    () => undefined,
  );
}

/** Ends a server, and the calls to it. */
async function closed(server: Server): Promise<void> {
  const ended = new Promise((resolve) => server.close(resolve));
  server.closeAllConnections();
  await ended;
}

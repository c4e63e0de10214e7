import {
  createServer,
  request as httpRequest,
  type IncomingMessage,
  type OutgoingHttpHeaders,
  type ServerResponse,
} from "node:http";
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
  await new Promise<void>((resolve, reject) => {
    server.once("error", (error) =>
      reject(new HostError(`${options.host}:${options.port}: ${error.message}`)),
    );
    server.listen({ host: options.host, port: options.port }, resolve);
  });
  return {
    async close() {
      const closed = new Promise((resolve) => server.close(resolve));
      server.closeAllConnections();
      await closed;
    },
  };
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

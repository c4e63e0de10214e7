import {
  createServer,
  request as httpRequest,
  type IncomingMessage,
  type Server,
  type ServerResponse,
} from "node:http";
import { freePort } from "./ports.ts";

/** A request that went through, or was to. */
export interface Seen {
  readonly method: string;
  /** Path and query, as they were on the wire. */
  readonly target: string;
}

/** A request that is held. */
export interface Held {
  /** Resolves when it is there. */
  readonly arrived: Promise<void>;
  /** Resolves when the first bytes of its body are there. */
  readonly begun: Promise<void>;
  /** What it is answered in the end; 0 if its connection breaks before. */
  readonly status: Promise<number>;
  /** Hands it on. */
  release(): void;
}

/** What a test does to a request: breaks its connection after so many bytes of its body, answers it, or lets it hang. */
export type Trouble = { readonly cutAfterBytes: number } | { readonly status: number } | "silence";

/**
 * Stands between a client and a server, hands on what they say, and counts. Signatures stay good: the `Host` that
 * the client signed is handed on as well.
 */
export class StoreProxy {
  readonly #target: URL;
  #server: Server | undefined;
  #port = 0;
  #open = 0;
  readonly requests: Seen[] = [];
  /** Most requests that were open at a time. */
  peak = 0;
  /** Bytes of bodies that came from clients. */
  received = 0;
  /** Asked for every request. One for which it promises an answer is held until then. */
  trouble: (seen: Seen, exchange: Exchange) => Trouble | undefined | Promise<Trouble | undefined> = () =>
    undefined;

  constructor(target: string) {
    this.#target = new URL(target);
  }

  get endpoint(): string {
    return `http://127.0.0.1:${this.#port}`;
  }

  async start(): Promise<void> {
    // Not one that the system gives out: while it is down, a connection could be given its port.
    if (this.#port === 0) this.#port = await freePort();
    this.#server = createServer((request, response) => this.#serve(request, response));
    const { promise, resolve } = Promise.withResolvers<void>();
    this.#server.listen(this.#port, "127.0.0.1", resolve);
    await promise;
  }

  /** Goes down, breaking what is open; `start` brings it back on the same port. */
  async stop(): Promise<void> {
    const server = this.#server;
    this.#server = undefined;
    if (!server) return;
    const closed = new Promise((resolve) => server.close(resolve));
    server.closeAllConnections();
    await closed;
  }

  /** Forgets what was counted and makes no trouble any more. */
  reset(): void {
    this.requests.length = 0;
    this.peak = 0;
    this.received = 0;
    this.trouble = () => undefined;
  }

  /** Holds the first request that `which` picks, with what its client has not sent yet. */
  holdFirst(which: (seen: Seen) => boolean): Held {
    const [arrived, begun] = [Promise.withResolvers<void>(), Promise.withResolvers<void>()];
    const [released, status] = [Promise.withResolvers<undefined>(), Promise.withResolvers<number>()];
    let isHeld = false;
    this.trouble = (seen, { request, response }) => {
      if (isHeld || !which(seen)) return undefined;
      isHeld = true;
      request.once("readable", begun.resolve);
      response.once("close", () => status.resolve(response.writableFinished ? response.statusCode : 0));
      arrived.resolve();
      return released.promise;
    };
    return {
      arrived: arrived.promise,
      begun: begun.promise,
      status: status.promise,
      release: () => released.resolve(undefined),
    };
  }

  #serve(request: IncomingMessage, response: ServerResponse): void {
    const seen = { method: request.method ?? "", target: request.url ?? "/" };
    this.requests.push(seen);
    this.#open += 1;
    this.peak = Math.max(this.peak, this.#open);
    response.once("close", () => {
      this.#open -= 1;
    });
    const trouble = this.trouble(seen, { request, response });
    if (trouble instanceof Promise) void trouble.then((late) => this.#treat({ request, response }, late));
    else this.#treat({ request, response }, trouble);
  }

  #treat({ request, response }: Exchange, trouble: Trouble | undefined): void {
    request.on("data", (chunk: Buffer) => {
      this.received += chunk.length;
    });
    if (trouble === "silence") request.resume();
    else if (trouble && "status" in trouble) refuse({ request, response, status: trouble.status });
    else
      this.#handOn({ request, response, cutAfterBytes: trouble?.cutAfterBytes ?? Number.POSITIVE_INFINITY });
  }

  #handOn({ request, response, cutAfterBytes }: HandOn): void {
    const { expect: _nobodyWaits, ...headers } = request.headers;
    const { hostname: host, port } = this.#target;
    const { method, url: path } = request;
    const onward = httpRequest({ host, port, method, path, headers, agent: false }, (answer) => {
      response.writeHead(answer.statusCode ?? 502, answer.headers);
      answer.pipe(response);
      answer.on("error", () => response.destroy());
    });
    onward.on("error", () => response.destroy());
    response.on("error", () => onward.destroy());
    let passed = 0;
    request.on("data", (chunk: Buffer) => {
      passed += chunk.length;
      if (passed <= cutAfterBytes) return;
      request.socket.destroy();
      onward.destroy();
    });
    request.pipe(onward);
  }
}

interface Exchange {
  readonly request: IncomingMessage;
  readonly response: ServerResponse;
}

interface HandOn extends Exchange {
  readonly cutAfterBytes: number;
}

function refuse({ request, response, status }: Exchange & { status: number }): void {
  request.resume();
  response.writeHead(status, { "content-length": 0 }).end();
}

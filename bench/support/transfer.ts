import { once } from "node:events";
import { connect, type Socket } from "node:net";
import type { SignedRequest } from "./signing.ts";

const RECEIVE_BUFFER_BYTES = 1024 * 1024;

export interface Transferred {
  readonly seconds: number;
  readonly bodyBytes: number;
}

/**
 * One exchange on a connection of its own, for bodies so large that an HTTP client library would be what is
 * measured: the body goes out as the pieces are, and what comes back is counted in one buffer and dropped. Times from
 * the first byte sent to the last one received; the answer must be a 200 with a Content-Length.
 */
export async function transfer(
  endpoint: string,
  { request, pieces, size }: { request: SignedRequest; pieces?: Iterable<Buffer>; size?: number },
): Promise<Transferred> {
  const { hostname, port } = new URL(endpoint);
  const answer = new AnswerCounter();
  const socket = connect({
    host: hostname,
    port: Number(port),
    noDelay: true,
    onread: {
      buffer: Buffer.allocUnsafe(RECEIVE_BUFFER_BYTES),
      callback: (length, buffer) => answer.take(Buffer.from(buffer.buffer, buffer.byteOffset, length)),
    },
  });
  socket.once("error", (error) => answer.fail(error));
  socket.once("close", () =>
    answer.fail(new Error("the connection was closed before the answer was complete")),
  );
  await once(socket, "connect");

  const startedAt = performance.now();
  try {
    socket.write(head(request, { host: `${hostname}:${port}`, size: size ?? 0 }));
    await Promise.race([send(socket, pieces ?? []), answer.complete]);
    const bodyBytes = await answer.complete;
    return { seconds: (performance.now() - startedAt) / 1000, bodyBytes };
  } finally {
    socket.destroy();
  }
}

function head(
  { method, path, headers }: SignedRequest,
  { host, size }: { host: string; size: number },
): string {
  const fields = { ...headers, host, "content-length": String(size), connection: "close" };
  const lines = Object.entries(fields).map(([name, value]) => `${name}: ${value}`);
  return `${method} ${path} HTTP/1.1\r\n${lines.join("\r\n")}\r\n\r\n`;
}

async function send(socket: Socket, pieces: Iterable<Buffer>): Promise<void> {
  for (const piece of pieces) {
    if (socket.destroyed) return;
    if (!socket.write(piece)) await once(socket, "drain");
  }
}

/** Reads the head of an answer and counts its body. */
class AnswerCounter {
  readonly #complete = Promise.withResolvers<number>();
  #head = "";
  #inBody = false;
  #expected = 0;
  #received = 0;

  constructor() {
    this.#complete.promise.catch(() => {});
  }

  /** Settles with the bytes in the body. */
  get complete(): Promise<number> {
    return this.#complete.promise;
  }

  fail(error: Error): void {
    this.#complete.reject(error);
  }

  /** Asks for more. */
  take(bytes: Buffer): boolean {
    if (this.#inBody) this.#received += bytes.length;
    else this.#readHead(bytes);
    if (this.#inBody && this.#received >= this.#expected) this.#complete.resolve(this.#received);
    return true;
  }

  #readHead(bytes: Buffer): void {
    this.#head += bytes.toString("latin1");
    const end = this.#head.indexOf("\r\n\r\n");
    if (end < 0) return;
    const length = /^content-length: *(\d+)\r$/im.exec(this.#head);
    if (!this.#head.startsWith("HTTP/1.1 200 ") || !length) {
      this.fail(new Error(`unexpected answer: ${this.#head}`));
      return;
    }
    this.#inBody = true;
    this.#expected = Number(length[1]);
    this.#received = this.#head.length - end - 4;
  }
}

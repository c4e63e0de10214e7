import { createServer, type IncomingMessage, type Server, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";
import { AwsV4Signer } from "aws4fetch";

interface Key {
  readonly accessKeyId: string;
  readonly secretAccessKey: string;
}

const CONDITIONS = ["if-match", "if-none-match"];

/**
 * An S3 store that does not look at conditions: it takes them off requests, which it hands on to a real one. Clients sign
 * conditions, so it signs anew, with a key of its own.
 */
export class ForgetfulStore {
  readonly #target: string;
  readonly #key: Key;
  readonly #server: Server = createServer((request, response) => void this.#serve(request, response));

  constructor(target: string, key: Key) {
    this.#target = target;
    this.#key = key;
  }

  get endpoint(): string {
    return `http://127.0.0.1:${(this.#server.address() as AddressInfo).port}`;
  }

  async start(): Promise<void> {
    const { promise, resolve } = Promise.withResolvers<void>();
    this.#server.listen(0, "127.0.0.1", resolve);
    await promise;
  }

  async stop(): Promise<void> {
    this.#server.closeAllConnections();
    await new Promise((resolve) => this.#server.close(resolve));
  }

  async #serve(request: IncomingMessage, response: ServerResponse): Promise<void> {
    try {
      const chunks: Buffer[] = [];
      for await (const chunk of request) chunks.push(chunk as Buffer);
      const answer = await this.#handOn(request, Buffer.concat(chunks));
      const {
        "content-encoding": _,
        "transfer-encoding": __,
        ...headers
      } = Object.fromEntries(answer.headers);
      response.writeHead(answer.status, headers).end(Buffer.from(await answer.arrayBuffer()));
    } catch {
      response.destroy();
    }
  }

  async #handOn({ method = "GET", url, headers }: IncomingMessage, body: Buffer): Promise<Response> {
    const kept = Object.entries(headers).filter(
      ([name]) =>
        /^(x-amz-(meta|checksum|sdk-checksum|decoded|trailer)|content-|range)/.test(name) &&
        !CONDITIONS.includes(name),
    );
    const signer = new AwsV4Signer({
      method,
      url: this.#target + url,
      headers: {
        ...(Object.fromEntries(kept) as Record<string, string>),
        "x-amz-content-sha256": unsigned(headers["x-amz-content-sha256"]),
      },
      ...this.#key,
      service: "s3",
      region: "us-east-1",
    });
    const signed = await signer.sign();
    const sent = Object.fromEntries(signed.headers);
    const hasBody = !["GET", "HEAD"].includes(method);
    return await fetch(signed.url, { method, headers: sent, ...(hasBody && { body: new Uint8Array(body) }) });
  }
}

/** What is said of a body whose framing stays as it is, but is not part of the signature any more. */
function unsigned(said: string | string[] | undefined): string {
  return String(said).includes("TRAILER") ? "STREAMING-UNSIGNED-PAYLOAD-TRAILER" : "UNSIGNED-PAYLOAD";
}

import { Readable } from "node:stream";
import { AwsV4Signer } from "aws4fetch";
import { Agent } from "undici";
import type { Door } from "./keys.ts";

export interface Ask {
  readonly method: string;
  /** As it goes on the wire, percent-encoded: `/master.data/a%20b?versionId=…`. */
  readonly target: string;
  readonly headers?: Readonly<Record<string, string>>;
  readonly body?: Uint8Array | string;
  /** Sends the body without telling its length before. */
  readonly lengthless?: boolean;
}

export interface Answer {
  readonly status: number;
  readonly headers: Readonly<Record<string, string>>;
  readonly body: Buffer;
  readonly text: string;
}

/** Far less than the 5 s after which a server ends an idle connection: no request may go out on one that is just being ended. */
const IDLE_MS = 1000;

// A test may hold many connections (parallel PUTs and long polls); a killed gateway ends them.
const agent = new Agent({
  ...{ connections: 256, headersTimeout: 60_000, bodyTimeout: 60_000 },
  ...{ keepAliveTimeout: IDLE_MS, keepAliveMaxTimeout: IDLE_MS },
});

/** One HTTP exchange exactly as asked: no signature, no redirect, no retry, nothing normalised. */
export async function exchange(endpoint: string, ask: Ask, signal?: AbortSignal): Promise<Answer> {
  // Origin and path apart, because a URL object would resolve `..` and re-encode.
  const response = await agent.request({
    origin: endpoint,
    path: ask.target,
    method: ask.method as "GET",
    headers: { ...ask.headers },
    body: ask.lengthless ? Readable.from(ask.body ? [Buffer.from(ask.body)] : []) : (ask.body ?? null),
    ...(signal ? { signal } : {}),
  });
  const body = Buffer.from(await response.body.arrayBuffer());
  const headers = Object.fromEntries(
    Object.entries(response.headers).map(([name, value]) => [
      name,
      Array.isArray(value) ? value.join(", ") : (value ?? ""),
    ]),
  );
  return { status: response.statusCode, headers, body, text: body.toString() };
}

export interface Signature {
  /** `YYYYMMDDTHHMMSSZ`; now where absent. */
  readonly datetime?: string;
}

/** The headers that sign a request with SigV4, service `s3`. */
export async function signatureHeaders(
  { endpoint, accessKeyId, secretAccessKey }: Door,
  { method, target, headers = {}, body }: Ask,
  { datetime }: Signature = {},
): Promise<Record<string, string>> {
  const signer = new AwsV4Signer({
    method,
    url: `${endpoint}${target}`,
    headers: { ...headers },
    accessKeyId,
    secretAccessKey,
    service: "s3",
    region: "us-east-1",
    // No test signs shared memory, which the types of browsers tell from other memory.
    ...(body === undefined ? {} : { body: body as string | Uint8Array<ArrayBuffer> }),
    ...(datetime === undefined ? {} : { datetime }),
  });
  const signed = await signer.sign();
  return Object.fromEntries(signed.headers);
}

/** A signed exchange. */
export async function signedExchange(door: Door, ask: Ask, signal?: AbortSignal): Promise<Answer> {
  return exchange(door.endpoint, { ...ask, headers: await signatureHeaders(door, ask) }, signal);
}

const GONE = ["ECONNREFUSED", "ECONNRESET", "EPIPE", "UND_ERR_SOCKET"];

/** Whether an error is what a client sees of a gateway that was killed, while connecting, sending or reading. */
export function isGone(error: unknown): boolean {
  return error instanceof Error && "code" in error && GONE.includes(String(error.code));
}

import { AwsV4Signer } from "aws4fetch";
import { type Dispatcher, Pool } from "undici";
import type { z } from "zod";
import { ErrorBody } from "../protocol/errors.ts";
import { LEASE_WAIT_MS } from "../protocol/runner.ts";
import type { Failure } from "./retry.ts";

export interface ClientOptions {
  /** Origin, without a path. */
  readonly endpoint: string;
  readonly accessKeyId: string;
  readonly secretAccessKey: string;
}

export interface Request {
  readonly method: "GET" | "POST" | "PUT" | "DELETE";
  /** Path with its segments encoded; the query is apart. */
  readonly path: string;
  readonly query?: Readonly<Record<string, string>>;
  readonly headers?: Readonly<Record<string, string>>;
  readonly body?: Dispatcher.DispatchOptions["body"];
  readonly signal: AbortSignal;
}

/** The gateway answered with an error: its own words. */
export class GatewayError extends Error {
  override readonly name = "GatewayError";
  readonly status: number;
  readonly code: string;

  constructor({ status, code, message }: { status: number; code: string; message: string }) {
    super(message);
    this.status = status;
    this.code = code;
  }
}

/** The gateway answered with something that is not the protocol: it is of another version, or is not a gateway. */
export class ContractError extends Error {
  override readonly name = "ContractError";
}

/** Whether it may go better next time. Whatever is no answer of the gateway is a broken connection. */
export function failureOf(error: unknown): Failure {
  if (error instanceof ContractError) return "final";
  if (!(error instanceof GatewayError)) return "unreachable";
  return error.status >= 500 || error.status === 429 || error.status === 408 ? "transient" : "final";
}

// A lease call waits on purpose; every other answer comes long before.
const ANSWER_TIMEOUT_MS = LEASE_WAIT_MS + 15_000;
const STALLED_BODY_MS = 60_000;

/** Signed requests to one gateway over kept-alive connections. One try each: who calls knows what a retry means. */
export class Client {
  readonly #pool: Pool;
  readonly #options: ClientOptions;
  /** Signing keys of the day. */
  readonly #keys = new Map<string, ArrayBuffer>();

  constructor(options: ClientOptions) {
    this.#options = options;
    this.#pool = new Pool(options.endpoint, {
      headersTimeout: ANSWER_TIMEOUT_MS,
      bodyTimeout: STALLED_BODY_MS,
      connectTimeout: 5000,
    });
  }

  /** The answer, held to its schema. Throws GatewayError, ContractError, or what broke the connection. */
  async call<Schema extends z.ZodType>(answer: Schema, request: Request): Promise<z.infer<Schema>> {
    const { body } = await this.send(request);
    const text = await body.text();
    const parsed = answer.safeParse(jsonOf(text));
    if (parsed.success) return parsed.data;
    const issue = parsed.error.issues[0];
    throw new ContractError(
      `the gateway's answer to ${request.method} ${request.path} is not the protocol: ${issue?.path.join(".")}: ${issue?.message}`,
    );
  }

  /** A good answer, whose body must be read or destroyed. */
  async send(request: Request): Promise<Dispatcher.ResponseData> {
    const { path, headers } = await this.#signed(request);
    const response = await this.#pool.request({
      method: request.method,
      path,
      headers,
      body: request.body ?? null,
      signal: request.signal,
    });
    if (response.statusCode >= 200 && response.statusCode < 300) return response;
    throw await gatewayError(response);
  }

  /** Breaks what is under way. */
  async close(): Promise<void> {
    await this.#pool.destroy();
  }

  // The body is not part of the signature, so that a stream can be sent as it is read.
  async #signed(request: Request): Promise<{ path: string; headers: Record<string, string> }> {
    const path = request.path + queryOf(request.query ?? {});
    const signer = new AwsV4Signer({
      url: this.#options.endpoint + path,
      method: request.method,
      headers: { ...request.headers, "x-amz-content-sha256": "UNSIGNED-PAYLOAD" },
      accessKeyId: this.#options.accessKeyId,
      secretAccessKey: this.#options.secretAccessKey,
      service: "s3",
      region: "auto",
      cache: this.#keys,
    });
    const signed = await signer.sign();
    return { path, headers: Object.fromEntries(signed.headers) };
  }
}

// Spaces as %20: "+" means a space to some readers of a query and a plus to others, and the signature is over either.
function queryOf(query: Readonly<Record<string, string>>): string {
  const pairs = Object.entries(query).map(([name, value]) => `${name}=${encodeURIComponent(value)}`);
  return pairs.length === 0 ? "" : `?${pairs.join("&")}`;
}

async function gatewayError(response: Dispatcher.ResponseData): Promise<GatewayError> {
  const status = response.statusCode;
  const text = await response.body.text().catch(() => "");
  const parsed = ErrorBody.safeParse(jsonOf(text));
  if (!parsed.success)
    return new GatewayError({ status, code: "Unknown", message: `the gateway answered ${status}` });
  const { code, message, issues } = parsed.data.error;
  const details = (issues ?? []).map((issue) => `${issue.path}: ${issue.message}`);
  return new GatewayError({ status, code, message: [message, ...details].join("; ") });
}

function jsonOf(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}

import type { Dispatcher, WebSocket } from "undici";
import type { z } from "zod";
import { ErrorBody, TOO_LARGE_IN_FRONT } from "../../protocol/errors.ts";
import { jsonOf } from "../../protocol/json.ts";
import { GatewayError, type Query, queryOf } from "../../protocol/requests.ts";
import { type Key, SignedPool, SKEWED } from "../lib/signed-pool.ts";

export interface ClientOptions extends Key {
  /** Origin, without a path. */
  readonly endpoint: string;
}

export interface Request {
  readonly method: "GET" | "POST" | "PUT" | "DELETE";
  /** Path with its segments encoded; the query is apart. */
  readonly path: string;
  readonly query?: Query;
  readonly headers?: Readonly<Record<string, string>>;
  readonly body?: Dispatcher.DispatchOptions["body"];
  /** Longest silence of the gateway before and within the answer, in milliseconds: then the connection counts as broken. */
  readonly silenceMs?: number;
  readonly signal: AbortSignal;
}

/** The answer does not follow the protocol: the gateway has another version, or it is no gateway at all. */
export class ContractError extends Error {
  override readonly name = "ContractError";
}

/** The gateway's error code if a grant is not good any more, such as after a pause of this machine. */
export const STALE_GRANT = "InvalidGrant";

/**
 * What a failure says about trying again. `unreachable`: nothing answered, or something in front of the gateway did,
 * so it may be down for as long as it likes. `transient`: an answer, or bytes, that may be better next time. `final`:
 * it would be the same again.
 */
export type Failure = "unreachable" | "transient" | "final";

/** Whether another try may go better. An error that is no answer of the gateway counts as a broken connection. */
export function failureOf(error: unknown): Failure {
  if (error instanceof ContractError) return "final";
  if (!(error instanceof GatewayError)) return "unreachable";
  if (isAway(error)) return "unreachable";
  // The client has learnt the time meanwhile, or the lease is being renewed for another grant.
  if (error.code === SKEWED || error.code === STALE_GRANT) return "transient";
  return error.status >= 500 || error.status === 408 ? "transient" : "final";
}

/** Whether something in front of the gateway says that it is away (Cloudflare: 52x and 530), or the gateway that it is overloaded. */
function isAway({ status }: GatewayError): boolean {
  return [429, 502, 503, 504, 530].includes(status) || (status >= 520 && status <= 527);
}

// Only waiting shows that a connection's other end has vanished.
const SILENCE_MS = 30_000;

/** Signed requests to one gateway over kept-alive connections. One try each: only the caller knows what a retry means. */
export class Client {
  readonly #pool: SignedPool;

  constructor(options: ClientOptions) {
    this.#pool = new SignedPool(options, { connectTimeout: 5000 });
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
    const { method, query, headers = {}, body, silenceMs = SILENCE_MS, signal } = request;
    const path = request.path + queryOf(query);
    // The first one also ends a request body that nobody takes any more.
    const silence = { headersTimeout: silenceMs, bodyTimeout: silenceMs };
    return this.#pool.send(
      { method, path, headers, body: () => body, signal, ...silence },
      // A body that was streamed is gone: its sender must begin anew.
      { refusalOf: gatewayError, mayRepeat: body == null || typeof body === "string" },
    );
  }

  /** Asks for a WebSocket. */
  socket({ path, query }: Pick<Request, "path" | "query">): Promise<WebSocket> {
    return this.#pool.socket(path + queryOf(query));
  }

  /** Breaks what is under way. */
  async close(): Promise<void> {
    await this.#pool.close();
  }
}

async function gatewayError(response: Dispatcher.ResponseData): Promise<GatewayError> {
  const status = response.statusCode;
  const text = await response.body.text().catch(() => "");
  const parsed = ErrorBody.safeParse(jsonOf(text));
  if (!parsed.success) {
    const message = status === 413 ? TOO_LARGE_IN_FRONT : `the gateway answered ${status}`;
    return new GatewayError(message, { status, code: "Unknown" });
  }
  const { code, message, issues } = parsed.data.error;
  const details = (issues ?? []).map((issue) => `${issue.path}: ${issue.message}`);
  return new GatewayError([message, ...details].join("; "), { status, code, issues });
}

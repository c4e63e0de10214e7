import { createHash } from "node:crypto";
import { AwsV4Signer } from "aws4fetch";
import pRetry from "p-retry";
import { type Dispatcher, Pool } from "undici";
import type { z } from "zod";
import { ErrorBody, type Issue } from "../../protocol/errors.ts";
import { GatewayClock, SKEWED, signingTime } from "../../runner/gateway/gateway-clock.ts";
import type { ClientOptions } from "../options.ts";
import { CliError } from "../output/failure.ts";
import { parseS3Error } from "./answers.ts";
import { type Connection, findConnection } from "./connection.ts";

type Stream = Exclude<Dispatcher.DispatchOptions["body"], string | Uint8Array | FormData | null | undefined>;

export interface Ask {
  readonly method: "GET" | "HEAD" | "PUT" | "POST" | "DELETE";
  /** Percent-encoded, without the query. */
  readonly path: string;
  readonly query?: Readonly<Record<string, string>>;
  readonly headers?: Readonly<Record<string, string>>;
  /** Sent as JSON. */
  readonly json?: unknown;
  /** Called for each try: a stream can be read only once. */
  readonly stream?: () => Stream;
  /** The request may be sent again if its answer was lost. Every method but POST may always. */
  readonly repeatable?: true;
  /** Longest silence before the answer begins, in milliseconds. */
  readonly patienceMs?: number;
}

export type Answer = Dispatcher.ResponseData;

/** The gateway said no. */
export class GatewayError extends CliError {
  override readonly name = "GatewayError";
  readonly status: number;

  constructor(message: string, options: { status: number; code: string; issues?: readonly Issue[] }) {
    super(message, options);
    this.status = options.status;
  }
}

const TRIES = 4;
const DEFAULT_PATIENCE_MS = 120_000;

/** Signed requests to one gateway, repeated if that is safe and may help. Any failure is thrown as a CliError. */
export class Client {
  readonly connection: Connection;
  readonly #pool: Pool;
  readonly #clock = new GatewayClock();
  /** Signing keys of the day. */
  readonly #keys = new Map<string, ArrayBuffer>();

  constructor(connection: Connection) {
    this.connection = connection;
    this.#pool = new Pool(connection.endpoint, {
      connections: 8,
      bodyTimeout: 60_000,
      connectTimeout: 10_000,
    });
  }

  /** A call of the control API whose answer must fit the schema. `path` is below `/api/v1`. */
  async call<Schema extends z.ZodType>(answers: Schema, ask: Ask): Promise<z.infer<Schema>> {
    const answer = await this.send({ ...ask, path: `/api/v1${ask.path}` });
    const text = await answer.body.text();
    const parsed = answers.safeParse(parsedJson(text));
    if (parsed.success) return parsed.data;
    const issue = parsed.error.issues[0];
    throw new CliError(
      `${this.connection.endpoint} does not answer ${ask.method} /api/v1${ask.path} as this version of sluice expects: ${issue?.path.join(".")} ${issue?.message}`,
      { code: "ContractError" },
    );
  }

  /** A good answer; its body must be read or dumped. */
  async send(ask: Ask): Promise<Answer> {
    const repeatable = ask.method !== "POST" || ask.repeatable;
    return pRetry(() => this.#once(ask), {
      retries: repeatable ? TRIES - 1 : 0,
      minTimeout: 200,
      randomize: true,
      shouldRetry: ({ error }) => mayGoBetter(error),
    });
  }

  async close(): Promise<void> {
    await this.#pool.destroy();
  }

  async #once(ask: Ask): Promise<Answer> {
    const first = await this.#exchange(ask);
    if (isGood(first)) return first;
    const refused = await this.#refusal(first);
    // Nothing was done, and the right time is known now: even what may be asked only once is asked again.
    if (refused.code !== SKEWED || !this.#clock.learn(first.headers.date)) throw refused;
    const second = await this.#exchange(ask);
    if (isGood(second)) return second;
    throw await this.#refusal(second);
  }

  async #exchange(ask: Ask): Promise<Answer> {
    const text = ask.json === undefined ? undefined : JSON.stringify(ask.json);
    const path = ask.path + queryOf(ask.query ?? {});
    const headers = await this.#sign(ask, { path, text });
    try {
      return await this.#pool.request({
        method: ask.method,
        path,
        headers,
        body: text ?? ask.stream?.() ?? null,
        headersTimeout: ask.patienceMs ?? DEFAULT_PATIENCE_MS,
      });
    } catch (error) {
      throw this.#unreachable(error);
    }
  }

  // A stream is sent as it is read, so its hash can't be in the signature; its digest travels beside it.
  async #sign(
    ask: Ask,
    { path, text }: { path: string; text: string | undefined },
  ): Promise<Record<string, string>> {
    const signer = new AwsV4Signer({
      url: this.connection.endpoint + path,
      method: ask.method,
      headers: {
        ...ask.headers,
        ...(text === undefined ? {} : { "content-type": "application/json" }),
        "x-amz-content-sha256": ask.stream ? "UNSIGNED-PAYLOAD" : sha256Hex(text ?? ""),
      },
      accessKeyId: this.connection.accessKeyId,
      secretAccessKey: this.connection.secretAccessKey,
      service: "s3",
      region: "auto",
      datetime: signingTime(this.#clock.now()),
      cache: this.#keys,
    });
    return Object.fromEntries((await signer.sign()).headers);
  }

  #unreachable(error: unknown): CliError {
    const code = codeOf(error);
    const { endpoint } = this.connection;
    if (code === "ECONNREFUSED") {
      return new CliError(
        `no gateway answers at ${endpoint}; start one with 'sluice dev', or set SLUICE_ENDPOINT`,
        {
          code,
        },
      );
    }
    const words = error instanceof Error ? error.message : String(error);
    return new CliError(`the connection to ${endpoint} failed: ${words}`, { code });
  }

  async #refusal(answer: Answer): Promise<GatewayError> {
    const text = await answer.body.text().catch(() => "");
    const status = answer.statusCode;
    const api = ErrorBody.safeParse(parsedJson(text));
    const { code, message, issues = [] } = api.success ? api.data.error : parseS3Error(status, text);
    const hint =
      code === "InvalidAccessKeyId" || code === "SignatureDoesNotMatch"
        ? ` (the key is ${this.connection.accessKeyId}, from ${this.connection.keySource})`
        : "";
    return new GatewayError(`${message}${hint}`, { status, code, issues });
  }
}

/** Runs a command with a client of the gateway that the options and the environment name. */
export async function withClient<T>(options: ClientOptions, act: (client: Client) => Promise<T>): Promise<T> {
  const client = new Client(findConnection({ dataDir: options.data, env: process.env }));
  try {
    return await act(client);
  } finally {
    await client.close();
  }
}

function isGood({ statusCode }: Answer): boolean {
  return statusCode >= 200 && statusCode < 300;
}

/** Segments percent-encoded as SigV4 wants them; slashes stay. */
export function encodePath(path: string): string {
  return path.split("/").map(encode).join("/");
}

function encode(text: string): string {
  return encodeURIComponent(text).replace(
    /[!'()*]/g,
    (character) => `%${character.charCodeAt(0).toString(16).toUpperCase()}`,
  );
}

function queryOf(query: Readonly<Record<string, string>>): string {
  const pairs = Object.entries(query).map(([name, value]) => `${encode(name)}=${encode(value)}`);
  return pairs.length === 0 ? "" : `?${pairs.join("&")}`;
}

const TRANSIENT_CODES = [
  "ECONNRESET",
  "EPIPE",
  "UND_ERR_SOCKET",
  "UND_ERR_HEADERS_TIMEOUT",
  "UND_ERR_CONNECT_TIMEOUT",
];

function mayGoBetter(error: unknown): boolean {
  if (error instanceof GatewayError) return [408, 429, 500, 502, 503, 504].includes(error.status);
  return error instanceof CliError && TRANSIENT_CODES.includes(error.code);
}

function codeOf(error: unknown): string {
  const code = error instanceof Error && "code" in error ? error.code : undefined;
  return typeof code === "string" ? code : "Unreachable";
}

function sha256Hex(text: string): string {
  return createHash("sha256").update(text).digest("hex");
}

function parsedJson(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}

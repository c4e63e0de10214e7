import { createHash } from "node:crypto";
import { setTimeout as pause } from "node:timers/promises";
import pRetry from "p-retry";
import type { Dispatcher } from "undici";
import type { z } from "zod";
import { ErrorBody, type Issue } from "../../protocol/errors.ts";
import { jsonOf } from "../../protocol/json.ts";
import { type Query, queryOf } from "../../protocol/requests.ts";
import { SignedPool } from "../../runner/lib/signed-pool.ts";
import { CliError, EXIT, errnoOf, exitCodeOf } from "../output/failure.ts";
import { printNote } from "../output/output.ts";
import { parseS3Error } from "./answers.ts";
import type { Connection } from "./connection/connection.ts";

type Stream = Exclude<Dispatcher.DispatchOptions["body"], string | Uint8Array | FormData | null | undefined>;

export interface Ask {
  readonly method: "GET" | "HEAD" | "PUT" | "POST" | "DELETE";
  /** Percent-encoded, without the query. */
  readonly path: string;
  readonly query?: Query | undefined;
  readonly headers?: Readonly<Record<string, string>>;
  /** Sent as JSON. */
  readonly json?: unknown;
  /** Sent as it is. */
  readonly text?: string | undefined;
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
  /** What an S3 request was about; the key is empty if it was about the bucket. */
  readonly object: { readonly bucket: string; readonly key: string } | undefined;

  constructor(
    message: string,
    options: {
      status: number;
      code: string;
      issues?: readonly Issue[];
      object?: GatewayError["object"];
    },
  ) {
    super(message, { ...options, exitCode: exitCodeOfAnswer(options) });
    this.status = options.status;
    this.object = options.object;
  }
}

function exitCodeOfAnswer({ status, code }: { status: number; code: string }): number {
  if (status === 404) return EXIT.absent;
  const own = exitCodeOf(code);
  if (own === EXIT.diskFull) return own;
  return [502, 503, 504].includes(status) ? EXIT.unreachable : own;
}

const TRIES = 4;
const DEFAULT_PATIENCE_MS = 120_000;

/** Signed requests to one gateway, repeated if that is safe and may help. Any failure is thrown as a CliError. */
export class Client {
  readonly connection: Connection;
  readonly #pool: SignedPool;

  constructor(connection: Connection) {
    this.connection = connection;
    this.#pool = new SignedPool(connection, { connections: 8, bodyTimeout: 60_000, connectTimeout: 10_000 });
  }

  /** A call of the control API whose answer must fit the schema. `path` is below `/api/v1`. */
  async call<Schema extends z.ZodType>(answers: Schema, ask: Ask): Promise<z.infer<Schema>> {
    const answer = await this.send({ ...ask, path: `/api/v1${ask.path}` });
    const text = await answer.body.text().catch((error: unknown) => Promise.reject(this.#unreachable(error)));
    this.mustBeNoPage(text);
    const parsed = answers.safeParse(jsonOf(text));
    if (parsed.success) return parsed.data;
    const issue = parsed.error.issues[0];
    throw new CliError(
      `${this.connection.endpoint} does not answer ${ask.method} /api/v1${ask.path} as this version of sluice expects: ${issue?.path.join(".")} ${issue?.message}`,
      { code: "ContractError" },
    );
  }

  /** What is at a path of the control API. */
  get<Schema extends z.ZodType>(answers: Schema, path: string, query?: Query): Promise<z.infer<Schema>> {
    return this.call(answers, { method: "GET", path, query });
  }

  /** A list of the control API, page by page. */
  pages<Schema extends z.ZodType<{ readonly next: string | number | null }>>(
    answers: Schema,
    path: string,
    query: Query = {},
  ): AsyncGenerator<z.infer<Schema>> {
    return pagesOf((after) => this.get(answers, path, { ...query, after }));
  }

  put<Schema extends z.ZodType>(answers: Schema, path: string, json: unknown): Promise<z.infer<Schema>> {
    return this.call(answers, { method: "PUT", path, json });
  }

  post<Schema extends z.ZodType>(
    answers: Schema,
    path: string,
    more: Pick<Ask, "query" | "json" | "repeatable"> = {},
  ): Promise<z.infer<Schema>> {
    return this.call(answers, { method: "POST", path, ...more });
  }

  /** Deletes what is at a path of the control API. */
  async delete(path: string, query?: Query): Promise<void> {
    const answer = await this.send({ method: "DELETE", path: `/api/v1${path}`, query });
    await answer.body.dump();
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
    await this.#pool.close();
  }

  async #once(ask: Ask): Promise<Answer> {
    const text = ask.json === undefined ? ask.text : JSON.stringify(ask.json);
    const type = ask.json === undefined ? {} : { "content-type": "application/json" };
    try {
      return await this.#pool.send(
        {
          method: ask.method,
          path: ask.path + queryOf(ask.query),
          headers: { ...ask.headers, ...type },
          // A stream's hash can't be in the signature; its digest travels beside it.
          ...(!ask.stream && { sha256: sha256Hex(text ?? "") }),
          body: () => text ?? ask.stream?.(),
          headersTimeout: ask.patienceMs ?? DEFAULT_PATIENCE_MS,
        },
        { refusalOf: (answer) => this.#refusal(answer, ask.path), mayRepeat: true },
      );
    } catch (error) {
      // What is sent may fail by itself, such as an archive that is damaged.
      throw error instanceof CliError ? error : this.#unreachable(error);
    }
  }

  #unreachable(error: unknown): CliError {
    const code = errnoOf(error) ?? "Unreachable";
    return new CliError(this.#whyUnreachable(code, error), { code, exitCode: EXIT.unreachable });
  }

  #whyUnreachable(code: string, error: unknown): string {
    const { endpoint, endpointSource } = this.connection;
    if (code === "ECONNREFUSED") {
      return `no gateway answers at ${endpoint} (from ${endpointSource}); start one with 'sluice dev', or ${this.#remedy}`;
    }
    if (code === "ENOTFOUND" || code === "EAI_AGAIN") {
      return `the host ${new URL(endpoint).hostname} (from ${endpointSource}) is not found; ${this.#remedy}`;
    }
    if (code === "ERR_SSL_WRONG_VERSION_NUMBER" || code === "ERR_SSL_PACKET_LENGTH_TOO_LONG") {
      return `${endpoint} (from ${endpointSource}) does not speak TLS: write ${endpoint.replace("https:", "http:")}`;
    }
    return `the connection to ${endpoint} failed: ${error instanceof Error ? error.message.trim() : String(error)}`;
  }

  /** What was set is to be set right, under its own name. */
  get #remedy(): string {
    const { endpointSource } = this.connection;
    return isVariable(endpointSource) ? `set ${endpointSource} to another one` : "set SLUICE_ENDPOINT";
  }

  /** Throws if what came is a page of a web server and no answer of a gateway. */
  mustBeNoPage(text: string): void {
    if (!/^\s*<(!doctype\s+html|html)/i.test(text)) return;
    const { endpoint, endpointSource } = this.connection;
    throw new CliError(
      `no gateway answers at ${endpoint} (from ${endpointSource}), but a web page; ${this.#remedy}`,
      { code: "NoGateway", exitCode: EXIT.unreachable },
    );
  }

  async #refusal(answer: Answer, path: string): Promise<GatewayError> {
    const text = await answer.body.text().catch(() => "");
    const status = answer.statusCode;
    // A proxy in front of a gateway has a page for 5xx, and for a body that is too large for it.
    if (status < 500 && status !== 413) this.mustBeNoPage(text);
    const api = ErrorBody.safeParse(jsonOf(text));
    const { code, message, issues = [] } = api.success ? api.data.error : await parseS3Error(status, text);
    const hint =
      code === "InvalidAccessKeyId" || code === "SignatureDoesNotMatch"
        ? ` (the key is ${this.connection.accessKeyId}, from ${this.connection.keySource})`
        : "";
    const words = asFlags(namingVariables(message, this.connection.keySource));
    return new GatewayError(`${words}${hint}`, { status, code, issues, object: objectIn(path) });
  }
}

/** The gateway speaks of the variables of S3 tools, where another one may have been read. */
function namingVariables(message: string, keySource: string): string {
  return message.replace(/\bAWS_((?:SECRET_)?ACCESS_KEY(?:_ID)?)\b/g, (_, name: string) =>
    isVariable(keySource) ? keySource.replace("ACCESS_KEY_ID", name) : keySource,
  );
}

function isVariable(source: string): boolean {
  return /^[A-Z_0-9]+$/.test(source);
}

/** The gateway speaks of parameters of its API, which people here type as options: `keepOutput=true` is --keep-output. */
function asFlags(message: string): string {
  return message.replace(
    /\b(keepOutput|force|update|reprocess|dryRun)=true\b/g,
    (_, name: string) => `--${name.replace(/[A-Z]/g, (letter) => `-${letter.toLowerCase()}`)}`,
  );
}

/** What the path of an S3 request names; undefined if it is of the control API, or of no bucket. */
function objectIn(path: string): GatewayError["object"] {
  if (path.startsWith("/api/") || path === "/") return undefined;
  const [bucket = "", ...key] = path.slice(1).split("/").map(decodeURIComponent);
  return { bucket, key: key.join("/") };
}

/** What was asked for; undefined if the gateway refuses it with one of these statuses or codes. */
export async function unlessRefused<T>(
  asked: Promise<T>,
  ...by: readonly (number | string)[]
): Promise<T | undefined> {
  try {
    return await asked;
  } catch (error) {
    if (error instanceof GatewayError && (by.includes(error.status) || by.includes(error.code)))
      return undefined;
    throw error;
  }
}

/** A list, page by page. Each page says where the next one begins. */
export async function* pagesOf<Page extends { readonly next: unknown }>(
  ask: (after: NonNullable<Page["next"]> | undefined) => Promise<Page>,
): AsyncGenerator<Page> {
  let after: NonNullable<Page["next"]> | undefined;
  do {
    const page = await ask(after);
    yield page;
    after = page.next ?? undefined;
  } while (after !== undefined);
}

/** Every page of a list. */
export async function allPages<Page>(pages: AsyncIterable<Page>): Promise<Page[]> {
  const all: Page[] = [];
  for await (const page of pages) all.push(page);
  return all;
}

const TRANSIENT_CODES = [
  "ECONNRESET",
  "EPIPE",
  "UND_ERR_SOCKET",
  "UND_ERR_HEADERS_TIMEOUT",
  "UND_ERR_CONNECT_TIMEOUT",
];

/** Whether a failure is one of the way to the gateway, or of a gateway that starts or is overloaded: it may be gone later. */
export function isAway(error: unknown): boolean {
  return mayGoBetter(error) || (error instanceof CliError && error.exitCode === EXIT.unreachable);
}

function mayGoBetter(error: unknown): boolean {
  // A full disk stays full until somebody makes room.
  if (error instanceof CliError && error.exitCode === EXIT.diskFull) return false;
  if (error instanceof GatewayError) return [408, 429, 500, 502, 503, 504].includes(error.status);
  return error instanceof CliError && TRANSIENT_CODES.includes(error.code);
}

function sha256Hex(text: string): string {
  return createHash("sha256").update(text).digest("hex");
}

/** Says that the gateway went away and is asked again. */
export function noteAway({ connection }: Client): void {
  printNote(`the gateway ${connection.endpoint} is away; trying again`);
}

/** Pauses between two tries, and how long it is tried. */
const FIRST_PAUSE_MS = 200;
const LAST_PAUSE_MS = 5_000;
const GIVE_UP_MS = 10 * 60_000;

/**
 * Asks again for as long as the gateway is away, such as while it starts anew, and at most for ten minutes. `lost` is told
 * once when it went away. `deadline`: by `performance.now()`, since the machine's clock may be set while it waits.
 */
export async function patiently<T>(
  ask: () => Promise<T>,
  { lost, deadline = Number.POSITIVE_INFINITY }: { lost: (error: unknown) => void; deadline?: number },
): Promise<T> {
  const end = Math.min(performance.now() + GIVE_UP_MS, deadline);
  for (let pauseMs = FIRST_PAUSE_MS, tries = 0; ; pauseMs = Math.min(pauseMs * 2, LAST_PAUSE_MS), tries++) {
    try {
      return await ask();
    } catch (error) {
      if (!isAway(error) || performance.now() >= end) throw error;
      if (tries === 0) lost(error);
    }
    // At random, so that many who wait do not come back at once.
    await pause(pauseMs * (0.5 + Math.random() / 2));
  }
}

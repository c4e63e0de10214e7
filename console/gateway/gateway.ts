import type { ErrorBody } from "../../protocol/errors.ts";
import { GatewayError, type Query, queryOf } from "../../protocol/requests.ts";
import { RequestSigner, type Signer } from "./signer.ts";

/** Whether nothing answered, or something that says it can't for the moment. */
export function isAway(error: unknown): boolean {
  return error instanceof GatewayError && [0, 502, 503, 504].includes(error.status);
}

/** Whether the key or session is refused as such: it was deleted or ended, or mistyped. */
export function isOfKey(error: unknown): error is GatewayError {
  return error instanceof GatewayError && KEY_CODES.has(error.code);
}

const KEY_CODES = new Set(["InvalidAccessKeyId", "SignatureDoesNotMatch"]);

export interface Ask {
  readonly method?: "GET" | "HEAD" | "PUT" | "POST" | "DELETE";
  readonly query?: Query | undefined;
  readonly headers?: Readonly<Record<string, string>>;
  /** Sent as JSON. */
  readonly json?: unknown;
  /** Sent as it is, in place of JSON. */
  readonly body?: Blob | string;
  readonly signal?: AbortSignal | undefined;
  /** A read is asked for as a whole, and not only for what is new, if the last whole answer is older. Absent: never. */
  readonly wholeAfterMs?: number | undefined;
}

interface LinesAsk extends Ask {
  /** Called when the answer begins, which may be long before its first line. */
  opened(): void;
}

interface Remembered {
  readonly etag: string;
  readonly value: unknown;
  /** When it came. */
  readonly at: number;
}

/** Most answers of which the ETag is kept. */
const MAX_REMEMBERED = 50;

/** A read begins to be answered by then, or the gateway is taken for away: a poll that hung would be the last one. */
const ANSWER_WITHIN_MS = 30_000;

/** Signed requests to the gateway that serves this page. */
export class Gateway {
  /** The key as which its requests are done. */
  readonly keyId: string;
  /** What people know that key by: what it is for, or its id if nobody said so. */
  readonly keyName: string;
  /** Whether a session signs in its place. */
  readonly isSession: boolean;
  readonly #signer: RequestSigner;
  readonly #remembered = new Map<string, Remembered>();
  readonly #end = new AbortController();
  /** What the gateway's clock is ahead of ours: signatures are held to its clock. */
  #aheadMs = 0;

  constructor(signer: Signer) {
    this.keyId = signer.keyId;
    this.keyName = signer.description || signer.keyId;
    this.isSession = signer.id !== signer.keyId;
    this.#signer = new RequestSigner(signer);
  }

  /** Breaks off all that is under way. Nothing is sent any more. */
  end(): void {
    this.#end.abort();
  }

  /**
   * A call of the control API; `path` is below `/api/v1`. The page comes from the gateway that answers, and each of its calls
   * is tested against it, so that answers are taken by their types.
   */
  async call<T>(path: string, ask: Ask = {}): Promise<T> {
    const target = `/api/v1${path}${queryOf(ask.query)}`;
    const isRead = (ask.method ?? "GET") === "GET";
    const last = isRead ? this.#remembered.get(target) : undefined;
    const isOld = last && Date.now() - last.at > (ask.wholeAfterMs ?? Number.POSITIVE_INFINITY);
    const known = isOld ? undefined : last;
    const answer = await this.send(target, {
      ...ask,
      ...(known && { headers: { ...ask.headers, "if-none-match": known.etag } }),
    });
    if (answer.status === 304 && known) return known.value as T;
    const text = await answer.text().catch(() => {
      throw unreachable();
    });
    const value = text === "" ? undefined : jsonOf(text);
    const etag = answer.headers.get("etag");
    if (!isRead || etag === null) return value;
    this.#remembered.delete(target);
    this.#remembered.set(target, { etag, value, at: Date.now() });
    const [oldest] = this.#remembered.keys();
    if (this.#remembered.size > MAX_REMEMBERED && oldest !== undefined) this.#remembered.delete(oldest);
    return value;
  }

  /** An answer of the control API that is a line of JSON for each thing, as the lines come. Throws a fault that is away if it breaks off. */
  async *lines<T>(path: string, { opened, ...ask }: LinesAsk): AsyncGenerator<T, void> {
    const answer = await this.send(`/api/v1${path}${queryOf(ask.query)}`, ask);
    opened();
    if (!answer.body) return;
    let rest = "";
    for await (const text of chunksOf(answer.body.pipeThrough(new TextDecoderStream()))) {
      const lines = (rest + text).split("\n");
      rest = lines.pop() ?? "";
      // An empty line only says that the answer goes on.
      for (const line of lines) if (line !== "") yield jsonOf(line) as T;
    }
  }

  /** A good answer, or 304. `target`: path and query, percent-encoded. */
  async send(target: string, ask: Ask = {}): Promise<Response> {
    for (let isAgain = false; ; isAgain = true) {
      const answer = await this.#once(target, ask);
      if (answer.ok || answer.status === 304) return answer;
      const fault = await faultOf(answer);
      if (isAgain || fault.code !== "RequestTimeTooSkewed" || !this.#setClock(answer)) throw fault;
    }
  }

  async #once(target: string, { method = "GET", json, body: raw, headers, signal }: Ask): Promise<Response> {
    const body = json === undefined ? raw : JSON.stringify(json);
    const signed = await this.#signer.sign({
      url: location.origin + target,
      method,
      headers: { ...headers, ...(json !== undefined && { "content-type": "application/json" }) },
      at: Date.now() + this.#aheadMs,
    });
    const ended = this.#end.signal;
    const answering = new AbortController();
    const isRead = method === "GET" || method === "HEAD";
    const timer = isRead ? setTimeout(() => answering.abort(), ANSWER_WITHIN_MS) : undefined;
    try {
      return await fetch(signed.url, {
        method,
        headers: signed.headers,
        ...(body !== undefined && { body }),
        signal: AbortSignal.any([ended, answering.signal, ...(signal ? [signal] : [])]),
        // What the browser knows of other pages is no business of these calls, and nothing of them is to stay in its cache.
        credentials: "omit",
        cache: "no-store",
        redirect: "error",
      });
    } catch (error) {
      if (signal?.aborted || ended.aborted) throw error;
      throw unreachable();
    } finally {
      clearTimeout(timer);
    }
  }

  /** Takes over the gateway's time. Returns whether that may help. */
  #setClock(answer: Response): boolean {
    const time = Date.parse(answer.headers.get("date") ?? "");
    if (Number.isNaN(time)) return false;
    this.#aheadMs = time - Date.now();
    return true;
  }
}

/** Not every browser iterates over streams. */
async function* chunksOf(stream: ReadableStream<string>): AsyncGenerator<string, void> {
  const reader = stream.getReader();
  try {
    for (;;) {
      const { value, done } = await reader.read().catch(() => {
        throw unreachable();
      });
      if (done) return;
      yield value;
    }
  } finally {
    await reader.cancel().catch(() => undefined);
  }
}

/** What stands between us and the gateway may answer in its place. */
function jsonOf(text: string) {
  try {
    return JSON.parse(text);
  } catch {
    const why = { status: 502, code: "NoAnswer" };
    throw new GatewayError("Something else than the gateway answers at this address.", why);
  }
}

function unreachable(): GatewayError {
  const words = "The gateway does not answer. It may be starting anew, or this machine is offline.";
  return new GatewayError(words, { status: 0, code: "Unreachable" });
}

async function faultOf(answer: Response): Promise<GatewayError> {
  const text = await answer.text().catch(() => "");
  const { status } = answer;
  try {
    const { error }: ErrorBody = JSON.parse(text);
    const { code, message, issues = [] } = error;
    return new GatewayError(message, { status, code, issues });
  } catch {
    const code = /<Code>([^<]+)/.exec(text)?.[1] ?? "NoAnswer";
    const message = /<Message>([^<]+)/.exec(text)?.[1];
    const words = message ?? `The gateway answered with status ${status} and no words.`;
    return new GatewayError(words, { status, code });
  }
}

/** Waits so long. Throws if the signal is aborted before. */
export function pause(ms: number, signal: AbortSignal): Promise<void> {
  return new Promise((resolve, reject) => {
    const timer = setTimeout(resolve, ms);
    const leave = (): void => {
      clearTimeout(timer);
      reject(signal.reason);
    };
    signal.addEventListener("abort", leave, { once: true });
  });
}

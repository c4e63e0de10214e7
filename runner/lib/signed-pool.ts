import aws4 from "aws4";
import type { Dispatcher, WebSocket } from "undici";
import ask from "undici/lib/api/api-request.js";
import Pool from "undici/lib/dispatcher/pool.js";
import { WIRE_HEADER, WIRE_VERSION } from "../../protocol/runner.ts";

export interface Key {
  readonly accessKeyId: string;
  readonly secretAccessKey: string;
}

export interface SignedRequest {
  readonly method: "GET" | "HEAD" | "POST" | "PUT" | "DELETE";
  /** Path with its segments encoded, and the query. */
  readonly path: string;
  readonly headers: Readonly<Record<string, string>>;
  /** Absent: the body is not part of the signature, so that a stream can be sent as it is read. */
  readonly sha256?: string;
  /** Called for each try: a stream can be read only once. */
  readonly body: () => Dispatcher.DispatchOptions["body"];
  readonly headersTimeout: number;
  readonly bodyTimeout?: number;
  readonly signal?: AbortSignal;
}

/** Headers that whoever is between us and the gateway may write in another way. */
const UNSIGNED = { "content-length": true, "content-type": true };

/** The gateway's error code if a request's time and its own are too far apart. */
export const SKEWED = "RequestTimeTooSkewed";

/**
 * Kept-alive connections to one gateway. Each request says which version of the wire it is of. Requests are signed by the gateway's time: at first that of this node's clock,
 * then corrected by what the gateway's answers say. So a node works even if its clock is wrong.
 */
export class SignedPool {
  readonly #pool: Pool;
  readonly #gateway: Key & { readonly endpoint: string };
  /** By how much the gateway's clock is ahead of ours. */
  #aheadMs = 0;

  constructor(gateway: Key & { readonly endpoint: string }, options: Pool.Options) {
    this.#gateway = gateway;
    this.#pool = new Pool(gateway.endpoint, options);
  }

  /**
   * A good answer; its body must be read or destroyed. Throws what `refusalOf` makes of any other. A request that was refused
   * for its time only is sent again by the right time if `mayRepeat`: nothing was done.
   */
  async send(
    request: SignedRequest,
    { refusalOf, mayRepeat }: { refusalOf: RefusalOf; mayRepeat: boolean },
  ): Promise<Dispatcher.ResponseData> {
    const first = await this.#ask(request);
    if (isGood(first)) return first;
    const refused = await refusalOf(first);
    const learnt = refused.code === SKEWED && this.#learn(first.headers.date);
    if (!learnt || !mayRepeat) throw refused;
    const second = await this.#ask(request);
    if (isGood(second)) return second;
    throw await refusalOf(second);
  }

  /** Asks for a WebSocket. What becomes of it, its events tell. */
  async socket(path: string): Promise<WebSocket> {
    // Loaded when it is needed: it brings a browser's whole network.
    const { default: parts } = await import("undici/lib/web/websocket/websocket.js");
    const url = new URL(path, this.#gateway.endpoint.replace(/^http/, "ws"));
    const headers = this.#signed({ method: "GET", path, headers: {} });
    return new parts.WebSocket(url, { headers, dispatcher: this.#pool });
  }

  /** Breaks what is under way. */
  async close(): Promise<void> {
    await this.#pool.destroy();
  }

  async #ask({ sha256, body, ...request }: SignedRequest): Promise<Dispatcher.ResponseData> {
    const headers = this.#signed({ ...request, sha256 });
    return await ask.call(this.#pool, { ...request, headers, body: body() ?? null });
  }

  #signed({
    method,
    path,
    headers: given,
    sha256 = "UNSIGNED-PAYLOAD",
  }: Pick<SignedRequest, "method" | "path" | "headers"> & { readonly sha256?: string | undefined }): Record<
    string,
    string
  > {
    const { endpoint, ...key } = this.#gateway;
    const { headers = {} } = aws4.sign(
      {
        host: new URL(endpoint).host,
        path,
        method,
        headers: {
          ...given,
          [WIRE_HEADER]: String(WIRE_VERSION),
          "x-amz-content-sha256": sha256,
          // YYYYMMDDTHHMMSSZ
          "x-amz-date": new Date(Date.now() + this.#aheadMs).toISOString().replace(/[-:]|\.\d{3}/g, ""),
        },
        service: "s3",
        region: "auto",
        ...{ extraHeadersToIgnore: UNSIGNED },
      },
      key,
    );
    return headers as Record<string, string>;
  }

  /** Takes over the time of an answer (its Date header). Returns false if it has none. */
  #learn(date: unknown): boolean {
    const at = typeof date === "string" ? Date.parse(date) : Number.NaN;
    if (Number.isNaN(at)) return false;
    this.#aheadMs = at - Date.now();
    return true;
  }
}

type RefusalOf = (answer: Dispatcher.ResponseData) => Promise<Error & { readonly code: string }>;

function isGood({ statusCode }: Dispatcher.ResponseData): boolean {
  return statusCode >= 200 && statusCode < 300;
}

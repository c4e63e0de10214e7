import { handleApi } from "../../../worker/api/api.ts";
import { type Caller, openContext } from "../../../worker/app.ts";
import type { ScopeLevel } from "../../../worker/core/permissions.ts";
import { type Env, readConfig } from "../../../worker/env.ts";
import type { Faults } from "./faults.ts";
import { type Actor, actorNow, runAs, type World } from "./world.ts";

/** How long a request, or an answer, is on its way at most; milliseconds. */
const ON_THE_WAY_MS = 10;

export interface GatewayRequest {
  readonly method: "GET" | "PUT" | "POST" | "DELETE";
  /** Below `/api/v1`, with its query. */
  readonly path: string;
  /** An object goes as JSON. */
  readonly body?: object | Uint8Array;
  readonly headers?: Readonly<Record<string, string>>;
  /** What the key that signed may do. */
  readonly level: ScopeLevel;
}

export interface GatewayAnswer {
  readonly status: number;
  readonly bytes: Uint8Array;
}

interface GatewayOptions {
  readonly world: World;
  readonly faults: Faults;
  readonly env: () => unknown;
}

/** The control API of the gateway, by the code that answers it on workerd from where the signature was found good. */
export class SimulatedGateway {
  readonly #options: GatewayOptions;
  readonly #underWay = new Set<Isolate>();

  constructor(options: GatewayOptions) {
    this.#options = options;
  }

  /** A request of whoever runs now. */
  async send(request: GatewayRequest): Promise<GatewayAnswer> {
    const { world, faults } = this.#options;
    const from = actorNow();
    if (!from) throw new Error("only an actor of the simulation can call the gateway");
    const later = (run: () => void) => world.after(world.random.next() * ON_THE_WAY_MS, run);
    return await new Promise((resolve, reject) => {
      const lost = () => reject(new Error("Network connection lost."));
      const answer = (settle: () => void) => later(() => from.isAlive && settle());
      later(() => {
        if (faults.losesCall("gateway", request.path)) answer(lost);
        else {
          this.#handled(request, from).then(
            (value) => answer(faults.losesAnswer("gateway", request.path) ? lost : () => resolve(value)),
            (error) => answer(() => reject(error)),
          );
        }
      });
    });
  }

  /** What is being answered ends: each caller's connection breaks. */
  end(): void {
    for (const isolate of this.#underWay) isolate.end();
    this.#underWay.clear();
  }

  async #handled(request: GatewayRequest, from: Actor): Promise<GatewayAnswer> {
    const isolate = new Isolate(this.#options.world);
    this.#underWay.add(isolate);
    try {
      return await Promise.race([runAs(isolate, () => this.#handle(request, from)), isolate.ended]);
    } finally {
      this.#underWay.delete(isolate);
    }
  }

  async #handle({ method, path, body, headers, level }: GatewayRequest, from: Actor): Promise<GatewayAnswer> {
    const env = this.#options.env() as Env;
    const read = readConfig(env);
    if (!read.ok) throw new Error(`the gateway is not set up: ${read.problem}`);
    const bytes =
      body instanceof Uint8Array
        ? Uint8Array.from(body)
        : new TextEncoder().encode(body === undefined ? "" : JSON.stringify(body));
    const request = new Request(`http://gateway/api/v1${path}`, {
      method,
      headers: { "content-length": String(bytes.length), ...headers },
      ...(body !== undefined && { body: streamOf(bytes), duplex: "half" }),
    } as RequestInit);
    const caller: Caller = {
      keyId: `simulated-${level}`,
      scope: { level, repos: null },
      payload: { form: "plain", sha256: null },
    };
    const answer = await handleApi(request, { context: openContext(env, read.config), caller });
    return { status: answer.status, bytes: await readWhole(answer, from) };
  }
}

/** Reads an answer, as long as whoever asked is there. The gateway sees by that that nobody is. */
async function readWhole({ body }: Response, from: Actor): Promise<Uint8Array> {
  const pieces: Uint8Array[] = [];
  const reader = body?.getReader();
  for (;;) {
    const piece = await reader?.read();
    if (!piece || piece.done) return Buffer.concat(pieces);
    if (!from.isAlive) {
      await reader?.cancel();
      return new Uint8Array();
    }
    pieces.push(piece.value);
  }
}

/**
 * Bytes that are all there. A stream that Node makes of them takes turns of its own, which no clock here knows, and one of bytes
 * lacks what workerd has beside the standard (`readAtLeast`).
 */
function streamOf(bytes: Uint8Array): ReadableStream<Uint8Array> {
  return new ReadableStream({
    start(controller) {
      controller.enqueue(bytes);
      controller.close();
    },
  });
}

/** What answers one request: it keeps nothing that outlives it. */
class Isolate implements Actor {
  readonly world: World;
  isAlive = true;
  readonly #ended = Promise.withResolvers<never>();

  constructor(world: World) {
    this.world = world;
    this.#ended.promise.catch(() => {});
  }

  get ended(): Promise<never> {
    return this.#ended.promise;
  }

  async flushed(): Promise<void> {}

  end(): void {
    this.isAlive = false;
    this.#ended.reject(new Error("Network connection lost."));
  }
}

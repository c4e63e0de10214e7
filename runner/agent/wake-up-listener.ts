import type { WebSocket } from "undici";
import { jsonOf } from "../../protocol/json.ts";
import { SOCKET_PING, SOCKET_PING_MS, SOCKET_RETURN_MS, WakeUp } from "../../protocol/runner.ts";
import { jitteredBackoff, pause } from "../gateway/retry.ts";
import { messageOf } from "../lib/fault.ts";
import type { Log } from "../lib/log.ts";

/** What of a WebSocket is used. */
export type Socket = Pick<WebSocket, "addEventListener" | "send" | "close">;

export interface ListenerDeps {
  /** Asks for a socket. What becomes of it, its events tell. */
  readonly open: () => Promise<Socket>;
  /** Hears that the agent is to beat, within so many milliseconds. */
  readonly beat: (withinMs: number) => void;
  /** Hears which pipelines have something to do. */
  readonly work: (pipelines: readonly string[]) => void;
  readonly log: Log;
  readonly returnMs?: number;
  readonly pingMs?: number;
}

/** An opening socket that is neither open nor refused counts as refused. */
const OPEN_WITHIN_MS = 15_000;

/**
 * Keeps a socket to the gateway, by which a node is woken. A socket that broke comes back within SOCKET_RETURN_MS, by
 * chance: the node stays quiet meanwhile, since a deployment breaks those of a whole fleet. If it does not come back, the node
 * asks by itself until it has one.
 */
export class WakeUpListener {
  readonly #deps: ListenerDeps;
  #offered = Promise.withResolvers<void>();
  #isOffered = false;
  #isHeard = false;

  constructor(deps: ListenerDeps) {
    this.#deps = deps;
  }

  /** Whether the node would be woken, now or in a moment. */
  get isHeard(): boolean {
    return this.#isHeard && this.#isOffered;
  }

  /** What the gateway said last: whether it takes sockets. */
  offer(isOffered: boolean): void {
    if (isOffered === this.#isOffered) return;
    this.#isOffered = isOffered;
    if (isOffered) this.#offered.resolve();
    else this.#offered = Promise.withResolvers();
  }

  /** Listens until `drain`, whenever the gateway takes sockets. */
  async run(drain: AbortSignal): Promise<void> {
    const { open, log, returnMs = SOCKET_RETURN_MS } = this.#deps;
    const backoff = jitteredBackoff({ minMs: 1_000, maxMs: 60_000 });
    const drained = aborted(drain);
    while (!drain.aborted) {
      await Promise.race([this.#offered.promise, drained]);
      if (drain.aborted) return;
      const listened = await open()
        .then((socket) => this.#listen(socket, drained))
        .catch((error: unknown) => {
          log.debug({ reason: messageOf(error) }, "the gateway could not be asked for a socket");
          return false;
        });
      this.#isHeard = listened;
      if (listened) backoff.reset();
      await pause(listened ? Math.random() * returnMs : backoff.next(), drain);
    }
  }

  /** Listens until the socket is closed or silent. Returns whether it was ever open. */
  async #listen(socket: Socket, drained: Promise<void>): Promise<boolean> {
    const { pingMs = SOCKET_PING_MS } = this.#deps;
    const ended = Promise.withResolvers<void>();
    let isOpen = false;
    let isSilent = false;
    let timer = setTimeout(ended.resolve, OPEN_WITHIN_MS);
    const ping = () => {
      // A close of its own would wait for an answer.
      if (isSilent) return ended.resolve();
      isSilent = true;
      socket.send(SOCKET_PING);
      timer = setTimeout(ping, pingMs);
    };
    socket.addEventListener("open", () => {
      isOpen = true;
      this.#isHeard = true;
      clearTimeout(timer);
      timer = setTimeout(ping, pingMs);
    });
    socket.addEventListener("message", ({ data }) => {
      isSilent = false;
      this.#hear(String(data));
    });
    // An error is followed by a close.
    socket.addEventListener("close", () => ended.resolve());
    await Promise.race([ended.promise, drained]);
    clearTimeout(timer);
    socket.close();
    return isOpen;
  }

  #hear(text: string): void {
    const wakeUp = WakeUp.safeParse(jsonOf(text));
    if (!wakeUp.success) return;
    const { beat, work } = wakeUp.data;
    if (beat) this.#deps.beat(beat.withinMs);
    if (work) this.#deps.work(work);
  }
}

function aborted(signal: AbortSignal): Promise<void> {
  return new Promise((resolve) => {
    if (signal.aborted) resolve();
    else signal.addEventListener("abort", () => resolve(), { once: true });
  });
}

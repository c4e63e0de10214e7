import { once } from "node:events";
import { rm } from "node:fs/promises";
import { connect, createServer, type Server, type Socket } from "node:net";

/** Stands between an agent and an engine, and can be cut. */
export class SocketRelay {
  /** What the agent takes for the engine's socket. */
  readonly path: string;
  readonly #to: string;
  readonly #sockets = new Set<Socket>();
  #server: Server | undefined;

  constructor(path: string, to: string) {
    this.path = path;
    this.#to = to;
  }

  /** Lets calls through, from now on or again. */
  async open(): Promise<void> {
    this.#server = createServer({ allowHalfOpen: true }, (from) => this.#relay(from)).listen(this.path);
    await once(this.#server, "listening");
  }

  /** As if the engine ended: calls under way break off, and new ones find nobody. */
  async cut(): Promise<void> {
    if (!this.#server) return;
    const closed = once(this.#server, "close");
    this.#server.close();
    for (const socket of this.#sockets) socket.destroy();
    await closed;
    this.#server = undefined;
    await rm(this.path, { force: true });
  }

  #relay(from: Socket): void {
    const to = connect({ path: this.#to, allowHalfOpen: true });
    for (const [one, other] of [
      [from, to],
      [to, from],
    ] as const) {
      this.#sockets.add(one);
      one.pipe(other);
      one.on("error", () => other.destroy());
      one.on("close", () => {
        this.#sockets.delete(one);
        other.destroy();
      });
    }
  }
}

import { connect, createServer, type Server, type Socket } from "node:net";
import { freePort } from "./ports.ts";

/** What stands between a client and a gateway, and may fail as a network does. */
export interface Wire {
  readonly endpoint: string;
  /** How many connections were asked for so far, whatever became of them. */
  attempts(): number;
  /** Not a byte passes any more, and nobody is told: connections stay open, and new ones are taken. */
  silence(): void;
  /** Breaks all connections and takes no new ones. */
  cut(): Promise<void>;
  /** Passes everything again, on new connections. */
  mend(): Promise<void>;
  stop(): Promise<void>;
}

/** Passes bytes on to the gateway as they are. */
export async function openWire({ endpoint }: { readonly endpoint: string }): Promise<Wire> {
  const to = new URL(endpoint);
  const port = await freePort();
  const sockets = new Set<Socket>();
  let attempts = 0;
  let silent = false;
  let server: Server | undefined;

  const keep = (socket: Socket): Socket => {
    sockets.add(socket);
    socket.once("close", () => sockets.delete(socket)).on("error", () => socket.destroy());
    return socket;
  };
  const take = (near: Socket): void => {
    attempts += 1;
    keep(near);
    if (silent) return void near.pause();
    const far = keep(connect(Number(to.port), to.hostname));
    near.pipe(far).pipe(near);
    near.once("close", () => far.destroy());
    far.once("close", () => near.destroy());
  };
  const open = async (): Promise<void> => {
    server = createServer(take);
    await new Promise<void>((listening) => server?.listen(port, "127.0.0.1", listening));
  };
  const close = async (): Promise<void> => {
    const closing = server;
    server = undefined;
    for (const socket of sockets) socket.destroy();
    await new Promise((closed) => (closing ? closing.close(closed) : closed(undefined)));
  };

  await open();
  return {
    endpoint: `http://127.0.0.1:${port}`,
    attempts: () => attempts,
    silence() {
      silent = true;
      for (const socket of sockets) socket.unpipe().pause();
    },
    cut: close,
    async mend() {
      silent = false;
      await close();
      await open();
    },
    stop: close,
  };
}

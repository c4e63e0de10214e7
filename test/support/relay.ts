import { createServer, request as forward, type IncomingMessage } from "node:http";
import { freePort } from "./ports.ts";

/** An exchange that has passed. */
export interface Passed {
  readonly method: string;
  readonly path: string;
  readonly status: number;
}

/** What stands between a client and a gateway, and sees what passes. */
export interface Relay {
  readonly endpoint: string;
  /** Resolves once such an exchange has passed, be it before this is asked. */
  seen(matches: (passed: Passed) => boolean): Promise<Passed>;
  stop(): Promise<void>;
}

/** Hands every request on as it is, Host included, so that signatures hold. */
export async function startRelay({ endpoint }: { readonly endpoint: string }): Promise<Relay> {
  const passed: Passed[] = [];
  let watchers: (() => void)[] = [];
  const note = ({ method = "", url: path = "" }: IncomingMessage, status: number): void => {
    passed.push({ method, path, status });
    for (const watcher of watchers) watcher();
  };
  const server = createServer((incoming, answer) => {
    const { method, headers } = incoming;
    const outgoing = forward(endpoint + incoming.url, { method, headers }, (response) => {
      answer.writeHead(response.statusCode ?? 0, response.rawHeaders);
      response.pipe(answer);
      response.once("end", () => note(incoming, response.statusCode ?? 0));
    });
    outgoing.once("error", () => answer.destroy());
    incoming.pipe(outgoing);
  });
  const port = await freePort();
  await new Promise<void>((listening) => server.listen(port, "127.0.0.1", listening));
  return {
    endpoint: `http://127.0.0.1:${port}`,
    seen: (matches) =>
      new Promise((resolve) => {
        const look = (): void => {
          const found = passed.find(matches);
          if (!found) return;
          watchers = watchers.filter((watcher) => watcher !== look);
          resolve(found);
        };
        watchers.push(look);
        look();
      }),
    stop: () =>
      new Promise((stopped) => {
        server.close(() => stopped());
        server.closeAllConnections();
      }),
  };
}

import { createServer, request as forward, type IncomingMessage } from "node:http";
import { freePort } from "./ports.ts";

/** An exchange that has passed. */
export interface Passed {
  readonly method: string;
  readonly path: string;
  readonly status: number;
  /** The bodies, as text. */
  readonly sent: string;
  readonly answered: string;
}

/** What stands between a client and a gateway, and sees what passes. */
export interface Relay {
  readonly endpoint: string;
  /** Every exchange that has passed, in order. */
  readonly passed: readonly Passed[];
  /** Resolves once such an exchange has passed, be it before this is asked. */
  seen(matches: (passed: Passed) => boolean): Promise<Passed>;
  stop(): Promise<void>;
}

/** Answers that a client is to see in another form. */
export interface Changed {
  readonly path: string;
  readonly answer: (text: string) => string;
}

/** Hands every request on as it is, Host included, so that signatures hold. */
export async function startRelay(
  { endpoint }: { readonly endpoint: string },
  changed?: Changed,
): Promise<Relay> {
  const passed: Passed[] = [];
  let watchers: (() => void)[] = [];
  const note = (exchange: Passed): void => {
    passed.push(exchange);
    for (const watcher of watchers) watcher();
  };
  const server = createServer((incoming, answer) => {
    const { method = "", url: path = "", headers } = incoming;
    const sent = textOf(incoming);
    const outgoing = forward(endpoint + path, { method, headers }, (response) => {
      const { statusCode: status = 0, rawHeaders } = response;
      const answered = textOf(response);
      if (path === changed?.path && status === 200) {
        const { "transfer-encoding": _, "content-length": __, ...headers } = response.headers;
        response.once("end", () => answer.writeHead(status, headers).end(changed.answer(answered())));
      } else {
        answer.writeHead(status, rawHeaders);
        response.pipe(answer);
      }
      response.once("end", () => note({ method, path, status, sent: sent(), answered: answered() }));
    });
    outgoing.once("error", () => answer.destroy());
    // A client that goes away is away for the gateway, too.
    answer.once("close", () => outgoing.destroy());
    incoming.pipe(outgoing);
  });
  const port = await freePort();
  await new Promise<void>((listening) => server.listen(port, "127.0.0.1", listening));
  return {
    endpoint: `http://127.0.0.1:${port}`,
    passed,
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

/** What has come of a message so far. */
function textOf(message: IncomingMessage): () => string {
  const chunks: Buffer[] = [];
  message.on("data", (chunk: Buffer) => chunks.push(chunk));
  return () => Buffer.concat(chunks).toString();
}

import { createServer } from "node:net";
import { threadId } from "node:worker_threads";
import { HostError } from "./host-error.ts";

const PROBLEMS: Readonly<Record<string, string>> = {
  EADDRINUSE: "is in use: choose another with --port, or stop what listens there",
  EACCES: "may not be opened by this user: choose one above 1023 with --port",
  EADDRNOTAVAIL: "is not on this machine: choose another address with --host",
  ENOTFOUND: "is not a known host: choose another with --host",
};

// The system gives outgoing connections ports from 32768 on (Linux) or from 49152 on. A port from there may go to such a
// connection between the claim and the moment when the gateway listens on it, which is a second later.
const OWN_PORTS = { first: 20_000, count: 10_000 };

let claims = 0;

/**
 * A port of `host` that can be listened on: the asked one, or for 0 a free one that the system gives to nobody by itself.
 * Throws a HostError if it can't be had.
 */
export async function claimPort(host: string, port: number): Promise<number> {
  if (port !== 0) return await probe(host, port);
  for (let tried = 0; tried < OWN_PORTS.count; tried += 1) {
    try {
      return await probe(host, ownPort());
    } catch (error) {
      if (!(error instanceof HostError && error.cause === "EADDRINUSE")) throw error;
    }
  }
  return await probe(host, 0);
}

/** Another one each time; processes that start side by side have other ones. */
function ownPort(): number {
  claims += 1;
  return OWN_PORTS.first + ((process.pid * 61 + threadId * 17 + claims) % OWN_PORTS.count);
}

function probe(host: string, port: number): Promise<number> {
  return new Promise((resolve, reject) => {
    const server = createServer();
    server.once("error", (error: NodeJS.ErrnoException) => {
      const problem = PROBLEMS[error.code ?? ""] ?? `can't be listened on: ${error.message}`;
      reject(new HostError(`${host}:${port} ${problem}`, { cause: error.code }));
    });
    server.listen({ host, port }, () => {
      const address = server.address();
      server.close(() => resolve(address && typeof address === "object" ? address.port : port));
    });
  });
}

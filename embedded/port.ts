import { createServer } from "node:net";
import { HostError } from "./host-error.ts";

const PROBLEMS: Readonly<Record<string, string>> = {
  EADDRINUSE: "is in use: choose another with --port, or stop what listens there",
  EACCES: "may not be opened by this user: choose one above 1023 with --port",
  EADDRNOTAVAIL: "is not on this machine: choose another address with --host",
  ENOTFOUND: "is not a known host: choose another with --host",
};

/** A port of `host` that can be listened on: the asked one, or any free one for 0. */
export function claimPort(host: string, port: number): Promise<number> {
  return new Promise((resolve, reject) => {
    const probe = createServer();
    probe.once("error", (error: NodeJS.ErrnoException) => {
      const problem = PROBLEMS[error.code ?? ""] ?? `can't be listened on: ${error.message}`;
      reject(new HostError(`${host}:${port} ${problem}`));
    });
    probe.listen({ host, port }, () => {
      const address = probe.address();
      probe.close(() => resolve(address && typeof address === "object" ? address.port : port));
    });
  });
}

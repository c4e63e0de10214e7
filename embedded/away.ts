import { randomUUID } from "node:crypto";
import { createServer } from "node:http";
import { ownPath } from "../protocol/names.ts";

/** When a client should ask again, in seconds. */
const RETRY_AFTER = "2";
const MESSAGE = "The gateway writes its databases anew and is back in some seconds: try again.";

/**
 * Stands at the gateway's address while the runtime does not run, and answers everything with 503. S3 clients, runners and
 * `sluice` ask again. Undefined if the address can't be had: clients then meet a refused connection, and ask again as well.
 */
export async function openAway(address: {
  readonly host: string;
  readonly port: number;
}): Promise<{ close(): Promise<void> } | undefined> {
  const server = createServer((request, response) => {
    const id = randomUUID();
    const isApi = (request.url ?? "").startsWith(ownPath("api"));
    const [type, body] = isApi
      ? [
          "application/json",
          JSON.stringify({ error: { code: "Unavailable", message: MESSAGE }, requestId: id }),
        ]
      : [
          "application/xml",
          `<?xml version="1.0" encoding="UTF-8"?>\n<Error><Code>ServiceUnavailable</Code><Message>${MESSAGE}</Message><RequestId>${id}</RequestId></Error>`,
        ];
    response.writeHead(503, {
      "content-type": type,
      "retry-after": RETRY_AFTER,
      "x-amz-request-id": id,
      connection: "close",
    });
    response.end(request.method === "HEAD" ? undefined : body, () => request.destroy());
  });
  const listening = await new Promise<boolean>((resolve) => {
    server.once("error", () => resolve(false));
    server.listen(address, () => resolve(true));
  });
  if (!listening) return undefined;
  return {
    async close() {
      const closed = new Promise((resolve) => server.close(resolve));
      server.closeAllConnections();
      await closed;
    },
  };
}

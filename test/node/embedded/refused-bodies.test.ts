import { Agent, request } from "node:http";
import type { Socket } from "node:net";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { type DevServer, startDevServer } from "../../support/dev-server.ts";
import { S3 } from "../../support/s3.ts";

let server: DevServer;

beforeAll(async () => {
  server = await startDevServer();
  await new S3(server).createBucket("master.refused");
});
afterAll(() => server?.stop());

const FORGED = {
  authorization:
    "AWS4-HMAC-SHA256 Credential=nobody/20260101/us-east-1/s3/aws4_request, SignedHeaders=host, Signature=00",
};

interface Sending {
  readonly method: "PUT" | "POST";
  readonly path: string;
  readonly headers: Readonly<Record<string, string>>;
  /** What is sent, piece by piece, each after the one before is on its way. */
  readonly pieces: readonly Buffer[];
}

/** Sends it on a connection of the agent, and tells the status and the connection. Rejects if a piece can't be written. */
function send(agent: Agent, { method, path, headers, pieces }: Sending): Promise<[number, Socket]> {
  return new Promise((resolve, reject) => {
    const sending = request(`${server.endpoint}${path}`, { method, headers, agent });
    sending.on("error", reject);
    sending.on("response", (answer) => {
      answer.resume().on("end", () => resolve([answer.statusCode ?? 0, sending.socket as Socket]));
    });
    const [...left] = pieces;
    const next = () => {
      const piece = left.shift();
      if (piece === undefined) sending.end();
      else sending.write(piece, () => setImmediate(next));
    };
    sending.flushHeaders();
    setImmediate(next);
  });
}

const BOUNDARY = "a-boundary";
const PIECES = Array.from({ length: 12 }, () => Buffer.alloc(16 * 1024, "x"));

const REFUSED: Readonly<Record<string, Sending & { readonly status: number }>> = {
  "a PUT whose signature is wrong": {
    ...{ method: "PUT", path: "/master.refused/key", headers: FORGED, pieces: PIECES, status: 400 },
  },
  "a form without a signature": {
    method: "POST",
    path: "/master.refused",
    headers: { "content-type": `multipart/form-data; boundary=${BOUNDARY}` },
    pieces: [
      Buffer.from(
        `--${BOUNDARY}\r\ncontent-disposition: form-data; name="key"\r\n\r\nk\r\n` +
          `--${BOUNDARY}\r\ncontent-disposition: form-data; name="file"; filename="f"\r\n\r\n`,
      ),
      ...PIECES,
      Buffer.from(`\r\n--${BOUNDARY}--\r\n`),
    ],
    status: 403,
  },
  "a request to the control API whose signature is wrong": {
    ...{ method: "PUT", path: "/api/v1/pipelines/p", headers: FORGED, pieces: PIECES, status: 400 },
  },
};

describe("the answer to a refused request", () => {
  test.each(Object.entries(REFUSED))("reaches a client that is still sending: %s", async (_, refused) => {
    const agent = new Agent({ keepAlive: true, maxSockets: 1 });
    try {
      const [status, first] = await send(agent, refused);
      expect(status).toBe(refused.status);
      // The connection goes on, so nothing of the body is taken for the next request.
      for (let round = 0; round < 5; round++) {
        const [again, socket] = await send(agent, refused);
        expect(again).toBe(refused.status);
        expect(socket).toBe(first);
      }
    } finally {
      agent.destroy();
    }
  });

  test("comes without the body if the client waits to be asked for it", async () => {
    const sending = request(`${server.endpoint}/master.refused/key`, {
      method: "PUT",
      headers: { ...FORGED, expect: "100-continue", "content-length": "1000" },
    });
    let isAsked = false;
    sending.on("continue", () => {
      isAsked = true;
    });
    const status = await new Promise((resolve, reject) => {
      sending.on("error", reject);
      sending.on("response", (answer) => resolve(answer.statusCode));
      sending.flushHeaders();
    });
    sending.destroy();
    expect([status, isAsked]).toEqual([400, false]);
  });
});

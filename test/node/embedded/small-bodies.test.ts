import { Agent, request } from "node:http";
import type { Socket } from "node:net";
import { afterAll, beforeAll, expect, test } from "vitest";
import { type DevServer, startDevServer } from "../../support/dev-server.ts";
import { signatureHeaders } from "../../support/http.ts";
import { S3 } from "../../support/s3.ts";

let server: DevServer;
let s3: S3;
const agent = new Agent({ keepAlive: true, maxSockets: 1 });

beforeAll(async () => {
  server = await startDevServer();
  s3 = new S3(server);
  await s3.createBucket("master.small");
});
afterAll(async () => {
  agent.destroy();
  await server?.stop();
});

interface Sending {
  readonly key: string;
  readonly body: Buffer;
  readonly headers?: Readonly<Record<string, string>>;
}

/** A signed PUT whose body goes out in two pieces, on the agent's connection. */
async function putInPieces({ key, body, headers = {} }: Sending): Promise<[status: number, Socket]> {
  const target = `/master.small/${key}`;
  const signed = await signatureHeaders(server, { method: "PUT", target, headers, body });
  return await new Promise((resolve, reject) => {
    const sending = request(`${server.endpoint}${target}`, {
      ...{ method: "PUT", agent },
      headers: { ...signed, "content-length": String(body.length) },
    });
    sending.on("error", reject);
    sending.on("response", (answer) => {
      answer.resume().on("end", () => resolve([answer.statusCode ?? 0, sending.socket as Socket]));
    });
    const half = body.length >> 1;
    sending.write(body.subarray(0, half), () => setImmediate(() => sending.end(body.subarray(half))));
  });
}

test("small bodies in pieces are kept as they are, one after the other on a connection, with refusals in between", async () => {
  let socket: Socket | undefined;
  for (const size of [1, 100, 4095, 4096, 4097, 20_000]) {
    const key = `of-${size}`;
    const body = Buffer.alloc(size, `${size} `);
    const [status, used] = await putInPieces({ key, body });
    expect(status).toBe(200);
    socket ??= used;
    expect(used).toBe(socket);
    expect(await s3.get("master.small", key)).toEqual(body);
    const other = { key, body: Buffer.alloc(size, "other"), headers: { "if-none-match": "*" } };
    expect(await putInPieces(other)).toEqual([412, socket]);
    expect(await s3.get("master.small", key)).toEqual(body);
  }
});

test("a small body whose sender goes away half-way is not kept", async () => {
  const target = "/master.small/cut-off";
  const body = Buffer.alloc(1000, "x");
  const headers = await signatureHeaders(server, { method: "PUT", target, body });
  const sending = request(`${server.endpoint}${target}`, {
    method: "PUT",
    headers: { ...headers, "content-length": String(body.length) },
  });
  sending.on("error", () => {});
  await new Promise<void>((resolve) => sending.write(body.subarray(0, 500), () => resolve()));
  sending.destroy();
  await putInPieces({ key: "later", body });
  expect(await s3.get("master.small", "later")).toEqual(body);
  expect(await s3.get("master.small", "cut-off")).toBeUndefined();
});

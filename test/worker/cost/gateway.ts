import { env, runInDurableObject } from "cloudflare:test";
import { AwsClient } from "aws4fetch";
import { expect, vi } from "vitest";
import type { Env } from "../../../worker/env.ts";
import gateway from "../../../worker/index.ts";

/** The gateway's variables as it is deployed: with access keys in D1, and copies of blobs near the reader. */
let variables = {
  ...env,
  SLUICE_ENCRYPTION_KEY: btoa("k".repeat(32)),
  SLUICE_BLOB_CACHE: "on",
  SLUICE_ROW_CACHE: "on",
} as unknown as Env;
let uncachedVariables: Env = { ...variables, SLUICE_BLOB_CACHE: "off" };

/** From now on requests come to an isolate that has just begun: what another one keeps goes by the clock that there was as it began. */
export function beginIsolate(): void {
  variables = { ...variables };
  uncachedVariables = { ...uncachedVariables };
}

export interface AccessKey {
  readonly id: string;
  readonly secret: string;
}

const ROOT: AccessKey = { id: env.SLUICE_ACCESS_KEY_ID, secret: env.SLUICE_SECRET_ACCESS_KEY };

export interface Sent {
  readonly body?: Uint8Array<ArrayBuffer> | string;
  readonly headers?: Readonly<Record<string, string>>;
  readonly key?: AccessKey;
  /** In an isolate that sees each bucket for the first time. */
  readonly anew?: true;
  /** The status of the answer, if it is not to be good. */
  readonly expected?: number;
  /** The gateway reads blobs from R2 alone. */
  readonly uncached?: true;
}

/** A request as a client signs it, for `PUT /bucket/key`, by the Worker's entry. Its answer must be good. */
export async function send(
  target: string,
  { body, headers, key = ROOT, uncached, anew, expected }: Sent = {},
): Promise<Response> {
  const [method = "", path = ""] = target.split(" ");
  const signer = new AwsClient({
    ...{ accessKeyId: key.id, secretAccessKey: key.secret },
    ...{ service: "s3", region: "auto", retries: 0 },
  });
  const length = body instanceof Uint8Array && { "content-length": String(body.length) };
  const request = await signer.sign(`http://gateway${path}`, {
    method,
    headers: { ...length, ...headers },
    ...(body !== undefined && { body }),
  });
  const answer = await gateway.fetch(
    request as Parameters<typeof gateway.fetch>[0],
    (anew ? { ...variables } : uncached ? uncachedVariables : variables) as Parameters<
      typeof gateway.fetch
    >[1],
  );
  if (answer.status >= 300 && answer.status !== expected)
    expect.fail(`${target} answers ${answer.status}: ${await answer.text()}`);
  return answer;
}

/** The same; reads what the answer has. */
export async function read(target: string, sent: Sent = {}): Promise<string> {
  return await (await send(target, sent)).text();
}

/** A call of the control API, for `POST /jobs`. */
// biome-ignore lint/suspicious/noExplicitAny: the tests look into answers of every shape.
export async function ask(target: string, body?: object, key?: AccessKey): Promise<any> {
  const [method = "", path = ""] = target.split(" ");
  const sent = { ...(body && { body: JSON.stringify(body) }), ...(key && { key }) };
  const text = await read(`${method} /api/v1${path}`, sent);
  return text === "" ? undefined : JSON.parse(text);
}

/** A node's socket, which is still to be accepted. */
export async function openNodeSocket(node: string, key: AccessKey): Promise<WebSocket> {
  const upgrade = { headers: { upgrade: "websocket" }, key };
  const { webSocket, status } = await send(`GET /api/v1/runner/socket?node=${node}`, upgrade);
  if (!webSocket) throw new Error(`the gateway opens no socket, and answers ${status}`);
  return webSocket;
}

/** All nodes that have sockets ping just now, by the clock of the test: the platform notes that by its own. */
export async function pingAlways(fleet: DurableObjectStub<undefined>): Promise<void> {
  const prototype = await runInDurableObject(fleet, (_, state) => Object.getPrototypeOf(state));
  vi.spyOn(prototype as DurableObjectState, "getWebSocketAutoResponseTimestamp").mockImplementation(
    () => new Date(),
  );
}

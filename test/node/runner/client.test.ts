import { createServer } from "node:http";
import { type AddressInfo, createServer as createTcpServer, type Socket } from "node:net";
import { Readable } from "node:stream";
import { AwsV4Signer } from "aws4fetch";
import { afterEach, beforeEach, describe, expect, test, vi } from "vitest";
import { z } from "zod";
import { GatewayError } from "../../../protocol/requests.ts";
import { WIRE_HEADER, WIRE_VERSION } from "../../../protocol/runner.ts";
import { Client, ContractError, failureOf } from "../../../runner/gateway/client.ts";
import { Gateway } from "../../../runner/gateway/gateway.ts";
import { Answer, type Call, FakeGateway, KEY, refusal } from "./support/fake-gateway.ts";

const signal = new AbortController().signal;
const Any = z.object({ ok: z.boolean() });
let gateway: FakeGateway;
let client: Client;

beforeEach(async () => {
  gateway = new FakeGateway();
  await gateway.start();
  client = new Client({ endpoint: gateway.endpoint, ...KEY });
});
afterEach(async () => {
  await client.close();
  await gateway.stop();
});

test("every request is signed for s3, with the body left out of the signature", async () => {
  const calls: Call[] = [];
  gateway.before = (call) => {
    calls.push(call);
    return { ok: true };
  };
  const query = { prefix: "a b/ü+&=*'(", after: "x" };
  await client.call(Any, { method: "POST", path: "/api/v1/x", query, body: "{}", signal });
  const [call] = calls;
  expect(call?.headers["x-amz-content-sha256"]).toBe("UNSIGNED-PAYLOAD");
  expect(Object.fromEntries(call?.query ?? [])).toEqual(query);
  const url = new URL(`${gateway.endpoint}/api/v1/x`);
  for (const [name, value] of Object.entries(query)) url.searchParams.set(name, value);
  const again = new AwsV4Signer({
    ...KEY,
    url: url.href,
    method: "POST",
    headers: { [WIRE_HEADER]: String(WIRE_VERSION) },
    service: "s3",
    region: "auto",
    datetime: String(call?.headers["x-amz-date"]),
  });
  expect(call?.headers.authorization).toBe((await again.sign()).headers.get("authorization"));
});

test("a body that is too large for what stands in front of the gateway is told in words", async () => {
  gateway.before = () => new Answer(413, "<html><center>413 Request Entity Too Large</center></html>");
  const sent = client.call(Any, { method: "POST", path: "/x", body: "{}", signal });
  await expect(sent).rejects.toThrow("what stands in front of the gateway refuses a body of this size (413)");
});

test("an error of the gateway is told in its own words, with every issue", async () => {
  const issues = [{ path: "max", message: "must be 64 at most" }];
  const body = { error: { code: "BadRequest", message: "bad body", issues }, requestId: "r1" };
  gateway.before = () => new Answer(400, JSON.stringify(body));
  const failed = await client
    .call(Any, { method: "GET", path: "/x", signal })
    .catch((error: unknown) => error);
  expect(failed).toBeInstanceOf(GatewayError);
  expect(failed).toMatchObject({
    status: 400,
    code: "BadRequest",
    message: "bad body; max: must be 64 at most",
  });
});

test("an error that is not of the gateway is told by its status", async () => {
  gateway.before = () => new Answer(502, "<html>");
  await expect(client.call(Any, { method: "GET", path: "/x", signal })).rejects.toMatchObject({
    status: 502,
    message: "the gateway answered 502",
  });
});

test("an answer that is not the protocol is refused, naming the field", async () => {
  gateway.before = () => ({ ok: "yes" });
  const failed = await client
    .call(Any, { method: "GET", path: "/x", signal })
    .catch((error: unknown) => error);
  expect(failed).toBeInstanceOf(ContractError);
  expect(failed).toHaveProperty("message", expect.stringContaining("GET /x is not the protocol: ok:"));
});

test("bad answers may go better next time, refusals may not, and who is away may be so for long", async () => {
  const kinds: unknown[] = [];
  const answers = [
    ...[500, 408, 400, 403].map((status) => refusal(status, "no")),
    ...[429, 502, 503, 504, 521, 530].map((status) => refusal(status, "away")),
    undefined,
  ];
  for (const answer of answers) {
    gateway.before = () => {
      if (!answer) throw new Error("cut");
      return answer;
    };
    await client
      .call(Any, { method: "GET", path: "/x", signal })
      .catch((error) => kinds.push(failureOf(error)));
  }
  const away = Array.from({ length: 7 }, () => "unreachable");
  expect(kinds).toEqual(["transient", "transient", "final", "final", ...away]);
});

describe("a clock that is wrong", () => {
  const DAY_MS = 24 * 3600_000;
  const asked: string[] = [];
  beforeEach(() => {
    asked.length = 0;
    vi.useFakeTimers({ toFake: ["Date"] });
    // A gateway a day ahead of us, as strict as a real one.
    gateway.before = ({ headers }) => {
      const time = String(headers["x-amz-date"]);
      asked.push(time);
      const at = Date.parse(time.replace(/(....)(..)(..T..)(..)(..Z)/, "$1-$2-$3:$4:$5"));
      const ahead = Date.now() + DAY_MS;
      if (Math.abs(at - ahead) < 15 * 60_000) return { ok: true };
      return new Answer(403, skewed, { date: new Date(ahead).toUTCString() });
    };
  });
  afterEach(() => vi.useRealTimers());
  const skewed = JSON.stringify({
    error: { code: "RequestTimeTooSkewed", message: "set it" },
    requestId: "r",
  });

  test("is noticed once: the gateway says what time it is", async () => {
    for (const _ of [1, 2, 3]) {
      const body = "{}";
      expect(await client.call(Any, { method: "POST", path: "/x", body, signal })).toEqual({ ok: true });
    }
    expect(asked).toHaveLength(4);
  });

  test("that is set right meanwhile is noticed, too", async () => {
    const call = () => client.call(Any, { method: "GET", path: "/x", signal });
    await call();
    vi.setSystemTime(Date.now() + DAY_MS);
    const before = gateway.before;
    gateway.before = (one) => {
      vi.setSystemTime(Date.now() - DAY_MS);
      const answer = before(one);
      vi.setSystemTime(Date.now() + DAY_MS);
      return answer;
    };
    expect(await call()).toEqual({ ok: true });
  });

  test("lets a body that is sent as it is read be sent again by who has it", async () => {
    const send = () => {
      const body = Readable.from(["bytes"]);
      const headers = { "content-length": "5" };
      return client.call(Any, { method: "PUT", path: "/x", headers, body, signal });
    };
    const refused = await send().catch((error: unknown) => error);
    expect(failureOf(refused)).toBe("transient");
    expect(await send()).toEqual({ ok: true });
  });

  test("is not blamed for ever: a gateway that refuses every time is believed", async () => {
    gateway.before = () => new Answer(403, skewed, { date: new Date().toUTCString() });
    const refused = await client
      .call(Any, { method: "GET", path: "/x", signal })
      .catch((error: unknown) => error);
    expect(refused).toMatchObject({ code: "RequestTimeTooSkewed", message: "set it" });
  });
});

describe("a gateway that has vanished without a word", () => {
  const silenceMs = 1000;

  test("is not waited for when it does not begin to answer", async () => {
    gateway.before = () => new Promise(() => {});
    const failed = await client
      .call(Any, { method: "GET", path: "/x", silenceMs, signal })
      .catch((error: unknown) => error);
    expect(failureOf(failed)).toBe("unreachable");
    expect(failed).toHaveProperty("code", "UND_ERR_HEADERS_TIMEOUT");
  });

  test("is not waited for in the middle of an answer", async () => {
    const server = createServer((_, response) => void response.writeHead(200).write("{"));
    await new Promise<void>((listening) => server.listen(0, "127.0.0.1", listening));
    const { port } = server.address() as AddressInfo;
    const other = new Client({ endpoint: `http://127.0.0.1:${port}`, ...KEY });
    const call = () =>
      other
        .call(Any, { method: "GET", path: "/x", silenceMs, signal })
        .catch((error: unknown) => [
          failureOf(error),
          error instanceof Error && "code" in error && error.code,
        ]);
    // A busy machine may be too late with the beginning.
    await expect.poll(call).toEqual(["unreachable", "UND_ERR_BODY_TIMEOUT"]);
    await other.close();
    server.closeAllConnections();
    await new Promise((closed) => server.close(closed));
  });

  test("is not waited for when it takes no more of a body", async () => {
    const sockets: Socket[] = [];
    const server = createTcpServer((socket) => void sockets.push(socket.pause()));
    await new Promise<void>((listening) => server.listen(0, "127.0.0.1", listening));
    const { port } = server.address() as AddressInfo;
    const other = new Client({ endpoint: `http://127.0.0.1:${port}`, ...KEY });
    const body = Readable.from(endless());
    const failed = await other
      .call(Any, { method: "PUT", path: "/x", body, silenceMs, signal })
      .catch((error: unknown) => error);
    expect(failureOf(failed)).toBe("unreachable");
    expect(failed).toHaveProperty("code", "UND_ERR_HEADERS_TIMEOUT");
    await other.close();
    for (const socket of sockets) socket.destroy();
    await new Promise((closed) => server.close(closed));
  });
});

function* endless(): Generator<Buffer> {
  for (;;) yield Buffer.alloc(65_536);
}

test("the good-bye of a node names it", async () => {
  gateway.nodes.add("n1");
  await new Gateway(client).leave("n1", signal);
  expect([...gateway.nodes]).toEqual([]);
});

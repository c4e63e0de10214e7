import { AwsV4Signer } from "aws4fetch";
import { afterEach, beforeEach, expect, test } from "vitest";
import { z } from "zod";
import { Client, ContractError, failureOf, GatewayError } from "../../../runner/client.ts";
import { Gateway } from "../../../runner/gateway.ts";
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
    service: "s3",
    region: "auto",
    datetime: String(call?.headers["x-amz-date"]),
  });
  expect(call?.headers.authorization).toBe((await again.sign()).headers.get("authorization"));
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

test("bad answers and broken connections may go better next time, refusals may not", async () => {
  const kinds: unknown[] = [];
  const answers = [
    refusal(503, "busy"),
    refusal(429, "slow"),
    refusal(400, "no"),
    refusal(403, "no"),
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
  expect(kinds).toEqual(["transient", "transient", "final", "final", "unreachable"]);
});

test("good-bye names the node", async () => {
  gateway.nodes.add("n1");
  await new Gateway(client).leave("n1", signal);
  expect([...gateway.nodes]).toEqual([]);
});

import { createServer, get, type IncomingMessage, type Server } from "node:http";
import type { AddressInfo } from "node:net";
import { networkInterfaces } from "node:os";
import { afterEach, beforeEach, describe, expect, test, vi } from "vitest";
import type { Outcome } from "../../../../protocol/runner.ts";
import type { Egress } from "../../../../protocol/spec.ts";
import {
  type EgressTerms,
  isWithin,
  parseDestination,
  STRICT_TERMS,
} from "../../../../runner/tasks/destination.ts";
import { checkHost, isLocalAddress, withNetworkPolicy } from "../../../../runner/tasks/network-policy.ts";
import { performTask } from "../../../../runner/tasks/perform-task.ts";
import { sampled } from "../../../support/suite.ts";
import { MemoryGateway } from "./support/memory-gateway.ts";
import { strangersKey } from "./support/stores.ts";

vi.mock("node:os", async (load) => {
  const os = await load<typeof import("node:os")>();
  return { ...os, networkInterfaces: vi.fn(os.networkInterfaces) };
});

/** Of the machine that runs these tests. To the policy it has none, so that its addresses can stand for those of others. */
const INTERFACES = networkInterfaces();
vi.mocked(networkInterfaces).mockReturnValue({});

const GATEWAY_KEY = "THE-GATEWAYS-KEY";
/** Keys for every kind of store. */
const KEYS = {
  AWS_ACCESS_KEY_ID: "AKIA0123456789",
  AWS_SECRET_ACCESS_KEY: "hush",
  AZURE_STORAGE_ACCOUNT: "acct",
  AZURE_STORAGE_KEY: Buffer.from("hush").toString("base64"),
  GOOGLE_APPLICATION_CREDENTIALS_JSON: strangersKey(),
};
const STORES = [
  { kind: "s3", URL: "s3://bucket/dir" },
  { kind: "gs", URL: "gs://bucket/dir" },
  { kind: "azure", URL: "wasb://box/dir" },
];
const SECRET_OF_SERVICE = "the-internal-service-says-swordfish";

/** A service that is no store: it answers everything with the same words, and counts. */
let service: Server;
let asked: IncomingMessage[];
let answer: { readonly status: number; readonly headers?: Record<string, string>; readonly body: string };
let host: string;

beforeEach(async () => {
  asked = [];
  answer = { status: 403, body: SECRET_OF_SERVICE };
  host = "127.0.0.1";
  service = createServer((request, response) => {
    asked.push(request);
    request.resume();
    request.on("end", () => response.writeHead(answer.status, answer.headers).end(answer.body));
  });
  await new Promise<void>((resolve) => service.listen(0, "0.0.0.0", resolve));
});
afterEach(async () => {
  vi.unstubAllEnvs();
  service.closeAllConnections();
  await new Promise((resolve) => service.close(resolve));
});

const endpoint = (name = host) => `http://${name}:${(service.address() as AddressInfo).port}`;

interface Setting {
  readonly terms?: EgressTerms;
  readonly secret?: Record<string, string>;
  /** The pipeline belongs to a limited key. */
  readonly limited?: boolean;
}

/** One egress task of a small file. */
function push(
  egress: Egress,
  { terms = STRICT_TERMS, secret = KEYS, limited = false }: Setting = {},
): Promise<Outcome> {
  const gateway = new MemoryGateway();
  const values = Object.entries(secret).map(([key, text]) => [key, Buffer.from(text)] as const);
  const deps = {
    gateway: gateway as never,
    secrets: { read: async () => new Map(values) },
    env: process.env,
    terms,
    limited,
    gatewayKey: GATEWAY_KEY,
    confirmLease: async () => undefined,
  };
  const entries = [{ path: "file", content: gateway.store("content") }];
  const task = { kind: "egress" as const, lease: "L", job: "J", egress, entries };
  const { signal } = new AbortController();
  return performTask(deps, { task, output: { repo: "p", branch: "master" }, file: "/none", signal });
}

async function reasonOf(pushing: Promise<Outcome>): Promise<string> {
  const outcome = await pushing;
  if (outcome.state !== "failed") throw new Error(`not failed: ${JSON.stringify(outcome)}`);
  return outcome.reason;
}

const allowing = (...urls: string[]): EgressTerms => ({
  environment: urls.map(parseDestination),
  local: true,
});

describe("the environment of the runner", () => {
  test.each([
    ["s3://bucket/dir", "s3://bucket/dir", true],
    ["s3://bucket/dir/deep", "s3://bucket/dir/", true],
    ["s3://bucket", "s3://bucket/", true],
    ["s3://bucket/any", "s3://bucket", true],
    ["s3://bucket/directory", "s3://bucket/dir", false],
    ["s3://bucket", "s3://bucket/dir", false],
    ["s3://bucket-2/dir", "s3://bucket", false],
    ["gs://bucket/dir", "s3://bucket/dir", false],
    ["as://box/dir", "wasb://box/dir", true],
    ["wasb://box@acct/dir", "wasb://box@acct.blob.core.windows.net/dir", true],
    ["wasb://box@other/dir", "wasb://box/dir", false],
    ["wasb://box@other/dir", "wasb://box@acct/dir", false],
  ])("for %s is served by the prefix %s: %s", (url, prefix, served) => {
    expect(isWithin(parseDestination(url), parseDestination(prefix))).toBe(served);
  });

  test("serves nothing that its operator did not allow", async () => {
    for (const [name, value] of Object.entries(KEYS)) vi.stubEnv(name, value);
    vi.stubEnv("AWS_ENDPOINT_URL", endpoint());
    const elsewhere = allowing("s3://bucket/other", "gs://bucket");
    for (const terms of [STRICT_TERMS, elsewhere]) {
      const reason = await reasonOf(push({ URL: "s3://bucket/dir" }, { terms }));
      expect(reason).toContain("does not serve s3://bucket/dir");
      expect(reason).toContain("--egress-environment");
    }
    const terms = allowing("s3://bucket/dir");
    expect(await reasonOf(push({ URL: "s3://bucket/dir" }, { terms, limited: true }))).toContain("limited");
    expect(asked).toHaveLength(0);
    await reasonOf(push({ URL: "s3://bucket/dir" }, { terms }));
    expect(asked.length).toBeGreaterThan(0);
  });

  test("is for the vendors' addresses alone, also if a gateway of before let others through", async () => {
    for (const [name, value] of Object.entries(KEYS)) vi.stubEnv(name, value);
    const terms = allowing("s3://bucket", "wasb://box@store.example.org");
    const cases: [Egress, string][] = [
      [{ URL: "s3://bucket/dir", endpoint: endpoint() }, "egress.endpoint names an address"],
      [{ URL: "wasb://box@store.example.org/dir" }, "egress.URL names an address"],
    ];
    for (const [egress, words] of cases) expect(await reasonOf(push(egress, { terms }))).toContain(words);
    expect(asked).toHaveLength(0);
  });

  test("is of no use if it holds the key of the gateway; nor is a secret", async () => {
    const gatewayKey = { AWS_ACCESS_KEY_ID: GATEWAY_KEY, AWS_SECRET_ACCESS_KEY: "hush" };
    for (const [name, value] of Object.entries(gatewayKey)) vi.stubEnv(name, value);
    vi.stubEnv("AWS_ENDPOINT_URL", endpoint());
    const terms = allowing("s3://bucket");
    const words = "is the one that the runner has for its gateway";
    expect(await reasonOf(push({ URL: "s3://bucket/dir" }, { terms }))).toContain(words);
    const own = { URL: "s3://bucket/dir", endpoint: endpoint(), secret: "keys" };
    expect(await reasonOf(push(own, { terms, secret: gatewayKey }))).toContain(words);
    expect(asked).toHaveLength(0);
  });
});

describe("the egress network policy", () => {
  test.each([
    "127.0.0.1",
    "127.8.9.10",
    "0.0.0.0",
    "169.254.169.254",
    "169.254.170.2",
    "::",
    "::1",
    "fe80::1",
    "fe80::1%eth0",
    "febf::1",
    "::ffff:127.0.0.1",
    "::ffff:7f00:1",
    "::ffff:169.254.169.254",
    "64:ff9b::169.254.169.254",
    "fd00:ec2::254",
    "100.100.100.200",
    "168.63.129.16",
  ])("has %s on this side", (address) => expect(isLocalAddress(address)).toBe(true));

  test.each([
    "10.0.0.1",
    "192.168.1.2",
    "172.17.0.1",
    "52.216.0.1",
    "::ffff:10.0.0.1",
    "2600::1",
    "fd12::1",
  ])("has %s on the other side", (address) => expect(isLocalAddress(address)).toBe(false));

  test("has the addresses of this machine's interfaces on this side, also of one that has just come", () => {
    const at = (address: string, family: "IPv4" | "IPv6") =>
      [{ address, family }] as ReturnType<typeof networkInterfaces>[string];
    const addresses = ["10.20.30.40", "::ffff:10.20.30.40", "fd12::40", "fd12:0:0::0040"];
    expect(addresses.map(isLocalAddress)).toEqual([false, false, false, false]);
    vi.mocked(networkInterfaces).mockReturnValue({ a: at("10.20.30.40", "IPv4"), b: at("fd12::40", "IPv6") });
    try {
      expect(addresses.map(isLocalAddress)).toEqual([true, true, true, true]);
      expect(["10.20.30.41", "fd12::41"].map(isLocalAddress)).toEqual([false, false]);
    } finally {
      vi.mocked(networkInterfaces).mockReturnValue({});
    }
  });

  const crossings = [
    { at: "127.0.0.1", kind: "s3", URL: "s3://bucket/dir" },
    { at: "127.0.0.1", kind: "gs", URL: "gs://bucket/dir" },
    { at: "127.0.0.1", kind: "azure", URL: "wasb://box/dir" },
    { at: "localhost", kind: "s3", URL: "s3://bucket/dir" },
    { at: "localhost", kind: "gs", URL: "gs://bucket/dir" },
    { at: "localhost", kind: "azure", URL: "wasb://box/dir" },
    { at: "[::ffff:127.0.0.1]", kind: "s3", URL: "s3://bucket/dir" },
  ];
  for (const [{ at, kind, URL }, options] of sampled(crossings, { every: 3 }))
    test(
      `is not crossed by egress to a store of ${kind} at ${at}, unless the operator allows it`,
      options,
      async () => {
        const egress = { URL, endpoint: endpoint(at), secret: "keys" };
        expect(await reasonOf(push(egress))).toContain("--egress-local");
        expect(asked).toHaveLength(0);
        await reasonOf(push(egress, { terms: allowing() }));
        expect(asked.length).toBeGreaterThan(0);
      },
    );

  test("is watched at each connection, because a name may stand for another address by then", async () => {
    const request = (url: string, lookup?: (...args: never[]) => void) =>
      new Promise((resolve, reject) => {
        get(url, { agent: false, ...(lookup && { lookup: lookup as never }) }, resolve).on("error", reject);
      });
    await expect(withNetworkPolicy(() => request(endpoint("127.0.0.1")))).rejects.toThrow("--egress-local");
    await expect(withNetworkPolicy(() => request(endpoint("localhost")))).rejects.toThrow("--egress-local");
    const rebound = (_host: string, { all }: { all?: boolean }, done: (...args: unknown[]) => void) =>
      all ? done(null, [{ address: "127.0.0.1", family: 4 }]) : done(null, "127.0.0.1", 4);
    const renamed = () => request(endpoint("store.example.org"), rebound as never);
    await expect(withNetworkPolicy(renamed)).rejects.toThrow("--egress-local");
    expect(asked).toHaveLength(0);
    // Whatever else the runner does passes.
    await request(endpoint("127.0.0.1"));
    expect(asked).toHaveLength(1);
  });

  const own = Object.values(INTERFACES)
    .flatMap((addresses) => addresses ?? [])
    .find(({ family, internal, address }) => family === "IPv4" && !internal && !isLocalAddress(address));

  for (const [{ kind, URL }, options] of sampled(STORES, { every: 3 }))
    test.skipIf(!own)(`is not crossed by a redirect of a store of ${kind}`, options, async () => {
      const inner = createServer((request, response) => {
        asked.push(request);
        response.end();
      });
      await new Promise<void>((resolve) => inner.listen(0, "127.0.0.1", resolve));
      const location = `http://127.0.0.1:${(inner.address() as AddressInfo).port}/`;
      answer = { status: 307, headers: { location }, body: "" };
      try {
        const outer = endpoint(own?.address);
        await reasonOf(push({ URL, endpoint: outer, secret: "keys" }));
        expect(asked.length).toBeGreaterThan(0);
        expect(
          asked.filter(({ socket }) => socket.localPort === (inner.address() as AddressInfo).port),
        ).toEqual([]);
      } finally {
        inner.closeAllConnections();
        inner.close();
      }
    });

  test("lets a host pass that has no address: it can't be reached", async () => {
    await expect(checkHost("nothing.invalid")).resolves.toBeUndefined();
  });
});

describe("of a refusal", () => {
  const bodies = [
    { type: "text/plain", body: SECRET_OF_SERVICE },
    {
      type: "application/json",
      body: JSON.stringify({ error: { message: SECRET_OF_SERVICE }, message: SECRET_OF_SERVICE }),
    },
    { type: "application/xml", body: `<Error><Message>${SECRET_OF_SERVICE}</Message></Error>` },
    { type: "text/html", body: `<html><title>${SECRET_OF_SERVICE}</title></html>` },
  ];
  for (const [{ kind, URL }, options] of sampled(STORES, { every: 3 }))
    test(
      `by what is at the address of a store of ${kind}, only its code and its status are told`,
      options,
      async () => {
        for (const { type, body } of bodies) {
          for (const status of [403, 200]) {
            answer = { status, headers: { "content-type": type, "x-words": SECRET_OF_SERVICE }, body };
            const outcome = await push({ URL, endpoint: endpoint(), secret: "keys" }, { terms: allowing() });
            const text = JSON.stringify(outcome);
            expect(text).not.toContain(SECRET_OF_SERVICE);
            expect(text).not.toContain("swordfish");
            if (status === 403) expect(text).toContain("status 403");
          }
        }
      },
    );
});

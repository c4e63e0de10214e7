import { afterEach, beforeEach, describe, expect, test } from "vitest";
import { LogsRequest, MAX_LOG_LINES, type Outcome } from "../../../../protocol/runner.ts";
import type { TakeOutput } from "../../../../runner/executors/executor.ts";
import { Client } from "../../../../runner/gateway/client.ts";
import { Gateway } from "../../../../runner/gateway/gateway.ts";
import { Leases } from "../../../../runner/worker/leases.ts";
import { Reporter } from "../../../../runner/worker/reporter.ts";
import { type Call, FakeGateway, KEY, refusal } from "../support/fake-gateway.ts";
import { log, soon } from "../support/running.ts";

const LOGS = "POST /api/v1/runner/logs";
const FINISH = "POST /api/v1/runner/finish";

let gateway: FakeGateway;
let client: Client;
let kill: AbortController;
let reporter: Reporter;
/** The functions that take what the commands of leases print. */
let outputs: Map<string, TakeOutput>;

beforeEach(async () => {
  gateway = new FakeGateway();
  await gateway.start();
  client = new Client({ endpoint: gateway.endpoint, ...KEY });
  kill = new AbortController();
  outputs = new Map();
  const deps = { leases: new Leases(), log, pipeline: "edges", worker: "n1/edges/0/w" };
  reporter = new Reporter({ ...deps, gateway: new Gateway(client), kill: kill.signal });
});
afterEach(async () => {
  kill.abort();
  await reporter.flush();
  await client.close();
  await gateway.stop();
  expect(gateway.violations).toEqual([]);
});

function hold(...leases: string[]): void {
  for (const lease of leases) gateway.held.set(lease, { worker: "n1/edges/0/w" });
}

function print(lease: string, ...texts: string[]): void {
  const output = outputs.get(lease) ?? reporter.logs.outputOf(lease);
  outputs.set(lease, output);
  for (const text of texts) output(Buffer.from(text), "stdout");
}

function success(lease: string): Outcome {
  return {
    lease,
    state: "success",
    exitCode: 0,
    outputs: [],
    millis: 1,
    ran: { executor: "process", image: null },
  };
}

const texts = (lease?: string) =>
  gateway.lines.filter((line) => !lease || line.lease === lease).map(({ text }) => text);
const calls = (name: string) => gateway.requests.filter((request) => request === name).length;
const ofLogs = ({ path }: Call) => path.endsWith("/logs");

describe("logs", () => {
  test("are sent while the command goes on, with when they were printed", async () => {
    hold("a");
    const output = reporter.logs.outputOf("a");
    const before = Date.now();
    output(Buffer.from("first\n"), "stdout");
    await soon(() => texts()).toEqual(["first"]);
    output(Buffer.from("second\nunfin"), "stdout");
    await soon(() => texts()).toEqual(["first", "second", "unfin"]);
    output(Buffer.from("ished\n"), "stdout");
    await soon(() => texts()).toEqual(["first", "second", "unfin", "ished"]);
    const times = gateway.lines.map(({ at }) => at);
    expect(times).toEqual([...times].sort((a, b) => a - b));
    expect(times[0]).toBeGreaterThanOrEqual(before - 1);
    expect(times.at(-1)).toBeLessThanOrEqual(Date.now());
    expect(calls(FINISH)).toBe(0);
  });

  test("go before the outcomes of their datums, those of many datums in one call", async () => {
    const leases = Array.from({ length: 64 }, (_, index) => `lease-${index}`);
    hold(...leases);
    for (const lease of leases) {
      print(lease, `printed by ${lease}\n`, "the last");
      reporter.add(success(lease));
    }
    await reporter.flush();
    expect(gateway.requests).toEqual([LOGS, FINISH]);
    expect(texts()).toEqual(leases.flatMap((lease) => [`printed by ${lease}`, "the last"]));
    expect(gateway.outcomes).toHaveLength(64);
  });

  test("say of each line whether it came on stderr", async () => {
    hold("a");
    const output = reporter.logs.outputOf("a");
    output(Buffer.from("one\n"), "stdout");
    output(Buffer.from("two\nthree\n"), "stderr");
    output(Buffer.from("four\n"), "stdout");
    reporter.add(success("a"));
    await reporter.flush();
    expect(gateway.lines.map(({ text, stream }) => [text, stream])).toEqual([
      ["one", "stdout"],
      ["two", "stderr"],
      ["three", "stderr"],
      ["four", "stdout"],
    ]);
  });

  test("cost no call where nothing was printed", async () => {
    hold("a");
    reporter.logs.outputOf("a");
    reporter.add(success("a"));
    await reporter.flush();
    expect(gateway.requests).toEqual([FINISH]);
  });

  test("keep to what one call may hold", async () => {
    hold("a", "b");
    const printed = Array.from({ length: MAX_LOG_LINES + 500 }, (_, index) => `line ${index}`);
    const long = Array.from({ length: 55 }, (_, index) => String(index).padEnd(4000, "x"));
    print("a", printed.map((line) => `${line}\n`).join(""));
    print("b", long.map((line) => `${line}\n`).join(""));
    reporter.add(success("a"));
    reporter.add(success("b"));
    await reporter.flush();
    expect(texts("a")).toEqual(printed);
    expect(texts("b")).toEqual(long);
    expect(gateway.requests).toEqual([LOGS, LOGS, FINISH]);
  });

  test("that were taken though no answer came are not taken twice", async () => {
    hold("a");
    let broken = 0;
    const bodies: Buffer[] = [];
    gateway.before = async (call) => {
      if (!ofLogs(call)) return undefined;
      bodies.push(call.body);
      if (broken++ > 0) return undefined;
      gateway.before = (again) => void (ofLogs(again) && bodies.push(again.body));
      await fetch(`${gateway.endpoint}${call.path}`, {
        method: "POST",
        body: call.body,
        headers: { authorization: call.headers.authorization ?? "" },
      });
      throw new Error("the answer is lost");
    };
    print("a", "once\n");
    reporter.add(success("a"));
    await reporter.flush();
    const sent = bodies.map((body) => LogsRequest.parse(JSON.parse(body.toString())).entries[0]?.seq);
    expect(sent).toEqual([0, 0, 0]);
    expect(texts()).toEqual(["once"]);
  });

  test("wait while the gateway is away, and so do the outcomes behind them", async () => {
    hold("a", "b");
    print("a", "before\n");
    await soon(() => texts()).toEqual(["before"]);
    await gateway.stop();
    print("b", "the first\n");
    for (let i = 0; i < 500; i += 1) print("b", `${"y\n".repeat(32_768)}`);
    print("b", "the cause\n");
    print("a", "during\n");
    reporter.add(success("a"));
    reporter.add(success("b"));
    const reported = reporter.flush();
    await gateway.start();
    await reported;
    expect(texts("a")).toEqual(["before", "during"]);
    expect(texts("b").slice(0, 2)).toEqual(["the first", "y"]);
    expect(texts("b").at(-1)).toBe("the cause");
    const lines = gateway.lines.filter(({ lease }) => lease === "b");
    const dropped = lines.reduce((sum, line) => sum + line.dropped, 0);
    expect(lines.length + dropped).toBe(500 * 32_768 + 2);
    expect(gateway.outcomes).toHaveLength(2);
    expect(gateway.requests.at(-1)).toBe(FINISH);
  });

  test("of a lease that is lost are not sent again", async () => {
    hold("a");
    print("gone", "one\n");
    print("a", "one\n");
    await soon(() => texts()).toEqual(["one"]);
    const bodies: Buffer[] = [];
    gateway.before = (call) => void (ofLogs(call) && bodies.push(call.body));
    print("gone", "two\n");
    print("a", "two\n");
    await soon(() => texts()).toEqual(["one", "two"]);
    expect(String(bodies)).not.toContain("gone");
  });

  test("of a lease that was given up are not sent", async () => {
    hold("a", "b");
    print("a", "not wanted\n");
    reporter.logs.drop(["a"]);
    print("b", "wanted\n");
    await soon(() => texts()).toEqual(["wanted"]);
  });

  test("hold no result back where they alone are refused, and are sent again when they are taken", async () => {
    hold("a", "b", "c");
    gateway.before = (call) => (ofLogs(call) ? refusal(503, "full") : undefined);
    print("a", "lost\n");
    reporter.add(success("a"));
    await reporter.flush();
    expect(gateway.outcomes).toHaveLength(1);
    print("b", "lost too\n");
    reporter.add(success("b"));
    await reporter.flush();
    expect(gateway.outcomes).toHaveLength(2);
    gateway.before = () => undefined;
    print("c", "taken\n");
    await soon(() => texts()).toEqual(["taken"]);
  });

  test("that a gateway does not know are let go", async () => {
    hold("a");
    gateway.before = (call) => (ofLogs(call) ? refusal(404, "no such route") : undefined);
    print("a", "one\n", "two\n");
    reporter.add(success("a"));
    await reporter.flush();
    expect(gateway.outcomes).toHaveLength(1);
    expect(calls(LOGS)).toBeLessThan(10);
  });

  test("that were refused are counted", async () => {
    hold("a");
    gateway.before = (call) => (ofLogs(call) ? refusal(413, "too large") : undefined);
    print("a", "one\n", "two\n");
    await soon(() => calls(LOGS)).toBe(1);
    gateway.before = () => undefined;
    print("a", "three\n");
    reporter.add(success("a"));
    await reporter.flush();
    expect(gateway.lines).toMatchObject([{ text: "three", dropped: 2 }]);
  });

  test("end with the worker that is killed", async () => {
    hold("a");
    await gateway.stop();
    print("a", "never sent\n");
    reporter.add(success("a"));
    const reported = reporter.flush();
    kill.abort();
    await reported;
    await gateway.start();
    expect(gateway.requests).toEqual([]);
  });
});

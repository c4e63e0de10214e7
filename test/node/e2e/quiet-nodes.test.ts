// @module-tag rest
import { afterEach, beforeEach, expect, test } from "vitest";
import { Assignment, Heartbeat, NodeList, WakeUp } from "../../../protocol/runner.ts";
import { Client } from "../../../runner/gateway/client.ts";
import { Gateway } from "../../../runner/gateway/gateway.ts";
import { Control } from "../../support/control.ts";
import { type DevServer, startDevServer, startRunner } from "../../support/dev-server.ts";
import { eventually } from "../../support/eventually.ts";
import type { Started } from "../../support/processes.ts";
import { startRelay } from "../../support/relay.ts";
import { S3 } from "../../support/s3.ts";

const WITHIN = { withinMs: 180_000 };

let server: DevServer;
let control: Control;
let s3: S3;
const agents: Started[] = [];
beforeEach(async () => {
  server = await startDevServer({ variables: { SLUICE_REQUEST_LOG: "on" } });
  [s3, control] = [new S3(server), new Control(server)];
  await s3.createBucket("master.in");
});
afterEach(async () => {
  for (const agent of agents.splice(0)) await agent.kill9();
  await server.stop({ mayHaveDied: true });
});

function startAgent(node: string, endpoint = server.endpoint): Started {
  const agent = startRunner({ ...server, endpoint }, { node });
  agents.push(agent);
  return agent;
}

async function liveNodes(): Promise<string[]> {
  const { nodes } = await control.call("GET", "/nodes", { answers: NodeList });
  return nodes.filter(({ live }) => live).map(({ name }) => name);
}

/** How many sockets of nodes the gateway opened, by its log. */
const opened = () => server.output().match(/"operation":"GET \/runner\/socket","status":101/g)?.length ?? 0;

async function copies(name: string): Promise<void> {
  await control.createPipeline({
    pipeline: { name },
    transform: { image: "busybox", cmd: ["sh", "-e"], stdin: ["cp /pfs/in/* /pfs/out/"] },
    inputs: [{ repo: { name: "in" }, glob: "/*" }],
  });
}

async function copied(name: string, file: string): Promise<void> {
  await s3.put("master.in", file, Buffer.from(file));
  await eventually(
    `${name} has copied ${file}`,
    async () => (await s3.get(`master.${name}`, file)) && true,
    WITHIN,
  );
}

test("nodes open sockets, work, come back when the gateway is restarted, and are gone when they are killed", {
  timeout: 600_000,
}, async () => {
  const [first] = [startAgent("a"), startAgent("b")];
  await eventually("both have a socket", () => opened() === 2, WITHIN);
  await copies("one");
  await copied("one", "x");
  await server.kill9();
  await server.restart();
  await eventually("both have one again", () => opened() === 2, WITHIN);
  await copies("two");
  await copied("two", "y");
  await first?.kill9();
  await eventually("the killed one is gone", async () => (await liveNodes()).join() === "b", WITHIN);
  await copied("two", "z");
});

test("nodes work at a gateway that takes no sockets any more, and open them once it does", {
  timeout: 600_000,
}, async () => {
  startAgent("a");
  await eventually("it has a socket", () => opened() === 1, WITHIN);
  await copies("one");
  await server.kill9();
  await server.restart({ variables: { SLUICE_REQUEST_LOG: "on", SLUICE_NODE_SOCKETS: "off" } });
  await copied("one", "x");
  expect(opened()).toBe(0);
  await server.kill9();
  await server.restart({ variables: { SLUICE_REQUEST_LOG: "on" } });
  await eventually("it has a socket", () => opened() === 1, WITHIN);
});

test("a runner that knows of no sockets asks all the time, and works beside one that has a socket", {
  timeout: 600_000,
}, async () => {
  const path = "/api/v1/runner/heartbeat";
  const withoutSockets = (text: string): string => {
    const { sockets: _, ...assignment } = Assignment.parse(JSON.parse(text));
    return JSON.stringify(assignment);
  };
  const relay = await startRelay(server, { path, answer: withoutSockets });
  try {
    const [old, next] = [startAgent("old", relay.endpoint), startAgent("new")];
    await eventually("the other one has a socket", () => opened() === 1, WITHIN);
    await eventually("both live", async () => (await liveNodes()).join() === "new,old", WITHIN);
    await copies("one");
    await copied("one", "x");
    await next.kill9();
    await eventually("the killed one is gone", async () => (await liveNodes()).join() === "old", WITHIN);
    await copied("one", "y");
    startAgent("newer");
    await eventually("it has a socket", () => opened() === 2, WITHIN);
    await old.kill9();
    await eventually("the old one is gone", async () => (await liveNodes()).join() === "newer", WITHIN);
    await copied("one", "z");
    const beats = relay.passed.filter((passed) => passed.path === path && passed.method === "POST");
    expect(beats.length).toBeGreaterThan(0);
    for (const { sent } of beats) expect(Heartbeat.parse(JSON.parse(sent)).quiet).toBeUndefined();
    // What it does not know it passes over: its workers go on asking.
    expect(beats.some(({ answered }) => answered.includes('"idle":true'))).toBe(true);
  } finally {
    await relay.stop();
  }
});

test("a thousand quiet nodes are woken, and none is forgotten when the runtime is killed", {
  timeout: 600_000,
}, async () => {
  const client = new Client({ ...server, endpoint: server.endpoint });
  const gateway = new Gateway(client);
  const names = Array.from({ length: 1000 }, (_, n) => `n${n}`);
  /** Of each node, how often it was told to look over its present socket. */
  const looks = new Map<string, number>();
  const broken = new Set<string>();
  const signal = new AbortController().signal;
  const connect = async (name: string): Promise<void> => {
    const socket = await gateway.socket(name);
    looks.set(name, 0);
    broken.delete(name);
    socket.addEventListener("message", ({ data }) => {
      const { beat: woken } = WakeUp.parse(JSON.parse(String(data)));
      if (woken) looks.set(name, (looks.get(name) ?? 0) + 1);
    });
    socket.addEventListener("close", () => broken.add(name));
    const { promise, resolve, reject } = Promise.withResolvers<void>();
    socket.addEventListener("open", () => resolve());
    socket.addEventListener("error", () => reject(new Error("the socket was refused")));
    await promise;
  };
  const beat = async (name: string): Promise<void> => {
    const node = { node: name, executor: "process", capacity: 1, quiet: true } as const;
    await gateway.heartbeat(node, signal);
  };
  const all = async (work: (name: string) => Promise<void>): Promise<void> => {
    const queue = [...names];
    const one = async () => {
      for (let name = queue.pop(); name !== undefined; name = queue.pop()) await work(name);
    };
    await Promise.all(Array.from({ length: 20 }, one));
  };
  try {
    await all(async (name) => {
      await beat(name);
      await connect(name);
    });
    const before = new Map(looks);
    await copies("one");
    const isRung = (name: string) => (looks.get(name) ?? 0) > (before.get(name) ?? 0);
    await eventually("all hear that a pipeline has come", () => names.every(isRung), WITHIN);

    await server.killRuntime();
    await eventually("all sockets broke", () => broken.size === names.length, WITHIN);
    await all(connect);
    await all(beat);
    expect((await liveNodes()).sort()).toEqual([...names].sort());
    const again = new Map(looks);
    await copies("two");
    await eventually(
      "all hear that another one has",
      () => names.every((name) => (looks.get(name) ?? 0) > (again.get(name) ?? 0)),
      WITHIN,
    );
  } finally {
    await client.close();
  }
});

import { env, evictDurableObject, runDurableObjectAlarm, runInDurableObject } from "cloudflare:test";
import { afterEach, beforeEach, describe, expect, test } from "vitest";
import { SOCKET_PING, SOCKET_PONG, WakeUp } from "../../../protocol/runner.ts";
import { openCatalogue } from "../../../worker/catalogue/catalogue.ts";
import type { FleetApi } from "../../../worker/fleet/door.ts";
import { clientOf } from "../../../worker/objects/facets.ts";

const { nodes, keys } = openCatalogue(env.DB);
const open = new Set<WebSocket>();
let object: DurableObjectStub<undefined>;
let made = 0;

beforeEach(async () => {
  await env.DB.prepare("DELETE FROM nodes").run();
  object = env.FLEET.getByName(`fleet-${++made}`) as unknown as DurableObjectStub<undefined>;
});
afterEach(() => {
  for (const socket of open) socket.close();
  open.clear();
});

interface Heard {
  readonly socket: WebSocket;
  readonly texts: string[];
  readonly closed: { code?: number };
}

async function connect(node: string, key?: string, { answersClose = true } = {}): Promise<Heard> {
  const by = key === undefined ? "" : `&key=${key}`;
  const answer = await object.fetch(`http://fleet/?node=${node}${by}`, { headers: { upgrade: "websocket" } });
  const socket = answer.webSocket;
  if (!socket) throw new Error(`no socket: ${answer.status}`);
  const heard: Heard = { socket, texts: [], closed: {} };
  socket.addEventListener("message", ({ data }) => void heard.texts.push(String(data)));
  socket.addEventListener("close", ({ code }) => {
    heard.closed.code = code;
    open.delete(socket);
  });
  socket.accept({ allowHalfOpen: !answersClose });
  open.add(socket);
  return heard;
}

const { nodes: calls } = clientOf<FleetApi>({
  call: (name, args) => (object as unknown as { call: FleetCall }).call(name, args),
});
type FleetCall = (name: string, args: readonly unknown[]) => Promise<unknown>;

/** How often it was woken; not by the first, which each socket hears when it opens. */
const looks = ({ texts }: Heard) => texts.filter((text) => text !== SOCKET_PONG).length - 1;

/** Waits for the ring of a change, so that the next one is told apart. */
async function rungFor(heard: Heard, count: number): Promise<void> {
  await expect.poll(() => looks(heard)).toBe(count);
}

const rows = () =>
  runInDurableObject(object, (_, { storage }) =>
    storage.sql
      .exec<{ name: string; closedAt: number | null }>("SELECT * FROM nodes ORDER BY name")
      .toArray(),
  );
const alarm = () => runInDurableObject(object, (_, { storage }) => storage.getAlarm());

/** The name of the object, by which the catalogue knows it. */
const NAME = () => `fleet-${made}`;

const due = () =>
  runInDurableObject(object, (_, { storage }) =>
    storage.sql.exec<{ due: number }>("SELECT due FROM vouching").one(),
  );
const vouched = () => expect.poll(async () => (await due()).due).toBeGreaterThan(0);

/** Lets the object tell the catalogue of its nodes now. */
async function vouch(): Promise<void> {
  await vouched();
  await runInDurableObject(object, (_, { storage }) => {
    storage.sql.exec("UPDATE vouching SET due = 1");
  });
  await runDurableObjectAlarm(object);
  await expect.poll(async () => (await due()).due).toBeGreaterThan(1);
}

async function close({ socket }: Heard, node: string): Promise<void> {
  socket.close();
  await expect.poll(async () => (await rows()).find(({ name }) => name === node)?.closedAt).toBeTruthy();
}

/** As if what closed had closed so much earlier. */
async function letPass(ms: number): Promise<void> {
  await runInDurableObject(object, (_, { storage }) => {
    storage.sql.exec("UPDATE nodes SET closedAt = closedAt - ?", ms);
  });
}

/** In the catalogue, a node that said that it is quiet. */
async function quiet(name: string, seenAt = Date.now()): Promise<void> {
  await nodes.record({
    name,
    executor: "process",
    capacity: 1,
    work: [],
    seenAt,
    quietUntil: seenAt + 75_000,
  });
}

const isQuiet = async (name: string) =>
  (await nodes.list(0)).find((node) => node.name === name)?.quietUntil !== undefined;

describe("the object of the fleet", () => {
  test("wakes all that have a socket, within a time that grows with their number", async () => {
    const [a, b] = [await connect("a"), await connect("b")];
    await expect.poll(() => looks(b)).toBeGreaterThan(0);
    const before = looks(a);
    await calls.wake();
    await expect.poll(() => looks(a)).toBeGreaterThan(before);
    const [last = ""] = a.texts.slice(-1);
    expect(WakeUp.parse(JSON.parse(last))).toEqual({ beat: { withinMs: 20 } });
  });

  test("wakes one that comes, as it may have missed something, within a time that grows with the fleet", async () => {
    for (const [index, node] of ["a", "b", "c"].entries()) {
      const { texts } = await connect(node);
      await expect.poll(() => texts[0]).toBeDefined();
      expect(WakeUp.parse(JSON.parse(texts[0] ?? ""))).toEqual({ beat: { withinMs: 40 * (index + 1) } });
    }
  });

  test("wakes nodes once for what changes at once", async () => {
    const a = await connect("a");
    await rungFor(a, 1);
    await runInDurableObject(object, async (instance) => {
      const fleet = instance as unknown as { call: FleetCall };
      await Promise.all(Array.from({ length: 10 }, () => fleet.call("nodes.wake", [])));
    });
    await rungFor(a, 2);
    await calls.wake();
    await rungFor(a, 3);
  });

  test("wakes the workers of pipelines that have something to do, and tells nothing else", async () => {
    const a = await connect("a");
    await rungFor(a, 1);
    await Promise.all(["edges", "faces", "edges"].map((name) => calls.wakeWorkers(name)));
    await rungFor(a, 2);
    expect(WakeUp.parse(JSON.parse(a.texts.at(-1) ?? ""))).toEqual({ work: ["edges", "faces"] });
    await calls.wake();
    await rungFor(a, 3);
    expect(WakeUp.parse(JSON.parse(a.texts.at(-1) ?? ""))).toEqual({ beat: { withinMs: 10 } });
  });

  test("wakes the others when a node comes, and not when it comes back", async () => {
    const a = await connect("a");
    await rungFor(a, 1);
    const b = await connect("b");
    await rungFor(a, 2);
    await close(b, "b");
    await connect("b");
    // What rings next is heard as the next one.
    await connect("c");
    await rungFor(a, 3);
  });

  test("answers pings, and takes nothing else", async () => {
    const a = await connect("a");
    a.socket.send(SOCKET_PING);
    await expect.poll(() => a.texts).toContain(SOCKET_PONG);
    a.socket.send("more");
    await expect.poll(() => a.closed.code).toBe(1003);
  });

  test("keeps the sockets of an object that sleeps, and an alarm for the next minute", async () => {
    const a = await connect("a");
    await rungFor(a, 1);
    await vouched();
    await evictDurableObject(object);
    expect(await alarm()).toBeGreaterThan(Date.now());
    await calls.wake();
    await rungFor(a, 2);
    expect(await rows()).toEqual([{ name: "a", closedAt: null }]);
  });
});

describe("a node whose socket closed", () => {
  test("is quiet no more 30 s later, and the others look", async () => {
    const [a, b] = [await connect("a"), await connect("b")];
    await quiet("b");
    await close(b, "b");
    expect(await alarm()).not.toBeNull();
    await letPass(29_000);
    await runDurableObjectAlarm(object);
    expect(await isQuiet("b")).toBe(true);
    const before = looks(a);
    await quiet("b", Date.now() - 40_000);
    await letPass(1_000);
    await runDurableObjectAlarm(object);
    expect(await isQuiet("b")).toBe(false);
    expect(await rows()).toEqual([{ name: "a", closedAt: null }]);
    await expect.poll(() => looks(a)).toBeGreaterThan(before);
  });

  test("stays quiet if it came back", async () => {
    const a = await connect("a");
    await quiet("a", Date.now() - 40_000);
    await close(a, "a");
    await letPass(31_000);
    await connect("a");
    await runDurableObjectAlarm(object);
    expect(await isQuiet("a")).toBe(true);
    expect(await rows()).toEqual([{ name: "a", closedAt: null }]);
  });

  test("stays quiet if it was heard of since, by whatever way", async () => {
    const a = await connect("a");
    await close(a, "a");
    await letPass(31_000);
    await quiet("a");
    await runDurableObjectAlarm(object);
    expect(await rows()).toEqual([]);
    expect(await isQuiet("a")).toBe(true);
  });

  test("has another one, which took the place of the first", async () => {
    const first = await connect("a");
    const second = await connect("a");
    await expect.poll(() => first.closed.code).toBe(4001);
    expect(await rows()).toEqual([{ name: "a", closedAt: null }]);
    const before = looks(second);
    await calls.wake();
    await expect.poll(() => looks(second)).toBeGreaterThan(before);
    await close(second, "a");
  });

  test("is gone at once if it left in good order", async () => {
    const [a, b] = [await connect("a"), await connect("b")];
    await expect.poll(() => looks(b)).toBeGreaterThan(0);
    const before = looks(a);
    await calls.leave("b");
    await expect.poll(() => b.closed.code).toBe(1000);
    await expect.poll(() => looks(a)).toBeGreaterThan(before);
    expect(await rows()).toEqual([{ name: "a", closedAt: null }]);
    await calls.leave("a");
    await runDurableObjectAlarm(object);
    expect(await alarm()).toBeNull();
  });
});

describe("the catalogue hears each minute", () => {
  const fleetOf = async (name: string) =>
    await env.DB.prepare("SELECT fleet FROM nodes WHERE name = ?").bind(name).first("fleet");

  test("which nodes have sockets", async () => {
    const [a, b] = [await connect("a"), await connect("b")];
    for (const name of ["a", "b", "c"]) await quiet(name);
    await vouch();
    expect([await fleetOf("a"), await fleetOf("b"), await fleetOf("c")]).toEqual([NAME(), NAME(), null]);
    await close(b, "b");
    await vouch();
    // It may still come back.
    expect(await fleetOf("b")).toBe(NAME());
    await letPass(31_000);
    await runDurableObjectAlarm(object);
    expect([await fleetOf("a"), await fleetOf("b")]).toEqual([NAME(), null]);
    a.socket.send(SOCKET_PING);
    await vouch();
    expect(a.closed.code).toBeUndefined();
  });

  test("that one over whose socket no ping comes has none", async () => {
    const [a, b] = [await connect("a"), await connect("b")];
    await runInDurableObject(object, (_, state) => {
      for (const socket of state.getWebSockets())
        socket.serializeAttachment({ ...socket.deserializeAttachment(), openedAt: 1 });
    });
    a.socket.send(SOCKET_PING);
    await expect.poll(() => a.texts).toContain(SOCKET_PONG);
    await vouch();
    await expect.poll(() => b.closed.code).toBe(4008);
    expect(a.closed.code).toBeUndefined();
    expect(await rows()).toEqual([
      { name: "a", closedAt: null },
      { name: "b", closedAt: expect.any(Number) },
    ]);
  });
});

describe("an object that comes up without sockets of nodes on record", () => {
  test("gives them 30 s to come back, and forgets none that does", async () => {
    const [a, b] = [await connect("a"), await connect("b")];
    await expect.poll(() => looks(b)).toBeGreaterThan(0);
    for (const name of ["a", "b"]) await quiet(name, Date.now() - 40_000);
    await evictDurableObject(object, { webSockets: "close" });
    const [first, second] = await rows();
    expect([first?.closedAt, second?.closedAt]).toEqual([expect.any(Number), expect.any(Number)]);
    expect(await alarm()).not.toBeNull();
    await connect("a");
    await letPass(30_000);
    await runDurableObjectAlarm(object);
    expect(await rows()).toEqual([{ name: "a", closedAt: null }]);
    expect([await isQuiet("a"), await isQuiet("b")]).toEqual([true, false]);
    expect(a.texts.length).toBeGreaterThan(0);
  });

  test("waits for the catalogue, and tells it in the end", async () => {
    const a = await connect("a");
    await quiet("a", Date.now() - 40_000);
    await close(a, "a");
    await letPass(31_000);
    await env.DB.exec("ALTER TABLE nodes RENAME TO nodes_away");
    try {
      await runDurableObjectAlarm(object);
      expect(await rows()).toEqual([{ name: "a", closedAt: expect.any(Number) }]);
      expect(await alarm()).not.toBeNull();
    } finally {
      await env.DB.exec("ALTER TABLE nodes_away RENAME TO nodes");
    }
    await evictDurableObject(object);
    await runDurableObjectAlarm(object);
    expect(await isQuiet("a")).toBe(false);
    await expect.poll(rows).toEqual([]);
  });

  test("that nobody ever had a socket of has no tables", async () => {
    await calls.wake();
    await calls.leave("a");
    const tables = await runInDurableObject(object, (_, { storage }) =>
      storage.sql
        .exec("SELECT name FROM sqlite_master WHERE type = 'table' AND name NOT GLOB '_cf*'")
        .toArray(),
    );
    expect(tables).toEqual([]);
  });
});

describe("a socket whose key is deleted", () => {
  const add = (id: string, expiresAt?: number) =>
    keys.add({
      ...{ id, sealedSecret: "", level: "runner", repos: null, pipelines: false, description: "" },
      ...{ createdAt: 0, ...(expiresAt !== undefined && { expiresAt }) },
    });

  test("is closed, and no other; its node is gone if it does not come back with another key", async () => {
    for (const key of ["k1", "k2", "k3"]) await add(key);
    const [a, b, c] = [await connect("a", "k1"), await connect("b", "k2"), await connect("c")];
    await calls.revoke("k1");
    await expect.poll(() => a.closed.code).toBe(4003);
    await expect.poll(async () => (await rows()).find(({ name }) => name === "a")?.closedAt).toBeTruthy();
    await connect("a", "k3");
    expect((await rows()).map(({ closedAt }) => closedAt)).toEqual([null, null, null]);
    expect([b.closed.code, c.closed.code]).toEqual([undefined, undefined]);
  });

  test("is closed within a minute, also if the object was not told, the node never answers, and nothing is said", async () => {
    for (const key of ["lost1", "lost2"]) await add(key);
    const a = await connect("a", "lost1", { answersClose: false });
    const b = await connect("b", "lost2");
    await rungFor(b, 1);
    await keys.remove("lost1");
    await vouch();
    await expect.poll(() => a.closed.code).toBe(4003);
    expect((await rows()).map(({ closedAt }) => closedAt === null)).toEqual([false, true]);
    expect(b.closed.code).toBeUndefined();
  });

  test("or has expired is closed before nodes are woken, also if the object was not told", async () => {
    await add("stands");
    await add("ends", Date.now() + 3_600_000);
    await add("ended", 1);
    const first = await connect("n0", "stands");
    await rungFor(first, 1);
    const others = ["ends", "ended", "deleted", undefined];
    const heard = [first, ...(await Promise.all(others.map((key, n) => connect(`n${n + 1}`, key))))];
    // A deletion lets it look at all of them.
    await calls.revoke("another");
    await calls.wake();
    const open = undefined;
    const codes = () => heard.map(({ closed }) => closed.code);
    await expect.poll(codes).toEqual([open, open, 4003, 4003, open]);
    const before = heard.map(looks);
    await calls.wake();
    const woken = () => heard.map((each, n) => looks(each) > (before[n] ?? 0));
    await expect.poll(woken).toEqual([true, true, false, false, true]);
  });
});

import { afterEach, beforeEach, describe, expect, test, vi } from "vitest";
import type { Assignment, Heartbeat, NodeAbout, NodeWork } from "../../../protocol/runner.ts";
import { runAgent } from "../../../runner/agent/agent.ts";
import type { Socket } from "../../../runner/agent/wake-up-listener.ts";
import type { WorkerPool } from "../../../runner/agent/worker-pool.ts";
import type { Gateway } from "../../../runner/gateway/gateway.ts";
import { IdlePipelines } from "../../../runner/worker/idle-pipelines.ts";
import { log, soon } from "./support/running.ts";

/** The longest that a wake-up may name: it is never over. */
const NEVER_MS = 60_000;

// Nobody waits as long as a node does.
vi.mock("../../../runner/gateway/retry.ts", async (importOriginal) => {
  const real = await importOriginal<typeof import("../../../runner/gateway/retry.ts")>();
  const shortened = (ms: number) => (ms === NEVER_MS ? ms : ms / 100);
  return { ...real, pause: (ms: number, signal: AbortSignal) => real.pause(shortened(ms), signal) };
});

/** Its socket, which is open as soon as somebody listens. */
class OpenSocket extends EventTarget {
  override addEventListener(...args: Parameters<EventTarget["addEventListener"]>): void {
    super.addEventListener(...args);
    if (args[0] === "open") queueMicrotask(() => this.dispatchEvent(new Event("open")));
  }
  send(): void {}
  close(): void {}
}

const ABOUT = { version: "1.2.3", disk: { totalBytes: 100, freeBytes: 40 } };

let beats: Heartbeat[];
let sockets: OpenSocket[];
let work: NodeWork[];
/** Undefined: the gateway is away. */
let answer: Assignment | undefined;
let executor: string;
let refusesSockets: boolean;
/** The questions what the node is like, each of which may be answered later. */
let described: PromiseWithResolvers<NodeAbout>[];
/** The disk does not answer. */
let isSilent: boolean;
let idle: IdlePipelines;
let drain: AbortController;
let done: Promise<void>;

beforeEach(() => {
  [beats, sockets, work, executor, refusesSockets] = [[], [], [], "process", false];
  [described, isSilent] = [[], false];
  answer = { workers: [], sockets: true };
  idle = new IdlePipelines();
  drain = new AbortController();
  // No time passes in which a quiet node would beat by itself.
  vi.spyOn(performance, "now").mockReturnValue(0);
  const gateway = {
    async heartbeat(beat: Heartbeat) {
      beats.push(beat);
      if (!answer) throw new Error("away");
      return answer;
    },
    async leave() {},
    async socket() {
      if (refusesSockets) throw new Error("away");
      const socket = new OpenSocket();
      sockets.push(socket);
      return socket as unknown as Socket;
    },
  } as unknown as Gateway;
  const pool = { work: () => work, follow() {}, async ended() {} } as unknown as WorkerPool;
  const cache = { ask: () => ({ erasedTo: null }) as never, hear: async () => false };
  const bounds = { running: 1, workers: 1 };

  done = runAgent(
    {
      gateway,
      pool,
      idle,
      cache,
      log,
      node: "n1",
      executorName: () => executor,
      bounds,
      describe() {
        const asked = Promise.withResolvers<NodeAbout>();
        described.push(asked);
        if (!isSilent) asked.resolve(ABOUT);
        return asked.promise;
      },
    },
    drain.signal,
  );
});

afterEach(async () => {
  drain.abort();
  await done;
  vi.restoreAllMocks();
});

const isQuiet = () => beats.at(-1)?.quiet === true;
/** What the next heartbeat says. */
async function next(before = beats.length): Promise<Heartbeat | undefined> {
  await soon(() => beats.length).toBeGreaterThan(before);
  return beats[before];
}
const ring = (withinMs = 0) =>
  sockets.at(-1)?.dispatchEvent(new MessageEvent("message", { data: `{"beat":{"withinMs":${withinMs}}}` }));

describe("a node that runs nothing and has a socket", () => {
  test("says that it is quiet, and beats when it is woken", async () => {
    expect((await next(0))?.quiet).toBeUndefined();
    await soon(isQuiet).toBe(true);
    for (let n = 0; n < 3; n++) {
      const before = beats.length;
      ring(10);
      expect((await next(before))?.quiet).toBe(true);
    }
  });

  test("tells people its release, its disk and its cache, as soon as it knows them", async () => {
    await soon(() => beats.at(-1)?.about).toEqual(ABOUT);
  });

  test("does not ask its disk again that does not answer, and beats on meanwhile", async () => {
    await soon(isQuiet).toBe(true);
    const beat = async () => {
      const before = beats.length;
      ring();
      await next(before);
    };
    isSilent = true;
    const answered = described.length;
    for (let n = 0; n < 4; n++) await beat();
    expect(described.length).toBe(answered + 1);
    isSilent = false;
    described.at(-1)?.resolve({ version: "1.2.4" });
    await soon(async () => {
      await beat();
      return beats.at(-1)?.about?.version;
    }).toBe("1.2.4");
  });

  test("beats at once for what it has to tell, and is not quiet while something runs or can't run", async () => {
    await soon(isQuiet).toBe(true);
    for (const busy of [
      { pipeline: "edges", workers: 1, running: 1 },
      { pipeline: "edges", workers: 1, running: 0, trouble: "pull access denied" },
    ]) {
      work = [busy];
      await soon(() => beats.at(-1)?.work).toEqual([busy]);
      expect(isQuiet()).toBe(false);
      // As often as any.
      await next();
      await next();
      expect(isQuiet()).toBe(false);
      work = [{ pipeline: "edges", workers: 1, running: 0 }];
      await soon(isQuiet).toBe(true);
      expect(beats.at(-1)?.work).toEqual(work);
    }
  });

  test("beats for a wake-up by whatever heartbeat comes next, and by no other", async () => {
    await soon(isQuiet).toBe(true);
    vi.spyOn(Math, "random").mockReturnValue(1);
    ring(NEVER_MS);
    executor = "docker";
    await soon(() => beats.at(-1)?.executor).toBe("docker");
    // One that was still to come would be this one's as well.
    const before = beats.length;
    ring();
    await next(before);
  });

  test("lets workers of pipelines rest that have no job, until it is woken for them, no heartbeat is answered, or the socket breaks", async () => {
    const rest = () => idle.rest("edges", { wakeUps: idle.wakeUps, signal: drain.signal });
    const nothingToDo: Assignment = {
      workers: [{ pipeline: "edges", count: 1, idle: true }],
      sockets: true,
    };
    answer = nothingToDo;
    await soon(isQuiet).toBe(true);
    const first = rest();
    sockets.at(-1)?.dispatchEvent(new MessageEvent("message", { data: '{"work":["edges"]}' }));
    expect(await first).toBe(true);
    ring();
    await next();
    const second = rest();
    answer = undefined;
    ring();
    expect(await second).toBe(true);
    answer = nothingToDo;
    await soon(isQuiet).toBe(true);
    ring();
    await next();
    vi.spyOn(Math, "random").mockReturnValue(0);
    const third = rest();
    refusesSockets = true;
    sockets.at(-1)?.dispatchEvent(new Event("close"));
    expect(await third).toBe(true);
  });

  test("beats when an engine has come that it waited for", async () => {
    await soon(isQuiet).toBe(true);
    executor = "docker";
    await soon(() => beats.at(-1)?.executor).toBe("docker");
  });

  test("beats as often as any when its socket broke and can't be had again, until it can", async () => {
    await soon(isQuiet).toBe(true);
    vi.spyOn(Math, "random").mockReturnValue(0);
    refusesSockets = true;
    sockets.at(-1)?.dispatchEvent(new Event("close"));
    await soon(isQuiet).toBe(false);
    await next();
    expect((await next())?.quiet).toBeUndefined();
    refusesSockets = false;
    await soon(isQuiet).toBe(true);
    expect(sockets).toHaveLength(2);
  });
});

test("a node of a gateway that has no sockets asks for none and is never quiet", async () => {
  answer = { workers: [] };
  await next();
  await next();
  // The answer to the first beat may have been the one of before.
  const before = sockets.length;
  await next();
  expect(isQuiet()).toBe(false);
  expect(sockets.length).toBe(before);
});

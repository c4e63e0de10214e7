import { afterEach, beforeEach, describe, expect, test } from "vitest";
import { SOCKET_PING, SOCKET_PONG } from "../../../protocol/runner.ts";
import { type Socket, WakeUpListener } from "../../../runner/agent/wake-up-listener.ts";
import { log, soon } from "./support/running.ts";

/** A socket of which the test says what becomes of it. */
class FakeSocket extends EventTarget {
  readonly sent: string[] = [];
  isClosed = false;
  answersPings = true;

  send(text: string): void {
    this.sent.push(text);
    if (text === SOCKET_PING && this.answersPings) this.say(SOCKET_PONG);
  }

  close(): void {
    this.isClosed = true;
  }

  say(data: string): void {
    this.dispatchEvent(new MessageEvent("message", { data }));
  }

  is(event: "open" | "close"): void {
    this.dispatchEvent(new Event(event));
  }
}

let sockets: FakeSocket[];
let looks: number[];
let work: string[];
let drain: AbortController;
let listener: WakeUpListener;
let ended: Promise<void>;
let opens: () => boolean;

beforeEach(() => {
  [sockets, looks, work, drain] = [[], [], [], new AbortController()];
  opens = () => true;
  listen({});
});

function listen(times: { returnMs?: number; pingMs?: number }): void {
  listener = new WakeUpListener({
    async open() {
      if (!opens()) throw new Error("the gateway is away");
      const socket = new FakeSocket();
      sockets.push(socket);
      return socket as unknown as Socket;
    },
    beat: (withinMs) => looks.push(withinMs),
    work: (pipelines) => work.push(...pipelines),
    log,
    ...times,
  });
  ended = listener.run(drain.signal);
}

afterEach(async () => {
  drain.abort();
  await ended;
  for (const { isClosed } of sockets) expect(isClosed).toBe(true);
});

async function nth(n: number): Promise<FakeSocket> {
  await soon(() => sockets.length).toBeGreaterThanOrEqual(n);
  const socket = sockets[n - 1];
  if (!socket) throw new Error("there is no such socket");
  return socket;
}

/** The n-th socket, open. */
async function opened(n: number): Promise<FakeSocket> {
  const socket = await nth(n);
  socket.is("open");
  await soon(() => listener.isHeard).toBe(true);
  return socket;
}

describe("what wakes a node", () => {
  test("is not asked for before the gateway says that it has one", async () => {
    expect(listener.isHeard).toBe(false);
    listener.offer(false);
    await Promise.resolve();
    expect(sockets).toEqual([]);
    listener.offer(true);
    await opened(1);
  });

  test("is heard once its socket is open: it says how soon to look, and what is not known is passed over", async () => {
    listener.offer(true);
    const socket = await nth(1);
    expect(listener.isHeard).toBe(false);
    socket.is("open");
    expect(listener.isHeard).toBe(true);
    for (const text of ["no JSON", "[]", '{"later":{"n":1}}', '{"beat":{"withinMs":-1}}', '{"beat":{}}'])
      socket.say(text);
    expect(looks).toEqual([]);
    socket.say('{"beat":{"withinMs":200},"later":1}');
    expect([looks, work]).toEqual([[200], []]);
    socket.say('{"work":["edges","faces"]}');
    expect([looks, work]).toEqual([[200], ["edges", "faces"]]);
  });

  test("is heard no more if the gateway takes it back, and is not asked for again", async () => {
    drain.abort();
    await ended;
    drain = new AbortController();
    listen({ returnMs: 1 });
    listener.offer(true);
    const socket = await opened(1);
    listener.offer(false);
    expect(listener.isHeard).toBe(false);
    socket.is("close");
    listener.offer(true);
    await opened(2);
  });
});

describe("a socket that breaks", () => {
  beforeEach(async () => {
    drain.abort();
    await ended;
    drain = new AbortController();
  });

  test("comes back, and counts as heard meanwhile", async () => {
    listen({ returnMs: 1 });
    listener.offer(true);
    for (let n = 1; n < 4; n++) {
      (await opened(n)).is("close");
      expect(listener.isHeard).toBe(true);
    }
    await opened(4);
  });

  test("is heard no more if it does not come back, until it does", async () => {
    listen({ returnMs: 1 });
    listener.offer(true);
    opens = () => sockets.length !== 1;
    (await opened(1)).is("close");
    await soon(() => listener.isHeard).toBe(false);
    opens = () => true;
    // One that is refused wakes nobody either.
    const refused = await nth(2);
    refused.is("close");
    await nth(3);
    expect(listener.isHeard).toBe(false);
    await opened(3);
  });

  test("is noticed by its silence: a ping that nothing answers", async () => {
    listen({ returnMs: 1, pingMs: 5 });
    listener.offer(true);
    const first = await opened(1);
    await soon(() => first.sent.length).toBeGreaterThan(2);
    expect(sockets).toHaveLength(1);
    first.answersPings = false;
    await opened(2);
    expect(first.isClosed).toBe(true);
  });
});

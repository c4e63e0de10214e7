import { afterEach, beforeEach, describe, expect, test, vi } from "vitest";
import { slowLines } from "../../worker/api/answer/slow.ts";
import { BodyReader, type ByteSource } from "../../worker/blobs/body-reader.ts";

const HOUR_MS = 60 * 60_000;
const IDLE_MS = 1000;

beforeEach(() => {
  vi.useFakeTimers();
});

afterEach(() => {
  vi.useRealTimers();
});

/** A body that comes in pieces when the test says so. */
function bodyOf(clock: { aheadMs: number }) {
  const reads: PromiseWithResolvers<Uint8Array<ArrayBuffer>>[] = [];
  const source: ByteSource = {
    read() {
      const read = Promise.withResolvers<Uint8Array<ArrayBuffer>>();
      reads.push(read);
      return read.promise;
    },
    cancel: async () => {},
  };
  const reader = new BodyReader(source, { idleMs: IDLE_MS, now: () => Date.now() + clock.aheadMs });
  return { reader, comes: () => reads.shift()?.resolve(new Uint8Array(1)) };
}

describe("a body that is read", () => {
  test("is given up after its time without a byte, also if the clock is set back", async () => {
    const clock = { aheadMs: 0 };
    const { reader } = bodyOf(clock);
    const read = reader.read(new Uint8Array(1), 1);
    clock.aheadMs -= HOUR_MS;
    await vi.advanceTimersByTimeAsync(2 * IDLE_MS);
    await read;
    expect(reader.end).toBe("idle");
  });

  test("is not given up since the clock jumps a day forward", async () => {
    const clock = { aheadMs: 0 };
    const { reader, comes } = bodyOf(clock);
    const first = reader.read(new Uint8Array(1), 1);
    comes();
    await first;
    await vi.advanceTimersByTimeAsync(IDLE_MS / 2);
    const second = reader.read(new Uint8Array(1), 1);
    clock.aheadMs += 24 * HOUR_MS;
    await vi.advanceTimersByTimeAsync(IDLE_MS);
    comes();
    await second;
    expect(reader.end).toBeNull();
    await reader.close();
  });
});

test("whether a caller may have the rest is asked as often as ever after the clock was set back", async () => {
  const clock = { aheadMs: 0 };
  let asked = 0;
  async function* lines(): AsyncGenerator<string, undefined> {
    yield "a\n";
    await new Promise(() => {});
    return undefined;
  }
  const mayGoOn = async () => ++asked < 3;
  const reader = slowLines(lines(), { mayGoOn, now: () => Date.now() + clock.aheadMs }).getReader();
  await reader.read();
  clock.aheadMs -= HOUR_MS;
  // Empty lines may come meanwhile.
  const rest = async () => {
    while (!(await reader.read()).done);
  };
  const broken = expect(rest()).rejects.toThrow("may not have the rest");
  await vi.advanceTimersByTimeAsync(10_000);
  await broken;
});

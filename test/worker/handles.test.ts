import { afterEach, beforeEach, describe, expect, test, vi } from "vitest";
import type { HostHandles } from "../../protocol/admin.ts";
import { renderApiError } from "../../worker/api/answer/errors.ts";
import { NoHandlesError, UnwrittenBlobError } from "../../worker/blobs/port.ts";
import { DiskRoom, RoomyStore } from "../../worker/disk-room.ts";
import { Handles } from "../../worker/handles.ts";
import { madeObjects, onDisk } from "../../worker/objects/made-objects.ts";
import { findCauses, readiness } from "../../worker/ready.ts";
import { renderError } from "../../worker/s3/answer/render-error.ts";
import { MemoryStore } from "./blobs/memory-store.ts";

beforeEach(() => {
  vi.spyOn(console, "warn").mockImplementation(() => {});
  vi.spyOn(console, "error").mockImplementation(() => {});
});
afterEach(() => {
  vi.restoreAllMocks();
});

const ENOUGH: HostHandles = { processes: [{ open: 60, most: 1024 }], ranOutMs: null };
const NONE: HostHandles = { processes: [{ open: 60, most: 64 }], ranOutMs: null };
const JUST_NONE: HostHandles = { ...ENOUGH, ranOutMs: 300 };
const LONG_AGO: HostHandles = { ...ENOUGH, ranOutMs: 60_000 };

function handles(told: HostHandles | "silent"): Handles {
  return new Handles(async () => {
    if (told === "silent") throw new Error("away");
    return told;
  });
}

/** As workerd says that a file can't be opened: the same of a full disk. */
const overloaded = Object.assign(new Error("internal error; reference = 1"), { overloaded: true });
const inside = new Error("internal error; reference = 2");
const unwritten = new UnwrittenBlobError("b/1", overloaded);
/** The same as it comes from an object: an error of no class. */
const fromObject = Object.assign(new Error(unwritten.message), { name: unwritten.name, remote: true });
const ALL = [overloaded, inside, unwritten, fromObject];

describe("what the platform could not do", () => {
  test.each([
    ["are none left", NONE],
    ["were none a moment ago", JUST_NONE],
    ["is nobody to ask, for which it takes one as well", "silent"],
  ] as const)("it could not for want of file handles, if there %s", async (_, told) => {
    for (const error of ALL) expect(await handles(told).explain(error)).toBeInstanceOf(NoHandlesError);
  });

  test.each([ENOUGH, LONG_AGO])("is told as it was, if there are enough", async (told) => {
    for (const error of ALL) expect(await handles(told).explain(error)).toBe(error);
  });

  test("is no matter of handles, if it is a fault of somebody else", async () => {
    for (const error of [
      new TypeError("x is not a function"),
      new Error("D1_ERROR: no such table"),
      undefined,
    ])
      expect(await handles(NONE).explain(error)).toBe(error);
  });
});

test("a blob that finds no handle is told as that, and not as a full disk", async () => {
  const room = new DiskRoom(
    async () => ({ spaces: [{ freeBytes: 1e12, totalBytes: 1e13 }] }),
    () => 0,
  );
  const store = new MemoryStore();
  const roomy = new RoomyStore(store, room, { explain: (error) => handles(NONE).explain(error) });
  vi.spyOn(store, "put").mockRejectedValue(unwritten);
  vi.spyOn(store, "get").mockRejectedValue(overloaded);
  await expect(roomy.put("b/1", new Uint8Array(1))).rejects.toThrow(NoHandlesError);
  expect(await room.shortage()).toBeUndefined();
  await expect(roomy.get("b/1", { offset: 0, length: 1 })).rejects.toThrow(NoHandlesError);
});

describe("an object", () => {
  /** Objects whose calls fail, and a folder of their files that answers so. */
  const objects = (status: number) => {
    const called: string[] = [];
    const stub = (name: string) => ({
      call: async () => {
        called.push(name);
        throw inside;
      },
    });
    const namespace = { getByName: stub, idFromName: (name: string) => name };
    const files = { fetch: async () => new Response(null, { status }) };
    const open = madeObjects<{ files: { read(): Promise<string> } }>(namespace as never, {
      isMade: onDisk(namespace as never, files as never),
      makers: [],
      explain: (error) => handles(NONE).explain(error),
    });
    return { called, open };
  };

  test("that can't be opened is told as that, whatever it was asked for", async () => {
    const { called, open } = objects(200);
    await expect(open("there").files.read()).rejects.toThrow(NoHandlesError);
    expect(called).toEqual(["there"]);
  });

  test("that could not be looked for is not made", async () => {
    const { called, open } = objects(500);
    await expect(open("made-up").files.read()).rejects.toThrow(NoHandlesError);
    expect(called).toEqual([]);
  });
});

test("clients hear 503 in words, and /readyz names it and stays ready", async () => {
  const error = new NoHandlesError();
  const s3 = renderError(error, { method: "PUT", resource: "/b/k", requestId: "1", event: {} });
  expect(s3.status).toBe(503);
  expect(await s3.text()).toMatch(/<Code>SlowDown<\/Code>.*no file handles left.*'ulimit -n'/s);
  const api = renderApiError(error, { requestId: "1", event: {} });
  expect(api.status).toBe(503);
  expect(await api.text()).toMatch(/"Unavailable".*'ulimit -n'/s);

  const stores = (told: HostHandles) => ({
    config: { encryptionKeys: [new Uint8Array(32)] },
    catalogue: {
      fault: async () => undefined,
      newestMigration: async () => "9999",
      keys: { list: async () => [] },
    },
    blobs: new MemoryStore(),
    handles: handles(told),
  });
  const causes = await findCauses(stores(NONE) as never, 0);
  expect(causes).toMatchObject([{ check: "handles", cause: expect.stringContaining("60 of 64") }]);
  expect(readiness(causes)).toEqual({ ready: true, failed: ["handles"] });
  expect(await findCauses(stores(ENOUGH) as never, 0)).toEqual([]);
});

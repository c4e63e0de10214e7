import { afterEach, describe, expect, test, vi } from "vitest";
import { DiskFullError, UnwrittenBlobError } from "../../worker/blobs/port.ts";
import { DiskRoom, RoomyStore } from "../../worker/disk-room.ts";
import { MemoryStore } from "./blobs/memory-store.ts";

const MIB = 1024 ** 2;

afterEach(() => {
  vi.restoreAllMocks();
});

/** A disk, of which the host tells when it is asked, by a clock that stands still. */
function diskOf(freeMib: number) {
  const disk = { now: 0, free: freeMib * MIB };
  const askHost = async () => ({ spaces: [{ freeBytes: disk.free, totalBytes: 100 * 1024 * MIB }] });
  return { disk, room: new DiskRoom(askHost, () => disk.now) };
}

describe("the reserve of a disk", () => {
  test("is not eaten up by what comes between two looks, and /readyz tells of what is left then", async () => {
    const { disk, room } = diskOf(100);
    const store = new RoomyStore(new MemoryStore(), room);
    const put = (name: number) => store.put(`b/${name}`, new Uint8Array(3 * MIB)).then(() => "taken");
    const outcomes = await Promise.all(Array.from({ length: 30 }, (_, name) => put(name).catch(String)));
    const taken = outcomes.filter((outcome) => outcome === "taken").length;
    // The one that goes over the line is the last.
    expect(taken).toBe(Math.floor((100 - 64) / 3) + 1);
    expect(outcomes.filter((outcome) => outcome.startsWith("DiskFullError"))).toHaveLength(30 - taken);
    expect((await room.shortage())?.cause).toContain("(61.0 MiB are free, and 64.0 MiB are kept");
    // What was written is in what the next look finds, and is not taken off twice.
    disk.now = 2000;
    disk.free = 70 * MIB;
    expect(await room.shortage()).toBeUndefined();
    await store.put("b/more", new Uint8Array(3 * MIB));
    await room.admit();
  });

  test("counts what comes while the host looks, since it may have looked before", async () => {
    const spaces = [{ freeBytes: 100 * MIB, totalBytes: 100 * 1024 * MIB }];
    const second = Promise.withResolvers<unknown>();
    const answers = [Promise.resolve({ spaces }), second.promise];
    let now = 0;
    const room = new DiskRoom(
      async () => await answers.shift(),
      () => now,
    );
    await room.admit();
    now = 2000;
    const looking = room.admit().then(() => "taken", String);
    // Others go on with what the first look found.
    await room.admit(36 * MIB);
    await room.admit(MIB);
    second.resolve({ spaces });
    expect(await looking).toBe(String(new DiskFullError()));
    expect(answers).toEqual([]);
  });

  test("holds for requests that come beside the first one", async () => {
    const answered = Promise.withResolvers<unknown>();
    const room = new DiskRoom(
      () => answered.promise,
      () => 0,
    );
    const outcomes = [room.admit(), room.admit()].map((admitted) => admitted.then(() => "taken", String));
    answered.resolve({ spaces: [{ freeBytes: MIB, totalBytes: 100 * 1024 * MIB }] });
    expect(await Promise.all(outcomes)).toEqual(Array(2).fill(String(new DiskFullError())));
  });

  test("refuses nothing if the host says nothing, and does not wait for it for ever", async () => {
    vi.spyOn(console, "warn").mockImplementation(() => {});
    vi.spyOn(scheduler, "wait").mockResolvedValue(undefined);
    let asked = 0;
    const room = new DiskRoom(
      () => {
        asked += 1;
        return new Promise(() => {});
      },
      () => 0,
    );
    await Promise.all([room.admit(), room.admit(MIB)]);
    const before = asked;
    await room.admit();
    expect(asked).toBe(before);
  });
});

test("an object that could not be made found no room if a disk has none, and else whatever the platform says", async () => {
  const { disk, room } = diskOf(100);
  const inside = new Error("internal error; reference = 1234");
  expect(await room.unmade(inside)).toBe(inside);
  disk.free = 0;
  expect(await room.unmade(inside)).toEqual(new DiskFullError());
  const marker = new UnwrittenBlobError("m/branches/photos/master", new Error("overloaded"));
  expect(await room.unmade(marker)).toEqual(new DiskFullError());
  const other = new Error("the object was reset");
  expect(await room.unmade(other)).toBe(other);
});

describe("a store that keeps a reserve", () => {
  test("passes on what the store says of manifests, of puts at once and of reads ahead", () => {
    const { room } = diskOf(100);
    const bounded = Object.assign(new MemoryStore(), { manifestBound: 700, putsAtOnce: 3, readsAhead: 2 });
    expect(new RoomyStore(bounded, room)).toMatchObject({
      manifestBound: 700,
      putsAtOnce: 3,
      readsAhead: 2,
    });
    const plain = new RoomyStore(new MemoryStore(), room);
    expect([plain.manifestBound, plain.putsAtOnce, plain.readsAhead]).toEqual([
      undefined,
      undefined,
      undefined,
    ]);
  });

  test("looks anew once bytes were taken back or did not come in, so that they are no longer counted", async () => {
    const { room } = diskOf(100);
    const store = new MemoryStore();
    const roomy = new RoomyStore(store, room);
    await roomy.put("b/1", new Uint8Array(37 * MIB));
    await expect(room.admit()).rejects.toThrow(DiskFullError);
    await roomy.delete(["b/1"]);
    await room.admit();
    vi.spyOn(store, "put").mockRejectedValue(new Error("away"));
    await expect(roomy.put("b/2", new Uint8Array(37 * MIB))).rejects.toThrow("away");
    await room.admit();
  });

  test("tells of a file that found no room", async () => {
    const { room } = diskOf(100);
    const full = new UnwrittenBlobError("b/1", Object.assign(new Error("full"), { overloaded: true }));
    const store = new MemoryStore();
    vi.spyOn(store, "put").mockRejectedValue(full);
    await expect(new RoomyStore(store, room).put("b/1", new Uint8Array(1))).rejects.toBe(full);
    expect(await room.shortage()).toMatchObject({ check: "disk" });
  });
});

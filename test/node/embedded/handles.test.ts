import { describe, expect, test } from "vitest";
import { fewHandlesWarning, HandleWatch } from "../../../embedded/handles.ts";

const silent = { debug() {}, info() {}, warn() {}, error() {} };
const onLinux = test.skipIf(process.platform !== "linux");

describe("the file handles of a gateway", () => {
  test("are told at the start if they are few, with their number", () => {
    expect(fewHandlesWarning(256)).toMatch(/256 file handles \('ulimit -n'\).*1024 at least/);
    expect(fewHandlesWarning(1024)).toBeUndefined();
  });

  onLinux("are counted, of host and runtime (Linux)", () => {
    const { processes, ranOutMs } = new HandleWatch(() => process.ppid).answer();
    expect(processes).toHaveLength(2);
    for (const { open, most } of processes) {
      expect(open).toBeGreaterThan(2);
      expect(most).toBeGreaterThan(open);
    }
    expect(ranOutMs).toBeNull();
    expect(new HandleWatch(() => undefined).answer().processes).toHaveLength(1);
  });

  test.each([
    "gateway: kj/async-io-unix.c++:1: failed: accept(): Too many open files",
    "EMFILE: too many open files, open '/x'",
    "unable to open database file: SQLITE_CANTOPEN",
  ])("are known to have run out by a line of the log: %s", (line) => {
    const told: string[] = [];
    const watch = new HandleWatch(() => undefined);
    const warned: string[] = [];
    const log = watch.heeding({
      ...silent,
      error: (message) => told.push(message),
      warn: (message) => warned.push(message),
    });
    log.error("gateway: something else");
    expect(watch.answer().ranOutMs).toBeNull();
    expect(warned).toEqual([]);
    log.error(line);
    log.error(line);
    expect(warned).toEqual([expect.stringContaining("no file handles left ('ulimit -n')")]);
    expect(watch.answer().ranOutMs).toBeGreaterThanOrEqual(0);
    expect(told).toEqual(["gateway: something else", line, line]);
  });
});

import { copyFileSync, existsSync, readFileSync, rmSync, utimesSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, test } from "vitest";
import { scratchFolder } from "../support/scratch.ts";
import { stillCopy } from "../support/still-copy.ts";

/** Seconds since 1970: when the files of these tests were last written to. */
const WRITTEN_AT = 1_700_000_000;
const LONG_AFTER_MS = WRITTEN_AT * 1000 + 60_000;

/** A database and its log, whose stamps stand still. */
function files(): { file: string; wal: string; write: (path: string, text: string, at?: number) => void } {
  const folder = scratchFolder();
  const file = join(folder, "a.sqlite");
  const write = (path: string, text: string, at = WRITTEN_AT): void => {
    writeFileSync(path, text);
    utimesSync(path, at, at);
  };
  write(file, "base");
  write(`${file}-wal`, "log 1");
  return { file, wal: `${file}-wal`, write };
}

/** Copies for the first time with what happens before and after that of the log. */
function once({ before, after }: { before?: () => void; after?: () => void }) {
  let isFirst = true;
  return (from: string, to: string): void => {
    const happens = isFirst && from.endsWith("-wal");
    if (happens) isFirst = false;
    if (happens) before?.();
    copyFileSync(from, to);
    if (happens) after?.();
  };
}

describe("a copy of a database that somebody writes to", () => {
  test("has its log, and none of a copy before", () => {
    const { file, wal } = files();
    const folder = scratchFolder();
    const copy = stillCopy(file, folder, { now: () => LONG_AFTER_MS });
    expect([readFileSync(copy, "utf8"), readFileSync(`${copy}-wal`, "utf8")]).toEqual(["base", "log 1"]);
    rmSync(wal);
    stillCopy(file, folder, { now: () => LONG_AFTER_MS });
    expect(existsSync(`${copy}-wal`)).toBe(false);
  });

  test("is made again if the log is gone by the time that it is copied", () => {
    const { file, wal, write } = files();
    const gone = () => {
      rmSync(wal);
      write(file, "base and log 1");
    };
    const steps = { copy: once({ before: gone }), now: () => LONG_AFTER_MS, pause: () => {} };
    const copy = stillCopy(file, scratchFolder(), steps);
    expect(readFileSync(copy, "utf8")).toBe("base and log 1");
    expect(existsSync(`${copy}-wal`)).toBe(false);
  });

  test("waits if a file was written to just before it: a write during the copy may have the same stamp", () => {
    const { file, wal, write } = files();
    let now = WRITTEN_AT * 1000 + 3;
    const inSameTick = () => {
      if (now < LONG_AFTER_MS) write(wal, "log 2");
    };
    const copy = stillCopy(file, scratchFolder(), {
      copy: once({ after: inSameTick }),
      now: () => now,
      pause: () => {
        now = LONG_AFTER_MS;
      },
    });
    expect(readFileSync(`${copy}-wal`, "utf8")).toBe(readFileSync(wal, "utf8"));
  });

  test("is given up, and says so, if the files are never still", () => {
    const { file, wal, write } = files();
    let writes = 0;
    const copy = (from: string, to: string): void => {
      copyFileSync(from, to);
      writes += 1;
      if (writes > 100) throw new Error("it went on and on");
      write(wal, "log 2", WRITTEN_AT + writes);
    };
    const steps = { copy, now: () => LONG_AFTER_MS * 2, pause: () => {}, mostTries: 7 };
    expect(() => stillCopy(file, scratchFolder(), steps)).toThrow(
      `${file} was written to during or just before each of 7 tries`,
    );
  });

  test("is given up if the stamps are never old enough", () => {
    const { file } = files();
    const steps = { now: () => WRITTEN_AT * 1000, pause: () => {}, mostTries: 7 };
    expect(() => stillCopy(file, scratchFolder(), steps)).toThrow("just before each of 7 tries");
  });

  test("fails if a file can't be read", () => {
    const { file } = files();
    const copy = (): void => {
      throw Object.assign(new Error("no access"), { code: "EACCES" });
    };
    expect(() => stillCopy(file, scratchFolder(), { copy })).toThrow("no access");
  });
});

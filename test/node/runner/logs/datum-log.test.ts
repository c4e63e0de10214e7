import { describe, expect, test } from "vitest";
import { MAX_LOG_LINE_CHARACTERS } from "../../../../protocol/runner.ts";
import { DatumLog, type Take } from "../../../../runner/logs/datum-log.ts";

const PLENTY = { lines: 1_000_000, characters: 1_000_000_000 };

function datumLog(): DatumLog {
  return new DatumLog({ weight: 0 });
}

function takeAll(log: DatumLog): Take[] {
  const takes: Take[] = [];
  while (log.isWaiting) takes.push(log.take(PLENTY));
  return takes;
}

const textsOf = (takes: readonly Take[]) => takes.flatMap(({ lines }) => lines.map(({ text }) => text));

/** The lines of an output that came in these pieces, and then ended. */
function linesOf(...pieces: (string | Buffer)[]): string[] {
  const log = datumLog();
  for (const piece of pieces) log.write(Buffer.from(piece), 0);
  log.end();
  return textsOf(takeAll(log));
}

describe("the log of a datum", () => {
  test("makes lines of pieces, wherever they were cut", () => {
    const text = "one\ntwo é 😀\r\n\nlast";
    const bytes = Buffer.from(text);
    for (let cut = 0; cut <= bytes.length; cut += 1) {
      expect(linesOf(bytes.subarray(0, cut), bytes.subarray(cut))).toEqual(["one", "two é 😀", "", "last"]);
    }
    expect(linesOf(...Array.from(bytes, (byte) => Buffer.of(byte)))).toEqual(["one", "two é 😀", "", "last"]);
  });

  test("replaces what is not UTF-8, also where it breaks off", () => {
    expect(linesOf(Buffer.from([0x61, 0xff, 0x62, 0x0a, 0xc3]))).toEqual(["a\ufffdb", "\ufffd"]);
  });

  test("is empty where nothing was printed", () => {
    expect(linesOf()).toEqual([]);
    expect(linesOf("")).toEqual([]);
    expect(linesOf("\n")).toEqual([""]);
  });

  test("cuts a line that is too long into several, and no character in two", () => {
    const long = "x".repeat(MAX_LOG_LINE_CHARACTERS - 1);
    expect(linesOf(`${long}xy\nz`)).toEqual([`${long}x`, "y", "z"]);
    expect(linesOf(`${long}x\r\nz`)).toEqual([`${long}x`, "z"]);
    expect(linesOf(`${long}x\nz`)).toEqual([`${long}x`, "z"]);
    expect(linesOf(`${long}😀\n`)).toEqual([long, "😀"]);
    const pieces = linesOf("é".repeat(10_000));
    expect(pieces.join("")).toBe("é".repeat(10_000));
    expect(pieces.map(({ length }) => length)).toEqual([4096, 4096, 1808]);
  });

  test("gives out a line that is not finished once nothing more of it has come for a second", () => {
    const log = datumLog();
    log.write(Buffer.from("working"), 1000);
    log.flushUnfinished(1999);
    expect(log.isWaiting).toBe(false);
    expect(log.isUnfinished).toBe(true);
    log.flushUnfinished(2000);
    expect(takeAll(log)).toEqual([{ dropped: 0, lines: [{ at: 1000, text: "working" }] }]);
    log.write(Buffer.from(" done\n\nnext\n"), 3000);
    expect(textsOf(takeAll(log))).toEqual([" done", "", "next"]);
  });

  test("makes no empty line of the end of one that was given out whole", () => {
    const log = datumLog();
    log.write(Buffer.from("working"), 0);
    log.flushUnfinished(1000);
    log.write(Buffer.from("\nnext\n"), 1000);
    expect(textsOf(takeAll(log))).toEqual(["working", "next"]);
  });

  test("keeps the first lines and the last of what is too much, and counts those between", () => {
    const log = datumLog();
    const count = 200_000;
    const text = Array.from({ length: count }, (_, index) => `line ${index}\n`).join("");
    const bytes = Buffer.from(text);
    for (let start = 0; start < bytes.length; start += 65_536) {
      log.write(bytes.subarray(start, start + 65_536), start);
    }
    log.write(Buffer.from("the cause"), bytes.length);
    log.end();
    const [first, rest, ...others] = takeAll(log);
    expect(others).toEqual([]);
    expect(first?.dropped).toBe(0);
    expect(first?.lines[0]?.text).toBe("line 0");
    expect(rest?.lines.at(-1)?.text).toBe("the cause");
    expect(rest?.lines.at(-2)?.text).toBe(`line ${count - 1}`);
    const kept = (first?.lines.length ?? 0) + (rest?.lines.length ?? 0);
    expect((rest?.dropped ?? 0) + kept).toBe(count + 1);
    expect(kept).toBeLessThan(10_000);
    const firstOfRest = (first?.lines.length ?? 0) + (rest?.dropped ?? 0);
    expect(rest?.lines[0]?.text).toBe(`line ${firstOfRest}`);
    const times = [...(first?.lines ?? []), ...(rest?.lines ?? [])].map(({ at }) => at);
    expect(times).toEqual([...times].sort((a, b) => a - b));
  });

  test("drops nothing of a burst that its end holds, and is open again when it was taken", () => {
    const log = datumLog();
    log.write(Buffer.from(`${"x".repeat(4000)}\n`.repeat(65)), 0);
    log.write(Buffer.from("beyond\n"), 0);
    expect(textsOf(takeAll(log))).toHaveLength(66);
    log.write(Buffer.from("later\n"), 10_000);
    expect(takeAll(log)).toEqual([{ dropped: 0, lines: [{ at: 10_000, text: "later" }] }]);
  });

  test("keeps the end of an endless line", () => {
    const log = datumLog();
    for (let i = 0; i < 100; i += 1) log.write(Buffer.alloc(65_536, "x"), 0);
    log.write(Buffer.from("é".repeat(10_000)), 0);
    log.end();
    const takes = takeAll(log);
    expect(takes.map(({ dropped }) => dropped)).toEqual([0, 1]);
    expect(textsOf(takes.slice(1)).join("")).toMatch(/^é{8000,}$/);
  });

  test("is taken in parts, and counts what was taken and then lost", () => {
    const log = datumLog();
    log.write(Buffer.from("a\nbb\nccc\n"), 0);
    const take = log.take({ lines: 2, characters: 1000 });
    expect(textsOf([take])).toEqual(["a", "bb"]);
    log.lose(take);
    expect(log.take({ lines: 2, characters: 1000 })).toEqual({ dropped: 2, lines: [{ at: 0, text: "ccc" }] });
    log.write(Buffer.from("a\nbb\nccc\n"), 0);
    expect(textsOf([log.take({ lines: 9, characters: 3 })])).toEqual(["a", "bb"]);
    log.lose(log.take({ lines: 9, characters: 3 }));
    expect(takeAll(log)).toEqual([{ dropped: 1, lines: [] }]);
  });

  test("shares the room of its worker with the others", () => {
    const inAll = { weight: 0 };
    const logs = Array.from({ length: 100 }, () => new DatumLog(inAll));
    for (const log of logs) log.write(Buffer.from(`${"x".repeat(4000)}\n`.repeat(60)), 0);
    expect(inAll.weight).toBeLessThan(3 * 1024 * 1024);
    for (const log of logs) {
      log.end();
      expect(textsOf(takeAll(log)).at(-1)).toBe("x".repeat(4000));
    }
    expect(inAll.weight).toBe(0);
  });

  test("keeps nothing after it was closed", () => {
    const inAll = { weight: 0 };
    const log = new DatumLog(inAll);
    log.write(Buffer.from("a\nb"), 0);
    log.close();
    log.write(Buffer.from("c\n"), 0);
    log.end();
    expect(log.isWaiting).toBe(false);
    expect(inAll.weight).toBe(0);
  });
});

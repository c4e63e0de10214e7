import { describe, expect, test } from "vitest";
import { type LogStream, MAX_LOG_LINE_CHARACTERS } from "../../../../protocol/runner.ts";
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
  for (const piece of pieces) log.write(Buffer.from(piece), { stream: "stdout", now: 0 });
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
    log.write(Buffer.from("working"), { stream: "stdout", now: 1000 });
    log.flushUnfinished(1999);
    expect(log.isWaiting).toBe(false);
    expect(log.isUnfinished).toBe(true);
    log.flushUnfinished(2000);
    expect(takeAll(log)).toEqual([{ dropped: 0, lines: [{ at: 1000, stream: "stdout", text: "working" }] }]);
    log.write(Buffer.from(" done\n\nnext\n"), { stream: "stdout", now: 3000 });
    expect(textsOf(takeAll(log))).toEqual([" done", "", "next"]);
  });

  test("makes no empty line of the end of one that was given out whole", () => {
    const log = datumLog();
    log.write(Buffer.from("working"), { stream: "stdout", now: 0 });
    log.flushUnfinished(1000);
    log.write(Buffer.from("\nnext\n"), { stream: "stdout", now: 1000 });
    expect(textsOf(takeAll(log))).toEqual(["working", "next"]);
  });

  test("keeps the first lines and the last of what is too much, and counts those between", () => {
    const log = datumLog();
    const count = 200_000;
    const text = Array.from({ length: count }, (_, index) => `line ${index}\n`).join("");
    const bytes = Buffer.from(text);
    for (let start = 0; start < bytes.length; start += 65_536) {
      log.write(bytes.subarray(start, start + 65_536), { stream: "stdout", now: start });
    }
    log.write(Buffer.from("the cause"), { stream: "stdout", now: bytes.length });
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
    log.write(Buffer.from(`${"x".repeat(4000)}\n`.repeat(65)), { stream: "stdout", now: 0 });
    log.write(Buffer.from("beyond\n"), { stream: "stdout", now: 0 });
    expect(textsOf(takeAll(log))).toHaveLength(66);
    log.write(Buffer.from("later\n"), { stream: "stdout", now: 10_000 });
    expect(takeAll(log)).toEqual([{ dropped: 0, lines: [{ at: 10_000, stream: "stdout", text: "later" }] }]);
  });

  test("has what comes once there is room again behind what came while there was none, on both streams", () => {
    const log = datumLog();
    log.write(Buffer.from(`${"x".repeat(4000)}\n`.repeat(65)), { stream: "stdout", now: 0 });
    takeAll(log);
    log.write(Buffer.from("beyond\n"), { stream: "stdout", now: 0 });
    log.write(Buffer.from("later\n"), { stream: "stdout", now: 10_000 });
    log.write(Buffer.from("aside\n"), { stream: "stderr", now: 20_000 });
    expect(textsOf(takeAll(log))).toEqual(["beyond", "later", "aside"]);
  });

  test("keeps the end of an endless line", () => {
    const log = datumLog();
    for (let i = 0; i < 100; i += 1) log.write(Buffer.alloc(65_536, "x"), { stream: "stdout", now: 0 });
    log.write(Buffer.from("é".repeat(10_000)), { stream: "stdout", now: 0 });
    log.end();
    const takes = takeAll(log);
    expect(takes.map(({ dropped }) => dropped)).toEqual([0, 1]);
    expect(textsOf(takes.slice(1)).join("")).toMatch(/^é{8000,}$/);
  });

  test("keeps apart what comes on each stream, each line where it was finished", () => {
    const log = datumLog();
    const write = (stream: LogStream, text: string, now: number) =>
      log.write(Buffer.from(text), { stream, now });
    write("stdout", "half", 0);
    write("stderr", "Trace", 1);
    write("stdout", " and half\n", 2);
    write("stderr", "back\nError\nlast words", 3);
    write("stdout", "é".slice(0, 1), 4);
    log.end();
    expect(takeAll(log).flatMap(({ lines }) => lines)).toEqual([
      { at: 2, stream: "stdout", text: "half and half" },
      { at: 3, stream: "stderr", text: "Traceback" },
      { at: 3, stream: "stderr", text: "Error" },
      { at: 3, stream: "stderr", text: "last words" },
      { at: 4, stream: "stdout", text: "é" },
    ]);
  });

  test("gives out a line that is not finished though the other stream goes on", () => {
    const log = datumLog();
    log.write(Buffer.from("10 %"), { stream: "stderr", now: 0 });
    log.write(Buffer.from("one\n"), { stream: "stdout", now: 900 });
    log.flushUnfinished(1000);
    expect(takeAll(log).flatMap(({ lines }) => lines)).toEqual([
      { at: 900, stream: "stdout", text: "one" },
      { at: 0, stream: "stderr", text: "10 %" },
    ]);
    expect(log.isUnfinished).toBe(false);
  });

  test("keeps the end of each stream of what is too much: what stderr said is not lost in what stdout says", () => {
    const log = datumLog();
    const noise = Buffer.from("noise\n".repeat(10_000));
    for (let now = 0; now < 20; now += 1) log.write(noise, { stream: "stdout", now });
    log.write(Buffer.from("the cause\n"), { stream: "stderr", now: 20 });
    for (let now = 21; now < 40; now += 1) log.write(noise, { stream: "stdout", now });
    log.end();
    const takes = takeAll(log);
    const lines = takes.flatMap((take) => take.lines);
    expect(lines.filter(({ stream }) => stream === "stderr")).toEqual([
      { at: 20, stream: "stderr", text: "the cause" },
    ]);
    expect(lines.at(-1)).toEqual({ at: 39, stream: "stdout", text: "noise" });
    const dropped = takes.reduce((sum, take) => sum + take.dropped, 0);
    expect(dropped + lines.length).toBe(39 * 10_000 + 1);
  });

  test("is taken in parts, and counts what was taken and then lost", () => {
    const log = datumLog();
    log.write(Buffer.from("a\nbb\nccc\n"), { stream: "stdout", now: 0 });
    const take = log.take({ lines: 2, characters: 1000 });
    expect(textsOf([take])).toEqual(["a", "bb"]);
    log.lose(take);
    expect(log.take({ lines: 2, characters: 1000 })).toEqual({
      dropped: 2,
      lines: [{ at: 0, stream: "stdout", text: "ccc" }],
    });
    log.write(Buffer.from("a\nbb\nccc\n"), { stream: "stdout", now: 0 });
    expect(textsOf([log.take({ lines: 9, characters: 3 })])).toEqual(["a", "bb"]);
    log.lose(log.take({ lines: 9, characters: 3 }));
    expect(takeAll(log)).toEqual([{ dropped: 1, lines: [] }]);
  });

  test("shares the room of its worker with the others", () => {
    const inAll = { weight: 0 };
    const logs = Array.from({ length: 100 }, () => new DatumLog(inAll));
    for (const log of logs)
      log.write(Buffer.from(`${"x".repeat(4000)}\n`.repeat(60)), { stream: "stdout", now: 0 });
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
    log.write(Buffer.from("a\nb"), { stream: "stdout", now: 0 });
    log.close();
    log.write(Buffer.from("c\n"), { stream: "stdout", now: 0 });
    log.end();
    expect(log.isWaiting).toBe(false);
    expect(inAll.weight).toBe(0);
  });
});

import { readdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { inPages } from "../../../cli/files/local-tree.ts";
import {
  JsonSplitter,
  LineSplitter,
  type RecordSplitter,
  ValueSplitter,
} from "../../../cli/files/split/splitters.ts";
import {
  type DevServer,
  ROOT,
  sluice,
  sluiceCommand,
  sluiceEnv,
  startDevServer,
} from "../../support/dev-server.ts";
import { doorVariables } from "../../support/keys.ts";
import { type Ended, run } from "../../support/processes.ts";
import { seededRandom, testSeed } from "../../support/random.ts";
import { S3 } from "../../support/s3.ts";
import { scratchFolder } from "../../support/scratch.ts";
import { REST } from "../../support/suite.ts";

/** The records of a text that comes in chunks of at most so many bytes. */
function records(splitter: RecordSplitter, text: string | Buffer, chunkBytes = 7): string[] {
  const bytes = Buffer.from(text);
  const found: Buffer[] = [];
  for (let at = 0; at < bytes.length; at += chunkBytes) {
    found.push(...splitter.push(bytes.subarray(at, at + chunkBytes)));
  }
  found.push(...splitter.end());
  return found.map((record) => record.toString());
}

function jsonRecords(text: string | Buffer, chunkBytes?: number): string[] {
  return records(new JsonSplitter("events"), text, chunkBytes);
}

/** What it says of a text that it can't cut. */
function refusal(text: string | Buffer, chunkBytes = 3): string {
  let said = "";
  try {
    jsonRecords(text, chunkBytes);
  } catch (error) {
    said = error instanceof Error ? error.message : String(error);
  }
  expect(said).toMatch(/; nothing was committed$/);
  return said.replace("; nothing was committed", "");
}

describe("split by line", () => {
  test.each([
    ["", []],
    ["one", ["one"]],
    ["one\n", ["one\n"]],
    ["one\ntwo", ["one\n", "two"]],
    ["\n\n", ["\n", "\n"]],
    ["a\r\nb\u2028c\u0085d\n", ["a\r\n", "b\u2028c\u0085d\n"]],
  ])("cuts %j behind each newline and keeps every byte", (text, expected) => {
    for (const chunkBytes of [1, 2, 3, 100]) {
      expect(records(new LineSplitter("log"), text, chunkBytes)).toEqual(expected);
    }
  });

  test("keeps bytes that are no text as they are", () => {
    const bytes = Buffer.from([0xff, 0x00, 0x0a, 0xc3, 0x0a, 0x80]);
    const splitter = new LineSplitter("log");
    const found = [
      ...splitter.push(bytes.subarray(0, 4)),
      ...splitter.push(bytes.subarray(4)),
      ...splitter.end(),
    ];
    expect(found.map((record) => record.toString("hex"))).toEqual(["ff000a", "c30a", "80"]);
  });

  test("refuses a line that is longer than a record may be, and names it", () => {
    const splitter = new LineSplitter("log", { maxBytes: 10 });
    expect(records(splitter, "123456789\n")).toEqual(["123456789\n"]);
    expect(() => records(splitter, "ok\n12345678901\n")).toThrow("log: line 3 is longer than 10 bytes");
  });
});

describe("split by JSON value", () => {
  const VALUES = [
    '{"a": [1, {"b": "}"}]}',
    '"\\"]\\\\"',
    "-1.5e+3",
    "true",
    "null",
    '["é", "😀", "\\u0000"]',
    "{}",
  ];

  test.each([
    ["a value a line", VALUES.join("\n")],
    ["a value a line, with a last newline and empty lines", `${VALUES.join("\r\n\r\n")}\r\n`],
    ["values with spaces between", ` ${VALUES.join(" \t")} `],
  ])("cuts %s, and keeps each as it is written", (_what, text) => {
    for (const chunkBytes of [1, 2, 3, 5, 1000]) {
      expect(jsonRecords(text, chunkBytes)).toEqual(VALUES.map((value) => `${value}\n`));
    }
  });

  test("cuts values that stand side by side or go over many lines", () => {
    expect(jsonRecords('{"a":1}{"a":2}[3]"four""five"true')).toEqual(
      ['{"a":1}', '{"a":2}', "[3]", '"four"', '"five"', "true"].map((value) => `${value}\n`),
    );
    const pretty = JSON.stringify({ a: [1, 2], b: { c: "d" } }, null, 2);
    expect(jsonRecords(`${pretty}\n${pretty}`)).toEqual([`${pretty}\n`, `${pretty}\n`]);
  });

  test.each([
    ["[]", []],
    [" [ ] ", []],
    ["[1]", ["1"]],
    ['[ {"a": 1},\n{"a": 2} , [3, 4], "x,]" ]\n', ['{"a": 1}', '{"a": 2}', "[3, 4]", '"x,]"']],
  ])("takes the elements of the array that is the whole text: %j", (text, elements) => {
    for (const chunkBytes of [1, 4, 1000]) {
      expect(jsonRecords(text, chunkBytes)).toEqual(elements.map((element) => `${element}\n`));
    }
  });

  test("takes each array of a row of arrays as a record", () => {
    expect(jsonRecords("[1, 2]\n[3]\n[]\n")).toEqual(["[1, 2]\n", "[3]\n", "[]\n"]);
  });

  test("does not wait for the end of a long array", () => {
    const splitter = new JsonSplitter("events", { leadBytes: 20 });
    expect(splitter.push(Buffer.from("[1,2,3,4,5,6,7,8,9,10,11")).map(String)).toEqual(
      [1, 2, 3, 4, 5, 6, 7, 8, 9, 10].map((number) => `${number}\n`),
    );
    expect(splitter.push(Buffer.from("]\n")).map(String)).toEqual(["11\n"]);
    expect(() => splitter.push(Buffer.from("[12]"))).toThrow(
      "events, line 2, column 1: there is more text behind the array that holds the records",
    );
  });

  test("leaves a byte order mark out", () => {
    expect(jsonRecords("\ufeff[1]", 1)).toEqual(["1\n"]);
    expect(jsonRecords("\ufeff{}", 1)).toEqual(["{}\n"]);
  });

  test("holds nothing where there is nothing but white space", () => {
    expect(jsonRecords("")).toEqual([]);
    expect(jsonRecords(" \n\t\r\n")).toEqual([]);
  });

  test.each([
    ['{"a": 1}\n{"a": }\n', "events, line 2, column 7: '}' is no value"],
    ['{"a": 1}\n  {"b": tru}\n', "events, line 2, column 9: 'tru' is no value"],
    ['{"é😀": 1}  oops', "events, line 1, column 13: 'oops' is no value"],
    ['{"a":\n"b\n', "events, line 2, column 3: a string can't hold this: write \\n, \\t or \\u…"],
    ['{"a": [1, 2}', "events, line 1, column 12: expected ',' or ']'"],
    ['{"a": 1', "events, line 1, column 8: the text ends before the '}' to the '{' of line 1"],
    ["1, 2", "events, line 1, column 2: ',' is no value"],
    ["1 ] 2", "events, line 1, column 3: ']' is no value"],
    ["01", "events, line 1, column 1: '01' is no value"],
    ["[1, 2", "events, line 1, column 6: the text ends before the ']' of the array that holds the records"],
    ["[1,\n 2,\n]", "events, line 3, column 1: there is a comma behind the last element"],
    ["[1,, 2]", "events, line 1, column 4: ',' is no value"],
    ["[1 2]", "events, line 1, column 4: expected ',' or ']' behind the element"],
    ["[\n1,\n{'a': 1}]", 'events, line 3, column 2: expected a name in double quotes, such as "glob"'],
  ])("refuses %j and names the place", (text, said) => {
    for (const chunkBytes of [1, 3, 1000]) expect(refusal(text, chunkBytes)).toBe(said);
  });

  test("refuses bytes that are not UTF-8", () => {
    const bytes = Buffer.concat([Buffer.from('"ok"\n"'), Buffer.from([0xc3, 0x28]), Buffer.from('"')]);
    expect(refusal(bytes)).toBe("events, line 2, column 1: the value that begins here is not UTF-8");
  });

  test("refuses a value that is longer than a record may be, and names it", () => {
    const splitter = new ValueSplitter("events", { frame: "values", maxBytes: 10 });
    expect(() => records(splitter, '"ok"\n "1234567890')).toThrow(
      "events: the value at line 2, column 2 is longer than 10 bytes",
    );
  });

  test("finds, in any text that it cuts, the values that JSON.parse reads, however the chunks fall", () => {
    const random = seededRandom(testSeed());
    for (let round = 0; round < 300; round++) {
      const values = Array.from({ length: Math.floor(random() * 6) }, () => anyValue(random, 3));
      const indent = random() < 0.3 ? 1 + Math.floor(random() * 3) : undefined;
      const texts = values.map((value) => JSON.stringify(value, null, indent));
      const chunkBytes = 1 + Math.floor(random() * 9);
      const array = `[${texts.map((text) => space(random) + text + space(random)).join(",")}]`;
      const lines = texts.map((text) => `${text}\n${space(random)}`).join("");
      const expected = texts.map((text) => `${text}\n`);
      expect(jsonRecords(array, chunkBytes), array).toEqual(expected);
      // A single array in a text is taken for the one that holds the records.
      if (texts.length !== 1) expect(jsonRecords(lines, chunkBytes), lines).toEqual(expected);
      expect(expected.map((text) => JSON.parse(text))).toEqual(values);
    }
  });

  test("takes no damaged text that JSON.parse would refuse, and refuses none that it would take", () => {
    const random = seededRandom(testSeed());
    for (let round = 0; round < 500; round++) {
      // Through bytes, which half a character does not survive.
      const text = Buffer.from(damaged(JSON.stringify({ v: [anyValue(random, 3)] }), random)).toString();
      const cut = attempt(() => jsonRecords(text, 1 + Math.floor(random() * 9)));
      if (cut === undefined) {
        expect(
          attempt(() => JSON.parse(text)),
          text,
        ).toBeUndefined();
        continue;
      }
      for (const record of cut) JSON.parse(record);
      // Nothing is lost but what stands between values.
      const kept = cut.join("").replaceAll(/\s/g, "");
      const whole = text.replaceAll(/\s/g, "");
      expect(whole.startsWith("[") ? whole.replaceAll(/[[\],]/g, "") : whole).toBe(
        whole.startsWith("[") ? kept.replaceAll(/[[\],]/g, "") : kept,
      );
    }
  });
});

function attempt<T>(act: () => T): T | undefined {
  try {
    return act();
  } catch {
    return undefined;
  }
}

const TEXTS = ["", "plain", 'q"uo\\te', "{[,]}", "line\nend\u2028", "é", "😀", "\u0000\u001f", "日本語"];

function anyValue(random: () => number, depth: number): unknown {
  const text = (): string => TEXTS[Math.floor(random() * TEXTS.length)] ?? "";
  const kind = Math.floor(random() * (depth === 0 ? 4 : 6));
  if (kind === 0) return text();
  if (kind === 1) return (random() - 0.5) * 10 ** Math.floor(random() * 30 - 15);
  if (kind === 2) return random() < 0.5;
  if (kind === 3) return null;
  const inner = Array.from({ length: Math.floor(random() * 4) }, () => anyValue(random, depth - 1));
  return kind === 4 ? inner : Object.fromEntries(inner.map((value, index) => [`${text()}${index}`, value]));
}

function space(random: () => number): string {
  return ["", " ", "\n", "\t\r\n "][Math.floor(random() * 4)] ?? "";
}

/** A character taken out, put in twice, or replaced. */
function damaged(text: string, random: () => number): string {
  const at = Math.floor(random() * text.length);
  const other = '{}[],:"\\ 1tn'.charAt(Math.floor(random() * 12));
  const middle = random() < 0.3 ? "" : random() < 0.5 ? text.charAt(at).repeat(2) : other;
  return text.slice(0, at) + middle + text.slice(at + 1);
}

describe("pages", () => {
  test("end where one call takes no more, or before their bytes are too many", async () => {
    const entries = async function* (...sizes: number[]) {
      for (const size of sizes) yield { size };
    };
    const pages = async (sizes: number[], maxBytes?: number): Promise<unknown[]> => {
      const found: unknown[] = [];
      for await (const page of inPages(entries(...sizes), maxBytes === undefined ? {} : { maxBytes })) {
        found.push([page.entries.length, page.isLast]);
      }
      return found;
    };
    expect(await pages([])).toEqual([]);
    expect(await pages(Array(10_000).fill(1))).toEqual([[10_000, true]]);
    expect(await pages(Array(10_001).fill(1))).toEqual([
      [10_000, false],
      [1, true],
    ]);
    expect(await pages([4, 4, 4, 20, 1, 1], 10)).toEqual([
      [2, false],
      [1, false],
      [1, false],
      [2, true],
    ]);
  });
});

describe("sluice cp --split", () => {
  let server: DevServer;
  let s3: S3;
  beforeAll(async () => {
    server = await startDevServer();
    s3 = new S3(server);
  });
  afterAll(() => server.stop());

  const file = (name: string, content: string): string => {
    const path = join(scratchFolder(), name);
    writeFileSync(path, content);
    return path;
  };
  const ok = async (...args: string[]): Promise<Record<string, unknown>> => {
    const { code, stdout, stderr } = await sluice(server, ...args, "--json");
    expect([code, stderr]).toEqual([0, ""]);
    return JSON.parse(stdout.toString());
  };
  /** The files of a bucket and what they hold. */
  const contents = async (bucket: string): Promise<Record<string, string>> => {
    const found: Record<string, string> = {};
    for (const key of await s3.keys(bucket)) found[key] = (await s3.get(bucket, key))?.toString() ?? "";
    return found;
  };
  const fromStdin = (input: string, ...args: string[]): Promise<Ended> =>
    run([process.execPath, join(ROOT, "bin/sluice.js"), "cp", ...args], {
      cwd: ROOT,
      env: doorVariables(server),
      input,
    });

  test("line puts each line into a file of its own, in one commit", async () => {
    const log = file("access.log", "one\r\ntwo\n\nlast");
    const done = await ok("cp", "--create", "--split", "line", log, "s3://master.lines/today/");
    expect(done).toMatchObject({ files: 4, commit: await s3.headCommit("master.lines") });
    expect(await contents("master.lines")).toEqual({
      "today/0000000000000000.log": "one\r\n",
      "today/0000000000000001.log": "two\n",
      "today/0000000000000002.log": "\n",
      "today/0000000000000003.log": "last",
    });
  });

  test("json with --per-file puts so many values into each", REST, async () => {
    const events = file("events.json", '[{"n": 1}, {"n": 2},\n {"n":3}]');
    await ok("cp", "--create", "--split", "json", "--per-file", "2", events, "s3://master.values");
    expect(await contents("master.values")).toEqual({
      "0000000000000000.json": '{"n": 1}\n{"n": 2}\n',
      "0000000000000001.json": '{"n":3}\n',
    });
  });

  test("reads stdin, where its files have no ending", REST, async () => {
    const { code } = await fromStdin("a\nb\n", "--create", "--split", "line", "-", "s3://master.piped/x");
    expect(code).toBe(0);
    expect(await contents("master.piped")).toEqual({
      "x/0000000000000000": "a\n",
      "x/0000000000000001": "b\n",
    });
  });

  test("makes one commit of more files than one call takes", { ...REST, timeout: 180_000 }, async () => {
    const lines = Array.from({ length: 10_001 }, (_, number) => `${number}\n`).join("");
    const done = await ok("cp", "--create", "--split", "line", file("n", lines), "s3://master.numbers");
    expect(done).toEqual({
      commit: await s3.headCommit("master.numbers"),
      files: 10_001,
      bytes: lines.length,
      sentBytes: lines.length,
    });
    const keys = await s3.keys("master.numbers");
    expect([keys.length, keys.at(-1)]).toEqual([10_001, "0000000000010000"]);
    expect((await s3.get("master.numbers", "0000000000010000"))?.toString()).toBe("10000\n");
  });

  test("puts files that are too large for memory, and leaves no temporary ones", REST, async () => {
    // A folder of its own: in the machine's other commands have theirs.
    const TMPDIR = scratchFolder();
    const line = `${"0123456789abcdef".repeat(6000)}\n`;
    const text = line.repeat(100);
    const put = [
      "cp",
      "--create",
      "--split",
      "line",
      "--per-file",
      "99",
      file("big", text),
      "s3://master.big",
    ];
    const env = { ...sluiceEnv(server), TMPDIR };
    expect(await run(sluiceCommand(put), { cwd: ROOT, env })).toMatchObject({ code: 0, stderr: "" });
    expect((await s3.get("master.big", "0000000000000000"))?.toString()).toBe(line.repeat(99));
    expect((await s3.get("master.big", "0000000000000001"))?.toString()).toBe(line);
    expect(readdirSync(TMPDIR)).toEqual([]);
  });

  test("stages in an open commit", REST, async () => {
    await s3.createBucket("master.staged");
    const { bucket } = await ok("commit", "start", "s3://master.staged");
    await ok("cp", "--split", "line", file("two", "1\n2\n"), `s3://${bucket}`);
    expect(await s3.keys("master.staged")).toEqual([]);
    await ok("commit", "finish", `s3://${bucket}`);
    expect((await s3.keys("master.staged")).length).toBe(2);
  });

  test("makes no commit of a text that is no JSON, however late that shows", {
    timeout: 180_000,
  }, async () => {
    await s3.createBucket("master.bad");
    const text = `${'{"n":1}\n'.repeat(10_050)}{"n":}\n`;
    const { code, stderr } = await sluice(
      server,
      "cp",
      "--split",
      "json",
      file("bad", text),
      "s3://master.bad",
    );
    expect(code).toBe(1);
    expect(stderr).toContain("bad, line 10051, column 6: '}' is no value; nothing was committed");
    expect([await s3.keys("master.bad"), await s3.headCommit("master.bad")]).toEqual([[], ""]);
  });

  test.each([
    [1, ["--split", "line", "EMPTY", "s3://master.x"], "EMPTY holds nothing"],
    [2, ["--split", "csv", "EMPTY", "s3://master.x"], "Allowed choices are line, json"],
    [2, ["--split", "line", "-r", "EMPTY", "s3://master.x"], "leave -r out"],
    [2, ["--split", "line", "/", "s3://master.x"], "--split cuts one file, and / is none"],
    [2, ["--per-file", "2", "EMPTY", "s3://master.x"], "--per-file goes with --split only"],
    [2, ["--split", "line", "--per-file", "0", "EMPTY", "s3://master.x"], "whole number from 1"],
    [2, ["--split", "line", "s3://master.x/a", "EMPTY"], "--split"],
    [2, ["-", "s3://master.x"], "what comes on stdin has no name"],
  ])("ends with %i where it is asked for %j", async (status, args, said) => {
    const empty = file("EMPTY", "");
    const { code, stderr } = await sluice(
      server,
      "cp",
      ...args.map((arg) => (arg === "EMPTY" ? empty : arg)),
    );
    expect([code, stderr.replaceAll(empty, "EMPTY")]).toEqual([status, expect.stringContaining(said)]);
  });
});

import { afterEach, describe, expect, test, vi } from "vitest";
import { CliError, reportFailure } from "../../../cli/output/failure.ts";
import {
  printJson,
  printLine,
  printOutput,
  printTable,
  printText,
  visibleLine,
  visibleText,
} from "../../../cli/output/output.ts";

/** Clears the screen, sets the clipboard, turns text around; and a control that has no ESC. */
const HOSTILE = "\u001b[2J\u001b]52;c;cm0gLXJm\u0007\u202egnp.exe\u2066\u009b31m\rdone\u0085";
const SHOWN = "\\u001b[2J\\u001b]52;c;cm0gLXJm\\u0007\\u202egnp.exe\\u2066\\u009b31m\\rdone\\u0085";

afterEach(() => {
  vi.restoreAllMocks();
});

/** What a function prints. */
function printed(print: () => void): string {
  const written: string[] = [];
  vi.spyOn(process.stdout, "write").mockImplementation((text) => written.push(String(text)) > 0);
  print();
  vi.restoreAllMocks();
  return written.join("");
}

function onTerminal(isTTY: boolean, print: () => void): string {
  const before = process.stdout.isTTY;
  process.stdout.isTTY = isTTY;
  try {
    return printed(print);
  } finally {
    process.stdout.isTTY = before;
  }
}

describe("what steers a terminal is shown, not obeyed", () => {
  test("in lines and tables, which are as wide as what is shown", () => {
    expect(printed(() => printLine(`reason ${HOSTILE}`))).toBe(`reason ${SHOWN}\n`);
    const table = printed(() =>
      printTable([
        ["NAME", "STATE"],
        [HOSTILE, "ok"],
      ]),
    );
    expect(table).toBe(`${"NAME".padEnd(SHOWN.length)}  STATE\n${SHOWN}  ok\n`);
  });

  test("in failures, in words and as JSON", () => {
    const issues = [{ path: "spec", message: HOSTILE }];
    const error = new CliError(HOSTILE, { issues });
    expect(reportFailure(error, { json: false }).text).toBe(`error: ${SHOWN}\n  spec: ${SHOWN}\n`);
    expect(reportFailure(error, { json: true }).text).not.toMatch(/[\x7f-\x9f\u202a-\u202e\u2066-\u2069]/);
  });

  test("in JSON, which means the same as before", () => {
    const value = { name: HOSTILE, after: "a\nb" };
    const text = printed(() => printJson(value));
    expect(text).not.toMatch(/[\0-\x09\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]/);
    expect(JSON.parse(text)).toEqual(value);
  });

  test("in what commands printed if a person looks on; a program gets it as it is", () => {
    expect(onTerminal(true, () => printOutput("datum  ", HOSTILE))).toBe(`datum  ${SHOWN}\n`);
    expect(onTerminal(false, () => printOutput("datum  ", HOSTILE))).toBe(`datum  ${HOSTILE}\n`);
  });

  test("and a line can't become two, but for text that has several", () => {
    expect(visibleLine("a\nb\tc")).toBe("a\\nb\tc");
    expect(visibleText("a\nb\tc")).toBe("a\nb\tc");
    expect(visibleText("line\u2028end")).toBe("line\\u2028end");
    expect(printed(() => printText("a\nb"))).toBe("a\nb\n");
  });

  test("and text of any language is left alone", () => {
    const words = "naïve 日本 עברית العربية 👩‍👩‍👧 café\u0301";
    expect(visibleLine(words)).toBe(words);
  });
});

import { readFileSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, test } from "vitest";
import { runProgram } from "../../../cli/program.ts";
import { ROOT } from "../../support/dev-server.ts";

const CONTRACT = read("docs/contract.md");

describe("the contract", () => {
  test("lists every error code of S3", () => {
    expect(codesUnder("Errors and limits")).toEqual(codesIn("worker/s3/answer/errors.ts"));
  });

  test("lists every error code of the control API", () => {
    expect(codesUnder("Control API")).toEqual(codesIn("worker/api/answer/errors.ts"));
  });

  test("names every command", async () => {
    const commands = [];
    for (const name of commandsOf(await helpOf([]))) {
      const below = commandsOf(await helpOf([name]));
      commands.push(...(below.length === 0 ? [name] : below.map((one) => `${name} ${one}`)));
    }
    const named = namedCommands();
    expect(commands.length).toBeGreaterThan(30);
    expect(commands.filter((command) => !named.has(command))).toEqual([]);
  });
});

/** The codes in a section's table of statuses. */
function codesUnder(heading: string): string[] {
  const [, table = ""] = /^\| status \| codes \|\n((?:\|.*\n)+)/m.exec(section(heading)) ?? [];
  return [...new Set(table.match(/\b[A-Z][a-z]\w+|\bXAmz\w+/g))].toSorted();
}

/** The codes that are keys of the file's first table. */
function codesIn(path: string): string[] {
  const [table = ""] = /= \{\n[\s\S]*?\n\}/.exec(read(path)) ?? [];
  return [...table.matchAll(/^ {2,4}([A-Z]\w+):/gm)].map(([, code = ""]) => code).toSorted();
}

/** What the table of commands names, `a|b` being two. */
function namedCommands(): Set<string> {
  const named = new Set<string>();
  for (const [row] of section("Command line").matchAll(/^\| `.*$/gm)) {
    let group = "";
    for (const [, code = ""] of row.matchAll(/`([a-z][a-z |\\-]*[a-z])[^`]*`/g)) {
      const words = code.replace(/^sluice /, "").split(" ");
      if (words.length > 1) group = words[0] ?? "";
      for (const name of (words[1] ?? words[0] ?? "").split("\\|")) {
        named.add(name);
        named.add(`${group} ${name}`);
      }
    }
  }
  return named;
}

/** What `--help` prints behind some words. */
async function helpOf(words: readonly string[]): Promise<string> {
  let printed = "";
  const print = (text: string): void => {
    printed += text;
  };
  await runProgram([...words, "--help"], { out: print, err: print }).catch(() => {});
  return printed;
}

function commandsOf(help: string): string[] {
  const [, list = ""] = /^Commands:\n([\s\S]*?)\n(?:\n|$)/m.exec(help) ?? [];
  return [...list.matchAll(/^ {2}([a-z-]+)/gm)].map(([, name = ""]) => name);
}

function section(heading: string): string {
  return CONTRACT.split(/^## /m).find((text) => text.startsWith(`${heading}\n`)) ?? "";
}

function read(path: string): string {
  return readFileSync(join(ROOT, path), "utf8");
}

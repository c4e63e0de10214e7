import { mkdtempSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, test } from "vitest";
import { EXIT, reportFailure } from "../../../cli/output/failure.ts";
import { runProgram } from "../../../cli/program.ts";
import { ROOT } from "../../support/dev-server.ts";
import { doorVariables, ROOT_KEY } from "../../support/keys.ts";
import { freePort } from "../../support/ports.ts";
import { type Ended, run } from "../../support/processes.ts";
import { scratchFolder } from "../../support/scratch.ts";
import { REST } from "../../support/suite.ts";
import { onTerminal } from "../../support/terminal.ts";

/** Runs the CLI where there is no gateway, no key and no data folder. */
function sluice(
  args: readonly string[],
  env: Record<string, string> = {},
  cwd = scratchFolder(),
): Promise<Ended> {
  return run([process.execPath, join(ROOT, "bin/sluice.js"), ...args], { cwd, env });
}

/** Parses a command line in this process, up to where it would act; answers what would be printed and the exit code. */
async function parse(args: readonly string[]): Promise<{ code: number; printed: string; failure: string }> {
  let printed = "";
  const write = (text: string): void => {
    printed += text;
  };
  try {
    await runProgram(args, { out: write, err: write });
    throw new Error(`'${args.join(" ")}' was taken`);
  } catch (error) {
    const { exitCode, text } = reportFailure(error, { json: false });
    return { code: exitCode, printed, failure: text };
  }
}

/** A door where nobody answers. */
async function closedDoor(): Promise<Record<string, string>> {
  return doorVariables({ endpoint: `http://127.0.0.1:${await freePort()}`, ...ROOT_KEY });
}

async function isThere(program: string): Promise<boolean> {
  return (await run(["sh", "-c", `command -v ${program}`])).code === 0;
}

const [hasFish, hasZsh] = await Promise.all(["fish", "zsh"].map(isThere));

const COMMANDS = [
  ["dev"],
  ["runner"],
  ["env"],
  ["pipeline", "create"],
  ["pipeline", "check"],
  ["pipeline", "update"],
  ["pipeline", "stop"],
  ["pipeline", "start"],
  ["pipeline", "list"],
  ["pipeline", "inspect"],
  ["pipeline", "delete"],
  ["job", "list"],
  ["job", "inspect"],
  ["job", "wait"],
  ["job", "stop"],
  ["job", "datums"],
  ["job", "logs"],
  ["key", "create"],
  ["key", "list"],
  ["key", "delete"],
  ["mb"],
  ["rb"],
  ["ls"],
  ["cp"],
  ["sync"],
  ["mv"],
  ["cat"],
  ["rm"],
  ["commit", "wait"],
  ["branch", "last-modified"],
  ["branch", "empty-only"],
  ["branch", "reads"],
];

describe("help", () => {
  test("lists every command", async () => {
    const { code, printed } = await parse(["--help"]);
    expect(code).toBe(0);
    for (const [name] of COMMANDS) expect(printed).toMatch(new RegExp(`^  ${name}\\b`, "m"));
  });

  test.each(
    COMMANDS.map((command) => [command.join(" ")]),
  )("of `%s` has examples and --json", async (command) => {
    const { code, printed } = await parse([...command.split(" "), "--help"]);
    expect(code).toBe(0);
    expect(printed).toContain(`$ sluice ${command}`);
    expect(printed).toContain("--json");
  });

  test("of a group has a line for each of its commands, and says where their options are", async () => {
    for (const [group] of COMMANDS.filter(({ length }) => length > 1)) {
      const { printed } = await parse([group ?? "", "--help"]);
      const [, list = ""] = /^Commands:\n([\s\S]+?)\n\n/m.exec(printed) ?? [];
      const lines = list.split("\n");
      expect(lines.filter((line) => /^ {2}[a-z-]+(, [a-z]+)? +[A-Z][^.:;]*$/.test(line))).not.toEqual([]);
      expect(lines.filter((line) => /[.:;]( |$)/.test(line))).toEqual([]);
      expect(printed).toContain(`'sluice ${group} <command> --help' has the options`);
    }
  });

  test("has every exit code", async () => {
    const [, codes = ""] = /^Exit codes: ([\s\S]+?)\n\n/m.exec((await parse(["--help"])).printed) ?? [];
    const told = codes.split(/,\s/).map((code) => Number.parseInt(code, 10));
    expect(told).toEqual(Object.values(EXIT));
  });

  test("says that cp and mv go to their last path", async () => {
    for (const name of ["cp", "mv"]) {
      expect((await parse([name, "--help"])).printed).toContain(
        `Usage: sluice ${name} [options] <from...> <to>`,
      );
    }
  });

  test("tells the version", async () => {
    const { code, stdout } = await sluice(["--version"]);
    expect(code).toBe(0);
    expect(stdout.toString()).toMatch(/^\d+\.\d+\.\d+\n$/);
  });
});

describe("words that are there for people", () => {
  test("help is --help, and list, inspect and delete have shorter names", async () => {
    expect((await parse(["help", "job", "wait"])).printed).toContain("$ sluice job wait");
    expect((await parse(["help"])).printed).toContain("Commands:");
    for (const words of [
      ["job", "ls"],
      ["pipeline", "get"],
      ["tag", "rm"],
    ]) {
      expect((await parse([...words, "--help"])).code).toBe(0);
    }
  });

  test("bash completes commands, those below them, and options", async () => {
    const script = `
      eval "$("$@" completion bash)"
      for line in 'sluice j' 'sluice job wa' 'sluice job wait --t' 'sluice cp --re' 'sluice --json job lo'; do
        COMP_WORDS=($line); COMP_CWORD=$((\${#COMP_WORDS[@]} - 1)); _sluice; echo "\${COMPREPLY[*]}"
      done`;
    const { code, stdout, stderr } = await run(
      ["bash", "--norc", "-euc", script, "bash", process.execPath, join(ROOT, "bin/sluice.js")],
      { cwd: scratchFolder() },
    );
    expect({ code, stderr }).toEqual({ code: 0, stderr: "" });
    expect(stdout.toString().trimEnd().split("\n")).toEqual([
      "job",
      "wait",
      "--timeout",
      "--recursive",
      "logs",
    ]);
  });

  test.skipIf(!hasFish)("fish completes the same, on commands and options alone", REST, async () => {
    const script = `
        $argv completion fish | source
        for line in 'sluice j' 'sluice job wa' 'sluice job wait --t' 'sluice cp --re' 'sluice --json job lo' 'sluice job wait l'
          echo "$line:" (complete -C $line | string split -f 1 \\t)
        end`;
    const { code, stdout, stderr } = await run(
      ["fish", "--no-config", "-c", script, process.execPath, join(ROOT, "bin/sluice.js")],
      { cwd: scratchFolder(), env: { HOME: scratchFolder() } },
    );
    expect({ code, stderr }).toEqual({ code: 0, stderr: "" });
    expect(stdout.toString().trimEnd().split("\n")).toEqual([
      "sluice j: job",
      "sluice job wa: wait",
      "sluice job wait --t: --timeout",
      "sluice cp --re: --recursive",
      "sluice --json job lo: logs",
      "sluice job wait l:",
    ]);
  });

  test.skipIf(!hasZsh)("zsh completes the same at its prompt", REST, async () => {
    const home = scratchFolder();
    const program = `${process.execPath} ${join(ROOT, "bin/sluice.js")}`;
    writeFileSync(
      join(home, ".zshrc"),
      `PS1='ready> '\nsluice() { echo "typed: $*"; }\neval "$(${program} completion zsh)"\n`,
    );
    const shell = onTerminal(["zsh", "-i"], { env: { HOME: home, ZDOTDIR: home }, cwd: scratchFolder() });
    await shell.shows("ready> ");
    for (const [typed, line] of [
      ["sluice j\t\n", "typed: job"],
      ["sluice job wa\t\n", "typed: job wait"],
      ["sluice job wait --t\t\n", "typed: job wait --timeout"],
      ["sluice cp --re\t\n", "typed: cp --recursive"],
    ]) {
      shell.type(typed ?? "");
      await shell.shows(line ?? "");
    }
    shell.type("exit\n");
    expect(await shell.ended).toBe(0);
  });
});

const WRONG: readonly (readonly [args: string, mention: string])[] = [
  ["", "name a command"],
  ["pipeline", "name a command"],
  ["lss", "unknown command 'lss' (Did you mean ls?)"],
  ["ls --bogus", "unknown option '--bogus'"],
  ["pipeline inspect edges --version 1", "unknown option '--version'"],
  ["ls one two", "too many arguments"],
  ["ls master.images", "'master.images' must be s3://<branch>.<repo>/<path>"],
  ["ls s3://-images", "'-images' in 's3://-images' must be <branch>.<repo>"],
  ["ls s3://a.b.c.d/x", "'a.b.c.d'"],
  ["mb s3://master.images/x", "must name a bucket alone"],
  ["cat s3://master.images", "must name a file"],
  ["cat s3://master.images/a//b", "must not start with '/' or hold '//'"],
  ["cat s3://master.images/../b", "'.' or '..'"],
  ["rm s3://master.images/folder/", "must name a file"],
  ["cp a b", "one of 'a' and 'b' must be s3://"],
  ["cp a", "'a' is what to copy, or where to"],
  ["cp a s3://a.b/x s3://a.b/y", "the sources must be all of this machine, or all s3://"],
  ["cp --commit v1 a s3://a.b/x", "--commit is for sources in a bucket"],
  ["cp", "missing required argument 'from'"],
  ["mv - s3://a.b/x", "can be copied, not moved"],
  ["mv a s3://01ARZ3NDEKTSV4RRFFQ69G5FAV.a.b/x", "may still end without a trace"],
  ["mv s3://a.b/y s3://01ARZ3NDEKTSV4RRFFQ69G5FAV.a.b/x", "may still end without a trace"],
  ["rm s3://a.b/x s3://a.c/x", "are two buckets"],
  ["sync a b", "one of 'a' and 'b' must be s3://"],
  ["commit inspect a.b@v1 v2", "name the commit once"],
  ["commit diff a.b@v1 v2 v3", "name the newer commit once"],
  ["commit start a.b/x", "must name a bucket alone"],
  ["commit finish a.b", "must be the bucket of an open commit"],
  ["job wait", "name one of the two"],
  ["job logs x --failed --follow", "leave out --follow"],
  ["branch empty-only a.b maybe", "It must be on or off."],
  ["branch reads a.b far", "Allowed choices are fresh, near."],
  ["branch last-modified a.b moon", "Allowed choices are branch, object, default."],
  [
    "dev --port 65536",
    "'--port <number>' argument '65536' is invalid. It must be a whole number from 0 to 65535.",
  ],
  ["dev --port 80x", "'80x'"],
  ["dev --runners -1", "'-1'"],
  ["dev --executor rocket", "Allowed choices are auto, process, docker, podman."],
  ["runner --executor rocket", "Allowed choices are auto, process, docker, podman."],
  [
    "job list --state happy",
    "Allowed choices are starting, running, egressing, success, failure, killed, waiting.",
  ],
  ["job list --limit 0", "from 1 to 1000"],
  ["job list --pipeline a.b", "argument 'a.b' is invalid"],
  ["job wait x --timeout 1.5", "'1.5'"],
  ["key create --level owner", "Allowed choices are read, write, admin, runner."],
  ["key create --repo a.b", "'--repo <name>' argument 'a.b' is invalid"],
  [`key create --description ${"x".repeat(201)}`, "at most 200 characters"],
  ["key list --limit 0", "from 1 to 1000"],
  ["key delete", "missing required argument 'id'"],
  ["pipeline create", "required option '-f, --file <spec>' not specified"],
  ["pipeline inspect a/b", "'a/b' is invalid for argument 'name'"],
];

describe("wrong usage", () => {
  test.each(WRONG)("`sluice %s` ends with 2 and says: %s", async (args, mention) => {
    const { code, failure } = await parse(args.split(" ").filter(Boolean));
    expect(failure).toContain(mention);
    expect(failure).toMatch(/^error: .+\n$/);
    expect(code).toBe(2);
  });

  test("with --json is told as JSON on stderr", async () => {
    const { code, stderr, stdout } = await sluice(["job", "list", "--limit", "x", "--json"]);
    expect(code).toBe(2);
    expect(stdout.toString()).toBe("");
    expect(JSON.parse(stderr)).toEqual({
      error: { code: "Usage", message: expect.stringContaining("--limit"), issues: [] },
    });
  });

  test.each([
    ["SLUICE_ENDPOINT", "localhost:8787"],
    ["SLUICE_ENDPOINT", "http://127.0.0.1:8787/path"],
    ["AWS_ENDPOINT_URL", "ftp://127.0.0.1"],
  ])("of %s (%s) names the variable", async (variable, value) => {
    const family = variable.replace(/_.*/, "");
    const key = Object.entries(keyVariables).map(([name, half]) => [name.replace("SLUICE", family), half]);
    const { code, stderr } = await sluice(["ls"], { ...Object.fromEntries(key), [variable]: value });
    expect(stderr).toBe(`error: ${variable} is '${value}': it must be http(s)://host[:port] and no more\n`);
    expect(code).toBe(2);
  });

  test("of half a key names the missing half", async () => {
    const { code, stderr } = await sluice(["ls"], { SLUICE_ACCESS_KEY_ID: "half" });
    expect(stderr).toContain("SLUICE_SECRET_ACCESS_KEY is not set");
    expect(code).toBe(2);
  });
});

const keyVariables = {
  SLUICE_ACCESS_KEY_ID: ROOT_KEY.accessKeyId,
  SLUICE_SECRET_ACCESS_KEY: ROOT_KEY.secretAccessKey,
};

describe("a command that can't reach its gateway", () => {
  test("ends with 8 and says where it looked and what to do", async () => {
    const door = await closedDoor();
    const { code, stderr } = await sluice(["ls"], door);
    expect(stderr).toBe(
      `error: no gateway answers at ${door.SLUICE_ENDPOINT} (from SLUICE_ENDPOINT); start one with 'sluice dev', or set SLUICE_ENDPOINT to another one\n`,
    );
    expect(code).toBe(8);
  });

  test("for want of a key ends with 1 and says where keys come from", async () => {
    const { code, stderr } = await sluice(["ls"]);
    expect(stderr).toMatch(
      /^error: no gateway is named: .*--data, set SLUICE_ENDPOINT, SLUICE_ACCESS_KEY_ID/,
    );
    expect(code).toBe(1);
  });
});

describe("a spec that can't be read", () => {
  test.each([
    [
      "absent.json",
      undefined,
      "error: the specification absent.json can not be read: there is no such file\n",
      7,
    ],
    ["broken.json", "{ not json", "broken.json is not JSON", 1],
  ])("(%s) is named", async (name, content, mention, exitCode) => {
    const folder = mkdtempSync(join(scratchFolder(), "spec-"));
    if (content !== undefined) writeFileSync(join(folder, name), content);
    const { code, stderr } = await sluice(["pipeline", "create", "-f", name], await closedDoor(), folder);
    expect(stderr).toContain(mention);
    expect(code).toBe(exitCode);
  });
});

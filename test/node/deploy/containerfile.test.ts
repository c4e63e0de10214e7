import { readFileSync } from "node:fs";
import { join } from "node:path";
import { expect, test } from "vitest";
import { ROOT } from "../../support/dev-server.ts";

interface Instruction {
  readonly name: string;
  readonly text: string;
}

const INSTRUCTIONS = readInstructions(readFileSync(join(ROOT, "deploy/runner/Containerfile"), "utf8"));

/** Lines that end in `\` go on; comments go away. */
function readInstructions(text: string): Instruction[] {
  const lines = text
    .replace(/^#.*\n/gm, "")
    .replace(/\\\n\s*/g, "")
    .split("\n");
  return lines
    .filter((line) => line.trim() !== "")
    .map((line) => {
      const [, name = "", rest = ""] = /^([A-Z]+) +(.+)$/.exec(line) ?? [];
      return { name, text: rest };
    });
}

const named = (name: string) => INSTRUCTIONS.filter((one) => one.name === name).map(({ text }) => text);

/** What the image does after its last FROM. */
const LAST_STAGE = INSTRUCTIONS.slice(INSTRUCTIONS.findLastIndex(({ name }) => name === "FROM"));

/** An argument list, which no shell takes apart: signals reach the program itself. */
function listOf(name: string): string[] {
  const [text] = LAST_STAGE.filter((one) => one.name === name).map((one) => one.text);
  return JSON.parse(text ?? "null") as string[];
}

test("every line is an instruction that both engines know", () => {
  const known = ["FROM", "COPY", "RUN", "ENV", "USER", "WORKDIR", "STOPSIGNAL", "ENTRYPOINT", "CMD"];
  expect(INSTRUCTIONS.filter(({ name }) => !known.includes(name))).toEqual([]);
});

test("the base is one image of one release, by its full name", () => {
  const bases = new Set(named("FROM").map((text) => text.split(" ")[0]));
  expect(bases).toEqual(new Set(["docker.io/library/node:24-bookworm-slim"]));
});

test("nothing is taken from the machine that builds but the tarball", () => {
  const fromContext = named("COPY").filter((text) => !text.startsWith("--from="));
  expect(fromContext.map((text) => text.split(" ")[0])).toEqual(["sluice-*.tgz"]);
});

test("what is installed is bounded and leaves no lists behind", () => {
  const apt = named("RUN").filter((text) => text.includes("apt-get install"));
  for (const text of apt) {
    expect(text).toMatch(
      /^apt-get update && .*--no-install-recommends .*&& rm -rf \/var\/lib\/apt\/lists\/\*$/,
    );
  }
  expect(apt.join(" ")).toMatch(/\bbubblewrap\b.*\btini\b/);
  const npm = named("RUN").filter((text) => text.startsWith("npm install"));
  expect(npm).toHaveLength(1);
  for (const flag of ["--omit=dev", "--omit=optional", "--ignore-scripts"]) expect(npm[0]).toContain(flag);
});

test("it runs the runner under tini, as a user of its own, with a data folder that is that user's", () => {
  expect(listOf("ENTRYPOINT")).toEqual(["tini", "--", "sluice"]);
  const [command, flag, data] = listOf("CMD");
  expect([command, flag]).toEqual(["runner", "--data"]);
  const users = LAST_STAGE.filter(({ name }) => name === "USER").map(({ text }) => text);
  expect(users).toEqual(["node"]);
  expect(named("RUN").join("\n")).toContain(`install -d -m 0700 -o node -g node ${data}`);
});

test("no secret is written into it", () => {
  expect(INSTRUCTIONS.filter(({ text }) => /ACCESS_KEY|SECRET|TOKEN|PASSWORD/i.test(text))).toEqual([]);
});

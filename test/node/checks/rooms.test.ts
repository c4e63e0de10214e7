import { mkdirSync, writeFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { describe, expect, test } from "vitest";
import { faultsOf } from "../../../scripts/check-rooms.ts";
import { scratchFolder } from "../../support/scratch.ts";

const MAP = `# How it works

## The map

| folder | what is in it | may import |
|---|---|---|
| \`protocol/\` | the wire, and \`no/such/\` | zod |
| \`worker/\` | the gateway | \`protocol/\` |
| \`worker/core/\` | rules | \`protocol/\`, no packages |
| \`worker/branch/\` | an object | \`worker/core/\`, \`worker/{blobs,keys}/port.ts\` |
| \`worker/branch/tree/\` | rows | |
| \`cli/\`, \`runner/\` | commands | \`protocol/\` |
| \`console/\`, \`embedded/\` | pages | – |
| \`scripts/\` | helpers | anything |

## Later

| \`worker/core/\` | not the map | anything |
`;

/** A tree without a fault. */
const TREE: Readonly<Record<string, string>> = {
  "ARCHITECTURE.md": MAP,
  "protocol/wire.ts": 'import { z } from "zod";\nexport const Wire = z.string();\n',
  "worker/app.ts":
    'import "cloudflare:workers";\nimport "../protocol/wire.ts";\nimport "./branch/branch.ts";\n',
  "worker/core/glob.ts": 'import "../../protocol/wire.ts";\n',
  "worker/blobs/port.ts": "export type Blob = string;\n",
  "worker/keys/port.ts": "export type Key = string;\n",
  "worker/branch/branch.ts": 'import "./tree/rows.ts";\nimport type { Blob } from "../blobs/port.ts";\n',
  "worker/branch/tree/rows.ts":
    'import "../../core/glob.ts";\nimport type { Key } from "../../keys/port.ts";\n',
  "cli/main.ts": 'import "../protocol/wire.ts";\n',
  "runner/main.ts": 'import "node:fs";\nimport "../protocol/wire.ts";\n',
  "console/main.tsx": 'const shown = <a href="x">from "./nowhere.ts"</a>;\n',
  "embedded/host.ts": "",
  "scripts/image.ts": 'import "../cli/main.ts";\n',
};

function faultsWith(
  changes: Readonly<Record<string, string>>,
  { tied = [], long = [] }: { tied?: string[]; long?: string[] } = {},
): string[] {
  const root = scratchFolder();
  for (const [path, text] of Object.entries({ ...TREE, ...changes })) {
    mkdirSync(dirname(join(root, path)), { recursive: true });
    writeFileSync(join(root, path), text);
  }
  return faultsOf(root, { tied, long });
}

test("a tree that keeps to its map has no fault", () => {
  expect(faultsWith({})).toEqual([]);
});

describe("a circle is told with the imports that make it", () => {
  test.each([
    ["a static import", 'import "../read/view.ts";\n'],
    ["an import of a type", 'import type { View } from "../read/view.ts";\n'],
    ["an import of a type in the middle of a line", 'let view: import("../read/view.ts").View;\n'],
    ["a dynamic import", 'const view = await import("../read/view.ts");\n'],
    ["an export of another file's name", 'export { view } from "../read/view.ts";\n'],
    ["an export of all that another file has", 'export * from "../read/view.ts";\n'],
  ])("%s", (_, text) => {
    const back = 'import "../tree/other.ts";\n';
    expect(faultsWith({ "worker/branch/tree/more.ts": text, "worker/branch/read/view.ts": back })).toEqual([
      "what lies in worker/branch imports each other in a circle:\n" +
        "  worker/branch/read/view.ts → worker/branch/tree/other.ts\n" +
        "  worker/branch/tree/more.ts → worker/branch/read/view.ts",
    ]);
  });

  test("between a folder and a file beside it", () => {
    const [fault = "", ...more] = faultsWith({
      "worker/branch/tree/rows.ts": `${TREE["worker/branch/tree/rows.ts"]}import "../branch.ts";\n`,
    });
    expect(fault).toContain("worker/branch/branch.ts → worker/branch/tree/rows.ts");
    expect(fault).toContain("worker/branch/tree/rows.ts → worker/branch/branch.ts");
    expect(more).toEqual([]);
  });

  test("over three rooms, and of two circles the shorter one", () => {
    const faults = faultsWith({
      "runner/a/a.ts": 'import "../b/b.ts";\n',
      "runner/b/b.ts": 'import "../c/c.ts";\n',
      "runner/c/c.ts": 'import "../d/d.ts";\n',
      "runner/d/d.ts": 'import "../a/a.ts";\nimport "../b/b.ts";\n',
    });
    expect(faults).toEqual([
      "what lies in runner imports each other in a circle:\n" +
        "  runner/b/b.ts → runner/c/c.ts\n  runner/c/c.ts → runner/d/d.ts\n  runner/d/d.ts → runner/b/b.ts",
    ]);
  });

  test("between folders of the root", () => {
    const [fault] = faultsWith({
      "runner/main.ts": `${TREE["runner/main.ts"]}import "../scripts/image.ts";\n`,
      "scripts/image.ts": 'import "../runner/main.ts";\n',
    });
    expect(fault).toContain("what lies in the root imports each other in a circle");
  });
});

test.each([
  ["a call and a loop", "worker/branch/calls/a.ts", 'import "../work/forks/b.ts";\n'],
  ["a loop and a call", "worker/branch/work/forks/b.ts", 'import type { A } from "../../calls/a.ts";\n'],
])("%s import neither one the other", (_, file, text) => {
  const faults = faultsWith({ [file]: text });
  expect(faults).toEqual([expect.stringContaining(`${file} imports worker/branch/`)]);
  expect(faults[0]).toContain("what both need belongs into a room below");
});

describe("what the map does not allow is told", () => {
  test.each([
    [
      "a room that the row does not name",
      "worker/core/rule.ts",
      'import "../keys/port.ts";\n',
      "worker/core",
    ],
    [
      "another file of a room of which one is named",
      "worker/branch/b.ts",
      'import "../keys/ring.ts";\n',
      "worker/branch",
    ],
    [
      "the same in a row without a value",
      "worker/branch/tree/b.ts",
      'import "../../keys/ring.ts";\n',
      "worker/branch",
    ],
    ["a type of a room", "cli/show.ts", 'import type { Key } from "../worker/keys/port.ts";\n', "cli"],
    ["the second folder of a row", "runner/show.ts", 'import "../worker/keys/port.ts";\n', "runner"],
    ["a package beside those that are named", "protocol/more.ts", 'import "yaml";\n', "protocol"],
    [
      "a module of the platform where no packages may be",
      "worker/core/rule.ts",
      'import "node:fs";\n',
      "worker/core",
    ],
    [
      "any room, of one that may import none",
      "embedded/host.ts",
      'import "../protocol/wire.ts";\n',
      "embedded",
    ],
  ])("%s", (_, path, text, row) => {
    const faults = faultsWith({ [path]: text });
    expect(faults).toEqual([
      expect.stringMatching(`^${path} imports .*, which the map does not allow ${row}$`),
    ]);
  });

  test("a folder that it does not have", () => {
    const map = MAP.replace(/.*`scripts\/`.*\n/, "");
    expect(faultsWith({ "ARCHITECTURE.md": map })).toEqual([
      "the map of ARCHITECTURE.md says nothing of what scripts/image.ts may import",
    ]);
  });

  test.each([
    ["a room", "commands | `protocol/`", "commands | `protocol/`, `embedded/`", "cli import embedded"],
    ["a package", "| zod |", "| zod, yaml |", "protocol import yaml"],
  ])("what it allows in vain is told, too: %s", (_, text, instead, told) => {
    expect(faultsWith({ "ARCHITECTURE.md": MAP.replace(text, instead) })).toContain(
      `the map lets ${told}, and it does not: take that out of ARCHITECTURE.md`,
    );
  });
});

describe("a file is too long", () => {
  test.each([
    ["worker/keys/long.ts", 700],
    ["worker/branch/branch.ts", 150],
    ["worker/pipeline/pipeline.ts", 150],
  ])("%s above %i lines", (path, most) => {
    const text = TREE[path] ?? "";
    const fill = (lines: number) => text + "//\n".repeat(lines - (text.split("\n").length - 1));
    expect(faultsWith({ [path]: fill(most) })).toEqual([]);
    expect(faultsWith({ [path]: fill(most + 1) })).toEqual([
      `${path} has ${most + 1} lines, of at most ${most}`,
    ]);
  });
});

describe("what does not hold yet", () => {
  const circle = { "runner/a/a.ts": 'import "../b/b.ts";\n', "runner/b/b.ts": 'import "../a/a.ts";\n' };
  const long = { "runner/long.ts": "//\n".repeat(701) };

  test("is let through if it is listed", () => {
    expect(faultsWith({ ...circle, ...long }, { tied: ["runner"], long: ["runner/long.ts"] })).toEqual([]);
  });

  test("is let through in the folder that is listed alone", () => {
    const deeper = { "runner/c/a/a.ts": 'import "../b/b.ts";\n', "runner/c/b/b.ts": 'import "../a/a.ts";\n' };
    expect(faultsWith({ ...circle, ...deeper }, { tied: ["runner"] })).toEqual([
      expect.stringContaining("what lies in runner/c imports each other"),
    ]);
  });

  test("goes from the list once it holds", () => {
    expect(faultsWith({}, { tied: ["runner"], long: ["runner/long.ts"] })).toEqual([
      "runner has no circle any more: take it off the list of scripts/check-rooms.ts",
      "runner/long.ts is not too long any more: take it off the list of scripts/check-rooms.ts",
    ]);
  });
});

test("a dynamic import whose path is made up when it runs is refused", () => {
  expect(() => faultsWith({ "cli/main.ts": "await import(process.argv[2]);\n" })).toThrow(
    "cli/main.ts imports what only its run tells",
  );
});

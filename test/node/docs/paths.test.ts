import { existsSync, readdirSync, readFileSync, statSync } from "node:fs";
import { dirname, join } from "node:path";
import { describe, expect, test } from "vitest";
import { ROOT } from "../../support/dev-server.ts";
import { PAGES as READ } from "../../support/pages.ts";

/** What is looked through for what it names: everything but what tools make and what is installed. */
const FOLDERS = [
  "bench",
  "cli",
  "console",
  "deploy",
  "docs",
  "embedded",
  "protocol",
  "runner",
  "scripts",
  "test",
  "worker",
];
/** Folders whose entries are counted, with those below them. */
const ROOMS = ["cli", "console", "embedded", "protocol", "runner", "worker"];
const MOST_ENTRIES = 14;
/** Of ARCHITECTURE.md, and rows of its glossary. */
const MOST_BYTES = 30_000;
const MOST_WORDS = 70;

const ARCHITECTURE = read("ARCHITECTURE.md");
const PAGES = ["ARCHITECTURE.md", ...READ];

describe.each(PAGES)("%s", (page) => {
  test("names paths that are there", () => {
    expect(read(page).split("\n").flatMap(namedPaths).filter(isAbsent)).toEqual([]);
  });

  test("links to files that are there", () => {
    const links = [...read(page).matchAll(/\]\(([^)#:]+)(?:#[^)]*)?\)/g)].map(([, target = ""]) => target);
    expect(links.map((target) => join(dirname(page), target)).filter(isAbsent)).toEqual([]);
  });

  test("links to headings that are there", () => {
    const links = [...read(page).matchAll(/\]\(([^)#:]*)#([^)]+)\)/g)];
    const lost = links.filter(([, target = "", heading = ""]) => {
      const path = target === "" ? page : join(dirname(page), target);
      return isAbsent(path) || !anchorsOf(read(path)).has(heading);
    });
    expect(lost.map(([link]) => link)).toEqual([]);
  });
});

describe("ARCHITECTURE.md", () => {
  test("gives each word of the glossary a file that owns it", () => {
    const owners = rowsOf(ARCHITECTURE, "The words").map((cells) => namedPaths(cells.at(-1) ?? ""));
    expect(owners.length).toBeGreaterThan(30);
    expect(owners.length).toBeLessThanOrEqual(MOST_WORDS);
    for (const owner of owners) expect(owner).toEqual([expect.stringMatching(/\.ts$/)]);
  });

  test("stays a map: it has at most 30,000 bytes", () => {
    expect(Buffer.byteLength(ARCHITECTURE)).toBeLessThanOrEqual(MOST_BYTES);
  });

  test("says why a folder holds more than 14 entries", () => {
    const large = ROOMS.flatMap(withFoldersBelow).flatMap((folder) => {
      const { length } = readdirSync(join(ROOT, folder));
      return length > MOST_ENTRIES ? [`\`${folder}/\` has ${length}, since `] : [];
    });
    expect(large.filter((text) => !ARCHITECTURE.replace(/\s+/g, " ").includes(text))).toEqual([]);
  });
});

test.each([
  "The life of a PUT",
  "The lease's finish and the end of a job",
])("a way on docs/how-it-works.md enters each folder once: %s", (way) => {
  const folders = rowsOf(read("docs/how-it-works.md"), way).map(([folder]) => folder);
  expect(folders.length).toBeGreaterThan(3);
  expect(folders).toEqual([...new Set(folders)]);
});

test("comments refer to no document that is not here", () => {
  const files = FOLDERS.flatMap((folder) =>
    readdirSync(join(ROOT, folder), { recursive: true, encoding: "utf8" }).map((path) => `${folder}/${path}`),
  ).filter((path) => /\.(tsx?|md|js|sh|sql|css|html|ya?ml)$/.test(path) && !path.includes("/node_modules/"));
  const lines = [...PAGES.slice(0, 2), ...files].flatMap((path) =>
    read(path)
      .split("\n")
      .flatMap((line, index) => (refersElsewhere(line) ? [`${path}:${index + 1}: ${line.trim()}`] : [])),
  );
  expect(lines).toEqual([]);
});

/** A section sign is of an RFC, which everybody can read, or of something that nobody can. */
function refersElsewhere(line: string): boolean {
  return line.replace(/RFC \d+ \u00a7/g, "").includes("\u00a7");
}

function read(path: string): string {
  return readFileSync(join(ROOT, path), "utf8");
}

function isAbsent(path: string): boolean {
  return !existsSync(join(ROOT, path));
}

/** The paths that a line names in backticks. A bare name is in the folder that was named before it. */
function namedPaths(line: string): string[] {
  let folder = "";
  return [...line.matchAll(/`([^`]+)`/g)].flatMap(([, code = ""]) => {
    if (/^[a-z0-9-]+\.(ts|sh)$/.test(code)) return [join(folder, code)];
    if (!/^[a-z]+\/[\w./{},-]*$/.test(code)) return [];
    if (isAbsent(code.replace(/\/.*$/, ""))) return folder === "" ? [] : [join(folder, code)];
    folder = code.endsWith("/") ? code : dirname(code);
    return withoutBraces(code);
  });
}

/** `a/{b,c}` is `a/b` and `a/c`. */
function withoutBraces(path: string): string[] {
  const [, before = "", names = "", after = ""] = /^(.*)\{(.*)\}(.*)$/.exec(path) ?? [];
  return names === "" ? [path] : names.split(",").map((name) => before + name + after);
}

/** What a page's headings are linked by, as GitHub makes it of their words. */
function anchorsOf(page: string): Set<string> {
  const headings = [...page.matchAll(/^#{1,6} (.*)$/gm)].map(([, heading = ""]) => heading);
  return new Set(
    headings.map((text) =>
      text
        .toLowerCase()
        .replace(/[^\p{L}\p{N} _-]/gu, "")
        .replaceAll(" ", "-"),
    ),
  );
}

/** The cells of each row of a section's first table, but for its head. */
function rowsOf(page: string, heading: string): string[][] {
  const section = page.split(/^## /m).find((text) => text.startsWith(`${heading}\n`)) ?? "";
  const rows = section.split("\n").filter((line) => line.startsWith("|"));
  return rows.slice(2).map((row) =>
    row
      .split(/(?<!\\)\|/)
      .slice(1, -1)
      .map((cell) => cell.trim()),
  );
}

function withFoldersBelow(folder: string): string[] {
  const names = readdirSync(join(ROOT, folder)).map((name) => `${folder}/${name}`);
  return [
    folder,
    ...names.filter((path) => statSync(join(ROOT, path)).isDirectory()).flatMap(withFoldersBelow),
  ];
}

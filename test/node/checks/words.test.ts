import { mkdirSync, writeFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { describe, expect, test } from "vitest";
import { faultsOf, RETIRED } from "../../../scripts/check-words.ts";
import { scratchFolder } from "../../support/scratch.ts";

type Kept = Parameters<typeof faultsOf>[1];

const FOLDERS =
  "bench cli console deploy docs embedded migrations protocol runner schema scripts worker".split(" ");

/** A tree without a fault. */
const TREE: Readonly<Record<string, string>> = {
  ...Object.fromEntries(FOLDERS.map((folder) => [`${folder}/plain.ts`, "export const plain = 1;\n"])),
  "ARCHITECTURE.md": "# The map\n",
  "CHANGELOG.md": "# Changes\n",
  "README.md": "# Sluice\n",
};

/** A word that was given up, a file, and a line in which it has the old sense. */
const IN_THE_OLD_SENSE: readonly [string, string, string][] = [
  ["bell", "worker/branch/a.ts", "// A bell for each subscriber."],
  ["bell", "worker/a.ts", "const nextBell = 1;"],
  ["bell", "worker/a.sql", "CREATE TABLE bells_due (n INTEGER);"],
  ["bell", "README.md", "After it, the bell."],
  ["ring", "worker/pipeline/a.ts", "memory.rings++;"],
  ["courier", "worker/a.ts", 'import { Courier } from "./b.ts";'],
  ["told", "worker/branch/a.ts", "if (!(await this.#isTold())) return;"],
  ["told", "worker/pipeline/a.ts", "told INTEGER NOT NULL"],
  ["lent", "docs/a.md", "A content that is lent."],
  ["lent", "worker/erase.ts", "readonly lentTo: string;"],
  ["pin", "worker/a.ts", "CREATE TABLE pins (n INTEGER);"],
  ["pin", "protocol/a.ts", "pinnedFor: z.string(),"],
  ["hollow", "worker/a.ts", "const HOLLOW = 2;"],
  ["single", "docs/a.md", "a single commit with what names it"],
  ["floor", "worker/branch/a.ts", "const askedFloor = 1;"],
  ["need", "worker/branch/a.ts", "ledger.subscribers.needs()"],
  ["need", "worker/pipeline/a.ts", "function of(need: Need): void {}"],
  ["judged", "worker/branch/a.ts", "judged TEXT,"],
  ["note of a commit", "worker/s3/a.ts", "export function readNote(): CommitNote {"],
  ["note of a commit", "docs/a.md", "**The note of a commit** is a message."],
  ["note of a commit", "cli/a.ts", "interface Options extends NoteOptions {"],
  ["note of a secret", "runner/secrets/a.ts", "// The note beside the secret."],
  ["round", "worker/branch/settings/a.ts", "class RoundStore {"],
  ["condemned", "worker/a.ts", "contents.condemn(gone);"],
  ["collector", "worker/branch/a.ts", "// The collector deletes it."],
  ["retainer", "worker/a.ts", "new Retainer()"],
  ["sweeper", "runner/a.ts", "the sweeper"],
  ["tidy", "worker/a.ts", "function nextTidy() {}"],
  ["border", "runner/tasks/a.ts", "withinBorder(work)"],
  ["crew", "runner/a.ts", "const crew = [];"],
  ["resident", "runner/a.ts", "const residents = 1;"],
  ["place", "runner/a.ts", "new RunPlaces(4)"],
  ["look", "worker/pipeline/a.ts", "readonly look?: true;"],
  ["what had to be read twice", "console/a.ts", "<button>Leave it</button>"],
];

function faultsWith(changes: Readonly<Record<string, string>>, kept: Kept = []): string[] {
  const root = scratchFolder();
  for (const [path, text] of Object.entries({ ...TREE, ...changes })) {
    mkdirSync(dirname(join(root, path)), { recursive: true });
    writeFileSync(join(root, path), text);
  }
  return faultsOf(root, kept);
}

test("a tree without a retired word has no fault", () => {
  expect(faultsWith({})).toEqual([]);
});

describe("a retired word is found", () => {
  test.each(IN_THE_OLD_SENSE)("%s in %s: %s", (word, file, text) => {
    const [fault = "", ...more] = faultsWith({ [file]: `first\n${text}\n` });
    expect(fault).toMatch(new RegExp(`^${file}:2: "${word}" was given up for ".+": ${escaped(text)}$`));
    expect(more).toEqual([]);
  });

  test("in the name of a file", () => {
    expect(faultsWith({ "worker/branch/courier.ts": "" })).toEqual([
      'worker/branch/courier.ts: "courier" was given up for "outbox dispatcher": the name of the file',
    ]);
  });

  test("in a line of this test, each one of the list", () => {
    const tried = new Set(IN_THE_OLD_SENSE.map(([word]) => word));
    expect(RETIRED.filter(({ word }) => !tried.has(word))).toEqual([]);
  });
});

describe("another sense is none of them", () => {
  test.each([
    ["worker/branch/a.ts", "const at = Math.floor(Math.round(2.5));"],
    ["worker/branch/a.ts", "// What it needs it asks for, and a commit needs that: so they need it."],
    ["worker/branch/a.ts", "// The alarm rang: the caller is told of it."],
    ["worker/a.ts", "const keyRing = 1;"],
    ["worker/s3/a.ts", "// A single range, whose conditions are judged in order."],
    ["worker/pipeline/a.ts", "attempts.note(attempt);"],
    ["cli/a.ts", 'printNote("the terminal is lent"); // it looks again in a place'],
    ["console/a.ts", 'const style = { border: "1px" };'],
    ["bench/a.ts", "// The resident memory of a process."],
    ["runner/cache/a.ts", "// A file that may be hollow."],
    ["docs/a.md", "`bell` is a column, and `worker/branch/courier.ts` a file."],
    ["docs/a.md", 'It is so. [test:\ntest/worker/lent.test.ts "rings\nthe bell"] And so on.'],
    ["docs/conformance.md", "| the bell | passes |"],
  ])("%s: %s", (file, text) => {
    expect(faultsWith({ [file]: `${text}\n` })).toEqual([]);
  });
});

describe("the list of formats lets through", () => {
  const bell = { "worker/branch/deep/a.ts": "the bell\n" };

  test("the word in the file that it names, and no other word or file", () => {
    const kept = [{ file: "worker/branch/deep/a.ts", word: "bell", why: "a format" }];
    expect(faultsWith(bell, kept)).toEqual([]);
    expect(faultsWith({ ...bell, "worker/branch/deep/b.ts": "the bell\n" }, kept)).toHaveLength(1);
    expect(faultsWith({ "worker/branch/deep/a.ts": "the bell of the courier\n" }, kept)).toHaveLength(1);
  });

  test("nothing once the word is gone: the entry is a fault then", () => {
    const kept = [{ file: "worker/a.ts", word: "bell", why: "a format" }];
    expect(faultsWith({}, kept)).toEqual([
      'worker/a.ts has no "bell" any more: take it off the list of scripts/check-words.ts',
    ]);
  });
});

function escaped(text: string): string {
  return text.replace(/[.*+?^${}()|[\]\\]/g, "\\$&");
}

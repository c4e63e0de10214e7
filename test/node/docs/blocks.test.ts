import { existsSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, test } from "vitest";
import { ROOT } from "../../support/dev-server.ts";
import { type Block, blocksOf, blocksOfPage, isRun, NOT_RUN, PAGES } from "../../support/pages.ts";

/** What is shown and not typed. */
const SHOWN = ["", "dockerfile", "ini", "json", "sql", "text", "xml", "yaml"];

describe.each(PAGES)("%s", (page) => {
  const blocks = blocksOfPage(page);

  test("has every block of commands run, or says what keeps it from that", () => {
    expect(blocks.filter(isUnaccounted).map(({ line }) => `${page}:${line}`)).toEqual([]);
  });

  test("leaves to .ci/run only what that runs", () => {
    const script = readFileSync(join(ROOT, ".ci/run"), "utf8").split("\n");
    const commands = blocks.filter(({ marks }) => marks.includes("ci")).flatMap(commandsIn);
    expect(commands.filter((command) => !script.some((line) => line.startsWith(command)))).toEqual([]);
  });

  test("shows what a block prints only behind one that is run, or that .ci/run or a test runs", () => {
    const loose = blocks.filter(({ language }, index) => {
      const before = blocks[index - 1];
      return language === "output" && (before === undefined || !(isRun(before) || isRunElsewhere(before)));
    });
    expect(loose.map(({ line }) => `${page}:${line}`)).toEqual([]);
  });
});

test("what the README tells of the image is what its test runs on docs/image.md", () => {
  const isOfImage = ({ marks }: Block): boolean => marks.includes("test=test/node/deploy/image.test.ts");
  const texts = blocksOfPage("docs/image.md")
    .filter(isOfImage)
    .map(({ text }) => text);
  const shown = blocksOfPage("README.md")
    .filter(isOfImage)
    .map(({ text }) => text);
  expect(shown.length).toBeGreaterThan(0);
  expect(shown.filter((text) => !texts.includes(text))).toEqual([]);
});

describe("the blocks of a page", () => {
  test("are those between fences, with what stands behind the opening one", () => {
    const page = "a\n```sh account\nb\n```\n```\nc\n\n```\nd ``` e\n````md\n```sh\n```\n````\n";
    expect(blocksOf(page)).toEqual([
      { line: 2, language: "sh", marks: ["account"], text: "b\n" },
      { line: 5, language: "", marks: [], text: "c\n\n" },
      { line: 10, language: "md", marks: [], text: "```sh\n```\n" },
    ]);
  });

  test.each([
    ["sh", false],
    ["sh fails", false],
    ["sh account", false],
    ["sh acount", true],
    ["sh account maybe", true],
    ["sh test=test/node/docs/blocks.test.ts", false],
    ["sh test=test/node/docs/no-such.test.ts", true],
    ["sh test=package.json", true],
    ["bash", true],
    ["python account", true],
    ["json", false],
  ])("%j are unaccounted for: %s", (info, unaccounted) => {
    expect(blocksOf(`\`\`\`${info}\n\`\`\`\n`).map(isUnaccounted)).toEqual([unaccounted]);
  });
});

/** Whether a block is neither run nor marked as one that is not. */
function isUnaccounted(block: Block): boolean {
  const { language, marks } = block;
  if (language === "output" || SHOWN.includes(language)) return marks.length > 0;
  if (isRun(block)) return false;
  const [mark = "", ...more] = marks;
  if (language !== "sh" || more.length > 0) return true;
  if (mark === "terminal") return !["sluice dev"].includes(block.text.trim());
  return !(mark in NOT_RUN || isTestOf(mark));
}

function isRunElsewhere({ marks: [mark = ""] }: Block): boolean {
  return mark === "ci" || isTestOf(mark);
}

/** `test=<file>`, with a test file that is there. */
function isTestOf(mark: string): boolean {
  const [, file] = /^test=(test\/.*\.test\.ts)$/.exec(mark) ?? [];
  return file !== undefined && existsSync(join(ROOT, file));
}

function commandsIn({ text }: Block): string[] {
  return text
    .split(/\n|&&/)
    .map((line) => line.replace(/#.*$/, "").trim())
    .filter((line) => line !== "");
}

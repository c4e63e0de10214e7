import { readFileSync } from "node:fs";
import { join } from "node:path";
import { ROOT } from "../support/dev-server.ts";
import { type Recorded, type Refusal, readRecord } from "./record.ts";
import type { Suite } from "./suite.ts";
import { SUITES } from "./suites.ts";

export const CONFORMANCE_PAGE = "docs/conformance.md";

/** Where what is refused is said. */
const CONTRACT = ["contract.md", "limits.md", "s3-clients.md"];
const WIDTH = 125;

/** The page, of what is recorded. */
export function conformancePage(): string {
  const all = SUITES.map((suite) => ({ suite, recorded: readRecord(suite.name) }));
  return [
    "# Conformance",
    "",
    "Tests that others wrote for S3 and for what speaks like it, and what each comes to here. It *passes*, or what it asks for is",
    "*refused by design*, with the sentence of our pages that says so; or with S3's own page, if the test wants something else than that.",
    "There is no third kind. The suites run daily: the run fails if a test that passes here fails, if one that is refused passes, and if",
    "a test is missing. `npm run conformance` makes this page of the files `recorded.yaml` under `test/conformance/`.",
    "",
    "| suite | tests | pass | refused by design |",
    "|---|---|---|---|",
    ...all.map(({ suite, recorded }) => summary(suite, recorded)),
    "",
    ...all.flatMap(({ suite, recorded }) => section(suite, recorded)),
  ].join("\n");
}

function summary({ title }: Suite, recorded: Recorded): string {
  const passes = recorded.passes.length;
  const refused = refusedOf(recorded);
  return `| [${title}](#${anchorOf(title)}) | ${passes + refused} | ${passes} | ${refused} |`;
}

function section({ title, about }: Suite, recorded: Recorded): string[] {
  const { passes, refused } = recorded;
  return [
    `## ${title}`,
    "",
    ...wrapped(about.split(" ")),
    "",
    ...refused.flatMap((refusal) => [...refusalText(refusal), ""]),
    `**Passes** (${passes.length}).`,
    "",
    ...names(passes),
    "",
  ];
}

function refusalText({ why, contract, s3, tests }: Refusal): string[] {
  const source = [
    ...(contract === undefined ? [] : [quoted(contract)]),
    ...(s3 === undefined ? [] : [`[S3](${s3})`]),
  ];
  return [
    ...wrapped(`**Refused** (${tests.length}): ${why} ${source.join("; ")}`.split(" ")),
    "",
    ...names(tests),
  ];
}

function quoted(sentence: string): string {
  const { page, heading } = placeOf(sentence);
  return `[${page.replace(".md", "")}](${page}#${anchorOf(heading)}): "${sentence}"`;
}

function refusedOf({ refused }: Recorded): number {
  return refused.reduce((sum, { tests }) => sum + tests.length, 0);
}

function names(tests: readonly string[]): string[] {
  return wrapped(tests.map((test, index) => `\`${test}\`${index + 1 < tests.length ? "," : ""}`));
}

function wrapped(words: readonly string[]): string[] {
  const lines: string[] = [];
  for (const word of words) {
    const line = lines.at(-1);
    if (line === undefined || line.length + 1 + word.length > WIDTH) lines.push(word);
    else lines[lines.length - 1] = `${line} ${word}`;
  }
  return lines;
}

interface Place {
  readonly page: string;
  readonly heading: string;
}

/** Where a sentence stands under docs/. A sentence that is on none of the pages is a fault of the record. */
export function placeOf(sentence: string): Place {
  for (const page of CONTRACT) {
    const lines = readFileSync(join(ROOT, "docs", page), "utf8").split("\n");
    let heading = "";
    const sections: { heading: string; text: string }[] = [];
    for (const line of lines) {
      const [, found] = /^#{1,6} (.*)$/.exec(line) ?? [];
      if (found !== undefined) heading = found;
      const section = sections.at(-1);
      if (section?.heading === heading) section.text += ` ${line.trim()}`;
      else sections.push({ heading, text: line.trim() });
    }
    const place = sections.find(({ text }) => text.replace(/\s+/g, " ").includes(sentence));
    if (place) return { page, heading: place.heading };
  }
  throw new Error(`none of ${CONTRACT.map((page) => `docs/${page}`).join(", ")} says: ${sentence}`);
}

/** What a heading is linked by. */
function anchorOf(heading: string): string {
  return heading
    .toLowerCase()
    .replace(/[^\p{L}\p{N} _-]/gu, "")
    .replaceAll(" ", "-");
}

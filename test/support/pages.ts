import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { ROOT } from "./dev-server.ts";

/** What people read: the README and the pages under docs/. */
export const PAGES: readonly string[] = [
  "README.md",
  ...readdirSync(join(ROOT, "docs"))
    .filter((name) => name.endsWith(".md"))
    .map((name) => `docs/${name}`),
];

/** A fenced block of a page. */
export interface Block {
  /** The line of its opening fence, from 1 on. */
  readonly line: number;
  /** The first word behind the fence, "" if there is none, such as `sh`. */
  readonly language: string;
  /** The other words behind it: why it is not run where it stands, or how. */
  readonly marks: readonly string[];
  readonly text: string;
}

/** What keeps a block of shell from being run where it stands, beside `test=<file>`, which names the test that runs it. */
export const NOT_RUN = {
  account: "needs an account somewhere",
  cluster: "needs a Kubernetes cluster",
  systemd: "sets up a node as root",
  registry: "pulls an image from a public registry",
  terminal: "goes on in a terminal of its own",
  ci: "is run by .ci/run",
} as const;

/** The blocks of a page, in their order. A fence that is not closed ends with the page. */
export function blocksOf(markdown: string): Block[] {
  const blocks: Block[] = [];
  const lines = markdown.split("\n");
  for (let index = 0; index < lines.length; index++) {
    const [, fence, info = ""] = /^(`{3,}) *([^`]*)$/.exec(lines[index] ?? "") ?? [];
    if (fence === undefined) continue;
    const [language = "", ...marks] = info.trim().split(/ +/);
    const line = index + 1;
    const body: string[] = [];
    for (index++; index < lines.length && lines[index] !== fence; index++) body.push(`${lines[index]}\n`);
    blocks.push({ line, language, marks, text: body.join("") });
  }
  return blocks;
}

/** The blocks of a page of this repository. */
export function blocksOfPage(page: string): Block[] {
  return blocksOf(readFileSync(join(ROOT, page), "utf8"));
}

/** Whether a block is typed as it stands, where it stands. */
export function isRun({ language, marks }: Block): boolean {
  if (language === "python") return marks.length === 0;
  return language === "sh" && marks.every((mark) => mark === "fails");
}

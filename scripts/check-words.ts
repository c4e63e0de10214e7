import { readdirSync, readFileSync, statSync } from "node:fs";
import { join } from "node:path";
import { CODE, isIn } from "./check-rooms.ts";

/**
 * Holds code, tables, log lines and pages to one word a concept, which is the field's. The glossary of ARCHITECTURE.md has
 * the words that are used; here are those that were given up.
 *
 * A line is read with its identifiers taken apart: `bellRings` and `bell_rings` are "bell Rings" and "bell rings". The path of a
 * file is read as well. On pages, code in backticks and the names of tests are passed over: they say what stands elsewhere.
 */
const FOLDERS = [...CODE, "bench", "deploy", "docs", "migrations", "schema"];
const PAGES = ["ARCHITECTURE.md", "CHANGELOG.md", "README.md"];
const TEXTS = /\.(tsx?|js|json|md|sh|sql|ya?ml)$/;
/** This list itself, what a tool makes of the bindings, and the titles of other people's tests. */
const PASSED_OVER = ["scripts/check-words.ts", "worker/worker-configuration.d.ts", "docs/conformance.md"];

interface Retired {
  word: string;
  /** What is written instead. */
  instead: string;
  /** The old sense, and no other. */
  found: RegExp;
  /** Folders and files in which the word had that sense. Absent: everywhere. */
  within?: readonly string[];
}

const OBJECTS = ["worker/branch", "worker/pipeline"];

export const RETIRED: readonly Retired[] = [
  { word: "bell", instead: "wake-up", found: /\bbells?\b/i },
  { word: "ring", instead: "wake", found: /\b(doorbells?|rings|rung)\b/i, within: OBJECTS },
  { word: "courier", instead: "outbox dispatcher", found: /\bcouriers?\b/i },
  {
    word: "told",
    instead: "acknowledged",
    found: /\b(is|has|set|forget) Told\b|\b[uU]ntold\b|\btold (INTEGER|TEXT)\b|\bSET told =/,
    within: OBJECTS,
  },
  { word: "lent", instead: "on loan", found: /\blent\b/i, within: ["docs", "protocol", "worker"] },
  {
    word: "pin",
    instead: "hold of a fork",
    found: /\bpin(s|ned)?\b/i,
    within: ["cli", "protocol", "worker"],
  },
  {
    word: "hollow",
    instead: "placeholder",
    found: /\bhollow\b/i,
    within: ["cli", "docs", "protocol", "worker"],
  },
  { word: "single", instead: "retained by name", found: /\bsingle (commits?|ones)\b|\bsingles\b/i },
  {
    word: "floor",
    instead: "retention horizon",
    found: /(?<!Math\.)\bfloors?\b/i,
    within: ["docs", "worker/branch"],
  },
  {
    word: "need",
    instead: "low-water mark",
    found:
      /[.#]needs?\b|\(needs?\)|\bneeds? = |\bneed\.\w|\bNeed\b(?! [a-z])|\b(needed From|tell Needs|needs Due|need Of)\b/,
    within: [...OBJECTS, "docs"],
  },
  { word: "judged", instead: "precondition", found: /\bjudged\b/i, within: ["worker/branch"] },
  {
    word: "note of a commit",
    instead: "annotation",
    found: /\bnotes?\b/i,
    within: ["protocol", "worker/api", "worker/branch", "worker/erase.ts", "worker/s3"],
  },
  {
    word: "note of a commit",
    instead: "annotation",
    found:
      /\bcommits?'? notes?\b|\bnotes? of (a|an|each|its|the|their) (open )?commits?\b|\b(said|with) note\b|\bnote (lines|options)\b/i,
  },
  { word: "note of a secret", instead: "scope", found: /\bnotes?\b/i, within: ["runner/secrets"] },
  {
    word: "round",
    instead: "lifecycle scan",
    found: /(?<!Math\.)\brounds?\b/i,
    within: [
      "worker/branch/ledger",
      "worker/branch/settings",
      "worker/branch/work/lifecycle-scan",
      "worker/branch/write",
      "worker/core/lifecycle-rules.ts",
      "worker/objects/rewrite.ts",
    ],
  },
  { word: "condemned", instead: "pending deletion", found: /\bcondemn(s|ed)?\b/i },
  { word: "collector", instead: "blob reaper", found: /\bcollectors?\b/i, within: ["docs", "worker/branch"] },
  { word: "retainer", instead: "history GC", found: /\bretainers?\b/i, within: ["docs", "worker"] },
  { word: "sweeper", instead: "orphan scan", found: /\bsweepers?\b/i },
  { word: "tidy", instead: "housekeeping", found: /\b(tidy|tidies|tidied)\b/i, within: ["docs", "worker"] },
  { word: "border", instead: "egress network policy", found: /\bborders?\b/i, within: ["docs", "runner"] },
  { word: "crew", instead: "worker pool", found: /\bcrews?\b/i },
  { word: "resident", instead: "in-container init", found: /\bresidents?\b/i, within: ["docs", "runner"] },
  { word: "place", instead: "run permit", found: /\brun places\b|\bplaces? (to|for) run(ning)?\b/i },
  {
    word: "look",
    instead: "peek",
    found: /\blook\b(?=[,:?]| [}=])/,
    within: ["protocol/runner.ts", "runner/worker", "worker/api/runner.ts", "worker/pipeline"],
  },
  {
    word: "what had to be read twice",
    instead: "plain words",
    found:
      /What it brought|>Leave it<|Name holds|datums were worked out|Nothing of it goes by itself|These bytes are no text/,
    within: ["console"],
  },
];

interface Exception {
  file: string;
  word: string;
  why: string;
}

/** Formats that keep a name for good. An entry that is no longer needed is a fault. */
const KEPT: readonly Exception[] = [
  { file: "protocol/repos.ts", word: "condemned", why: "a field of GET /repos/{repo}/usage" },
  { file: "cli/commands/repo/repo.ts", word: "condemned", why: "reads that field and shows it as a column" },
  { file: "worker/branch/contract/admin.ts", word: "condemned", why: "that field, as a branch answers it" },
  { file: "worker/branch/read/usage.ts", word: "condemned", why: "writes that field" },
  {
    file: "protocol/repos.ts",
    word: "pin",
    why: "fields of GET /repos/{repo}/usage and of the faults of fsck",
  },
  { file: "cli/commands/repo/repo.ts", word: "pin", why: "reads that field" },
  { file: "cli/commands/service/fsck.ts", word: "pin", why: "reads that field" },
  { file: "worker/api/admin/fsck.ts", word: "pin", why: "writes that field" },
  { file: "worker/branch/calls/archives.ts", word: "floor", why: "a field of an archive" },
  { file: "worker/branch/contract/archives.ts", word: "floor", why: "a field of an archive" },
  { file: "worker/api/repos/usage.ts", word: "pin", why: "writes that field" },
];

if (import.meta.main) {
  const faults = faultsOf(join(import.meta.dirname, ".."), KEPT);
  for (const fault of faults) console.log(fault);
  if (faults.length > 0) process.exitCode = 1;
}

interface Found {
  file: string;
  /** From 1 on; 0 is the path. */
  line: number;
  retired: Retired;
  text: string;
}

/** Where the tree at `root` has a word that was given up, and entries of the list that let nothing through. */
export function faultsOf(root: string, kept: readonly Exception[]): string[] {
  const all = filesOf(root).flatMap((file) => wordsIn(file, readFileSync(join(root, file), "utf8")));
  const used = new Set<Exception>();
  const left = all.filter(({ file, retired: { word } }) => {
    const covering = kept.filter((entry) => entry.word === word && entry.file === file);
    for (const entry of covering) used.add(entry);
    return covering.length === 0;
  });
  return [
    ...left.map(({ file, line, retired: { word, instead }, text }) => {
      const where = line === 0 ? file : `${file}:${line}`;
      return `${where}: "${word}" was given up for "${instead}": ${text.trim()}`;
    }),
    ...kept
      .filter((entry) => !used.has(entry))
      .map(
        ({ file, word }) =>
          `${file} has no "${word}" any more: take it off the list of scripts/check-words.ts`,
      ),
  ];
}

function filesOf(root: string): string[] {
  const below = FOLDERS.flatMap((folder) =>
    readdirSync(join(root, folder), { recursive: true, encoding: "utf8" }).map((path) => `${folder}/${path}`),
  );
  return [...PAGES, ...below]
    .filter((file) => TEXTS.test(file) && !PASSED_OVER.includes(file))
    .filter((file) => statSync(join(root, file)).isFile());
}

function wordsIn(file: string, whole: string): Found[] {
  const lists = RETIRED.filter(({ within }) => within?.some((path) => isIn(file, path)) ?? true);
  const lines = (file.endsWith(".md") ? proseOf(whole) : whole).split("\n");
  return [file, ...lines].flatMap((text, line) => {
    const apart = text.replace(/([a-z0-9])(?=[A-Z])/g, "$1 ").replaceAll("_", " ");
    const retired = new Map(lists.filter(({ found }) => found.test(apart)).map((one) => [one.word, one]));
    return [...retired.values()].map((of) => ({
      file,
      line,
      retired: of,
      text: line === 0 ? "the name of the file" : text,
    }));
  });
}

/** A page without what it quotes, line by line. */
function proseOf(page: string): string {
  const blank = (quoted: string) => quoted.replace(/[^\n]+/g, " ");
  return page.replace(/\[test:\s[^\]]*\]/g, blank).replace(/`[^`\n]*`/g, blank);
}

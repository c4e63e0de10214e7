import { spawnSync } from "node:child_process";
import { chmodSync, mkdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { findTool } from "../../../../runner/lib/system-calls.ts";
import { ROOT } from "../../../support/dev-server.ts";
import { scratchFolder } from "../../../support/scratch.ts";

/*
 * Programs of this repository that are started as a user without privileges. Such a user enters neither a clone in `/root`
 * nor a Node that is there. What the programs need is then bound to a folder that everybody enters, in a mount
 * namespace of theirs.
 */

/** What agents of the tests read: folders, and what tells Node that they are modules. */
const FOLDERS = ["node_modules", "protocol", "runner", "test"];
const FILES = ["package.json"];

/** Any user but root. */
const USER = ["--reuid=65534", "--clear-groups"];

const place = await findPlace();

/** Whether tests can start programs as another user. If not, why not: their names say it. */
export const nobody = {
  absent: typeof place === "string",
  /** For the name of a test: empty, if there is nothing to say. */
  why: typeof place === "string" ? ` (skipped: ${place})` : "",
};

/** The words that start a program by setpriv(1), with its options. Paths of this clone among the words, and Node's, are those that the user reaches. */
export function withoutPrivileges(options: readonly string[], words: readonly string[]): string[] {
  if (typeof place === "string") throw new Error(place);
  return [...place.before, "setpriv", ...options, ...words.map(place.seen)];
}

interface Place {
  /** What comes before setpriv. */
  readonly before: readonly string[];
  /** A word, with paths as the user reaches them. */
  seen(word: string): string;
}

async function findPlace(): Promise<Place | string> {
  if (process.getuid?.() !== 0) return "it takes root";
  if ((await findTool("setpriv")) === undefined) return "it takes setpriv";
  const plain: Place = { before: [], seen: (word) => word };
  if (isReached(plain)) return plain;
  const bound = boundPlace();
  if (isReached(bound)) return bound;
  return `other users reach neither ${ROOT} nor ${process.execPath}, and no mount namespace can be made here`;
}

function boundPlace(): Place {
  const base = scratchFolder();
  chmodSync(base, 0o755);
  const [clone, node] = [join(base, "clone"), join(base, "node")];
  for (const folder of FOLDERS) mkdirSync(join(clone, folder), { recursive: true });
  for (const file of [...FILES.map((name) => join(clone, name)), node]) writeFileSync(file, "");
  const script = [
    "set -e",
    'base=$1 root=$2 node=$3; shift 3; mount --bind "$node" "$base/node"',
    `for name in ${[...FOLDERS, ...FILES].join(" ")}; do mount --bind "$root/$name" "$base/clone/$name"; done`,
    'cd "$base/clone"; exec "$@"',
  ].join("\n");
  return {
    before: ["unshare", "--mount", "sh", "-c", script, "sh", base, ROOT, process.execPath],
    seen: (word) => (word === process.execPath ? node : word.replaceAll(`${ROOT}/`, `${clone}/`)),
  };
}

function isReached({ before, seen }: Place): boolean {
  const files = [
    join(ROOT, "package.json"),
    join(ROOT, "runner/main.ts"),
    join(ROOT, "node_modules/zod/package.json"),
  ];
  const script = 'node=$1; shift; test -x "$node" || exit; for file; do test -r "$file" || exit; done';
  const words = [
    ...before,
    "setpriv",
    ...USER,
    "sh",
    "-c",
    script,
    "sh",
    ...[process.execPath, ...files].map(seen),
  ];
  return spawnSync(words[0] ?? "", words.slice(1)).status === 0;
}

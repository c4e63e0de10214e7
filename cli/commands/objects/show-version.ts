import type { ListedVersion } from "../../gateway/answers.ts";
import { printJson, printLine, showSize, showTime } from "../../output/output.ts";

/** Prints a version of a file, or its deletion: when, how large, which, and whether nothing came after it. */
export function printVersion(
  version: ListedVersion,
  { json, human }: { readonly json?: true; readonly human?: true },
): void {
  if (json) {
    printJson(version);
    return;
  }
  const { path, kind, size = 0, modifiedAt } = version;
  const bytes = human ? showSize(size) : String(size);
  const what = (kind === "deletion" ? "deleted" : bytes).padStart(13);
  const current = version.current ? "current" : "       ";
  printLine(`${showTime(Date.parse(modifiedAt))}  ${what}  ${version.version}  ${current}  ${path}`);
}

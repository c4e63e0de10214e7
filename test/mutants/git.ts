import { spawnSync } from "node:child_process";

/** What git says of a repository, whoever its folder belongs to; undefined if it can't say. */
export function git(root: string, given: readonly string[]): string | undefined {
  const { status, stdout } = spawnSync("git", ["-c", `safe.directory=${root}`, ...given], {
    cwd: root,
    encoding: "utf8",
    maxBuffer: 2 ** 26,
  });
  return status === 0 ? stdout : undefined;
}

import { run } from "../support/processes.ts";

/**
 * Steps of a command-line client: a few shell lines each, which do something and look at what came of it. Each has a folder
 * and a bucket of its own, so that one that fails takes no other with it.
 *
 * - `$B` is the bucket, as the client names it, and `$BUCKET` its name at the gateway. It is there and empty.
 * - `$F` is a folder that is only read: `a.txt`, `b.txt`, `empty`, `tree/` of three files, `large.bin` that goes in parts.
 * - `fails`, `is`, `has` and `hasnt` are what steps look with. A step passes if its last line is reached.
 */
export interface Step {
  readonly name: string;
  readonly script: string;
}

/** In front of the lines of each step. */
export const PREAMBLE = `set -euo pipefail
fails() { if "$@"; then echo "went through: $*"; return 1; fi; }
is() { [ "$1" = "$2" ] || { printf 'got <%s>, not <%s>\\n' "$1" "$2"; return 1; }; }
has() { local all; all=$(cat); case "$all" in *"$1"*) ;; *) printf '<%s> is not in:\\n%s\\n' "$1" "$all"; return 1 ;; esac; }
hasnt() { local all; all=$(cat); case "$all" in *"$1"*) printf '<%s> is in:\\n%s\\n' "$1" "$all"; return 1 ;; esac; }
`;

/** The first of these programs that is not here. */
export async function lacksCommands(...names: readonly string[]): Promise<string | undefined> {
  for (const name of names) {
    const { code } = await run(["sh", "-c", 'command -v "$1"', "sh", name]);
    if (code !== 0) return name;
  }
  return undefined;
}

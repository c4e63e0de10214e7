import { createHash } from "node:crypto";
import type { ContentId } from "../../protocol/content.ts";
import { afterDirectory } from "./rows.ts";
import type { Paths } from "./tree.ts";

const PAGE_ROWS = 1000;

/**
 * One digest over everything under a directory ("" is the root): the SHA-256 of its paths, digests and sizes in
 * path order; the size is that of all its files. Null where nothing is under it. Costs what is under it.
 */
export function fingerprintAt(paths: Paths, directory: string): ContentId | null {
  const prefix = directory === "" ? "" : `${directory}/`;
  const end = prefix === "" ? null : afterDirectory(prefix);
  const hash = createHash("sha256");
  let size = 0;
  let entries = 0;
  let from = prefix;
  for (;;) {
    const rows = paths.page({ from, end }, PAGE_ROWS);
    for (const row of rows) {
      hash.update(new TextEncoder().encode(`${row.path}\n${row.digest}-${row.size}\n`));
      size += row.size;
      entries += 1;
    }
    const last = rows.at(-1);
    if (!last || rows.length < PAGE_ROWS) break;
    // No path holds a control character: this is the least text behind it.
    from = `${last.path}\u0001`;
  }
  return entries === 0 ? null : { digest: hash.digest("hex"), size };
}

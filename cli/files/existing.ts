import type { ListedFile } from "../gateway/answers.ts";
import type { Client } from "../gateway/client.ts";
import { listPage } from "../gateway/objects.ts";

/**
 * What a bucket has at these paths, by path. Asks for pages of the listing and leaves out the stretches between them in which
 * nothing is wanted, so that a few paths in a bucket of millions cost a few pages.
 */
export async function existingFiles(
  client: Client,
  { bucket, paths }: { bucket: string; paths: readonly string[] },
): Promise<Map<string, ListedFile>> {
  const found = new Map<string, ListedFile>();
  const wanted = new Set(paths);
  let left = [...wanted].toSorted(byBytes);
  let startAfter: string | undefined = before(left[0] ?? "");
  let token: string | undefined;
  while (left.length > 0) {
    const page = await listPage(client, { bucket, prefix: "", startAfter, token });
    for (const file of page.files) if (wanted.has(file.path)) found.set(file.path, file);
    if (page.next === undefined) break;
    const last = page.files.at(-1)?.path;
    left = last === undefined ? left : left.filter((path) => byBytes(path, last) > 0);
    const next = before(left[0] ?? "");
    const leaps = last !== undefined && byBytes(next, last) > 0;
    [startAfter, token] = leaps ? [next, undefined] : [undefined, page.next];
  }
  return found;
}

/** The order of listings: by the bytes of the path. */
export function byBytes(one: string, other: string): number {
  return Buffer.compare(Buffer.from(one), Buffer.from(other));
}

/** A text that is in front of a path, with little in between. */
function before(path: string): string {
  return [...path].slice(0, -1).join("");
}

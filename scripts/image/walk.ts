import { type Dirent, readdirSync } from "node:fs";
import { join } from "node:path";

/** Everything below a folder, by its path in it. Links are not followed, as readdir's own recursion would. */
export function walk(folder: string, wants: (entry: Dirent) => boolean = () => true): string[] {
  const paths: string[] = [];
  const pending = [""];
  for (const at of pending) {
    for (const entry of readdirSync(join(folder, at), { withFileTypes: true })) {
      if (!wants(entry)) continue;
      const path = join(at, entry.name);
      paths.push(path);
      if (entry.isDirectory()) pending.push(path);
    }
  }
  return paths;
}

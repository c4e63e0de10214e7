import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";

/** Of some texts, those that any file below a folder has in its bytes, each with the files that have it. Reads as grep does: whatever a file is. */
export function foundIn(folder: string, texts: readonly string[]): Record<string, string[]> {
  const found: Record<string, string[]> = {};
  for (const entry of readdirSync(folder, { recursive: true, withFileTypes: true })) {
    if (!entry.isFile()) continue;
    const file = join(entry.parentPath, entry.name);
    const bytes = readFileSync(file);
    for (const text of texts) {
      if (!bytes.includes(text)) continue;
      found[text] = [...(found[text] ?? []), file.slice(folder.length + 1)];
    }
  }
  return found;
}

import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";

const folders = new Set<string>();

process.once("exit", () => {
  for (const folder of folders) rmSync(folder, { recursive: true, force: true });
});

/** A new empty folder, removed when the test process ends at the latest. */
export function scratchFolder(): string {
  const folder = mkdtempSync(join(tmpdir(), "sluice-test-"));
  folders.add(folder);
  return folder;
}

/** Removes a scratch folder and all that is in it. */
export function removeScratch(folder: string): void {
  rmSync(folder, { recursive: true, force: true, maxRetries: 5 });
  folders.delete(folder);
}

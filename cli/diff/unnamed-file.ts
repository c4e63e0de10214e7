import { mkdtempSync, openSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";

/**
 * Opens a file for this process alone among the temporary files (`TMPDIR`), to write and to read. It has no name from the start, so that
 * nothing is left of it however the program ends. Its room is free when the descriptor is closed.
 */
export function openUnnamed(): number {
  // In one step: a signal in between would leave a folder that nobody removes. Its mode is 0700.
  const folder = mkdtempSync(join(tmpdir(), "sluice-diff-"));
  try {
    return openSync(join(folder, "bytes"), "wx+", 0o600);
  } finally {
    rmSync(folder, { recursive: true });
  }
}

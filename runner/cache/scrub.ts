import { randomInt } from "node:crypto";
import { pause } from "../gateway/retry.ts";
import { type Entry, entriesOf, SHARDS } from "./entries.ts";

export interface ScrubOptions {
  readonly dir: string;
  readonly check: (entry: Entry) => Promise<void>;
  readonly signal: AbortSignal;
}

/** Between two folders of the 256: all are read in about a day. */
const FOLDER_EVERY_MS = 5 * 60_000;
/** How many times as long as it reads it rests, so that those who work notice nothing. */
const REST = 9;

/**
 * Reads the whole cache again, slowly, until `signal`: bytes that the disk itself has lost show in no seal. Begins
 * anywhere, so that a runner that is restarted often comes to all of it, too.
 */
export async function scrub({ dir, check, signal }: ScrubOptions): Promise<void> {
  for (let turn = randomInt(SHARDS.length); !signal.aborted; turn += 1) {
    await pause(FOLDER_EVERY_MS, signal);
    for await (const entry of entriesOf(dir, SHARDS[turn % SHARDS.length] ?? "")) {
      if (signal.aborted) return;
      const began = performance.now();
      await check(entry);
      await pause((performance.now() - began) * REST, signal);
    }
  }
}

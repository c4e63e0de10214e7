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
/** It rests so many times as long as it reads, so that commands notice nothing. */
const REST = 9;

/**
 * Reads the whole cache again, slowly, until `signal`: no seal shows bytes that the disk itself has lost. Begins
 * at a random place, so that a runner that is restarted often still comes to all of it.
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

import type { UnwantedBlob } from "../../blobs/port.ts";
import type { BranchContext } from "../context.ts";

/** Most blobs that one alarm deletes: one call to R2, if no manifest is among them. */
const BLOBS = 1000;
/** How long after a failure it is tried again; milliseconds. */
const RETRY_MS = 10_000;

interface CollectorOptions extends Pick<BranchContext, "ledger" | "now"> {
  /** Deletes blobs and returns those that are gone. */
  readonly remove: (unwanted: readonly UnwantedBlob[]) => Promise<string[]>;
}

/**
 * Deletes condemned blobs that are due, from the alarm. First the blobs, then the rows that say so: a crash in between
 * deletes them once more, which does no harm, because no name is ever used again. What one alarm leaves stays due, so
 * that the alarm is set again, until nothing is condemned any more and the object rests.
 */
export class Collector {
  readonly #options: CollectorOptions;

  constructor(options: CollectorOptions) {
    this.#options = options;
  }

  async collect(): Promise<void> {
    const { ledger, now, remove } = this.#options;
    const due = ledger.transaction(() => ledger.contents.due(now(), BLOBS));
    if (due.length === 0) return;
    try {
      const gone = await remove(due);
      ledger.transaction(() => ledger.contents.forgetCondemned(gone));
    } catch (error) {
      console.warn(`${due.length} blobs could not be deleted and are tried again: ${error}`);
      const names = due.map(({ blob }) => blob);
      ledger.transaction(() => ledger.contents.postpone(names, now() + RETRY_MS));
    }
  }
}

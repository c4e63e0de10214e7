import { once } from "node:events";
import { isMainThread, Worker, workerData } from "node:worker_threads";
import type { BranchAddress } from "../../protocol/names.ts";
import type { Door } from "../../test/support/keys.ts";
import { commitThroughSession } from "./bulk-commit.ts";
import { Control } from "./control.ts";
import { pathOf } from "./trees.ts";

interface Large {
  readonly door: Door;
  readonly address: BranchAddress;
  readonly puts: number;
}

/**
 * Writes so many small files as one commit, from another thread: making and hashing them holds that one up, and not
 * whoever measures here.
 */
export async function commitOnThread(large: Large): Promise<void> {
  const worker = new Worker(import.meta.filename, { workerData: large });
  // Rejects with what the thread throws.
  await once(worker, "exit");
}

if (!isMainThread) {
  const { door, address, puts } = workerData as Large;
  const control = new Control(door);
  await commitThroughSession(control, { address, puts, pathOf });
  await control.close();
}

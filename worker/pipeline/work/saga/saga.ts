/*
 * How a pipeline is created (create.ts), stopped, started, updated and deleted: a state is written down, each step may be
 * done again, and the engine goes on with it after a crash.
 *
 *  - A stop kills the unfinished jobs and releases the inputs. A start makes one job for their HEADs.
 *  - An update of what is computed, or from what, kills the jobs of the version before and makes one that reads the inputs
 *    whole. If the transform changed, that job has a new salt, so that old results count no more.
 *  - An update that only says how the work is done keeps the jobs and their results.
 *  - A job that is killed, or that runs longer than `jobTimeout`, loses its leases in the transaction that ends it.
 */

import type { PipelineContext } from "../../context.ts";
import type { Ledger } from "../../ledger/ledger.ts";
import { announcePipeline } from "../catalogue.ts";
import { continueCreation } from "./create.ts";
import { continueDestruction, purge } from "./destroy.ts";
import { takeBackErrors, takeBackProposals } from "./propose.ts";
import { continueStart, continueStop } from "./stop-start.ts";
import { continueUpdate } from "./update.ts";

/** Whether the state is to change, or others are to hear that it did. */
export function isChanging({ pipeline, proposals, errorsClaim }: Ledger): boolean {
  const row = pipeline.row();
  if (proposals.all().length > 0) return true;
  if (row === undefined || row.state === "deleted") return false;
  if (row.state !== "active" && row.state !== "stopped") return true;
  const uid = pipeline.definition()?.uid;
  return row.catalogueVersion < row.version || (uid !== undefined && errorsClaim.get(uid)?.settled === false);
}

/** Rolls forward what the pipeline is to become, until it is that and others have heard of it. Throws if a peer can't be reached. */
export async function changeState(context: PipelineContext): Promise<void> {
  const { ledger, memory, engine } = context;
  for (;;) {
    const row = ledger.pipeline.row();
    switch (row?.state) {
      case "creating": {
        const uid = ledger.pipeline.definition()?.uid;
        const created = await continueCreation(context);
        if (created !== "done" && uid) memory.refusals.add(uid, created);
        else void engine.resume();
        break;
      }
      case "stopping":
        await continueStop(context);
        break;
      case "starting":
        await continueStart(context);
        void engine.resume();
        break;
      case "updating":
        await continueUpdate(context);
        void engine.resume();
        break;
      case "active":
      case "stopped":
        if (row.catalogueVersion >= row.version) {
          await takeBackErrors(context);
          return await takeBackProposals(context);
        }
        await announcePipeline(context);
        break;
      case "deleting":
        await continueDestruction(context);
        break;
      case "purging":
        await purge(context);
        break;
      case "deleted":
        return await takeBackProposals(context);
      default:
        return;
    }
  }
}

import type { NamedLoop } from "../../objects/loop.ts";
import { OutboxDispatcher } from "../../objects/outbox.ts";
import { nextExpiry } from "../attempts/task-store.ts";
import type { PipelineContext } from "../context.ts";
import { tellJobs } from "./catalogue.ts";
import { advanceOldestJob, oldestGoesOn } from "./finish/advance.ts";
import { fillJobs } from "./inputs/fill.ts";
import { marksDueAt, sendMarks } from "./inputs/low-water.ts";
import { pull } from "./inputs/pull.ts";
import { callOffAttempts, endOverdue, overdueAt } from "./jobs.ts";
import { sweep, tellSuspects } from "./leases.ts";
import { changeState, isChanging } from "./saga/saga.ts";
import { hasToTrim, trim } from "./trim/trim.ts";
import { dropErased, endLostUploads, isErasing } from "./trim/uploads.ts";

/** What a Pipeline object does between its calls. `object`: what it is called in the log. */
export function loopsOf(context: PipelineContext, object: () => string): NamedLoop[] {
  const { ledger, peers } = context;
  const { jobs, pipeline, lost } = ledger;
  const dueIf = (isDue: boolean): number | undefined => (isDue ? 0 : undefined);
  const isActive = (): boolean => pipeline.row()?.state === "active";
  const isThere = (): boolean => isActive() || pipeline.row()?.state === "stopped";
  return [
    { name: "state", due: () => dueIf(isChanging(ledger)), step: () => changeState(context) },
    {
      name: "inputs",
      due: () => dueIf(isActive() && pipeline.row()?.pullDue === 1),
      step: () => pull(context),
    },
    {
      name: "fill",
      due: () => dueIf(isActive() && jobs.nextToFill() !== undefined),
      step: () => fillJobs(context),
    },
    {
      name: "jobs",
      due: () => dueIf(isActive() && oldestGoesOn(ledger)),
      step: () => advanceOldestJob(context),
    },
    { name: "callOff", due: () => dueIf(jobs.toCallOff(1).length > 0), step: () => callOffAttempts(context) },
    {
      name: "leases",
      due: () => nextExpiry(ledger),
      step: async () => {
        const goesOn = ledger.transaction((tx) => sweep(tx, context, peers.now()));
        await tellSuspects(context);
        return goesOn;
      },
    },
    { name: "jobTime", due: () => overdueAt(ledger), step: () => endOverdue(context, peers.now()) },
    {
      name: "lostUploads",
      due: () => dueIf(isThere() && lost.some(1).length > 0),
      step: () => endLostUploads(context),
    },
    { name: "erased", due: () => dueIf(isThere() && isErasing(ledger)), step: () => dropErased(context) },
    { name: "trim", due: () => dueIf(isThere() && hasToTrim(context)), step: () => trim(context) },
    new OutboxDispatcher({ object, ledger, now: peers.now, receivers: { jobs: () => tellJobs(context) } }),
    {
      name: "lowWaterMarks",
      due: () => (isActive() ? marksDueAt(context) : undefined),
      step: () => sendMarks(context),
      // Calls that came too soon were left to the alarm.
      rang: () => {
        context.memory.markedAt = Number.NEGATIVE_INFINITY;
      },
    },
  ];
}

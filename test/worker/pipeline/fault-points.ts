import { ApplyingStore } from "../../../worker/branch/open-commits/applying-store.ts";
import { Outbox } from "../../../worker/branch/outbox/outbox-store.ts";
import { CommitStore } from "../../../worker/branch/tree/commit-store.ts";
import { UploadStore } from "../../../worker/branch/uploads/upload-store.ts";
import { JobTable } from "../../../worker/catalogue/jobs.ts";
import { OutboxDispatcher } from "../../../worker/objects/outbox.ts";
import { AttemptStore } from "../../../worker/pipeline/attempts/attempt-store.ts";
import { ResultStore } from "../../../worker/pipeline/attempts/result-store.ts";
import { SlotStore } from "../../../worker/pipeline/attempts/slot-store.ts";
import { TaskStore } from "../../../worker/pipeline/attempts/task-store.ts";
import { wakeUps } from "../../../worker/pipeline/calls/lifecycle.ts";
import { DatumStore } from "../../../worker/pipeline/inputs/datum-store.ts";
import { ElementStore, TouchedStore } from "../../../worker/pipeline/inputs/element-store.ts";
import { SourceStore } from "../../../worker/pipeline/inputs/source-store.ts";
import { JobStore } from "../../../worker/pipeline/jobs/job-store.ts";
import { PipelineStore } from "../../../worker/pipeline/lifecycle/pipeline-store.ts";
import {
  ChangedStore,
  EndingStore,
  MergeStore,
  OperationStore,
} from "../../../worker/pipeline/output/draft-store.ts";
import { EgressStore } from "../../../worker/pipeline/output/egress-store.ts";
import { PublishedStore } from "../../../worker/pipeline/output/published-store.ts";
import type { FaultPoint } from "./faults.ts";

type Where = Omit<FaultPoint, "when">;

const isOfInput = (_: unknown, { output }: { output?: true }): boolean => output !== true;
const isOfBell = ({ receiver }: { receiver: string }): boolean => receiver === "pipeline";
const isOfJob = ({ origin }: { origin?: string }): boolean => origin !== undefined;
const isOfCommit = ({ origin }: { origin?: string }): boolean => origin === undefined;

/** The life of a job of a few files, step by step; each is a moment before and a moment after which all may end. */
const STEPS: readonly Where[] = [
  {
    in: "input",
    at: "the commit is written",
    of: CommitStore.prototype,
    method: "insert",
    which: isOfCommit,
  },
  { in: "input", at: "its bell is written", of: Outbox.prototype, method: "ring" },
  { in: "input", at: "the bell is rung", of: OutboxDispatcher.prototype, method: "send", which: isOfBell },
  { in: "input", at: "the bell was heard", of: Outbox.prototype, method: "acknowledge", which: isOfBell },
  { at: "the bell is heard", of: wakeUps, method: "ring", which: isOfInput },
  { at: "a look at the inputs is owed", of: PipelineStore.prototype, method: "setPullDue" },
  { at: "the cursor moves", of: SourceStore.prototype, method: "advance" },
  { at: "the job is made", of: JobStore.prototype, method: "insert" },
  { at: "its changes are noted", of: TouchedStore.prototype, method: "add" },
  { at: "nothing more is owed", of: PipelineStore.prototype, method: "setPullDue", call: 2 },
  { at: "the changes are looked at", of: TouchedStore.prototype, method: "found" },
  { at: "an element is ended", of: ElementStore.prototype, method: "kill" },
  { at: "a datum is ended", of: DatumStore.prototype, method: "kill" },
  { at: "an element is born", of: ElementStore.prototype, method: "bear" },
  { at: "a datum is born", of: DatumStore.prototype, method: "bear" },
  { at: "another datum is born", of: DatumStore.prototype, method: "bear", call: 2 },
  { at: "a datum is queued", of: AttemptStore.prototype, method: "add" },
  { at: "the datums are known", of: JobStore.prototype, method: "setFill" },
  { at: "the job runs", of: JobStore.prototype, method: "start" },
  { at: "it is the job's turn", of: JobStore.prototype, method: "beginTurn" },
  { at: "a worker takes a slot", of: SlotStore.prototype, method: "take" },
  { at: "a datum is leased", of: AttemptStore.prototype, method: "run" },
  { at: "another datum is leased", of: AttemptStore.prototype, method: "run", call: 2 },
  { in: "output", at: "an upload is opened", of: UploadStore.prototype, method: "open" },
  { in: "output", at: "the contents are kept", of: UploadStore.prototype, method: "add" },
  { at: "a result is recorded", of: ResultStore.prototype, method: "record" },
  { at: "its datum is done", of: AttemptStore.prototype, method: "succeed" },
  { at: "another result is recorded", of: ResultStore.prototype, method: "record", call: 2 },
  { at: "the last datum is done", of: AttemptStore.prototype, method: "succeed", call: 2 },
  { at: "what changes is noted", of: ChangedStore.prototype, method: "set" },
  { at: "the end goes on to its plan", of: EndingStore.prototype, method: "set" },
  { at: "an operation is planned", of: OperationStore.prototype, method: "set" },
  { at: "a merge is queued", of: TaskStore.prototype, method: "addMerge" },
  { at: "a merge is leased", of: TaskStore.prototype, method: "run" },
  { at: "a merge is recorded", of: MergeStore.prototype, method: "record" },
  { at: "its task is done", of: TaskStore.prototype, method: "remove" },
  { at: "what waited is planned", of: OperationStore.prototype, method: "set", call: 3 },
  { at: "the end goes on to its commit", of: EndingStore.prototype, method: "set", call: 3 },
  { at: "the commit is announced", of: JobStore.prototype, method: "setCommitting" },
  {
    in: "output",
    at: "the output is committed",
    of: CommitStore.prototype,
    method: "insert",
    which: isOfJob,
  },
  { at: "that it is committed is noted", of: JobStore.prototype, method: "setCommitted" },
  { at: "what was written is noted", of: PublishedStore.prototype, method: "add" },
  { at: "what is to be pushed is noted", of: EgressStore.prototype, method: "add" },
  { at: "the job pushes", of: JobStore.prototype, method: "setEgressing" },
  { at: "the end goes on to its push", of: EndingStore.prototype, method: "set", call: 5 },
  { at: "a push is made", of: TaskStore.prototype, method: "addEgress" },
  { at: "a push is given its files", of: EgressStore.prototype, method: "assign" },
  { at: "a push is leased", of: TaskStore.prototype, method: "run", call: 2 },
  { at: "what was pushed is noted", of: EgressStore.prototype, method: "pushed" },
  { at: "the push is done", of: TaskStore.prototype, method: "remove", call: 2 },
  { at: "the end is over", of: EndingStore.prototype, method: "remove" },
  { at: "the job's commit is noted", of: PipelineStore.prototype, method: "setCommitted" },
  { at: "the job is ended", of: JobStore.prototype, method: "end" },
  { at: "the catalogue is told", of: JobTable.prototype, method: "record" },
  { at: "that it was told is noted", of: JobStore.prototype, method: "setFlushed" },
  { at: "what is over is removed", of: ElementStore.prototype, method: "trim" },
];

/** What is done in slices: a job of many datums whose output is more than one call takes. */
const SLICES: readonly Where[] = [
  { at: "the second page of the input is noted", of: JobStore.prototype, method: "setFill", call: 3 },
  { at: "the third page of the input is noted", of: JobStore.prototype, method: "setFill", call: 4 },
  { at: "the second slice of paths is looked at", of: TouchedStore.prototype, method: "found", call: 2 },
  { at: "the fourth slice of paths is looked at", of: TouchedStore.prototype, method: "found", call: 4 },
  { at: "the second slice of changes is noted", of: EndingStore.prototype, method: "set", call: 2 },
  { at: "the fifth slice of changes is noted", of: EndingStore.prototype, method: "set", call: 5 },
  { at: "the first page of the output is sent", of: OperationStore.prototype, method: "page" },
  { at: "the third page of the output is sent", of: OperationStore.prototype, method: "page", call: 3 },
  { in: "output", at: "the output begins to be applied", of: ApplyingStore.prototype, method: "begin" },
  {
    in: "output",
    at: "a slice of the output is checked",
    of: ApplyingStore.prototype,
    method: "saveProgress",
    call: 2,
  },
  {
    in: "output",
    at: "the output begins to be written",
    of: ApplyingStore.prototype,
    method: "startWriting",
  },
  { in: "output", at: "the first slice is written", of: ApplyingStore.prototype, method: "count" },
  { in: "output", at: "the third slice is written", of: ApplyingStore.prototype, method: "count", call: 3 },
  { in: "output", at: "the large commit is made", of: CommitStore.prototype, method: "insert" },
  { in: "output", at: "nothing more is applied", of: ApplyingStore.prototype, method: "clear" },
  { at: "the second slice is published", of: ChangedStore.prototype, method: "take", call: 2 },
  { at: "the tenth slice is published", of: ChangedStore.prototype, method: "take", call: 10 },
];

/** Every step of a job of a few files. */
export const LIFE_OF_A_JOB = aroundEach(STEPS);
/** Every slice of a large one; each is a transaction, so after it is before the next. */
export const LIFE_OF_A_LARGE_JOB = SLICES.map(
  (step): FaultPoint => ({ ...step, when: "before", at: `before ${step.at}` }),
);

/** The moments before and after each. */
function aroundEach(steps: readonly Where[]): FaultPoint[] {
  return steps.flatMap((step) => [
    { ...step, when: "before" as const, at: `before ${step.at}` },
    { ...step, when: "after" as const, at: `after ${step.at}` },
  ]);
}

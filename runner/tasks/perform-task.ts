import type { Outcome, Task } from "../../protocol/runner.ts";
import { failedOutcome, messageOf } from "../lib/fault.ts";
import { SecretMissing } from "../secrets/source.ts";
import { type MergeCalls, mergeParts, type TaskWork } from "./merge.ts";
import { type EgressDeps, egressEntries } from "./push-entries.ts";

export interface TaskDeps extends EgressDeps {
  readonly gateway: MergeCalls;
}

/** Does what a job needs beside its command. Never throws: a failure is an outcome. */
export async function performTask(deps: TaskDeps, work: TaskWork<Task>): Promise<Outcome> {
  const { lease } = work.task;
  const began = performance.now();
  const millis = () => Math.round(performance.now() - began);
  try {
    return { lease, ...(await done(deps, work)), millis: millis() };
  } catch (error) {
    // The job names the task, so the reason need not.
    const hopeless = error instanceof SecretMissing && { endsJob: true as const };
    return failedOutcome(lease, { reason: messageOf(error), millis: millis(), ...hopeless });
  }
}

async function done(deps: TaskDeps, { task, ...work }: TaskWork<Task>) {
  if (task.kind === "merge") {
    return { state: "merged", ...(await mergeParts(deps.gateway, { ...work, task })) } as const;
  }
  const remark = await egressEntries(deps, { ...work, task });
  return { state: "pushed", ...(remark !== null && { remark }) } as const;
}

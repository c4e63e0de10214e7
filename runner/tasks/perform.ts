import type { BranchAddress } from "../../protocol/names.ts";
import type { Outcome, Task } from "../../protocol/runner.ts";
import { messageOf } from "../lib/fault.ts";
import { SecretMissing } from "../secrets/source.ts";
import { boundedReason } from "../worker/verdict.ts";
import { type EgressDeps, pushEntries } from "./egress.ts";
import { type MergeDeps, mergeParts } from "./merge.ts";

export interface TaskDeps extends MergeDeps, EgressDeps {
  readonly gateway: MergeDeps["gateway"] & EgressDeps["gateway"];
}

export interface TaskWork {
  readonly task: Task;
  /** The pipeline's output branch. */
  readonly output: BranchAddress;
  /** A file that may be made for it. */
  readonly file: string;
  /** Stops the work; its outcome is then of no interest. */
  readonly signal: AbortSignal;
}

/** Does what a job needs beside its command. Never throws: a failure is an outcome. */
export async function performTask(deps: TaskDeps, work: TaskWork): Promise<Outcome> {
  const { lease } = work.task;
  const began = performance.now();
  const millis = () => Math.round(performance.now() - began);
  try {
    return { lease, ...(await done(deps, work)), millis: millis() };
  } catch (error) {
    // Of which task it is the job says.
    const reason = boundedReason(messageOf(error));
    const hopeless = error instanceof SecretMissing && { endsJob: true as const };
    return { lease, state: "failed", exitCode: null, reason, log: "", millis: millis(), ...hopeless };
  }
}

async function done(deps: TaskDeps, { task, ...work }: TaskWork) {
  if (task.kind === "egress") {
    await pushEntries(deps, { ...work, task });
    return { state: "pushed" } as const;
  }
  return { state: "merged", ...(await mergeParts(deps, { ...work, task })) } as const;
}

import type { BranchAddress } from "../../protocol/names.ts";
import type { Outcome, Task } from "../../protocol/runner.ts";
import type { Grant } from "../gateway/gateway.ts";
import { failedOutcome, messageOf } from "../lib/fault.ts";
import { SecretMissing, type SecretSource } from "../secrets/source.ts";
import type { EgressTerms } from "./destination.ts";
import { type MergeCalls, mergeParts } from "./merge.ts";
import { egressEntries } from "./push-entries.ts";

export interface TaskDeps {
  readonly gateway: MergeCalls;
  readonly secrets: SecretSource;
  /** Holds the credentials of an egress, unless it names a secret. */
  readonly env: NodeJS.ProcessEnv;
  /** Whether the pipeline belongs to a limited key, as the lease says. */
  readonly limited: boolean;
  /** What egress may do. */
  readonly terms: EgressTerms;
  /** Id of the key that the runner has for its gateway. */
  readonly gatewayKey: string;
  /** Resolves once the gateway has said that a lease is still held. Throws if it is lost. */
  readonly confirmLease: (lease: string, signal: AbortSignal) => Promise<void>;
  /** How long the store of an egress may take no byte and give no answer. */
  readonly stallMs?: number;
}

export interface TaskWork {
  readonly task: Task;
  /** The pipeline's output branch. */
  readonly output: BranchAddress;
  /** A file that may be made for it. */
  readonly file: string;
  /** With it contents are read and sent. */
  readonly grant?: Grant | undefined;
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
    // The job names the task, so the reason need not.
    const hopeless = error instanceof SecretMissing && { endsJob: true as const };
    return failedOutcome(lease, { reason: messageOf(error), millis: millis(), ...hopeless });
  }
}

async function done(deps: TaskDeps, work: TaskWork) {
  const { task, output, file, grant, signal } = work;
  if (task.kind === "merge") {
    return {
      state: "merged",
      ...(await mergeParts(deps.gateway, { task, output, file, grant, signal })),
    } as const;
  }
  const confirmLease = () => deps.confirmLease(task.lease, signal);
  const remark = await egressEntries({ ...deps, confirmLease }, { task, output, grant, signal });
  return { state: "pushed", ...(remark !== null && { remark }) } as const;
}

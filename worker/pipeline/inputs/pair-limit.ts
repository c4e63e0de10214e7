import { MAX_PAIRS } from "../../../protocol/pipeline-check.ts";
import type { JobContext, PipelineContext } from "../context.ts";
import { cutShort, tellOfCut } from "../jobs/end.ts";
import { fillingStep } from "../ledger/job-steps.ts";
import type { Ledger } from "../ledger/ledger.ts";

/** Rows removed in one transaction. */
const SLICE = 500;

/**
 * Why a job can't have its datums: the cross product of its inputs is larger than MAX_PAIRS. Known once all touched
 * paths were compared, before the first pair is made. Undefined where it can.
 */
export function excessOf(ledger: Ledger, { definition, job }: JobContext): string | undefined {
  if (definition.inputs.length < 2 || ledger.touched.found(job.n, 1).length > 0) return undefined;
  const sizes = definition.inputs.map((_, input) => ledger.sizes.of(input));
  const pairs = sizes.reduce((product, size) => product * BigInt(size), 1n);
  if (pairs <= MAX_PAIRS) return undefined;
  const sides = definition.inputs.map(({ name }, input) => `${sizes[input]} of '${name}'`).join(" with ");
  return `its inputs make ${pairs} datums, ${sides}, and a job may have ${MAX_PAIRS}: let a glob match directories instead of the files in them, or less`;
}

/**
 * Fails a job whose datums are not to be had. What it was about to make is dropped, so that the next job can't build
 * upon it: that one reads its inputs whole. One slice; whether it was the last.
 */
export function giveUp(
  parts: PipelineContext,
  { reason, ...context }: JobContext & { reason: string },
): boolean {
  const { ledger } = parts;
  const { job } = context;
  const done = fillingStep(ledger, context, () => {
    cutShort(parts, { job, state: "failure", reason });
    if (ledger.touched.clear(job.n, SLICE)) return false;
    ledger.pipeline.setAnew(1);
    ledger.jobs.setFilled(job.n);
    return true;
  });
  tellOfCut(parts, job.id);
  return done ?? false;
}

/** A job behind one that was given up reads its inputs whole. Whether this is one. */
export function beginAnew(ledger: Ledger, context: JobContext): boolean {
  if (ledger.pipeline.row()?.anew !== 1) return false;
  fillingStep(ledger, context, () => {
    ledger.jobs.setFill(context.job.n, { fill: { step: "forget" }, total: context.job.total });
    ledger.pipeline.setAnew(0);
  });
  return true;
}

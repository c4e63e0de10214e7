import type { PipelineSpec, Transform } from "../../protocol/spec.ts";
import { checkSpec } from "../core/spec.ts";

/** What an update changes of a pipeline. */
export interface SpecChange {
  readonly outputBranch: boolean;
  /** What is computed for a datum: results of the version before count no more. */
  readonly transform: boolean;
  /** Which datums there are. */
  readonly inputs: boolean;
  /** Anything else: how the work is done. */
  readonly settings: boolean;
}

/** Compares two specifications that were checked. Fields in another order, and what is the same as nothing, are no change. */
export function specChange(before: PipelineSpec, after: PipelineSpec): SpecChange {
  return {
    outputBranch: before.outputBranch !== after.outputBranch,
    transform: textOf(transformOf(before)) !== textOf(transformOf(after)),
    inputs: textOf(inputsOf(before)) !== textOf(inputsOf(after)),
    settings: textOf(settingsOf(before)) !== textOf(settingsOf(after)),
  };
}

function transformOf({ transform }: PipelineSpec): Transform {
  const { stdin = [], env = {}, acceptReturnCode = [], workingDir = "/", ...rest } = transform;
  // 0 is always accepted (spec §2.2).
  const accepted = [...new Set([0, ...acceptReturnCode])].sort((a, b) => a - b);
  return { ...rest, stdin, env, acceptReturnCode: accepted, workingDir };
}

function inputsOf(spec: PipelineSpec): unknown {
  const checked = checkSpec(spec);
  return checked.ok ? checked.inputs : spec.inputs;
}

function settingsOf({
  transform: _,
  inputs: __,
  outputBranch: ___,
  $schema: ____,
  ...settings
}: PipelineSpec): unknown {
  return settings;
}

/** JSON with the fields of every object in order. */
function textOf(value: unknown): string {
  return JSON.stringify(value, (_, part: unknown) =>
    part !== null && typeof part === "object" && !Array.isArray(part)
      ? Object.fromEntries(Object.entries(part).sort(([a], [b]) => (a < b ? -1 : 1)))
      : part,
  );
}

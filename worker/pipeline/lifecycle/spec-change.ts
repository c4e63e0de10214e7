import type { PipelineSpec, Transform } from "../../../protocol/spec.ts";
import { checkSpec, sortedJson } from "../../core/spec.ts";

/** What an update changes of a pipeline. */
export interface SpecChange {
  /** What is computed for a datum: results of the version before count no more. */
  readonly transform: boolean;
  /** Which datums there are. */
  readonly inputs: boolean;
  /** Where results are pushed to, which is one of the settings. */
  readonly egress: boolean;
  /** Anything else: how the work is done. */
  readonly settings: boolean;
  /** What is said of it, for people. */
  readonly description: boolean;
}

/** Compares two specifications that were checked. Fields in another order, and what is the same as nothing, are no change. */
export function specChange(before: PipelineSpec, after: PipelineSpec): SpecChange {
  return {
    transform: sortedJson(transformOf(before)) !== sortedJson(transformOf(after)),
    inputs: sortedJson(inputsOf(before)) !== sortedJson(inputsOf(after)),
    egress: sortedJson(destinationOf(before)) !== sortedJson(destinationOf(after)),
    settings: sortedJson(settingsOf(before)) !== sortedJson(settingsOf(after)),
    description: before.description !== after.description,
  };
}

/** The fields of the transform that an update changes, by their paths. */
export function transformFields(before: PipelineSpec, after: PipelineSpec): string[] {
  const [was, is]: Record<string, unknown>[] = [{ ...transformOf(before) }, { ...transformOf(after) }];
  const names = [...new Set([...Object.keys(was ?? {}), ...Object.keys(is ?? {})])].sort();
  return names
    .filter((name) => sortedJson(was?.[name]) !== sortedJson(is?.[name]))
    .map((name) => `transform.${name}`);
}

/** The fields that an update changes: those of the transform and of each input by its name, others as a whole. */
export function changedFields(before: PipelineSpec, after: PipelineSpec): string[] {
  const [was, is] = [partsOf(before), partsOf(after)];
  const names = [...new Set([...Object.keys(was), ...Object.keys(is)])].sort();
  const others = names.filter((name) => sortedJson(was[name]) !== sortedJson(is[name]));
  return [...transformFields(before, after), ...others];
}

function partsOf(spec: PipelineSpec): Record<string, unknown> {
  const { transform: _, inputs: __, outputBranch: ___, $schema: ____, ...settings } = spec;
  const checked = checkSpec(spec);
  const inputs = (checked.ok ? checked.inputs : []).flatMap(({ name, ...input }) =>
    Object.entries(input).map(([field, value]) => [`inputs.${name}.${field}`, value]),
  );
  return {
    ...settings,
    onDatumFailure: settings.onDatumFailure ?? "fail",
    ...Object.fromEntries(inputs),
  };
}

function transformOf({ transform }: PipelineSpec): Transform {
  const { stdin = [], env = {}, acceptReturnCode = [], workingDir = "/", ...rest } = transform;
  // 0 is always accepted.
  const accepted = [...new Set([0, ...acceptReturnCode])].sort((a, b) => a - b);
  return { ...rest, stdin, env, acceptReturnCode: accepted, workingDir };
}

function inputsOf(spec: PipelineSpec): unknown {
  const checked = checkSpec(spec);
  return checked.ok ? checked.inputs.map(({ lazy: _, ...input }) => input) : spec.inputs;
}

/** How the files of each input are shown, by name. */
function lazinessOf(spec: PipelineSpec): unknown {
  const checked = checkSpec(spec);
  return checked.ok ? checked.inputs.map(({ lazy }) => lazy) : null;
}

function settingsOf(spec: PipelineSpec): unknown {
  const {
    transform: _,
    inputs: __,
    outputBranch: ___,
    $schema: ____,
    description: _____,
    ...settings
  } = spec;
  return { ...settings, onDatumFailure: settings.onDatumFailure ?? "fail", lazy: lazinessOf(spec) };
}

/** With other credentials, results still go to the same place. */
function destinationOf({ egress }: PipelineSpec): unknown {
  return egress ? { URL: egress.URL, endpoint: egress.endpoint ?? null } : null;
}

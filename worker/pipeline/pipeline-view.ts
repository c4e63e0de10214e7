import type { Pipeline } from "../../protocol/pipelines.ts";
import type { Found } from "./contract.ts";
import type { Definition } from "./definition.ts";
import type { Ledger } from "./ledger.ts";

/** A pipeline as the control API shows it. */
export function describePipeline(definition: Definition, state: Pipeline["state"]): Pipeline {
  const { name, revision, createdAt, spec, output } = definition;
  return {
    name,
    state,
    version: revision,
    createdAt,
    spec,
    outputRepo: output.repo,
    outputBranch: output.branch,
  };
}

/** The pipeline in whatever state; undefined where there is none any more. */
export function foundPipeline(ledger: Ledger): Found | undefined {
  const state = ledger.exists ? ledger.pipeline.row()?.state : undefined;
  const definition = ledger.exists ? ledger.pipeline.definition() : undefined;
  if (!definition || !state || state === "purging" || state === "deleted") return undefined;
  return { ok: true, pipeline: describePipeline(definition, state) };
}

/** The pipeline, where it runs or is stopped and the catalogue knows. */
export function restingPipeline(ledger: Ledger): Found | undefined {
  const row = ledger.pipeline.row();
  const rests = (row?.state === "active" || row?.state === "stopped") && row.told >= row.version;
  return rests ? foundPipeline(ledger) : undefined;
}

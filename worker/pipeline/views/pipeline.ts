import { bucketName } from "../../../protocol/names.ts";
import type { Pipeline } from "../../../protocol/pipelines.ts";
import { ERRORS_BRANCH } from "../../../protocol/spec.ts";
import type { Found } from "../contract.ts";
import type { Ledger } from "../ledger/ledger.ts";
import type { Definition } from "../lifecycle/definition.ts";
import { hasErrors } from "../lifecycle/errors-claim-store.ts";

/** A pipeline as the control API shows it. */
export function describePipeline(
  ledger: Ledger,
  { definition, state }: { definition: Definition; state: Pipeline["state"] },
): Pipeline {
  const { name, revision, createdAt, spec, output, limited } = definition;
  return {
    name,
    state,
    version: revision,
    createdAt,
    spec,
    outputRepo: output.repo,
    outputBranch: output.branch,
    ...(hasErrors(ledger, definition) && { errorsBranch: ERRORS_BRANCH }),
    limited,
    reason: state === "active" ? (clockText(ledger) ?? emptyInputs(ledger, definition)) : null,
  };
}

/** Which input's clock was set back, so that nothing of the others can have its turn. Returns null if none was. */
function clockText({ pipeline }: Ledger): string | null {
  const behind = pipeline.behind();
  if (!behind) return null;
  const until = new Date(behind.until).toISOString();
  return `a clock was set back: the commit of ${until} on s3://${behind.ahead} has its turn when the clock of s3://${behind.behind} has passed that time. It goes on by itself then; set the clock right if it is wrong`;
}

/** The pipeline in whatever state. Returns undefined if there is none any more. */
export function foundPipeline(ledger: Ledger): Found | undefined {
  const state = ledger.exists ? ledger.pipeline.row()?.state : undefined;
  const definition = ledger.exists ? ledger.pipeline.definition() : undefined;
  if (!definition || !state || state === "purging" || state === "deleted") return undefined;
  return { ok: true, pipeline: describePipeline(ledger, { definition, state }) };
}

/** Which inputs keep the first job waiting, which is made once each of them holds a file. Returns null if none does. */
function emptyInputs({ pipeline, sources }: Ledger, { inputs }: Definition): string | null {
  if (pipeline.row()?.hadFirstJob === 1) return null;
  const empty = inputs
    .filter(({ source }) => !sources.hasData(source))
    .map(({ name, repo, branch, from }) => {
      const where = `s3://${bucketName({ repo, branch })}`;
      return `input '${name}' is empty (${where} holds no file${from === null ? "" : ` written after ${from}`})`;
    });
  return empty.length === 0 ? null : `its first job waits for data: ${empty.join(", ")}`;
}

/** The pipeline, if it runs or is stopped and the catalogue knows. */
export function restingPipeline(ledger: Ledger): Found | undefined {
  const row = ledger.pipeline.row();
  const rests = (row?.state === "active" || row?.state === "stopped") && row.catalogueVersion >= row.version;
  return rests ? foundPipeline(ledger) : undefined;
}

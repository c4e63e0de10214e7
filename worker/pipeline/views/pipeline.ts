/*
 * The versions of a pipeline's specification, as people look at them.
 *
 * A version is written down by the update that makes it, with the key and the text that came along (version-store.ts), and is
 * looked at here from when it holds: one that waits for the jobs of the version before to end is not listed. What changed is
 * not written down but worked out from two versions that stand next to each other.
 */

import { bucketName } from "../../../protocol/names.ts";
import type { Pipeline } from "../../../protocol/pipelines.ts";
import { ERRORS_BRANCH } from "../../../protocol/spec.ts";
import type { Found, KnownVersion, VersionPage, WholeVersion } from "../contract.ts";
import type { Ledger } from "../ledger/ledger.ts";
import type { Definition } from "../lifecycle/definition.ts";
import { changedFields } from "../lifecycle/spec-change.ts";
import { hasErrors, type StoredVersion } from "../lifecycle/version-store.ts";

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

/** After so many bytes of specifications a page ends: each of them is read to say what changed. */
const PAGE_BYTES = 4_000_000;

/** A page of the versions that are kept, newest first, those before `before`. */
export function listVersions(
  { pipeline, versions }: Ledger,
  { before, limit }: { readonly before?: number; readonly limit: number },
): VersionPage {
  const present = pipeline.existing.revision;
  const page: KnownVersion[] = [];
  let version = versions.upTo(before === undefined ? present : Math.min(before - 1, present));
  let bytes = 0;
  while (version && page.length < limit && bytes <= PAGE_BYTES) {
    bytes += version.bytes;
    const previous = versions.upTo(version.revision - 1);
    page.push(known(version, { previous, present }));
    version = previous;
  }
  return { versions: page, next: version ? (page.at(-1)?.version ?? null) : null };
}

/** One version whole; null: the present one. */
export function wholeVersion(
  { pipeline, versions }: Ledger,
  wanted: number | null,
): WholeVersion | "no-such-version" | "not-kept" {
  const present = pipeline.existing.revision;
  const number = wanted ?? present;
  if (number < 1 || number > present) return "no-such-version";
  const version = versions.upTo(number);
  const now = versions.upTo(present);
  if (version?.revision !== number || !now) return "not-kept";
  const inputs = [...version.spec.inputs, ...now.spec.inputs];
  return {
    version: known(version, { previous: versions.upTo(number - 1), present }),
    spec: version.spec,
    text: version.hasText ? versions.text(number) : null,
    reads: [...new Set(inputs.map(({ repo }) => repo.name))],
  };
}

function known(
  { revision: version, createdAt, key, limited, hasText, salt, spec }: StoredVersion,
  { previous, present }: { previous: StoredVersion | undefined; present: number },
): KnownVersion {
  const before = previous?.revision === version - 1 ? previous : undefined;
  return {
    version,
    present: version === present,
    createdAt,
    key,
    limited,
    changes: before ? changedFields(before.spec, spec) : null,
    runsAll: before !== undefined && before.salt !== salt,
    hasText,
  };
}

/*
 * The versions of a pipeline's specification, as people look at them.
 *
 * A version is written down by the update that makes it, with the key and the text that came along (version-store.ts), and is
 * looked at here from when it holds: one that waits for the jobs of the version before to end is not listed. What changed is
 * not written down but worked out from two versions that stand next to each other.
 */
import type { KnownVersion, VersionPage, WholeVersion } from "../contract.ts";
import type { Ledger } from "../ledger/ledger.ts";
import { changedFields } from "../lifecycle/spec-change.ts";
import type { StoredVersion } from "../lifecycle/version-store.ts";

/** After so many bytes of specifications a page ends: each of them is read to say what changed. */
const PAGE_BYTES = 4_000_000;

/** A page of the versions that are kept, newest first, those before `before`. */
export function listVersions(
  { pipeline, versions }: Ledger,
  { before, limit }: { readonly before?: number; readonly limit: number },
): VersionPage {
  const present = pipeline.row()?.revision ?? 0;
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
  const present = pipeline.row()?.revision ?? 0;
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

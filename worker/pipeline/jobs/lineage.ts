import { bucketName } from "../../../protocol/names.ts";
import type { Lineage } from "../../branch/contract/pipelines.ts";
import type { Position } from "../inputs/source-store.ts";
import type { Definition } from "../lifecycle/definition.ts";
import type { JobRow } from "./job-store.ts";

/**
 * What the output commit of a job descends from, through commits that jobs made: this pipeline, and whatever the
 * commits that it reads descend from. What a client wrote descends from nothing, be it a copy of an output.
 */
export function lineageOf({ uid }: Pick<Definition, "uid">, { positions, revision }: JobRow): Lineage {
  const lineage: Record<string, number> = { [uid]: revision };
  for (const { lineage: other = {} } of positions) {
    for (const [pipeline, version] of Object.entries(other)) {
      lineage[pipeline] = Math.max(version, lineage[pipeline] ?? 0);
    }
  }
  // The same pipelines make the same text.
  return Object.fromEntries(Object.entries(lineage).sort(([a], [b]) => (a < b ? -1 : 1)));
}

/**
 * Why a job must not run: what it reads descends from the output of this very version, so jobs would make jobs for
 * ever. No specification is accepted that makes a circle; this is the brake if there is one all the same. The output of
 * an earlier version may still come by after an update has turned the way of the data round: that is no circle. Returns
 * undefined if nothing is wrong.
 */
export function circleText(
  { uid, revision, inputs, sources }: Definition,
  positions: readonly Position[],
): string | undefined {
  const source = positions.findIndex(({ lineage }) => (lineage?.[uid] ?? 0) >= revision);
  const address = sources[source];
  if (!address) return undefined;
  const name = inputs.find((input) => input.source === source)?.name;
  return `the pipelines go in a circle, which ends here: jobs alone made what is in the input '${name}' (s3://${bucketName(address)}) out of this pipeline's own output. Update one of the pipelines so that it does not read what is made of its output`;
}

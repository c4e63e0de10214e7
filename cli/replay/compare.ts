import type { ContentId } from "../../protocol/content.ts";
import type { DatumOutput } from "../../protocol/pipelines.ts";

/**
 * `missing`: the job has it, and it was not made here; `extra`: the other way round; `unknown`: both have it, and what the
 * job has of this datum alone is not known.
 */
type PathState = "same" | "differs" | "missing" | "extra" | "unknown";

export interface ComparedPath {
  readonly path: string;
  readonly state: PathState;
  /** Other datums of the job wrote there, too. */
  readonly merged: boolean;
  /** What was made here; null: nothing. */
  readonly here: ContentId | null;
  /** What the job has of this datum; null: nothing, or it is not known. */
  readonly made: ContentId | null;
}

/** Something in `/pfs/out`. A directory's path ends in `/`. */
interface Output {
  readonly path: string;
  readonly content: ContentId;
}

/** Compares what a datum made here with what its job has of it, path by path, in byte order. */
export function compareOutputs(made: readonly DatumOutput[], here: readonly Output[]): ComparedPath[] {
  const found = new Map(here.map(({ path, content }) => [path, content]));
  const known = new Set(made.map(({ path }) => path));
  const compared = made.map(({ path, content, merged }): ComparedPath => {
    const own = found.get(path) ?? null;
    return { path, state: stateOf(content, own), merged, here: own, made: content };
  });
  const extra = here
    .filter(({ path }) => !known.has(path))
    .map(
      ({ path, content }): ComparedPath => ({
        ...{ path, state: "extra", merged: false },
        ...{ here: content, made: null },
      }),
    );
  return [...compared, ...extra].sort((a, b) => Buffer.compare(Buffer.from(a.path), Buffer.from(b.path)));
}

function stateOf(made: ContentId | null, here: ContentId | null): PathState {
  if (here === null) return "missing";
  if (made === null) return "unknown";
  return made.digest === here.digest && made.size === here.size ? "same" : "differs";
}

/** Whether nothing that can be compared is different. */
export function isSame(compared: readonly ComparedPath[]): boolean {
  return compared.every(({ state }) => state === "same" || state === "unknown");
}

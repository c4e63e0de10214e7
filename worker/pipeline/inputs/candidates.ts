import type { ContentId } from "../../../protocol/content.ts";
import type { Change } from "../../branch/contract/pipelines.ts";
import { ancestors } from "../../core/glob.ts";
import type { InputRule, View } from "../lifecycle/definition.ts";

/** A path that an input's glob matches and that changed, or under which something changed. */
export interface Candidate {
  readonly input: number;
  readonly path: string;
  /** The file there now; null: none. */
  readonly file: ContentId | null;
  readonly directory: boolean;
}

/**
 * What changed paths mean for the inputs that read their branch: each path and each directory above it is tested
 * against the glob, so a change costs its depth and never a listing.
 */
export function candidates(changes: readonly Change[], inputs: ReadonlyMap<number, InputRule>): Candidate[] {
  const found: Candidate[] = [];
  for (const [input, { rule }] of inputs) {
    const directories = new Set<string>();
    for (const { path, now } of changes) {
      if (!path.endsWith("/") && rule.matches(path)) {
        found.push({ input, path, file: now?.kind === "file" ? now : null, directory: false });
      }
      for (const directory of directoriesOf(path)) directories.add(directory);
    }
    for (const path of directories) {
      if (rule.matches(path)) found.push({ input, path, file: null, directory: true });
    }
  }
  return found;
}

/** The directories that a change at `path` is in; an empty directory, "a/b/", is in itself. */
function directoriesOf(path: string): string[] {
  return path.endsWith("/") ? [...ancestors(path), path.slice(0, -1)] : ancestors(path);
}

/** The inputs that read a source, by their index. */
export function readersOf(inputs: readonly InputRule[], source: number): Map<number, InputRule> {
  return new Map([...inputs.entries()].filter(([, input]) => input.source === source));
}

/** The inputs of a view, by their index. */
export function inputsOf(inputs: readonly InputRule[], view: View): Map<number, InputRule> {
  return new Map([...inputs.entries()].filter(([index]) => view.inputs.includes(index)));
}

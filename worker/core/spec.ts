import type { Issue } from "../../protocol/errors.ts";
import type { PipelineSpec, ResolvedInput } from "../../protocol/spec.ts";
import { parseGlob } from "./glob.ts";

/** `/pfs/out` is where a job writes (spec §2.8), so no input may be called that. */
const RESERVED_INPUT = "out";

export type CheckedSpec = { ok: true; inputs: ResolvedInput[] } | { ok: false; issues: Issue[] };

/**
 * The rules of a specification that need more than one field (spec §2.4, §2.6). Answers the inputs with every
 * default filled in, by name, or all problems at once, each with its JSON path.
 */
export function checkSpec(spec: PipelineSpec): CheckedSpec {
  const issues: Issue[] = [];
  const inputs: ResolvedInput[] = [];
  const indexOf = new Map<string, number>();
  for (const [index, input] of spec.inputs.entries()) {
    const name = input.name ?? input.repo.name;
    const namePath = input.name === undefined ? `inputs[${index}].repo.name` : `inputs[${index}].name`;
    if (name === RESERVED_INPUT) {
      issues.push({
        path: namePath,
        message: "an input can't be called 'out', which is where a job writes: give it another name",
      });
    }
    const other = indexOf.get(name);
    if (other !== undefined) {
      issues.push({
        path: namePath,
        message: `the input '${name}' has the name of inputs[${other}]: give each its own name`,
      });
    } else indexOf.set(name, index);
    if (input.repo.name === spec.pipeline.name && input.branch === spec.outputBranch) {
      issues.push({
        path: `inputs[${index}].repo.name`,
        message: `the pipeline would read its own output, ${input.branch} of ${input.repo.name}: read another repo`,
      });
    }
    const glob = parseGlob(input.glob);
    if (!glob.ok) {
      issues.push({ path: `inputs[${index}].glob`, message: `the glob '${input.glob}' ${glob.problem}` });
    } else inputs.push({ name, repo: input.repo.name, branch: input.branch, glob: glob.glob.text });
  }
  if (issues.length > 0) return { ok: false, issues };
  return { ok: true, inputs: inputs.sort((a, b) => (a.name < b.name ? -1 : 1)) };
}

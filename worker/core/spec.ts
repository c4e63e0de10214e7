import type { Issue } from "../../protocol/errors.ts";
import { type BranchAddress, bucketName } from "../../protocol/names.ts";
import { ERRORS_BRANCH, foreignHost, type PipelineSpec, type ResolvedInput } from "../../protocol/spec.ts";
import { normaliseGlob, parseGlob } from "./glob.ts";
import { type InputOutline, outlineOf, type SpecOutline } from "./spec-outline.ts";

/** A job writes to `/pfs/out`, so that no input may have this name. */
const RESERVED_INPUT = "out";

export type CheckedSpec = { ok: true; inputs: ResolvedInput[] } | { ok: false; issues: Issue[] };

/**
 * The rules of a specification that need more than one field. Returns the inputs by name, with every default filled in,
 * or all problems at once, each with its JSON path.
 */
export function checkSpec(spec: PipelineSpec): CheckedSpec {
  const issues = ruleIssues(outlineOf(spec));
  if (issues.length > 0) return { ok: false, issues };
  const inputs = spec.inputs.map(
    ({ name, repo, branch, glob, lazy, from }): ResolvedInput => ({
      name: name ?? repo.name,
      repo: repo.name,
      branch,
      glob: normaliseGlob(glob),
      lazy,
      from: from?.ID ?? null,
    }),
  );
  return { ok: true, inputs: inputs.sort((a, b) => (a.name < b.name ? -1 : 1)) };
}

/** The problems of a specification with those rules, as far as it could be read. */
export function ruleIssues(outline: SpecOutline): Issue[] {
  return [...inputIssues(outline), ...egressIssues(outline.egress), ...errorsIssues(outline)];
}

/** The branch that tells of failed datums can't be that of the output. */
function errorsIssues({ skips, outputBranch }: SpecOutline): Issue[] {
  if (!skips || outputBranch !== ERRORS_BRANCH) return [];
  const message = `with 'skip' the branch '${ERRORS_BRANCH}' tells of failed datums, so that outputBranch can't be '${ERRORS_BRANCH}': choose another outputBranch, or leave this field out`;
  return [{ path: "onDatumFailure", message }];
}

function inputIssues(outline: SpecOutline): Issue[] {
  const indexOf = new Map<string, number>();
  return outline.inputs.flatMap((input, index) => {
    const other = input.name === undefined ? undefined : indexOf.get(input.name);
    if (input.name !== undefined && other === undefined) indexOf.set(input.name, index);
    const found = [
      ...nameProblems(input, other).map((message) => ({ path: input.namedBy, message })),
      ...loopProblems(input, outline).map((message) => ({ path: "repo.name", message })),
      ...globProblems(input).map((message) => ({ path: "glob", message })),
      ...fromProblems(input).map((message) => ({ path: "from.repo.name", message })),
    ];
    return found.map(({ path, message }) => ({ path: `inputs[${index}].${path}`, message }));
  });
}

/**
 * The credentials of a runner's environment are for the vendors alone. An address that the author of a pipeline chose
 * would get what they sign, so it needs credentials that came for it.
 */
function egressIssues({ url = "", hasEndpoint, hasSecret }: SpecOutline["egress"]): Issue[] {
  // Only there may a URL name a host: elsewhere what stands before an '@' is a fault of form.
  const host = /^(wasbs?|as):/.test(url) ? foreignHost(url) : undefined;
  const issues: Issue[] = [];
  if (hasEndpoint && !hasSecret) {
    const message =
      "needs 'secret': an address of your own takes credentials of its own, never those of the runner's environment";
    issues.push({ path: "egress.endpoint", message });
  }
  if (host !== undefined && !hasSecret) {
    const message = `'${host}' is not a host of Azure Blob Storage: name the credentials for it with 'secret'`;
    issues.push({ path: "egress.URL", message });
  }
  if (url.split("/").some((segment) => segment === "." || segment === "..")) {
    issues.push({
      path: "egress.URL",
      message: "can't have '.' or '..' as a folder: name the folder itself",
    });
  }
  return issues;
}

/** The specification with globs as they are kept, and with the defaults that depend on other fields. */
export function resolveSpec(spec: PipelineSpec): PipelineSpec {
  const inputs = spec.inputs.map((input) => ({
    ...input,
    name: input.name ?? input.repo.name,
    glob: normaliseGlob(input.glob),
  }));
  return { ...spec, inputs };
}

function nameProblems({ name, namedBy }: InputOutline, other: number | undefined): string[] {
  const remedy = namedBy === "name" ? "give it another name" : "give it a name of its own with 'name'";
  if (name === RESERVED_INPUT) {
    return [`an input can't be called '${RESERVED_INPUT}', which is where a job writes: ${remedy}`];
  }
  return other === undefined ? [] : [`the input '${name}' has the name of inputs[${other}]: ${remedy}`];
}

function loopProblems({ repo, branch }: InputOutline, outline: SpecOutline): string[] {
  if (repo === undefined || branch === undefined || !writesTo(outline, { repo, branch })) return [];
  return [`the pipeline would read its own output, '${bucketName({ repo, branch })}': read another repo`];
}

/** Whether a branch is one that the pipeline itself writes to. */
export function writesTo(
  { pipeline, outputBranch, skips }: Pick<SpecOutline, "pipeline" | "outputBranch" | "skips">,
  { repo, branch }: BranchAddress,
): boolean {
  return repo === pipeline && (branch === outputBranch || (skips && branch === ERRORS_BRANCH));
}

function globProblems({ glob }: InputOutline): string[] {
  const parsed = glob === undefined ? undefined : parseGlob(glob);
  return parsed && !parsed.ok ? [`the glob '${glob}' ${parsed.problem}`] : [];
}

/** An input can start only after a commit of its own branch. */
function fromProblems({ repo, from }: InputOutline): string[] {
  if (repo === undefined || from.repo === undefined || from.repo === repo) return [];
  return [`an input starts after a commit of its own repo, '${repo}', not of '${from.repo}'`];
}

/** JSON with the fields of every object in order: of two specifications the same if they say the same. */
export function sortedJson(value: unknown): string | undefined {
  return JSON.stringify(value, (_, part: unknown) =>
    part !== null && typeof part === "object" && !Array.isArray(part)
      ? Object.fromEntries(Object.entries(part).sort(([a], [b]) => (a < b ? -1 : 1)))
      : part,
  );
}

import type { Maker } from "../../../protocol/commits.ts";
import { datumPaths } from "../../core/datums.ts";
import type { Uses } from "../context.ts";
import type { MakerPage, PipelineApi } from "../contract.ts";
import type { Definition } from "../definition.ts";
import { fileAt } from "./datum-view.ts";
import type { JobRow } from "./job-store.ts";

/** The datums that made a path of a job's output commit, and what they read at that job, however long ago it was. */
export async function makersOf(
  uses: Uses<
    "exists" | "pipeline" | "jobs" | "makers" | "results" | "codes" | "attempts" | "elements",
    "branch"
  >,
  { job: id, branch, path, after, limit }: Parameters<PipelineApi["provenance"]>[0],
): Promise<MakerPage | "no-such-job" | "not-kept" | "not-yet"> {
  const { ledger } = uses;
  const row = ledger.exists ? ledger.pipeline.row() : undefined;
  const job = row && ledger.jobs.byId(id);
  const definition = job && ledger.pipeline.definitionAt(job.revision);
  if (!row || !job || !definition) return "no-such-job";
  if (!isOutput(definition, branch)) return { datums: [], next: null };
  if (job.n < row.madeFrom) return "not-kept";
  if (job.n > row.committed) return "not-yet";
  const makers = ledger.makers.of(path, { job: job.n, after, limit });
  const datums: Maker[] = [];
  for (const { id: datum, salt, key, code: published } of makers) {
    const origin = ledger.results.origin({ id: datum, salt });
    const ran = origin && ledger.jobs.get(origin.job);
    const attempt = ran && ledger.attempts.get(ran.n, datum);
    // The datum may have run again since, as its content was gone: then this job has what ran it before.
    const code = ledger.codes.get(origin && origin.job <= job.n ? origin.code : published);
    datums.push({
      id: datum,
      state: ran?.n === job.n ? "success" : "skipped",
      job: ran?.id ?? null,
      node: attempt?.node ?? code?.node ?? null,
      exitCode: origin?.exitCode ?? null,
      code,
      inputs: await inputsOf(uses, { definition, job, key }),
    });
  }
  return { datums, next: nextAfter(makers, limit) };
}

/** A full page may have others after it. */
function nextAfter(page: readonly { readonly key: string }[], limit: number): string | null {
  return page.length === limit ? (page.at(-1)?.key ?? null) : null;
}

/** Whether a branch of the pipeline's repo is the one of its output; undefined stands for that. */
function isOutput({ output }: Definition, branch: string = output.branch): boolean {
  return branch === output.branch;
}

async function inputsOf(
  { ledger, peers }: Uses<"elements", "branch">,
  { definition, job, key }: { definition: Definition; job: JobRow; key: string },
): Promise<Maker["inputs"]> {
  const paths = datumPaths(key);
  return await Promise.all(
    definition.inputs.map(async ({ name, repo, branch, source }, input) => {
      const path = paths[input] ?? "";
      const position = job.positions[source];
      const kind =
        ledger.elements.at({ input, path, job: job.n })?.kind ??
        // The element itself may be kept no more.
        ((await fileAt(peers.branch({ repo, branch }), path, position)) ? "file" : "dir");
      return { name, repo, branch, commit: position?.commit ?? null, path, kind };
    }),
  );
}

import type { Maker } from "../../../protocol/commits.ts";
import { datumPaths } from "../../core/datums.ts";
import type { PipelineContext } from "../context.ts";
import type { MakerPage, ProvenanceCall } from "../contract.ts";
import type { JobRow } from "../jobs/job-store.ts";
import type { Ledger } from "../ledger/ledger.ts";
import type { Definition } from "../lifecycle/definition.ts";
import type { MakerRow } from "../output/published-store.ts";
import { fileAt, isKept } from "./datum.ts";

/** The datums that made a path of a job's output commit, and what they read at that job, however long ago it was. */
export async function makersOf(
  context: PipelineContext,
  { job: id, branch, path, after, limit }: ProvenanceCall,
): Promise<MakerPage | "no-such-job" | "not-yet"> {
  const { ledger } = context;
  const row = ledger.exists ? ledger.pipeline.row() : undefined;
  const present = row && ledger.pipeline.definition();
  // Its output branch is that of all versions.
  if (present && !isOutput(present, branch)) return { datums: [], next: null };
  const job = row && ledger.jobs.byId(id);
  const definition = job && ledger.pipeline.definitionAt(job.revision);
  if (!row || !job || !definition) return "no-such-job";
  if (job.n > row.committed) return "not-yet";
  const makers = ledger.makers.of(path, { job: job.n, after, limit });
  const datums: Maker[] = [];
  for (const maker of makers) {
    const inputs = await inputsOf(context, { definition, job, key: maker.key });
    datums.push({ ...ranOf(ledger, { job, maker }), inputs });
  }
  return { datums, next: nextAfter(makers, limit) };
}

/** Where a datum ran, how it ended and what ran it, as far as that is kept. */
function ranOf(
  { results, jobs, attempts, codes }: Ledger,
  { job, maker: { id, salt, code: published } }: { job: JobRow; maker: MakerRow },
): Omit<Maker, "inputs"> {
  const origin = results.origin({ id, salt });
  const ran = origin && jobs.get(origin.job);
  const attempt = ran && attempts.get(ran.n, id);
  // The datum may have run again since, as its content was gone: then this job has what ran it before.
  const code = codes.get(origin && origin.job <= job.n ? origin.code : published);
  return {
    id,
    state: origin?.job === job.n ? "success" : "skipped",
    job: ran?.id ?? null,
    node: attempt?.node ?? code?.node ?? null,
    exitCode: origin?.exitCode ?? null,
    code,
  };
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
  { ledger, peers }: PipelineContext,
  { definition, job, key }: { definition: Definition; job: JobRow; key: string },
): Promise<Maker["inputs"]> {
  const paths = datumPaths(key);
  return await Promise.all(
    definition.inputs.map(async ({ name, repo, branch, source }, input) => {
      const path = paths[input] ?? "";
      const position = job.positions[source];
      const commit = position?.commit ?? null;
      const read = { name, repo, branch, commit, path };
      const known = ledger.elements.at({ input, path, job: job.n })?.kind;
      const kept = commit === null || (await isKept(peers.branch({ repo, branch }), commit));
      // Whether it was a file or a directory is not known any more: it is shown as it is named.
      if (!kept) return { ...read, kind: known ?? "file", kept: false };
      // The element itself may be kept no more.
      const kind = known ?? ((await fileAt(peers.branch({ repo, branch }), path, position)) ? "file" : "dir");
      return { ...read, kind };
    }),
  );
}

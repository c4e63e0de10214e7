import type { BranchAddress } from "../../../protocol/names.ts";
import type { Task } from "../../../protocol/runner.ts";
import type { PipelineApi } from "../../../worker/pipeline/contract.ts";
import { branchOf, type Pusher, textOf } from "./support.ts";

/** The files of a branch with their texts, which are small. */
export async function textsOf(address: BranchAddress): Promise<Record<string, string>> {
  const listed = await branchOf(address).files.list({ prefix: "", limit: 1000 });
  if (!listed.ok) throw new Error(listed.reason);
  const texts: Record<string, string> = {};
  for (const entry of listed.entries) {
    if (entry.kind === "file") texts[entry.path] = await textOf(address, entry);
  }
  return texts;
}

/** Leases until there are tasks; for tests that hold on to one. */
export async function leaseTasks(
  pipeline: PipelineApi,
  { worker = "w1", max = 10 }: { worker?: string; max?: number } = {},
): Promise<{ tasks: readonly Task[]; output: BranchAddress }> {
  const leased = await pipeline.leases.take({ node: "n1", worker, max, waitMs: 10_000 });
  if (!leased.ok || leased.tasks.length === 0) throw new Error(`no task: ${JSON.stringify(leased)}`);
  return { tasks: leased.tasks, output: leased.output };
}

/** An external store, as a worker sees it. */
export class FakeStore {
  readonly files = new Map<string, string>();
  /** Paths of every slice that was pushed. */
  readonly slices: string[][] = [];
  /** Why the next pushes fail. */
  readonly faults: string[] = [];

  readonly push: Pusher = ({ entries }) => {
    const fault = this.faults.shift();
    if (fault !== undefined) return fault;
    this.slices.push(entries.map(({ path }) => path));
    for (const { path, content } of entries) {
      if (content) this.files.set(path, content.digest);
      else this.files.delete(path);
    }
    return undefined;
  };
}

import type { ParallelismSpec, Transform } from "../../protocol/spec.ts";

/** A pipeline, as far as it decides where workers run. */
export interface PipelineDemand {
  readonly name: string;
  readonly parallelism: ParallelismSpec;
  readonly container?: Transform["container"];
}

/** A node, as far as it decides what runs there. */
export interface NodeAbility {
  readonly name: string;
  /** As its agent calls it. */
  readonly executor: string;
}

/** So many workers of one pipeline, on one node. */
export interface WorkerShare {
  readonly pipeline: string;
  readonly count: number;
}

/** Whether a node may run a pipeline's commands: if they demand a container, not one that runs processes. */
export function isAble(
  { executor }: Pick<NodeAbility, "executor">,
  container: Transform["container"],
): boolean {
  return container !== "required" || executor !== "process";
}

/** How many workers a pipeline has: exactly the constant, or coefficient × live nodes, rounded down, at least one. */
export function workerCount(parallelism: ParallelismSpec, liveNodes: number): number {
  if (parallelism.strategy === "CONSTANT") return parallelism.constant;
  return Math.max(Math.floor(exactly(parallelism.coefficient * liveNodes)), 1);
}

/** A product of decimals as people reckon it: 0.29 × 100 is 29, and not a little less as with doubles. */
function exactly(product: number): number {
  return Number(product.toPrecision(12));
}

/**
 * Which node runs how many workers of which pipeline, among those that may run it: every pipeline spread evenly, each starting at a node of its
 * own, so that pipelines of one worker don't all land on the first node. The same answer to every node that asks.
 */
export function assignWorkers({
  pipelines,
  nodes,
}: {
  pipelines: readonly PipelineDemand[];
  nodes: readonly NodeAbility[];
}): Map<string, WorkerShare[]> {
  const all = nodes.toSorted((a, b) => (a.name < b.name ? -1 : 1));
  const shares = new Map<string, WorkerShare[]>(all.map((node) => [node.name, []]));
  for (const { name, parallelism, container } of pipelines) {
    const ordered = all.filter((node) => isAble(node, container)).map((node) => node.name);
    const workers = workerCount(parallelism, ordered.length);
    const start = fnv1a(name) % Math.max(ordered.length, 1);
    for (const [index, node] of ordered.entries()) {
      const turn = (index - start + ordered.length) % ordered.length;
      const count = Math.floor(workers / ordered.length) + (turn < workers % ordered.length ? 1 : 0);
      if (count > 0) shares.get(node)?.push({ pipeline: name, count });
    }
  }
  return shares;
}

/** FNV-1a, 32 bits, over UTF-16 code units: a spread, not a secret. */
function fnv1a(text: string): number {
  let hash = 0x811c9dc5;
  for (let at = 0; at < text.length; at++) hash = Math.imul(hash ^ text.charCodeAt(at), 0x01000193);
  return hash >>> 0;
}

import { fairShares, type NodeBounds } from "../../protocol/runner.ts";
import type { ParallelismSpec, Transform } from "../../protocol/spec.ts";

/** A pipeline, as far as it decides where workers run. */
interface PipelineDemand {
  readonly name: string;
  readonly parallelism: ParallelismSpec;
  readonly container?: Transform["container"];
}

/** A node that lives, as far as it decides what runs there. */
export interface LiveNode {
  readonly name: string;
  /** As its agent calls it. */
  readonly executor: string;
  /** It is to finish what runs and to take nothing new. */
  readonly draining?: boolean;
  /** Undefined: it has room for any number of workers. */
  readonly bounds?: NodeBounds | undefined;
}

/** So many workers of one pipeline, on one node. */
export interface WorkerShare {
  readonly pipeline: string;
  readonly count: number;
}

/** Whether a node is able to run a pipeline's commands: if they demand a container, not one that runs processes. */
export function isAble({ executor }: Pick<LiveNode, "executor">, container: Transform["container"]): boolean {
  return container !== "required" || executor !== "process";
}

/** The nodes that new workers of a pipeline go to: of those that live, the able ones that are not being drained. */
export function ableNodes<Node extends Omit<LiveNode, "name" | "bounds">>(
  nodes: readonly Node[],
  container?: Transform["container"],
): Node[] {
  return nodes.filter((node) => !node.draining && isAble(node, container));
}

/** How many workers a pipeline has: the constant, or coefficient × its nodes, rounded down, at least one. */
export function workerCount(
  { parallelism, container }: Pick<PipelineDemand, "parallelism" | "container">,
  nodes: Parameters<typeof ableNodes>[0],
): number {
  if (parallelism.strategy === "CONSTANT") return parallelism.constant;
  const { length } = ableNodes(nodes, container);
  return Math.max(Math.floor(exactly(parallelism.coefficient * length)), 1);
}

/** A product of decimals as people reckon it: 0.29 × 100 is 29, and not a little less as with doubles. */
function exactly(product: number): number {
  return Number(product.toPrecision(12));
}

/** The pipelines and the nodes that live, as the catalogue has them. */
interface Spread {
  /** Those of another state than `active` have no workers. */
  readonly pipelines: readonly (PipelineDemand & { readonly state?: string })[];
  readonly nodes: readonly LiveNode[];
}

/**
 * Which node runs how many workers of which pipeline, among those that may run it: every pipeline spread evenly, each
 * starting at a node of its own, so that pipelines of one worker don't all land on the first node. What a node has no room
 * for goes to others. If all of them have too little, each pipeline gets its fair share. The same answer to every node that
 * asks.
 */
export function assignWorkers({ pipelines, nodes }: Spread): Map<string, WorkerShare[]> {
  const all = ableNodes(nodes).toSorted((a, b) => (a.name < b.name ? -1 : 1));
  const shares = new Map<string, WorkerShare[]>(all.map((node) => [node.name, []]));
  const left = new Map(all.map(({ name, bounds }) => [name, bounds?.workers ?? Number.POSITIVE_INFINITY]));
  const active = pipelines.filter(({ state = "active" }) => state === "active");
  const demands = active.map(({ name, ...demand }) => {
    const able = ableNodes(all, demand.container).map((node) => node.name);
    return { name, able, workers: able.length === 0 ? 0 : workerCount(demand, all) };
  });
  const counts = countsOf(demands, left);
  // First those that may run on few nodes: others must not take the room that is there.
  const granted = demands.map(({ name, able }, index) => ({ name, able, workers: counts[index] ?? 0 }));
  for (const { name, able, workers } of granted.toSorted((a, b) => a.able.length - b.able.length)) {
    const start = fnv1a(name) % Math.max(able.length, 1);
    const inTurn = [...able.slice(start), ...able.slice(0, start)];
    for (const [node, count] of spreadEvenly(workers, { nodes: inTurn, left }))
      shares.get(node)?.push({ pipeline: name, count });
  }
  return shares;
}

interface Demand {
  readonly name: string;
  /** The nodes that may run it. */
  readonly able: readonly string[];
  readonly workers: number;
}

/**
 * How many workers each gets of the room that there is. Some may run on some of the nodes only, all of those on the same
 * ones: if these have too little room for their shares, they share it, and the others share the rest.
 */
function countsOf(demands: readonly Demand[], left: ReadonlyMap<string, number>): number[] {
  const roomOf = (names: Iterable<string>) =>
    [...names].reduce((sum, name) => sum + (left.get(name) ?? 0), 0);
  const room = roomOf(left.keys());
  const wants = demands.map(({ workers }) => workers);
  const shares = fairShares(wants, room);
  const isPicky = demands.map(({ able }) => able.length < left.size);
  const some = demands[isPicky.indexOf(true)];
  if (!some) return shares;
  const only = (which: boolean) => wants.map((count, index) => (isPicky[index] === which ? count : 0));
  const sum = (counts: readonly number[]) => counts.reduce((total, count) => total + count, 0);
  const ofPicky = sum(shares.filter((_, index) => isPicky[index]));
  if (ofPicky <= roomOf(some.able)) return shares;
  const picky = fairShares(only(true), roomOf(some.able));
  const others = fairShares(only(false), room - sum(picky));
  return picky.map((count, index) => count + (others[index] ?? 0));
}

/** Spreads so many workers over the nodes, as evenly as what is left of their room allows, and takes them from it. */
function spreadEvenly(
  count: number,
  { nodes, left }: { nodes: readonly string[]; left: Map<string, number> },
): Map<string, number> {
  const spread = new Map<string, number>();
  let missing = count;
  while (missing > 0) {
    const open = nodes.filter((node) => (left.get(node) ?? 0) > 0);
    if (open.length === 0) break;
    const [each, more] = [Math.floor(missing / open.length), missing % open.length];
    for (const [turn, node] of open.entries()) {
      const room = left.get(node) ?? 0;
      const taken = Math.min(room, each + (turn < more ? 1 : 0));
      if (taken === 0) continue;
      spread.set(node, (spread.get(node) ?? 0) + taken);
      left.set(node, room - taken);
      missing -= taken;
    }
  }
  return spread;
}

/** FNV-1a, 32 bits, over UTF-16 code units: a spread, not a secret. */
function fnv1a(text: string): number {
  let hash = 0x811c9dc5;
  for (let at = 0; at < text.length; at++) hash = Math.imul(hash ^ text.charCodeAt(at), 0x01000193);
  return hash >>> 0;
}

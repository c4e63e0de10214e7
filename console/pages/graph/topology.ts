import type { PipelineGraph } from "../../../protocol/pipelines.ts";
import { type Mark, pipelineMark } from "../../parts/state.tsx";

/*
 * What the graph shows: a node for each pipeline, and one for each bucket that no pipeline makes; what a pipeline makes is
 * told by its edges, unless that is to have nodes as well. Pipelines whose names begin alike can be folded into one node. Nothing here knows of places or colours.
 */

export type Listed = PipelineGraph["pipelines"][number];

export interface GraphNode {
  /** Unique among the nodes. */
  readonly id: string;
  readonly kind: "pipeline" | "bucket" | "fold";
  /** What is written on it. */
  readonly label: string;
  /** Of a bucket: undefined. Of a fold: that of the member that is most in need of a look. */
  readonly mark: Mark | undefined;
  /** The pipelines that it stands for: one, or those of the fold. */
  readonly members: readonly Listed[];
}

interface GraphEdge {
  readonly from: string;
  readonly to: string;
}

export interface Graph {
  readonly nodes: readonly GraphNode[];
  readonly edges: readonly GraphEdge[];
}

/** Which member of a fold gives it its mark: the first of these that one has. */
const WORST_FIRST: readonly Mark[] = [
  "failure",
  "waiting",
  "running",
  "egressing",
  "killed",
  "idle",
  "success",
  "skipped",
];

/** What a name begins with, up to its first `-` or `_`; undefined if it has none. */
function prefixOf(name: string): string | undefined {
  const end = name.search(/[-_]/);
  return end <= 0 ? undefined : name.slice(0, end + 1);
}

/** Prefixes that several pipelines have, with how many, in order of their names. */
export function prefixesOf(pipelines: readonly Listed[]): ReadonlyMap<string, number> {
  const found = pipelines.flatMap(({ name }) => prefixOf(name) ?? []).sort();
  const counts = [...Map.groupBy(found, (prefix) => prefix)].map(
    ([prefix, all]) => [prefix, all.length] as const,
  );
  return new Map(counts.filter(([, count]) => count > 1));
}

/** The graph of pipelines, with those folded whose names have one of the prefixes. `hasOutputs`: what pipelines make has nodes. */
export function graphOf(
  pipelines: readonly Listed[],
  folded: ReadonlySet<string>,
  { hasOutputs = false }: { readonly hasOutputs?: boolean } = {},
): Graph {
  const nodeOf = (name: string): string => {
    const prefix = prefixOf(name);
    return prefix !== undefined && folded.has(prefix) ? `fold:${prefix}` : `pipeline:${name}`;
  };
  const members = new Map<string, Listed[]>();
  const makers = new Map<string, string[]>();
  const readers = new Map<string, string[]>();
  for (const one of pipelines) {
    const id = nodeOf(one.name);
    add(members, id, one);
    for (const bucket of one.outputs) add(makers, bucket, id);
    for (const bucket of one.inputs) add(readers, bucket, id);
  }
  const nodes: GraphNode[] = [...members].map(([id, those]) => pipelineNode(id, those));
  const edges = new Map<string, GraphEdge>();
  const connect = (sources: readonly string[], targets: readonly string[]): void => {
    for (const edge of between(sources, targets)) edges.set(`${edge.from} ${edge.to}`, edge);
  };
  for (const bucket of new Set([...readers.keys(), ...(hasOutputs ? makers.keys() : [])])) {
    const [made, read] = [makers.get(bucket) ?? [], readers.get(bucket) ?? []];
    if ((made.length > 0 && !hasOutputs) || isFoldedAway([...made, ...read])) {
      connect(made, read);
      continue;
    }
    const id = `bucket:${bucket}`;
    nodes.push({ id, kind: "bucket", label: bucket, mark: undefined, members: [] });
    connect(made, [id]);
    connect([id], read);
  }
  return { nodes, edges: [...edges.values()] };
}

/** What a fold alone makes or reads is folded with it. */
function isFoldedAway(around: readonly string[]): boolean {
  const [first] = around;
  return first?.startsWith("fold:") === true && around.every((each) => each === first);
}

function between(sources: readonly string[], targets: readonly string[]): GraphEdge[] {
  return sources.flatMap((from) => targets.filter((to) => to !== from).map((to) => ({ from, to })));
}

function pipelineNode(id: string, members: readonly Listed[]): GraphNode {
  const [first] = members;
  if (id.startsWith("fold:")) {
    const marks = new Set(members.map(pipelineMark));
    const mark = WORST_FIRST.find((one) => marks.has(one));
    return { id, kind: "fold", label: id.slice("fold:".length), mark, members };
  }
  const mark = first && pipelineMark(first);
  return { id, kind: "pipeline", label: id.slice("pipeline:".length), mark, members };
}

/** What a graph is made of, as a text: the same text, the same places. States are not in it. */
export function shapeOf({ nodes, edges }: Graph): string {
  return `${nodes.map(({ id }) => id).join(" ")}\n${edges.map(({ from, to }) => `${from} ${to}`).join("\n")}`;
}

/** For each node, those before it and those after it. */
export interface Neighbours {
  readonly before: ReadonlyMap<string, readonly string[]>;
  readonly after: ReadonlyMap<string, readonly string[]>;
}

export function neighboursOf({ edges }: Graph): Neighbours {
  const before = new Map<string, string[]>();
  const after = new Map<string, string[]>();
  for (const { from, to } of edges) {
    add(before, to, from);
    add(after, from, to);
  }
  return { before, after };
}

/** The nodes that a text names: in their labels, or in the name of a pipeline that they stand for. */
export function matching({ nodes }: Graph, text: string): readonly string[] {
  const wanted = text.trim().toLowerCase();
  if (wanted === "") return [];
  return nodes
    .filter(({ label, members }) =>
      [label, ...members.map(({ name }) => name)].some((name) => name.toLowerCase().includes(wanted)),
    )
    .map(({ id }) => id);
}

/** Nodes with all that feeds them and all that they feed. */
export function withStreams(found: readonly string[], { before, after }: Neighbours): ReadonlySet<string> {
  return new Set([...reached(found, before), ...reached(found, after)]);
}

function reached(from: readonly string[], next: ReadonlyMap<string, readonly string[]>): ReadonlySet<string> {
  const seen = new Set(from);
  // What is added meanwhile is iterated over, too.
  for (const id of seen) for (const other of next.get(id) ?? []) seen.add(other);
  return seen;
}

/** The graph of some of its nodes. */
export function only({ nodes, edges }: Graph, wanted: ReadonlySet<string>): Graph {
  return {
    nodes: nodes.filter(({ id }) => wanted.has(id)),
    edges: edges.filter(({ from, to }) => wanted.has(from) && wanted.has(to)),
  };
}

/** The parts of a graph between which no edge goes, the largest first. */
export function partsOf(graph: Graph): Graph[] {
  const { before, after } = neighboursOf(graph);
  const part = new Map<string, number>();
  const parts: { nodes: GraphNode[]; edges: GraphEdge[] }[] = [];
  for (const { id } of graph.nodes) {
    if (part.has(id)) continue;
    const number = parts.push({ nodes: [], edges: [] }) - 1;
    const seen = new Set([id]);
    for (const each of seen) {
      part.set(each, number);
      for (const other of [...(before.get(each) ?? []), ...(after.get(each) ?? [])]) seen.add(other);
    }
  }
  for (const node of graph.nodes) parts[part.get(node.id) ?? 0]?.nodes.push(node);
  for (const edge of graph.edges) parts[part.get(edge.from) ?? 0]?.edges.push(edge);
  return parts.sort((a, b) => b.nodes.length - a.nodes.length);
}

function add<T>(map: Map<string, T[]>, key: string, value: T): void {
  const there = map.get(key);
  if (there) there.push(value);
  else map.set(key, [value]);
}

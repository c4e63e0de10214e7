import { type InLayer, inLayers } from "./layers.ts";
import { type Graph, partsOf } from "./topology.ts";

export const NODE_HEIGHT = 38;

/** How wide a node is, and how far layers are apart. */
export interface Columns {
  readonly nodeWidth: number;
  readonly apart: number;
}

export const WIDE: Columns = { nodeWidth: 196, apart: 80 };
/** A phone shows two of these beside each other. */
export const NARROW: Columns = { nodeWidth: 152, apart: 32 };

/** Between parts that have nothing to do with each other. */
const APART = 56;
/** How much wider than high the whole is to become. */
const ASPECT = 1.7;
/** Between nodes of a layer, and between an edge and what it passes. */
const NODE_APART = 16;
const EDGE_ROOM = 12;
/** After so long, others have a turn: what is typed, and the drawing of what is there. */
const SLICE_MS = 30;

export interface Point {
  readonly x: number;
  readonly y: number;
}

const ORIGIN: Point = { x: 0, y: 0 };

export interface Box {
  readonly left: number;
  readonly top: number;
  readonly right: number;
  readonly bottom: number;
}

export interface PlacedEdge {
  readonly from: string;
  readonly to: string;
  readonly points: readonly Point[];
  /** Around its points. */
  readonly box: Box;
}

/** Where everything is: nodes by their middles. */
export interface Layout {
  readonly places: ReadonlyMap<string, Point>;
  readonly edges: readonly PlacedEdge[];
  readonly width: number;
  readonly height: number;
  readonly nodeWidth: number;
}

/** A part by itself: it is still to be moved beside the others. */
type PlacedPart = Omit<Layout, "edges" | "nodeWidth"> & {
  readonly edges: readonly Omit<PlacedEdge, "box">[];
};

/**
 * Places a graph from left to right, as data flows. Parts that no edge connects are placed by themselves and then put
 * beside each other. Undefined: it was stopped.
 */
export async function layOut(
  graph: Graph,
  { signal, columns = WIDE }: { readonly signal: AbortSignal; readonly columns?: Columns },
): Promise<Layout | undefined> {
  const placed: PlacedPart[] = [];
  let since = performance.now();
  for (const part of partsOf(graph)) {
    if (performance.now() - since > SLICE_MS) {
      await new Promise((resolve) => setTimeout(resolve));
      if (signal.aborted) return undefined;
      since = performance.now();
    }
    placed.push(placePart(part, columns));
  }
  return { ...beside(placed), nodeWidth: columns.nodeWidth };
}

function placePart({ nodes, edges }: Graph, { nodeWidth, apart }: Columns): PlacedPart {
  const numbers = new Map(nodes.map(({ id }, number) => [id, number]));
  const numberOf = (id: string): number => numbers.get(id) ?? 0;
  const layered = inLayers({
    nodes: nodes.length,
    edges: edges.map(({ from, to }) => [numberOf(from), numberOf(to)] as const),
    nodeRoom: NODE_HEIGHT + NODE_APART,
    edgeRoom: EDGE_ROOM,
  });
  const across = ({ layer, y }: InLayer): readonly [Point, Point] => {
    const left = layer * (nodeWidth + apart);
    const middle = y - NODE_APART / 2;
    return [
      { x: left, y: middle },
      { x: left + nodeWidth, y: middle },
    ];
  };
  const ends = layered.nodes.map(across);
  return {
    places: new Map(
      nodes.map(({ id }, number) => {
        const [left] = ends[number] ?? [ORIGIN];
        return [id, { x: left.x + nodeWidth / 2, y: left.y }];
      }),
    ),
    edges: edges.map(({ from, to }, index) => {
      const [start, end] = [ends[numberOf(from)], ends[numberOf(to)]];
      const bends = layered.bends[index] ?? [];
      if (!start || !end) return { from, to, points: [] };
      // One that closes a circle goes back, from the left of its source to the right of its target.
      const points =
        start[0].x < end[0].x
          ? [start[1], ...bends.flatMap(across), end[0]]
          : [start[0], ...bends.flatMap((bend) => across(bend).toReversed()), end[1]];
      return { from, to, points };
    }),
    width: layered.layers * (nodeWidth + apart) - apart,
    height: layered.height - NODE_APART,
  };
}

/** Puts parts into rows, the largest first, so that the whole is about as wide as a screen. */
function beside(parts: readonly PlacedPart[]): Omit<Layout, "nodeWidth"> {
  const area = parts.reduce((sum, { width, height }) => sum + (width + APART) * (height + APART), 0);
  const rowWidth = Math.max(...parts.map(({ width }) => width), Math.sqrt(area * ASPECT));
  const places = new Map<string, Point>();
  const edges: PlacedEdge[] = [];
  let x = 0;
  let y = 0;
  let rowHeight = 0;
  let widest = 0;
  for (const part of [...parts].sort((a, b) => b.height - a.height)) {
    if (x > 0 && x + part.width > rowWidth) {
      x = 0;
      y += rowHeight + APART;
      rowHeight = 0;
    }
    const moved = (point: Point): Point => ({ x: point.x + x, y: point.y + y });
    for (const [id, point] of part.places) places.set(id, moved(point));
    for (const { from, to, points } of part.edges) {
      const there = points.map(moved);
      edges.push({ from, to, points: there, box: boxAround(there) });
    }
    widest = Math.max(widest, x + part.width);
    x += part.width + APART;
    rowHeight = Math.max(rowHeight, part.height);
  }
  return { places, edges, width: widest, height: y + rowHeight };
}

function boxAround(points: readonly Point[]): Box {
  const xs = points.map(({ x }) => x);
  const ys = points.map(({ y }) => y);
  return { left: Math.min(...xs), right: Math.max(...xs), top: Math.min(...ys), bottom: Math.max(...ys) };
}

/** What a node covers whose middle is at a place. */
export function nodeBox({ x, y }: Point, { nodeWidth }: Pick<Columns, "nodeWidth">): Box {
  const [halfWidth, halfHeight] = [nodeWidth / 2, NODE_HEIGHT / 2];
  return { left: x - halfWidth, right: x + halfWidth, top: y - halfHeight, bottom: y + halfHeight };
}

/** Whether two boxes have a point in common. */
export function meets(a: Box, b: Box): boolean {
  return a.left <= b.right && b.left <= a.right && a.top <= b.bottom && b.top <= a.bottom;
}

/** Whether the first one holds the second one. */
export function holds(a: Box, b: Box): boolean {
  return a.left <= b.left && a.right >= b.right && a.top <= b.top && a.bottom >= b.bottom;
}

/*
 * Places a graph in layers from left to right: a thousand nodes in tens of milliseconds, for which the libraries that there
 * are take seconds. The method is Sugiyama's, as theirs is:
 *
 * 1. Edges that close a circle are turned round, so that every edge goes to the right.
 * 2. Each node gets a layer behind all that is before it.
 * 3. Edges that pass layers get a bend in each of them, which takes room there like a node.
 * 4. Layers are ordered by what each cell is connected with, to and fro, and the order with the fewest crossings is kept.
 * 5. Each cell goes as near as its neighbours in the layer let it to what it is connected with.
 *
 * The same graph gets the same places: nothing is left to chance or to the time that it took.
 */

/** What is to be placed: nodes by their numbers from 0, of one size. */
export interface Unplaced {
  readonly nodes: number;
  readonly edges: readonly (readonly [from: number, to: number])[];
  /** How high a node is with the space to its neighbours. */
  readonly nodeRoom: number;
  /** How high an edge is that passes between nodes. */
  readonly edgeRoom: number;
}

/** A place in a layer; `y` is the middle. */
export interface InLayer {
  readonly layer: number;
  readonly y: number;
}

export interface Layered {
  readonly nodes: readonly InLayer[];
  /** Of each edge where it passes layers, from its source to its target. */
  readonly bends: readonly (readonly InLayer[])[];
  readonly layers: number;
  readonly height: number;
}

/** A node, or the bend of an edge in a layer that it passes. */
interface Cell {
  readonly room: number;
  readonly isBend: boolean;
  layer: number;
  /** From 0 in its layer. */
  place: number;
  y: number;
  readonly before: Cell[];
  readonly after: Cell[];
}

/**
 * An edge that passes more layers goes straight, behind the nodes: what a thousand steps read would take room beside each of
 * them, and hide what it is about.
 */
const MOST_PASSED = 12;
/** So many bends at most: of a graph that would have more, the longest edges go straight, too. */
const MOST_BENDS = 10_000;
/** Sweeps to and fro that look for an order with fewer crossings, and how many of them may find none. */
const ORDER_ROUNDS = 24;
const VAIN_ROUNDS = 4;
/** Sweeps to and fro that draw cells to what they are connected with. */
const HEIGHT_ROUNDS = 4;
/** How much an edge wants to be level, by how many of its ends are bends: a long edge is to be a line. */
const LEVEL = [1, 2, 8] as const;
/** A cell without an edge stays where it is, if nobody minds. */
const STAY = 0.01;

/** Gives every node a layer and a height, and every edge that passes layers its bends. */
export function inLayers({ nodes, edges, nodeRoom, edgeRoom }: Unplaced): Layered {
  const cells = Array.from({ length: nodes }, () => cell(nodeRoom));
  const given = edges.flatMap(([from, to], index) => {
    const [a, b] = [cells[from], cells[to]];
    return a && b && a !== b ? [{ index, from: a, to: b, isTurned: false }] : [];
  });
  connectAll(cells, given);
  const order = inOrder(cells);
  const numbers = new Map(order.map((each, number) => [each, number]));
  const forward = given.map((edge) => {
    const { from, to } = edge;
    const isTurned = (numbers.get(from) ?? 0) > (numbers.get(to) ?? 0);
    return isTurned ? { ...edge, from: to, to: from, isTurned } : edge;
  });
  connectAll(cells, forward);
  chooseLayers(order);
  // From here on they are connected by way of the bends.
  connectAll(cells, []);
  const all = [...cells];
  const bends: InLayer[][] = edges.map(() => []);
  const most = mostPassed(forward);
  for (const { index, isTurned, from, to } of forward) {
    const own = passedBy({ from, to }) > most ? [] : passing(from, to, edgeRoom);
    all.push(...own);
    bends[index] = isTurned ? own.reverse() : own;
  }
  const layers = firstOrder(all);
  reduceCrossings(layers);
  const height = chooseHeights(layers);
  return { nodes: cells, bends, layers: layers.length, height };
}

function cell(room: number, layer = 0, isBend = false): Cell {
  return { room, isBend, layer, place: 0, y: 0, before: [], after: [] };
}

function connect(from: Cell, to: Cell): void {
  from.after.push(to);
  to.before.push(from);
}

/** Connects cells by these edges and no others. */
function connectAll(cells: readonly Cell[], edges: readonly Edge[]): void {
  for (const { before, after } of cells) before.length = after.length = 0;
  for (const { from, to } of edges) connect(from, to);
}

/** All cells, each behind those that it reads. In a circle the first one goes first: the edges that lead to it go back. */
function inOrder(cells: readonly Cell[]): Cell[] {
  const missing = new Map(cells.map((each) => [each, each.before.length]));
  const order = new Set<Cell>();
  const follow = (first: Cell): void => {
    const ready = new Set([first]);
    // What is added meanwhile is iterated over, too.
    for (const each of ready) {
      order.add(each);
      for (const next of each.after) {
        const left = (missing.get(next) ?? 0) - 1;
        missing.set(next, left);
        if (left === 0 && !order.has(next)) ready.add(next);
      }
    }
  };
  for (const each of cells.filter((one) => missing.get(one) === 0)) follow(each);
  // What is left is in a circle, or behind one.
  for (const each of cells) if (!order.has(each)) follow(each);
  return [...order];
}

/** The first layer that each can have; and what is read more than it reads goes as far right as its readers let it. */
function chooseLayers(order: readonly Cell[]): void {
  for (const each of order)
    each.layer = each.before.reduce((most, { layer }) => Math.max(most, layer + 1), 0);
  for (const each of order.toReversed()) {
    if (each.after.length <= each.before.length) continue;
    each.layer = each.after.reduce(
      (least, { layer }) => Math.min(least, layer - 1),
      Number.POSITIVE_INFINITY,
    );
  }
}

interface Edge {
  readonly from: Cell;
  readonly to: Cell;
}

function passedBy({ from, to }: Edge): number {
  return to.layer - from.layer - 1;
}

/** How many layers an edge may pass to be led round their nodes. */
function mostPassed(edges: readonly Edge[]): number {
  const passed = edges.map(passedBy);
  let bends = 0;
  for (let most = 1; most <= MOST_PASSED; most++) {
    bends += most * passed.filter((each) => each === most).length;
    if (bends > MOST_BENDS) return most - 1;
  }
  return MOST_PASSED;
}

/** Connects two cells by bends in the layers between them, and returns these. */
function passing(from: Cell, to: Cell, room: number): Cell[] {
  const bends = Array.from({ length: passedBy({ from, to }) }, (_, index) =>
    cell(room, from.layer + 1 + index, true),
  );
  let last = from;
  for (const next of [...bends, to]) {
    connect(last, next);
    last = next;
  }
  return bends;
}

/** The layers, in each the cells as they are met on the way along the edges: what hangs together comes together. */
function firstOrder(cells: readonly Cell[]): Cell[][] {
  const last = cells.reduce((most, { layer }) => Math.max(most, layer), 0);
  const layers: Cell[][] = Array.from({ length: last + 1 }, () => []);
  const seen = new Set<Cell>();
  for (const first of cells.toSorted((a, b) => a.layer - b.layer)) {
    const ahead = [first];
    for (let each = ahead.pop(); each; each = ahead.pop()) {
      if (seen.has(each)) continue;
      seen.add(each);
      layers[each.layer]?.push(each);
      ahead.push(...each.after.toReversed());
    }
  }
  for (const layer of layers) number(layer);
  return layers;
}

function number(layer: readonly Cell[]): void {
  for (const [place, each] of layer.entries()) each.place = place;
}

function reduceCrossings(layers: Cell[][]): void {
  let best = layers.map((layer) => [...layer]);
  let fewest = crossings(layers);
  for (let round = 0, vain = 0; round < ORDER_ROUNDS && vain < VAIN_ROUNDS && fewest > 0; round++, vain++) {
    const isRight = round % 2 === 0;
    for (const layer of isRight ? layers : layers.toReversed()) sortBy(layer, isRight ? "before" : "after");
    const count = crossings(layers);
    if (count >= fewest) continue;
    fewest = count;
    best = layers.map((layer) => [...layer]);
    vain = 0;
  }
  for (const [index, layer] of best.entries()) {
    number(layer);
    layers[index] = layer;
  }
}

/** Sorts a layer by the middle of what each cell is connected with on one side. Cells without any keep their places. */
function sortBy(layer: Cell[], side: "before" | "after"): void {
  const connected = layer.filter((each) => each[side].length > 0);
  const middles = new Map(
    connected.map((each) => [
      each,
      each[side].reduce((sum, { place }) => sum + place, 0) / each[side].length,
    ]),
  );
  const sorted = connected.toSorted((a, b) => (middles.get(a) ?? 0) - (middles.get(b) ?? 0));
  let next = 0;
  for (const [place, each] of layer.entries()) {
    const taken = each[side].length > 0 ? sorted[next++] : undefined;
    if (taken) layer[place] = taken;
  }
  number(layer);
}

function crossings(layers: readonly (readonly Cell[])[]): number {
  return layers.reduce((sum, layer, index) => sum + crossingsAfter(layer, layers[index + 1]?.length ?? 0), 0);
}

/** How often edges between two layers cross: from the top on, each crosses those that ended below it. A tree of sums counts. */
function crossingsAfter(layer: readonly Cell[], ends: number): number {
  const sums = new Uint32Array(ends + 1);
  let [count, seen] = [0, 0];
  for (const { after } of layer) {
    const places = after.map(({ place }) => place);
    for (const place of places) {
      let above = 0;
      for (let at = place + 1; at > 0; at -= at & -at) above += sums[at] ?? 0;
      count += seen - above;
    }
    for (const place of places) {
      for (let at = place + 1; at <= ends; at += at & -at) sums[at] = (sums[at] ?? 0) + 1;
    }
    seen += places.length;
  }
  return count;
}

/** Returns how high the whole is. */
function chooseHeights(layers: readonly (readonly Cell[])[]): number {
  // At first each is as near to the middle as those above and below it let it.
  for (const layer of layers) settle(layer);
  for (let round = 0; round < HEIGHT_ROUNDS; round++) {
    for (const layer of layers) settle(layer);
    for (const layer of layers.toReversed()) settle(layer);
  }
  let [top, bottom] = [Number.POSITIVE_INFINITY, 0];
  for (const layer of layers) for (const { y, room } of layer) top = Math.min(top, y - room / 2);
  for (const layer of layers) {
    for (const each of layer) {
      each.y -= top;
      bottom = Math.max(bottom, each.y + each.room / 2);
    }
  }
  return bottom;
}

/** Cells of a layer that touch each other. */
interface Block {
  first: number;
  /** Where the first one's middle wants to be, all being heard, and how much. */
  wish: number;
  weight: number;
}

/**
 * Gives the cells of a layer the heights that are, in their order and with their room, the nearest to what they are connected
 * with: by least squares. Those that want the same room become a block, which goes to the middle of their wishes.
 */
function settle(layer: readonly Cell[]): void {
  const blocks: Block[] = [];
  const offsets: number[] = [];
  let offset = 0;
  let last: Cell | undefined;
  for (const [index, each] of layer.entries()) {
    if (last) offset += (last.room + each.room) / 2;
    last = each;
    offsets.push(offset);
    const { y, weight } = wishOf(each);
    let block: Block = { first: index, wish: y - offset, weight };
    for (let above = blocks.at(-1); above && above.wish >= block.wish; above = blocks.at(-1)) {
      blocks.pop();
      const sum = above.weight + block.weight;
      const wish = (above.wish * above.weight + block.wish * block.weight) / sum;
      block = { first: above.first, wish, weight: sum };
    }
    blocks.push(block);
  }
  for (const [number, { first, wish }] of blocks.entries()) {
    const end = blocks[number + 1]?.first ?? layer.length;
    for (const [index, each] of layer.slice(first, end).entries())
      each.y = wish + (offsets[first + index] ?? 0);
  }
}

function wishOf(each: Cell): { y: number; weight: number } {
  let [sum, weight] = [each.y * STAY, STAY];
  for (const side of [each.before, each.after]) {
    for (const other of side) {
      const level = LEVEL[(each.isBend ? 1 : 0) + (other.isBend ? 1 : 0)] ?? 1;
      sum += other.y * level;
      weight += level;
    }
  }
  return { y: sum / weight, weight };
}

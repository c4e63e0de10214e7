import { select } from "d3-selection";
import { type ZoomBehavior, type ZoomTransform, zoom, zoomIdentity, zoomTransform } from "d3-zoom";
import {
  type KeyboardEvent,
  memo,
  startTransition,
  useCallback,
  useEffect,
  useId,
  useMemo,
  useRef,
  useState,
} from "react";
import { Button } from "../../parts/form.tsx";
import { MARK_WORDS, MarkShape } from "../../parts/state.tsx";
import { clockText, counted, spanText } from "../../parts/words.tsx";
import {
  type Box,
  holds,
  type Layout,
  meets,
  NARROW,
  NODE_HEIGHT,
  nodeBox,
  type PlacedEdge,
  type Point,
} from "./layout.ts";
import type { Graph, GraphNode, Neighbours } from "./topology.ts";

/** Below this scale nobody reads names: nodes are then drawn as blocks in their colours. */
const READABLE = 0.42;
const LEAST_SCALE = 0.02;
const MOST_SCALE = 2;
/** A graph whose names could not be read if all of it was shown is first shown in part, at this scale. */
const FIRST_SCALE = 0.5;
const MARGIN = 24;
/** On a phone smaller letters are none that one reads: a graph that would have them is first shown in part, two columns of it. */
const PHONE_SCALE = 1;
const PHONE_MARGIN = 8;
/** So much more than what is seen is drawn, to each side, so that a small move draws nothing. */
const BEYOND = 0.5;
const PAN_PIXELS = 80;
const ZOOM_STEP = 1.3;
/** Where a name begins beside the shape of its state, and how wide a letter is. */
const LABEL_LEFT = 34;
const LETTER_WIDTH = 6.75;

interface DrawingProps {
  readonly graph: Graph;
  readonly layout: Layout;
  readonly neighbours: Neighbours;
  /** Those that are not in it are faint. Undefined: none is. */
  readonly chosen: ReadonlySet<string> | undefined;
  /** When this changes, the first of these comes into the middle if it is out of sight. */
  readonly found: readonly string[];
  /** Opens what a node stands for. */
  open(node: GraphNode): void;
  /** Chooses a node with what is before and after it. */
  choose(node: GraphNode): void;
}

type Zooming = ZoomBehavior<SVGSVGElement, unknown>;

interface Drawn {
  /** What of the graph is drawn. */
  readonly box: Box;
  readonly isReadable: boolean;
}

/**
 * The graph for the eye: of all nodes and edges only those in view are drawn, and some around them. It is moved with the
 * mouse, fingers or keys. With the arrow keys one goes along the edges; the page tells where one is.
 */
export function Drawing({ graph, layout, neighbours, chosen, found, open, choose }: DrawingProps) {
  const svg = useRef<SVGSVGElement>(null);
  const world = useRef<SVGGElement>(null);
  const behaviour = useRef<Zooming>(undefined);
  /** What part of the graph the window shows, whatever its size. Undefined: somebody went elsewhere, and stays there. */
  const fit = useRef<Fit | undefined>(firstTransform);
  const [drawn, setDrawn] = useState<Drawn>();
  const [at, setAt] = useState<string>();
  const names = useId();
  const nodes = useMemo(() => new Map(graph.nodes.map((node) => [node.id, node])), [graph]);

  useEffect(() => {
    const element = svg.current;
    if (!element) return;
    let size = sizeOf(element);
    let shown: Drawn | undefined;
    const look = (transform: ZoomTransform): void => {
      world.current?.setAttribute("transform", transform.toString());
      const view = viewOf(transform, size);
      const isReadable = transform.k >= READABLE;
      // What is drawn is enough for now, and not by far too much.
      const isEnough =
        shown?.isReadable === isReadable &&
        holds(shown.box, view) &&
        shown.box.right - shown.box.left < 4 * (view.right - view.left);
      if (isEnough) return;
      const isFirst = shown === undefined;
      const next = { box: grown(view), isReadable };
      shown = next;
      if (!isFirst) {
        setDrawn(next);
        return;
      }
      // At first what is seen. What is around it comes when that stands.
      setDrawn({ box: view, isReadable });
      startTransition(() => setDrawn(next));
    };
    const zooming = zoom<SVGSVGElement, unknown>()
      .scaleExtent([LEAST_SCALE, MOST_SCALE])
      .clickDistance(4)
      .on("zoom", ({ transform, sourceEvent }: { transform: ZoomTransform; sourceEvent: unknown }) => {
        // The mouse and fingers come with an event; buttons and keys have said it by themselves.
        if (sourceEvent) fit.current = undefined;
        look(transform);
      });
    behaviour.current = zooming;
    const selection = select(element);
    selection.call(zooming).on("dblclick.zoom", null);
    // Where somebody looks already, a pipeline that comes or goes moves nothing.
    const arrange = (): void => {
      selection.call(zooming.transform, fit.current?.(layout, size) ?? zoomTransform(element));
    };
    arrange();
    const resized = new ResizeObserver(() => {
      const before = size;
      size = sizeOf(element);
      if (size.width !== before.width || size.height !== before.height) arrange();
    });
    resized.observe(element);
    return () => {
      resized.disconnect();
      selection.on(".zoom", null);
    };
  }, [layout]);

  /** Moves the picture, after which it shows what somebody chose, or what `then` says. */
  const move = useCallback((act: (zooming: Zooming, element: SVGSVGElement) => void, then?: Fit): void => {
    if (!svg.current || !behaviour.current) return;
    fit.current = then;
    act(behaviour.current, svg.current);
  }, []);

  const moveTo = useCallback(
    (ids: readonly string[]): void => {
      const to = ids.map((id) => layout.places.get(id)).find((found) => found !== undefined);
      // What is seen already is not moved.
      if (
        !to ||
        !svg.current ||
        holds(viewOf(zoomTransform(svg.current), sizeOf(svg.current)), nodeBox(to, layout))
      )
        return;
      move((zooming, element) => select(element).call(zooming.translateTo, to.x, to.y));
    },
    [layout, move],
  );

  useEffect(() => moveTo(found), [found, moveTo]);

  const scaleBy = (factor: number): void =>
    move((zooming, element) => select(element).call(zooming.scaleBy, factor));
  const showAll = (): void =>
    move(
      (zooming, element) => select(element).call(zooming.transform, wholeTransform(layout, sizeOf(element))),
      wholeTransform,
    );
  const pan = ([x, y]: readonly [number, number]): void =>
    move((zooming, element) => {
      const { k } = zoomTransform(element);
      select(element).call(zooming.translateBy, x / k, y / k);
    });
  const goTo = (id: string | undefined): void => {
    if (id === undefined) return;
    setAt(id);
    moveTo([id]);
  };

  function onKeyDown(event: KeyboardEvent): void {
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    const node = at === undefined ? undefined : nodes.get(at);
    const way = PANS[event.key];
    const act = event.shiftKey ? way && (() => pan(way)) : keyAction(event.key, node);
    if (!act) return;
    event.preventDefault();
    act();
  }

  function keyAction(key: string, node: GraphNode | undefined): (() => void) | undefined {
    switch (key) {
      case "+":
      case "=":
        return () => scaleBy(ZOOM_STEP);
      case "-":
        return () => scaleBy(1 / ZOOM_STEP);
      case "0":
        return showAll;
      case "Enter":
        return node && (() => open(node));
      case " ":
        return node && (() => choose(node));
      case "Escape":
        return () => setAt(undefined);
      default:
        if (!key.startsWith("Arrow")) return undefined;
        return () => goTo(stepFrom(at, { key, layout, neighbours }) ?? firstOf(layout, found));
    }
  }

  const current = at === undefined ? undefined : nodes.get(at);
  return (
    <div className="graph">
      {/* biome-ignore lint/a11y/noNoninteractiveElementInteractions: with its role it takes keys, as a canvas of its own. */}
      <svg
        ref={svg}
        role="application"
        aria-label="Graph of pipelines"
        aria-describedby={names}
        aria-activedescendant={current ? domId(names, current.id) : undefined}
        // biome-ignore lint/a11y/noNoninteractiveTabindex: it is moved with keys.
        tabIndex={0}
        onKeyDown={onKeyDown}
        data-nodes={graph.nodes.length}
      >
        <g ref={world}>
          {drawn && (
            <>
              <Edges edges={layout.edges} drawn={drawn} chosen={chosen} />
              <Nodes {...{ graph, layout, drawn, chosen, names, open, choose }} at={at} />
            </>
          )}
        </g>
      </svg>
      <p id={names} className="quiet hints">
        Arrow keys go along the edges, Enter opens, Space chooses with all before and after. + and − zoom, 0
        shows all, Shift with arrows moves.
      </p>
      <p className="hidden" role="status">
        {current && describe(current, neighbours)}
      </p>
      <div className="zoom">
        <Button act={() => scaleBy(ZOOM_STEP)} aria-label="Larger">
          +
        </Button>
        <Button act={() => scaleBy(1 / ZOOM_STEP)} aria-label="Smaller">
          −
        </Button>
        <Button act={showAll}>All</Button>
      </div>
    </div>
  );
}

const PANS: Readonly<Record<string, readonly [number, number]>> = {
  ArrowLeft: [PAN_PIXELS, 0],
  ArrowRight: [-PAN_PIXELS, 0],
  ArrowUp: [0, PAN_PIXELS],
  ArrowDown: [0, -PAN_PIXELS],
};

/** What a node says to who can't see it. */
function describe({ id, kind, label, mark, members }: GraphNode, { before, after }: Neighbours): string {
  const what = {
    pipeline: `pipeline ${label}`,
    bucket: `bucket ${label}`,
    fold: `${counted(members.length, "pipeline")} that begin with ${label}`,
  }[kind];
  const stands =
    mark === undefined ? "" : kind === "fold" ? `, at worst: ${MARK_WORDS[mark]}` : `, ${MARK_WORDS[mark]}`;
  const counts = `${before.get(id)?.length ?? 0} before it, ${after.get(id)?.length ?? 0} after it`;
  return `${what}${stands}; ${counts}`;
}

interface NodesProps {
  readonly graph: Graph;
  readonly layout: Layout;
  readonly drawn: Drawn;
  readonly chosen: ReadonlySet<string> | undefined;
  readonly at: string | undefined;
  readonly names: string;
  open(node: GraphNode): void;
  choose(node: GraphNode): void;
}

const Nodes = memo(function Nodes({ graph, layout, drawn, chosen, at, names, open, choose }: NodesProps) {
  const { nodeWidth } = layout;
  return graph.nodes.map((node) => {
    const place = layout.places.get(node.id);
    if (!place || !meets(nodeBox(place, layout), drawn.box)) return null;
    const isFaint = chosen !== undefined && !chosen.has(node.id);
    const classes = ["node", node.kind, node.mark, isFaint && "faint", at === node.id && "at"];
    return (
      // biome-ignore lint/a11y/noStaticElementInteractions: keys do the same on the graph, which has the focus.
      // biome-ignore lint/a11y/useKeyWithClickEvents: as above.
      <g
        key={node.id}
        id={domId(names, node.id)}
        className={classes.filter(Boolean).join(" ")}
        transform={`translate(${place.x - nodeWidth / 2} ${place.y - NODE_HEIGHT / 2})`}
        onClick={({ shiftKey }) => (shiftKey ? choose(node) : open(node))}
        data-node={node.id}
      >
        {drawn.isReadable ? (
          <Readable node={node} nodeWidth={nodeWidth} />
        ) : (
          <Block mark={node.mark} nodeWidth={nodeWidth} />
        )}
      </g>
    );
  });
});

/** A node from afar. Those that want a look have a shape in it. */
function Block({ mark, nodeWidth }: Pick<GraphNode, "mark"> & Pick<Layout, "nodeWidth">) {
  return (
    <>
      <rect className="block" width={nodeWidth} height={NODE_HEIGHT} rx="6" />
      {(mark === "failure" || mark === "waiting" || mark === "killed") && (
        <svg
          className="shape"
          {...{ x: (nodeWidth - NODE_HEIGHT) / 2, width: NODE_HEIGHT, height: NODE_HEIGHT }}
          viewBox="-2 -2 20 20"
          aria-hidden="true"
        >
          <MarkShape mark={mark} />
        </svg>
      )}
    </>
  );
}

interface ReadableProps extends Pick<Layout, "nodeWidth"> {
  readonly node: GraphNode;
}

function Readable({ node: { kind, label, mark, members }, nodeWidth }: ReadableProps) {
  const letters = Math.floor((nodeWidth - LABEL_LEFT) / LETTER_WIDTH);
  const below = belowOf({ kind, members });
  const words = mark && MARK_WORDS[mark];
  const reason = kind === "pipeline" ? members[0]?.underWay?.reason : undefined;
  return (
    <>
      <title>{[label, below, words, reason].filter((part) => part).join(": ")}</title>
      {kind === "fold" && (
        <rect className="behind" x="5" y="5" width={nodeWidth} height={NODE_HEIGHT} rx="6" />
      )}
      <rect width={nodeWidth} height={NODE_HEIGHT} rx={kind === "bucket" ? NODE_HEIGHT / 2 : 6} />
      {mark && (
        <svg className="shape" x="10" y="11" width="16" height="16" viewBox="0 0 16 16" aria-hidden="true">
          <MarkShape mark={mark} />
        </svg>
      )}
      <text x={mark ? LABEL_LEFT : 16} y={below ? 16 : 24}>
        {shortened(label, letters)}
      </text>
      {below && (
        <text className="below" x={LABEL_LEFT} y="30">
          {nodeWidth === NARROW.nodeWidth ? shortened(below.replace(/, took .*/, ""), letters) : below}
        </text>
      )}
    </>
  );
}

/** Of a fold how many it has, of a pipeline how many jobs are under way, or when its last one ended and how long that took. */
function belowOf({ kind, members }: Pick<GraphNode, "kind" | "members">): string | undefined {
  if (kind === "fold") {
    const failed = members.filter(({ job }) => job?.state === "failure").length;
    return `${counted(members.length, "pipeline")}${failed > 0 ? `, ${failed} failed` : ""}`;
  }
  const { job, underWay } = members[0] ?? {};
  if (underWay) return `${counted(underWay.jobs, "job")} under way`;
  if (!job || job.finishedAt === null) return undefined;
  const took = spanText(job.finishedAt - (job.startedAt ?? job.createdAt));
  return `${clockText(job.finishedAt, Date.now())}, took ${took}`;
}

/** The end of a name tells it from its neighbours as often as its beginning. */
function shortened(label: string, most: number): string {
  if (label.length <= most) return label;
  const half = Math.floor((most - 1) / 2);
  return `${label.slice(0, half)}…${label.slice(-half)}`;
}

interface EdgesProps {
  readonly edges: readonly PlacedEdge[];
  readonly drawn: Drawn;
  readonly chosen: ReadonlySet<string> | undefined;
}

/** All of a kind are one path: a thousand lines cost as much as one element. */
const Edges = memo(function Edges({ edges, drawn, chosen }: EdgesProps) {
  const inView = edges.filter(({ box }) => meets(box, drawn.box));
  const isChosen = ({ from, to }: PlacedEdge): boolean => chosen?.has(from) === true && chosen.has(to);
  const bright = chosen ? inView.filter(isChosen) : inView;
  const faint = chosen ? inView.filter((edge) => !isChosen(edge)) : [];
  return (
    <>
      <path className="edge faint" d={faint.map(pathOf).join("")} />
      <path className={chosen ? "edge bright" : "edge"} d={bright.map(pathOf).join("")} />
      {drawn.isReadable && <path className="tip" d={bright.map(tipOf).join("")} />}
    </>
  );
});

/** From left to right through its points, bent between them. */
function pathOf({ points }: PlacedEdge): string {
  return points
    .map((point, index) => {
      const [x, y] = [round(point.x), round(point.y)];
      const before = points[index - 1];
      if (!before) return `M${x} ${y}`;
      const bend = round((before.x + point.x) / 2);
      return `C${bend} ${round(before.y)} ${bend} ${y} ${x} ${y}`;
    })
    .join("");
}

function tipOf({ points }: PlacedEdge): string {
  const [before, end] = points.slice(-2);
  if (!before || !end) return "";
  return `M${round(end.x)} ${round(end.y)}l${before.x <= end.x ? -7 : 7} -4v8z`;
}

function round(number: number): number {
  return Math.round(number * 10) / 10;
}

interface Size {
  readonly width: number;
  readonly height: number;
}

type Fit = (layout: Layout, size: Size) => ZoomTransform;

function sizeOf(element: Element): Size {
  const { width, height } = element.getBoundingClientRect();
  return { width, height };
}

function viewOf({ x, y, k }: ZoomTransform, { width, height }: Size): Box {
  return { left: -x / k, top: -y / k, right: (width - x) / k, bottom: (height - y) / k };
}

function grown({ left, top, right, bottom }: Box): Box {
  const [x, y] = [(right - left) * BEYOND, (bottom - top) * BEYOND];
  return { left: left - x, right: right + x, top: top - y, bottom: bottom + y };
}

/** All of it, in the middle. */
function wholeTransform({ width, height }: Layout, size: Size): ZoomTransform {
  const fits = Math.min((size.width - 2 * MARGIN) / width, (size.height - 2 * MARGIN) / height);
  const scale = Math.max(LEAST_SCALE, Math.min(1, fits));
  return zoomIdentity
    .translate((size.width - width * scale) / 2, (size.height - height * scale) / 2)
    .scale(scale);
}

/** All of it if its names can then be read, else where data comes in: the first of what is farthest to the left. */
function firstTransform(layout: Layout, size: Size): ZoomTransform {
  const whole = wholeTransform(layout, size);
  const isPhone = layout.nodeWidth === NARROW.nodeWidth;
  if (whole.k >= (isPhone ? PHONE_SCALE : READABLE)) return whole;
  const [scale, left] = isPhone ? [PHONE_SCALE, PHONE_MARGIN] : [FIRST_SCALE, MARGIN];
  const [margin, seen] = [MARGIN / scale, size.height / scale];
  const places = [...layout.places.values()];
  const first = places.reduce((best, place) => {
    const isBefore = place.x < best.x || (place.x === best.x && place.y < best.y);
    return isBefore ? place : best;
  });
  const lowest = layout.height + margin - seen;
  // What is lower than the window stands in its middle.
  const top =
    lowest <= -margin ? (layout.height - seen) / 2 : Math.max(-margin, Math.min(lowest, first.y - seen / 2));
  return zoomIdentity.translate(left, -top * scale).scale(scale);
}

interface Step {
  readonly key: string;
  readonly layout: Layout;
  readonly neighbours: Neighbours;
}

/** Where an arrow key leads: along an edge, or to the next node above or below. */
function stepFrom(
  at: string | undefined,
  { key, layout: { places, nodeWidth }, neighbours }: Step,
): string | undefined {
  const here = at === undefined ? undefined : places.get(at);
  if (at === undefined || !here) return undefined;
  if (key === "ArrowLeft" || key === "ArrowRight") {
    const beside = (key === "ArrowLeft" ? neighbours.before : neighbours.after).get(at) ?? [];
    return nearest(here, { ids: beside, places }) ?? at;
  }
  const side = key === "ArrowUp" ? -1 : 1;
  const column = [...places].filter(
    ([, { x, y }]) => Math.abs(x - here.x) < nodeWidth / 2 && (y - here.y) * side > 0,
  );
  return nearest(here, { ids: column.map(([id]) => id), places }) ?? at;
}

function nearest(
  { x, y }: Point,
  { ids, places }: { readonly ids: readonly string[]; readonly places: Layout["places"] },
): string | undefined {
  const away = (id: string): number => {
    const place = places.get(id);
    return place ? Math.hypot(place.x - x, place.y - y) : Number.POSITIVE_INFINITY;
  };
  return ids.toSorted((a, b) => away(a) - away(b))[0];
}

/** Where the keys begin: at the first that was found, else at the top left. */
function firstOf({ places }: Layout, found: readonly string[]): string | undefined {
  return found.find((id) => places.has(id)) ?? nearest({ x: 0, y: 0 }, { ids: [...places.keys()], places });
}

function domId(names: string, id: string): string {
  return `${names}-${id}`;
}

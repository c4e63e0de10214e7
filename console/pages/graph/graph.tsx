import { useEffect, useId, useMemo, useState } from "react";
import { Link, useLocation, useSearchParams } from "wouter";
import type { PipelineGraph } from "../../../protocol/pipelines.ts";
import type { Live } from "../../gateway/live.ts";
import { CliLine, command } from "../../parts/cli-line.tsx";
import { counted, countText } from "../../parts/numbers.ts";
import { Heard, Page } from "../../parts/page.tsx";
import { pipelineMark, StateMark } from "../../parts/state.tsx";
import { branchPath } from "../pipelines/branch-path.ts";
import { Drawing } from "./drawing.tsx";
import { type Layout, layOut } from "./layout.ts";
import {
  type Graph,
  type GraphNode,
  graphOf,
  type Listed,
  matching,
  type Neighbours,
  neighboursOf,
  only,
  prefixesOf,
  shapeOf,
  withStreams,
} from "./topology.ts";

const NO_PIPELINES: readonly Listed[] = [];

/** What feeds what, and how each pipeline stands. The call is made while this page is loaded. */
export default function GraphPage({ live }: { readonly live: Live<PipelineGraph> }) {
  const pipelines = live.data?.pipelines;
  return (
    <Page title="Graph" cli={command`sluice pipeline list`} live={live} aside={<Heard live={live} />}>
      {pipelines ? (
        pipelines.length === 0 ? (
          <Empty />
        ) : (
          <Shown pipelines={pipelines} />
        )
      ) : (
        !live.fault && <p className="quiet">Asking the gateway…</p>
      )}
    </Page>
  );
}

/** What is searched for, folded and left out stands in the address, so that a link shows the same. */
function useChoices() {
  const [query, setQuery] = useSearchParams();
  const search = query.get("search") ?? "";
  const fold = query.get("fold") ?? "";
  const folded = useMemo(() => new Set(fold.split(",").filter((prefix) => prefix !== "")), [fold]);
  const set = (name: string, value: string): void => {
    const next = new URLSearchParams(query);
    if (value === "") next.delete(name);
    else next.set(name, value);
    setQuery(next, { replace: true });
  };
  return {
    search,
    folded,
    isOnly: query.has("only") && search.trim() !== "",
    isList: query.has("list"),
    setSearch: (text: string) => set("search", text),
    setFolded: (prefixes: readonly string[]) => set("fold", prefixes.join(",")),
    setOnly: (isOnly: boolean) => set("only", isOnly ? "1" : ""),
    setList: (isList: boolean) => set("list", isList ? "1" : ""),
  };
}

function Shown({ pipelines }: { readonly pipelines: readonly Listed[] }) {
  const choices = useChoices();
  const { search, folded, isOnly, isList } = choices;
  const [, go] = useLocation();
  const whole = useMemo(() => graphOf(pipelines, folded), [pipelines, folded]);
  const neighbours = useMemo(() => neighboursOf(whole), [whole]);
  const found = useStable(useMemo(() => matching(whole, search), [whole, search]));
  const chosen = useMemo(
    () => (search.trim() === "" ? undefined : withStreams(found, neighbours)),
    [search, found, neighbours],
  );
  const graph = useMemo(() => (isOnly && chosen ? only(whole, chosen) : whole), [whole, isOnly, chosen]);
  const layout = useLayout(graph);

  function open(node: GraphNode): void {
    if (node.kind === "pipeline") go(`/pipelines/${encodeURIComponent(node.label)}`);
    else if (node.kind === "fold") choices.setFolded([...folded].filter((prefix) => prefix !== node.label));
    else go(branchPath(node.label));
  }

  return (
    <>
      <Figures pipelines={pipelines} />
      <Controls
        {...{ choices, pipelines }}
        words={
          chosen &&
          `${countText(found.length)} found; ${countText(chosen.size)} with all that is before and after ${found.length === 1 ? "it" : "them"}`
        }
      />
      {isList ? (
        <AsList graph={graph} neighbours={neighbours} chosen={chosen} choose={choices.setSearch} />
      ) : layout ? (
        <Drawing
          // Another choice of what is shown is another picture.
          key={`${isOnly} ${[...folded].join(" ")}`}
          {...{ graph, layout, neighbours, chosen, found, open }}
          choose={({ label }) => choices.setSearch(label)}
        />
      ) : (
        <p className="quiet">Placing {counted(graph.nodes.length, "node")}…</p>
      )}
    </>
  );
}

/** A list that stays the same object while it says the same: states change, and nothing that was found. */
function useStable(ids: readonly string[]): readonly string[] {
  const text = ids.join(" ");
  // biome-ignore lint/correctness/useExhaustiveDependencies: the text is what the list says.
  return useMemo(() => ids, [text]);
}

/** Places are worked out anew when what feeds what has changed, and not with each state. */
function useLayout(graph: Graph): Layout | undefined {
  const shape = useMemo(() => shapeOf(graph), [graph]);
  const [layout, setLayout] = useState<Layout>();
  // biome-ignore lint/correctness/useExhaustiveDependencies: the shape is all of the graph that places hang on.
  useEffect(() => {
    const stopping = new AbortController();
    void layOut(graph, stopping.signal).then((laid) => laid && setLayout(laid));
    return () => stopping.abort();
  }, [shape]);
  return layout;
}

function Figures({ pipelines }: { readonly pipelines: readonly Listed[] }) {
  const marks = pipelines.map(pipelineMark);
  const count = (...wanted: readonly string[]): number =>
    marks.filter((mark) => wanted.includes(mark)).length;
  const failed = count("failure");
  const figures = [
    { number: pipelines.length, word: pipelines.length === 1 ? "pipeline" : "pipelines", tone: "" },
    {
      number: failed,
      word: `failed at ${failed === 1 ? "its" : "their"} last job`,
      tone: failed > 0 ? "bad" : "",
    },
    { number: count("waiting"), word: "waiting", tone: "" },
    { number: count("running", "egressing"), word: "running", tone: "" },
  ];
  return (
    <p className="headline">
      {figures.map(({ number, word, tone }) => (
        <span key={word} className={`figure ${tone} ${number === 0 ? "none" : ""}`}>
          <b>{countText(number)}</b> {word}
        </span>
      ))}
    </p>
  );
}

interface ControlsProps {
  readonly choices: ReturnType<typeof useChoices>;
  readonly pipelines: readonly Listed[];
  /** What the search found. */
  readonly words: string | undefined;
}

function Controls({ choices, pipelines, words }: ControlsProps) {
  const { search, folded, isOnly, isList } = choices;
  const ids = { search: useId(), only: useId() };
  const prefixes = useMemo(() => prefixesOf(pipelines), [pipelines]);
  return (
    <div className="controls">
      <div className="find">
        <label htmlFor={ids.search}>Find, with all before and after</label>
        <input
          id={ids.search}
          type="search"
          value={search}
          onChange={({ target }) => choices.setSearch(target.value)}
          placeholder="name of a pipeline or a bucket"
          spellCheck={false}
          autoComplete="off"
        />
      </div>
      <label className="check">
        <input
          id={ids.only}
          type="checkbox"
          checked={isOnly}
          disabled={search.trim() === ""}
          onChange={({ target }) => choices.setOnly(target.checked)}
        />{" "}
        show only these
      </label>
      {prefixes.size > 0 && (
        <details>
          <summary>
            Fold by prefix {folded.size > 0 && <span className="count">{countText(folded.size)} folded</span>}
          </summary>
          <p className="actions">
            <button type="button" onClick={() => choices.setFolded([...prefixes.keys()])}>
              Fold all
            </button>
            <button type="button" onClick={() => choices.setFolded([])}>
              Unfold all
            </button>
          </p>
          <ul className="prefixes">
            {[...prefixes].map(([prefix, count]) => (
              <li key={prefix}>
                <label className="check">
                  <input
                    type="checkbox"
                    checked={folded.has(prefix)}
                    onChange={({ target }) =>
                      choices.setFolded(
                        target.checked ? [...folded, prefix] : [...folded].filter((each) => each !== prefix),
                      )
                    }
                  />{" "}
                  <span className="mono">{prefix}</span> <span className="quiet">{countText(count)}</span>
                </label>
              </li>
            ))}
          </ul>
        </details>
      )}
      <button type="button" aria-pressed={isList} onClick={() => choices.setList(!isList)}>
        As a list
      </button>
      <p className="quiet found" role="status">
        {words}
      </p>
    </div>
  );
}

/** So many lines at first, and with each press more. */
const LINES = 200;
const NAMED = 4;

interface AsListProps {
  readonly graph: Graph;
  readonly neighbours: Neighbours;
  readonly chosen: ReadonlySet<string> | undefined;
  choose(name: string): void;
}

/** The same for who does not see the drawing: each pipeline with what is right before and after it. */
function AsList({ graph, neighbours, chosen, choose }: AsListProps) {
  const [most, setMost] = useState(LINES);
  const nodes = graph.nodes.filter(({ id, kind }) => kind !== "bucket" && (chosen?.has(id) ?? true));
  return (
    <>
      <div className="wide">
        <table>
          <caption className="hidden">Pipelines with what is right before and after each</caption>
          <thead>
            <tr>
              <th scope="col">Pipeline</th>
              <th scope="col">Reads</th>
              <th scope="col">Is read by</th>
              <th scope="col">All before and after</th>
            </tr>
          </thead>
          <tbody>
            {nodes.slice(0, most).map(({ id, kind, label, mark, members }) => (
              <tr key={id}>
                <th scope="row">
                  {mark && <StateMark mark={mark} />}{" "}
                  {kind === "pipeline" ? (
                    <Link href={`/pipelines/${encodeURIComponent(label)}`}>{label}</Link>
                  ) : (
                    `${label} (${counted(members.length, "pipeline")})`
                  )}{" "}
                  {kind === "pipeline" && <span className="quiet">{members[0]?.underWay?.reason}</span>}
                </th>
                <td>{namesText(neighbours.before.get(id))}</td>
                <td>{namesText(neighbours.after.get(id))}</td>
                <td>
                  <button
                    type="button"
                    className="plain"
                    onClick={() => choose(label)}
                    aria-label={`Choose ${label}`}
                  >
                    Choose
                  </button>
                </td>
              </tr>
            ))}
          </tbody>
        </table>
      </div>
      {nodes.length > most && (
        <button type="button" onClick={() => setMost(most + LINES)}>
          Show {countText(Math.min(LINES, nodes.length - most))} more of {countText(nodes.length)}
        </button>
      )}
    </>
  );
}

function namesText(ids: readonly string[] = []): string {
  const names = ids.slice(0, NAMED).map((id) => id.slice(id.indexOf(":") + 1));
  const more = ids.length - names.length;
  return names.length === 0 ? "–" : `${names.join(", ")}${more > 0 ? ` and ${countText(more)} more` : ""}`;
}

function Empty() {
  return (
    <section className="empty" aria-label="First steps">
      <p>
        No pipeline is here yet, so there is nothing to draw. What a pipeline makes is a bucket, which others
        may read: the graph shows who reads whom.
      </p>
      <p>
        <Link href="/new/pipeline">Create a pipeline</Link> here, or:{" "}
        <CliLine line={command`sluice pipeline create -f edges.json`} />
      </p>
    </section>
  );
}

import { useEffect, useMemo, useState, useSyncExternalStore } from "react";
import { Link, useLocation, useSearchParams } from "wouter";
import type { PipelineGraph } from "../../../protocol/pipelines.ts";
import type { Live } from "../../gateway/session.ts";
import { CliLine, command } from "../../parts/cli-line.tsx";
import { Button, Check, Plain, SearchField } from "../../parts/form.tsx";
import { Asked, Figure, Heard, Page, Table } from "../../parts/page.tsx";
import { type Mark, pipelineMark, StateMark } from "../../parts/state.tsx";
import { counted, countText, Mono } from "../../parts/words.tsx";
import { bucketHref, pipelinePath } from "../addresses.ts";
import { Drawing } from "./drawing.tsx";
import { type Layout, layOut, NARROW, WIDE } from "./layout.ts";
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

/** What feeds what, and how each pipeline stands. The call is made while this page is loaded. */
export default function GraphPage({ live }: { readonly live: Live<PipelineGraph> }) {
  return (
    <Page title="Graph" cli={command`sluice pipeline list`} live={live} aside={<Heard live={live} />}>
      <Asked live={live}>
        {({ pipelines }) => (pipelines.length === 0 ? <Empty /> : <Shown pipelines={pipelines} />)}
      </Asked>
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
    hasOutputs: query.has("data"),
    setSearch: (text: string) => set("search", text),
    setFolded: (prefixes: readonly string[]) => set("fold", prefixes.join(",")),
    setOnly: (isOnly: boolean) => set("only", isOnly ? "1" : ""),
    setOutputs: (hasOutputs: boolean) => set("data", hasOutputs ? "1" : ""),
    setList: (isList: boolean) => set("list", isList ? "1" : ""),
  };
}

function Shown({ pipelines }: { readonly pipelines: readonly Listed[] }) {
  const choices = useChoices();
  const { search, folded, isOnly, isList } = choices;
  // The list says which pipeline reads which.
  const hasOutputs = choices.hasOutputs && !isList;
  const [, go] = useLocation();
  const whole = useMemo(() => graphOf(pipelines, folded, { hasOutputs }), [pipelines, folded, hasOutputs]);
  const neighbours = useMemo(() => neighboursOf(whole), [whole]);
  const found = useStable(useMemo(() => matching(whole, search), [whole, search]));
  const chosen = useMemo(
    () => (search.trim() === "" ? undefined : withStreams(found, neighbours)),
    [search, found, neighbours],
  );
  const graph = useMemo(() => (isOnly && chosen ? only(whole, chosen) : whole), [whole, isOnly, chosen]);
  const layout = useLayout(graph);

  function open(node: GraphNode): void {
    if (node.kind === "pipeline") go(pipelinePath(node.label));
    else if (node.kind === "fold") choices.setFolded([...folded].filter((prefix) => prefix !== node.label));
    else go(bucketHref(node.label));
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
          key={`${isOnly} ${hasOutputs} ${[...folded].join(" ")}`}
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

/** As the style has it. */
const PHONE = matchMedia("(max-width: 40rem)");

function subscribePhone(changed: () => void): () => void {
  PHONE.addEventListener("change", changed);
  return () => PHONE.removeEventListener("change", changed);
}

/** Places are worked out anew when what feeds what has changed, and not with each state. */
function useLayout(graph: Graph): Layout | undefined {
  const shape = useMemo(() => shapeOf(graph), [graph]);
  const [layout, setLayout] = useState<Layout>();
  const isPhone = useSyncExternalStore(subscribePhone, () => PHONE.matches);
  // biome-ignore lint/correctness/useExhaustiveDependencies: the shape is all of the graph that places hang on.
  useEffect(() => {
    const stopping = new AbortController();
    const { signal } = stopping;
    const columns = isPhone ? NARROW : WIDE;
    void layOut(graph, { signal, columns }).then((laid) => laid && setLayout(laid));
    return () => stopping.abort();
  }, [shape, isPhone]);
  return layout;
}

function Figures({ pipelines }: { readonly pipelines: readonly Listed[] }) {
  const marks = Map.groupBy(pipelines.map(pipelineMark), (mark) => mark);
  const count = (mark: Mark): number => marks.get(mark)?.length ?? 0;
  const failed = count("failure");
  return (
    <p className="headline">
      <Figure count={pipelines.length} word={pipelines.length === 1 ? "pipeline" : "pipelines"} />
      <Figure
        count={failed}
        word={`failed at ${failed === 1 ? "its" : "their"} last job`}
        isBad={failed > 0}
      />
      <Figure count={count("waiting")} word="waiting" />
      <Figure count={count("running") + count("egressing")} word="running" />
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
  const prefixes = useMemo(() => prefixesOf(pipelines), [pipelines]);
  return (
    <div className="controls">
      <div className="find">
        <SearchField
          label="Find, with all before and after"
          value={search}
          set={choices.setSearch}
          placeholder="name of a pipeline or a bucket"
        />
      </div>
      <Check isSet={isOnly} disabled={search.trim() === ""} set={choices.setOnly}>
        show only these
      </Check>
      <Check isSet={choices.hasOutputs} disabled={isList} set={choices.setOutputs}>
        with what each makes
      </Check>
      {prefixes.size > 0 && (
        <details>
          <summary>
            Fold by prefix {folded.size > 0 && <span className="count">{countText(folded.size)} folded</span>}
          </summary>
          <p className="actions">
            <Button act={() => choices.setFolded([...prefixes.keys()])}>Fold all</Button>
            <Button act={() => choices.setFolded([])}>Unfold all</Button>
          </p>
          <ul className="prefixes">
            {[...prefixes].map(([prefix, count]) => (
              <li key={prefix}>
                <Check
                  isSet={folded.has(prefix)}
                  set={(isSet) =>
                    choices.setFolded([...folded, prefix].filter((each) => isSet || each !== prefix))
                  }
                >
                  <Mono>{prefix}</Mono> <span className="quiet">{countText(count)}</span>
                </Check>
              </li>
            ))}
          </ul>
        </details>
      )}
      <Button aria-pressed={isList} act={() => choices.setList(!isList)}>
        As a list
      </Button>
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
        <Table
          head={["Pipeline", "Reads", "Is read by", "All before and after"]}
          caption="Pipelines with what is right before and after each"
        >
          {nodes.slice(0, most).map(({ id, kind, label, mark, members }) => (
            <tr key={id}>
              <th scope="row">
                {mark && <StateMark mark={mark} />}{" "}
                {kind === "pipeline" ? (
                  <Link href={pipelinePath(label)}>{label}</Link>
                ) : (
                  `${label} (${counted(members.length, "pipeline")})`
                )}{" "}
                {kind === "pipeline" && <span className="quiet">{members[0]?.underWay?.reason}</span>}
              </th>
              <td>{namesText(neighbours.before.get(id))}</td>
              <td>{namesText(neighbours.after.get(id))}</td>
              <td>
                <Plain act={() => choose(label)} aria-label={`Choose ${label}`}>
                  Choose
                </Plain>
              </td>
            </tr>
          ))}
        </Table>
      </div>
      {nodes.length > most && (
        <Button act={() => setMost(most + LINES)}>
          Show {countText(Math.min(LINES, nodes.length - most))} more of {countText(nodes.length)}
        </Button>
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

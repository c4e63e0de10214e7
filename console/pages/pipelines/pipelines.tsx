import { useEffect, useState } from "react";
import { Link, useSearchParams } from "wouter";
import type { PipelineList, Run } from "../../../protocol/pipelines.ts";
import { useLive } from "../../gateway/session.ts";
import { CliLine, command } from "../../parts/cli-line.tsx";
import { SearchField } from "../../parts/form.tsx";
import { RunBars } from "../../parts/jobs.tsx";
import { Asked, Heard, Page } from "../../parts/page.tsx";
import { MARK_WORDS, type Mark, pipelineMark, StateMark } from "../../parts/state.tsx";
import { Ago, counted, Span } from "../../parts/words.tsx";
import { pipelinePath } from "../addresses.ts";
import { PipelineActions } from "./pipeline.tsx";

/** So many of the last jobs of each are shown. */
const RUNS = 30;

/** All pipelines, each with how its last jobs did. */
export default function PipelinesPage() {
  const [query, setQuery] = useSearchParams();
  const search = query.get("search") ?? "";
  const after = query.get("after") ?? undefined;
  const live = useLive<PipelineList>("/pipelines", {
    query: { runs: RUNS, ...(search !== "" && { search }), ...(after !== undefined && { after }) },
  });
  // While another part of the list is on its way, what was there stays.
  const [last, setLast] = useState<PipelineList>();
  useEffect(() => setLast((before) => live.data ?? before), [live.data]);
  const data = live.data ?? last;
  const isEmpty = data?.total === 0 && search === "";
  return (
    <Page
      title="Pipelines"
      cli={command`sluice pipeline list`}
      live={live}
      aside={
        <>
          <Heard live={live} />
          <Link href="/new/pipeline" className="do">
            New pipeline
          </Link>
        </>
      }
    >
      {!isEmpty && (
        <p className="actions find">
          <SearchField
            label="Name contains"
            value={search}
            set={(text) => setQuery(text === "" ? {} : { search: text }, { replace: true })}
          />
          {data?.total !== undefined && <span className="quiet">{counted(data.total, "pipeline")}</span>}
        </p>
      )}
      {isEmpty && <Empty />}
      {data?.pipelines.length === 0 && !isEmpty && <p className="quiet">No pipeline has such a name.</p>}
      {data && data.pipelines.length > 0 && (
        <ul className="pipelines">
          {byTrouble(data.pipelines).map((pipeline) => (
            <Line key={pipeline.name} pipeline={pipeline} reload={live.reload} />
          ))}
        </ul>
      )}
      {!data && <Asked live={live} />}
      {data && (after !== undefined || data.next) && (
        <p className="actions">
          {after !== undefined && <Link href={linkTo({ search, after: undefined })}>First page</Link>}
          {data.next && <Link href={linkTo({ search, after: data.next })}>Those after {data.next}</Link>}
        </p>
      )}
    </Page>
  );
}

function linkTo({ search, after }: { readonly search: string; readonly after: string | undefined }): string {
  const query = new URLSearchParams({
    ...(search !== "" && { search }),
    ...(after !== undefined && { after }),
  });
  return `/pipelines${query.size === 0 ? "" : `?${query}`}`;
}

type Listed = PipelineList["pipelines"][number];

/** What somebody may have to look at first: what failed last, what waits, what runs, what is stopped; then by name. */
function byTrouble(pipelines: readonly Listed[]): Listed[] {
  const rank = (pipeline: Listed): number => {
    const [last] = endedOf(pipeline);
    const mark = last?.state === "failure" ? "failure" : pipelineMarkOf(pipeline);
    return MOST_TROUBLE.indexOf(mark) + 1 || MOST_TROUBLE.length + 1;
  };
  return [...pipelines].sort((a, b) => rank(a) - rank(b));
}

const MOST_TROUBLE: readonly Mark[] = ["failure", "waiting", "running", "egressing", "killed"];

function pipelineMarkOf({ state, runs: [job] = [], underWay }: Listed): Mark {
  return pipelineMark({ state, ...(job && { job }), ...(underWay && { underWay }) });
}

/** Its last jobs that have ended, newest first. */
function endedOf({ runs = [] }: Listed): Run[] {
  return runs.filter(({ finishedAt }) => finishedAt !== null);
}

function Line({ pipeline, reload }: { readonly pipeline: Listed; reload(): void }) {
  const { name, state, description, inputs, runs = [], underWay } = pipeline;
  const mark = pipelineMarkOf(pipeline);
  const [ended] = endedOf(pipeline);
  return (
    <li className={mark}>
      <div className="what">
        <p>
          <StateMark mark={mark} />{" "}
          <Link href={pipelinePath(name)} className="name">
            {name}
          </Link>
        </p>
        <p className="quiet">
          {description ?? (inputs.length === 0 ? "reads nothing" : `reads ${inputs.join(", ")}`)}
        </p>
      </div>
      {runs.length > 0 ? (
        <RunBars jobs={runs} label={`${name}, its last ${counted(runs.length, "job")}`} isBare />
      ) : (
        <p className="quiet none">no job yet</p>
      )}
      <p className="stands">
        <b>{state === "active" || state === "stopped" ? MARK_WORDS[mark] : state}</b>
        {ended?.finishedAt && !underWay && (
          <span className="quiet">
            {state === "active" ? " " : ", its last job ended "}
            <Ago at={ended.finishedAt} />
          </span>
        )}
        {underWay?.reason && <span>: {underWay.reason}</span>}
        {underWay && underWay.jobs > 1 && (
          <span className="quiet">, and {counted(underWay.jobs - 1, "job")} behind it</span>
        )}
        {ended?.finishedAt && (
          <span className="quiet">
            {underWay ? "; its last one took " : ", took "}
            <Span from={ended.startedAt ?? ended.createdAt} to={ended.finishedAt} />
          </span>
        )}
      </p>
      <p className="actions rare">
        <PipelineActions {...{ name, state }} done={reload} deleted={reload} />
      </p>
    </li>
  );
}

/** The next step, for a gateway without pipelines. */
function Empty() {
  return (
    <section className="empty" aria-label="First steps">
      <p>
        No pipeline is here yet. A pipeline runs a command over each file of a bucket, as soon as files come.
      </p>
      <p>
        <Link href="/new/pipeline">Write its specification</Link> here, or in a file:{" "}
        <CliLine line={command`sluice pipeline create -f edges.json`} />
      </p>
    </section>
  );
}

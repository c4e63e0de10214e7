import { Link, useLocation } from "wouter";
import type { Job, PipelineSummary } from "../../../protocol/pipelines.ts";
import { type Live, useLive } from "../../gateway/live.ts";
import { command } from "../../parts/cli-line.tsx";
import { counted, shortId } from "../../parts/numbers.ts";
import { Heard, Page } from "../../parts/page.tsx";
import { RunBars } from "../../parts/run-bars.tsx";
import { MARK_WORDS, markOf, pipelineMark, Reason, StateMark } from "../../parts/state.tsx";
import { Ago, Span } from "../../parts/time.tsx";
import { PipelineActions } from "./actions.tsx";
import { branchPath } from "./branch-path.ts";

/** A pipeline: how it stands and why, its last jobs, what it reads and makes, and its specification. */
export default function PipelinePage({ name }: { readonly name: string }) {
  const live = useLive<PipelineSummary>(`/pipelines/${encodeURIComponent(name)}/summary`);
  const summary = live.data;
  return (
    <Page
      title={name}
      cli={command`sluice pipeline inspect ${name}`}
      live={live}
      aside={
        <>
          {summary && <Stands summary={summary} />}
          <Heard live={live} />
        </>
      }
    >
      {summary ? (
        <Shown summary={summary} live={live} />
      ) : (
        !live.fault && <p className="quiet">Asking the gateway…</p>
      )}
    </Page>
  );
}

function Stands({ summary: { pipeline, jobs } }: { readonly summary: PipelineSummary }) {
  const { state, version } = pipeline;
  const [job] = jobs;
  // Jobs end in order: the oldest that has not is the one that the others wait for.
  const open = jobs.filter(({ finishedAt }) => finishedAt === null).at(-1);
  const mark = pipelineMark({ state, ...(job && { job }), ...(open && { underWay: { ...open, jobs: 1 } }) });
  return (
    <span className="state">
      <StateMark mark={mark} />{" "}
      <span aria-hidden="true">{state === "active" || state === "stopped" ? MARK_WORDS[mark] : state}</span>{" "}
      <span className="quiet">version {version}</span>
    </span>
  );
}

function Shown({
  summary,
  live,
}: {
  readonly summary: PipelineSummary;
  readonly live: Live<PipelineSummary>;
}) {
  const { pipeline, jobs, more } = summary;
  const { name, state, spec } = pipeline;
  const [, go] = useLocation();
  const oldestOpen = jobs.filter(({ finishedAt }) => finishedAt === null).at(-1);
  const reason = pipeline.reason ?? oldestOpen?.reason ?? null;
  return (
    <>
      {spec.description !== undefined && <p>{spec.description}</p>}
      {reason !== null && <p className="reason">{reason}</p>}
      <p className="actions">
        <Link href={`/pipelines/${encodeURIComponent(name)}/edit`} className="do">
          Update
        </Link>
        <PipelineActions {...{ name, state }} done={live.reload} deleted={() => go("/pipelines")} />
        <Link href={`/graph?search=${encodeURIComponent(name)}`}>In the graph</Link>
      </p>
      {jobs.length > 0 && <RunBars jobs={jobs} label={`The last ${counted(jobs.length, "job")}`} />}
      <Jobs jobs={jobs} more={more} name={name} />
      <Inputs summary={summary} />
      <Output summary={summary} />
      <section aria-label="Specification">
        <h2>Specification</h2>
        {pipeline.hidden && (
          <p className="quiet">
            Without {pipeline.hidden.join(", ")}: this key may not read all that the pipeline reads.
          </p>
        )}
        <section
          className="tail spec"
          aria-label="Specification as JSON"
          // biome-ignore lint/a11y/noNoninteractiveTabindex: what scrolls must be reached by keys.
          tabIndex={0}
        >
          <pre>{JSON.stringify(spec, null, 2)}</pre>
        </section>
      </section>
    </>
  );
}

interface JobsProps {
  readonly jobs: readonly Job[];
  readonly more: boolean;
  readonly name: string;
}

function Jobs({ jobs, more, name }: JobsProps) {
  return (
    <section aria-label="Jobs">
      <h2>Jobs</h2>
      {jobs.length === 0 ? (
        <p className="quiet">It has made no job yet.</p>
      ) : (
        <ul className="jobs">
          {jobs.map((job) => (
            <JobLine key={job.id} job={job} />
          ))}
        </ul>
      )}
      {more && (
        <p className="quiet">
          Older ones: <code>sluice job list --pipeline {name}</code>
        </p>
      )}
    </section>
  );
}

function JobLine({ job }: { readonly job: Job }) {
  const { id, reason, createdAt, finishedAt, datums } = job;
  return (
    <li className={job.state}>
      <StateMark mark={markOf(job)} />
      <Link href={`/jobs/${id}`} className="name mono" title={`Job ${id}`}>
        {shortId(id)}
      </Link>
      <div className="why">
        <span>
          <Reason text={reason ?? (finishedAt === null ? "its datums run" : MARK_WORDS[markOf(job)])} />
        </span>
        <span className="others">
          {counted(datums.total, "datum")}
          {datums.skipped > 0 && `, ${datums.skipped} skipped`}
          {datums.failed > 0 && `, ${datums.failed} failed`}
        </span>
      </div>
      <span className="when">
        {finishedAt === null ? <Span from={createdAt} to={null} /> : <Ago at={finishedAt} />}
      </span>
    </li>
  );
}

function Inputs({ summary: { pipeline, makers } }: { readonly summary: PipelineSummary }) {
  const { inputs } = pipeline.spec;
  return (
    <section aria-label="Inputs">
      <h2>Reads</h2>
      {inputs.length === 0 ? (
        <p className="quiet">Nothing: its command runs once.</p>
      ) : (
        <div className="wide">
          <table>
            <thead>
              <tr>
                <th scope="col">As</th>
                <th scope="col">Bucket</th>
                <th scope="col">Glob</th>
                <th scope="col">Made by</th>
              </tr>
            </thead>
            <tbody>
              {inputs.map(({ name, repo, branch, glob, lazy, from }) => {
                const bucket = `${branch}.${repo.name}`;
                return (
                  <tr key={name ?? bucket}>
                    <td className="mono">{`/pfs/${name ?? repo.name}`}</td>
                    <td className="mono">
                      <Link href={branchPath(bucket)}>{`s3://${bucket}`}</Link>
                    </td>
                    <td>
                      <span className="mono">{glob}</span>
                      {lazy && <span className="quiet"> as pipes</span>}
                      {from && <span className="quiet"> after {shortId(from.ID)}</span>}
                    </td>
                    <td>
                      <PipelineLinks names={namesAt(makers, [bucket])} />
                    </td>
                  </tr>
                );
              })}
            </tbody>
          </table>
        </div>
      )}
    </section>
  );
}

function Output({ summary: { pipeline, readers } }: { readonly summary: PipelineSummary }) {
  const { outputRepo, outputBranch, errorsBranch, spec } = pipeline;
  const outputs = [
    { bucket: `${outputBranch}.${outputRepo}`, what: "what it makes" },
    ...(errorsBranch === undefined
      ? []
      : [{ bucket: `${errorsBranch}.${outputRepo}`, what: "datums that failed" }]),
  ];
  return (
    <section aria-label="Output">
      <h2>Makes</h2>
      <div className="wide">
        <table>
          <thead>
            <tr>
              <th scope="col">Bucket</th>
              <th scope="col">With</th>
              <th scope="col">Read by</th>
            </tr>
          </thead>
          <tbody>
            {outputs.map(({ bucket, what }) => (
              <tr key={bucket}>
                <td className="mono">
                  <Link href={branchPath(bucket)}>{`s3://${bucket}`}</Link>
                </td>
                <td>{what}</td>
                <td>
                  <PipelineLinks names={namesAt(readers, [bucket])} />
                </td>
              </tr>
            ))}
          </tbody>
        </table>
      </div>
      {spec.egress && (
        <p>
          It is pushed to <span className="mono">{spec.egress.URL}</span>.
        </p>
      )}
    </section>
  );
}

function namesAt(neighbours: PipelineSummary["makers"], buckets: readonly string[]): readonly string[] {
  return neighbours.filter(({ bucket }) => buckets.includes(bucket)).map(({ pipeline }) => pipeline);
}

function PipelineLinks({ names }: { readonly names: readonly string[] }) {
  if (names.length === 0) return <span className="quiet">–</span>;
  return names.map((name, index) => (
    <span key={name}>
      {index > 0 && ", "}
      <Link href={`/pipelines/${encodeURIComponent(name)}`}>{name}</Link>
    </span>
  ));
}

import { type ReactNode, useState } from "react";
import { Link, useLocation } from "wouter";
import type { Pipeline, PipelineSummary } from "../../../protocol/pipelines.ts";
import { type Live, useLive, useSession } from "../../gateway/session.ts";
import { CliLine, command } from "../../parts/cli-line.tsx";
import { Action, Check, DeletionForm, Dialog } from "../../parts/form.tsx";
import { JobRow, RunBars } from "../../parts/jobs.tsx";
import { Asked, Heard, Page, Scrolled, Section, Table } from "../../parts/page.tsx";
import { MARK_WORDS, markOf, pipelineMark, StateMark } from "../../parts/state.tsx";
import { counted, Mono, shortId } from "../../parts/words.tsx";
import { bucketHref, pipelinePath } from "../addresses.ts";
import { Versions } from "./versions.tsx";

/** A pipeline: how it stands and why, its last jobs, what it reads and makes, and its specification. */
export default function PipelinePage({ name }: { readonly name: string }) {
  const live = useLive<PipelineSummary>(`${pipelinePath(name)}/summary`);
  return (
    <Page
      title={name}
      cli={command`sluice pipeline inspect ${name}`}
      live={live}
      aside={
        <>
          {live.data && <Stands summary={live.data} />}
          <Heard live={live} />
        </>
      }
    >
      <Asked live={live}>{(summary) => <Shown summary={summary} live={live} />}</Asked>
    </Page>
  );
}

/** The oldest job that has not ended: jobs end in order, so it is the one that the others wait for. */
function oldestOpen(jobs: PipelineSummary["jobs"]) {
  return jobs.filter(({ finishedAt }) => finishedAt === null).at(-1);
}

function Stands({ summary: { pipeline, jobs } }: { readonly summary: PipelineSummary }) {
  const { state, version } = pipeline;
  const [job] = jobs;
  const open = oldestOpen(jobs);
  const mark = pipelineMark({ state, ...(job && { job }), ...(open && { underWay: { ...open, jobs: 1 } }) });
  return (
    <span className="state">
      <StateMark mark={mark} />{" "}
      <span aria-hidden="true">{state === "active" || state === "stopped" ? MARK_WORDS[mark] : state}</span>{" "}
      <span className="quiet">version {version}</span>
    </span>
  );
}

interface ShownProps {
  readonly summary: PipelineSummary;
  readonly live: Live<PipelineSummary>;
}

function Shown({ summary, live }: ShownProps) {
  const { pipeline, jobs, more } = summary;
  const { name, state, spec } = pipeline;
  const [, go] = useLocation();
  const reason = pipeline.reason ?? oldestOpen(jobs)?.reason ?? null;
  return (
    <>
      {spec.description !== undefined && <p>{spec.description}</p>}
      {reason !== null && <p className="reason">{reason}</p>}
      <p className="actions">
        <Link href={`${pipelinePath(name)}/edit`} className="do">
          Update
        </Link>
        <Link href={`/graph?search=${encodeURIComponent(name)}`}>In the graph</Link>
        <span className="rare">
          <PipelineActions {...{ name, state }} done={live.reload} deleted={() => go("/pipelines")} />
        </span>
      </p>
      {jobs.length > 0 && <RunBars jobs={jobs} label={`The last ${counted(jobs.length, "job")}`} />}
      <Section title="Jobs">
        {jobs.length === 0 && <p className="quiet">It has made no job yet.</p>}
        <ul className="jobs">
          {jobs.map((job) => (
            <JobLine key={job.id} job={job} />
          ))}
        </ul>
        {more && (
          <p className="quiet">
            <Link href={`/jobs?pipeline=${encodeURIComponent(name)}`}>All of its jobs</Link>
          </p>
        )}
      </Section>
      <Inputs summary={summary} />
      <Output summary={summary} />
      <Section title="Specification">
        {pipeline.hidden && (
          <p className="quiet">
            Without {pipeline.hidden.join(", ")}: this key may not read all that the pipeline reads.
          </p>
        )}
        <Scrolled className="tail spec" label="Specification as JSON" text={JSON.stringify(spec, null, 2)} />
      </Section>
      <Versions name={name} version={pipeline.version} />
    </>
  );
}

function JobLine({ job }: { readonly job: PipelineSummary["jobs"][number] }) {
  const { id, finishedAt, datums } = job;
  const words = finishedAt === null ? "its datums run" : MARK_WORDS[markOf(job)];
  return (
    <JobRow job={job} name={<Mono>{shortId(id)}</Mono>} words={words}>
      <span className="others">
        {counted(datums.total, "datum")}
        {datums.skipped > 0 && `, ${datums.skipped} skipped`}
        {datums.failed > 0 && `, ${datums.failed} failed`}
      </span>
    </JobRow>
  );
}

function Inputs({ summary: { pipeline, makers } }: { readonly summary: PipelineSummary }) {
  const { inputs } = pipeline.spec;
  return (
    <Section title="Reads" label="Inputs">
      {inputs.length === 0 ? (
        <p className="quiet">Nothing: its command runs once.</p>
      ) : (
        <div className="wide">
          <Table head={["As", "Bucket", "Glob", "Made by"]}>
            {inputs.map(({ name, repo, branch, glob, lazy, from }) => {
              const bucket = `${branch}.${repo.name}`;
              return (
                <tr key={name ?? bucket}>
                  <td className="mono">{`/pfs/${name ?? repo.name}`}</td>
                  <BucketCell bucket={bucket} />
                  <td>
                    <Mono>{glob}</Mono>
                    {lazy && <span className="quiet"> as pipes</span>}
                    {from && <span className="quiet"> after {shortId(from.ID)}</span>}
                  </td>
                  <td>{pipelineLinks(makers, bucket)}</td>
                </tr>
              );
            })}
          </Table>
        </div>
      )}
    </Section>
  );
}

function Output({ summary: { pipeline, readers } }: { readonly summary: PipelineSummary }) {
  const { outputRepo, outputBranch, errorsBranch, spec } = pipeline;
  const rowOf = (branch: string, what: string) => (
    <tr>
      <BucketCell bucket={`${branch}.${outputRepo}`} />
      <td>{what}</td>
      <td>{pipelineLinks(readers, `${branch}.${outputRepo}`)}</td>
    </tr>
  );
  return (
    <Section title="Makes" label="Output">
      <div className="wide">
        <Table head={["Bucket", "With", "Read by"]}>
          {rowOf(outputBranch, "what it makes")}
          {errorsBranch !== undefined && rowOf(errorsBranch, "datums that failed")}
        </Table>
      </div>
      {spec.egress && (
        <p>
          It is pushed to <Mono>{spec.egress.URL}</Mono>.
        </p>
      )}
    </Section>
  );
}

function BucketCell({ bucket }: { readonly bucket: string }) {
  return (
    <td className="mono">
      <Link href={bucketHref(bucket)}>{`s3://${bucket}`}</Link>
    </td>
  );
}

/** Those of the pipelines that make, or read, a bucket. */
function pipelineLinks(neighbours: PipelineSummary["makers"], bucket: string): ReactNode {
  const names = neighbours.filter((each) => each.bucket === bucket).map(({ pipeline }) => pipeline);
  if (names.length === 0) return <span className="quiet">–</span>;
  return names.map((name, index) => (
    <span key={name}>
      {index > 0 && ", "}
      <Link href={pipelinePath(name)}>{name}</Link>
    </span>
  ));
}

interface PipelineActionsProps {
  readonly name: string;
  readonly state: Pipeline["state"];
  /** After it was stopped or started. */
  done(): void;
  deleted(): void;
}

/** What can be done with a pipeline: stop it or start it, and delete it. */
export function PipelineActions({ name, state, done, deleted }: PipelineActionsProps) {
  const verb = state === "stopped" ? "Start" : "Stop";
  const question = "Its jobs that have not ended are killed, and no commit makes one until it is started.";
  return (
    <>
      <Action
        label={`${verb} ${name}`}
        {...(verb === "Stop" && { question })}
        act={(gateway) => gateway.call(`${pipelinePath(name)}/${verb.toLowerCase()}`, { method: "POST" })}
        done={done}
      >
        {verb}
      </Action>
      <Dialog words="Delete…" title={`Delete ${name}`}>
        {(close) => <DeleteForm {...{ name, deleted }} leave={close} />}
      </Dialog>
    </>
  );
}

function DeleteForm({ name, deleted, leave }: { readonly name: string; deleted(): void; leave(): void }) {
  const { gateway } = useSession();
  const [keepOutput, setKeepOutput] = useState(false);
  const [force, setForce] = useState(false);
  const options = command`${keepOutput ? command` --keep-output` : []}${force ? command` --force` : []}`;
  async function remove(): Promise<void> {
    const query = { ...(keepOutput && { keepOutput }), ...(force && { force }) };
    await gateway.call(pipelinePath(name), { method: "DELETE", query });
    leave();
    deleted();
  }
  return (
    <DeletionForm {...{ name, leave }} verb="Delete the pipeline" act={remove}>
      <p>
        Its jobs end and are forgotten. {keepOutput ? "What it made stays" : "What it made goes, too"}: the
        branch that <Mono>{name}</Mono> writes to {keepOutput ? "becomes one like any other" : "is deleted"}.
      </p>
      <Check isSet={keepOutput} set={setKeepOutput}>
        keep what it made
      </Check>
      <Check isSet={force} set={setForce}>
        even if another pipeline reads that
      </Check>
      <CliLine line={command`sluice pipeline delete ${name}${options}`} />
    </DeletionForm>
  );
}

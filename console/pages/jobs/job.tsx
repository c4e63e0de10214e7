import { useCallback, useRef } from "react";
import { Link, useLocation, useSearchParams } from "wouter";
import type { Job, JobRetry, JobStep, JobSummary, Pipeline } from "../../../protocol/pipelines.ts";
import type { BranchDetail } from "../../../protocol/repos.ts";
import { GatewayError } from "../../../protocol/requests.ts";
import type { Gateway } from "../../gateway/gateway.ts";
import type { Place } from "../../gateway/s3.ts";
import { type Live, useLive } from "../../gateway/session.ts";
import { command } from "../../parts/cli-line.tsx";
import { Action, Plain } from "../../parts/form.tsx";
import { inputsText, JobLink, Reason } from "../../parts/jobs.tsx";
import { Logs, type LogsProps } from "../../parts/logs.tsx";
import { Asked, Heard, Page, Section } from "../../parts/page.tsx";
import { MARK_WORDS, markOf, StateMark } from "../../parts/state.tsx";
import {
  Ago,
  At,
  aboutText,
  counted,
  countText,
  exactText,
  Mono,
  Span,
  shortId,
  spanText,
  useNow,
} from "../../parts/words.tsx";
import { branchPath, pipelinePath } from "../addresses.ts";
import { Code, Commits, Compared, showCode } from "./compared.tsx";
import { Failures } from "./failures.tsx";

/** A job: how it stands and why, what failed, when what was, how its datums did, what it read and made, and what it prints. */
export default function JobPage({ job: id }: { readonly job: string }) {
  const live = useLive<JobSummary>(`/jobs/${encodeURIComponent(id)}/summary`, { isOver });
  const job = live.data?.job;
  return (
    <Page
      title={job ? `${job.pipeline} ${shortId(id)}` : `Job ${shortId(id)}`}
      cli={command`sluice job inspect ${id}`}
      live={live}
      aside={
        job && (
          <>
            <StateWords job={job} />
            {job.finishedAt === null && <Heard live={live} />}
          </>
        )
      }
    >
      <Asked live={live}>{(summary) => <Shown summary={summary} live={live} />}</Asked>
    </Page>
  );
}

function isOver({ job }: JobSummary): boolean {
  return job.finishedAt !== null;
}

function StateWords({ job }: { readonly job: Job }) {
  const mark = markOf(job);
  return (
    <span className="state">
      <StateMark mark={mark} /> <span aria-hidden="true">{MARK_WORDS[mark]}</span>
      {job.finishedAt !== null && (
        <span className="quiet">
          {" "}
          <Ago at={job.finishedAt} />
        </span>
      )}
    </span>
  );
}

function Shown({ summary, live }: { readonly summary: JobSummary; readonly live: Live<JobSummary> }) {
  const { job, mended } = summary;
  const logs = useShownLogs(summary);
  const { choose } = logs;
  return (
    <>
      {job.reason !== null && (
        <p className={job.state === "failure" ? "reason bad" : "reason"}>
          <Reason text={job.reason} />
        </p>
      )}
      {mended && (
        <p>
          Mended: the pipeline is good since <At at={mended.at} />, <JobLink id={mended.job} />.
        </p>
      )}
      <p className="quiet">
        <Link href={pipelinePath(job.pipeline)}>{job.pipeline}</Link>,{" "}
        <Plain act={showCode}>version {job.version} of its specification</Plain> ·{" "}
        <Link href={`/jobs?pipeline=${encodeURIComponent(job.pipeline)}`}>its other jobs</Link>
      </p>
      <Actions job={job} live={live} />
      <Failures summary={summary} choose={choose} />
      <div className="beside">
        <Timeline summary={summary} />
        <Datums summary={summary} />
      </div>
      <Running summary={summary} choose={choose} />
      <Logs job={job} known={namesIn(summary)} {...logs} />
      <Compared summary={summary} />
      <Commits job={job} />
      <Durations summary={summary} choose={choose} />
      <Code job={job} />
    </>
  );
}

const ALL = "all";

/**
 * Whose lines are shown, and which one is marked. Both stand in the address, so that a link leads there. Of a job that failed
 * it is the first datum of those that failed most, unless the address says otherwise.
 */
function useShownLogs({ job, failures }: JobSummary): Omit<LogsProps, "job" | "known"> {
  const [query, setQuery] = useSearchParams();
  const asked =
    query.get("datum") ?? (job.state === "failure" ? failures[0]?.datums[0]?.id : undefined) ?? ALL;
  const latest = useRef(asked);
  latest.current = asked;
  const choose = useCallback(
    (datum: string | undefined, line?: string): void => {
      const next = datum ?? ALL;
      setQuery({ datum: next, ...(line !== undefined && { line }) }, { replace: true });
      if (next !== latest.current) document.getElementById("logs")?.scrollIntoView({ block: "start" });
    },
    [setQuery],
  );
  return {
    datum: asked === ALL ? undefined : asked,
    marked: query.get("line") ?? undefined,
    choose,
  };
}

/** What datums are called, of those that the summary has. */
function namesIn({ failures, running, slowest }: JobSummary): ReadonlyMap<string, string> {
  const datums = [...failures.flatMap((group) => group.datums), ...running.datums, ...slowest];
  return new Map(datums.map(({ id, inputs }) => [id, inputsText(inputs)]));
}

interface DatumsProps {
  readonly summary: JobSummary;
  /** Shows what a datum printed. */
  readonly choose: LogsProps["choose"];
}

/** What runs now, where and since when: those that have run longest. */
function Running({ summary: { running }, choose }: DatumsProps) {
  const { count, datums } = running;
  if (count === 0) return null;
  return (
    <Section title="Running now" label="Datums that run" count={count}>
      <ul className="at-work">
        {datums.map(({ id, inputs, node, since }) => (
          <li key={id}>
            <Plain act={() => choose(id)} title="What it prints">
              <Mono>{inputsText(inputs)}</Mono>
            </Plain>
            {node !== null && <span className="quiet"> on {node}</span>}
            {since !== null && (
              <span className="quiet">
                {" "}
                for <Span from={since} to={null} />
              </span>
            )}
          </li>
        ))}
      </ul>
      {count > datums.length && (
        <p className="quiet">{countText(count - datums.length)} more run, for less long.</p>
      )}
    </Section>
  );
}

/** How long datums ran: a histogram, and those that took longest. */
function Durations({ summary: { durations, slowest }, choose }: DatumsProps) {
  if (!durations) return null;
  const { count, more, median, p95, longest, buckets } = durations;
  const most = Math.max(...buckets.map((bucket) => bucket.count));
  const words = `Half took at most ${spanText(median)}, 95 of 100 at most ${spanText(p95)}, the longest ${spanText(longest)}.`;
  return (
    <Section title="How long they ran" label="Durations of datums">
      <p>
        {words}{" "}
        {more && (
          <span className="quiet">Counted are {counted(count, "datum")} of those that succeeded.</span>
        )}
      </p>
      <ol className="histogram" aria-label="Datums by how long they ran">
        {buckets.map((bucket) => (
          <li key={bucket.below}>
            <span className="quiet">under {spanText(bucket.below)}</span>
            <svg viewBox="0 0 100 1" preserveAspectRatio="none" aria-hidden="true">
              <rect width={(100 * bucket.count) / most} height="1" />
            </svg>
            <span>{countText(bucket.count)}</span>
          </li>
        ))}
      </ol>
      <details>
        <summary>The slowest {countText(slowest.length)}</summary>
        <ol className="slowest">
          {slowest.map(({ id, inputs, node, millis }) => (
            <li key={id}>
              <b>{spanText(millis)}</b>{" "}
              <Plain act={() => choose(id)}>
                <Mono>{inputsText(inputs)}</Mono>
              </Plain>
              {node !== null && <span className="quiet"> on {node}</span>}
            </li>
          ))}
        </ol>
      </details>
    </Section>
  );
}

function Actions({ job, live }: { readonly job: Job; readonly live: Live<JobSummary> }) {
  const [, go] = useLocation();
  const path = `/jobs/${encodeURIComponent(job.id)}`;
  const retry = (datums: "failed" | "all") => async (gateway: Gateway) => {
    const made = await gateway.call<JobRetry>(`${path}/retry`, { method: "POST", query: { datums } });
    go(`/jobs/${made.job.id}`);
  };
  const question = (words: string) => async (gateway: Gateway) => (
    <>
      {words} <Reads job={job} reads={await readsNow(gateway, job.pipeline)} />
    </>
  );
  return (
    <p className="actions">
      {job.finishedAt === null ? (
        <Action
          question="Its datums that run are cut off; what they had done stays."
          act={(gateway) => gateway.call(`${path}/stop`, { method: "POST" })}
          done={live.reload}
        >
          Stop the job
        </Action>
      ) : (
        <>
          {(job.state !== "success" || job.datums.failed > 0) && (
            <Action question={question("What failed, or has no result, runs again.")} act={retry("failed")}>
              Retry what failed
            </Action>
          )}
          <Action
            question={question("Every datum runs again, also those that have a result.")}
            act={retry("all")}
          >
            Run every datum again
          </Action>
        </>
      )}
    </p>
  );
}

interface Read extends Place {
  /** Null: the branch is not there, or has no commit. */
  readonly commit: string | null;
}

/** What a job would read that is made now: the newest commit of each input. */
async function readsNow(gateway: Gateway, pipeline: string): Promise<readonly Read[]> {
  const { spec } = await gateway.call<Pipeline>(pipelinePath(pipeline));
  const places = new Map(
    spec.inputs.map(({ repo, branch }) => [`${branch}.${repo.name}`, { repo: repo.name, branch }]),
  );
  return await Promise.all(
    [...places.values()].map(async (place) => {
      try {
        const { head } = await gateway.call<BranchDetail>(branchPath(place));
        return { ...place, commit: head };
      } catch (error) {
        if (error instanceof GatewayError && error.status === 404) return { ...place, commit: null };
        throw error;
      }
    }),
  );
}

function Reads({ job, reads }: { readonly job: Job; readonly reads: readonly Read[] }) {
  if (reads.length === 0) return "It reads nothing.";
  return (
    <>
      The new job reads{" "}
      {reads.map(({ repo, branch, commit }, index) => {
        const before = job.inputs.find((input) => input.repo === repo && input.branch === branch);
        return (
          <span key={`${branch}.${repo}`}>
            {index > 0 && ", "}
            <Mono>{`${branch}.${repo}`}</Mono>{" "}
            {commit === null ? (
              "as nothing, since it has no commit"
            ) : (
              <>
                at <Mono>{commit}</Mono>,{" "}
                {commit === before?.commit ? (
                  "as this one did"
                ) : before?.commit ? (
                  <Mono before="where this one had ">{before.commit}</Mono>
                ) : (
                  "where this one had nothing"
                )}
              </>
            )}
          </span>
        );
      })}
      .
    </>
  );
}

/** What a step is called while it goes on, and then. */
const STEP_WORDS: Readonly<Record<JobStep["name"], readonly [now: string, then: string]>> = {
  fill: ["its input is split into datums", "its input was split into datums"],
  queued: ["waits for a worker", "waited for a worker"],
  datums: ["its datums run", "its datums ran"],
  turn: ["waits for the jobs before it", "waited for the jobs before it"],
  merge: ["its output is put together", "its output was put together"],
  commit: ["its output is committed", "its output was committed"],
  egress: ["its output is pushed", "its output was pushed"],
};

/** Steps in which nothing is done for it. */
const WAITS = new Set<JobStep["name"]>(["queued", "turn"]);

/** What it went through, one after the other: each step's length and place in the whole, to scale. */
function Timeline({ summary: { job, steps } }: { readonly summary: JobSummary }) {
  const now = useNow();
  const { createdAt, finishedAt } = job;
  const end = Math.max(finishedAt ?? now, createdAt + 1);
  // What took no time is worth no line, unless it goes on.
  const shown = steps.filter(({ from, to }) => to === null || to > from);
  const ending = job.state === "failure" || job.state === "killed" ? job.state : "";
  return (
    <Section title="Timeline">
      <p>
        {finishedAt === null ? "Made " : "Took "}
        {finishedAt === null ? <Ago at={createdAt} /> : <b>{spanText(finishedAt - createdAt)}</b>}
        <span className="quiet">, {exactText(createdAt, finishedAt ?? createdAt)}</span>
      </p>
      <ol className="timeline">
        {shown.map(({ name, from, to }, index) => (
          <li key={name} className={index === shown.length - 1 ? ending : ""}>
            <span>{STEP_WORDS[name][to === null ? 0 : 1]}</span>
            <svg viewBox="0 0 1000 1" preserveAspectRatio="none" aria-hidden="true">
              <rect
                className={WAITS.has(name) ? "waits" : to === null ? "goes-on" : ""}
                x={(1000 * Math.max(0, from - createdAt)) / (end - createdAt)}
                width={Math.max(4, (1000 * Math.max(0, (to ?? end) - from)) / (end - createdAt))}
                height="1"
              />
            </svg>
            <span className="long">
              <b>
                <Span from={from} to={to} />
              </b>
              {to === null && <span className="quiet"> so far</span>}
            </span>
          </li>
        ))}
      </ol>
    </Section>
  );
}

function Datums({ summary: { job, durations, running } }: { readonly summary: JobSummary }) {
  const { total, processed, skipped, failed } = job.datums;
  const left = Math.max(0, total - processed - skipped - failed);
  const parts = [
    { name: "failed", count: failed, className: "failed" },
    { name: "ran", count: processed, className: "ran" },
    { name: "skipped, as their results are there", count: skipped, className: "skipped" },
    { name: "to go", count: left, className: "left" },
  ].filter(({ count }) => count > 0);
  return (
    <Section title="Datums" count={total}>
      {total === 0 ? (
        <p className="quiet">It has none yet, or nothing in its inputs matches its globs.</p>
      ) : (
        <>
          <svg className="share" viewBox={`0 0 ${total} 1`} preserveAspectRatio="none" aria-hidden="true">
            {parts.map(({ name, count, className }, index) => {
              const before = parts.slice(0, index).reduce((sum, part) => sum + part.count, 0);
              return <rect key={name} className={className} x={before} width={count} height="1" />;
            })}
          </svg>
          <p>
            {parts.map(({ name, count, className }, index) => (
              <span key={name} className={className === "failed" ? "bad" : ""}>
                {index > 0 && " · "}
                <b>{countText(count)}</b> {name}
              </span>
            ))}
          </p>
          {job.finishedAt === null && durations && running.count > 0 && (
            <p className="quiet" title={`Half of them took ${spanText(durations.median)} at most.`}>
              {aboutText((left * durations.median) / running.count)} left for them, with{" "}
              {countText(running.count)} at a time
            </p>
          )}
        </>
      )}
    </Section>
  );
}

import { useCallback, useRef } from "react";
import { Link, useLocation, useSearchParams } from "wouter";
import type { Job, JobRetry, JobStep, JobSummary } from "../../../protocol/pipelines.ts";
import type { ERRORS_BRANCH as ErrorsBranch } from "../../../protocol/spec.ts";
import type { Gateway } from "../../gateway/gateway.ts";
import { type Live, useLive } from "../../gateway/session.ts";
import { CliLine, command } from "../../parts/cli-line.tsx";
import { Action, Plain } from "../../parts/form.tsx";
import { Reason } from "../../parts/jobs.tsx";
import { Logs, type LogsProps } from "../../parts/logs.tsx";
import { Asked, Heard, Page, Scrolled, Section, Table } from "../../parts/page.tsx";
import { MARK_WORDS, markOf, StateMark } from "../../parts/state.tsx";
import {
  Ago,
  counted,
  countText,
  exactText,
  Mono,
  Span,
  shortId,
  spanText,
  useNow,
} from "../../parts/words.tsx";
import { branchHref } from "../addresses.ts";

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
  const { job } = summary;
  const logs = useShownLogs(summary);
  const { choose } = logs;
  return (
    <>
      {job.reason !== null && (
        <p className={job.state === "failure" ? "reason bad" : "reason"}>
          <Reason text={job.reason} />
        </p>
      )}
      <Actions job={job} live={live} />
      <Failed summary={summary} choose={choose} />
      <Timeline summary={summary} />
      <Datums job={job} />
      <Durations summary={summary} choose={choose} />
      <Commits job={job} />
      <Logs job={job} {...logs} />
    </>
  );
}

const ALL = "all";

/**
 * Whose lines are shown, and which one is marked. Both stand in the address, so that a link leads there. Of a job that failed
 * it is the first datum that failed, unless the address says otherwise.
 */
function useShownLogs({ job, failed }: JobSummary): Omit<LogsProps, "job"> {
  const [query, setQuery] = useSearchParams();
  const asked = query.get("datum") ?? (job.state === "failure" ? failed[0]?.id : undefined) ?? ALL;
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

interface DatumsProps {
  readonly summary: JobSummary;
  /** Shows what a datum printed. */
  readonly choose: LogsProps["choose"];
}

/** `/a.txt`, of several inputs `photos:/a.txt masks:/b.png` */
function inputsText(inputs: JobSummary["slowest"][number]["inputs"]): string {
  const [only, ...others] = inputs;
  if (only && others.length === 0) return `/${only.path}`;
  return inputs.map(({ name, path }) => `${name}:/${path}`).join(" ");
}

function Failed({ summary: { job, failed }, choose }: DatumsProps) {
  if (failed.length === 0) return null;
  const more = job.datums.failed - failed.length;
  return (
    <Section title="Failed" label="Failed datums" count={job.datums.failed}>
      <ul className="failures">
        {failed.map(({ id, inputs, node, reason, log }) => (
          <li key={id}>
            <p>
              <StateMark mark="failure" /> <b className="mono">{inputsText(inputs)}</b> {reason}
              {node !== null && <span className="quiet"> on {node}</span>}
            </p>
            {log.length > 0 && (
              <Scrolled
                className="tail"
                label={`Last lines of ${inputsText(inputs)}`}
                text={log.join("\n")}
              />
            )}
            <p className="actions">
              <Plain act={() => choose(id)}>All that it printed</Plain>
              <CliLine line={command`sluice datum run ${job.id} ${id.slice(0, 12)}`} />
            </p>
          </li>
        ))}
      </ul>
      {more > 0 && (
        <p>
          {countText(more)} more failed:{" "}
          <CliLine line={command`sluice job datums ${job.id} --state failed`} />
        </p>
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
            <Action act={retry("failed")}>Retry what failed</Action>
          )}
          <Action question="Every datum runs again, also what has a result." act={retry("all")}>
            Run every datum again
          </Action>
        </>
      )}
    </p>
  );
}

const STEP_WORDS: Readonly<Record<JobStep["name"], string>> = {
  fill: "its datums were worked out",
  queued: "waited for a worker",
  datums: "its datums ran",
  turn: "waited for the jobs before it",
  merge: "its output was put together",
  commit: "its output was committed",
  egress: "its output was pushed",
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
        <span className="quiet">
          , from {exactText(createdAt)}
          {finishedAt !== null && ` to ${exactText(finishedAt)}`}
        </span>
      </p>
      <ol className="timeline">
        {shown.map(({ name, from, to }, index) => (
          <li key={name} className={index === shown.length - 1 ? ending : ""}>
            <span>{STEP_WORDS[name]}</span>
            <svg viewBox="0 0 1000 1" preserveAspectRatio="none" aria-hidden="true">
              <rect
                className={to === null ? "goes-on" : WAITS.has(name) ? "waits" : ""}
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

function Datums({ job: { datums } }: { readonly job: Job }) {
  const { total, processed, skipped, failed } = datums;
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
        </>
      )}
    </Section>
  );
}

/** As the protocol has it, whose module would bring a whole library into the page. */
const ERRORS_BRANCH: typeof ErrorsBranch = "errors";

function Commits({ job }: { readonly job: Job }) {
  const { inputs, output, outputCommit, errorsCommit, pipeline, finishedAt } = job;
  return (
    <Section title="Read and made" label="Commits">
      <Table head={["What", "Where", "Commit"]}>
        {inputs.map(({ name, ...read }) => (
          <CommitRow key={name} what={`read as ${name}`} {...read} />
        ))}
        {output ? (
          <CommitRow
            what="made"
            {...output}
            commit={outputCommit}
            noCommit={finishedAt === null ? "no commit yet" : "no commit"}
          />
        ) : (
          <tr>
            <td>made</td>
            <td className="where mono">{pipeline}</td>
            <td className="mono">{outputCommit ?? "no commit"}</td>
          </tr>
        )}
        {errorsCommit !== undefined && (
          <CommitRow what="told of bad datums" repo={pipeline} branch={ERRORS_BRANCH} commit={errorsCommit} />
        )}
      </Table>
    </Section>
  );
}

interface CommitRowProps {
  readonly what: string;
  readonly repo: string;
  readonly branch: string;
  readonly commit: string | null;
  readonly kept?: false | undefined;
  /** What it says if there is none. */
  readonly noCommit?: string;
}

/** A commit that a job read or made: a link to its files, if they are kept. */
function CommitRow({ what, repo, branch, commit, kept, noCommit = "nothing yet" }: CommitRowProps) {
  return (
    <tr>
      <td>{what}</td>
      <td className="where">
        <Link className="mono" href={branchHref({ repo, branch })}>{`${branch}.${repo}`}</Link>
      </td>
      <td>
        {commit === null ? (
          <span className="quiet">{noCommit}</span>
        ) : kept === false ? (
          <>
            <Mono>{commit}</Mono> <span className="quiet">kept no more</span>
          </>
        ) : (
          <Link className="mono" href={branchHref({ repo, branch, at: commit })}>
            {commit}
          </Link>
        )}
      </td>
    </tr>
  );
}

import { Link } from "wouter";
import type { Overview } from "../../protocol/pipelines.ts";
import { useLive } from "../gateway/session.ts";
import { CliLine, command } from "../parts/cli-line.tsx";
import { JobLink, JobRow, RunBars } from "../parts/jobs.tsx";
import { Asked, Figure, Heard, Page, Section } from "../parts/page.tsx";
import { markOf, StateMark } from "../parts/state.tsx";
import { At, aboutText, counted, countText, shortId, spanText, useNow } from "../parts/words.tsx";

/** The gateway counts no further. */
const MOST_COUNTED = 10_000;

/** What runs, what waits and why, what failed in the last day. */
export function Now() {
  const live = useLive<Overview>("/now");
  return (
    <Page title="Now" cli={command`sluice job list`} live={live} aside={<Heard live={live} />}>
      <Asked live={live}>{(overview) => <Shown overview={overview} />}</Asked>
    </Page>
  );
}

function Shown({ overview }: { readonly overview: Overview }) {
  const { underWay, failed, failedCount, ended, more, pipelines, nodes } = overview;
  if (pipelines.total === 0 && underWay.length + ended.length === 0) return <Empty overview={overview} />;
  const waiting = underWay.filter((job) => markOf(job) === "waiting");
  const running = underWay.filter((job) => markOf(job) !== "waiting");
  const plus = more.underWay ? "+" : "";
  const broken = failed.filter(({ mended }) => !mended);
  const mended = failed.filter((job) => job.mended);
  return (
    <>
      <p className="headline">
        <Figure count={running.length} word="running" plus={plus} />
        <Figure count={waiting.length} word="waiting" plus={plus} />
        <Figure
          count={failedCount}
          word="failed since yesterday"
          plus={failedCount >= MOST_COUNTED ? "+" : ""}
          isBad={broken.length > 0}
        />
      </p>
      {ended.length > 0 && (
        <RunBars jobs={ended} label={`The last ${counted(ended.length, "job")} that ended`} />
      )}
      <Fleet nodes={nodes} waiting={waiting.length} />
      <JobSection
        title="Failed since yesterday"
        jobs={broken}
        count={failedCount - mended.length}
        look="bold"
      />
      {more.failed && (
        <p className="quiet">
          Here are the newest {countText(failed.length)} of them:{" "}
          <Link href="/jobs?state=failure&made=1d">all of the last day</Link>
        </p>
      )}
      <JobSection title="Waiting" jobs={waiting} />
      <JobSection title="Running" jobs={running} ended={ended} />
      {more.underWay && (
        <p className="quiet">
          More jobs are under way than fit here: the newest 100 are shown. <Link href="/jobs">All jobs</Link>
        </p>
      )}
      {underWay.length === 0 && broken.length === 0 && (
        <p className="quiet">
          Nothing runs, nothing waits, and{" "}
          {failed.length === 0 ? "nothing failed" : "all that failed is mended"} since yesterday.
        </p>
      )}
      <JobSection title="Failed, and mended since" jobs={mended} look="mended" />
      {pipelines.stopped.length > 0 && (
        <Section title="Stopped" label="Stopped pipelines" count={pipelines.stopped.length}>
          <p>
            {pipelines.stopped.join(", ")}:{" "}
            {pipelines.stopped.length === 1
              ? "it follows no input until it is started."
              : "they follow no input until each is started."}{" "}
            <CliLine line={command`sluice pipeline start ${pipelines.stopped[0] ?? ""}`} />
          </p>
        </Section>
      )}
    </>
  );
}

interface JobSectionProps {
  readonly title: string;
  readonly jobs: Overview["failed"];
  /** How many there are, if more than these. */
  readonly count?: number;
  readonly look?: "bold" | "mended";
  /** Jobs that ended, by which it is told how long others take. */
  readonly ended?: Overview["ended"];
}

function JobSection({ title, jobs, count = jobs.length, look, ended = [] }: JobSectionProps) {
  if (jobs.length === 0) return null;
  return (
    <Section title={title} count={count}>
      <ul className={look ? `jobs ${look}` : "jobs"}>
        {grouped(jobs).map((group) => (
          <JobLine key={group.job.id} {...group} ended={ended} />
        ))}
      </ul>
    </Section>
  );
}

type Listed = Overview["failed"][number];

interface JobGroup {
  readonly job: Listed;
  /** So many others of the pipeline that wait behind it, or that ended in the same way before it. */
  readonly others: number;
}

/**
 * Jobs that say the same are one line: of those that wait for each other the one that all wait for, of those that failed
 * in one way the newest.
 */
function grouped(jobs: readonly Listed[]): JobGroup[] {
  const groups = new Map<string, { job: Listed; others: number }>();
  for (const job of jobs) {
    const waitsBehind = isBehind(job);
    const name = job.finishedAt === null ? job.pipeline : `${job.pipeline} ${wayOf(job.reason ?? "")}`;
    const group = groups.get(name);
    if (!group) groups.set(name, { job, others: 0 });
    else {
      group.others++;
      // They come newest first: the oldest is the one that the others wait for, unless another one of them stands still.
      if (job.finishedAt === null && (!waitsBehind || isBehind(group.job))) group.job = job;
    }
  }
  return [...groups.values()];
}

/** How a job failed, whichever of its datums is named as the first, and however many others failed. */
function wayOf(reason: string): string {
  return reason.replace(/^datum .* failed/, "").replace(/ \(and \d+ more\)$/, "");
}

function isBehind({ waitsFor }: Listed): boolean {
  return waitsFor === "job";
}

function JobLine({ job, others, ended }: JobGroup & { readonly ended: Overview["ended"] }) {
  const { id, pipeline, finishedAt, datums, mended } = job;
  const done = datums.processed + datums.skipped + datums.failed;
  const name = (
    <>
      {pipeline} <span className="mono quiet">{shortId(id)}</span>
    </>
  );
  return (
    <JobRow job={job} name={name} words="its datums run">
      {finishedAt === null && datums.total > 0 && (
        <span className="progress">
          <progress value={done} max={datums.total} aria-label="Datums that are done" />
          <span>
            {countText(done)} of {counted(datums.total, "datum")}
            {datums.failed > 0 && <b className="bad">, {countText(datums.failed)} failed</b>}
          </span>
        </span>
      )}
      {finishedAt === null && <Left job={job} ended={ended} />}
      {mended && (
        <span className="others">
          good since <At at={mended.at} />, <JobLink id={mended.job} />
        </span>
      )}
      {others > 0 && (
        <span className="others">
          {finishedAt === null ? (
            `and ${counted(others, "job")} behind it`
          ) : (
            <>
              and{" "}
              <Link href={`/jobs?${new URLSearchParams({ pipeline, state: "failure" })}`}>
                {counted(others, "job")} before it
              </Link>{" "}
              in the same way
            </>
          )}
        </span>
      )}
    </JobRow>
  );
}

/** Of fewer jobs than these nobody tells how long the next one takes. */
const LEAST_KNOWN = 3;

/** How much is left of a job, by the median of those of its pipeline that succeeded last. */
function Left({ job, ended }: { readonly job: Listed; readonly ended: Overview["ended"] }) {
  const now = useNow();
  const took = ended
    .filter(({ pipeline, state }) => pipeline === job.pipeline && state === "success")
    .flatMap(({ startedAt, finishedAt }) =>
      startedAt === null || finishedAt === null ? [] : [finishedAt - startedAt],
    )
    .sort((a, b) => a - b);
  const median = took[Math.floor(took.length / 2)];
  if (median === undefined || took.length < LEAST_KNOWN || job.startedAt === null) return null;
  const left = job.startedAt + median - now;
  return (
    <span className="others" title={`Half of its last ${took.length} jobs took ${spanText(median)} at most.`}>
      {left > 0 ? `${aboutText(left)} left` : "longer than its last jobs"}
    </span>
  );
}

function Fleet({ nodes, waiting }: { readonly nodes: Overview["nodes"]; readonly waiting: number }) {
  if (nodes === null) return null;
  const { live, draining, silent, running, room } = nodes;
  const parts = [
    counted(live, "live node"),
    ...(draining > 0 ? [`${countText(draining)} of them drained`] : []),
    ...(silent > 0 ? [`${countText(silent)} silent`] : []),
    room === null || live === 0
      ? counted(running, "command")
      : `${countText(running)} of ${counted(room, "command")}`,
  ];
  return (
    <p className="fleet">
      {live === 0 && waiting > 0 ? (
        <>
          <StateMark mark="failure" /> No node is live, so nothing runs.{" "}
          <CliLine line={command`sluice runner`} />
        </>
      ) : (
        `${parts.join(" · ")} running`
      )}
    </p>
  );
}

/** The next steps, for a gateway that nobody has used. */
function Empty({ overview: { nodes } }: { readonly overview: Overview }) {
  return (
    <section className="empty" aria-label="First steps">
      <p>
        No pipeline is here yet. A pipeline runs a command over each file of a bucket, as soon as files come.
      </p>
      <ol>
        <li>
          Make a bucket and put a file into it: <CliLine line={command`sluice mb s3://master.photos`} />{" "}
          <CliLine line={command`sluice cp cat.jpg s3://master.photos/`} />
        </li>
        <li>
          Look at what a specification would come to, and create it:{" "}
          <CliLine line={command`sluice pipeline check -f edges.json`} />{" "}
          <CliLine line={command`sluice pipeline create -f edges.json`} />
        </li>
        {nodes?.live === 0 && (
          <li>
            Start a runner, which runs the commands: <CliLine line={command`sluice runner`} />
          </li>
        )}
      </ol>
    </section>
  );
}

import { type KeyboardEvent, type ReactNode, useState } from "react";
import { Link } from "wouter";
import type { Job, JobSummary, Run } from "../../protocol/pipelines.ts";
import { MARK_WORDS, markOf, StateMark } from "./state.tsx";
import { Ago, Span, shortId, spanText } from "./words.tsx";

/** The pipeline is named where it is not the same for all. */
type Bar = Run & { readonly pipeline?: string };

interface RunBarsProps {
  /** Newest first. */
  readonly jobs: readonly Bar[];
  readonly label: string;
  /** Whether the label is only for who does not see what they are beside. */
  readonly isBare?: boolean;
}

const HEIGHT = 40;
const LEAST = 3;

/**
 * Jobs as bars, the newest at the right: height is how long each ran, colour and shape are the state. Keys pass them in one step:
 * arrows lead from one to the next.
 */
export function RunBars({ jobs, label, isBare = false }: RunBarsProps) {
  const longest = Math.max(1, ...jobs.map(tookOf));
  const bad = jobs.filter(({ state }) => state === "failure").length;
  const [entry, setEntry] = useState<string>();
  // One that is shown no more is no way in.
  const stop = jobs.some(({ id }) => id === entry) ? entry : jobs[0]?.id;
  return (
    <figure className={isBare ? "bars" : "bars wide"}>
      <div className="plot">
        {!isBare && (
          <ol className="axis" aria-hidden="true">
            <li>{spanText(longest)}</li>
            <li>{spanText(longest / 4)}</li>
            <li>0</li>
          </ol>
        )}
        <ul aria-label={`${label}: ${bad} failed`} onKeyDown={moveAlong}>
          {[...jobs].reverse().map((job) => {
            const mark = markOf(job);
            // The longest is many times the shortest: by their roots both are seen.
            const height = Math.max(LEAST, Math.round(HEIGHT * Math.sqrt(tookOf(job) / longest)));
            const how = `${MARK_WORDS[mark]} ${job.finishedAt === null ? "for" : "after"} ${spanText(tookOf(job))}`;
            const words = job.pipeline === undefined ? how : `${job.pipeline} ${how}`;
            return (
              <li key={job.id} className={mark}>
                <Link
                  href={`/jobs/${job.id}`}
                  aria-label={words}
                  title={words}
                  tabIndex={job.id === stop ? 0 : -1}
                  onFocus={() => setEntry(job.id)}
                >
                  {mark === "failure" && <Sign of="m1 1 6 5m0-5-6 5" />}
                  {mark === "killed" && <Sign of="M1 4h6" />}
                  <svg
                    className="bar"
                    viewBox={`0 0 8 ${height}`}
                    height={height}
                    preserveAspectRatio="none"
                    aria-hidden="true"
                  >
                    <rect x="1" width="6" height={height} rx="1" />
                  </svg>
                </Link>
              </li>
            );
          })}
        </ul>
      </div>
      {!isBare && <figcaption>{label}. The height is how long each ran.</figcaption>}
    </figure>
  );
}

function moveAlong(event: KeyboardEvent<HTMLElement>): void {
  const links = [...event.currentTarget.querySelectorAll<HTMLElement>("a")];
  const here = document.activeElement instanceof HTMLElement ? links.indexOf(document.activeElement) : -1;
  const there = { ArrowLeft: here - 1, ArrowRight: here + 1, Home: 0, End: links.length - 1 }[event.key];
  const link = there === undefined ? undefined : links[there];
  if (!link) return;
  event.preventDefault();
  link.focus();
}

/** Stands above a bar, as wide as it is however wide that is. */
function Sign({ of }: { readonly of: string }) {
  return (
    <svg width="8" height="8" viewBox="0 0 8 8" aria-hidden="true">
      <path d={of} />
    </svg>
  );
}

function tookOf({ startedAt, createdAt, finishedAt }: Bar): number {
  return Math.max(0, (finishedAt ?? Date.now()) - (startedAt ?? createdAt));
}

/** `/a.txt`, of several inputs `photos:/a.txt masks:/b.png` */
export function inputsText(inputs: JobSummary["slowest"][number]["inputs"]): string {
  const [only, ...others] = inputs;
  if (only && others.length === 0) return `/${only.path}`;
  return inputs.map(({ name, path }) => `${name}:/${path}`).join(" ");
}

/** `job …ABCDEF`, which leads to it and stays on one line. */
export function JobLink({ id }: { readonly id: string }) {
  return (
    <Link href={`/jobs/${id}`} className="unbroken" title={`Job ${id}`}>
      job {shortId(id)}
    </Link>
  );
}

/** Why a job stands as it does, in the gateway's words. The job that it waits for is a link. */
export function Reason({ text }: { readonly text: string }) {
  const [, id] = /^behind job ([0-9A-Z]{26})$/.exec(text) ?? [];
  if (id === undefined) return text;
  return (
    <>
      behind <JobLink id={id} />
    </>
  );
}

interface JobRowProps {
  readonly job: Job;
  /** What leads to it. */
  readonly name: ReactNode;
  /** What it says if it gives no reason. */
  readonly words: string;
  /** How far it is. */
  readonly children: ReactNode;
}

/** A job as an entry of a list: how it stands, and why. */
export function JobRow({ job, name, words, children }: JobRowProps) {
  const { id, state, reason, createdAt, finishedAt } = job;
  return (
    <li className={state}>
      <StateMark mark={markOf(job)} />
      <Link href={`/jobs/${id}`} className="name" title={`Job ${id}`}>
        {name}
      </Link>
      <div className="why">
        <span>
          <Reason text={reason ?? words} />
        </span>
        {children}
      </div>
      <span className="when">
        {finishedAt === null ? <Span from={createdAt} to={null} /> : <Ago at={finishedAt} />}
      </span>
    </li>
  );
}

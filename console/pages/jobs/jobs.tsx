import { type FormEvent, useEffect, useMemo, useState } from "react";
import { Link, useLocation } from "wouter";
import type { Job, JobPage, ListedState } from "../../../protocol/pipelines.ts";
import type { Query } from "../../../protocol/requests.ts";
import type { Gateway } from "../../gateway/gateway.ts";
import { useLive, useRead } from "../../gateway/session.ts";
import { type CommandLine, command } from "../../parts/cli-line.tsx";
import { Button, Field, NameField, SearchField } from "../../parts/form.tsx";
import { JobRow } from "../../parts/jobs.tsx";
import { Asked, Heard, Page } from "../../parts/page.tsx";
import { MARK_WORDS, markOf } from "../../parts/state.tsx";
import { At, counted, countText, Span, shortId } from "../../parts/words.tsx";
import { useAddressQuery } from "../addresses.ts";

/** Jobs on a page. */
const SHOWN = 50;
/** A search looks through 2,000 jobs a request, and through this many requests for one page of ours. */
const REQUESTS = 5;

const STATES: Readonly<Record<ListedState, string>> = {
  waiting: "waiting",
  starting: "starting",
  running: "running",
  egressing: "being pushed",
  success: "succeeded",
  failure: "failed",
  killed: "stopped",
};

const HOUR_MS = 60 * 60 * 1000;
const DAY_MS = 24 * HOUR_MS;
const AGES: Readonly<Record<string, { readonly words: string; readonly ms: number }>> = {
  "1h": { words: "in the last hour", ms: HOUR_MS },
  "1d": { words: "in the last day", ms: DAY_MS },
  "7d": { words: "in the last 7 days", ms: 7 * DAY_MS },
  "30d": { words: "in the last 30 days", ms: 30 * DAY_MS },
};
const BETWEEN = "between";

/** What the address asks for; "": anything. */
interface Wanted {
  readonly search: string;
  readonly pipeline: string;
  readonly state: string;
  /** How long ago a job was made at most, or `between`. */
  readonly made: string;
  /** As a field of a browser has a date and a time. */
  readonly from: string;
  readonly to: string;
}

const NAMES = ["search", "pipeline", "state", "made", "from", "to"] as const;

/** Jobs of all pipelines, newest first: by pipeline, state, when they were made, and a text in the name or the reason. */
export default function JobsPage() {
  const [, go] = useLocation();
  const query = useAddressQuery();
  const text = query.toString();
  // biome-ignore lint/correctness/useExhaustiveDependencies: the text is all that the query says.
  const wanted = useMemo(() => wantedOf(query), [text]);
  const after = query.get("after") ?? undefined;
  const [turn, setTurn] = useState(0);
  // biome-ignore lint/correctness/useExhaustiveDependencies: with each turn, what is so long ago is another time.
  const asked = useMemo(() => ({ ...queryFor(wanted), after }), [wanted, after, turn]);
  const isSearch = wanted.search !== "";
  const polled = useLive<JobPage>("/jobs", { query: asked, isAsked: !isSearch });
  const searched = useRead(
    ["/jobs", JSON.stringify(asked)],
    (gateway, signal) => lookThrough(gateway, asked, signal),
    { turn, isAsked: isSearch },
  );
  const live = isSearch ? searched : polled;
  const isAll = NAMES.every((name) => wanted[name] === "");
  return (
    <Page
      title="Jobs"
      cli={commandFor(wanted)}
      live={live}
      aside={isSearch ? <Button act={() => setTurn(turn + 1)}>Look again</Button> : <Heard live={live} />}
    >
      <Filters wanted={wanted} choose={(chosen) => go(hrefOf(chosen))} />
      <Asked live={live}>
        {({ jobs, next, looked }) => (
          <>
            {looked && <Looked looked={looked} found={jobs.length} isOver={next === null} />}
            {jobs.length === 0 && !looked && (
              <p className="quiet">
                {isAll && after === undefined ? "No job was made yet." : "No job is like that."}
              </p>
            )}
            <ul className="jobs" aria-label="Jobs">
              {jobs.map((job) => (
                <Line key={job.id} job={job} />
              ))}
            </ul>
            {(after !== undefined || next !== null) && (
              <p className="actions">
                {after !== undefined && <Link href={hrefOf(wanted)}>Newest</Link>}
                {next !== null && <Link href={hrefOf(wanted, next)}>Older ones</Link>}
              </p>
            )}
          </>
        )}
      </Asked>
    </Page>
  );
}

function wantedOf(query: URLSearchParams): Wanted {
  const get = (name: (typeof NAMES)[number]): string => query.get(name) ?? "";
  return {
    ...{ search: get("search"), pipeline: get("pipeline"), state: get("state") },
    ...{ made: get("made"), from: get("from"), to: get("to") },
  };
}

function hrefOf(wanted: Wanted, after?: string): string {
  const pairs = NAMES.flatMap((name) => (wanted[name] === "" ? [] : [[name, wanted[name]]]));
  const query = new URLSearchParams([...pairs, ...(after === undefined ? [] : [["after", after]])]);
  return `/jobs${query.size === 0 ? "" : `?${query}`}`;
}

function queryFor({ search, pipeline, state, made, from, to }: Wanted): Query {
  const age = AGES[made];
  const [since, before] =
    made === BETWEEN ? [timeOf(from), timeOf(to)] : [age && Date.now() - age.ms, undefined];
  return {
    limit: SHOWN,
    ...(search !== "" && { search }),
    ...(pipeline !== "" && { pipeline }),
    ...(state !== "" && { state }),
    since,
    before,
  };
}

function timeOf(text: string): number | undefined {
  const at = Date.parse(text);
  return at >= 0 ? at : undefined;
}

/** Asks on until a page is full: the jobs that have a text may be far apart. */
async function lookThrough(gateway: Gateway, query: Query, signal: AbortSignal): Promise<JobPage> {
  const jobs: Job[] = [];
  for (let request = 1, next: string | undefined; ; request++) {
    const page = await gateway.call<JobPage>("/jobs", {
      query: next ? { ...query, after: next } : query,
      signal,
    });
    jobs.push(...page.jobs);
    if (page.next === null || jobs.length >= SHOWN || request === REQUESTS) return { ...page, jobs };
    next = page.next;
  }
}

function commandFor({ search, pipeline, state, made, from, to }: Wanted): CommandLine {
  const since = made === BETWEEN ? isoOf(from) : made;
  const before = made === BETWEEN ? isoOf(to) : "";
  const options: readonly (readonly [option: CommandLine, value: string])[] = [
    [command`--pipeline`, pipeline],
    [command`--state`, state],
    [command`--search`, search],
    [command`--since`, since],
    [command`--before`, before],
  ];
  const given = options.filter(([, value]) => value !== "");
  return command`${[command`sluice job list`, ...given.map(([option, value]) => command`${option} ${value}`)]}`;
}

function isoOf(text: string): string {
  const at = timeOf(text);
  return at === undefined ? "" : new Date(at).toISOString();
}

interface FiltersProps {
  readonly wanted: Wanted;
  choose(wanted: Wanted): void;
}

/** What is typed counts when the form is sent, since a text is looked for in thousands of jobs; what is chosen counts at once. */
function Filters({ wanted, choose }: FiltersProps) {
  const [typed, setTyped] = useState(wanted);
  useEffect(() => setTyped(wanted), [wanted]);
  const set = (more: Partial<Wanted>): void => setTyped((before) => ({ ...before, ...more }));
  function send(event: FormEvent): void {
    event.preventDefault();
    choose(typed);
  }
  return (
    <form className="actions filters" onSubmit={send}>
      <span className="pair">
        <SearchField
          label="Name or reason"
          placeholder="exit code 4"
          maxLength={200}
          value={typed.search}
          set={(search) => set({ search })}
        />
      </span>
      <span className="pair">
        <NameField label="Pipeline" value={typed.pipeline} set={(pipeline) => set({ pipeline })} />
      </span>
      <Choice
        label="State"
        value={typed.state}
        choices={Object.entries(STATES)}
        choose={(state) => choose({ ...typed, state })}
      />
      <Choice
        label="Made"
        value={typed.made}
        choices={[
          ...Object.entries(AGES).map(([name, { words }]) => [name, words] as const),
          [BETWEEN, "between two times"],
        ]}
        choose={(made) => (made === BETWEEN ? set({ made }) : choose({ ...typed, made, from: "", to: "" }))}
      />
      {typed.made === BETWEEN && (
        <>
          <span className="pair">
            <Field type="datetime-local" label="From" value={typed.from} set={(from) => set({ from })} />
          </span>
          <span className="pair">
            <Field type="datetime-local" label="To" value={typed.to} set={(to) => set({ to })} />
          </span>
        </>
      )}
      <button type="submit">Find</button>
      {NAMES.some((name) => wanted[name] !== "") && <Link href="/jobs">All jobs</Link>}
    </form>
  );
}

interface ChoiceProps {
  readonly label: string;
  readonly value: string;
  readonly choices: readonly (readonly [value: string, words: string])[];
  choose(value: string): void;
}

function Choice({ label, value, choices, choose }: ChoiceProps) {
  return (
    <label>
      {label}{" "}
      <select value={value} onChange={({ target }) => choose(target.value)}>
        <option value="">any</option>
        {choices.map(([name, words]) => (
          <option key={name} value={name}>
            {words}
          </option>
        ))}
      </select>
    </label>
  );
}

interface LookedProps {
  readonly looked: NonNullable<JobPage["looked"]>;
  readonly found: number;
  readonly isOver: boolean;
}

function Looked({ looked: { jobs, since }, found, isOver }: LookedProps) {
  return (
    <p className="quiet" role="status">
      {found === 0 ? "None" : countText(found)} of {isOver ? "" : "the newest "}
      {counted(jobs, "job")}
      {since !== null && (
        <>
          , back to <At at={since} />
        </>
      )}
      {isOver && jobs >= 10_000 && ": further back nothing is looked through"}.
    </p>
  );
}

function Line({ job }: { readonly job: Job }) {
  const { id, pipeline, startedAt, createdAt, finishedAt, datums } = job;
  const words = finishedAt === null ? "its datums run" : MARK_WORDS[markOf(job)];
  const name = (
    <>
      {pipeline} <span className="mono quiet">{shortId(id)}</span>
    </>
  );
  return (
    <JobRow job={job} name={name} words={words}>
      <span className="others">
        {counted(datums.total, "datum")}
        {datums.failed > 0 && `, ${countText(datums.failed)} failed`}
        {finishedAt !== null && (
          <>
            , took <Span from={startedAt ?? createdAt} to={finishedAt} />
          </>
        )}
      </span>
    </JobRow>
  );
}

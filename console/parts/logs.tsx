import {
  type KeyboardEvent,
  memo,
  useEffect,
  useLayoutEffect,
  useRef,
  useState,
  useSyncExternalStore,
} from "react";
import type { DatumPage, Job, LogLine } from "../../protocol/pipelines.ts";
import type { LogStream } from "../../protocol/runner.ts";
import { type Gateway, isAway, pause } from "../gateway/gateway.ts";
import { faultText, useSession } from "../gateway/session.ts";
import { CliLine, command } from "./cli-line.tsx";
import { Button, Fault, NameField, Plain, SearchField, useAct, useSubmission } from "./form.tsx";
import { inputsText } from "./jobs.tsx";
import { save } from "./save.ts";
import { counted, countText, exactText } from "./words.tsx";

/** So many lines are on the page, the last ones: a page that holds a million is slow, and nobody reads them there. */
const MAX_LINES = 5000;
/** Lines come faster than anybody reads: they are shown in gulps. */
const GULP_MS = 200;
/** What broke off is gone on with after this. Beside the poll of the page that is one request in 2 s. */
const AGAIN_MS = 5000;
/** How many characters of a datum's id tell it from others to a person, and to the gateway. */
const SHORT_ID = 12;
const STREAMS: readonly LogStream[] = ["stdout", "stderr"];
/** Pieces of output before a line that an address names, so that it is not without what led to it. */
const BEFORE_MARKED = 20;

export interface LogsProps {
  readonly job: Job;
  /** What datums are called, as far as it is known; the lines tell it of others. */
  readonly known: ReadonlyMap<string, string>;
  /** Whose lines; undefined: those of all datums. */
  readonly datum: string | undefined;
  /** The line that the address names, by its `next`. */
  readonly marked: string | undefined;
  /** Shows the lines of a datum, or of all for undefined, and marks one of them. */
  readonly choose: (datum: string | undefined, marked?: string) => void;
}

/** What the datums of a job print, from the end, as it comes. */
export function Logs({ job, known, datum, marked, choose }: LogsProps) {
  const [typed, setTyped] = useState("");
  const [filter, setFilter] = useState("");
  const [stream, setStream] = useState<LogStream>();
  const learned = useRef(new Map<string, string>());
  const nameOf = (id: string): string | undefined => known.get(id) ?? learned.current.get(id);
  const { isBusy, submit, fault } = useSubmission(async (gateway) => {
    if (typed === "") return choose(undefined);
    choose(DATUM_ID_START.test(typed) ? typed : await datumAt(gateway, job.id, typed));
    setTyped("");
  });
  const download = useAct((gateway) => saveLines(gateway, { job, datum, stream, nameOf }));
  // Where the address leads when it is opened. A line that is marked later is one that is shown already.
  const [entry, setEntry] = useState({ datum, from: marked });
  const from = entry.datum === datum ? entry.from : undefined;
  return (
    <section id="logs" aria-label="Logs">
      <h2>Logs</h2>
      <form className="actions" onSubmit={submit}>
        {datum !== undefined && (
          <>
            <span>
              Of <b className="mono">{nameOf(datum) ?? datum.slice(0, SHORT_ID)}</b>
            </span>
            <Button act={() => choose(undefined)}>Of all datums</Button>
          </>
        )}
        <span className="pair">
          <NameField label="Of the datum" value={typed} set={setTyped} placeholder="/file or an id" />
        </span>
        <button type="submit" disabled={isBusy}>
          Show
        </button>
        <span className="pair">
          <SearchField label="Lines with" value={filter} set={setFilter} placeholder="a text or a file" />
        </span>
        <label className="pair">
          Printed on{" "}
          <select
            value={stream ?? ""}
            onChange={({ target }) => setStream(STREAMS.find((each) => each === target.value))}
          >
            <option value="">stdout and stderr</option>
            {STREAMS.map((each) => (
              <option key={each}>{each}</option>
            ))}
          </select>
        </label>
        <Button disabled={download.isBusy} act={download.run}>
          {download.isBusy ? "Downloading…" : "Download"}
        </Button>
        <CliLine
          line={command`sluice job logs ${job.id}${datum ? command` --datum ${datum.slice(0, SHORT_ID)}` : []}${stream ? command` --stream ${stream}` : []}${job.finishedAt === null ? command` --follow` : []}`}
        />
      </form>
      {fault}
      <Fault words={download.fault} />
      <Lines
        key={`${job.id} ${datum ?? ""} ${stream ?? ""} ${from ?? ""}`}
        job={job}
        datum={datum}
        stream={stream}
        from={from}
        marked={marked}
        choose={choose}
        filter={filter.toLowerCase()}
        nameOf={nameOf}
        learn={(id, name) => learned.current.set(id, name)}
        toEnd={() => {
          setEntry({ datum, from: undefined });
          choose(datum);
        }}
      />
    </section>
  );
}

const DATUM_ID_START = /^[0-9a-f]{4,64}$/;
/** Datums that are looked through for a file, and how many one request has. */
const MAX_LOOKED_AT = 10_000;
const PAGE = 1000;

/** The id of the first datum of a job that reads a file, by its path or as the page calls it. */
async function datumAt(gateway: Gateway, job: string, file: string): Promise<string> {
  const path = file.replace(/^\//, "");
  let looked = 0;
  for (let after: string | undefined; looked < MAX_LOOKED_AT; ) {
    const page: DatumPage = await gateway.call<DatumPage>(`/jobs/${encodeURIComponent(job)}/datums`, {
      query: { limit: PAGE, after },
    });
    const found = page.datums.find(
      ({ inputs }) => inputsText(inputs) === file || inputs.some((input) => input.path === path),
    );
    if (found) return found.id;
    looked += page.datums.length;
    if (page.next === null) break;
    after = page.next;
  }
  throw new Error(
    `No datum of the job reads '${file}'${looked < MAX_LOOKED_AT ? "" : ", of the first 10,000"}.`,
  );
}

interface Saved {
  readonly job: Job;
  readonly datum: string | undefined;
  readonly stream: LogStream | undefined;
  nameOf(datum: string): string | undefined;
}

/** Saves all lines that are kept, each with its time, its node, its file and its stream. */
async function saveLines(
  gateway: Gateway,
  { job: { id, pipeline }, datum, stream, nameOf }: Saved,
): Promise<void> {
  const names = new Map<string, string>();
  const parts: string[] = [];
  const lines = gateway.lines<LogLine>(`/jobs/${encodeURIComponent(id)}/logs`, {
    query: { datum, stream },
    opened() {},
  });
  for await (const { datum: own, inputs, node, at, line, stream: on, dropped } of lines) {
    if (inputs) names.set(own, inputsText(inputs));
    const before = `${new Date(at).toISOString()} ${node ?? "-"} ${names.get(own) ?? nameOf(own) ?? own}`;
    if (dropped !== undefined) parts.push(`${before} [${dropped} lines are not kept]\n`);
    if (line !== null) parts.push(`${before} ${on ?? "-"} ${line}\n`);
  }
  save(
    new Blob(parts),
    `${pipeline}-${id}${datum ? `-${datum.slice(0, SHORT_ID)}` : ""}${stream ? `-${stream}` : ""}.log`,
  );
}

function waitText({ reason, finishedAt, datums }: Job, stream: LogStream | undefined): string {
  const nothing = `Nothing ${finishedAt === null ? "is" : "was"} printed${stream ? ` on ${stream}` : ""}`;
  if (finishedAt !== null) {
    return datums.processed + datums.failed === 0
      ? `${nothing}: no datum ran in this job.`
      : `${nothing}, or it is kept no more.`;
  }
  return reason === null ? `${nothing} yet. Its datums run.` : `${nothing} yet. The job says: ${reason}.`;
}

interface LinesProps extends Omit<LogsProps, "known"> {
  /** In small letters: only lines that hold it, or whose file does. */
  readonly filter: string;
  /** Only lines that came on it; undefined: of both. */
  readonly stream: LogStream | undefined;
  nameOf(datum: string): string | undefined;
  /** Hears what a datum is called. */
  learn(datum: string, name: string): void;
  /** A line that the reading begins shortly before; undefined: it begins so many lines before the end. */
  readonly from: string | undefined;
  toEnd(): void;
}

function Lines({ job, datum, stream, from, marked, choose, filter, nameOf, learn, toEnd }: LinesProps) {
  const session = useSession();
  const [{ lines: read, isCut }, setShown] = useState<Shown>(NOTHING);
  const lines =
    filter === ""
      ? read
      : read.filter(
          (each) =>
            each.line?.toLowerCase().includes(filter) || nameOf(each.datum)?.toLowerCase().includes(filter),
        );
  const learning = useRef(learn);
  learning.current = learn;
  const [fault, setFault] = useState<string>();
  const [isBroken, setBroken] = useState(false);
  const [isRead, setRead] = useState(false);
  const [isAtEnd, setAtEnd] = useState(from === undefined);
  const box = useRef<HTMLDivElement>(null);
  const { id } = job;
  const isOver = useRef(false);
  isOver.current = job.finishedAt !== null;
  /** Where lines are read from: behind one, or so many before the end. */
  const next = useRef<Begin>(beginAt(from));
  const isSeen = useSyncExternalStore(subscribeSeen, isSeenNow);

  // While nobody looks at the tab nothing is read: it goes on when somebody does.
  useEffect(() => {
    if (!isSeen || isRead) return;
    const stopping = new AbortController();
    const keepsFirst = from !== undefined;
    const gulps = inGulps((more) => setShown((before) => after(before, more, { keepsFirst })));
    const reading: Reading = {
      ...{ gateway: session.gateway, job: id, datum, stream, next },
      isOver: () => isOver.current,
      signal: stopping.signal,
      add(line) {
        if (line.inputs) learning.current(line.datum, inputsText(line.inputs));
        gulps.add(line);
      },
      broke: setBroken,
    };
    readLines(reading).then(
      () => {
        gulps.hand();
        setRead(true);
      },
      (error: unknown) => {
        if (!stopping.signal.aborted) setFault(faultText(error, session));
      },
    );
    return () => {
      stopping.abort();
      gulps.hand();
    };
  }, [session, id, datum, stream, from, isSeen, isRead]);

  // biome-ignore lint/correctness/useExhaustiveDependencies: each new line moves the end.
  useLayoutEffect(() => {
    if (isAtEnd && box.current) box.current.scrollTop = box.current.scrollHeight;
  }, [lines, isAtEnd]);

  const isMarkedThere = from !== undefined && lines.some(({ next }) => next === from);
  useEffect(() => {
    if (isMarkedThere) box.current?.querySelector(".marked")?.scrollIntoView({ block: "center" });
  }, [isMarkedThere]);

  if (fault !== undefined) return <Fault words={fault} />;
  return (
    <>
      {isBroken && (
        <p className="quiet" role="status">
          The gateway does not answer. The lines go on when it does.
        </p>
      )}
      {filter !== "" && read.length > 0 && (
        <p className="quiet" role="status">
          {countText(lines.length)} of {counted(read.length, "line")}
        </p>
      )}
      {lines.length === 0 && read.length > 0 ? null : lines.length === 0 ? (
        <p className="quiet">
          {isRead || job.finishedAt === null ? waitText(job, stream) : "Reading the lines…"}
        </p>
      ) : (
        <div
          ref={box}
          className="lines"
          role="log"
          aria-label={
            datum === undefined
              ? "What its datums printed"
              : `What ${nameOf(datum) ?? datum.slice(0, SHORT_ID)} printed`
          }
          aria-live="off"
          // biome-ignore lint/a11y/noNoninteractiveTabindex: what scrolls must be reached by keys.
          tabIndex={0}
          onKeyDown={moveByArrows}
          onScroll={({ currentTarget: { scrollTop, scrollHeight, clientHeight } }) =>
            setAtEnd(!isCut && scrollHeight - scrollTop - clientHeight < 8)
          }
        >
          <ol>
            {lines.map((line, index) => (
              <Line
                key={line.next}
                line={line}
                isMarked={line.next !== undefined && line.next === marked}
                isEntry={marked === undefined ? index === lines.length - 1 : line.next === marked}
                datum={datum}
                name={nameOf(line.datum) ?? line.datum.slice(0, 8)}
                choose={choose}
              />
            ))}
          </ol>
        </div>
      )}
      <p className="actions">
        {lines.length > 0 && !isAtEnd && !isCut && <Button act={() => setAtEnd(true)}>To the end</Button>}
        {isCut && (
          <>
            <span className="quiet">More lines follow than are shown here.</span>
            <Button act={toEnd}>To the end</Button>
          </>
        )}
        {read.length >= MAX_LINES && !isCut && (
          <span className="quiet">
            Here are the last {countText(MAX_LINES)} lines. The command prints all of them.
          </span>
        )}
      </p>
    </>
  );
}

interface LineProps {
  readonly line: LogLine;
  readonly isMarked: boolean;
  /** Whether keys come into the lines here; from there arrows lead on. With each of them a stop, nobody would get past. */
  readonly isEntry: boolean;
  /** Whose lines are shown; undefined: each says whose it is. */
  readonly datum: string | undefined;
  /** What its datum is called. */
  readonly name: string;
  readonly choose: LogsProps["choose"];
}

/** Its time leads to it; of all datums' lines, each leads to the others of its datum. */
const Line = memo(function Line({ line: record, isMarked, isEntry, datum, name, choose }: LineProps) {
  const { line, at, stream, next, dropped, datum: own, node } = record;
  return (
    <li className={`${isMarked ? "marked" : ""} ${stream ?? ""}`}>
      {dropped !== undefined && (
        <p className="quiet">{countText(dropped)} lines before this one are not kept</p>
      )}
      <Button
        className="plain at"
        tabIndex={isEntry ? 0 : -1}
        title={`${exactText(at)}${node === null ? "" : ` on ${node}`}${stream ? `, ${stream}` : ""}. Puts the line into the address.`}
        act={() => choose(datum, next)}
      >
        {TIME.format(at)}
      </Button>
      {datum === undefined && (
        <Plain tabIndex={isEntry ? 0 : -1} title="What this datum printed" act={() => choose(own)}>
          {name}
        </Plain>
      )}
      <code>{line ?? ""}</code>
    </li>
  );
});

function moveByArrows(event: KeyboardEvent<HTMLElement>): void {
  const here = event.target instanceof Element ? event.target.closest("li") : null;
  const next =
    event.key === "ArrowDown"
      ? here?.nextElementSibling
      : event.key === "ArrowUp"
        ? here?.previousElementSibling
        : undefined;
  const time = next?.querySelector<HTMLElement>(".at");
  if (!time) return;
  event.preventDefault();
  time.focus();
}

const TIME = new Intl.DateTimeFormat(undefined, { timeStyle: "medium" });

interface Shown {
  readonly lines: readonly LogLine[];
  /** What follows is left out. */
  readonly isCut: boolean;
}

const NOTHING: Shown = { lines: [], isCut: false };

/** At most MAX_LINES: the last ones, or the first ones. */
function after(before: Shown, more: readonly LogLine[], { keepsFirst }: { keepsFirst: boolean }): Shown {
  if (before.isCut) return before;
  const all = [...before.lines, ...more];
  const isCut = keepsFirst && all.length > MAX_LINES;
  return { lines: isCut ? all.slice(0, MAX_LINES) : all.slice(-MAX_LINES), isCut };
}

/** Gathers lines, and hands them on a few times a second; nothing happens while none comes. */
function inGulps(take: (lines: readonly LogLine[]) => void) {
  let lines: LogLine[] = [];
  let timer: ReturnType<typeof setTimeout> | undefined;
  /** Hands on what there is now. */
  const hand = (): void => {
    clearTimeout(timer);
    timer = undefined;
    const gathered = lines;
    lines = [];
    if (gathered.length > 0) take(gathered);
  };
  const add = (line: LogLine): void => {
    lines.push(line);
    timer ??= setTimeout(hand, GULP_MS);
  };
  return { add, hand };
}

function subscribeSeen(listener: () => void): () => void {
  document.addEventListener("visibilitychange", listener);
  return () => document.removeEventListener("visibilitychange", listener);
}

const isSeenNow = (): boolean => document.visibilityState !== "hidden";

type Begin = { readonly after: string } | { readonly tail: number };

/** Some lines before the one that a `next` names. A `next` of another kind names none, and the last lines are read. */
function beginAt(next: string | undefined): Begin {
  const chunk = /^(\d{1,15})\.\d+$/.exec(next ?? "")?.[1];
  if (chunk === undefined) return { tail: MAX_LINES };
  return { after: `${Math.max(0, Number(chunk) - BEFORE_MARKED)}.0` };
}

interface Reading {
  readonly gateway: Gateway;
  readonly job: string;
  readonly datum: string | undefined;
  readonly stream: LogStream | undefined;
  /** Where it begins; moved behind each line that came. */
  readonly next: { current: Begin };
  readonly signal: AbortSignal;
  /** Whether the job has ended: then nothing more comes. */
  isOver(): boolean;
  add(line: LogLine): void;
  /** Whether it broke off, and is yet to go on. */
  broke(isBroken: boolean): void;
}

/** Reads the lines until the job has ended. What breaks off is gone on with from behind its last line. */
async function readLines(reading: Reading): Promise<void> {
  const { gateway, job, datum, stream, next, signal, isOver, add, broke } = reading;
  for (;;) {
    const follow = !isOver();
    try {
      const lines = gateway.lines<LogLine>(`/jobs/${encodeURIComponent(job)}/logs`, {
        query: { datum, stream, follow, ...next.current },
        signal,
        opened: () => broke(false),
      });
      for await (const line of lines) {
        if (line.next !== undefined) next.current = { after: line.next };
        add(line);
      }
      if (!follow) return;
    } catch (error) {
      // A refusal stays one.
      if (signal.aborted || !isAway(error)) throw error;
      broke(true);
    }
    // It has ended, as far as its lines say: the page hears so soon, and what came last is looked for once more.
    await pause(AGAIN_MS, signal);
  }
}

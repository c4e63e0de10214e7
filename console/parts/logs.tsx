import {
  type FormEvent,
  type KeyboardEvent,
  memo,
  useEffect,
  useLayoutEffect,
  useRef,
  useState,
  useSyncExternalStore,
} from "react";
import type { Job, LogLine } from "../../protocol/pipelines.ts";
import { type Gateway, isAway, pause } from "../gateway/gateway.ts";
import { faultText, useSession } from "../gateway/session.ts";
import { CliLine, command } from "./cli-line.tsx";
import { Button, Fault, NameField, Plain } from "./form.tsx";
import { countText, exactText } from "./words.tsx";

/** So many lines are on the page, the last ones: a page that holds a million is slow, and nobody reads them there. */
const MAX_LINES = 5000;
/** Lines come faster than anybody reads: they are shown in gulps. */
const GULP_MS = 200;
/** What broke off is gone on with after this. Beside the poll of the page that is one request in 2 s. */
const AGAIN_MS = 5000;
/** How many characters of a datum's id tell it from others to a person, and to the gateway. */
const SHORT_ID = 12;
/** Pieces of output before a line that an address names, so that it is not without what led to it. */
const BEFORE_MARKED = 20;

export interface LogsProps {
  readonly job: Job;
  /** Whose lines; undefined: those of all datums. */
  readonly datum: string | undefined;
  /** The line that the address names, by its `next`. */
  readonly marked: string | undefined;
  /** Shows the lines of a datum, or of all for undefined, and marks one of them. */
  readonly choose: (datum: string | undefined, marked?: string) => void;
}

/** What the datums of a job print, from the end, as it comes. */
export function Logs({ job, datum, marked, choose }: LogsProps) {
  const [typed, setTyped] = useState("");
  function show(event: FormEvent): void {
    event.preventDefault();
    choose(typed || undefined);
    setTyped("");
  }
  // Where the address leads when it is opened. A line that is marked later is one that is shown already.
  const [entry, setEntry] = useState({ datum, from: marked });
  const from = entry.datum === datum ? entry.from : undefined;
  return (
    <section id="logs" aria-label="Logs">
      <h2>Logs</h2>
      <form className="actions" onSubmit={show}>
        <span>
          Of {datum === undefined ? "all datums" : <b className="mono">{datum.slice(0, SHORT_ID)}</b>}
        </span>
        {datum !== undefined && <Button act={() => choose(undefined)}>Of all datums</Button>}
        <NameField label="Of the datum" value={typed} set={setTyped} placeholder="how its id begins" />
        <button type="submit">Show</button>
        <CliLine
          line={command`sluice job logs ${job.id}${datum ? command` --datum ${datum.slice(0, SHORT_ID)}` : []}${job.finishedAt === null ? command` --follow` : []}`}
        />
      </form>
      <Lines
        key={`${job.id} ${datum ?? ""} ${from ?? ""}`}
        job={job}
        datum={datum}
        from={from}
        marked={marked}
        choose={choose}
        toEnd={() => {
          setEntry({ datum, from: undefined });
          choose(datum);
        }}
      />
    </section>
  );
}

function waitText({ reason, finishedAt, datums }: Job): string {
  if (finishedAt !== null) {
    return datums.processed + datums.failed === 0
      ? "Nothing was printed: no datum ran in this job."
      : "Nothing was printed, or it is kept no more.";
  }
  return reason === null
    ? "Nothing is printed yet. Its datums run."
    : `Nothing is printed yet. The job says: ${reason}.`;
}

interface LinesProps extends LogsProps {
  /** A line that the reading begins shortly before; undefined: it begins so many lines before the end. */
  readonly from: string | undefined;
  toEnd(): void;
}

function Lines({ job, datum, from, marked, choose, toEnd }: LinesProps) {
  const session = useSession();
  const [{ lines, isCut }, setShown] = useState<Shown>(NOTHING);
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
      ...{ gateway: session.gateway, job: id, datum, next },
      isOver: () => isOver.current,
      signal: stopping.signal,
      add: gulps.add,
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
  }, [session, id, datum, from, isSeen, isRead]);

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
      {lines.length === 0 ? (
        <p className="quiet">{isRead || job.finishedAt === null ? waitText(job) : "Reading the lines…"}</p>
      ) : (
        <div
          ref={box}
          className="lines"
          role="log"
          aria-label={
            datum === undefined ? "What its datums printed" : `What ${datum.slice(0, SHORT_ID)} printed`
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
        {lines.length >= MAX_LINES && !isCut && (
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
  readonly choose: LogsProps["choose"];
}

/** Its time leads to it; of all datums' lines, each leads to the others of its datum. */
const Line = memo(function Line({ line: record, isMarked, isEntry, datum, choose }: LineProps) {
  const { line, at, next, dropped, datum: own, node } = record;
  return (
    <li className={isMarked ? "marked" : undefined}>
      {dropped !== undefined && (
        <p className="quiet">{countText(dropped)} lines before this one are not kept</p>
      )}
      <Button
        className="plain at"
        tabIndex={isEntry ? 0 : -1}
        title={`${exactText(at)}${node === null ? "" : ` on ${node}`}. Puts the line into the address.`}
        act={() => choose(datum, next)}
      >
        {TIME.format(at)}
      </Button>
      {datum === undefined && (
        <Plain tabIndex={isEntry ? 0 : -1} title="What this datum printed" act={() => choose(own)}>
          {own.slice(0, 8)}
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
async function readLines({ gateway, job, datum, next, signal, isOver, add, broke }: Reading): Promise<void> {
  for (;;) {
    const follow = !isOver();
    try {
      const lines = gateway.lines<LogLine>(`/jobs/${encodeURIComponent(job)}/logs`, {
        query: { datum, follow, ...next.current },
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

import {
  type FormEvent,
  type KeyboardEvent,
  memo,
  useEffect,
  useId,
  useLayoutEffect,
  useRef,
  useState,
} from "react";
import type { Job, LogLine } from "../../protocol/pipelines.ts";
import { type Gateway, isAway } from "../gateway/gateway.ts";
import { faultText, useSession } from "../gateway/session.tsx";
import { Fault } from "./broken.tsx";
import { CliLine, command } from "./cli-line.tsx";
import { countText } from "./numbers.ts";
import { exactText } from "./time.tsx";

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
  const field = useId();
  function show(event: FormEvent): void {
    event.preventDefault();
    choose(typed.trim() === "" ? undefined : typed.trim());
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
        {datum !== undefined && (
          <button type="button" onClick={() => choose(undefined)}>
            Of all datums
          </button>
        )}
        <label htmlFor={field}>Of the datum</label>
        <input
          id={field}
          className="mono"
          value={typed}
          onChange={({ target }) => setTyped(target.value)}
          placeholder="how its id begins"
          spellCheck={false}
          autoComplete="off"
        />
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
  const latest = useRef(session);
  latest.current = session;
  const { gateway } = session;

  useEffect(() => {
    const stopping = new AbortController();
    const gulps = new Gulps((more) =>
      setShown((before) => after(before, more, { keepsFirst: from !== undefined })),
    );
    const reading: Reading = {
      ...{ gateway, job: id, datum, from },
      isOver: () => isOver.current,
      signal: stopping.signal,
      add: (line) => gulps.add(line),
      tell: setBroken,
    };
    readLines(reading).then(
      () => {
        gulps.hand();
        setRead(true);
      },
      (error: unknown) => {
        if (!stopping.signal.aborted) setFault(faultText(error, latest.current));
      },
    );
    return () => {
      stopping.abort();
      gulps.stop();
    };
  }, [gateway, id, datum, from]);

  // biome-ignore lint/correctness/useExhaustiveDependencies: each new line moves the end.
  useLayoutEffect(() => {
    if (isAtEnd && box.current) box.current.scrollTop = box.current.scrollHeight;
  }, [lines, isAtEnd]);

  const isMarkedThere = from !== undefined && lines.some(({ next }) => next === from);
  useEffect(() => {
    if (isMarkedThere) box.current?.querySelector(".marked")?.scrollIntoView({ block: "center" });
  }, [isMarkedThere]);

  if (fault !== undefined) {
    return <Fault words={fault} />;
  }
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
        {lines.length > 0 && !isAtEnd && !isCut && (
          <button type="button" onClick={() => setAtEnd(true)}>
            To the end
          </button>
        )}
        {isCut && (
          <>
            <span className="quiet">More lines follow than are shown here.</span>
            <button type="button" onClick={toEnd}>
              To the end
            </button>
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
      <button
        type="button"
        className="plain at"
        tabIndex={isEntry ? 0 : -1}
        title={`${exactText(at)}${node === null ? "" : ` on ${node}`}. Puts the line into the address.`}
        onClick={() => choose(datum, next)}
      >
        {TIME.format(at)}
      </button>
      {datum === undefined && (
        <button
          type="button"
          className="plain"
          tabIndex={isEntry ? 0 : -1}
          title="What this datum printed"
          onClick={() => choose(own)}
        >
          {own.slice(0, 8)}
        </button>
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
function after(
  { lines, isCut }: Shown,
  more: readonly LogLine[],
  { keepsFirst }: { keepsFirst: boolean },
): Shown {
  if (isCut) return { lines, isCut };
  const all = [...lines, ...more];
  if (all.length <= MAX_LINES) return { lines: all, isCut };
  return keepsFirst
    ? { lines: all.slice(0, MAX_LINES), isCut: true }
    : { lines: all.slice(-MAX_LINES), isCut: false };
}

/** Gathers lines, and hands them on a few times a second; nothing happens while none comes. */
class Gulps {
  readonly #take: (lines: readonly LogLine[]) => void;
  #lines: LogLine[] = [];
  #timer: ReturnType<typeof setTimeout> | undefined;

  constructor(take: (lines: readonly LogLine[]) => void) {
    this.#take = take;
  }

  add(line: LogLine): void {
    this.#lines.push(line);
    this.#timer ??= setTimeout(() => this.hand(), GULP_MS);
  }

  /** Hands on what there is now. */
  hand(): void {
    this.stop();
    if (this.#lines.length === 0) return;
    const lines = this.#lines;
    this.#lines = [];
    this.#take(lines);
  }

  stop(): void {
    clearTimeout(this.#timer);
    this.#timer = undefined;
  }
}

interface Reading {
  readonly gateway: Gateway;
  readonly job: string;
  readonly datum: string | undefined;
  readonly from: string | undefined;
  readonly signal: AbortSignal;
  /** Whether the job has ended: then nothing more comes. */
  isOver(): boolean;
  add(line: LogLine): void;
  /** Whether it broke off, and is yet to go on. */
  tell(isBroken: boolean): void;
}

/**
 * Reads the lines until the job has ended. While nobody looks at the tab nothing is read; what breaks off, or was left off
 * for that, is gone on with from behind its last line.
 */
async function readLines(reading: Reading): Promise<void> {
  const { from, signal, isOver, tell } = reading;
  const begin = from === undefined ? undefined : beginOf(from);
  let place: Place = begin === undefined ? { tail: MAX_LINES } : { after: begin };
  const moved = (after: string): void => {
    place = { after };
  };
  for (;;) {
    await looked(signal);
    const follow = !isOver();
    // Nothing is left of a job that has ended; to leave it off for a hidden tab would only ask once more.
    const hidden = follow ? leftOff() : undefined;
    try {
      await readTurn(reading, { place, follow, hidden: hidden?.signal, moved });
      if (!follow) return;
    } catch (error) {
      const wasLeft = hidden?.signal.aborted === true;
      // A refusal stays one. What followed broke off on its way, or nobody looked.
      if (signal.aborted || !(wasLeft || isAway(error))) throw error;
      tell(!wasLeft);
      if (wasLeft) continue;
    } finally {
      hidden?.end();
    }
    // It has ended, as far as its lines say: the page hears so soon, and what came last is looked for once more.
    await pause(AGAIN_MS, signal);
  }
}

/** Where lines are read from: behind one, or so many before the end. */
type Place = { readonly after: string } | { readonly tail: number };

interface Turn {
  readonly place: Place;
  readonly follow: boolean;
  /** Aborted when nobody looks any more. */
  readonly hidden: AbortSignal | undefined;
  moved(after: string): void;
}

/** One answer, to its end. */
async function readTurn(
  { gateway, job, datum, signal, add, tell }: Reading,
  { place, follow, hidden, moved }: Turn,
): Promise<void> {
  const lines = gateway.lines<LogLine>(`/jobs/${encodeURIComponent(job)}/logs`, {
    query: { datum, follow, ...place },
    signal: hidden ? AbortSignal.any([signal, hidden]) : signal,
    opened: () => tell(false),
  });
  for await (const line of lines) {
    if (line.next !== undefined) moved(line.next);
    add(line);
  }
}

/** A signal that is aborted when nobody looks at the tab any more. */
function leftOff(): { readonly signal: AbortSignal; end(): void } {
  const controller = new AbortController();
  const look = (): void => {
    if (document.visibilityState === "hidden") controller.abort();
  };
  document.addEventListener("visibilitychange", look);
  return {
    signal: controller.signal,
    end: () => document.removeEventListener("visibilitychange", look),
  };
}

/** The place some lines before the one that a `next` names; undefined: it is not of that kind, and all is read. */
function beginOf(next: string): string | undefined {
  const chunk = /^(\d{1,15})\.\d+$/.exec(next)?.[1];
  return chunk === undefined ? undefined : `${Math.max(0, Number(chunk) - BEFORE_MARKED)}.0`;
}

/** Until somebody looks at the tab. */
async function looked(signal: AbortSignal): Promise<void> {
  while (document.visibilityState === "hidden") {
    await new Promise<void>((resolve, reject) => {
      document.addEventListener("visibilitychange", () => resolve(), { once: true, signal });
      signal.addEventListener("abort", () => reject(signal.reason), { once: true });
    });
  }
}

async function pause(ms: number, signal: AbortSignal): Promise<void> {
  await new Promise<void>((resolve, reject) => {
    const timer = setTimeout(resolve, ms);
    const leave = (): void => {
      clearTimeout(timer);
      reject(signal.reason);
    };
    signal.addEventListener("abort", leave, { once: true });
  });
}

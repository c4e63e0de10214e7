import { type ReactNode, useEffect, useRef } from "react";
import type { Live } from "../gateway/session.ts";
import { CliLine, type CommandLine } from "./cli-line.tsx";
import { Button } from "./form.tsx";
import { Ago, countText } from "./words.tsx";

interface PageProps {
  readonly title: string;
  /** Beside the title. */
  readonly aside?: ReactNode;
  /** The command that shows the same. */
  readonly cli?: CommandLine;
  /** What keeps it up to date. */
  readonly live?: Live<unknown>;
  readonly children: ReactNode;
}

/** A page: its title, what it shows, and the command line that shows the same. */
export function Page({ title, aside, cli, live, children }: PageProps) {
  useEffect(() => {
    document.title = `${title} · Sluice`;
  }, [title]);
  const page = useRef<HTMLElement>(null);
  // A page may take the place of another one without being made anew.
  useEffect(() => {
    if (!isArriving || !page.current) return;
    isArriving = false;
    page.current.focus({ preventScroll: true });
  });
  return (
    <main id="page" ref={page} tabIndex={-1}>
      <div className="title">
        <h1>{title}</h1>
        {aside}
      </div>
      {live?.fault && (
        <div className="notice bad">
          <p>
            {/* The time beside it grows each second, which nobody wants to be told. */}
            <span role="alert">{live.fault.message}</span>
            {live.heardAt > 0 && (
              <>
                {" "}
                What is shown is from <Ago at={live.heardAt} />.
              </>
            )}
          </p>
          <Button act={live.reload}>Try again</Button>
        </div>
      )}
      {children}
      {cli !== undefined && (
        <footer className="equal">
          <span className="quiet">The same on the command line</span>
          <CliLine line={cli} />
        </footer>
      )}
    </main>
  );
}

/*
 * Another page begins at its top, and whoever uses keys or listens is there: a browser does both for documents, not for
 * pages that a script changes. Back and forward stay the browser's.
 */

let isArriving = false;

/** Watches for links that lead to another page; returns what ends that. */
export function watchArrivals(): () => void {
  // The query says which folder or file it is.
  const address = (): string => location.pathname + location.search;
  let before = address();
  const arrive = (): void => {
    if (address() === before) return;
    before = address();
    isArriving = true;
    scrollTo(0, 0);
  };
  const stay = (): void => {
    before = address();
  };
  // The router tells of them by this event.
  addEventListener("pushState", arrive);
  addEventListener("popstate", stay);
  return () => {
    removeEventListener("pushState", arrive);
    removeEventListener("popstate", stay);
  };
}

/** Whether what is shown is of this moment. */
export function Heard({ live: { fault, heardAt } }: { readonly live: Live<unknown> }) {
  if (heardAt === 0) return null;
  if (!fault) return <span className="heard">live</span>;
  return (
    <span className="heard stale">
      heard of <Ago at={heardAt} />
    </span>
  );
}

interface AskedProps<T> {
  readonly live: Live<T>;
  /** What is shown of the answer. Absent: only that it is awaited. */
  readonly children?: (data: T) => ReactNode;
}

/** What the gateway answered, or that it was asked. What went wrong is said elsewhere. */
export function Asked<T>({ live: { data, fault }, children }: AskedProps<T>) {
  if (data !== undefined) return children?.(data);
  return !fault && <p className="quiet">Asking the gateway…</p>;
}

interface SectionProps {
  readonly title: string;
  /** What it says to who does not see it, if that is more. */
  readonly label?: string;
  /** How many there are of what it is about. */
  readonly count?: number | undefined;
  readonly id?: string;
  readonly className?: string;
  /** The command that does the same. */
  readonly cli?: CommandLine;
  readonly children: ReactNode;
}

export function Section({ title, label = title, count, cli, children, ...section }: SectionProps) {
  return (
    <section aria-label={label} {...section}>
      <h2>
        {title} {count !== undefined && <span className="count">{countText(count)}</span>}
      </h2>
      {children}
      {cli && <CliLine line={cli} />}
    </section>
  );
}

interface TableProps {
  /** What stands over the columns. */
  readonly head: readonly string[];
  /** Those of them whose numbers stand at the right. */
  readonly sizes?: readonly string[];
  readonly className?: string;
  readonly caption?: string;
  /** The rows. */
  readonly children: ReactNode;
}

export function Table({ head, sizes = [], className, caption, children }: TableProps) {
  return (
    <table className={className}>
      {caption && <caption className="hidden">{caption}</caption>}
      <thead>
        <tr>
          {head.map((text) => (
            <th key={text} scope="col" className={sizes.includes(text) ? "size" : undefined}>
              {text}
            </th>
          ))}
        </tr>
      </thead>
      <tbody>{children}</tbody>
    </table>
  );
}

interface ScrolledProps {
  readonly className: string;
  /** What it is to who does not see it. */
  readonly label: string;
  readonly text: string;
}

/** Text as it is, which scrolls in its own box. */
export function Scrolled({ className, label, text }: ScrolledProps) {
  return (
    // biome-ignore lint/a11y/noNoninteractiveTabindex: what scrolls must be reached by keys.
    <section className={className} aria-label={label} tabIndex={0}>
      <pre>{text}</pre>
    </section>
  );
}

interface FigureProps {
  readonly count: number;
  readonly word: string;
  /** "+" if there are more than were counted. */
  readonly plus?: string;
  readonly isBad?: boolean;
}

/** A large number with its word, for the head of a page. */
export function Figure({ count, word, plus = "", isBad = false }: FigureProps) {
  return (
    <span className={["figure", isBad && "bad", count === 0 && "none"].filter(Boolean).join(" ")}>
      <b>
        {countText(count)}
        {count > 0 && plus}
      </b>{" "}
      {word}
    </span>
  );
}

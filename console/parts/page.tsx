import { type ReactNode, useEffect, useRef } from "react";
import type { Live } from "../gateway/live.ts";
import { arriveAt } from "./arrival.ts";
import { CliLine, type CommandLine } from "./cli-line.tsx";
import { Ago } from "./time.tsx";

export interface PageProps {
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
  const place = useRef<HTMLElement>(null);
  // A page may take the place of another one without being made anew.
  useEffect(() => arriveAt(place.current));
  return (
    <main id="page" ref={place} tabIndex={-1}>
      <div className="title">
        <h1>{title}</h1>
        {aside}
      </div>
      {live?.fault && <Fault live={live} />}
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

/** What went wrong and what to do. What was there before stays below it. */
function Fault({ live: { fault, heardAt, reload } }: { readonly live: Live<unknown> }) {
  if (!fault) return null;
  return (
    <div className="notice bad">
      <p>
        {/* The time beside it grows each second, which nobody wants to be told. */}
        <span role="alert">{fault.message}</span>
        {heardAt > 0 && (
          <>
            {" "}
            What is shown is from <Ago at={heardAt} />.
          </>
        )}
      </p>
      <button type="button" onClick={reload}>
        Try again
      </button>
    </div>
  );
}

/** Whether what is shown is of this moment. */
export function Heard({ live: { fault, heardAt } }: { readonly live: Live<unknown> }) {
  if (heardAt === 0) return null;
  return (
    <span className={fault ? "heard stale" : "heard"}>
      {fault ? (
        <>
          heard of <Ago at={heardAt} />
        </>
      ) : (
        "live"
      )}
    </span>
  );
}

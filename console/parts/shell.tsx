import { onlineManager } from "@tanstack/react-query";
import { type ReactNode, useEffect, useState } from "react";
import { Link, useRoute } from "wouter";
import { useSession } from "../gateway/session.tsx";
import { watchArrivals } from "./arrival.ts";

export function Wordmark() {
  return (
    <span className="wordmark">
      <svg viewBox="0 0 32 32" aria-hidden="true">
        <path d="M3 11h9l8 10h9" fill="none" stroke="currentColor" strokeWidth="3.4" strokeLinecap="round" />
        <path d="M16 4v24" stroke="currentColor" strokeOpacity=".4" strokeWidth="2.6" strokeLinecap="round" />
      </svg>
      Sluice
    </span>
  );
}

/** What is around every page. */
export function Shell({ children }: { readonly children: ReactNode }) {
  const { gateway, end } = useSession();
  useEffect(watchArrivals, []);
  const isOnline = useOnline();
  return (
    <>
      <button type="button" className="skip" onClick={() => document.getElementById("page")?.focus()}>
        Skip to the page
      </button>
      <header className="shell">
        <Link href="/" aria-label="Sluice, Now">
          <Wordmark />
        </Link>
        <nav aria-label="Pages">
          <Tab href="/">Now</Tab>
          <Tab href="/repos">Repos</Tab>
          <Tab href="/pipelines">Pipelines</Tab>
          <Tab href="/graph">Graph</Tab>
          <Tab href="/nodes">Nodes</Tab>
          <Tab href="/keys">Keys</Tab>
        </nav>
        <span className="who">
          <span className="mono" title="The key that signs">
            {gateway.keyId}
          </span>
          <button type="button" className="plain" onClick={() => end()}>
            Log out
          </button>
        </span>
      </header>
      {!isOnline && (
        <p className="banner" role="status">
          This machine is offline. What is shown is what was there before.
        </p>
      )}
      {children}
    </>
  );
}

function Tab({ href, children }: { readonly href: string; readonly children: ReactNode }) {
  const [isHere] = useRoute(href === "/" ? href : `${href}/*?`);
  return (
    <Link href={href} aria-current={isHere ? "page" : undefined}>
      {children}
    </Link>
  );
}

function useOnline(): boolean {
  const [isOnline, setOnline] = useState(onlineManager.isOnline());
  useEffect(() => onlineManager.subscribe(setOnline), []);
  return isOnline;
}

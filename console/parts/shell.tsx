import { onlineManager } from "@tanstack/react-query";
import { Component, type ReactNode, useEffect, useSyncExternalStore } from "react";
import { Link, useLocation, useRoute } from "wouter";
import { useSession } from "../gateway/session.ts";
import { Button, Plain } from "./form.tsx";
import { Page, watchArrivals } from "./page.tsx";

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

const subscribeOnline = (listener: () => void) => onlineManager.subscribe(listener);
const isOnlineNow = (): boolean => onlineManager.isOnline();

interface ShellProps {
  /** What each page has in the corner. */
  readonly tools: ReactNode;
  readonly children: ReactNode;
}

/** What is around every page. */
export function Shell({ tools, children }: ShellProps) {
  const { gateway, isKept, end } = useSession();
  useEffect(watchArrivals, []);
  const isOnline = useSyncExternalStore(subscribeOnline, isOnlineNow);
  return (
    <>
      <Button className="skip" act={() => document.getElementById("page")?.focus()}>
        Skip to the page
      </Button>
      <header className="shell">
        <Link href="/" aria-label="Sluice, Now">
          <Wordmark />
        </Link>
        <nav aria-label="Pages">
          <Tab href="/" name="Now" />
          <Tab href="/jobs" name="Jobs" />
          <Tab href="/repos" name="Repos" />
          <Tab href="/pipelines" name="Pipelines" />
          <Tab href="/graph" name="Graph" />
          <Tab href="/nodes" name="Nodes" />
          <Tab href="/keys" name="Keys" />
        </nav>
        <span className="who">
          {tools}
          <span className="key" title={`The key that signs: ${gateway.keyId}`}>
            {gateway.keyName}
          </span>
          {!isKept && (
            <span
              className="quiet"
              title="The gateway, or this browser, keeps no sessions: a reload asks for the key again."
            >
              in this tab alone
            </span>
          )}
          <Plain act={end}>Log out</Plain>
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

function Tab({ href, name }: { readonly href: string; readonly name: string }) {
  const [isHere] = useRoute(href === "/" ? href : `${href}/*?`);
  return (
    <Link href={href} aria-current={isHere ? "page" : undefined}>
      {name}
    </Link>
  );
}

interface BrokenProps {
  readonly children: ReactNode;
  /** Where it is: another place is tried anew. */
  readonly path: string;
}

class Catches extends Component<BrokenProps, { readonly fault: string | undefined }> {
  override state: { readonly fault: string | undefined } = { fault: undefined };

  static getDerivedStateFromError(error: unknown): { readonly fault: string } {
    return { fault: error instanceof Error ? error.message : String(error) };
  }

  override componentDidUpdate({ path }: BrokenProps): void {
    if (path !== this.props.path && this.state.fault !== undefined) this.setState({ fault: undefined });
  }

  override render(): ReactNode {
    const { fault } = this.state;
    if (fault === undefined) return this.props.children;
    return (
      <Page title="This page can't be shown">
        <p role="alert">If the gateway was changed to another release, the console has to be loaded anew.</p>
        <p className="actions">
          <Button className="main" act={() => location.reload()}>
            Load the console anew
          </Button>
        </p>
        <p className="quiet">What the browser says: {fault}</p>
      </Page>
    );
  }
}

/**
 * Stands in for a page that can't be shown. Most often its script could not be loaded: the gateway is of another release by
 * now, whose files have other names.
 */
export function Broken({ children }: { readonly children: ReactNode }) {
  const [path] = useLocation();
  return <Catches path={path}>{children}</Catches>;
}

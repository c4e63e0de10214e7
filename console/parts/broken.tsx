import { Component, type ReactNode } from "react";
import { useLocation } from "wouter";
import { Page } from "./page.tsx";

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
        <p role="alert">
          If the gateway was changed to another release, the console has to be loaded anew. That asks for the
          key again.
        </p>
        <p className="actions">
          <button type="button" className="main" onClick={() => location.reload()}>
            Load the console anew
          </button>
        </p>
        <p className="quiet">What the browser says: {fault}</p>
      </Page>
    );
  }
}

/**
 * Stands in for a page that can't be shown. Most often its script could not be loaded: the gateway is away, or is of another
 * release by now, whose files have other names.
 */
export function Broken({ children }: { readonly children: ReactNode }) {
  const [path] = useLocation();
  return <Catches path={path}>{children}</Catches>;
}

/** Why something was not done, which is read out; nothing if it was. */
export function Fault({ words }: { readonly words: string | undefined }) {
  if (words === undefined) return null;
  return (
    <p className="bad" role="alert">
      {words}
    </p>
  );
}

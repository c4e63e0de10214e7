import {
  type ComponentType,
  type LazyExoticComponent,
  lazy,
  type ReactNode,
  useEffect,
  useState,
} from "react";

/*
 * Pages whose scripts are loaded when they are first shown. If the gateway is away at that moment, the page comes by itself
 * once it is back, and whoever opened it loads nothing anew and does not log in again.
 */

/** How long it is until a script is asked for again. */
const AGAIN_MS = 2500;
/** What takes longer than this is told to who waits. */
const LONG_MS = 3000;

/** A part of the console whose script is loaded when it is first shown, again and again while the gateway is away. */
// biome-ignore lint/suspicious/noExplicitAny: as React has it: no other type takes components of any properties.
export function lazyPage<T extends ComponentType<any>>(
  load: () => Promise<{ default: T }>,
): LazyExoticComponent<T> {
  return lazy(() => patiently(load));
}

async function patiently<T>(load: () => Promise<T>): Promise<T> {
  let wasAway = false;
  for (let isFirst = true; ; isFirst = false) {
    try {
      return await load();
    } catch (error) {
      if (!(await isThere())) wasAway = true;
      // A browser may remember that a script could not be loaded, and the gateway that is back may be of another release.
      else if (wasAway && !isFirst) location.reload();
      else if (!isFirst) throw error;
    }
    await new Promise((resolve) => setTimeout(resolve, AGAIN_MS));
  }
}

/** Whether the gateway answers with the page that the console is in. */
async function isThere(): Promise<boolean> {
  const asked = fetch("/console/", { method: "HEAD", cache: "no-store" });
  return await asked.then(
    ({ ok }) => ok,
    () => false,
  );
}

/** Stands where a page will be whose script is on its way. */
export function Loading({ children = "Loading the page…" }: { readonly children?: ReactNode }) {
  const [isLong, setLong] = useState(false);
  useEffect(() => {
    const timer = setTimeout(() => setLong(true), LONG_MS);
    return () => clearTimeout(timer);
  }, []);
  return (
    <p className="quiet pad" role="status">
      {children}
      {isLong && " The gateway may be away: it comes as soon as the gateway answers."}
    </p>
  );
}

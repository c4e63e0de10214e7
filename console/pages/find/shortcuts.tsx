import { Suspense, useCallback, useEffect, useState } from "react";
import { Plain } from "../../parts/form.tsx";
import { lazyPage } from "../../parts/lazy-page.tsx";
import type { Shown } from "./finder.tsx";

const Finder = lazyPage(() => import("./finder.tsx"));

/** The keys that each page knows: they open what searches, and the list of all keys. */
export function Shortcuts() {
  const [shown, show] = useState<Shown>();
  useEffect(() => {
    const press = (event: KeyboardEvent): void => {
      const opens = { "/": "search", "?": "keys" } as const;
      const next = opens[event.key as keyof typeof opens];
      if (!next || event.ctrlKey || event.metaKey || event.altKey || isTyping(event)) return;
      event.preventDefault();
      show(next);
    };
    document.addEventListener("keydown", press);
    return () => document.removeEventListener("keydown", press);
  }, []);
  // A dialog tells that it was closed a moment later: by then the other one may be open.
  const close = useCallback(
    (which: Shown) => show((current) => (current === which ? undefined : current)),
    [],
  );
  return (
    <>
      <Plain act={() => show("search")} aria-haspopup="dialog" aria-keyshortcuts="/" title="Search: /">
        Search
      </Plain>
      {shown && (
        <Suspense fallback={null}>
          <Finder key={shown} shown={shown} show={show} close={() => close(shown)} />
        </Suspense>
      )}
    </>
  );
}

/** Whether a key is a letter of something that is written, or of a dialog. */
function isTyping(event: KeyboardEvent): boolean {
  // In a shadow, such as the editor's, the event's own target is what the shadow hangs on.
  const [target = null] = event.composedPath();
  if (!(target instanceof HTMLElement)) return false;
  return target.isContentEditable || target.closest("input, textarea, select, dialog") !== null;
}

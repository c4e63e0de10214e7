/**
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

/** Called by a page that is shown: moves the focus there if a link led to it. */
export function arriveAt(page: HTMLElement | null): void {
  if (!isArriving || !page) return;
  isArriving = false;
  page.focus({ preventScroll: true });
}

import { isUlid } from "../../../protocol/names.ts";
import type { NotOpen, PublicRead, Refused } from "../contract/answers.ts";
import type { ViewShown } from "../contract/files.ts";
import type { Ledger } from "../ledger/ledger.ts";
import type { OpenCommit } from "../open-commits/open-commit-store.ts";
import { isKept, wasGivenBack } from "../retention/kept.ts";
import { isPublic } from "../settings/settings.ts";
import type { CommitRow } from "../tree/commit-store.ts";
import type { Live } from "../tree/generation-store.ts";

/**
 * What a branch can show beside HEAD, by the first of a bucket's three names: an open commit or a commit by its id, or a
 * commit by its tag. Ids of open commits and of commits come from one source, so that none is both. What an open commit
 * became when it was finished has an id of its own.
 */
type FoundView =
  | { readonly live: Live; readonly openCommit: OpenCommit; readonly commit?: undefined }
  | { readonly live: Live; readonly commit: CommitRow; readonly openCommit?: undefined };

/** A view of the live generation: what was deleted has none. A public read sees no open commit, as if it were not there. */
export function findView(
  ledger: Ledger,
  { view, publicOnly = false }: PublicRead & { view: string },
): FoundView | undefined {
  const { live } = ledger;
  if (!live) return undefined;
  const openCommit = isUlid(view) && !publicOnly ? ledger.openCommits.findOpen(view, live.gen) : undefined;
  if (openCommit) return { live, openCommit };
  const commit = commitNamed(ledger, { gen: live.gen, name: view });
  return commit && { live, commit };
}

/** The commit of a generation that has this id or tag, if it is kept. */
export function commitNamed(
  ledger: Ledger,
  { gen, name }: { gen: number; name: string },
): CommitRow | undefined {
  const id = isUlid(name) ? name : ledger.tags.find(gen, name)?.commit;
  const commit = id === undefined ? undefined : ledger.commits.byId(id);
  return commit?.gen === gen && isKept(ledger, commit) ? commit : undefined;
}

/** Why there is no such view. */
export function noView(ledger: Ledger, view: string): Refused<"no-such-open-commit" | "no-such-version"> {
  const isGone = isUlid(view) && wasGivenBack(ledger, view);
  return { ok: false, reason: isGone ? "no-such-version" : "no-such-open-commit" };
}

/** Whether a view is there, and what it is. */
export function showView(
  ledger: Ledger,
  { view, publicOnly = false }: PublicRead & { view: string },
): ViewShown | Refused<"no-such-open-commit" | "no-such-version" | "not-public"> {
  if (publicOnly && !isPublic(ledger)) return { ok: false, reason: "not-public" };
  const found = findView(ledger, { view, publicOnly });
  if (!found) return noView(ledger, view);
  const { live, commit } = found;
  return commit
    ? { ok: true, shows: "commit", modifiedAt: commit.createdAt }
    : { ok: true, shows: "open-commit", modifiedAt: live.head.modifiedAt };
}

/** Why nothing can be written into what a write took for an open commit. */
export function notOpen(ledger: Ledger, name: string): NotOpen {
  const live = ledger.generations.live();
  const isCommit = live !== null && commitNamed(ledger, { gen: live.gen, name }) !== undefined;
  return { ok: false, reason: isCommit ? "read-only" : "no-such-open-commit" };
}

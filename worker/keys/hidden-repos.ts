import { holdsSeparator } from "../../protocol/names.ts";
import type { Catalogue } from "../catalogue/catalogue.ts";
import { ExpiringMap } from "./expiring-map.ts";

/** How long it is used what D1 said of a label, in milliseconds. Repos of such names are no longer made, but by imports. */
export const HIDDEN_MEMORY_MS = 60_000;
/** If D1 does not answer, it is asked again after so long. */
const RETRY_MS = 5_000;
const MAX_REMEMBERED = 1_000;

/**
 * Repos that no label reaches, since their names hold what labels have between names: `dev--data` as a label is the branch
 * `dev` of the repo `data`. If there is a repo `dev--data`, too, whoever names it in a host would reach another bucket.
 */
export interface HiddenRepos {
  /** Whether a label is also the whole name of a repo. Reads of buckets need no D1: while it does not answer, none is. */
  has(label: string): Promise<boolean>;
}

interface HiddenReposParts {
  readonly branches: Pick<Catalogue["branches"], "hasRepo">;
  readonly now?: () => number;
}

/** One per isolate: what it remembers serves all requests. */
export function openHiddenRepos({ branches, now = Date.now }: HiddenReposParts): HiddenRepos {
  const remembered = new ExpiringMap<boolean>({ ttlMs: HIDDEN_MEMORY_MS, maxEntries: MAX_REMEMBERED });
  return {
    async has(label) {
      if (!holdsSeparator(label)) return false;
      const since = now();
      const known = remembered.get(label, since);
      if (known !== undefined) return known;
      try {
        const value = await branches.hasRepo(label);
        remembered.set(label, { value, since });
        return value;
      } catch (error) {
        console.warn("whether a label is also the name of a repo can't be asked", error);
        remembered.set(label, { value: false, since: since - HIDDEN_MEMORY_MS + RETRY_MS });
        return false;
      }
    },
  };
}

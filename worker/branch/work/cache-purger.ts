import type { NamedLoop } from "../../objects/loop.ts";
import type { BranchContext } from "../context.ts";
import type { BranchLoop } from "../store.ts";

/** Most tags that one call purges: as many as Cloudflare takes. */
const TAGS = 100;

interface CachePurgerOptions extends Pick<BranchContext, "ledger" | "now"> {
  /** Has all caches forget what has these tags. Rejects if they did not confirm it. */
  readonly purge: (tags: readonly string[]) => Promise<void>;
}

/**
 * Has caches forget copies of blobs that were deleted (outbox/cache-purge-store.ts). A crash between their confirmation and
 * its row has them purged once more, which does no harm.
 */
export function cachePurger({ ledger, now, purge }: CachePurgerOptions): NamedLoop {
  const { cachePurges } = ledger;
  return {
    name: "cache purge" satisfies BranchLoop,
    due: () => cachePurges.nextDue(),
    async step() {
      const askedAt = now();
      const some = cachePurges.due(askedAt, TAGS);
      if (some.length === 0) return false;
      await purge(some.map(({ tag }) => tag));
      ledger.transaction(() => cachePurges.confirmed(some, askedAt));
      return (cachePurges.nextDue() ?? Number.POSITIVE_INFINITY) <= now();
    },
  };
}

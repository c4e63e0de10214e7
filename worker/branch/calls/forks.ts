import { refused } from "../contract/answers.ts";
import type { ForkCalls, RootSlice } from "../contract/forks.ts";
import { copiesOf } from "../erasures/copies.ts";
import { readSlice, SLICES, TEXT_LENGTH } from "../forks/lend.ts";
import type { Root } from "../forks/root-store.ts";
import { seqOf } from "../history/log.ts";
import type { Ledger } from "../ledger/ledger.ts";
import type { BranchFacet } from "./facet.ts";

/** What a branch and the branches that are made from it tell each other. */
export const forks: BranchFacet<ForkCalls> = {
  /** Written down before the fork copies anything, so that nothing it names can go. Asked again, it answers the same. */
  async addRoot({ ledger, now }, { fork, bucket, commit }) {
    if (!ledger.exists) return refused("no-such-parent");
    return ledger.transaction(() => {
      const known = ledger.roots.find(fork);
      if (known) return known.goneAt === null ? rooted(ledger, known) : refused("let-go");
      const { live } = ledger;
      if (!live) return refused(ledger.forks.coming() ? "parent-forking" : "no-such-parent");
      const seq = commit === undefined ? live.head.seq : seqOf(ledger, { live, id: commit });
      if (seq === undefined) return refused("no-such-version");
      const root = { fork, bucket, gen: live.gen, seq };
      ledger.roots.add(root, now());
      return rooted(ledger, root);
    });
  },

  /** Some slices of what a fork is to have, of any generation: the parent may have been deleted meanwhile. */
  async rootPage({ ledger, turn }, { fork, after }) {
    const root = ledger.exists ? ledger.roots.find(fork) : undefined;
    if (!root || root.goneAt !== null) return refused("no-such-root");
    const slices: RootSlice[] = [];
    let next: string | null = after;
    for (let room = TEXT_LENGTH; next !== null && slices.length < SLICES && room > 0; ) {
      if (slices.length > 0) await turn();
      const { slice, length, isLast } = readSlice(ledger, { root, after: next });
      slices.push(slice);
      room -= length;
      next = isLast ? null : slice.last;
    }
    return { ok: true, slices, next };
  },

  async dropRoot({ ledger, now }, { fork }) {
    if (!ledger.exists) return;
    ledger.transaction(() => {
      ledger.roots.drop(fork, now());
      ledger.forkHolds.drop(fork, ledger.forkHolds.of(fork));
      ledger.contents.removeReleased(now());
    });
  },

  async copies({ ledger }, request) {
    return copiesOf(ledger, request);
  },

  /** A fork that is not known, or gone, has nothing here to drop. */
  async giveBack({ ledger, now }, { fork, contents, number }) {
    if (!ledger.exists) return { ok: true };
    ledger.transaction(() => {
      ledger.roots.gaveBack(fork, number);
      ledger.forkHolds.drop(fork, contents);
      ledger.contents.removeReleased(now());
    });
    return { ok: true };
  },
};

function rooted({ commits }: Ledger, root: Pick<Root, "gen" | "seq">) {
  const commit = commits.at(root);
  const total = commit ? commit.births - commit.deaths : 0;
  return { ok: true, commit: commit?.id ?? null, total } as const;
}

import type { BranchApi } from "../../contract/api.ts";
import type { Ledger } from "../../ledger/ledger.ts";

/*
 * The giving back of what a fork has of its parent. The parent keeps bytes of what it erased for as long as a fork has them (a
 * pin), and learns from the fork alone that it has them no more:
 *
 *  - A lent content goes at the end of the transaction that released it last, whoever released it, and what is to be given back
 *    is written in the same transaction (ledger/ledger.ts). So nobody ever finds a lent content that nothing keeps, and the same
 *    bytes, put again, come as the fork's own. A content that is gone never comes back as a lent one.
 *  - The outbox wakes its dispatcher, no more. It tells the parent of some, and forgets these when the parent has answered.
 *  - The parent drops its pin. If it is a fork itself, and that was the last that kept the content, the same goes on there.
 *
 * Telling twice or late does no harm. A give-back that comes before its pin wins: the fork numbers what it gives back, its
 * answer to an erasure carries the newest number, and the parent asks again if it has heard of a higher one (erase.ts).
 */

/** Most contents that one call tells of. */
const AT_ONCE = 1000;

type GivingStores = Pick<Ledger, "giveBacks" | "generations" | "forks" | "transaction">;

/** Tells the parent of a fork of some contents that the fork needs no more. Returns whether that was all. */
export async function giveSomeBack(
  ledger: GivingStores,
  { fork: uid, parent }: { fork: string; parent: (bucket: string) => Pick<BranchApi, "forks"> },
): Promise<boolean> {
  const { giveBacks, generations, forks } = ledger;
  const gen = generations.byUid(uid)?.gen;
  if (gen === undefined) return true;
  const some = giveBacks.oldest(gen, AT_ONCE);
  const last = some.at(-1);
  if (!last) return true;
  const fork = forks.get(uid);
  if (fork) {
    const contents = some.map(({ digest, size }) => ({ digest, size }));
    await parent(fork.parent).forks.giveBack({ fork: uid, contents, number: last.number });
  }
  // If the fork is gone, the parent was told that it needs nothing at all.
  return ledger.transaction(() => {
    giveBacks.heard(gen, last.number);
    return giveBacks.oldest(gen, 1).length === 0;
  });
}

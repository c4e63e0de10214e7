import type { Committed } from "../contract.ts";
import type { Ledger } from "../ledger/ledger.ts";
import type { Live } from "../tree/generation-store.ts";
import type { Stamps } from "../write/writable.ts";
import type { Writing } from "./write.ts";

interface Publication {
  readonly writing: Writing;
  readonly stamps: Stamps;
}

/**
 * Makes the commit of what was written in slices: HEAD moves to it. Where nothing was a change there is none, but for
 * a job's. To be called in a transaction, when all is written.
 */
export function publish(ledger: Ledger, { writing, stamps }: Publication): Committed {
  const live = ledger.generations.live();
  if (live?.gen !== writing.gen || live.head.seq + 1 !== writing.seq) {
    throw new Error(`commit ${writing.seq} of generation ${writing.gen} can't follow`);
  }
  const openCommit = ledger.openCommits.get(writing.openCommit);
  const answer = moveHead(ledger, { live, origin: openCommit.origin, stamps });
  ledger.applying.clear();
  ledger.openCommits.finish(openCommit, { ...answer, now: stamps.now });
  ledger.contents.buryReleased(stamps.now);
  return answer;
}

function moveHead(
  ledger: Ledger,
  { live, origin, stamps }: { live: Live; origin: string | null; stamps: Stamps },
): Committed {
  const { gen, head } = live;
  const written = ledger.applying.written();
  if (written.births + written.deaths === 0 && origin === null) {
    return { ok: true, commit: null, modifiedAt: head.modifiedAt };
  }
  const createdAt = ledger.clock.next(stamps.now);
  const id = stamps.id(createdAt);
  const seq = head.seq + 1;
  const births = head.births + written.births;
  const deaths = head.deaths + written.deaths;
  ledger.commits.insert({
    gen,
    seq,
    id,
    kind: "commit",
    createdAt,
    births,
    deaths,
    origin: origin ?? undefined,
  });
  ledger.generations.advance({ seq, id, modifiedAt: createdAt, births, deaths });
  return { ok: true, commit: id, modifiedAt: createdAt };
}

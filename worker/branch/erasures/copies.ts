import type { AnswerOf, RequestOf } from "../contract/answers.ts";
import type { ForkCalls } from "../contract/forks.ts";
import type { Ledger } from "../ledger/ledger.ts";

/** The commit that a fork begins with. */
const FIRST_SEQ = 1;

/** Of (?1 gen, ?2 JSON of paths): those of which the fork still has what its first commit had. */
const COPIED = `
  SELECT DISTINCT f.path AS path FROM json_each(?2) AS asked
  CROSS JOIN files AS f ON f.gen = ?1 AND f.path = asked.value AND f.born = ${FIRST_SEQ}
  WHERE f.version IS NULL AND f.kind < 2
  UNION
  SELECT DISTINCT f.path FROM json_each(?2) AS asked
  CROSS JOIN revived ON revived.gen = ?1 AND revived.version = ${FIRST_SEQ} AND revived.path = asked.value
  CROSS JOIN files AS f ON f.gen = ?1 AND f.path = revived.path AND f.born = revived.born
  WHERE f.kind < 2`;

/** The number that the answer carries: of the newest give-back. The parent has heard of one, also if this object forgot it. */
function numberFrom({ giveBacks }: Pick<Ledger, "giveBacks">, given: number): number {
  const { newest } = giveBacks;
  if (newest < given) giveBacks.goOnFrom(given);
  return Math.max(newest, given);
}

/**
 * What a fork still has of its parent's, asked before the parent erases anything: files that were copied, by the names of
 * their versions here, and contents whose bytes are the parent's. A fork whose rows are on their way may yet get them.
 */
export function copiesOf(
  ledger: Pick<Ledger, "exists" | "forks" | "generations" | "commits" | "contents" | "giveBacks" | "sql">,
  { fork: uid, paths, contents, given = 0 }: RequestOf<ForkCalls["copies"]>,
): AnswerOf<ForkCalls["copies"]> {
  const none = { ok: true, versions: [], has: [] } as const;
  if (!ledger.exists) return none;
  const fork = ledger.forks.get(uid);
  if (fork?.state === "asked" || fork?.state === "copying") return { ok: false, reason: "forking" };
  const generation = ledger.generations.byUid(uid);
  if (!generation) return none;
  const { gen } = generation;
  const first = ledger.commits.at({ gen, seq: FIRST_SEQ });
  const found = ledger.sql.query<{ path: string }>(COPIED, [gen, JSON.stringify(paths)]);
  return {
    ok: true,
    versions: first ? found.map(({ path }) => ({ path, version: first.id })) : [],
    has: ledger.contents.onLoanAmong(contents, gen),
    number: numberFrom(ledger, given),
  };
}

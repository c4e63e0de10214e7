import { type ContentId, contentName } from "../../../protocol/content.ts";
import type { Rowids } from "../contents/content-store.ts";
import type { BranchContext } from "../context.ts";
import type { RequestOf } from "../contract/answers.ts";
import type { ErasureCalls } from "../contract/erasures.ts";
import type { Ledger } from "../ledger/ledger.ts";
import { generationOf, pathsAt, targetsOf } from "./erase.ts";

/** Versions that are looked at before others get their turn. A request of no more leaves all to its transaction. */
const SLICE = 200;

/** Of (?1 gen, ?2 paths at commits): the contents of these versions and of the newest two of each path, one of which may be current again. */
const CONTENTS = `
  SELECT lower(hex(f.digest)) AS digest, f.size AS size FROM json_each(?2) AS asked
  CROSS JOIN files AS f ON f.gen = ?1 AND f.path = asked.key AND f.born = asked.value
  UNION ALL
  SELECT lower(hex(f.digest)), f.size FROM json_each(?2) AS asked
  CROSS JOIN files AS f ON f.gen = ?1 AND f.path = asked.key AND f.born IN (
    SELECT born FROM files AS other WHERE other.gen = ?1 AND other.path = asked.key ORDER BY born DESC LIMIT 2)`;

/**
 * Where the contents are that an erasure is likely to change, looked up slice by slice before its transaction. Contents lie in
 * the order of their digests there, so that each of them is another page of the index, and everybody else would wait for
 * thousands of those. What is not found here, or has changed until then, the transaction looks up itself.
 */
export async function rowidsAhead(
  ledger: Pick<Ledger, "sql" | "generations" | "commits" | "contents">,
  {
    request,
    turn,
    pause,
  }: { request: RequestOf<ErasureCalls["erase"]> } & Pick<BranchContext, "turn" | "pause">,
): Promise<Rowids> {
  const found = new Map<string, number>();
  const { versions } = request;
  if (versions.length <= SLICE) return found;
  for (let from = 0; from < versions.length; from += SLICE) {
    if (from > 0) await turn();
    const generation = generationOf(ledger, request.uid)?.generation;
    if (!generation) return found;
    const { gen } = generation;
    const slice = { versions: versions.slice(from, from + SLICE) };
    const targets = targetsOf(ledger, {
      gen,
      head: ledger.generations.headOf(generation).seq,
      request: slice,
    });
    const rows = ledger.sql.query<ContentId>(CONTENTS, [gen, pathsAt(targets)]);
    const names = new Set(rows.map(contentName));
    for (const [name, id] of ledger.contents.rowids(names, { gen, known: found })) found.set(name, id);
  }
  // Turns let those in that have arrived. A pause lets those arrive who would wait for these slices and for the step.
  await pause(1);
  return found;
}

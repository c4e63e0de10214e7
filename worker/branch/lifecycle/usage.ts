import type { BranchContext } from "../context.ts";
import type { Amount, AnswerOf, Holder, RequestOf } from "../contract.ts";
import type { Ledger } from "../ledger/ledger.ts";
import { keptFrom } from "../retention/floor.ts";
import type { Live } from "../tree/generation-store.ts";

/** Most rows that one slice adds up: what some ten milliseconds take. */
const ROWS = 5000;

/** Of (?1 gen, ?2 path and ?3 birth to begin behind, ?4 rows): the last of the next rows. */
const SLICE_END = `
  SELECT path, born FROM files WHERE gen = ?1 AND (path, born) > (?2, ?3) ORDER BY path, born LIMIT 1 OFFSET ?4`;

/**
 * Of (?1 gen, ?2 path and ?3 birth to begin behind, ?4 and ?5 the last, ?6 floor): rows by who has them. A dead row that died
 * at the floor or before is had by the first single commit in its life, or by nobody.
 */
const SUM = `
  SELECT
    CASE WHEN died IS NULL THEN 'live' WHEN died > ?6 THEN 'history' ELSE ifnull(
      (SELECT min(seq) FROM held WHERE held.gen = ?1 AND held.seq >= born AND held.seq < died), 'reclaimable'
    ) END AS owner,
    count(*) AS count, total(size) AS bytes
  FROM files WHERE gen = ?1 AND (path, born) > (?2, ?3) AND (?4 IS NULL OR (path, born) <= (?4, ?5))
  GROUP BY owner`;

/** The bytes of a blob, as its name has them: of a chunk and of a manifest's page. */
const CONDEMNED = `
  SELECT count(*) AS count, total(CAST(substr(blob, instr(blob, '-') + 1) AS INTEGER)) AS bytes
  FROM condemned WHERE sure = 1`;

interface Sum extends Amount {
  readonly owner: "live" | "history" | "reclaimable" | number;
}

interface Place {
  readonly path: string;
  readonly born: number;
}

const NONE: Amount = { count: 0, bytes: 0 };

type UsageStores = Pick<
  Ledger,
  "sql" | "live" | "settings" | "commits" | "horizons" | "subscribers" | "space" | "generations"
>;

/**
 * What a branch takes up, and what keeps most of what is not live. All rows are added up, in slices, so that it takes a second
 * for a million; `sizes`: only how large the database is, which is known.
 */
export async function branchUsage(
  { ledger, turn, now }: { ledger: UsageStores } & Pick<BranchContext, "turn" | "now">,
  { sizes = false }: RequestOf<"usage">,
): Promise<AnswerOf<"usage">> {
  const { live } = ledger;
  if (!live) return { ok: false, reason: "no-such-branch" };
  const database = ledger.space;
  if (sizes) return { ok: true, database, contents: null };
  const floor = ledger.horizons.floorOf(live.gen);
  const sums = new Map<Sum["owner"], Amount>();
  let after: Place | undefined = { path: "", born: -1 };
  while (after) {
    const [last]: (Place | undefined)[] = ledger.sql.query<Place>(SLICE_END, [
      live.gen,
      after.path,
      after.born,
      ROWS,
    ]);
    const end = [last?.path ?? null, last?.born ?? null];
    for (const { owner, count, bytes } of ledger.sql.query<Sum>(SUM, [
      live.gen,
      after.path,
      after.born,
      ...end,
      floor,
    ])) {
      const sum = sums.get(owner) ?? NONE;
      sums.set(owner, { count: sum.count + count, bytes: sum.bytes + bytes });
    }
    after = last;
    await turn();
  }
  const singles = [...sums].filter((sum): sum is [number, Amount] => typeof sum[0] === "number");
  const held = singles.reduce((all, [, each]) => plus(all, each), NONE);
  const [condemned = NONE] = ledger.sql.query<Amount>(CONDEMNED, []);
  return {
    ok: true,
    database,
    contents: {
      live: sums.get("live") ?? NONE,
      history: plus(sums.get("history") ?? NONE, held),
      reclaimable: sums.get("reclaimable") ?? NONE,
      condemned,
      holder: mostHolding(ledger, { live, floor, singles, now: now() }),
    },
  };
}

function plus(one: Amount, other: Amount): Amount {
  return { count: one.count + other.count, bytes: one.bytes + other.bytes };
}

/**
 * Who holds most of the history: what `keep` says, a subscriber that needs more than that, or a single commit and what names
 * it. Null: there is no history.
 */
function mostHolding(
  ledger: UsageStores,
  {
    live,
    floor,
    singles,
    now,
  }: { live: Live; floor: number; singles: readonly (readonly [number, Amount])[]; now: number },
): Holder | null {
  const { gen, head } = live;
  const { keep } = ledger.settings.of(gen);
  const kept = keptFrom(ledger, { live, now }).floor;
  const deaths = (seq: number): number =>
    seq >= head.seq ? head.deaths : (ledger.commits.at({ gen, seq })?.deaths ?? 0);
  const holders: Holder[] = [];
  const asked = Math.max(kept, floor);
  if (head.deaths > deaths(asked)) holders.push({ kind: "keep", keep, count: head.deaths - deaths(asked) });
  const [first, second] = ledger.subscribers
    .needs()
    .map((need) => ({
      ...need,
      seq: need.gen === gen ? (need.seq ?? 0) : need.gen === null || need.gen < gen ? 0 : head.seq,
    }))
    .sort((one, other) => one.seq - other.seq);
  if (first && first.seq < asked) {
    const without = Math.min(asked, second?.seq ?? asked);
    const since = ledger.commits.at({ gen, seq: Math.max(first.seq, 1) })?.createdAt ?? null;
    const count = deaths(Math.max(without, floor)) - deaths(Math.max(first.seq, floor));
    // Of two that need the same neither holds anything alone, and yet one must be named.
    holders.push({
      kind: "pipeline",
      pipeline: first.pipeline,
      job: first.job,
      since,
      count: Math.max(count, deaths(asked) - deaths(Math.max(first.seq, floor))),
    });
  }
  for (const [seq, { count }] of singles)
    holders.push({ kind: "commit", ...namesOf(ledger, { gen, seq }), count });
  return holders.reduce<Holder | null>((most, one) => (most && most.count >= one.count ? most : one), null);
}

/** What names a single commit. */
function namesOf(
  { sql, commits }: Pick<Ledger, "sql" | "commits">,
  { gen, seq }: { gen: number; seq: number },
): { commit: string; since: number | null; names: readonly string[] } {
  const commit = commits.at({ gen, seq });
  const names = sql.all<{ name: string }>`
    SELECT 'the tag ' || name AS name FROM tags WHERE gen = ${gen} AND commit_id = ${commit?.id ?? ""}
    UNION ALL
    SELECT 'the branch ' || bucket || ', made from it' FROM roots WHERE gen = ${gen} AND seq = ${seq} AND gone_at IS NULL
    UNION ALL
    SELECT 'the open commit ' || id FROM sessions WHERE gen = ${gen} AND base = ${seq} AND state < 2
    UNION ALL
    SELECT 'an input of a pipeline that starts after it' FROM starts WHERE gen = ${gen} AND seq = ${seq} AND holds = 1
    LIMIT 5`;
  return { commit: commit?.id ?? "", since: commit?.createdAt ?? null, names: names.map(({ name }) => name) };
}

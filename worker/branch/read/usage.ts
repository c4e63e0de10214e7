import { MAX_SUMMED_FILES } from "../../../protocol/repos.ts";
import type { BranchContext } from "../context.ts";
import type { AdminCalls, Amount, HeadSums, Holder } from "../contract/admin.ts";
import type { AnswerOf, Refused, RequestOf } from "../contract/answers.ts";
import type { Ledger } from "../ledger/ledger.ts";
import { askedHorizon, horizonNow, lowestMark } from "../retention/horizon.ts";
import type { CommitName } from "../retention/name-store.ts";
import type { GenerationRow, Head } from "../tree/generation-store.ts";

/** Most rows that one slice adds up: what some ten milliseconds take. */
const ROWS = 5000;

/** Of (?1 gen, ?2 path and ?3 birth to begin behind, ?4 rows): the last of the next rows. */
const SLICE_END = `
  SELECT path, born FROM files WHERE gen = ?1 AND (path, born) > (?2, ?3) ORDER BY path, born LIMIT 1 OFFSET ?4`;

/**
 * Of (?1 gen, ?2 path and ?3 birth to begin behind, ?4 and ?5 the last, ?6 horizon, ?7 the last commit of a deleted generation,
 * at which died what lived until then; null: it lives; ?8 the horizon that is asked for): rows by who has them. A dead row that
 * died at the horizon or before is had by the first commit in its life that is retained by name, or by nobody.
 */
const SUM = `
  SELECT
    CASE WHEN died IS NULL AND ?7 IS NULL THEN 'live' WHEN ifnull(died, ?7) > ?8 THEN 'kept'
      WHEN ifnull(died, ?7) > ?6 THEN 'needed' ELSE ifnull(
      (SELECT min(seq) FROM held WHERE held.gen = ?1 AND held.seq >= born AND (died IS NULL OR held.seq < died)),
      'reclaimable'
    ) END AS owner,
    count(*) AS count, total(size) AS bytes
  FROM files WHERE gen = ?1 AND (path, born) > (?2, ?3) AND (?4 IS NULL OR (path, born) <= (?4, ?5))
  GROUP BY owner`;

interface Sum extends Amount {
  /** `kept`: by what `keep` says. `needed`: by others alone, beyond that. A number: by a commit that is retained by name. */
  readonly owner: "live" | "kept" | "needed" | "reclaimable" | number;
}

interface Place {
  readonly path: string;
  readonly born: number;
}

const NONE: Amount = { count: 0, bytes: 0 };

/** Most names of a commit that are told. */
const NAMES_TOLD = 5;

/** The rows of a generation, by who has them. */
interface Counted {
  readonly generation: GenerationRow;
  readonly head: Head;
  readonly isLive: boolean;
  readonly horizon: number;
  /** The horizon that is asked for, whatever others need. */
  readonly asked: number;
  readonly sums: ReadonlyMap<Sum["owner"], Amount>;
}

/**
 * What a branch takes up, and what keeps most of what is not live: of the generation that lives, and of deleted ones what is
 * left. All rows are added up, in slices, so that it takes a second for a million; `sizes`: only how large the database is,
 * which is known.
 */
export async function branchUsage(
  { ledger, turn, now }: { ledger: Ledger } & Pick<BranchContext, "turn" | "now">,
  { sizes = false }: RequestOf<AdminCalls["usage"]>,
): Promise<AnswerOf<AdminCalls["usage"]>> {
  const { live } = ledger;
  const isThere = live !== null || (ledger.exists && !sizes && !ledger.forks.coming());
  if (!isThere) return { ok: false, reason: "no-such-branch" };
  const database = ledger.space;
  if (sizes) return { ok: true, database, contents: null };
  const all: Counted[] = [];
  for (const gen of ledger.horizons.unpurged()) {
    const generation = ledger.generations.get(gen);
    if (generation)
      all.push(await counted(ledger, { generation, isLive: gen === live?.gen, turn, now: now() }));
  }
  const total = (isOf: (owner: Sum["owner"]) => boolean): Amount =>
    all
      .flatMap(({ sums }) => [...sums])
      .reduce((sum, [owner, each]) => (isOf(owner) ? plus(sum, each) : sum), NONE);
  const pending = ledger.pendingDeletions.total();
  const forkHolds = await forkHoldsOf(ledger, turn);
  const isGone =
    !live && pending.count === 0 && forkHolds.length === 0 && all.every(({ sums }) => sums.size === 0);
  if (isGone) return { ok: false, reason: "no-such-branch" };
  const holders = all.flatMap((one) => [...holdersOf(ledger, { ...one, now: now() })]);
  return {
    ok: true,
    ...(!live && { deleted: true }),
    database,
    contents: {
      live: total((owner) => owner === "live"),
      history: total((owner) => owner === "kept" || owner === "needed" || typeof owner === "number"),
      reclaimable: total((owner) => owner === "reclaimable"),
      condemned: pending,
      holder: holders.reduce<Holder | null>(
        (most, one) => (most && most.count >= one.count ? most : one),
        null,
      ),
      forkHolds,
    },
  };
}

/** Of (?1 gen, ?2 limit): files at HEAD, and their bytes. */
const HEAD_SUM = `
  SELECT count(*) AS files, total(size) AS bytes FROM (
    SELECT size FROM files INDEXED BY head WHERE gen = ?1 AND died IS +NULL AND kind = 0 LIMIT ?2)`;

/** What HEAD has. Of more files than can be added up in a moment, their number is that of all rows, empty directories too. */
export function headSums({ live, sql, claim, settings }: Ledger): HeadSums | Refused<"no-such-branch"> {
  if (!live) return { ok: false, reason: "no-such-branch" };
  const { gen, head } = live;
  const [sum = { files: 0, bytes: 0 }] = sql.query<{ files: number; bytes: number }>(HEAD_SUM, [
    gen,
    MAX_SUMMED_FILES + 1,
  ]);
  const isWhole = sum.files <= MAX_SUMMED_FILES;
  const { isPublic, writer } = settings.of(gen);
  return {
    ok: true,
    files: isWhole ? sum.files : head.births - head.deaths,
    bytes: isWhole ? sum.bytes : null,
    changedAt: head.id === null ? null : head.modifiedAt,
    claimedBy: claim.get()?.pipeline ?? null,
    public: isPublic,
    writer,
  };
}

/** What is held for each fork, added up in slices. */
async function forkHoldsOf(
  { forkHolds, roots }: Ledger,
  turn: BranchContext["turn"],
): Promise<(Amount & { bucket: string })[]> {
  const sums = new Map<string, Amount>();
  let after = { fork: "", digest: "", size: 0 };
  for (;;) {
    const some = forkHolds.all({ after, limit: ROWS });
    for (const { fork, size } of some)
      sums.set(fork, plus(sums.get(fork) ?? NONE, { count: 1, bytes: size }));
    const last = some.at(-1);
    if (!last || some.length < ROWS) break;
    after = last;
    await turn();
  }
  return [...sums].map(([fork, amount]) => ({ ...amount, bucket: roots.find(fork)?.bucket ?? "" }));
}

async function counted(
  ledger: Ledger,
  {
    generation,
    isLive,
    turn,
    now,
  }: Pick<Counted, "generation" | "isLive"> & Pick<BranchContext, "turn"> & { now: number },
): Promise<Counted> {
  const { gen } = generation;
  const head = ledger.generations.headOf(generation);
  const horizon = ledger.horizons.horizonOf(gen);
  const asked = Math.max(askedHorizon(ledger, { generation, now }).horizon, horizon);
  const sums = new Map<Sum["owner"], Amount>();
  let after: Place | undefined = { path: "", born: -1 };
  while (after) {
    const [last]: (Place | undefined)[] = ledger.sql.query<Place>(SLICE_END, [
      gen,
      after.path,
      after.born,
      ROWS,
    ]);
    for (const { owner, count, bytes } of ledger.sql.query<Sum>(SUM, [
      gen,
      after.path,
      after.born,
      last?.path ?? null,
      last?.born ?? null,
      horizon,
      isLive ? null : head.seq,
      asked,
    ])) {
      sums.set(owner, plus(sums.get(owner) ?? NONE, { count, bytes }));
    }
    after = last;
    await turn();
  }
  return { generation, head, isLive, horizon, asked, sums };
}

function plus(one: Amount, other: Amount): Amount {
  return { count: one.count + other.count, bytes: one.bytes + other.bytes };
}

/**
 * Who holds history of a generation: what `keep` says, the subscriber that needs most beyond that, the exports that are under
 * way, and commits that are retained by name, with what names them.
 */
function* holdersOf(
  ledger: Ledger,
  { generation, head, isLive, horizon, asked, sums, now }: Counted & { now: number },
): Generator<Holder> {
  const { gen } = generation;
  const kept = sums.get("kept")?.count ?? 0;
  const needed = sums.get("needed")?.count ?? 0;
  // How many rows went with a horizon that is there, erased ones too. With a deleted generation goes what lived at its end, too.
  const lost = (seq: number): number => {
    if (seq < head.seq) return ledger.commits.at({ gen, seq })?.deaths ?? 0;
    return isLive ? head.deaths : head.births;
  };
  const { keep } = ledger.settings.of(gen);
  if (isLive && kept > 0) yield { kind: "keep", keep, count: kept };
  const [first] = ledger.subscribers
    .marks()
    .map((mark) => ({ ...mark, seq: lowestMark([mark], gen) }))
    .sort((one, other) => one.seq - other.seq);
  if (first && first.seq < asked) {
    const { pipeline, job } = first;
    // What it needs is the state before the commit that it waits with, and that it holds since that commit was made.
    const since = ledger.commits.at({ gen, seq: first.seq + 1 })?.createdAt ?? null;
    // Another one may need as much: then neither holds anything alone, and yet one must be named.
    const count = Math.min(lost(asked) - lost(Math.max(first.seq, horizon)), needed);
    yield { kind: "pipeline", pipeline, job, since, count };
  }
  const exportsSince = ledger.exports.since(gen, now);
  // While one is under way no row goes, also of those that nobody else holds.
  let toGo =
    Math.min(lost(horizonNow(ledger, { generation, now }).horizon) - lost(horizon), needed) +
    (sums.get("reclaimable")?.count ?? 0);
  for (const [seq, { count }] of sums) {
    if (typeof seq !== "number") continue;
    const commit = namedCommit(ledger, { gen, seq, isLive });
    if (exportsSince === undefined || isNamed(commit)) yield { ...commit, count };
    else toGo += count;
  }
  if (exportsSince !== undefined && toGo > 0) yield { kind: "export", since: exportsSince, count: toGo };
}

type NamedCommit = Omit<Extract<Holder, { kind: "commit" }>, "count">;

/** A commit that is retained by name, with what names it. */
function namedCommit(
  { names, commits }: Ledger,
  { gen, seq, isLive }: { gen: number; seq: number; isLive: boolean },
): NamedCommit {
  const commit = commits.at({ gen, seq });
  const id = commit?.id ?? "";
  const all = names.of({ gen, seq, id }, { isLive, limit: NAMES_TOLD });
  const of = (wanted: CommitName["list"]): string[] =>
    all.flatMap(({ list, name }) => (list === wanted ? name : []));
  return {
    kind: "commit",
    commit: id,
    ...(!isLive && { deleted: true }),
    since: commit?.createdAt ?? null,
    names: of("names"),
    forks: of("forks"),
    pipelines: of("pipelines"),
  };
}

function isNamed({ names, forks, pipelines }: NamedCommit): boolean {
  return names.length + forks.length + pipelines.length > 0;
}

import { contentName } from "../../../protocol/content.ts";
import type { Tx } from "../../objects/transaction.ts";
import type { Moment } from "../context.ts";
import type { CommitRefused, CommitRequest, Committed, PutFile } from "../contract/files.ts";
import type { Ledger } from "../ledger/ledger.ts";
import type { OpenCommit } from "../open-commits/open-commit-store.ts";
import { type FileState, kindOf } from "../tree/file-store.ts";
import type { Live } from "../tree/generation-store.ts";
import { type FinalState, finalState, stateOf } from "./plan.ts";
import { takePreconditions } from "./preconditions.ts";

type Answer = Committed | CommitRefused;
interface Staging {
  readonly live: Live;
  readonly openCommit: OpenCommit;
  readonly moment: Moment;
}

/** Puts one file that was admitted into an open commit. */
export function stageContent(
  tx: Tx,
  ledger: Ledger,
  { put, ...staging }: Staging & { put: PutFile },
): Answer {
  const { live, openCommit, moment } = staging;
  const { path, content, attributes, upload, condition } = put;
  const { digest, size } = content;
  const operation = { put: path, digest, size, attributes, ...(condition && { condition }) };
  const holding = takePreconditions(ledger, { live, openCommit, request: { operations: [operation] } });
  if (!holding.ok) return holding;
  const precondition = holding.preconditions.get(path) ?? null;
  const { now } = moment;
  const { gen } = live;
  const state = stateOf(path, operation);
  const keep = () => ledger.contents.add(content, { gen, now, named: 1 });
  const { added, changed } = ledger.staged.put(openCommit, { path, state, precondition, keep });
  if (!changed) ledger.contents.discard(content, now);
  return concludeStaging(tx, ledger, { ...staging, added, upload });
}

/** Puts many operations that were admitted into an open commit. */
export function stageChanges(
  tx: Tx,
  ledger: Ledger,
  { request, ...staging }: Staging & { request: CommitRequest },
): Answer {
  const { live, openCommit } = staging;
  const { upload, onFailedCondition } = request;
  const holding = takePreconditions(ledger, { live, openCommit, request });
  if (!holding.ok) return holding;
  const { preconditions } = holding;
  const { gen } = live;
  const { now } = staging.moment;
  const staged = stageBatch(tx, ledger, {
    openCommit,
    states: finalState(holding.operations),
    preconditions,
    ...(upload !== undefined && {
      handOver: (kept: Kept) => ledger.uploads.handOver(upload, { kept, gen, now }),
    }),
  });
  if (!staged.ok) return staged;
  const answer = concludeStaging(tx, ledger, { ...staging, added: staged.added, upload: undefined });
  return onFailedCondition === "leave-out" ? { ...answer, leftOut: holding.leftOut } : answer;
}

/** The end of a call that has staged something, and its answer. */
export function concludeStaging(
  _: Tx,
  { openCommits, uploads, contents }: Ledger,
  { live, openCommit, moment, added, upload }: Staging & { added: number; upload: string | undefined },
): Committed {
  const { now } = moment;
  openCommits.written(openCommit, { added, now });
  if (upload !== undefined) uploads.close(upload, now);
  contents.removeReleased(now);
  return { ok: true, commit: null, modifiedAt: Math.max(live.head.modifiedAt, now) };
}

/** How many puts have each content, by name. */
type Kept = ReadonlyMap<string, number>;

/** Most operations, and about the most text, that one statement takes. */
const OPERATIONS = 500;
const TEXT_LENGTH = 500_000;

/** Of (?1 open commit, ?2 JSON of paths): what is staged of them. */
const THERE = `
  SELECT gone, staged.path AS path, lower(hex(digest)) AS digest, size FROM json_each(?2) AS asked
  CROSS JOIN staged ON openCommit = ?1 AND gone IN (0, 1) AND staged.path = asked.value`;

/** Of (?1 open commit, ?2 whether they are deletions, ?3 JSON of paths). */
const FORGET = `
  DELETE FROM staged WHERE openCommit = ?1 AND gone = ?2 AND path IN (SELECT value FROM json_each(?3))`;

/** Of (?1 open commit, ?2 JSON of paths, digests, sizes, attributes, preconditions, and times of bytes). */
const PUT = `
  INSERT OR REPLACE INTO staged (openCommit, gone, path, digest, size, attributes, precondition, bytesAt)
  SELECT ?1, 0, value ->> 0, unhex(value ->> 1), value ->> 2, value ->> 3, value ->> 4, value ->> 5 FROM json_each(?2)`;

/** Of (?1 open commit, ?2 JSON of paths and preconditions). */
const DELETE = `
  INSERT OR REPLACE INTO staged (openCommit, gone, path, precondition)
  SELECT ?1, 1, value ->> 0, value ->> 1 FROM json_each(?2)`;

interface StagedRow {
  readonly gone: number;
  readonly path: string;
  readonly digest: string;
  readonly size: number;
}

type Put = readonly [
  path: string,
  digest: string,
  size: number,
  attributes: string | null,
  precondition: number | null,
  bytesAt: number | null,
];
type Deletion = readonly [path: string, precondition: number | null];

/**
 * Stages many operations whose contents are in the branch, all or none. `preconditions`: what HEAD must still have at paths with
 * conditions. `handOver`: has an upload give what it holds to so many puts of each content. `added`: how many paths more the open
 * commit has.
 */
export function stageBatch(
  _: Tx,
  ledger: Ledger,
  {
    openCommit,
    states,
    preconditions,
    handOver,
  }: {
    openCommit: OpenCommit;
    states: FinalState;
    preconditions: ReadonlyMap<string, number>;
    handOver?: (kept: Kept) => void;
  },
): { ok: true; added: number } | CommitRefused {
  const puts = [...states].flatMap(([path, state]): Put[] =>
    state ? [putOf(path, { state, precondition: preconditions.get(path) ?? null })] : [],
  );
  const missing = keepContents(ledger, { gen: openCommit.gen, puts, handOver });
  if (missing !== undefined) return { ok: false, reason: "no-such-content", path: missing };
  const deletes = [...states].flatMap(([path, state]): Deletion[] =>
    state ? [] : [[path, preconditions.get(path) ?? null]],
  );
  let added = 0;
  for (const some of batches(puts)) {
    const paths = JSON.stringify(some.map(([path]) => path));
    added += some.length - replace(ledger, { openCommit, paths, gone: 0 });
    ledger.sql.execute(PUT, [openCommit.number, JSON.stringify(some)]);
  }
  for (const some of batches(deletes)) {
    const paths = JSON.stringify(some.map(([path]) => path));
    added += some.length - replace(ledger, { openCommit, paths, gone: 1 });
    ledger.sql.execute(DELETE, [openCommit.number, JSON.stringify(some)]);
  }
  return { ok: true, added };
}

function putOf(
  path: string,
  { state, precondition }: { readonly state: FileState; readonly precondition: number | null },
): Put {
  return [path, state.digest, state.size, state.attributes, precondition, state.bytesAt ?? null];
}

/** Has each file that is put keep its content, or none if a content is not there. Returns the path of that. */
function keepContents(
  { contents }: Ledger,
  {
    gen,
    puts,
    handOver,
  }: { gen: number; puts: readonly Put[]; handOver: ((kept: Kept) => void) | undefined },
): string | undefined {
  const refs = new Map<string, number>();
  for (const put of puts) {
    const name = nameOf(put);
    if (name !== undefined) refs.set(name, (refs.get(name) ?? 0) + 1);
  }
  const kept = [...batches([...refs])];
  for (const some of kept) {
    const lacking = contents.firstLacking(
      some.map(([name]) => name),
      gen,
    );
    if (lacking !== undefined) return puts.find((put) => nameOf(put) === lacking)?.[0];
  }
  if (handOver) handOver(refs);
  else for (const some of kept) contents.keepMany(some, { gen, named: 1 });
  return undefined;
}

/** The name of its content; undefined for a directory. */
function nameOf([path, digest, size]: Put): string | undefined {
  return kindOf(path) === "dir" ? undefined : contentName({ digest, size });
}

/**
 * Releases what is staged of these paths, and takes away operations of the other kind, which the new ones would not
 * replace. Returns how many there are.
 */
function replace(
  { sql, contents }: Ledger,
  { openCommit, paths, gone }: { openCommit: OpenCommit; paths: string; gone: 0 | 1 },
): number {
  const { number, gen } = openCommit;
  const there = sql.query<StagedRow>(THERE, [number, paths]);
  for (const row of there) {
    if (!row.gone && kindOf(row.path) === "file") contents.release({ ...row, gen });
  }
  const isMixed = there.some((row) => row.gone !== gone);
  if (isMixed) sql.execute(FORGET, [number, 1 - gone, paths]);
  return there.length;
}

/** Pieces that one statement takes each. */
function* batches<T extends readonly (string | number | null)[]>(items: readonly T[]): Generator<T[]> {
  let batch: T[] = [];
  let length = 0;
  for (const item of items) {
    batch.push(item);
    length += textLength(item);
    if (batch.length < OPERATIONS && length < TEXT_LENGTH) continue;
    yield batch;
    batch = [];
    length = 0;
  }
  if (batch.length > 0) yield batch;
}

function textLength(item: readonly (string | number | null)[]): number {
  return item.reduce<number>((sum, part) => sum + (typeof part === "string" ? part.length : 8), 0);
}

import { createHash } from "node:crypto";
import type {
  Cursor,
  Change as FeedChange,
  FeedEvent,
} from "../../../../worker/branch/contract/pipelines.ts";
import { askAside, type Said } from "../asides.ts";
import { idOf } from "../bytes.ts";
import type { Facts, FactsObserver } from "../facts.ts";
import { byBytes, isPageOf } from "../pages.ts";
import { type Kind, PATHS, type Stage, type Turn } from "../stage.ts";
import type { State, Tree } from "../states.ts";
import { somePage } from "./pages.ts";

/** What pipelines read of the history, by somebody who follows it without being one: nothing is held for them. */
export const FEED_KINDS = {
  follow: { weight: 3, take: follow },
  position: { weight: 4, take: position },
} satisfies Record<string, Kind>;

/** Commits with their places. */
interface Made {
  readonly state: State;
  readonly before: State;
  readonly generation: number;
  readonly seq: number;
}

function madeOf(stage: Stage, bucket: string): Made[] {
  const facts = stage.facts.get(bucket);
  const states = stage.observers.get(bucket)?.states ?? [];
  return states.flatMap((state, at) => {
    const before = states[at - 1];
    const { commit, generation } = state;
    if (commit === null || generation === null || !before || before.commit === commit) return [];
    return (facts?.seqsOf([commit]) ?? []).map((seq) => ({ state, before, generation, seq }));
  });
}

/** What happened after a place in the history. */
async function follow(stage: Stage, { id, random, bucket }: Turn): Promise<void> {
  const made = madeOf(stage, bucket);
  const place = made.length > 0 && random.chance(0.8) ? random.pick(made) : undefined;
  let cursor: Cursor = place
    ? { generation: place.generation, seq: place.seq - random.below(2) }
    : { generation: 0, seq: 0 };
  const limit = random.pick([1, 2, 3, 1000]);
  for (let n = 0; n < 3; n++) {
    const asked = cursor;
    const answer = await askAside(
      stage,
      { id: `${id}.${n}`, bucket, text: `follow ${id}.${n} after ${JSON.stringify(asked)}` },
      {
        call: () => stage.branch(bucket).feed.read({ cursor: asked, limit }),
        saidOf: ({ events, more }): Said => ({
          kind: "saw",
          what: `events ${JSON.stringify(events.map(({ id: event, kind, gap, changes }) => [event, kind, gap, changes.length]))}`,
          of: (_, observer, state) => isFeed(stage, { bucket, observer, state, asked, events, more }),
        }),
      },
    );
    const last = answer?.events.at(-1);
    if (last && last.next !== null) await restOf(stage, { id: `${id}.${n}.rest`, bucket, event: last });
    if (!answer?.more || !last) return;
    cursor = { generation: last.generation, seq: last.seq };
  }
}

interface FeedRead {
  readonly bucket: string;
  readonly observer: FactsObserver;
  readonly state: State;
  readonly asked: Cursor;
  readonly events: readonly FeedEvent[];
  readonly more: boolean;
}

/** Whether events are the commits behind a place, in order and without a gap that is not said. */
export function isFeed(stage: Stage, { bucket, observer, state, asked, events, more }: FeedRead): boolean {
  const isBehind = (one: { generation: number; seq: number }, other: { generation: number; seq: number }) =>
    one.generation > other.generation || (one.generation === other.generation && one.seq > other.seq);
  const made = madeOf(stage, bucket);
  let last: { generation: number; seq: number } = asked;
  for (const event of events) {
    if (!isBehind(event, last)) return false;
    const { generation, seq } = event;
    // Of deletions a branch has no state with a commit.
    if (event.kind === "deletion") {
      if (event.changes.length > 0) return false;
      last = { generation, seq };
      continue;
    }
    const one = made.find((each) => each.generation === generation && each.seq === seq);
    // An archive took the id of one of an earlier life with it.
    const isOther = event.id !== one?.state.commit && event.id !== `~${one?.state.commit}.${generation}`;
    if (!one || isOther || !isAllOf(stage, { one, changes: event.changes, event })) return false;
    const isNext = generation === last.generation ? seq === last.seq + 1 : seq === 1;
    const isSkipped =
      !isNext && event.gap !== true && !one.state.isOfArchive && !isOfNothing(last, generation);
    if (isSkipped) return false;
    last = { generation, seq };
  }
  // What is there and was not told of.
  const head = made.filter((one) => one.state.since <= state.since).at(-1);
  return more || !head || !isBehind(head, last) || observer.last.generation === null;
}

/** Of an earlier life of the branch, what comes next begins with its deletion, which is an event, or never was seen. */
function isOfNothing(last: { generation: number }, generation: number): boolean {
  return last.generation !== generation;
}

/** Whether changes are those of a commit, up to where the event has them; what was erased since may be told otherwise. */
function isAllOf(
  stage: Stage,
  {
    one: { state, before, seq },
    changes,
    event,
  }: { one: Made; changes: readonly FeedChange[]; event: Pick<FeedEvent, "next" | "gap"> },
): boolean {
  const told = changes.map(({ path, now }) => `${path} ${now?.digest ?? ""}`);
  const earlier = before.generation === state.generation ? before.tree : new Map<string, string>();
  const isWhole = seq === 1 || !state.isOfArchive;
  const written = [...state.born].filter(([, born]) => born === seq).map(([path]) => path);
  const gone = isWhole ? [...earlier.keys()].filter((path) => !state.tree.has(path)) : [];
  const isErased = (line: string) => stage.erased.some(({ path }) => line.startsWith(`${path} `));
  const wanted = [...written, ...gone]
    .sort(byBytes)
    .filter((path) => event.next === null || path <= event.next)
    .map((path) => `${path} ${state.tree.get(path) ?? ""}`);
  // What was deleted by the first one behind a gap may be told no more.
  if (!isWhole || event.gap === true)
    return wanted
      .filter((line) => !line.endsWith(" "))
      .every((line) => isErased(line) || told.includes(line));
  return String(told.filter((line) => !isErased(line))) === String(wanted.filter((line) => !isErased(line)));
}

/** The rest of a commit of which a page had no more room. */
async function restOf(
  stage: Stage,
  { id, bucket, event }: { id: string; bucket: string; event: FeedEvent },
): Promise<void> {
  const { generation, seq, next } = event;
  await askAside(
    stage,
    { id, bucket, text: `changes ${id} of ${event.id} after ${next}` },
    {
      call: () =>
        readable(() =>
          stage.branch(bucket).feed.changes({ generation, seq, after: next ?? "", limit: 1000 }),
        ),
      saidOf: (page): Said => ({
        kind: "saw",
        what: `changes ${JSON.stringify(page)}`,
        of(facts, observer) {
          if (page === null) return !isShownAt(stage, { bucket, facts, observer, generation, seq });
          const one = madeOf(stage, bucket).find(
            (each) => each.generation === generation && each.seq === seq,
          );
          const all = [...event.changes, ...page.changes];
          return one !== undefined && isAllOf(stage, { one, changes: all, event: { next: page.next } });
        },
      }),
    },
  );
}

/** Whether a commit can be read in its generation: an archive may have brought it back in a later one. */
function isShown(
  { state: { commit }, generation }: Made,
  { facts, observer }: { facts: Facts; observer: FactsObserver },
): boolean {
  return commit !== null && facts.generation === generation && observer.shows(facts, commit);
}

/** Whether a commit can't be read, or not for long: that it is gone may be said before that is on the disk, since errors do not wait for it. */
function mayBeGone(made: Made, { facts, observer }: { facts: Facts; observer: FactsObserver }): boolean {
  const next = observer.states[observer.states.indexOf(facts) + 1];
  return [facts, next].some((moment) => moment !== undefined && !isShown(made, { facts: moment, observer }));
}

/** Null: what was asked for can be read no more, which is a fault of those who hold it. */
export async function readable<T>(call: () => Promise<T>): Promise<T | null> {
  return await call().catch((error) => {
    if (/is kept no more/.test(String(error))) return null;
    throw error;
  });
}

/** Whether all of what was at a place must be readable. */
function isShownAt(
  stage: Stage,
  {
    bucket,
    facts,
    observer,
    generation,
    seq,
  }: { bucket: string; facts: Facts; observer: FactsObserver; generation: number; seq: number },
): boolean {
  const [one, before] = [seq, seq - 1].map((wanted) =>
    madeOf(stage, bucket).find((each) => each.generation === generation && each.seq === wanted),
  );
  const is = (made: Made | undefined) => made !== undefined && !mayBeGone(made, { facts, observer });
  return is(one) && (seq === 1 || is(before));
}

/** Files, fingerprints and comparisons at a place in the history. */
async function position(stage: Stage, turn: Turn): Promise<void> {
  const made = madeOf(stage, turn.bucket);
  if (made.length === 0) return;
  const one = turn.random.pick(made);
  await turn.random.pick([filesAt, fingerprint, compare, kept])(stage, turn, one);
}

async function filesAt(stage: Stage, { id, random, bucket }: Turn, one: Made): Promise<void> {
  const { delimiter: _, ...page } = somePage(random);
  const since = random.chance(0.4)
    ? { generation: one.generation, seq: Math.max(0, one.seq - 1 - random.below(2)) }
    : undefined;
  const request = {
    generation: one.generation,
    seq: one.seq,
    ...page,
    after: page.after ?? "",
    ...(since && { since }),
  };
  await askAside(
    stage,
    { id, bucket, text: `files ${id} ${JSON.stringify(request)}` },
    {
      call: () => readable(() => stage.branch(bucket).feed.filesAt(request)),
      saidOf: (answer): Said => ({
        kind: "saw",
        what: `files ${JSON.stringify(answer)}`,
        of(facts, observer) {
          if (answer === null) return mayBeGone(one, { facts, observer });
          if (stage.erased.length > 0) return true;
          const tree = treeSince(one, since?.seq);
          const read = { names: answer.files.map(({ path }) => path), next: answer.next };
          const isRight = answer.files.every(({ path, digest }) => tree.get(path) === digest);
          return isRight && isPageOf(tree.keys(), page, read);
        },
      }),
    },
  );
}

/** What of a tree was written after a commit. */
function treeSince({ state }: Made, since = 0): Tree {
  return new Map([...state.tree].filter(([path]) => (state.born.get(path) ?? 0) > since));
}

async function fingerprint(stage: Stage, { id, random, bucket }: Turn, one: Made): Promise<void> {
  const { generation, seq } = one;
  const path = random.pick(["", "dir", "dir/sub", "none"]);
  await askAside(
    stage,
    { id, bucket, text: `fingerprint ${id} of '${path}' at ${seq}` },
    {
      call: async () =>
        await readable(async () => ({
          is: await stage.branch(bucket).feed.fingerprint({ generation, seq, path }),
        })),
      saidOf: (answer): Said => ({
        kind: "saw",
        what: `fingerprint ${JSON.stringify(answer)}`,
        of(facts, observer) {
          if (answer === null) return mayBeGone(one, { facts, observer });
          if (stage.erased.length > 0) return true;
          const prefix = path === "" ? "" : `${path}/`;
          const files = [...one.state.tree]
            .filter(([name]) => name.startsWith(prefix))
            .sort(([a], [b]) => byBytes(a, b));
          if (files.length === 0) return answer.is === null;
          const sizeOf = (digest: string) => idOf(stage.texts.get(digest) ?? "").size;
          const text = files.map(([name, digest]) => `${name}\0${digest}-${sizeOf(digest)}\n`).join("");
          const size = files.reduce((sum, [, digest]) => sum + sizeOf(digest), 0);
          return (
            answer.is?.digest === createHash("sha256").update(new TextEncoder().encode(text)).digest("hex") &&
            answer.is.size === size
          );
        },
      }),
    },
  );
}

async function compare(stage: Stage, { id, random, bucket }: Turn, to: Made): Promise<void> {
  const made = madeOf(stage, bucket).filter(
    ({ generation, seq }) => generation < to.generation || (generation === to.generation && seq <= to.seq),
  );
  const from = random.chance(0.5)
    ? (made.find(({ generation, seq }) => generation === to.generation && seq === to.seq - 1) ?? to)
    : random.pick(made);
  const paths = ["", "dir", ...PATHS].filter(() => random.chance(0.6));
  const placeOf = ({ generation, seq }: Made) => ({ generation, seq });
  const since = random.chance(0.3) ? placeOf(random.pick(made)) : undefined;
  await askAside(
    stage,
    { id, bucket, text: `compare ${id} ${paths} from ${from.seq} to ${to.seq}` },
    {
      call: () =>
        stage
          .branch(bucket)
          .feed.compare({ from: placeOf(from), to: placeOf(to), paths, ...(since && { since }) }),
      saidOf: (answer): Said => ({
        kind: "saw",
        what: `compared ${JSON.stringify(answer)}`,
        of(facts, observer) {
          if (answer === null) return [from, to].some((one) => mayBeGone(one, { facts, observer }));
          if (stage.erased.length > 0) return true;
          const trees = [from, to].map((one) => belongingTo(one, since));
          return answer.paths.every((compared) => {
            const wanted = changesBelow(compared.path, {
              before: trees[0] ?? new Map(),
              after: trees[1] ?? new Map(),
            });
            const told = compared.changes.map(
              (change) => `${change.path} ${change.before?.digest ?? ""} ${change.after?.digest ?? ""}`,
            );
            const was = [...(trees[0]?.keys() ?? [])].some((path) => isBelow(path, compared.path));
            if (was !== compared.was || !told.every((line) => wanted.includes(line))) return false;
            return compared.more || told.length === wanted.length;
          });
        },
      }),
    },
  );
}

/** What of a tree counts for an input that starts after a place. */
function belongingTo(one: Made, since: { generation: number; seq: number } | undefined): Tree {
  if (since === undefined || one.generation > since.generation) return one.state.tree;
  return one.generation === since.generation ? treeSince(one, since.seq) : new Map();
}

function isBelow(path: string, directory: string): boolean {
  return directory === "" || path === directory || path.startsWith(`${directory}/`);
}

function changesBelow(directory: string, { before, after }: { before: Tree; after: Tree }): string[] {
  const paths = new Set([...before.keys(), ...after.keys()]);
  return [...paths]
    .filter((path) => isBelow(path, directory) && before.get(path) !== after.get(path))
    .map((path) => `${path} ${before.get(path) ?? ""} ${after.get(path) ?? ""}`);
}

/** Whether commits are kept, and where they stand. */
async function kept(stage: Stage, { id, bucket }: Turn, { state, generation, seq }: Made): Promise<void> {
  const commit = state.commit ?? "";
  await askAside(
    stage,
    { id, bucket, text: `kept ${id} ${commit}` },
    {
      call: async () => ({
        kept: (await stage.branch(bucket).feed.kept({ commits: [commit] })).kept.length > 0,
        at: await stage.branch(bucket).feed.position({ commit }),
      }),
      saidOf: ({ kept: isKept, at }): Said => ({
        kind: "saw",
        what: `kept ${isKept} ${JSON.stringify(at)}`,
        of(facts, observer) {
          const isKeptHere = observer.shows(facts, commit);
          if (
            at !== null &&
            (at.seq !== seq || (at.generation !== generation && !state.isOfArchive && !isKeptHere))
          )
            return false;
          // Of an earlier life it may stay for a fork.
          return !isKeptHere || isKept;
        },
      }),
    },
  );
}

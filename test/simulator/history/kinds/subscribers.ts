import type { Cursor, FeedPage } from "../../../../worker/branch/contract/pipelines.ts";
import { askAside, type Said } from "../asides.ts";
import { insisted } from "../mishaps.ts";
import type { Kind, Stage, Turn } from "../stage.ts";
import { laterId } from "./claims.ts";
import { isFeed, readable } from "./feed.ts";

/** Pipelines that read a branch, by somebody who does what one does: what it has not read yet stays for it. */
export const SUBSCRIBER_KINDS = { subscribe: { weight: 3, take: subscribe } } satisfies Record<string, Kind>;

/** How long it rests between two looks at most; milliseconds. */
const RESTS_MS = [0, 50, 200];

async function subscribe(stage: Stage, turn: Turn): Promise<void> {
  const { id, random, bucket } = turn;
  const { feed } = stage.branch(bucket);
  const uid = laterId(stage, turn);
  stage.leaving.push(() => feed.unsubscribe({ uid }));
  const starts = random.chance(0.5) ? await someStarts(stage, turn) : undefined;
  const begun = await insisted(() =>
    feed.subscribe({ uid, pipeline: `reads-${id}`, ...(starts && { starts }) }),
  );
  if (!begun) return;
  const reader = new Reader(stage, turn, { uid, cursor: begun.cursor, starts: starts ?? [] });
  for (let n = 0; n < 2 + random.below(4); n++) {
    if (!(await reader.read(`${id}.${n}`))) break;
    await reader.mark();
    await reader.hear();
    await scheduler.wait(random.next() * random.pick(RESTS_MS));
  }
  const stopped = random.chance(0.3);
  await insisted(async () => [await feed.unsubscribe({ uid, ...(stopped && { stopped }) })]);
  // One that is started again goes on; nobody ever comes back for what this one left.
  if (stopped) await insisted(async () => [await feed.unsubscribe({ uid })]);
}

interface Start extends Cursor {
  readonly commit: string;
}

/** A commit that an input starts after, which stays as long as it does. */
async function someStarts(stage: Stage, { random, bucket }: Turn): Promise<Start[]> {
  const commits = (stage.observers.get(bucket)?.states ?? []).flatMap(({ commit }) => commit ?? []);
  if (commits.length === 0) return [];
  const commit = random.pick(commits);
  const at = await insisted(async () => ({ at: await stage.branch(bucket).feed.position({ commit }) }));
  return at?.at ? [{ ...at.at, commit }] : [];
}

class Reader {
  readonly #stage: Stage;
  readonly #turn: Turn;
  readonly #uid: string;
  readonly #starts: readonly Start[];
  /** How far it has read, and since where it holds the history. */
  #cursor: Cursor;
  #mark: Cursor;
  /** What it has heard of erasures, and of how many that somebody wanted it must not hear. */
  #heard = 0;
  readonly #told = new Set<string>();
  readonly #before: number;

  constructor(
    stage: Stage,
    turn: Turn,
    { uid, cursor, starts }: { uid: string; cursor: Cursor; starts: readonly Start[] },
  ) {
    this.#stage = stage;
    this.#turn = turn;
    this.#uid = uid;
    this.#starts = starts;
    this.#cursor = cursor;
    this.#mark = cursor;
    this.#before = stage.erased.length;
  }

  /** Reads a page of the feed, in which nothing is missing. Answers whether it heard anything. */
  async read(id: string): Promise<boolean> {
    const { random, bucket } = this.#turn;
    const asked = this.#cursor;
    const limit = random.pick([1, 2, 5, 1000]);
    const page: FeedPage | undefined = await askAside(
      this.#stage,
      { id, bucket, text: `read ${id} after ${JSON.stringify(asked)}` },
      {
        call: () => this.#stage.branch(bucket).feed.read({ cursor: asked, limit }),
        saidOf: ({ events, more }): Said => ({
          kind: "saw",
          what: `events ${JSON.stringify(events.map(({ id: event, kind, gap }) => [event, kind, gap]))}`,
          of: (_, observer, state) =>
            events.every(({ gap }) => gap !== true) &&
            isFeed(this.#stage, { bucket, observer, state, asked, events, more }),
        }),
      },
    );
    const last = page?.events.at(-1);
    if (last) this.#cursor = { generation: last.generation, seq: last.seq };
    return page !== undefined;
  }

  /** Says what it needs no more; what it still needs can be read. */
  async mark(): Promise<void> {
    const { random, bucket } = this.#turn;
    const { feed } = this.#stage.branch(bucket);
    if (random.chance(0.6)) {
      const job = random.chance(0.3) ? this.#uid : null;
      const request = { uid: this.#uid, ...this.#cursor, job, starts: this.#starts };
      const told = await insisted(async () => [await feed.setMark(request)]);
      if (told) this.#mark = this.#cursor;
    }
    const { generation, seq } = this.#mark;
    if (seq === 0) return;
    const files = await insisted(async () => ({
      page: await readable(() => feed.filesAt({ generation, seq, prefix: "", after: "", limit: 10 })),
    }));
    if (files && files.page === null)
      this.#stage.wrong.push(`${bucket}: what ${this.#turn.id} holds at ${seq} is kept no more`);
  }

  /** Hears what was erased: all that went since it reads, and nothing that nobody wanted to go. */
  async hear(): Promise<void> {
    const { bucket } = this.#turn;
    const { erasures } = this.#stage.branch(bucket);
    const asked = this.#stage.stamp();
    for (let more = true; more; ) {
      const answer = await insisted(() => erasures.list({ uid: this.#uid, after: this.#heard }));
      if (!answer) return;
      for (const { path } of answer.erasures) this.#told.add(path);
      more = answer.erasures.length > 0 && answer.upTo > this.#heard;
      this.#heard = answer.upTo;
    }
    this.#compare(asked);
  }

  #compare(asked: number): void {
    const { bucket, id } = this.#turn;
    const { erased, wrong } = this.#stage;
    for (const path of this.#told)
      if (!erased.some((one) => one.path === path))
        wrong.push(`${bucket}: ${id} heard that ${path} was erased, and nobody asked for that`);
    for (const one of erased.slice(this.#before)) {
      const isGone = one.bucket === bucket && one.digest !== "" && (one.goneAt ?? asked) < asked;
      if (isGone && !this.#told.has(one.path))
        wrong.push(`${bucket}: ${id} did not hear that ${one.path} of ${one.version} was erased`);
    }
  }
}

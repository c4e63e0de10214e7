import { type BlobOwner, chunkBlobName, newWrite } from "../../../worker/blobs/blob-name.ts";
import type { BranchApi } from "../../../worker/branch/contract/api.ts";
import type { Random } from "../platform/random.ts";
import type { Simulation } from "../platform/simulation.ts";
import type { Archive, Imported } from "./archives.ts";
import type { Aside } from "./asides.ts";
import { digestOf, idOf } from "./bytes.ts";
import { FactsObserver } from "./facts.ts";
import { isMishap, type Trouble } from "./mishaps.ts";
import { type Answer, type Taken, UNKNOWN } from "./model.ts";
import { BranchObserver } from "./observer.ts";
import type { State, Tree } from "./states.ts";
import type { Tally } from "./tally.ts";

export const REPO = "photos";
/** The first one is there from the beginning. */
export const BRANCHES = ["master", "one", "two"];
export const PATHS = ["a", "b", "dir/c", "dir/d", "dir/sub/e"];

/** How much later than others a client goes on at most; milliseconds. */
const TOGETHER_MS = 20;

export function bucketOf(branch: string): string {
  return `${branch}.${REPO}`;
}

export function addressOf(bucket: string): { readonly repo: string; readonly branch: string } {
  const [branch = "", repo = ""] = bucket.split(".");
  return { repo, branch };
}

/** All buckets: one more is of a second repo, and is made of archives or anew. */
export const BUCKETS = [...BRANCHES.map(bucketOf), "master.copies"];

/** What a kind of steps is given: everything that it chooses comes out of `random`. */
export interface Turn {
  /** Of the step; what makes several commits appends to it. */
  readonly id: string;
  readonly random: Random;
  /** The branch that the step is about. */
  readonly bucket: string;
}

/** A kind of steps that clients take. */
export interface Kind {
  /** How often it occurs beside the others. */
  readonly weight: number;
  /** Takes a step: asks, and notes what was asked and answered. It may throw what a mishap throws. */
  take(stage: Stage, turn: Turn): Promise<void>;
}

/** What was asked of a branch, before its answer. */
export type Asked = Pick<Taken, "id" | "bucket" | "text" | "leads" | "fills" | "ends" | "isTwofold">;

/** Somebody asked that a version with this content goes for good. */
export interface Erased {
  readonly bucket: string;
  readonly path: string;
  readonly digest: string;
  readonly version: string;
  /** The generation of which the branch answered that it went; null: it did not. */
  readonly goneFrom: number | null;
  /** When that was, in the count of all that the history noted. */
  readonly goneAt?: number;
}

/** Somebody wrote again what was there, which was answered at a time of the clock. */
interface Renewed {
  readonly bucket: string;
  readonly path: string;
  readonly at: number;
  readonly stamp: number;
}

/** Somebody took out what was said of a commit. */
export interface Redacted {
  readonly bucket: string;
  readonly commit: string;
  /** When the branch had answered that it is gone, and of which generation; null: it did not. */
  readonly doneAt: { readonly stamp: number; readonly generation: number | null } | null;
}

/** How long whoever asks again is told at least, though the clock was set back by an hour; milliseconds. */
const TOLD_FOR_MS = 22 * 60 * 60_000;

/** Somebody asks what became of an open commit or of an upload, at this time by the clock. */
interface AskedAgain {
  readonly name: string;
  readonly state: State;
  readonly digest?: string;
  readonly now: number;
}

/** What came of something that clients filled. */
export interface End {
  /** When somebody asked who was told. */
  readonly at: number;
  readonly commit: string | null;
  /** Of the object that parts became. */
  readonly digest?: string;
}

/** Where a history takes place: the simulated gateway, and notes of all that was asked. */
export class Stage {
  readonly simulation: Simulation;
  readonly tally: Tally;
  /** The limits of branches are small (../limits/limits.ts): pages end early, and what is read in several turns is no state that was. */
  readonly isSmall: boolean;
  readonly taken: Taken[] = [];
  readonly observers = new Map<string, BranchObserver>();
  readonly facts = new Map<string, FactsObserver>();
  /** What was asked that is about no tree at HEAD. */
  readonly asides: Aside[] = [];
  readonly erased: Erased[] = [];
  readonly renewed: Renewed[] = [];
  /** What was ever written, by its digest. */
  readonly texts = new Map<string, string>();
  /** Blobs that a branch said it has. Of others nobody may know, if a client died: the orphan scan is for these. */
  readonly known = new Set<string>();
  /** Until then, by the clock, no client begins a step. */
  quietUntil = 0;
  /** What is the matter with the blob store. */
  readonly trouble: Trouble;
  /** When databases were full, in the count of all that the history noted. */
  readonly full: { readonly bucket: string; readonly from: number; readonly to: number }[] = [];
  /** What whoever holds something at branches does when the history is over. */
  readonly leaving: (() => Promise<unknown>)[] = [];
  /** What came of open commits and of multipart uploads, as whoever asked first was told. */
  readonly ends = new Map<string, End>();
  /** Open commits that somebody finished without a word: their commits have what was said when they began. */
  readonly silent = new Set<string>();
  /** Of objects in parts, by their digests: digests of the blobs that they are made of. */
  readonly madeOf = new Map<string, Set<string>>();
  /** What was exported, whole. */
  readonly archives: Archive[] = [];
  /** Imports whose end somebody asked for. */
  readonly imports: Imported[] = [];
  /** Commits of which somebody took out what was said. */
  readonly redacted: Redacted[] = [];
  /** What was wrong as soon as it was answered. */
  readonly wrong: string[] = [];
  /** How long multipart uploads live at least after they were last filled, of which that is known; milliseconds. */
  readonly ttls = new Map<string, number>();
  /** Multipart uploads that somebody saw. */
  readonly uploads = new Set<string>();
  #stamp = 0;
  /** When each number was given out, in order. */
  readonly #stampedAt: number[] = [];

  constructor(
    simulation: Simulation,
    tally: Tally,
    { isSmall = false, trouble }: { readonly isSmall?: boolean | undefined; readonly trouble: Trouble },
  ) {
    this.simulation = simulation;
    this.trouble = trouble;
    this.tally = tally;
    this.isSmall = isSmall;
    for (const bucket of BUCKETS) {
      const object = simulation.branches.object(bucket);
      const stamp = () => this.stamp();
      // What is filled again when the clock was set back lives from then on.
      const now = () => simulation.world.forwardClock;
      this.observers.set(bucket, new BranchObserver(object, { stamp, now }));
      const others = () => simulation.branches.all().filter(({ name }) => name !== bucket);
      this.facts.set(bucket, new FactsObserver(object, { world: simulation.world, stamp, others }));
    }
  }

  /** The next number in the count of all that is noted. */
  stamp(): number {
    this.#stampedAt.push(this.simulation.world.now);
    return ++this.#stamp;
  }

  /** The last number of so many milliseconds ago, or before a time. */
  stampOf(agoMs: number, before = this.simulation.world.now): number {
    const at = before - agoMs;
    return this.#stampedAt.findLastIndex((given) => given < at) + 1;
  }

  /** Whether a branch and all beside its tree was the same all the time from a moment until now. */
  isUnmoved(bucket: string, since: number): boolean {
    const [from, to] = [since, this.stamp()];
    const moments = [this.observers.get(bucket), this.facts.get(bucket)];
    return moments.every((seen) => seen?.between(from, to).length === 1);
  }

  /** Waits as long as no client is to begin a step; then all go on at almost the same time. */
  async quiet(): Promise<void> {
    const { world } = this.simulation;
    if (this.quietUntil > world.now)
      await scheduler.wait(this.quietUntil - world.now + world.random.next() * TOGETHER_MS);
  }

  branch(bucket: string): BranchApi {
    return this.simulation.branch(bucket);
  }

  /** The digest of a text, which is remembered. */
  text(text: string): string {
    const digest = digestOf(text);
    this.texts.set(digest, text);
    return digest;
  }

  /** As PutObject does before it names them. */
  async writeBlob(text: string, owner: Omit<BlobOwner, "write">): Promise<string> {
    const blob = chunkBlobName(idOf(text), { ...owner, write: newWrite() });
    await this.simulation.blobs.put(blob, new TextEncoder().encode(text));
    return blob;
  }

  /** What a branch was at a commit that is on the disk, or that was; of several generations the newest that had it. */
  stateOf(bucket: string, commit: string): State | undefined {
    return this.observers.get(bucket)?.states.findLast((state) => state.commit === commit);
  }

  /** Whether what was said of a commit must be gone at a moment. */
  isRedacted(commit: string, { generation, since }: Pick<State, "generation" | "since">): boolean {
    return this.redacted.some(
      (one) => one.commit === commit && one.doneAt?.generation === generation && one.doneAt.stamp <= since,
    );
  }

  /** What was said of a commit that is on the disk. */
  messageOf(bucket: string, commit: string): string | null | undefined {
    return this.#made(bucket, commit)?.message;
  }

  /** Whether an open commit or an upload became a commit of this generation, of which whoever asks by then must be told. */
  isMade(bucket: string, { name, state, digest, now }: AskedAgain): boolean {
    const end = this.ends.get(name);
    if (!end || end.commit === null || end.digest !== digest || now > end.at + TOLD_FOR_MS) return false;
    return this.#made(bucket, end.commit)?.generation === state.generation;
  }

  #made(bucket: string, commit: string): State | undefined {
    return this.observers.get(bucket)?.states.find((state) => state.commit === commit);
  }

  /** Whether a tree is another one, but for what somebody wanted to be erased since. */
  isButErased(tree: Tree, left: Tree): boolean {
    const mayBeGone = (path: string, digest: string) =>
      this.erased.some((one) => one.path === path && one.digest === digest);
    return (
      [...left].every(([path, digest]) => tree.get(path) === digest) &&
      [...tree].every(([path, digest]) => left.has(path) || mayBeGone(path, digest))
    );
  }

  /** Notes what a call asks of another branch, whose answer nobody hears. */
  note(asked: Asked): void {
    this.taken.push({ ...asked, begun: this.stamp(), ended: Number.POSITIVE_INFINITY, answer: UNKNOWN });
  }

  /** Asks something, and notes it with its answer. If something goes wrong on the way, the answer is unknown. */
  async ask<T>(
    asked: Asked,
    call: () => Promise<T>,
    answerOf: (answer: T) => Answer,
  ): Promise<T | undefined> {
    const { now } = this.simulation.world;
    const askedAt = this.stamp();
    const answer = await call().catch((error) => {
      if (!isMishap(error)) throw error;
      return undefined;
    });
    const noted = answer === undefined ? UNKNOWN : answerOf(answer);
    const ageMs = noted.kind === "saw" ? noted.ageMs : undefined;
    const begun = ageMs ? this.stampOf(ageMs, now) : askedAt;
    this.tally.add(`answer ${noted.kind === "saw" ? noted.what.split(" ")[0] : noted.kind}`);
    const ended = noted.kind === "unknown" ? Number.POSITIVE_INFINITY : this.stamp();
    this.taken.push({ ...asked, begun, ended, answer: noted });
    return answer;
  }
}

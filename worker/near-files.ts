import type { FileRead, NewestPosition, ReadAnswer, Unchanged } from "./branch/contract/files.ts";
import type { ModifiedOf } from "./branch/contract/settings.ts";
import { Recent } from "./core/recent.ts";

/** What the entry of an isolate, which has 128 MB, keeps of files that were read; bytes. */
const MOST_BYTES = 8 * 1024 * 1024;
/** What one file may take: a list of so many chunks is asked for anew each time. */
const MOST_FILE_BYTES = 64 * 1024;
/** About what an entry takes beside its texts and its bytes. */
const ENTRY_BYTES = 1024;
/** How old an answer of one commit may be, and one of the newest state if the branch is set so; milliseconds. */
const LASTING_MS = 5000;
/** So many branches are known by what was seen last of each. What is kept of others is asked for again. */
const BRANCHES = 1000;

/** Which file. Who asks for it plays no part: whoever must not read it does not get so far. */
export interface NearFile {
  /** With its view. */
  readonly bucket: string;
  readonly path: string;
  /** A commit's id. Absent: what the bucket shows. */
  readonly commit: string | undefined;
  /** Whose time is asked for. */
  readonly modified: ModifiedOf;
}

interface Asking {
  /** Asks the branch, with the stamp of what was there last. */
  readonly ask: (have: string | null) => Promise<ReadAnswer | Unchanged>;
  readonly now: () => number;
  /** Whether what is said of the newest state may be some seconds old, if the branch is set so. */
  readonly mayBeOld: boolean;
}

interface NearRead {
  readonly answer: ReadAnswer;
  readonly by: ReadBy;
  /** How long ago it was asked for; milliseconds. */
  readonly ageMs: number;
}

/** How a read was answered: without a call of the branch, by one that said that nothing changed, or by one that said all. */
export type ReadBy = "cache" | "unchanged" | "call";

interface Kept {
  readonly file: FileRead;
  /** Before the branch answered. */
  readonly asked: Moment;
  readonly bytes: number;
  /** What was known of the branch then. */
  readonly seen: Seen;
}

/** The newest state of a branch that anybody was told of; undefined: nobody was. */
interface Seen {
  newest: NewestPosition | undefined;
  readonly bytes: number;
}

/** A time by a clock: once it is set back it counts as another one. */
interface Moment {
  readonly at: number;
  readonly clock: number;
}

/**
 * Files that were read lately, near the reader: their rows, with the bytes of small ones, for a branch that may be far away. What
 * is here is true of a moment that is over. So the branch is asked each time whether it is still so, which is one trip to it and
 * back, and meanwhile the bytes are opened that lie near (`last`). A file of one commit never changes: it may be erased, or the
 * commit or the branch may go, and so for five seconds nobody asks.
 *
 * Of a branch that is set to near reads nobody asks for five seconds either. But once somebody was told of a newer commit, all is
 * asked for again that was read before it: whoever reads after that sees nothing older, whichever file it is.
 *
 * Only files that were found are kept, and only if the branch gave a stamp for them. Whoever has no key neither leaves
 * anything here nor is served from here.
 */
export class NearFiles {
  readonly #kept = new Recent<Kept>(MOST_BYTES);
  readonly #seen = new Recent<Seen>(BRANCHES);
  readonly #trustsCommits: boolean;
  readonly #trustsNear: boolean;
  #newest: Moment = { at: 0, clock: 0 };

  /** `trustsCommits`, `trustsNear`: files of commits, and of branches that are set so, are answered for a while without a call. */
  constructor({ trustsCommits, trustsNear }: { trustsCommits: boolean; trustsNear: boolean }) {
    this.#trustsCommits = trustsCommits;
    this.#trustsNear = trustsNear;
  }

  /** What was there when it was read last. */
  last(of: NearFile): FileRead | undefined {
    return this.#kept.get(keyOf(of))?.file;
  }

  /** What is there. */
  async read(of: NearFile, { ask, now, mayBeOld }: Asking): Promise<NearRead> {
    const key = keyOf(of);
    const kept = this.#kept.get(key);
    const asked = this.#moment(now());
    const seen = this.#seenOf(of.bucket);
    if (kept && this.#isFresh(kept, { now: asked, known: seen, mayBeOld }))
      return { answer: kept.file, by: "cache", ageMs: asked.at - kept.asked.at };
    const answer = await ask(kept?.file.stamp ?? null);
    this.#see(of, answer);
    if (!answer.ok || !("unchanged" in answer)) {
      this.#keep(key, answer, { asked, seen });
      return { answer, by: "call", ageMs: 0 };
    }
    if (!kept) throw new Error("the branch says that what nobody has is unchanged");
    const { unchanged: _, ...said } = answer;
    const file = { ...kept.file, ...said };
    this.#kept.set(key, { ...kept, file, asked, seen });
    return { answer: file, by: "unchanged", ageMs: 0 };
  }

  /** What is known of a branch by all who ask now. */
  #seenOf(bucket: string): Seen {
    const seen = this.#seen.get(bucket) ?? { newest: undefined, bytes: 1 };
    this.#seen.set(bucket, seen);
    return seen;
  }

  /**
   * Somebody is told of a state. If nobody knows where that stands, nothing counts that was read before. Whoever asked before that
   * is heard, too: what is told is seen by all who ask now.
   */
  #see({ bucket, commit }: NearFile, answer: ReadAnswer | Unchanged): void {
    const at = "at" in answer ? answer.at : undefined;
    const seen = this.#seen.get(bucket);
    if (at && seen && isBefore(seen.newest, at)) seen.newest = at;
    else if (!at && commit === undefined) this.#seen.delete(bucket);
  }

  /** What was asked by a clock that was set back is of no known age. */
  #moment(at: number): Moment {
    const { at: before, clock } = this.#newest;
    this.#newest = { at, clock: at < before ? clock + 1 : clock };
    return this.#newest;
  }

  #isFresh(
    { file: { lasting, near, at }, asked, seen }: Kept,
    { now, known, mayBeOld }: { now: Moment; known: Seen; mayBeOld: boolean },
  ): boolean {
    if (now.clock !== asked.clock || now.at - asked.at >= LASTING_MS) return false;
    if (lasting) return this.#trustsCommits;
    const isNewest = seen === known && at?.gen === known.newest?.gen && at?.seq === known.newest?.seq;
    return this.#trustsNear && mayBeOld && near === true && isNewest;
  }

  #keep(key: string, answer: ReadAnswer, of: Pick<Kept, "asked" | "seen">): void {
    const file = answer.ok && answer.stamp !== undefined ? answer : undefined;
    const bytes = ENTRY_BYTES + key.length + (file ? bytesOf(file) : 0);
    if (file && bytes <= MOST_FILE_BYTES) this.#kept.set(key, { file, bytes, ...of });
    else this.#kept.delete(key);
  }
}

function isBefore(one: NewestPosition | undefined, other: NewestPosition): boolean {
  return one === undefined || one.gen < other.gen || (one.gen === other.gen && one.seq < other.seq);
}

/** Names and paths hold no control characters. */
function keyOf({ bucket, path, commit = "", modified }: NearFile): string {
  return [bucket, path, commit, modified].join("\0");
}

function bytesOf({ body, attributes }: FileRead): number {
  const held = body.kind === "inline" ? body.bytes.byteLength : JSON.stringify(body).length;
  return held + JSON.stringify(attributes).length;
}

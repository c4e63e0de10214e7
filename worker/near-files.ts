import type { FileRead, ReadAnswer, Unchanged } from "./branch/contract/files.ts";
import type { ModifiedOf } from "./branch/contract/settings.ts";
import { Recent } from "./core/recent.ts";

/** What the entry of an isolate, which has 128 MB, keeps of files that were read; bytes. */
const MOST_BYTES = 8 * 1024 * 1024;
/** What one file may take: a list of so many chunks is asked for anew each time. */
const MOST_FILE_BYTES = 64 * 1024;
/** About what an entry takes beside its texts and its bytes. */
const ENTRY_BYTES = 1024;
/** How old an answer of one commit may be; milliseconds. */
const LASTING_MS = 5000;

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

/** How a read was answered: without a call of the branch, by one that said that nothing changed, or by one that said all. */
export type ReadBy = "cache" | "unchanged" | "call";

interface Kept {
  readonly file: FileRead;
  /** Before the branch answered. */
  readonly asked: Moment;
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
 * Only files that were found are kept, and only if the branch gave a stamp for them. Whoever has no key neither leaves
 * anything here nor is served from here.
 */
export class NearFiles {
  readonly #kept = new Recent<Kept>(MOST_BYTES);
  readonly #trustsCommits: boolean;
  #newest: Moment = { at: 0, clock: 0 };

  /** `trustsCommits`: files of commits are answered for a while without a call. */
  constructor({ trustsCommits }: { trustsCommits: boolean }) {
    this.#trustsCommits = trustsCommits;
  }

  /** What was there when it was read last. */
  last(of: NearFile): FileRead | undefined {
    return this.#kept.get(keyOf(of))?.file;
  }

  /** What is there. `ask`: asks the branch, with the stamp of what was there last. */
  async read(
    of: NearFile,
    { ask, now }: { ask: (have: string | null) => Promise<ReadAnswer | Unchanged>; now: () => number },
  ): Promise<{ answer: ReadAnswer; by: ReadBy }> {
    const key = keyOf(of);
    const kept = this.#kept.get(key);
    const asked = this.#moment(now());
    if (kept && this.#isFresh(kept, asked)) return { answer: kept.file, by: "cache" };
    const answer = await ask(kept?.file.stamp ?? null);
    if (!answer.ok || !("unchanged" in answer)) {
      this.#keep(key, answer, asked);
      return { answer, by: "call" };
    }
    if (!kept) throw new Error("the branch says that what nobody has is unchanged");
    const { unchanged: _, ...said } = answer;
    const file = { ...kept.file, ...said };
    this.#kept.set(key, { ...kept, file, asked });
    return { answer: file, by: "unchanged" };
  }

  /** What was asked by a clock that was set back is of no known age. */
  #moment(at: number): Moment {
    const { at: before, clock } = this.#newest;
    this.#newest = { at, clock: at < before ? clock + 1 : clock };
    return this.#newest;
  }

  #isFresh({ file, asked }: Kept, { at, clock }: Moment): boolean {
    return (
      this.#trustsCommits && file.lasting === true && clock === asked.clock && at - asked.at < LASTING_MS
    );
  }

  #keep(key: string, answer: ReadAnswer, asked: Moment): void {
    const file = answer.ok && answer.stamp !== undefined ? answer : undefined;
    const bytes = ENTRY_BYTES + key.length + (file ? bytesOf(file) : 0);
    if (file && bytes <= MOST_FILE_BYTES) this.#kept.set(key, { file, asked, bytes });
    else this.#kept.delete(key);
  }
}

/** Names and paths hold no control characters. */
function keyOf({ bucket, path, commit = "", modified }: NearFile): string {
  return [bucket, path, commit, modified].join("\0");
}

function bytesOf({ body, attributes }: FileRead): number {
  const held = body.kind === "inline" ? body.bytes.byteLength : JSON.stringify(body).length;
  return held + JSON.stringify(attributes).length;
}

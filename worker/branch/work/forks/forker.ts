import { contentName } from "../../../../protocol/content.ts";
import type { NamedLoop } from "../../../objects/loop.ts";
import type { Tx } from "../../../objects/transaction.ts";
import type { CopiedContent } from "../../contents/content-store.ts";
import type { BranchContext, Moment } from "../../context.ts";
import type { AnswerOf } from "../../contract/answers.ts";
import type { Committed } from "../../contract/files.ts";
import type { ForkCalls, RootSlice } from "../../contract/forks.ts";
import type { Fork } from "../../forks/fork-store.ts";
import type { Ledger } from "../../ledger/ledger.ts";
import { lowestMark } from "../../retention/horizon.ts";
import type { BranchLoop } from "../../store.ts";
import { newCommitId } from "../../tree/commit-id.ts";
import { kindOf } from "../../tree/file-store.ts";
import type { Committer } from "../../write/committer.ts";
import { type RootContext, rootFork } from "../../write/fork.ts";
import { purgeSlice } from "./purge.ts";

interface ForkerOptions extends RootContext, Pick<BranchContext, "turn"> {
  readonly committer: Committer;
}

/**
 * Makes a branch from a commit of another one, its parent. Rows are copied, bytes are not: the fork names blobs of the
 * parent. So the parent must know of the fork before the fork names anything, and until it names nothing any more:
 *
 * 1. Asked. A row with the uid that the fork will have. Nobody sees it yet.
 * 2. The parent writes the fork and the commit down as a root. If it has no such commit, nothing was made, and the parent is
 *    told to drop the root: a call that was made before may still be on its way to it.
 * 3. Copying. The generation has its number; it looks deleted to everybody, since nobody may read half of it. The
 *    catalogue hears of it, and then so does the caller. Rows come in slices, each a transaction that says how far it is.
 * 4. Made. One commit, whose rows these are, and the generation lives: in one transaction.
 * 5. Purging, when it was deleted, also half-made. If nobody reads its rows any more they go in slices, and with them the
 *    names of the parent's blobs. Then the parent is told to drop the root, and at last the row goes. The generation keeps
 *    the name of the parent: a read that began before its end asks here who can hold what it reads.
 *
 * Each step may be done again, on both sides, so that the alarm goes on after a crash from what is written down. A root
 * that was dropped is remembered, so that a call that comes late does not bring it back.
 *
 * Of a fork of a fork the blobs may be the grandparent's. The one in the middle keeps its rows, and with them its own
 * root, while a fork of it stands: whoever names a blob either owns it or has a root in a branch that names it.
 */
export class Forker implements NamedLoop {
  readonly name = "forks" satisfies BranchLoop;
  readonly checksDue = true;
  readonly #options: ForkerOptions;
  /** Forks that could not go on, and the last reason: they hold up no other one. */
  #failed = new Set<string>();
  #error: unknown;
  /** The page that comes after the ones that are being written. */
  #ahead: { readonly uid: string; readonly after: string; readonly page: Promise<Page> } | undefined;

  constructor(options: ForkerOptions) {
    this.#options = options;
  }

  due(): number | undefined {
    const { forks } = this.#options.ledger;
    return !forks.isEmpty && forkAtWork(this.#options.ledger) ? 0 : undefined;
  }

  /** Goes on with one fork; fails, once all others are done, if one could not go on. */
  async step(): Promise<boolean> {
    const fork = forkAtWork(this.#options.ledger, this.#failed);
    if (!fork) {
      const [isFailed, error] = [this.#failed.size > 0, this.#error];
      this.#failed = new Set();
      if (isFailed) throw error;
      return false;
    }
    try {
      await this.#step(fork);
    } catch (error) {
      this.#failed.add(fork.uid);
      this.#error = new Error(`the fork ${fork.uid} of ${fork.parent} could not go on: ${error}`, {
        cause: error,
      });
    }
    return true;
  }

  async #step(fork: Fork): Promise<void> {
    if (fork.state === "asked") await rootFork(this.#options, fork);
    else if (fork.state === "copying") await this.#copy(fork);
    else if (!this.#purgeSome(fork)) await this.#letGo(fork);
  }

  /** Writes one page, while the next one is on its way. */
  async #copy({ uid, parent, copied }: Fork): Promise<void> {
    const { ledger, committer, turn } = this.#options;
    const page = await this.#page({ uid, parent, after: copied });
    if (!page.ok) throw new Error(`${parent} has no root for it`);
    if (page.next !== null) this.#fetchAhead({ uid, parent, after: page.next });
    for (const slice of page.slices) {
      if (!ledger.transaction((tx) => copySlice(tx, ledger, { uid, slice }))) return;
      await turn();
    }
    if (page.next !== null || ledger.forks.get(uid)?.state !== "copying") return;
    committer.one((tx, moment) => publishFork(tx, ledger, { uid, moment }));
  }

  #page({ uid, parent, after }: PageRequest): Promise<Page> {
    const ahead = this.#ahead;
    this.#ahead = undefined;
    if (ahead?.uid === uid && ahead.after === after) return ahead.page;
    return this.#options.branch(parent).forks.rootPage({ fork: uid, after });
  }

  #fetchAhead({ uid, parent, after }: PageRequest): void {
    const page = this.#options.branch(parent).forks.rootPage({ fork: uid, after });
    // Whoever takes it hears of its failure.
    page.catch(() => {});
    this.#ahead = { uid, after, page };
  }

  /** Returns whether there were rows to remove. */
  #purgeSome({ gen }: Fork): boolean {
    const { ledger, now } = this.#options;
    if (gen === null) return false;
    return ledger.transaction((tx) => purgeSlice(tx, ledger, { gen, now: now() }));
  }

  async #letGo({ uid, parent }: Fork): Promise<void> {
    const { ledger, branch } = this.#options;
    await branch(parent).forks.dropRoot({ fork: uid });
    ledger.transaction(() => {
      ledger.generations.recordParent({ uid, parent });
      ledger.forks.remove(uid);
      // Nothing is left to give back: the outbox finds that the fork is gone, and forgets what waits.
    });
  }
}

interface PageRequest extends Pick<Fork, "uid" | "parent"> {
  readonly after: string;
}
type Page = AnswerOf<ForkCalls["rootPage"]>;

/** The fork that there is something to do for now, but none of `except`. */
function forkAtWork(ledger: Ledger, except: ReadonlySet<string> = NONE): Fork | undefined {
  return ledger.forks
    .unfinished()
    .find((fork) => !except.has(fork.uid) && (fork.state !== "purging" || mayPurge(ledger, fork)));
}

const NONE: ReadonlySet<string> = new Set();

/**
 * Whether something can be done for a fork that is to go. Its rows stay while forks of it stand, since what those name may
 * be here alone, and while a pipeline needs them, whose jobs may still read what there was. At last its uploads
 * and open commits may hold contents of the parent, and let go of them in their time.
 */
function mayPurge(
  { sql, roots, commits, subscribers, contents }: Ledger,
  { gen }: Pick<Fork, "gen">,
): boolean {
  if (gen === null) return true;
  const last = commits.newest(gen);
  if (last && (roots.hasAny(gen) || lowestMark(subscribers.marks(), gen) < last.seq)) return false;
  return sql.has`SELECT 1 FROM files WHERE gen = ${gen} LIMIT 1` || !contents.hasOnLoan(gen);
}

/** The commit that a fork begins with. */
const FIRST_SEQ = 1;

/** Of (?1 gen, ?2 seq, ?3 JSON of paths, digests, sizes and attributes). */
const FILES = `
  INSERT INTO files (gen, path, born, died, kind, digest, size, attributes)
  SELECT ?1, value ->> 0, ?2, NULL, substr(value ->> 0, -1) = '/', unhex(value ->> 1), value ->> 2, value ->> 3
  FROM json_each(?3)`;

type Copying = Pick<Fork, "uid">;

/**
 * Writes a slice of the parent's commit as rows of the commit that the fork begins with, and how far it came: each is
 * written once wherever a crash comes. Returns false if the fork no longer waits for it.
 */
function copySlice(
  _: Tx,
  { sql, forks, contents }: Ledger,
  { uid, slice }: Copying & { slice: RootSlice },
): boolean {
  const fork = forks.get(uid);
  if (fork?.state !== "copying" || fork.gen === null || fork.copied !== slice.after) return false;
  const { files, last } = slice;
  contents.copy(counted(slice), fork.gen);
  if (files.length > 0) sql.execute(FILES, [fork.gen, FIRST_SEQ, JSON.stringify(files)]);
  forks.advance(uid, { copied: last, files: files.length });
  return true;
}

/** Makes the commit, when all of its rows are written: from now on the fork is a branch like any other. */
function publishFork(_: Tx, ledger: Ledger, { uid, moment }: Copying & { moment: Moment }): Committed {
  const { forks, generations, commits, clock, outbox } = ledger;
  const fork = forks.get(uid);
  const newest = generations.newest();
  if (fork?.state !== "copying" || fork.gen === null || newest?.gen !== fork.gen) {
    throw new Error(`the fork ${uid} can't be published any more`);
  }
  const createdAt = clock.next(moment.now);
  const position = { gen: fork.gen, seq: FIRST_SEQ };
  const id = newCommitId(position, createdAt);
  const annotation = { message: messageOf(fork), ...fork.annotation };
  commits.insert({ ...position, id, kind: "commit", createdAt, births: fork.files, deaths: 0, annotation });
  generations.open(fork.gen);
  forks.made(uid);
  // No call waits for it.
  outbox.mark("catalogue", { event: id, due: moment.now });
  return { ok: true, commit: id, modifiedAt: createdAt };
}

/** What its first commit says if its maker said nothing. */
function messageOf({ parent, commit }: Fork): string {
  return commit === null ? `made from ${parent}` : `made from ${parent} at ${commit}`;
}

function counted({ files, contents }: RootSlice): CopiedContent[] {
  const refs = new Map<string, number>();
  for (const [path, digest, size] of files) {
    if (kindOf(path) === "dir") continue;
    const name = contentName({ digest, size });
    refs.set(name, (refs.get(name) ?? 0) + 1);
  }
  return contents.map((content) => {
    const name = contentName(content);
    const count = refs.get(name);
    if (count === undefined) throw new Error(`a content came that no file of the slice has: ${name}`);
    return { ...content, refs: count };
  });
}

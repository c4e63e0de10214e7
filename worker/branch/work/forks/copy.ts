import { contentName } from "../../../../protocol/content.ts";
import type { Tx } from "../../../objects/transaction.ts";
import type { CopiedContent } from "../../contents/content-store.ts";
import type { Moment } from "../../context.ts";
import type { Committed } from "../../contract/files.ts";
import type { RootSlice } from "../../contract/forks.ts";
import type { Fork } from "../../forks/fork-store.ts";
import type { Ledger } from "../../ledger/ledger.ts";
import { kindOf } from "../../tree/file-store.ts";

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
export function copySlice(
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
export function publishFork(_: Tx, ledger: Ledger, { uid, moment }: Copying & { moment: Moment }): Committed {
  const { forks, generations, commits, clock, outbox } = ledger;
  const fork = forks.get(uid);
  const newest = generations.newest();
  if (fork?.state !== "copying" || fork.gen === null || newest?.gen !== fork.gen) {
    throw new Error(`the fork ${uid} can't be published any more`);
  }
  const createdAt = clock.next(moment.now);
  const id = moment.id(createdAt);
  const position = { gen: fork.gen, seq: FIRST_SEQ };
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

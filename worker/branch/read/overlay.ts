import { comparePaths } from "../../core/path-order.ts";
import { NOTHING } from "../contents/stored-body.ts";
import type { FileRead } from "../contract/files.ts";
import type { Ledger } from "../ledger/ledger.ts";
import type { OpenCommit } from "../open-commits/open-commit-store.ts";
import { readAttributes } from "../tree/attributes.ts";
import { kindOf } from "../tree/file-store.ts";
import type { Live } from "../tree/generation-store.ts";
import type { PathRange } from "../tree/path-ranges.ts";
import { leastSpent, PagedWalk, type Walk, type WalkRow } from "./walk.ts";

/** Rows of deletions that are fetched at first: each stretch of the tree is looked up in them. */
const DELETES_PAGE = 16;

/** Of (?1 open commit, ?2 lower, ?3 upper, ?4 whether they are deletions, ?5 limit): what an open commit has staged, as rows of a walk. */
const STAGED = `
  SELECT path, lower(hex(digest)) AS digest, size, 0 AS born, 0 AS version, bytesAt
  FROM staged
  WHERE openCommit = ?1 AND gone = ?4 AND path >= ?2 AND path < ?3 ORDER BY path LIMIT ?5`;

interface PathInOpenCommit {
  readonly live: Live;
  readonly openCommit: OpenCommit;
  readonly path: string;
}

/** When something last happened to what an open commit shows. */
export function openCommitTime(live: Live, { writtenAt }: OpenCommit): number {
  return Math.max(live.head.modifiedAt, writtenAt);
}

/** A file that is staged; null if it is deleted, undefined if the open commit leaves the path alone. */
export function readStaged(
  { staged: stagedFiles, contents }: Ledger,
  { live, openCommit, path }: PathInOpenCommit,
): FileRead | null | undefined {
  const staged = stagedFiles.find(openCommit.number, path);
  if (!staged?.state) return staged && null;
  const { digest, size, attributes, bytesAt } = staged.state;
  const kind = kindOf(path);
  const found = kind === "dir" ? { body: NOTHING, life: null } : contents.find({ digest, size });
  if (!found) throw new Error(`the content ${digest}-${size} of a staged file is not in the branch`);
  return {
    ok: true,
    kind,
    digest,
    size,
    attributes: readAttributes(attributes),
    ...found,
    modifiedAt: bytesAt ?? openCommitTime(live, openCommit),
    commit: openCommit.id,
  };
}

/** A walk over a tree as it would be if the open commit were finished now. `rows`: as in openWalk. */
export function overlaid(
  { sql }: Ledger,
  { tree, openCommit, range, rows }: { tree: Walk; openCommit: OpenCommit; range: PathRange; rows: number },
): Walk {
  const { lower, upper } = range;
  const staged = (gone: 0 | 1, options: { page: number; budget?: number }) =>
    new PagedWalk({
      ...options,
      fetch: (from, limit) => sql.query<WalkRow>(STAGED, [openCommit.number, from, upper, gone, limit]),
      lower,
    });
  return new OverlaidWalk({
    tree,
    puts: staged(0, { page: rows }),
    // No budget of its own: it is looked at only for rows of the tree, which have one.
    deletes: staged(1, { page: DELETES_PAGE, budget: Number.POSITIVE_INFINITY }),
  });
}

/** A tree with some paths put over it and others taken away. */
class OverlaidWalk implements Walk {
  readonly #tree: Walk;
  readonly #puts: Walk;
  readonly #deletes: Walk;

  constructor({ tree, puts, deletes }: { tree: Walk; puts: Walk; deletes: Walk }) {
    this.#tree = tree;
    this.#puts = puts;
    this.#deletes = deletes;
  }

  peek(): WalkRow | undefined {
    const over = this.#puts.peek();
    let under = this.#tree.peek();
    while (under && this.#isHidden(under.path, over)) {
      this.#tree.advance();
      under = this.#tree.peek();
    }
    const first = over && (!under || comparePaths(over.path, under.path) < 0) ? over : under;
    const end = this.spentAt;
    return first && end !== undefined && comparePaths(first.path, end) > 0 ? undefined : first;
  }

  advance(): void {
    const first = this.peek();
    if (!first) return;
    if (first === this.#puts.peek()) this.#puts.advance();
    else this.#tree.advance();
  }

  skipTo(lower: string): void {
    for (const walk of [this.#tree, this.#puts]) walk.skipTo(lower);
  }

  get spentAt(): string | undefined {
    return leastSpent([this.#tree, this.#puts]);
  }

  #isHidden(path: string, over: WalkRow | undefined): boolean {
    if (over?.path === path) return true;
    this.#deletes.skipTo(path);
    return this.#deletes.peek()?.path === path;
  }
}

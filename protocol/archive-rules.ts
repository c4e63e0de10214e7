import type { ArchivedCommit, ArchivedFile, ArchivedTag } from "./archives.ts";
import { EMPTY_DIGEST } from "./content.ts";
import { ulidTime } from "./names.ts";

/*
 * How the rows of an archive fit together, if a branch wrote them. A gateway asks as pages come, and whoever checks the
 * file as it is read: both go through commits by number, tags by name, and files by path and number.
 */

/** How much later than the reader's clock a time of an archive may be; milliseconds. */
const ARCHIVE_AHEAD_MS = 24 * 60 * 60 * 1000;

/** What is wrong with a row: which part of it, such as `[2]`, and why. */
export interface RowFault {
  readonly part: string;
  readonly message: string;
}

/** What is known of the branch when a commit comes. */
export interface CommitBounds {
  /** The commit before it; undefined if it is the first. */
  readonly before: CommitBefore | undefined;
  readonly head: number;
  readonly horizon: number;
  /** The reader's clock; milliseconds since 1970. */
  readonly now: number;
}

export interface CommitBefore {
  readonly seq: number;
  readonly id: string;
  readonly createdAt: number;
  readonly births: number;
  readonly deaths: number;
}

/** Why a branch can't have been so; `path` is the field. */
export function branchFault(
  { createdAt, head, floor }: { createdAt: number; head: number; floor: number },
  now: number,
): { readonly path: string; readonly message: string } | undefined {
  if (floor > head)
    return { path: "floor", message: `must be ${head}, the newest commit, at most, not ${floor}` };
  if (createdAt <= now + ARCHIVE_AHEAD_MS) return undefined;
  const message = `is still to come, at ${createdAt}: the clock of the gateway that it comes from, or of this one, is wrong`;
  return { path: "createdAt", message };
}

/** Why a commit can't come behind the one before it. */
export function commitFault(
  [seq, id, createdAt, births, deaths, , , , , isGone]: ArchivedCommit,
  { before, head, horizon, now }: CommitBounds,
): RowFault | undefined {
  const last = before?.seq ?? 0;
  if (seq <= last || seq > head)
    return fault("[0]", `must come after ${last} and not after ${head}, not ${seq}`);
  // From the horizon on all of them are kept: whoever looks for one of a time relies on that.
  if (seq > Math.max(horizon, 1) && seq !== last + 1) return fault("[0]", `must be ${last + 1}, not ${seq}`);
  if (isGone === 1 && seq >= horizon) return fault("[9]", `is 1, though commit ${seq} is kept`);
  const time = timeFault({ id, createdAt }, { before, now });
  if (time) return time;
  for (const [part, rows, earlier] of [
    ["[3]", births, before?.births ?? 0],
    ["[4]", deaths, before?.deaths ?? 0],
  ] as const) {
    if (rows < earlier)
      return fault(part, `must be ${earlier}, as of the commit before it, at least, not ${rows}`);
  }
  return deaths > births
    ? fault("[4]", `must be ${births}, the rows that were born, at most, not ${deaths}`)
    : undefined;
}

/**
 * Times do not go back. The id of a commit begins with its time. It may be later, as the clock of a host that goes back
 * leaves the ids in their order: then the next ones may be before it.
 */
function timeFault(
  { id, createdAt }: Pick<CommitBefore, "id" | "createdAt">,
  { before, now }: Pick<CommitBounds, "before" | "now">,
): RowFault | undefined {
  const earliest = before?.createdAt ?? 0;
  if (createdAt < earliest)
    return fault("[2]", `must be ${earliest}, the time of the commit before it, at least, not ${createdAt}`);
  if (createdAt > now + ARCHIVE_AHEAD_MS)
    return fault("[2]", `is a time that is still to come: ${createdAt}`);
  const time = ulidTime(id);
  if (time < createdAt || time > Math.max(createdAt, now))
    return fault("[1]", `must begin with the commit's time, ${createdAt}: '${id}' begins with ${time}`);
  if (before && id <= before.id && ulidTime(before.id) === before.createdAt)
    return fault("[1]", `must be greater than that of the commit before it, '${before.id}', not '${id}'`);
  return undefined;
}

/** Why a tag can't come behind the name before it. */
export function tagFault(
  [name, , createdAt]: ArchivedTag,
  { before, now }: { readonly before: string; readonly now: number },
): RowFault | undefined {
  if (name <= before) return fault("[0]", `must come after '${before}', not '${name}'`);
  return createdAt > now + ARCHIVE_AHEAD_MS
    ? fault("[2]", `is a time that is still to come: ${createdAt}`)
    : undefined;
}

/** The row of files before another one. */
export interface FileBefore {
  readonly path: string;
  readonly born: number;
  readonly died: number | null;
}

type Attributed = { readonly parts?: { readonly sizes: readonly (readonly [number, number])[] } | undefined };

/**
 * Why a row of files can't come behind the one before it. `order`: that of its path and of the path before, negative if it
 * comes first. `attributes`: what the text in the row says.
 */
export function fileFault(
  [path, born, died, digest, size, , more]: ArchivedFile,
  {
    before,
    order,
    head,
    now,
    attributes,
  }: {
    readonly before: FileBefore;
    readonly order: number;
    readonly head: number;
    readonly now: number;
    readonly attributes: Attributed;
  },
): RowFault | undefined {
  if (order < 0 || (order === 0 && born <= before.born))
    return fault(
      "[0]",
      `'${path}', from commit ${born} on, must come after '${before.path}', from commit ${before.born} on`,
    );
  if (order === 0 && (before.died === null || before.died > born))
    return fault(
      "[1]",
      `must be ${before.died ?? head + 1} at least, not ${born}: till then '${path}' has something else`,
    );
  if (born > head) return fault("[1]", `must be ${head}, the newest commit, at most, not ${born}`);
  const isDeletion = more?.deletion === true;
  if (isDeletion ? died !== born : died !== null && (died <= born || died > head)) {
    const wanted = isDeletion ? `${born}, as it is a deletion alone` : `null, or from ${born + 1} to ${head}`;
    return fault("[2]", `must be ${wanted}, not ${died}`);
  }
  const isEmpty = isDeletion || path.endsWith("/");
  if (isEmpty && (digest !== EMPTY_DIGEST || size !== 0))
    return fault("[4]", `must be 0, with the digest of nothing, as '${path}' has no bytes, not ${size}`);
  return (
    moreFault([path, born, died, digest, size, null, more], now) ?? partsFault(path, { size, attributes })
  );
}

function moreFault([, born, died, , , , more]: ArchivedFile, now: number): RowFault | undefined {
  const { bytesAt, renewed, version, unmarked, deletion } = more ?? {};
  if (version !== undefined && (deletion || version >= born))
    return fault("[6].version", `must be a commit before ${born}, not ${version}`);
  if (unmarked && (died === null || deletion))
    return fault("[6].unmarked", "is true, though the row has no end that could be one");
  for (const [name, time] of Object.entries({ bytesAt, renewed })) {
    if (time !== undefined && time > now + ARCHIVE_AHEAD_MS)
      return fault(`[6].${name}`, `is a time that is still to come: ${time}`);
  }
  return undefined;
}

/** A read of a part takes its place from these sizes: wrong ones would end behind the file, or leave some of it out. */
function partsFault(
  path: string,
  { size, attributes: { parts } }: { size: number; attributes: Attributed },
): RowFault | undefined {
  if (!parts) return undefined;
  const together = parts.sizes.reduce((sum, [each, count]) => sum + BigInt(each) * BigInt(count), 0n);
  if (together === BigInt(size)) return undefined;
  return fault(
    "[5].parts.sizes",
    `must add up to the file's size: the parts of '${path}' have ${together} bytes together, and the file has ${size}`,
  );
}

/**
 * Which files are in the way of a path, as one goes through paths in order: those whose paths are its directories. It holds
 * no more than the files that the path begins with.
 */
export class FilesAbove {
  /** Each begins with the one before it. */
  readonly #files: string[] = [];

  /** `files`: those that are known already, of candidatesAbove(). */
  constructor(files: readonly string[] = []) {
    this.#files.push(...files);
  }

  /** Those that what comes may be below. */
  get files(): readonly string[] {
    return this.#files;
  }

  /** Goes on to a path. Returns the files that it would be below. */
  next(path: string): readonly string[] {
    for (
      let last = this.#files.at(-1);
      last !== undefined && !mayHold(last, path);
      last = this.#files.at(-1)
    ) {
      this.#files.pop();
    }
    const above = this.#files.filter((file) => path[file.length] === "/");
    if (!path.endsWith("/") && this.#files.at(-1) !== path) this.#files.push(path);
    return above;
  }
}

/** The paths of files that may have something below them behind a path in their order, the shortest first; the path itself is one. */
export function candidatesAbove(path: string): string[] {
  const found: string[] = [];
  for (let end = 1; end <= path.length; end++) {
    const file = path.slice(0, end);
    if (!file.endsWith("/") && mayHold(file, path)) found.push(file);
  }
  return found;
}

/** Whether what is below a file may come at a path or behind it: nothing does behind the byte after "/". */
function mayHold(file: string, path: string): boolean {
  return path.startsWith(file) && (path.length === file.length || path.charCodeAt(file.length) <= 0x2f);
}

/** What is below a file while the file is there. */
export function belowFile(
  path: string,
  { file, born, died }: { readonly file: string; readonly born: number; readonly died: number | null },
): RowFault {
  const until = died === null ? "on" : `up to ${died}`;
  return fault(
    "[0]",
    `'${path}' is below '${file}', which is a file at one of its commits, from ${born} ${until}`,
  );
}

function fault(part: string, message: string): RowFault {
  return { part, message };
}

import type { ArchivedCommit, ArchivedFile } from "../../../../protocol/archives.ts";
import type { Random } from "../../platform/random.ts";
import type { Archive } from "../archives.ts";
import { idOf } from "../bytes.ts";

/** An archive in which something does not fit together, so that it must be refused. */
export interface Damaged {
  readonly what: string;
  readonly archive: Archive;
}

type Damage = (archive: Archive) => Partial<Archive> | undefined;

const FAR = 1e15;
const LACKING_ID = "01K0000000000000000000000Z";

/** What may be wrong with an archive. Undefined: this one has not what it takes. */
const DAMAGES: Readonly<Record<string, Damage>> = {
  "one id twice": ({ commits }) => {
    const at = commits.findIndex(([seq], index) => commits[index + 1]?.[0] === seq + 1);
    const [one, two] = [commits[at], commits[at + 1]];
    if (!one || !two) return undefined;
    const [seq, , , ...others] = two;
    // A time is part of an id: these two have the same.
    return { commits: commits.with(at + 1, [seq, one[1], one[2], ...others]) };
  },
  "a commit that is lacking": ({ commits, branch: { floor } }) => {
    const at = commits.findIndex(([seq], index) => seq > Math.max(floor, 1) && index > 0);
    return at > 0 && at < commits.length - 1 ? { commits: commits.toSpliced(at, 1) } : undefined;
  },
  "its last commit lacking": ({ commits }) =>
    commits.length > 0 ? { commits: commits.slice(0, -1), files: [] } : undefined,
  "counts that go back": ({ commits }) => {
    const [last] = commits.slice(-1);
    if (!last || commits.length < 2) return undefined;
    const [seq, id, at, , , ...others] = last;
    return { commits: commits.with(-1, [seq, id, at, 0, 1, ...others]) };
  },
  "a time that goes back": ({ commits }) => {
    const [last] = commits.slice(-1);
    if (!last || commits.length < 2) return undefined;
    const [seq, id, , ...others] = last;
    return { commits: commits.with(-1, [seq, id, 1, ...others]) };
  },
  "more births than it counts": ({ commits }) => fewer(commits, 3),
  "more deaths than it counts": ({ commits }) => fewer(commits, 4),
  "one job twice": ({ commits }) => {
    if (commits.length < 2) return undefined;
    const ofJob = ([seq, id, at, births, deaths, , ...others]: ArchivedCommit): ArchivedCommit => [
      ...([seq, id, at, births, deaths, "job"] as const),
      ...others,
    ];
    return { commits: commits.map((commit, at) => (at < 2 ? ofJob(commit) : commit)) };
  },
  "one tag twice": ({ tags, commits }) => {
    const [last] = commits.slice(-1);
    const tag = tags[0] ?? (last && (["zz", last[1], 0] as const));
    return tag && { tags: [tag, tag, ...tags.slice(1)] };
  },
  "files out of order": ({ files }) => (files.length < 2 ? undefined : { files: files.toReversed() }),
  "a directory that has bytes": ({ files }) =>
    oneFile(files, ([, born, died, digest, , attributes, more]) => [
      ...(["a-directory/", born, died, digest, 1, attributes, more] as const),
    ]),
  "a file that ends with no commit": ({ files, commits }) => {
    const seqs = new Set(commits.map(([seq]) => seq));
    const lacking = commits.flatMap(([seq]) => (seq > 1 && !seqs.has(seq - 1) ? seq - 1 : []))[0];
    if (lacking === undefined) return undefined;
    const at = files.findIndex(([, born, , , , , more]) => born < lacking && !more?.deletion);
    const file = files[at];
    if (!file) return undefined;
    const [path, born, , ...others] = file;
    return { files: files.with(at, [path, born, lacking, ...others]) };
  },
  "a time to come": ({ branch }) => ({ branch: { ...branch, createdAt: FAR } }),
  "a floor above all": ({ branch }) => ({ branch: { ...branch, floor: branch.head + 1 } }),
  "a tag of no commit": ({ tags }) => ({ tags: [...tags, ["zz", LACKING_ID, 0]] }),
  "a tag that is still to come": ({ tags, commits }) => {
    const [last] = commits.slice(-1);
    return last && { tags: [...tags, ["zz", last[1], FAR]] };
  },
  "a file of no commit": ({ files, branch }) =>
    oneFile(files, ([path, , , ...others]) => [path, branch.head + 1, null, ...others]),
  "a file that ends before it begins": ({ files }) =>
    oneFile(files, ([path, born, , ...others]) => [path, born, born, ...others]),
  "a file that is lacking": ({ files }) => {
    const at = files.findIndex(([, , died, , , , more]) => died === null && !more?.deletion);
    return at < 0 ? undefined : { files: files.toSpliced(at, 1) };
  },
  "a file below a file": ({ files }) => {
    const at = files.findIndex(
      ([path, , died, , , , more]) => died === null && !more?.deletion && !path.endsWith("/"),
    );
    const file = files[at];
    if (!file) return undefined;
    const [path, ...others] = file;
    const below: ArchivedFile = [`${path}/below`, ...others];
    return { files: [...files, below].toSorted(([one], [other]) => (one < other ? -1 : 1)) };
  },
  "a version after its row": ({ files }) =>
    oneFile(files, ([path, born, died, digest, size, attributes]) => [
      path,
      born,
      died,
      digest,
      size,
      attributes,
      { version: born },
    ]),
  content: ({ files }) =>
    files.some(([path, , , , , , more]) => !more?.deletion && !path.endsWith("/")) ? {} : undefined,
  counts: () => ({}),
};

/** All that may be wrong, by its names. */
export const ARCHIVE_DAMAGES = Object.keys(DAMAGES);
/** It takes an archive that lacks commits, and in histories few do: tests of imports see to it. */
export const RARE_DAMAGE = "a file that ends with no commit";

/** Some of these, each damaged in another way that it has what it takes for. */
export function damaged(
  archives: readonly Archive[],
  { most, random }: { most: number; random: Random },
): Damaged[] {
  const left = new Set(ARCHIVE_DAMAGES);
  const all: Damaged[] = [];
  while (left.size > 0 && all.length < most) {
    const what = random.pick([...left]);
    left.delete(what);
    const found = archives.flatMap((archive) => {
      const change = DAMAGES[what]?.(archive);
      return change ? [{ ...archive, ...change }] : [];
    });
    if (found.length === 0) continue;
    const archive = random.pick(found);
    // What was damaged before its head is another branch to begin with.
    all.push({ what, archive: { ...archive, id: idOf(`${archive.id} ${what}`).digest } });
  }
  return all;
}

/** From the first commit on that counts more than the one before it, each counts one row less. */
function fewer(commits: readonly ArchivedCommit[], field: 3 | 4): Partial<Archive> | undefined {
  const from = commits.findIndex((commit, at) => commit[field] > (commits[at - 1]?.[field] ?? 0));
  const isMore = (commit: ArchivedCommit) => commit[3] - 1 < commit[4];
  if (from < 0 || (field === 3 && commits.slice(from).some(isMore))) return undefined;
  return {
    commits: commits.map((commit, at) =>
      at < from ? commit : commit.with(field, commit[field] - 1),
    ) as ArchivedCommit[],
  };
}

function oneFile(
  files: readonly ArchivedFile[],
  change: (file: ArchivedFile) => ArchivedFile,
): Pick<Archive, "files"> | undefined {
  const at = files.findIndex(([, , , , , , more]) => !more?.deletion);
  const file = files[at];
  return file && { files: files.with(at, change(file)) };
}

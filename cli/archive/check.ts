import {
  belowFile,
  branchFault,
  type CommitBefore,
  commitFault,
  FilesAbove,
  fileFault,
  type RowFault,
  tagFault,
} from "../../protocol/archive-rules.ts";
import {
  type ArchivedCommit,
  type ArchivedFile,
  SoundCommits,
  SoundFiles,
  SoundHead,
  SoundTags,
} from "../../protocol/archives.ts";
import type { ArchiveReader, BranchInArchive, PageEntry } from "./reader.ts";

/*
 * What a gateway would refuse of an archive, found without one: by the schemas of its rows (protocol/archives.ts) and by the
 * rules of how they fit together (protocol/archive-rules.ts), which the gateway goes by as well. It holds some numbers of each
 * commit, and of files the last ones on the way to where it reads. That no job made two commits the gateway alone finds out.
 */

/** Throws ArchiveDamagedError if a branch of an archive is none that a gateway could have written. `now`: the clock. */
export async function checkBranch(
  reader: ArchiveReader,
  { branch, pages, counts }: BranchInArchive,
  now: number,
): Promise<void> {
  const {
    name,
    head,
    floor: horizon,
  } = reader.parsed(SoundHead, `branches/${branch.name}/branch.json`, branch);
  const fault = branchFault(branch, now);
  if (fault) throw reader.misfit(`branches/${name}/branch.json: ${fault.path} ${fault.message}`);
  const check = new BranchCheck(reader, { head, horizon, now });
  // Tags are few, and say which of the many commits are looked for.
  for (const kind of ["tags", "commits", "files"] as const) {
    for (const entry of pages) if (entry.kind === kind) await check[kind](entry);
  }
  const found = check.end();
  for (const what of ["commits", "tags", "files"] as const) {
    if (found[what] === counts[what]) continue;
    throw reader.misfit(`the branch '${name}' has ${found[what]} ${what}, and its end says ${counts[what]}`);
  }
}

/** Life of a file, or lives that follow each other. */
interface Life {
  readonly born: number;
  readonly died: number | null;
}

class BranchCheck {
  readonly #reader: ArchiveReader;
  readonly #bounds: { readonly head: number; readonly horizon: number; readonly now: number };
  readonly #counts = { commits: 0, tags: 0, files: 0 };
  /** Commits that tags name, and the tags. */
  readonly #named = new Map<string, string>();
  #tag = "";
  #commit: CommitBefore | undefined;
  /** By number: what each commit says that was born and died at it, less what was found. */
  readonly #seqs: number[] = [];
  readonly #births: number[] = [];
  readonly #deaths: number[] = [];
  #alive = 0;
  #file: { path: string; born: number; died: number | null } = { path: "", born: 0, died: null };
  readonly #above = new FilesAbove();
  /** Of the files that what comes may be below. */
  readonly #lives = new Map<string, Life[]>();

  constructor(reader: ArchiveReader, bounds: { head: number; horizon: number; now: number }) {
    this.#reader = reader;
    this.#bounds = bounds;
  }

  async tags(entry: PageEntry): Promise<void> {
    const { tags } = await this.#reader.page(SoundTags, entry);
    for (const [index, tag] of tags.entries()) {
      const [name, commit] = tag;
      this.#refuse(entry, `tags[${index}]`, tagFault(tag, { before: this.#tag, now: this.#bounds.now }));
      this.#tag = name;
      this.#named.set(commit, name);
    }
    this.#counts.tags += tags.length;
  }

  async commits(entry: PageEntry): Promise<void> {
    const { commits } = await this.#reader.page(SoundCommits, entry);
    for (const [index, commit] of commits.entries()) {
      const fault = commitFault(commit, { ...this.#bounds, before: this.#commit });
      this.#refuse(entry, `commits[${index}]`, fault);
      this.#addCommit(commit);
    }
    this.#counts.commits += commits.length;
  }

  #addCommit([seq, id, createdAt, births, deaths, , , , , isGone]: ArchivedCommit): void {
    this.#seqs.push(seq);
    this.#births.push(births - (this.#commit?.births ?? 0));
    this.#deaths.push(deaths - (this.#commit?.deaths ?? 0));
    if (isGone === 0) this.#named.delete(id);
    this.#commit = { seq, id, createdAt, births, deaths };
  }

  async files(entry: PageEntry): Promise<void> {
    const { files } = await this.#reader.page(SoundFiles, entry);
    for (const [index, file] of files.entries()) {
      const [path] = file;
      const attributes = file[5] === null ? {} : JSON.parse(file[5]);
      const order = Buffer.compare(Buffer.from(path), Buffer.from(this.#file.path));
      const { head, now } = this.#bounds;
      const fault = fileFault(file, { before: this.#file, order, head, now, attributes });
      this.#refuse(entry, `files[${index}]`, fault ?? this.#countFault(file) ?? this.#conflict(file));
      this.#file = { path, born: file[1], died: file[2] };
    }
    this.#counts.files += files.length;
  }

  /** Throws for what is only known at the end. Returns how much there was. */
  end(): { readonly commits: number; readonly tags: number; readonly files: number } {
    const { head } = this.#bounds;
    const [lost] = this.#named;
    if (lost)
      throw this.#reader.misfit(`the tag '${lost[1]}' names a commit that is not there: '${lost[0]}'`);
    const { seq = 0, births = 0, deaths = 0 } = this.#commit ?? {};
    if (seq !== head) throw this.#reader.misfit(`its newest commit is ${seq}, and it says ${head}`);
    if (births - deaths !== this.#alive) {
      throw this.#reader.misfit(
        `its commits say that ${births - deaths} files and empty directories are there, and it has ${this.#alive}`,
      );
    }
    return this.#counts;
  }

  #countFault([, born, died, , , , more]: ArchivedFile): RowFault | undefined {
    const isRow = !more?.deletion;
    if (isRow && died === null) this.#alive++;
    const version = more?.version;
    if (version !== undefined && this.#placeOf(version) === undefined) return missing("[6].version", version);
    const at = this.#placeOf(born);
    if (at === undefined) return missing("[1]", born);
    if (isRow && takeOne(this.#births, at) < 0) return tooMany("[1]", { seq: born, did: "came" });
    if (died === null) return undefined;
    const end = this.#placeOf(died);
    if (end === undefined) return missing("[2]", died);
    return takeOne(this.#deaths, end) < 0 ? tooMany("[2]", { seq: died, did: "went" }) : undefined;
  }

  /** Where a commit is among the others; undefined if it is not there. */
  #placeOf(seq: number): number | undefined {
    let [low, high] = [0, this.#seqs.length];
    while (low < high) {
      const middle = (low + high) >>> 1;
      if ((this.#seqs[middle] ?? 0) < seq) low = middle + 1;
      else high = middle;
    }
    return this.#seqs[low] === seq ? low : undefined;
  }

  #conflict([path, born, died]: ArchivedFile): RowFault | undefined {
    for (const file of this.#above.next(path)) {
      const end = died ?? Number.POSITIVE_INFINITY;
      const life = this.#lives.get(file)?.findLast((each) => each.born < end);
      if (life && (life.died === null || life.died > born)) return belowFile(path, { file, ...life });
    }
    const open = this.#above.files;
    if (this.#lives.size > open.length) {
      const still = new Set(open);
      for (const file of this.#lives.keys()) if (!still.has(file)) this.#lives.delete(file);
    }
    if (path.endsWith("/")) return undefined;
    const lives = this.#lives.get(path) ?? [];
    const last = lives.at(-1);
    if (last?.died === born) lives[lives.length - 1] = { born: last.born, died };
    else lives.push({ born, died });
    this.#lives.set(path, lives);
    return undefined;
  }

  #refuse({ name }: PageEntry, row: string, fault: RowFault | undefined): void {
    if (fault) throw this.#reader.misfit(`${name}: ${row}${fault.part} ${fault.message}`);
  }
}

function missing(part: string, seq: number): RowFault {
  return { part, message: `is a commit that is not there: ${seq}` };
}

/** Returns what is left then. */
function takeOne(counts: number[], place: number): number {
  const left = (counts[place] ?? 0) - 1;
  counts[place] = left;
  return left;
}

function tooMany(part: string, { seq, did }: { seq: number; did: "came" | "went" }): RowFault {
  return { part, message: `is commit ${seq}, with which more rows ${did} than it says` };
}

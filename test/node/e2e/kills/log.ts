import { type Commit, CommitPage, DiffPage, type PathChange } from "../../../../protocol/commits.ts";
import { changed } from "../../../simulator/history/model.ts";
import { NOTHING } from "../../../simulator/history/states.ts";
import { Control } from "../../../support/control.ts";
import { inTurns } from "../../../support/in-turns.ts";
import type { Door } from "../../../support/keys.ts";
import { objectTarget, S3 } from "../../../support/s3.ts";
import { ERASED_FOLDER, type Life } from "./life.ts";

/**
 * Reads what the log of a branch has more since it was read last, and the bytes of each file that those commits wrote. Returns
 * what is wrong with it; `digestOf` throws if bytes are not those of one write.
 */
export async function readOn(door: Door, life: Life, digestOf: (bytes: Buffer) => string): Promise<string[]> {
  const reader = new LogReader(door, life, digestOf);
  await reader.read();
  return reader.faults;
}

class LogReader {
  readonly faults: string[] = [];
  readonly #control: Control;
  readonly #s3: S3;
  readonly #life: Life;
  readonly #digestOf: (bytes: Buffer) => string;

  constructor(door: Door, life: Life, digestOf: (bytes: Buffer) => string) {
    this.#control = new Control(door);
    this.#s3 = new S3(door);
    this.#life = life;
    this.#digestOf = digestOf;
  }

  async read(): Promise<void> {
    const { last, bucket } = this.#life;
    const commits = await this.#newCommits();
    const first = commits[0];
    if (first && first.parent !== last.commit)
      this.faults.push(
        `${bucket}: its log goes on with ${first.id} of ${first.parent}, not of ${last.commit}`,
      );
    const changes = new Map<string, readonly PathChange[]>();
    await inTurns(commits, async ({ id }) => {
      const all = await this.#changesOf(id);
      const kept = all.filter(({ path }) => !path.startsWith(ERASED_FOLDER));
      changes.set(id, kept);
      for (const change of kept) await this.#readFile(id, change);
    });
    for (const { id, message, job, createdAt } of commits) {
      const put = (changes.get(id) ?? []).map(({ path, after }) => [path, after?.digest ?? null] as const);
      const tree = changed(this.#life.last.tree, put);
      this.#life.add({ ...NOTHING, generation: 1, commit: id, message, origin: job, tree, at: createdAt });
    }
  }

  /** Oldest first. */
  async #newCommits(): Promise<Commit[]> {
    const known = this.#life.last.commit;
    const newestFirst: Commit[] = [];
    for (let after: string | null = ""; after !== null; ) {
      const from: string = after === "" ? "" : `&after=${after}`;
      const path = `${this.#life.path}/commits?limit=1000${from}`;
      const page: CommitPage = await this.#control.call("GET", path, { answers: CommitPage });
      const end = page.commits.findIndex(({ id }) => id === known);
      newestFirst.push(...(end < 0 ? page.commits : page.commits.slice(0, end)));
      after = end < 0 ? page.next : null;
    }
    return newestFirst.reverse();
  }

  async #changesOf(commit: string): Promise<PathChange[]> {
    const changes: PathChange[] = [];
    for (let after: string | null = ""; after !== null; ) {
      const path = `${this.#life.path}/commits/${commit}/diff?after=${encodeURIComponent(after)}`;
      const page: DiffPage = await this.#control.call("GET", path, { answers: DiffPage });
      changes.push(...page.changes);
      after = page.next;
    }
    return changes;
  }

  async #readFile(commit: string, { path, after }: PathChange): Promise<void> {
    if (after === null) return;
    const { bucket } = this.#life;
    const answer = await this.#s3.ask("GET", `${objectTarget(bucket, path)}?versionId=${commit}`);
    const where = `${bucket}: ${path} of ${commit}`;
    if (answer.status !== 200) {
      this.faults.push(`${where} is lost: ${answer.status} ${answer.text.slice(0, 300)}`);
      return;
    }
    try {
      const digest = this.#digestOf(answer.body);
      if (digest !== after.digest) this.faults.push(`${where} has ${digest}, not ${after.digest}`);
    } catch (error) {
      this.faults.push(`${where} is mixed: ${error}`);
    }
  }
}

/** The commits that a branch keeps, and all files of the newest one, byte for byte. Returns what is wrong. */
export async function readKept(
  door: Door,
  life: Life,
  digestOf: (bytes: Buffer) => string,
): Promise<string[]> {
  const { bucket, path, last } = life;
  const s3 = new S3(door);
  const faults: string[] = [];
  const { commits } = await new Control(door).call("GET", `${path}/commits?limit=1000`, {
    answers: CommitPage,
  });
  const trees = commits.flatMap(({ id }) => life.stateOf(id) ?? []);
  const files = new Map<string, { path: string; commit: string; digest: string }>();
  for (const { commit, tree } of [last, ...trees])
    for (const [file, digest] of tree)
      if (commit !== null) files.set(`${file} ${digest}`, { path: file, commit, digest });
  await inTurns([...files.values()], async (file) => {
    const target = `${objectTarget(bucket, file.path)}?versionId=${file.commit}`;
    const answer = await s3.ask("GET", target);
    const found = answer.status === 200 ? digestOf(answer.body) : `${answer.status} ${answer.text}`;
    if (found !== file.digest)
      faults.push(`${bucket}: ${file.path} of ${file.commit} is lost: ${found} instead of ${file.digest}`);
  });
  return faults;
}

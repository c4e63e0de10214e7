// @module-tag rest
import { evictDurableObject, runDurableObjectAlarm, runInDurableObject } from "cloudflare:test";
import { describe, expect, test } from "vitest";
import type { Keep } from "../../../worker/branch/contract/settings.ts";
import { expectRefsRight } from "./large-support.ts";
import { dayAfterTags, givenBack, horizonOf, tornCommits } from "./retention-support.ts";
import {
  type BranchStub,
  commitFiles,
  committed,
  freshBranch,
  inline,
  put,
  randomNumbers,
} from "./support.ts";

const STEPS = 120;
const PATHS = ["a", "b", "c/d", "c/e", "f"];

/** A commit as it must read for ever, or not at all. */
interface Made {
  readonly id: string;
  readonly seq: number;
  readonly tree: ReadonlyMap<string, string>;
}

/** Does random things to a branch, and knows the tree of each of its commits. */
class Play {
  readonly #branch: BranchStub;
  readonly #random: () => number;
  readonly #commits: Made[] = [];
  readonly #tags = new Map<string, string>();
  /** Commits whose tags went. */
  readonly #untagged = new Set<string>();
  readonly #roots = new Map<string, string>();
  readonly #openCommits = new Map<string, Made | undefined>();
  #need: number | undefined;
  #keep: Keep | null = null;
  #texts = 0;
  #horizon = 0;
  #boundBefore = 0;
  #checkedHorizon = 0;

  constructor(branch: BranchStub, seed: number) {
    this.#branch = branch;
    this.#random = randomNumbers(seed);
  }

  async step(): Promise<void> {
    const steps = [
      () => this.#put(),
      () => this.#put(),
      () => this.#put(),
      () => this.#several(),
      () => this.#tag(),
      () => this.#untag(),
      () => this.#dayAfterTags(),
      () => this.#fork(),
      () => this.#dropFork(),
      () => this.#begin(),
      () => this.#end(),
      () => this.#subscribe(),
      () => this.#tellNeed(),
      () => this.#setKeep(),
      () => this.#revert(),
      () => runDurableObjectAlarm(this.#branch),
      () => evictDurableObject(this.#branch),
    ];
    await this.#pick(steps)?.();
    await this.#check();
  }

  /** Once nothing is left to do, exactly what is needed is there. */
  async rest(): Promise<void> {
    await runDurableObjectAlarm(this.#branch);
    await givenBack(this.#branch);
    await this.#check();
    expect(this.#horizon).toBeGreaterThanOrEqual(this.#bound);
    await this.#checkVersions();
    const versions = new Set<string>();
    for (const { seq, tree } of this.#commits) {
      if (!this.#isKept(seq)) continue;
      for (const [path, text] of tree) versions.add(`${path} ${this.#lifeOf(path, text, seq)}`);
    }
    const rows = await runInDurableObject(this.#branch, (_, { storage: { sql } }) =>
      sql
        .exec("SELECT path, born FROM files")
        .toArray()
        .map(({ path, born }) => `${path} ${born}`),
    );
    expect(rows.sort()).toEqual([...versions].sort());
    await expectRefsRight(this.#branch);
  }

  /** The commit at which the row was born that a commit has at a path. */
  #lifeOf(path: string, text: string, seq: number): number {
    let born = seq;
    while (this.#commits[born - 2]?.tree.get(path) === text) born--;
    return born;
  }

  #named(): Set<string | undefined> {
    return new Set([
      ...this.#tags.values(),
      ...this.#untagged,
      ...this.#roots.values(),
      ...[...this.#openCommits.values()].map((base) => base?.id),
    ]);
  }

  #isKept(seq: number): boolean {
    return seq >= this.#horizon || this.#named().has(this.#commits[seq - 1]?.id);
  }

  /** The highest that the horizon may be. */
  get #bound(): number {
    const asked = this.#keep?.commits === undefined ? 0 : this.#commits.length - this.#keep.commits + 1;
    return Math.min(asked, this.#need ?? asked);
  }

  /** Each commit that is kept reads as it was made, and no other reads at all. The horizon is no higher than it may be. */
  async #check(): Promise<void> {
    const before = this.#checkedHorizon;
    // A round is not waited for: what it raised while this looked is looked at again.
    do {
      this.#horizon = await horizonOf(this.#branch);
      await this.#checkReads();
    } while ((await horizonOf(this.#branch)) !== this.#horizon);
    expect(await tornCommits(this.#branch)).toEqual([]);
    const bound = this.#bound;
    // It may have risen before the step was done.
    if (this.#horizon > before) expect(this.#horizon).toBeLessThanOrEqual(Math.max(bound, this.#boundBefore));
    this.#boundBefore = bound;
    this.#checkedHorizon = this.#horizon;
  }

  async #checkReads(): Promise<void> {
    const found = await this.#readAll();
    if ((await horizonOf(this.#branch)) !== this.#horizon) return;
    for (const { seq, tree } of this.#commits) {
      const wanted = this.#isKept(seq)
        ? [...tree].map(([path, text]) => `${path} ${inline(text).digest}`).sort()
        : "no-such-version";
      expect(found.get(seq), `commit ${seq}`).toEqual(wanted);
    }
  }

  async #readAll(): Promise<Map<number, readonly string[] | string>> {
    const found = new Map<number, readonly string[] | string>();
    for (const { id, seq, tree } of this.#commits) {
      const page = await this.#branch.files.list({ prefix: "", limit: 100, commit: id });
      found.set(
        seq,
        page.ok
          ? page.entries.map((entry) => `${entry.path} ${"digest" in entry && entry.digest}`)
          : page.reason,
      );
      const [path] = tree.keys();
      if (path !== undefined && this.#named().has(id)) {
        expect((await this.#branch.files.read({ path, commit: id })).ok).toBe(true);
      }
    }
    return found;
  }

  /** Every version that is listed is read by the id that the list names it by; a deletion says that it is one. */
  async #checkVersions(): Promise<void> {
    const versions = await this.#branch.files.versions({ prefix: "", limit: 1000 });
    for (const entry of versions.ok ? versions.entries : []) {
      if (entry.kind === "prefix") continue;
      const read = await this.#branch.files.read({ path: entry.path, commit: entry.version });
      expect(read).toMatchObject(
        entry.kind === "version"
          ? { ok: true, digest: entry.digest }
          : { reason: "is-deletion", commit: entry.version, deletedAt: entry.modifiedAt },
      );
    }
  }

  #committed(id: string | null, tree: ReadonlyMap<string, string>): void {
    if (id !== null) this.#commits.push({ id, seq: this.#commits.length + 1, tree });
  }

  get #head(): ReadonlyMap<string, string> {
    return this.#commits.at(-1)?.tree ?? new Map();
  }

  async #put(): Promise<void> {
    const path = this.#pick(PATHS) ?? "a";
    const text = `text ${this.#texts++}`;
    this.#committed(await put(this.#branch, path, text), new Map([...this.#head, [path, text]]));
  }

  async #several(): Promise<void> {
    const tree = new Map(this.#head);
    const puts: Record<string, string> = {};
    const deletes: string[] = [];
    for (const path of PATHS) {
      const kind = this.#random();
      if (kind < 0.3) {
        puts[path] = `text ${this.#texts++}`;
        tree.set(path, puts[path]);
      } else if (kind < 0.6 && tree.delete(path)) deletes.push(path);
    }
    this.#committed(committed(await commitFiles(this.#branch, { puts, deletes })), tree);
  }

  async #tag(): Promise<void> {
    const commit = this.#pick(this.#commits);
    const name = this.#pick(["v1", "v2", "v3"]) ?? "v1";
    if (!commit) return;
    const made = await this.#branch.tags.create({ name, commit: commit.id, force: true });
    const before = this.#tags.get(name);
    if (made.ok && before !== undefined && before !== commit.id) this.#untagged.add(before);
    if (made.ok) this.#tags.set(name, commit.id);
    await this.#expectKept(commit, made.ok);
  }

  async #untag(): Promise<void> {
    const name = this.#pick([...this.#tags.keys()]);
    if (name === undefined) return;
    await this.#branch.tags.delete({ name });
    this.#untagged.add(this.#tags.get(name) ?? "");
    this.#tags.delete(name);
  }

  async #dayAfterTags(): Promise<void> {
    await dayAfterTags(this.#branch);
    this.#untagged.clear();
  }

  async #fork(): Promise<void> {
    const commit = this.#pick(this.#commits);
    if (!commit) return;
    const fork = `fork ${this.#texts++}`;
    const rooted = await this.#branch.forks.addRoot({ fork, bucket: "fork.repo", commit: commit.id });
    if (rooted.ok) this.#roots.set(fork, commit.id);
    await this.#expectKept(commit, rooted.ok);
  }

  /** Whether a call found the commit is whether it is kept, and what has a name is. */
  async #expectKept({ seq }: Made, found: boolean): Promise<void> {
    this.#horizon = await horizonOf(this.#branch);
    expect(found).toBe(this.#isKept(seq));
  }

  async #dropFork(): Promise<void> {
    const fork = this.#pick([...this.#roots.keys()]);
    if (fork === undefined) return;
    await this.#branch.forks.dropRoot({ fork });
    this.#roots.delete(fork);
  }

  async #begin(): Promise<void> {
    const opened = await this.#branch.openCommits.start({ ttlMs: 1e9 });
    if (opened.ok) this.#openCommits.set(opened.openCommit, this.#commits.at(-1));
  }

  async #end(): Promise<void> {
    const openCommit = this.#pick([...this.#openCommits.keys()]);
    if (openCommit === undefined) return;
    if (this.#random() < 0.5) await this.#branch.openCommits.abort({ openCommit });
    else {
      const text = `text ${this.#texts++}`;
      await this.#branch.files.put({ openCommit, path: "f", content: inline(text), attributes: {} });
      const end = await this.#branch.openCommits.finish({ openCommit });
      if (!end.ok || end.state !== "finished") throw new Error(JSON.stringify(end));
      this.#committed(end.commit, new Map([...this.#head, ["f", text]]));
    }
    this.#openCommits.delete(openCommit);
  }

  async #subscribe(): Promise<void> {
    if (this.#need === undefined) {
      const { cursor } = await this.#branch.feed.subscribe({ uid: "u", pipeline: "p", starts: [] });
      this.#need = cursor.seq;
    } else if (this.#random() < 0.3) {
      await this.#branch.feed.unsubscribe({ uid: "u" });
      this.#need = undefined;
    }
  }

  async #tellNeed(): Promise<void> {
    if (this.#need === undefined) return;
    const ahead = this.#commits.length - this.#need;
    this.#need += Math.floor(this.#random() * (ahead + 1));
    await this.#branch.feed.setMark({ uid: "u", generation: 1, seq: this.#need, job: null, starts: [] });
  }

  async #setKeep(): Promise<void> {
    const commits = this.#pick([1, 2, 5, 12]) ?? 1;
    this.#keep = this.#random() < 0.2 ? null : { commits };
    // A round may begin at once, under what is set.
    await this.#branch.settings.change({ keep: this.#keep });
  }

  async #revert(): Promise<void> {
    const target = this.#pick(this.#commits);
    if (!target) return;
    const begun = await this.#branch.openCommits.revert({ commit: target.id });
    if (!begun.ok) return await this.#expectKept(target, false);
    const { openCommit } = begun;
    for (;;) {
      const end = await this.#branch.openCommits.finish({ openCommit });
      if (!end.ok) throw new Error(JSON.stringify(end));
      if (end.state === "finished") return this.#committed(end.commit, target.tree);
    }
  }

  #pick<T>(items: readonly T[]): T | undefined {
    return items[Math.floor(this.#random() * items.length)];
  }
}

describe("whatever is written, named and given back,", () => {
  for (const seed of [1, 2, 3, 4]) {
    test(`each commit that is kept reads as it was made, and no row is left of the others (seed ${seed})`, async () => {
      const branch = await freshBranch();
      const play = new Play(branch, seed);
      for (let n = 0; n < STEPS; n++) {
        await play.step();
        if (n % 20 === 19) await play.rest();
      }
    });
  }
});

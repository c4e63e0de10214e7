import {
  type ArchivedCommit,
  type ArchivedFile,
  type ArchivedTag,
  EXPORT_LEASE_MS,
  type FilePlace,
} from "../../../../protocol/archives.ts";
import type { RequestOf } from "../../../../worker/branch/contract/answers.ts";
import type { ExportCalls } from "../../../../worker/branch/contract/archives.ts";
import { type Archive, exportFaults } from "../archives.ts";
import { askAside, refusedAside, type Said } from "../asides.ts";
import { digestOf, idOf } from "../bytes.ts";
import { textOfBody } from "../end.ts";
import { insisted } from "../mishaps.ts";
import type { Kind, Stage, Turn } from "../stage.ts";
import { ERASURE_KINDS } from "./erasures.ts";
import { LOG_KINDS } from "./log.ts";

/** Branches with their history, read in pages. Whoever reads may go away, or be gone for a while, at any page. */
export const EXPORT_KINDS = { export: { weight: 4, take: exportOne } } satisfies Record<string, Kind>;

/** A page that is read so soon after the last one does not prolong an export; milliseconds. */
const RENEWED_MS = 60_000;

async function exportOne(stage: Stage, turn: Turn): Promise<void> {
  const { id, bucket } = turn;
  const from = stage.stamp();
  const askedAt = stage.simulation.world.forwardClock;
  const begun = await askAside(
    stage,
    { id, bucket, text: `export ${id}` },
    { call: () => stage.branch(bucket).exports.begin(), saidOf: begunSaid },
  );
  if (!begun?.ok) return;
  const archive = await new Reading(stage, turn, {
    ...{ ...begun, askedAt },
    begun: [from, stage.stamp()],
  }).all();
  if (!archive) return;
  stage.wrong.push(...exportFaults(stage, archive));
  stage.archives.push(archive);
}

type Begun = Awaited<ReturnType<ExportCalls["begin"]>>;

/** `askedAt`: by the clock as if it had never been set back. */
type ReadingBegun = Extract<Begun, { ok: true }> & Pick<Archive, "begun"> & { readonly askedAt: number };

function begunSaid(answer: Begun): Said {
  if (!answer.ok) return refusedAside(answer);
  const { head, floor } = answer.branch;
  return {
    kind: "saw",
    what: `export of ${head} commits`,
    of: (facts) => facts.generation !== null && facts.head === head && facts.horizon === floor,
  };
}

/** An export that is under way: it ends only if its branch does, if something of it is taken out for good, or if nothing is read. */
class Reading {
  readonly #stage: Stage;
  readonly #turn: Turn;
  readonly #begun: ReadingBegun;
  readonly #calls: ExportCalls;
  readonly #generations: ReadonlySet<number | null>;
  /** Digests of contents that were read. */
  readonly #read = new Set<string>();
  #lastAt: number;
  #rests = 0;

  constructor(stage: Stage, turn: Turn, begun: ReadingBegun) {
    this.#stage = stage;
    this.#turn = turn;
    this.#begun = begun;
    this.#calls = stage.branch(turn.bucket).exports;
    // Of a branch that is no more nothing is read.
    const moments = stage.facts.get(turn.bucket)?.between(...begun.begun) ?? [];
    this.#generations = new Set(moments.flatMap(({ generation }) => generation ?? []));
    this.#lastAt = begun.askedAt;
  }

  /** Undefined: it was given up, or has ended. */
  async all(): Promise<Archive | undefined> {
    const { random, id, bucket } = this.#turn;
    const { export: name, branch, begun } = this.#begun;
    const commits = await this.#commits();
    if (!commits || random.chance(0.1)) return undefined;
    await this.#rest();
    const from = this.#stage.stamp();
    const tags = await this.#tags();
    const tagged = [from, this.#stage.stamp()] as const;
    await this.#rest();
    const files = tags && (await this.#files());
    // What was erased since the last page was read is in what was read otherwise.
    const checkedAt = this.#stage.stamp();
    if (!files || !(await this.#page(() => this.#calls.commits({ export: name, after: branch.head }))))
      return undefined;
    await insisted(() => this.#calls.end({ export: name }).then(() => true));
    const generation = this.#generationOf(commits);
    return {
      id: idOf(`${bucket} ${id}`).digest,
      bucket,
      generation,
      branch,
      commits,
      tags,
      files,
      begun,
      tagged,
      checkedAt,
    };
  }

  async #commits(): Promise<ArchivedCommit[] | undefined> {
    const all: ArchivedCommit[] = [];
    for (let after: number | null = 0; after !== null; ) {
      const request: RequestOf<ExportCalls["commits"]> = { export: this.#begun.export, after };
      const page: Answer<"commits"> = await this.#page(() => this.#calls.commits(request));
      if (!page) return undefined;
      all.push(...page.commits);
      after = page.next;
    }
    return all;
  }

  async #tags(): Promise<ArchivedTag[] | undefined> {
    const all: ArchivedTag[] = [];
    for (let after: string | null = ""; after !== null; ) {
      const request: RequestOf<ExportCalls["tags"]> = { export: this.#begun.export, after };
      const page: Answer<"tags"> = await this.#page(() => this.#calls.tags(request));
      if (!page) return undefined;
      all.push(...page.tags);
      after = page.next;
    }
    return all;
  }

  async #files(): Promise<ArchivedFile[] | undefined> {
    const all: ArchivedFile[] = [];
    for (let after: FilePlace | null = { path: "", born: 0 }; after !== null; ) {
      const request: RequestOf<ExportCalls["files"]> = { export: this.#begun.export, after };
      const page: Answer<"files"> = await this.#page(() => this.#calls.files(request));
      if (!page) return undefined;
      for (const { digest, bytes } of page.contents) {
        this.#read.add(digest);
        if (digestOf(new TextDecoder().decode(bytes)) !== digest)
          this.#wrong(`has other bytes for ${digest}`);
      }
      if (!(await this.#contents(page.files))) return undefined;
      all.push(...page.files);
      after = page.next;
    }
    return all;
  }

  /** Reads contents that are not in a page, byte for byte. Answers whether all are there. */
  async #contents(files: readonly ArchivedFile[]): Promise<boolean> {
    for (const [path, , , digest, size, , more] of files) {
      if (path.endsWith("/") || more?.deletion || this.#read.has(digest)) continue;
      this.#read.add(digest);
      const answer = await insisted(() =>
        this.#stage.branch(this.#turn.bucket).files.content({ digest, size }),
      );
      if (!answer) return false;
      if (answer.ok && digestOf(textOfBody(this.#stage, answer.body)) === digest) continue;
      if (!this.#mayHaveEnded()) this.#wrong(`has ${digest}, whose bytes are not there`);
      return false;
    }
    return true;
  }

  async #page<T extends { readonly ok: boolean }>(
    call: () => Promise<T>,
  ): Promise<Extract<T, { ok: true }> | undefined> {
    const askedAt = this.#stage.simulation.world.forwardClock;
    const answer = await insisted(call);
    if (answer === undefined) return undefined;
    if (answer.ok) {
      this.#lastAt = askedAt;
      return answer as Extract<T, { ok: true }>;
    }
    if (!this.#mayHaveEnded()) this.#wrong("ended by itself");
    return undefined;
  }

  #wrong(what: string): void {
    this.#stage.wrong.push(`${this.#turn.bucket}: export ${this.#turn.id} ${what}`);
  }

  #mayHaveEnded(): boolean {
    const { facts, erased, redacted, simulation } = this.#stage;
    const isOver = !this.#generations.has(facts.get(this.#turn.bucket)?.last.generation ?? null);
    const isLate = simulation.world.forwardClock >= this.#lastAt + EXPORT_LEASE_MS - RENEWED_MS;
    return isOver || isLate || erased.length > 0 || redacted.length > 0;
  }

  /** Between two pages something may be taken out of the branch, or nobody reads for a while. */
  async #rest(): Promise<void> {
    const { random, id } = this.#turn;
    if (random.chance(0.1)) {
      const take = random.pick([LOG_KINDS.redact, ERASURE_KINDS.erase]).take;
      await take(this.#stage, { ...this.#turn, id: `${id}.out.${this.#rests++}` });
    }
    if (random.chance(0.05)) await scheduler.wait(random.chance(0.5) ? 2 * RENEWED_MS : EXPORT_LEASE_MS + 1);
  }

  #generationOf(commits: readonly ArchivedCommit[]): number {
    const ids = new Set<string | null>(commits.map(([, commit]) => commit));
    const states = this.#stage.observers.get(this.#turn.bucket)?.states ?? [];
    const isOne = ({ commit, generation }: (typeof states)[number]) =>
      ids.has(commit) && this.#generations.has(generation);
    return states.findLast(isOne)?.generation ?? [...this.#generations].at(-1) ?? 0;
  }
}

/** A page of an export, if one came. */
type Answer<Call extends "commits" | "tags" | "files"> =
  | Extract<Awaited<ReturnType<ExportCalls[Call]>>, { ok: true }>
  | undefined;

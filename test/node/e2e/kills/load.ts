import { setTimeout as pause } from "node:timers/promises";
import type { State } from "../../../simulator/history/states.ts";
import { isGone } from "../../../support/http.ts";
import type { Door } from "../../../support/keys.ts";
import { S3 } from "../../../support/s3.ts";
import { Client } from "./client.ts";
import { type Content, numbered } from "./contents.ts";
import type { Gate } from "./gate.ts";
import { type History, Unexpected } from "./history.ts";
import { Life } from "./life.ts";

export const REPO = "kills";
/** Commits that a branch keeps, and most that clients ask for until its log is read; erasures make some more. */
export const KEPT = 120;
const MOST_COMMITS = 90;
/** In a row, in a blob, and now and then in three chunks. */
const SIZES = [900, 60_000] as const;
const CHUNKED = 9_000_000;
/** Contents that several clients write, and that go with erasures meanwhile. */
const SHARED = 5;
const SHARED_SIZE = 5000;
/** Longest pause of a client between two steps; milliseconds. */
const PAUSE_MS = 60;

/** What a client does again and again. */
export type Work = (load: Load) => Promise<void>;

/** An open commit that nobody has ended. */
export interface OpenCommit {
  readonly life: Life;
  readonly session: string;
  readonly bucket: string;
  /** What was put into it, for sure or maybe. */
  readonly staged: Map<string, Content>;
}

/** A name that goes for good, with all of its versions. */
export interface Erasing {
  readonly life: Life;
  readonly key: string;
}

/** Clients side by side against a gateway that dies under them. */
export class Load {
  readonly history: History;
  readonly client: Client;
  readonly gate: Gate;
  readonly random: () => number;
  readonly door: Door;
  /** Open commits that nobody has ended yet: whoever comes next goes on with one. */
  readonly openCommits: OpenCommit[] = [];
  /** Names that are to be erased, and have not been for sure. */
  readonly erasing: Erasing[] = [];
  readonly erased: Erasing[] = [];
  /** The fork that nobody writes to any more, so that it may go; undefined: none is. */
  retiring: Life | undefined;
  /** A fork whose creation was not answered. */
  forking: { readonly branch: string; readonly from: Life; readonly state: State } | undefined;
  /** What the tag may name: the last that was answered, and what was asked for since. Undefined: there is no tag. */
  tagged: (State | undefined)[] = [undefined];
  readonly #works: readonly Work[];
  #contents = SHARED;

  constructor(
    door: Door,
    options: { gate: Gate; random: () => number; history: History; works: readonly Work[] },
  ) {
    const { gate, random, history, works } = options;
    this.history = history;
    this.door = door;
    this.gate = gate;
    this.random = random;
    this.client = new Client(door, gate);
    this.#works = works;
  }

  async begin(): Promise<void> {
    await new S3(this.door).createBucket(`master.${REPO}`);
    await this.add(new Life({ repo: REPO, branch: "master" }, { mostCommits: MOST_COMMITS }));
  }

  /** A branch that is there from now on. */
  async add(life: Life): Promise<void> {
    await this.client.until(() =>
      this.client.control("PUT", `${life.path}/keep`, { keep: { commits: KEPT } }),
    );
    this.history.lives.set(life.bucket, life);
  }

  /** A branch that was just made from a state of another one. */
  async addFork(branch: string, { tree }: State): Promise<void> {
    await this.add(new Life({ repo: REPO, branch }, { from: tree, mostCommits: MOST_COMMITS / 2 }));
  }

  /** All clients work until they are to end. */
  async run(): Promise<void> {
    await Promise.all(this.#works.map((work) => this.#untilOver(work)));
  }

  /** A branch that clients write to. */
  branch(): Life {
    const { lives } = this.history;
    const open = [...lives.values()].filter((life) => life.repo === REPO && life !== this.retiring);
    return this.random() < 0.5 ? this.master : this.oneOf(open);
  }

  get master(): Life {
    const master = this.history.lives.get(`master.${REPO}`);
    if (!master) throw new Error("there is no branch yet");
    return master;
  }

  /** A content that nobody else writes, or now and then one that others write, too. */
  content(): Content {
    const at = this.random();
    if (at < 0.2) return this.shared();
    return numbered(this.#contents++, at < 0.22 ? CHUNKED : this.oneOf(SIZES));
  }

  /** A content of its own. */
  ownContent(size: number): Content {
    return numbered(this.#contents++, size);
  }

  shared(): Content {
    return numbered(Math.floor(this.random() * SHARED), SHARED_SIZE);
  }

  oneOf<T>(items: readonly T[]): T {
    const item = items[Math.floor(this.random() * items.length)];
    if (item === undefined) throw new Error("there is nothing to choose from");
    return item;
  }

  async #untilOver(work: Work): Promise<void> {
    while (await this.gate.passes()) {
      try {
        await work(this);
      } catch (error) {
        if (error instanceof Unexpected) this.history.faults.push(error.message);
        else if (!isGone(error)) throw error;
      }
      await pause(this.random() * PAUSE_MS);
    }
  }
}

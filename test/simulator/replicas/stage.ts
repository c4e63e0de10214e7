import { type Answer, faultsOf, type Taken, UNKNOWN } from "../history/model.ts";
import { momentsOf } from "../history/moments.ts";
import { NOTHING, type State } from "../history/states.ts";
import { World } from "../platform/world.ts";
import { Branch, type Disk, type Version } from "./branch.ts";
import type { Guards } from "./guards.ts";
import { DRIFT, LEASE_MS, RENEW_MS } from "./messages.ts";
import { Replica } from "./replica.ts";

export const BUCKET = "master.numbers";
const REPLICAS = ["Sydney", "Warsaw"];

/** How long a disk takes at most, unless it is slow now and then; milliseconds. */
const DISK_MS = 20;
const SLOW_DISK_MS = 1_000;
/** How long a client waits for an answer. */
const PATIENCE_MS = 14_000;
/** What a message takes at most if nothing is wrong with the net. */
const SOON_MS = 60;
/** What a version takes at most to be shown after the disk had it: the longest lease, and a little for all else. */
const LONGEST_MS = (LEASE_MS * (1 + DRIFT)) / (1 - DRIFT) ** 2 + 2 * SLOW_DISK_MS;
/** If nothing but withdrawals is lost: until each holder asked again, heard what it missed, and said so. */
const LONGEST_OF_DEAF_MS = RENEW_MS / (1 - DRIFT) + 2 * SLOW_DISK_MS;

// What was promised beside linearizability, and is not so.
export const SLOW = "a change was shown later than leases and messages explain";
export const STUCK = "something is never shown, or never answered";
export const MISCOUNTED = "reads at a replica are not counted, or twice";

const EMPTY: Disk = {
  version: { id: "", generation: null, seq: 0, tree: new Map() },
  holders: new Map(),
  reads: new Map(),
};

/** What goes wrong with messages. */
interface Net {
  readonly loss: number;
  readonly twice: number;
  /** How often a message is late, and by how much at most. */
  readonly late: number;
  readonly lateMs: number;
  /** Withdrawals are lost, and nothing else is wrong. */
  readonly isDeaf: boolean;
}

const GOOD: Net = { loss: 0, twice: 0, late: 0, lateMs: 0, isDeaf: false };

interface Machine {
  /** How fast its clock and timers go. */
  readonly rate: number;
  aheadMs: number;
}

interface Site {
  readonly name: string;
  machine: Machine;
  replica: Replica;
  /** An instance that has another one in its place, and does not know. */
  lingering: Replica | undefined;
  isCutOff: boolean;
}

/** A branch with its replicas, what is between them and whoever asks, and all that was asked and answered. */
export class Stage {
  readonly world: World;
  readonly guards: Guards;
  readonly broken = new Set<string>();
  readonly counts = new Map<string, number>();
  readonly #taken: Taken[] = [];
  readonly #states: State[] = [NOTHING];
  readonly #sites: Site[];
  #net: Net;
  /** Every start of a replica, and those that have ended. */
  readonly #all: Replica[] = [];
  readonly #ended = new Set<Replica>();
  #branch!: Branch;
  #branchMachine: Machine;
  #disk = EMPTY;
  readonly #lane = {};
  /** What the disk had, for restores. */
  readonly #earlier: Disk[] = [];
  #pending: ((disk: Disk) => Disk)[] = [];
  #instances = 0;
  #ids = 0;
  #moments = 0;

  constructor({ seed, isCalm, guards }: { seed: number; isCalm: boolean; guards: Guards }) {
    this.world = new World({ seed, now: 0 });
    this.guards = guards;
    this.#net = isCalm ? GOOD : this.#someNet();
    this.#branchMachine = this.#machine();
    this.#sites = REPLICAS.map((name) => {
      const machine = this.#machine();
      return { name, machine, replica: this.#started(name, machine), lingering: undefined, isCutOff: false };
    });
    this.#startBranch();
  }

  /** Nothing but withdrawals is lost, and nobody ends. */
  get isDeaf(): boolean {
    return this.#net.isDeaf;
  }

  get disk(): Disk {
    return this.#disk;
  }

  get branch(): Branch {
    return this.#branch;
  }

  get sites(): readonly Site[] {
    return this.#sites;
  }

  count(what: string): void {
    this.counts.set(what, (this.counts.get(what) ?? 0) + 1);
  }

  moment(): number {
    return ++this.#moments;
  }

  /** The replica that somebody reaches who asks for it by its name. */
  reached(site: Site): Replica {
    return site.lingering && this.world.random.chance(0.4) ? site.lingering : site.replica;
  }

  /**
   * Somebody asks. `ask` begins it, and says later what came of it, if anything does. `done` is called in any case: with the
   * answer, or when whoever asked waits no longer.
   */
  ask(
    asked: { readonly id: string; readonly text: string; readonly leads?: Taken["leads"] },
    { ask, done }: { ask: (answer: (answer: Answer) => void) => void; done: () => void },
  ): void {
    const { id, text, leads } = asked;
    const begun = this.moment();
    let isOver = false;
    const end = (answer: Answer) => {
      if (isOver) return;
      isOver = true;
      const ended = answer === UNKNOWN ? Number.POSITIVE_INFINITY : this.moment();
      this.#taken.push({ id, bucket: BUCKET, text, begun, ended, answer, ...(leads && { leads }) });
      done();
    };
    this.world.after(PATIENCE_MS, () => end(UNKNOWN));
    this.world.after(this.#soon(), () => ask((answer) => this.world.after(this.#soon(), () => end(answer))));
  }

  newId(of: string): string {
    return `${of} ${++this.#ids}`;
  }

  // What goes wrong.

  endBranch(): void {
    this.count("branch ended");
    const written = this.world.random.below(this.#pending.length + 1);
    for (const change of this.#pending.slice(0, written)) this.#apply(change);
    this.#startBranch();
  }

  endReplica(site: Site): void {
    this.count("replica ended");
    const old = site.replica;
    if (site.lingering) this.#ended.add(site.lingering);
    site.lingering = undefined;
    site.replica = this.#started(site.name, site.machine);
    if (this.world.random.chance(0.3)) {
      this.#ended.add(old);
      return;
    }
    site.lingering = old;
    this.world.after(this.world.random.below(3 * LEASE_MS), () => {
      this.#ended.add(old);
      if (site.lingering === old) site.lingering = undefined;
    });
  }

  cutOff(site: Site): void {
    this.count("replica cut off");
    site.isCutOff = true;
    this.world.after(this.world.random.below(2.5 * LEASE_MS), () => {
      site.isCutOff = false;
    });
  }

  setClockBack(site: Site): void {
    this.count("clock set back");
    site.machine.aheadMs -= 60 * 60_000;
  }

  setClockForward(): void {
    this.count("clock set forward");
    this.#branch.clockJumped();
  }

  /** The branch becomes what it was at some earlier time, with all that its disk had then. Says of what it is to be made. */
  restore(id: string, done: () => void): void {
    const earlier = this.#earlier.length > 0 ? this.world.random.pick(this.#earlier) : undefined;
    if (!earlier) return;
    const branch = this.#branch;
    branch.close(() => {
      if (this.#branch !== branch) return;
      this.count("branch restored");
      for (const change of this.#pending) this.#apply(change);
      this.#apply(() => ({ ...earlier, version: { ...earlier.version, id } }));
      this.#startBranch();
      done();
    });
  }

  /** From now on nothing goes wrong. */
  calm(): void {
    this.#net = GOOD;
    for (const site of this.#sites) {
      site.isCutOff = false;
      if (site.lingering) this.#ended.add(site.lingering);
      site.lingering = undefined;
    }
  }

  /** What is wrong with all that was asked and answered, once nothing went wrong for a while. */
  faults(): string[] {
    if (!this.#branch.isSettled) this.broken.add(STUCK);
    for (const replica of this.#all) {
      const { start, count } = replica.reads;
      const counted = this.#disk.reads.get(start) ?? 0;
      const isRight = this.#ended.has(replica) ? counted <= count : counted === count;
      if (!isRight) this.broken.add(MISCOUNTED);
    }
    const moments = momentsOf(this.#states, this.#taken, { isWithReads: true });
    return [...moments.faults, ...faultsOf(this.#taken, new Map([[BUCKET, moments]])), ...this.broken];
  }

  get taken(): readonly Taken[] {
    return this.#taken;
  }

  /** A pipeline hears that there is a version: from then on there is that one, or a later one. */
  #heardOf(id: string): void {
    const placeOf = (version: string) => this.#states.findIndex(({ commit }) => (commit ?? "") === version);
    const of = ({ commit }: State) => placeOf(id) >= 0 && placeOf(commit ?? "") >= placeOf(id);
    this.#taken.push({
      id: this.newId("wake-up"),
      bucket: BUCKET,
      text: "wake-up",
      begun: this.moment(),
      ended: this.moment(),
      answer: { kind: "saw", what: id, of },
    });
  }

  #someNet(): Net {
    const { random } = this.world;
    if (random.chance(0.15)) return { ...GOOD, isDeaf: true };
    return {
      loss: random.pick([0, 0.05, 0.2]),
      twice: random.pick([0, 0.1]),
      late: random.pick([0, 0.1, 0.3]),
      lateMs: random.pick([1_000, LEASE_MS, 2 * LEASE_MS]),
      isDeaf: false,
    };
  }

  #machine(): Machine {
    return { rate: 1 + DRIFT * this.world.random.pick([-1, 1]), aheadMs: 0 };
  }

  #soon(): number {
    return 1 + this.world.random.next() * (SOON_MS - 1);
  }

  /** A message between the branch and a replica: it may be lost, late, or come twice, and overtake others. */
  #send(site: Site, deliver: () => void, { isWithdrawal = false } = {}): void {
    const { random } = this.world;
    if (isWithdrawal && this.#net.isDeaf) return;
    const times = random.chance(this.#net.twice) ? 2 : 1;
    for (let time = 0; time < times; time++) {
      if (random.chance(this.#net.loss)) continue;
      const lateMs = random.chance(this.#net.late) ? random.next() * this.#net.lateMs : 0;
      if (site.isCutOff) continue;
      this.world.after(this.#soon() + lateMs, deliver);
    }
  }

  #site(name: string): Site {
    const site = this.#sites.find((one) => one.name === name);
    if (!site) throw new Error(`there is no replica ${name}`);
    return site;
  }

  #started(name: string, machine: Machine): Replica {
    const isOver = () => this.#ended.has(replica);
    const toBranch = (deliver: (branch: Branch) => void) =>
      this.#send(this.#site(name), () => deliver(this.#branch));
    /** Only the instance that asked hears the answer. */
    const back =
      <T>(answer: (value: T) => void) =>
      (value: T) =>
        this.#send(this.#site(name), () => {
          if (!isOver()) answer(value);
        });
    const replica: Replica = new Replica(name, {
      guards: this.guards,
      newId: () => this.newId("life"),
      clock: () => this.world.now * machine.rate + machine.aheadMs,
      after: (ms, run) =>
        this.world.after(ms / machine.rate, () => {
          if (!isOver()) run();
        }),
      renew: (renewal, answer) => toBranch((branch) => branch.renew(renewal, back(answer))),
      read: ({ life, key }, answer) =>
        toBranch((branch) => {
          const asked = this.#home;
          branch.show("reads", ({ tree, generation }, number) =>
            back(answer)({ life, home: asked, number, value: told(tree, generation, key) }),
          );
        }),
      confirm: (confirmation) => toBranch((branch) => branch.confirm(confirmation)),
      noteRead: () => this.count("read out of memory"),
    });
    this.#all.push(replica);
    return replica;
  }

  get #home(): string {
    return `branch ${this.#instances}`;
  }

  #startBranch(): void {
    this.#instances++;
    this.#pending = [];
    const home = this.#home;
    const isCurrent = () => this.#home === home;
    const { rate } = this.#branchMachine;
    this.#branch = new Branch(
      {
        guards: this.guards,
        home,
        now: () => this.world.now,
        after: (ms, run) =>
          this.world.after(ms / rate, () => {
            if (isCurrent()) run();
          }),
        write: (change, done) => {
          this.#pending.push(change);
          this.world.after(
            this.world.random.next() * (this.world.random.chance(0.1) ? SLOW_DISK_MS : DISK_MS),
            () => {
              if (!isCurrent()) return;
              this.#pending.shift();
              this.#apply(change);
              done?.();
            },
            this.#lane,
          );
        },
        withdraw: (name, withdrawal) => {
          const site = this.#site(name);
          this.#send(site, () => this.reached(site).withdraw(withdrawal), { isWithdrawal: true });
        },
        wake: ({ id }) => this.world.after(this.#soon(), () => this.#heardOf(id)),
        noteShown: (waitedMs) => {
          const most = this.#net.isDeaf ? LONGEST_OF_DEAF_MS : LONGEST_MS;
          if (waitedMs > most) this.broken.add(SLOW);
        },
      },
      this.#disk,
    );
  }

  #apply(change: (disk: Disk) => Disk): void {
    const before = this.#disk;
    this.#disk = change(before);
    const { version } = this.#disk;
    if (version === before.version) return;
    this.#earlier.push(before);
    this.#states.push(stateOf(version));
  }
}

/** What a reader of a key is told: null if it is not there, and another word if there is no branch. */
export function told(tree: Version["tree"], generation: number | null, key: string): string | null {
  return generation === null ? "no branch" : (tree.get(key) ?? null);
}

function stateOf({ id, generation, tree }: Version): State {
  return { ...NOTHING, generation, commit: id, message: id, tree };
}

import type { Guards, Reader } from "./guards.ts";
import {
  type Confirmation,
  DRIFT,
  type Home,
  LEASE_MS,
  type Lease,
  type Life,
  type Refusal,
  type Renewal,
  type Withdrawal,
} from "./messages.ts";

/** What a branch is after a change. */
export interface Version {
  /** What was asked for and made it. */
  readonly id: string;
  /** The generation, or null: there is no branch. */
  readonly generation: number | null;
  /** The number of its commit in the generation. What changes rows without a commit leaves it as it is. */
  readonly seq: number;
  readonly tree: ReadonlyMap<string, string>;
}

export interface Change extends Version {
  readonly keys: readonly string[] | "all";
}

/** What the disk of a branch has. */
export interface Disk {
  readonly version: Version;
  /** Who may hold a lease, by the name of its replica. */
  readonly holders: ReadonlyMap<Life, string>;
  /** How many reads were answered out of memory, by starts of replicas. */
  readonly reads: ReadonlyMap<string, number>;
}

/** What an instance of a branch has around it. Nothing of it has an effect once the instance has ended. */
export interface BranchHost {
  readonly guards: Guards;
  readonly home: Home;
  /** By a timer that is up to `DRIFT` wrong. */
  after(ms: number, run: () => void): void;
  /** In order. `done`: the disk has it. */
  write(change: (disk: Disk) => Disk, done?: () => void): void;
  withdraw(replica: string, withdrawal: Withdrawal): void;
  wake(version: Version): void;
  /** A version is shown so long after the disk had it. */
  noteShown(waitedMs: number): void;
  now(): number;
}

interface Holder {
  readonly replica: string;
  /** Of an earlier instance of the branch: it is only to let go of what it has. */
  readonly isOfEarlier: boolean;
  confirmed: number;
  /** Which of its leases runs out last. */
  lease: number;
  /** What waits for the disk to have the holder; undefined: it has it. */
  waiting: (() => void)[] | undefined;
}

interface Numbered {
  readonly change: Change;
  /** What messages say of it. */
  readonly number: number;
  /** When the disk had it. */
  since: number;
}

/**
 * One instance of a branch. It shows a version once the disk has it and each holder of a lease has confirmed that it keeps nothing
 * older, or holds no lease any more.
 */
export class Branch {
  readonly #host: BranchHost;
  /** By their places; the first is what the disk had when the instance began. */
  readonly #versions: Numbered[];
  readonly #holders = new Map<Life, Holder>();
  /** Places of the newest version on the disk, and of the newest that is shown; -1: none is yet. */
  #durable = 0;
  #visible = -1;
  readonly #waiting: { readonly isDue: () => boolean; readonly run: () => void }[] = [];
  /** It is about to be restored: nobody gets a lease. */
  #isClosing = false;

  constructor(host: BranchHost, { version, holders }: Disk) {
    this.#host = host;
    this.#versions = [
      { change: { ...version, keys: "all" }, number: this.#firstNumber(version), since: host.now() },
    ];
    for (const [life, replica] of holders) {
      if (host.guards.has("restart withdraws")) {
        const holder = { replica, isOfEarlier: true, confirmed: -1, lease: 0, waiting: undefined };
        this.#holders.set(life, holder);
        this.#lapseLater(life, holder);
      }
      host.withdraw(replica, this.#withdrawalFor(life, -1));
    }
    this.#settle();
  }

  /** Shows a reader what is visible, as soon as anything is. */
  show(reader: Reader, answer: (version: Version, number: number) => void): void {
    this.#when(
      () => this.#visible >= 0,
      () => {
        const at = this.#host.guards.has(`visible to ${reader}`) ? this.#visible : this.#durable;
        const { change, number } = this.#at(at);
        answer(change, number);
      },
    );
  }

  /**
   * Makes a change. `decide` says which, from the newest version, or that there is none to make. `answer` hears of it when that
   * is visible which it was decided by, or which it made.
   */
  change(
    decide: (newest: Version) => Change | null,
    answer: (made: Change | null, newest: Version) => void,
  ): void {
    const { guards } = this.#host;
    const newest = this.#versions.length - 1;
    const judged = guards.has("judged by the newest") ? newest : Math.max(0, this.#visible);
    const { change: before } = this.#at(judged);
    const change = decide(before);
    if (!change) {
      const waits = guards.has("refusals wait");
      this.#when(
        () => this.#visible >= 0 && (waits ? this.#visible : this.#durable) >= judged,
        () => answer(null, before),
      );
      return;
    }
    const at = this.#versions.length;
    this.#versions.push({
      change,
      number: this.#numberAfter(this.#at(at - 1), change),
      since: this.#host.now(),
    });
    const isOnDisk = () => {
      this.#durable = at;
      this.#at(at).since = this.#host.now();
      for (const [life, holder] of this.#holders) {
        if (holder.confirmed >= this.#at(at).number) continue;
        this.#host.withdraw(holder.replica, this.#withdrawalFor(life, holder.confirmed));
      }
      this.#settle();
    };
    this.#write(change, guards.has("disk first") ? isOnDisk : undefined);
    if (!guards.has("disk first")) isOnDisk();
    const waits = guards.has("writes wait");
    this.#when(
      () => this.#visible >= 0 && (waits ? this.#visible : this.#durable) >= at,
      () => answer(change, change),
    );
  }

  /** Has every holder let go of all, and then goes on with `restore`. */
  close(restore: () => void): void {
    if (!this.#host.guards.has("restore withdraws")) {
      restore();
      return;
    }
    this.#isClosing = true;
    for (const [life, { replica }] of this.#holders) {
      this.#host.withdraw(replica, this.#withdrawalFor(life, -1));
    }
    this.#when(() => this.#holders.size === 0, restore);
  }

  renew(renewal: Renewal, answer: (answer: Lease | Withdrawal | Refusal) => void): void {
    const { guards, home } = this.#host;
    const { life, replica, confirmed } = renewal;
    this.#count(renewal);
    const known = this.#holders.get(life);
    const isOurs =
      renewal.home === home || renewal.home === undefined || !guards.has("one instance of the branch");
    if (this.#isClosing || !isOurs || known?.isOfEarlier) {
      answer(this.#withdrawalFor(life, -1));
      return;
    }
    if (!known) {
      this.#join(life, replica, () => this.#grant(life, answer));
      return;
    }
    if (renewal.home !== undefined) this.#confirmed(known, confirmed);
    if (known.waiting) {
      known.waiting.push(() => this.#grant(life, answer));
      return;
    }
    if (guards.has("renewals refused") && known.confirmed < this.#at(this.#durable).number) {
      const withdraws = guards.has("refusal withdraws");
      answer(withdraws ? this.#withdrawalFor(life, known.confirmed) : { kind: "refusal" });
      return;
    }
    this.#grant(life, answer);
  }

  confirm({ life, home, number, ends }: Confirmation): void {
    const holder = this.#holders.get(life);
    if (!holder || home !== this.#host.home) return;
    if (ends || holder.isOfEarlier) this.#forget(life);
    else this.#confirmed(holder, number);
  }

  /** What would come of a clock that jumps forward. */
  clockJumped(): void {
    if (this.#host.guards.has("timer, not clock")) return;
    for (const life of [...this.#holders.keys()]) this.#forget(life);
  }

  get isSettled(): boolean {
    return this.#visible === this.#versions.length - 1 && this.#waiting.length === 0;
  }

  #join(life: Life, replica: string, granted: () => void): void {
    const newest = this.#at(this.#versions.length - 1);
    const holder: Holder = {
      replica,
      isOfEarlier: false,
      confirmed: newest.number,
      lease: 0,
      waiting: [granted],
    };
    this.#holders.set(life, holder);
    const isOnDisk = () => {
      const waiting = holder.waiting ?? [];
      holder.waiting = undefined;
      for (const run of waiting) run();
    };
    if (this.#host.guards.has("holder on disk")) {
      this.#host.write(
        (disk) => ({ ...disk, holders: new Map([...disk.holders, [life, replica]]) }),
        isOnDisk,
      );
    } else isOnDisk();
  }

  #grant(life: Life, answer: (lease: Lease) => void): void {
    const holder = this.#holders.get(life);
    if (!holder) return;
    this.#lapseLater(life, holder);
    answer({ kind: "lease", life, home: this.#host.home, number: holder.confirmed });
  }

  /** Lets go of a holder once its lease has certainly run out, if it got no other one meanwhile. */
  #lapseLater(life: Life, holder: Holder): void {
    const lease = ++holder.lease;
    const ms = this.#host.guards.has("drift") ? (LEASE_MS * (1 + DRIFT)) / (1 - DRIFT) : LEASE_MS;
    this.#host.after(ms, () => {
      if (holder.lease === lease && this.#holders.get(life) === holder) this.#forget(life);
    });
  }

  #forget(life: Life): void {
    this.#holders.delete(life);
    this.#host.write((disk) => {
      const holders = new Map(disk.holders);
      holders.delete(life);
      return { ...disk, holders };
    });
    this.#settle();
  }

  #confirmed(holder: Holder, number: number): void {
    holder.confirmed = Math.max(holder.confirmed, number);
    this.#settle();
  }

  #settle(): void {
    const holders = [...this.#holders.values()];
    for (let at = this.#visible + 1; at <= this.#durable; at++) {
      const { number, change, since } = this.#at(at);
      if (holders.some(({ confirmed }) => confirmed < number)) break;
      this.#visible = at;
      this.#host.noteShown(this.#host.now() - since);
      if (this.#host.guards.has("visible to wake-ups")) this.#host.wake(change);
    }
    this.#answer();
  }

  #when(isDue: () => boolean, run: () => void): void {
    this.#waiting.push({ isDue, run });
    this.#answer();
  }

  #answer(): void {
    for (const waiting of [...this.#waiting]) {
      if (!waiting.isDue()) continue;
      const at = this.#waiting.indexOf(waiting);
      if (at < 0) continue;
      this.#waiting.splice(at, 1);
      waiting.run();
    }
  }

  /** What a holder is to let go of, from what it confirmed up to what the disk has. */
  #withdrawalFor(life: Life, confirmed: number): Withdrawal {
    const newer = this.#versions.slice(0, this.#durable + 1).filter(({ number }) => number > confirmed);
    const keys = newer.flatMap(({ change }) => change.keys);
    return {
      kind: "withdrawal",
      life,
      home: this.#host.home,
      number: this.#at(this.#durable).number,
      keys: keys.includes("all") ? "all" : keys,
      ends: this.#isClosing,
    };
  }

  #write(change: Change, done?: () => void): void {
    const { id, generation, seq, tree } = change;
    const version: Version = { id, generation, seq, tree };
    this.#host.write(
      (disk) => ({ ...disk, version }),
      () => {
        if (!this.#host.guards.has("visible to wake-ups")) this.#host.wake(version);
        done?.();
      },
    );
  }

  #count({ start, reads }: Renewal): void {
    const isOnce = this.#host.guards.has("reads counted once");
    this.#host.write((disk) => {
      const before = disk.reads.get(start) ?? 0;
      const counted = isOnce ? Math.max(before, reads) : before + reads;
      return { ...disk, reads: new Map([...disk.reads, [start, counted]]) };
    });
  }

  #firstNumber({ seq }: Version): number {
    return this.#host.guards.has("every change counts") ? 0 : seq;
  }

  /** Changes of an instance are counted. Numbers of commits would pass over what changes rows without one, and begin again with a generation. */
  #numberAfter({ number }: Numbered, { seq }: Change): number {
    return this.#host.guards.has("every change counts") ? number + 1 : seq;
  }

  #at(place: number): Numbered {
    const version = this.#versions[place];
    if (!version) throw new Error(`there is no version ${place}`);
    return version;
  }
}

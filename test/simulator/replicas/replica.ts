import type { Guards } from "./guards.ts";
import {
  type Confirmation,
  type Home,
  LEASE_MS,
  type Lease,
  type Life,
  RENEW_MS,
  type Refusal,
  type Renewal,
  type Row,
  type Withdrawal,
} from "./messages.ts";

/** What a replica has around it. Answers may never come, come late, and come twice. */
export interface ReplicaHost {
  readonly guards: Guards;
  newId(): string;
  /** By the clock of the machine, which may be set. */
  clock(): number;
  /** By the timer of the machine, which nobody sets. */
  after(ms: number, run: () => void): void;
  renew(renewal: Renewal, answer: (answer: Lease | Withdrawal | Refusal) => void): void;
  read(asked: { readonly life: Life; readonly key: string }, answer: (row: Row) => void): void;
  confirm(confirmation: Confirmation): void;
  noteRead(): void;
}

/**
 * One start of a replica. It keeps rows that it read of the branch, and answers out of them as long as it holds a lease: the branch
 * lets nobody see a change before each holder let go of what changed, or its lease has run out.
 */
export class Replica {
  readonly name: string;
  readonly #host: ReplicaHost;
  readonly #start: string;
  #life: Life;
  #home: Home | undefined;
  /** By its own clock. */
  #until = Number.NEGATIVE_INFINITY;
  /** The newest withdrawal that it confirmed. */
  #withdrawn = -1;
  readonly #rows = new Map<string, string | null>();
  #seenClock = Number.NEGATIVE_INFINITY;
  #reads = 0;
  #readsTold = 0;

  constructor(name: string, host: ReplicaHost) {
    this.name = name;
    this.#host = host;
    this.#start = host.newId();
    this.#life = host.newId();
    host.after(0, () => this.#tick());
  }

  get reads(): { readonly start: string; readonly count: number } {
    return { start: this.#start, count: this.#reads };
  }

  read(key: string, answer: (value: string | null) => void): void {
    const { guards } = this.#host;
    const isUsable = guards.has("lease asked") ? this.#holds() : true;
    const kept = this.#rows.get(key);
    if (isUsable && kept !== undefined) {
      this.#reads++;
      this.#host.noteRead();
      answer(kept);
      return;
    }
    this.#host.read({ life: this.#life, key }, (row) => {
      this.#keep(key, row);
      answer(row.value);
    });
  }

  /** Lets go of what changed, and says so. What is not of this life is somebody else's to confirm. */
  withdraw({ life, home, number, keys, ends = false }: Withdrawal): void {
    const { guards } = this.#host;
    if (guards.has("confirmed by the instance") && life !== this.#life) return;
    const isOfOther = guards.has("one instance of the branch") && home !== this.#home;
    if (ends || isOfOther) this.#beginAnew();
    else {
      for (const key of keys === "all" ? [...this.#rows.keys()] : keys) this.#rows.delete(key);
      this.#withdrawn = Math.max(this.#withdrawn, number);
    }
    this.#host.confirm({ life, home, number, ends });
  }

  #tick(): void {
    this.#renew();
    this.#host.after(RENEW_MS, () => this.#tick());
  }

  #renew(): void {
    const { guards } = this.#host;
    const askedAt = this.#now();
    const reads = guards.has("reads counted once") ? this.#reads : this.#reads - this.#readsTold;
    this.#readsTold = this.#reads;
    this.#host.renew(
      {
        replica: this.name,
        life: this.#life,
        ...(this.#home !== undefined && { home: this.#home }),
        confirmed: this.#withdrawn,
        start: this.#start,
        reads,
      },
      (answer) => {
        if (answer.kind === "lease") this.#take(answer, askedAt);
        else if (answer.kind === "withdrawal") {
          this.withdraw(answer);
          if (answer.life === this.#life) this.#renew();
        }
      },
    );
  }

  #take({ life, home, number }: Lease, askedAt: number): void {
    const { guards } = this.#host;
    this.#holds();
    if (guards.has("one life") && life !== this.#life) return;
    if (guards.has("one instance of the branch") && this.#home !== undefined && home !== this.#home) {
      this.#beginAnew();
      return;
    }
    this.#home = home;
    const from = guards.has("counted from asking") ? askedAt : this.#now();
    this.#until = Math.max(this.#until, from + LEASE_MS);
    if (guards.has("number of a lease")) this.#withdrawn = Math.max(this.#withdrawn, number);
  }

  #keep(key: string, { life, home, number, value }: Row): void {
    const { guards } = this.#host;
    if (!this.#holds()) return;
    if (guards.has("one life") && life !== this.#life) return;
    if (guards.has("one instance of the branch") && home !== this.#home) return;
    if (guards.has("number of an answer") && number < this.#withdrawn) return;
    this.#rows.set(key, value);
  }

  /** Whether the lease runs. What has run out is of no use any more, also if there is another lease later. */
  #holds(): boolean {
    if (this.#now() < this.#until) return true;
    const hasLapsed = Number.isFinite(this.#until);
    if (hasLapsed && this.#host.guards.has("lapsed empties")) this.#beginAnew();
    return false;
  }

  /** By a clock that went back nobody knows how long the lease has run. */
  #now(): number {
    const now = this.#host.clock();
    const isSetBack = now < this.#seenClock;
    this.#seenClock = now;
    if (isSetBack && this.#host.guards.has("clock set back")) this.#beginAnew();
    return now;
  }

  #beginAnew(): void {
    this.#life = this.#host.newId();
    this.#home = undefined;
    this.#until = Number.NEGATIVE_INFINITY;
    this.#withdrawn = -1;
    this.#rows.clear();
  }
}

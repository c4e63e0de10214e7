import { type Answer, type Change, faultsOf, type Taken } from "../../../simulator/history/model.ts";
import { type Moments, momentsOf } from "../../../simulator/history/moments.ts";
import { isSame, type State } from "../../../simulator/history/states.ts";
import type { Asked, Life, Noted, Told } from "./life.ts";

/** An answer that is none of those that a kind of call may have. */
export class Unexpected extends Error {}

/** All that clients asked of branches and were told, compared with the logs of the branches by the simulator's model. */
export class History {
  /** Branches that are there, by their buckets. */
  readonly lives = new Map<string, Life>();
  /** What is wrong. */
  readonly faults: string[] = [];
  /** How often each kind of call was answered or not. */
  readonly tally = new Map<string, number>();
  /** What is said of commits by which erasures bring HEAD back to an earlier version, in whatever branch. */
  readonly erasures = new Set<string>();
  commits = 0;
  #stamp = 0;
  #ids = 0;
  #moments = new Map<Life, Moments>();

  /** What is said of one commit, and of no other. */
  id(): string {
    return `c${this.#ids++}`;
  }

  count(what: string): void {
    this.tally.set(what, (this.tally.get(what) ?? 0) + 1);
  }

  /** Asks, and notes what was asked with what came of it. If the gateway was gone, that is unknown, and thrown. */
  async ask<T>(
    life: Life,
    asked: Asked & { readonly kind: string },
    { call, told }: { readonly call: () => Promise<T>; readonly told: (answer: T) => Told },
  ): Promise<T> {
    const begun = this.#stamp++;
    const note = (what: Told) => {
      this.count(`${asked.kind} ${what.kind === "unknown" ? "unanswered" : "answered"}`);
      const ended = what.kind === "unknown" ? Number.POSITIVE_INFINITY : this.#stamp++;
      life.taken.push({ ...asked, begun, ended, told: what });
    };
    try {
      const answer = await call();
      note(told(answer));
      return answer;
    } catch (error) {
      note({ kind: "unknown" });
      throw error instanceof Unexpected
        ? new Unexpected(`${life.bucket}: ${asked.text}: ${error.message}`)
        : error;
    }
  }

  /** Writes to a branch that were answered since its log was read. */
  answered(bucket: string): number {
    return this.lives.get(bucket)?.taken.filter(({ told }) => told.kind === "wrote").length ?? 0;
  }

  /** The next moment in the count of all that is noted. */
  now(): number {
    return this.#stamp++;
  }

  /** What a branch may have been between two moments, by what its log says; reads are left out, since they are asked with it. */
  between(bucket: string, [from, to]: readonly [from: number, to: number]): readonly State[] {
    const life = this.lives.get(bucket);
    const moments = life && this.#moments.get(life);
    return moments?.between(from, to) ?? [];
  }

  /** Compares what was asked and told since the last time with the logs, which were read since. */
  compare(): void {
    const lives = [...this.lives.values()];
    const taken = new Map(lives.map((life) => [life, life.taken.map((one) => takenOf(life, one))]));
    this.#moments = new Map(
      lives.map((life) => [life, momentsOf(life.states, taken.get(life) ?? [], { isWithReads: false })]),
    );
    for (const life of lives) {
      const asked = taken.get(life) ?? [];
      const moments = momentsOf(life.states, asked, { isWithReads: true });
      this.faults.push(
        ...moments.faults,
        ...faultsOf(asked, new Map([[life.bucket, moments]]), {
          othersMake: (_, change) => this.#isOthers(life, change),
        }),
        ...life.repeated
          .filter((message) => !this.erasures.has(message))
          .map((message) => `${life.bucket}: two commits are of ${message}`),
      );
      this.commits += life.states.length - 1;
    }
    for (const life of lives) life.forget();
  }

  /** The first commit of a fork, and those by which erasures change nothing but what is erased. */
  #isOthers({ from }: Life, { before, after }: Change): boolean {
    if (from !== undefined && before.commit === null && isSame(after.tree, from)) return true;
    return this.erasures.has(after.message ?? "") && isSame(after.tree, before.tree);
  }
}

function takenOf(life: Life, { told, ...one }: Noted): Taken {
  return { ...one, bucket: life.bucket, answer: answerOf(life, { told, id: one.id }) };
}

/** An answer names the version that is there, which is of an earlier commit if nothing had to be changed. */
function answerOf({ log }: Life, { told, id }: Pick<Noted, "told" | "id">): Answer {
  if (told.kind !== "wrote") return told;
  const isOfOther = told.version !== null && log.has(told.version) && log.get(told.version) !== id;
  return { kind: "made", commit: isOfOther ? null : told.version };
}

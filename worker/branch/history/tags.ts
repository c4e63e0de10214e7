import type { BranchContext } from "../context.ts";
import type { AnswerOf, Refused, RequestOf } from "../contract.ts";
import type { Courier } from "../lifecycle/courier.ts";
import { commitNamed } from "../read/views.ts";
import type { Retainer } from "../retention/retainer.ts";

interface TagCallsOptions extends Pick<BranchContext, "ledger" | "moment"> {
  readonly courier: Courier;
  readonly retainer: Pick<Retainer, "released">;
}

/**
 * The calls of BranchApi about tags. The branch has the truth: a tag is there, moved or gone once the transaction is done.
 * A caller hears of success when the catalogue knows it too, so that a list right after shows it. If the catalogue can't
 * be reached, the outbox goes on, and the same call again succeeds.
 */
export class TagCalls {
  readonly #options: TagCallsOptions;

  constructor(options: TagCallsOptions) {
    this.#options = options;
  }

  find({ name }: RequestOf<"tag">): AnswerOf<"tag"> {
    const { live, tags } = this.#options.ledger;
    if (!live) return refused("no-such-branch");
    const tag = tags.find(live.gen, name);
    return tag ? { ok: true, ...tag } : refused("no-such-tag");
  }

  async create({ name, commit: named, force }: RequestOf<"createTag">): Promise<AnswerOf<"createTag">> {
    const { ledger } = this.#options;
    const { live } = ledger;
    if (!live) return refused("no-such-branch");
    const { gen, head } = live;
    if (named === undefined && head.id === null) return refused("no-commit");
    const commit = named === undefined ? head.id : commitNamed(ledger, { gen, name: named })?.id;
    if (commit === undefined || commit === null) return refused("no-such-version");
    const before = ledger.tags.find(gen, name);
    if (before && before.commit !== commit && !force) {
      return { ok: false, reason: "tag-exists", commit: before.commit };
    }
    const change = before === undefined ? "made" : before.commit === commit ? "none" : "moved";
    if (change !== "none") {
      this.#change((createdAt) => ledger.tags.set(gen, { name, commit, createdAt }));
    }
    if (!(await this.#isTold())) return refused("catalogue-unavailable");
    return { ok: true, name, commit, change, before: before?.commit ?? null };
  }

  async delete({ name }: RequestOf<"deleteTag">): Promise<AnswerOf<"deleteTag">> {
    const { ledger } = this.#options;
    const { live } = ledger;
    if (!live) return refused("no-such-branch");
    const { gen } = live;
    const isThere = ledger.tags.find(gen, name) !== undefined;
    if (isThere) this.#change(() => ledger.tags.remove(gen, name));
    if (!(await this.#isTold())) return refused("catalogue-unavailable");
    return isThere ? { ok: true } : refused("no-such-tag");
  }

  /** The change and the news of it are one transaction; the alarm looks after the news. */
  #change(write: (now: number) => void): void {
    const { ledger, moment, courier } = this.#options;
    const { now, id } = moment();
    ledger.transaction(() => {
      write(now);
      ledger.outbox.tellCatalogue({ event: id(now), now });
    });
    courier.watch();
    // A commit may have lost its last name.
    this.#options.retainer.released();
  }

  /** Whether the catalogue knows all. Asked also if nothing changed: the caller may come back after a refusal. */
  async #isTold(): Promise<boolean> {
    const { courier } = this.#options;
    return !courier.catalogueWaits || (await courier.flushCatalogue());
  }
}

function refused<R extends string>(reason: R): Refused<R> {
  return { ok: false, reason };
}

import type { BranchContext } from "../context.ts";
import type { AnswerOf, Refused, RequestOf, TagChanger } from "../contract.ts";
import { commitNamed } from "../read/views.ts";
import type { TagRow } from "../tree/tag-store.ts";
import type { Courier } from "../work/outbox/courier.ts";

interface TagCallsOptions extends Pick<BranchContext, "ledger" | "moment"> {
  readonly courier: Courier;
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

  async create({
    name,
    commit: named,
    force,
    asWriter,
  }: RequestOf<"createTag">): Promise<AnswerOf<"createTag">> {
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
    if (change === "moved" && !this.#mayTakeAway(gen, { asWriter })) return refused("tag-kept");
    if (change !== "none") {
      this.#change((createdAt) => {
        if (before) this.#keepForNow(gen, { tag: before, now: createdAt });
        ledger.tags.set(gen, { name, commit, createdAt });
      });
    }
    if (!(await this.#isTold())) return refused("catalogue-unavailable");
    return { ok: true, name, commit, change, before: before?.commit ?? null };
  }

  async delete({ name, asWriter }: RequestOf<"deleteTag">): Promise<AnswerOf<"deleteTag">> {
    const { ledger } = this.#options;
    const { live } = ledger;
    if (!live) return refused("no-such-branch");
    const { gen } = live;
    const tag = ledger.tags.find(gen, name);
    if (tag) {
      if (!this.#mayTakeAway(gen, { asWriter })) return refused("tag-kept");
      this.#change((now) => {
        this.#keepForNow(gen, { tag, now });
        ledger.tags.remove(gen, name);
      });
    }
    if (!(await this.#isTold())) return refused("catalogue-unavailable");
    return tag ? { ok: true } : refused("no-such-tag");
  }

  /** Whether a tag may be taken from its commit: by who administers the repo, or alone writes to the branch. */
  #mayTakeAway(gen: number, { asWriter }: TagChanger): boolean {
    if (asWriter === undefined) return true;
    const { writer } = this.#options.ledger.settings.of(gen);
    return writer !== null && "key" in writer && writer.key === asWriter;
  }

  /** What a tag has named until now is not given back at once: somebody may have deleted or moved it by mistake. */
  #keepForNow(gen: number, { tag: { name, commit }, now }: { tag: TagRow; now: number }): void {
    const { commits, untagged } = this.#options.ledger;
    const position = commits.byId(commit);
    if (position?.gen === gen) untagged.keep(position, { name, now });
  }

  /** The change and the news of it are one transaction. */
  #change(write: (now: number) => void): void {
    const { ledger, moment } = this.#options;
    const { now, id } = moment();
    ledger.transaction(() => {
      write(now);
      ledger.outbox.tellCatalogue({ event: id(now), now });
    });
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

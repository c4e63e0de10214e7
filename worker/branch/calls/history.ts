import { refused } from "../contract/answers.ts";
import type { HistoryCalls, TagCalls, TagChanger } from "../contract/history.ts";
import { diffCommits } from "../history/diff.ts";
import { inspectCommit, listCommits } from "../history/log.ts";
import { redactCommit } from "../history/redact.ts";
import type { Ledger } from "../ledger/ledger.ts";
import { commitNamed } from "../read/views.ts";
import type { TagRow } from "../tree/tag-store.ts";
import { absent, type BranchFacet, bounded, type Reach, told } from "./facet.ts";

/** The commits of the branch, for people. */
export const history: BranchFacet<HistoryCalls> = {
  async list({ ledger }, request) {
    return told(ledger, listCommits(ledger, bounded(request)));
  },

  async commit({ ledger }, request) {
    return told(ledger, inspectCommit(ledger, request));
  },

  async diff({ ledger }, request) {
    return told(ledger, diffCommits(ledger, bounded(request)));
  },

  /** It waits for a large commit like any write. */
  async redact({ ledger, gate, now }, request) {
    if (!ledger.exists) return absent(ledger);
    const redact = () => ledger.transaction((tx) => redactCommit(tx, ledger, { request, now: now() }));
    return told(ledger, await gate.pass(redact));
  },
};

/**
 * Names of commits. The branch has the truth: a tag is there, moved or gone once the transaction is done. A caller hears of
 * success when the catalogue knows it too, so that a list right after shows it. If the catalogue can't be reached, the
 * outbox goes on, and the same call again succeeds.
 */
export const tags: BranchFacet<TagCalls> = {
  async find({ ledger }, { name }) {
    const { live, tags } = ledger;
    if (!live) return absent(ledger);
    const tag = tags.find(live.gen, name);
    return tag ? { ok: true, ...tag } : refused("no-such-tag");
  },

  async create(reach, { name, commit: named, force, asWriter }) {
    const { ledger } = reach;
    const { live } = ledger;
    if (!live) return absent(ledger);
    const { gen, head } = live;
    if (named === undefined && head.id === null) return refused("no-commit");
    const commit = named === undefined ? head.id : commitNamed(ledger, { gen, name: named })?.id;
    if (commit === undefined || commit === null) return refused("no-such-version");
    const before = ledger.tags.find(gen, name);
    if (before && before.commit !== commit && !force) {
      return { ok: false, reason: "tag-exists", commit: before.commit };
    }
    const change = before === undefined ? "made" : before.commit === commit ? "none" : "moved";
    if (change === "moved" && !mayTakeAway(ledger, gen, { asWriter })) return refused("tag-kept");
    if (change !== "none") {
      changeTags(reach, (createdAt) => {
        if (before) keepForNow(ledger, gen, { tag: before, now: createdAt });
        ledger.tags.set(gen, { name, commit, createdAt });
      });
    }
    // Asked also if nothing changed: the caller may come back after a refusal.
    if (!(await reach.outbox.flush("catalogue"))) return refused("catalogue-unavailable");
    return { ok: true, name, commit, change, before: before?.commit ?? null };
  },

  async delete(reach, { name, asWriter }) {
    const { ledger } = reach;
    const { live } = ledger;
    if (!live) return absent(ledger);
    const { gen } = live;
    const tag = ledger.tags.find(gen, name);
    if (tag) {
      if (!mayTakeAway(ledger, gen, { asWriter })) return refused("tag-kept");
      changeTags(reach, (now) => {
        keepForNow(ledger, gen, { tag, now });
        ledger.tags.remove(gen, name);
      });
    }
    // Asked also if nothing changed: the caller may come back after a refusal.
    if (!(await reach.outbox.flush("catalogue"))) return refused("catalogue-unavailable");
    return tag ? { ok: true } : refused("no-such-tag");
  },
};

/** Whether a tag may be taken from its commit: by who administers the repo, or alone writes to the branch. */
function mayTakeAway({ settings }: Ledger, gen: number, { asWriter }: TagChanger): boolean {
  if (asWriter === undefined) return true;
  const { writer } = settings.of(gen);
  return writer !== null && "key" in writer && writer.key === asWriter;
}

/** What a tag has named until now is not given back at once: somebody may have deleted or moved it by mistake. */
function keepForNow(
  { commits, untagged }: Ledger,
  gen: number,
  { tag: { name, commit }, now }: { tag: TagRow; now: number },
): void {
  const position = commits.byId(commit);
  if (position?.gen === gen) untagged.keep(position, { name, now });
}

/** The change and the news of it are one transaction. */
function changeTags({ ledger, moment }: Reach, write: (now: number) => void): void {
  const { now, id } = moment();
  ledger.transaction(() => {
    write(now);
    ledger.outbox.tellCatalogue({ event: id(now), now });
  });
}

import { type AnswerOf, type Refused, refused } from "../contract/answers.ts";
import type { CreateBranch, DestroyBranch, LifecycleCalls, Made, ShownFork } from "../contract/lifecycle.ts";
import type { SettingsCalls } from "../contract/settings.ts";
import type { Fork } from "../forks/fork-store.ts";
import {
  changeSettings,
  isPublic,
  letsIn,
  notEmptyRefusal,
  protectionRefusal,
} from "../settings/settings.ts";
import { askFork, rootNow, settled } from "../write/fork.ts";
import { beginGeneration, endFork, endGeneration } from "../write/generation.ts";
import { absent, type BranchFacet, prepare, type Reach } from "./facet.ts";

/** Makes a branch and ends it, and says whether it is there. */
export const lifecycle: BranchFacet<LifecycleCalls> = {
  /**
   * A creation is acknowledged once the catalogue knows of it. If the catalogue can't be reached, nobody is told that
   * the branch is theirs, and the next creation finishes what was begun, for whoever asks for it then: the branch is as
   * that one wants it.
   */
  async create(reach, request = {}) {
    const fault = await prepare(reach, request.place);
    if (fault) return refused(fault);
    const { ledger, announcing } = reach;
    await settled(reach);
    const live = ledger.generations.live();
    if (!live && ledger.forks.present()) return refused("already-exists");
    if (live) {
      // Other news may wait of a branch that is somebody's: of its tags, say.
      if (ledger.claim.get() || !ledger.outbox.creationWaits(live.uid)) return refused("already-exists");
      const announced = announcing.get(live.uid);
      if (announced) return refused((await announced) ? "already-exists" : "catalogue-unavailable");
    }
    begin(reach, request);
    return await announceCreation(reach);
  },

  /** Acknowledged once the parent and the catalogue know of it. Asked again from the same parent and commit it answers the same. */
  async fork(reach, request) {
    const fault = await prepare(reach, request.place);
    if (fault) return refused(fault);
    const { ledger, outbox } = reach;
    const { parent, commit } = request;
    const fork = ledger.forks.present() ?? askFork(reach, request);
    const isSame = fork?.parent === parent && (commit === undefined || commit === fork.commit);
    if (!fork || !isSame) return refused("already-exists");
    if (fork.state === "asked") {
      const rooted = await rootNow(reach, fork);
      if (!rooted.ok) return rooted;
    }
    if (!(await outbox.flush("catalogue"))) return refused("catalogue-unavailable");
    const made = ledger.forks.get(fork.uid);
    return made && made.state !== "purging" ? { ok: true, ...shownFork(made) } : refused("already-exists");
  },

  async inspect({ ledger: { exists, live, forks, settings, imports, claim, place: made } }) {
    const present = exists ? forks.present() : undefined;
    const place = exists ? made.get() : null;
    const fork = present && present.state !== "asked" ? shownFork(present) : null;
    if (live) {
      const { uid, createdAt, gen, head } = live;
      const { keep } = settings.of(gen);
      const { at, by = null } = imports.of(uid) ?? {};
      const imported = at === undefined ? null : { at, by };
      const claimedBy = claim.get()?.pipeline ?? null;
      return { ok: true, uid, createdAt, head: head.id, keep, fork, imported, place, claimedBy };
    }
    if (!fork) return refused("no-such-branch");
    const { uid, createdAt } = fork;
    return { ok: true, uid, createdAt, head: null, keep: null, fork, imported: null, place };
  },

  async status({ ledger }, { publicOnly = false } = {}) {
    const { live } = ledger;
    if (publicOnly && !isPublic(ledger)) return refused("not-public");
    if (!live) return absent(ledger);
    const { uid, createdAt, head } = live;
    const claimedBy = ledger.claim.get()?.pipeline ?? null;
    return { ok: true, uid, createdAt, modifiedAt: head.modifiedAt, head: head.id, claimedBy };
  },

  async destroy(reach, request = {}) {
    return await reach.gate.pass(() => destroy(reach, request));
  },
};

/** Begins a generation if none lives, and sets what its creator wants. */
function begin(
  { ledger, moment: newMoment }: Reach,
  { public: isPublic = false, keep = null, modified = null, emptyOnly = false }: CreateBranch,
): void {
  const moment = newMoment();
  ledger.transaction((tx) => {
    if (!ledger.generations.live()) beginGeneration(tx, ledger, moment);
    const live = ledger.generations.live();
    if (!live) return;
    // Somebody may have written to one that was begun before, and loses no commit to what a new branch is to keep.
    const losesNone = live.head.id === null || keep === null;
    const change = { public: isPublic, modified, emptyOnly, ...(losesNone && { keep }) };
    changeSettings(tx, ledger, { live, change, now: moment.now });
  });
}

async function announceCreation({
  ledger,
  outbox,
  announcing,
}: Reach): Promise<Made | Refused<"catalogue-unavailable">> {
  const live = ledger.generations.live();
  if (!live) throw new Error("the branch to announce is not there");
  const { uid, createdAt } = live;
  // The settings first: a creation that the catalogue was told of is not finished by another one.
  const isAcknowledged = outbox.flush("settings").then((isSet) => isSet && outbox.flush("catalogue"));
  announcing.set(uid, isAcknowledged);
  try {
    return (await isAcknowledged) ? { ok: true, uid, createdAt } : refused("catalogue-unavailable");
  } finally {
    announcing.delete(uid);
  }
}

/** What others are told of a fork. */
function shownFork({ uid, parent, commit, state, createdAt, files, total }: Fork): ShownFork {
  return { uid, parent, commit, createdAt, ready: state === "made", copied: files, total };
}

async function destroy(
  { ledger, outbox, moment }: Reach,
  { key, withFiles }: DestroyBranch,
): Promise<AnswerOf<LifecycleCalls["destroy"]>> {
  const { live } = ledger;
  const fork = live || !ledger.exists ? undefined : ledger.forks.coming();
  if (!live && !fork) return refused("no-such-branch");
  if (ledger.claim.get()) return refused("pipeline-output");
  if (fork && withFiles === false) return refused("forking");
  const refusal = ledger.transaction((tx) => {
    const refusal =
      live &&
      (protectionRefusal(tx, ledger, { gen: live.gen, key }) ??
        notEmptyRefusal(tx, ledger, { gen: live.gen, withFiles }));
    if (live && !refusal) endGeneration(tx, ledger, { live, moment: moment() });
    if (fork) endFork(tx, ledger, { fork, moment: moment() });
    return refusal;
  });
  if (refusal) return refusal;
  return (await outbox.flush("catalogue")) ? { ok: true } : refused("catalogue-unavailable");
}

/** What the branch is set to. */
export const settings: BranchFacet<SettingsCalls> = {
  async read({ ledger }) {
    const { live, settings } = ledger;
    if (!live) return absent(ledger);
    const { revision: _, isPublic, ...others } = settings.of(live.gen);
    return { ok: true, public: isPublic, ...others };
  },

  /**
   * What shuts somebody out holds with this call, since the branch looks at its own settings; what lets somebody in is
   * acknowledged once the catalogue knows of it.
   */
  async change({ ledger, catalogue, outbox, now }, change) {
    if (!ledger.live) return absent(ledger);
    const fault = letsIn(change) ? await catalogue().fault() : undefined;
    if (fault === "catalogue-outdated" || fault === "other-family") return refused(fault);
    const { live } = ledger;
    if (!live) return refused("no-such-branch");
    const changed = ledger.transaction((tx) => changeSettings(tx, ledger, { live, change, now: now() }));
    if (!changed.ok) return changed;
    const isAcknowledged = await outbox.flush("settings");
    return isAcknowledged || !letsIn(change) ? { ok: true } : refused("catalogue-unavailable");
  },
};

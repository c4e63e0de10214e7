import type { BranchContext } from "../context.ts";
import type * as Contract from "../contract.ts";
import { changeSettings, letsIn, notEmptyRefusal, protectionRefusal } from "../settings/settings.ts";
import type { Forker } from "../work/forks/forker.ts";
import type { Courier } from "../work/outbox/courier.ts";
import type { Gate } from "../write/gate.ts";
import { beginGeneration, claimBranch, endFork, endGeneration, releaseBranch } from "../write/generation.ts";

interface LifecycleCallsOptions extends Pick<BranchContext, "ledger" | "moment"> {
  readonly courier: Courier;
  readonly gate: Gate;
  readonly forker: Pick<Forker, "settled">;
}

/** The calls of BranchApi that make a branch, set what it is to be like, claim it for a pipeline, and end it. */
export class LifecycleCalls {
  readonly #options: LifecycleCallsOptions;
  /** By the uid of a generation: the announcement that its creator waits for now. */
  readonly #announcing = new Map<string, Promise<boolean>>();

  constructor(options: LifecycleCallsOptions) {
    this.#options = options;
  }

  /**
   * A creation is acknowledged once the catalogue knows of it. If the catalogue can't be reached, nobody is told that
   * the branch is theirs, and the next creation finishes what was begun, for whoever asks for it then: the branch is as
   * that one wants it. There must be tables.
   */
  async create(request: Contract.CreateBranch = {}): Promise<Contract.AnswerOf<"create">> {
    const { ledger, courier, forker } = this.#options;
    await forker.settled();
    const live = ledger.generations.live();
    if (!live && ledger.forks.present()) return refused("already-exists");
    if (!live) {
      this.#begin(request);
      return await this.#announceCreation();
    }
    // Other news may wait of a branch that is somebody's: of its tags, say.
    if (ledger.claim.get() || !courier.creationWaits(live.uid)) return refused("already-exists");
    const announcing = this.#announcing.get(live.uid);
    if (announcing) return refused((await announcing) ? "already-exists" : "catalogue-unavailable");
    this.#begin(request);
    return await this.#announceCreation();
  }

  /**
   * Sets what is asked. What shuts somebody out holds with this call, since the branch looks at its own settings; what
   * lets somebody in is acknowledged once the catalogue knows of it.
   */
  async configure(change: Contract.SettingsChange): Promise<Contract.AnswerOf<"configure">> {
    const { ledger, courier, moment } = this.#options;
    const { live } = ledger;
    if (!live) return refused("no-such-branch");
    const { now } = moment();
    const changed = ledger.transaction((tx) => changeSettings(tx, ledger, { live, change, now }));
    if (!changed.ok) return changed;
    if (!courier.settingsWait) return { ok: true };
    const isTold = await courier.flushSettings();
    return isTold || !letsIn(change) ? { ok: true } : refused("catalogue-unavailable");
  }

  /**
   * The news is written down before the catalogue is set back, in case of a crash, and after: what it was told meanwhile
   * may have gone with that.
   */
  async announce(): Promise<Contract.AnswerOf<"announce">> {
    const { ledger, courier } = this.#options;
    if (!ledger.exists || !ledger.generations.newest()) return refused("no-such-branch");
    this.#tellAgain();
    if (!(await courier.setCatalogueBack())) return refused("catalogue-unavailable");
    this.#tellAgain();
    const isTold = (await courier.flushSettings()) && (await courier.flushCatalogue());
    const deleted = ledger.live === null && !ledger.forks.coming();
    return isTold ? { ok: true, deleted } : refused("catalogue-unavailable");
  }

  #tellAgain(): void {
    const { ledger, courier, moment } = this.#options;
    const { now, id } = moment();
    const newest = ledger.generations.newest();
    ledger.transaction(() => {
      if (!newest) return;
      // A creation that its creator waits for stays one, and is told as well.
      if (!courier.creationWaits(newest.uid)) ledger.outbox.tellCatalogue({ event: `again.${id(now)}`, now });
      if (ledger.settings.of(newest.gen).revision > 0) {
        ledger.outbox.tellSettings({ event: `again.${id(now)}`, now });
      }
      if (newest.deletedAt === null) ledger.tags.tellAll(newest.gen);
    });
  }

  destroy(request: Contract.DestroyBranch = {}): Promise<Contract.AnswerOf<"destroy">> {
    return this.#options.gate.pass(() => this.#destroy(request));
  }

  /** There must be tables. */
  async claim(owner: Contract.RequestOf<"claim">): Promise<Contract.AnswerOf<"claim">> {
    const { ledger, courier, moment, forker } = this.#options;
    await forker.settled();
    const claimed = ledger.transaction((tx) => claimBranch(tx, ledger, { ...owner, moment: moment() }));
    if (!claimed.ok || !courier.catalogueWaits) return claimed;
    return (await courier.flushCatalogue()) ? claimed : refused("catalogue-unavailable");
  }

  /** Throws if a large commit takes too long to wait for: the caller is to try again. */
  async release(request: { uid: string; destroy: boolean }): Promise<void> {
    if (!request.destroy) return await this.#release(request);
    const busy = await this.#options.gate.pass(() => this.#release(request));
    if (busy) throw new Error("a large commit is being applied; the branch can't be deleted yet");
  }

  async #announceCreation(): Promise<Contract.Made | Contract.Refused<"catalogue-unavailable">> {
    const { ledger, courier } = this.#options;
    const live = ledger.generations.live();
    if (!live) throw new Error("the branch to announce is not there");
    const { uid, createdAt } = live;
    // The settings first: a creation that the catalogue was told of is not finished by another one.
    const announcing = courier.flushSettings().then((isTold) => isTold && courier.flushCatalogue());
    this.#announcing.set(uid, announcing);
    try {
      return (await announcing) ? { ok: true, uid, createdAt } : refused("catalogue-unavailable");
    } finally {
      this.#announcing.delete(uid);
    }
  }

  /** Begins a generation if none lives, and sets what its creator wants. */
  #begin({
    public: isPublic = false,
    keep = null,
    modified = null,
    emptyOnly = false,
  }: Contract.CreateBranch): void {
    const { ledger } = this.#options;
    const moment = this.#options.moment();
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

  async #destroy({ key, withFiles }: Contract.DestroyBranch): Promise<Contract.AnswerOf<"destroy">> {
    const { ledger, moment } = this.#options;
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
    return (await this.#announceDeletion()) ? { ok: true } : refused("catalogue-unavailable");
  }

  async #release({ uid, destroy }: { uid: string; destroy: boolean }): Promise<void> {
    const { ledger } = this.#options;
    if (!ledger.exists || ledger.claim.get()?.uid !== uid) return;
    const { live } = ledger;
    const moment = this.#options.moment();
    ledger.transaction((tx) => {
      releaseBranch(tx, ledger, moment);
      if (destroy && live) endGeneration(tx, ledger, { live, moment });
    });
    if (destroy && live) await this.#announceDeletion();
  }

  /** The catalogue first: a caller waits for it. */
  async #announceDeletion(): Promise<boolean> {
    const { courier, ledger } = this.#options;
    const isTold = await courier.flushCatalogue();
    // Then whoever else is to hear of it, of whom nobody waits.
    ledger.wake("outbox");
    return isTold;
  }
}

function refused<R extends string>(reason: R): Contract.Refused<R> {
  return { ok: false, reason };
}

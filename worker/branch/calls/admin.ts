import type { AdminCalls } from "../contract/admin.ts";
import { refused } from "../contract/answers.ts";
import { checkContents, checkNames, namesOf } from "../read/check.ts";
import { branchUsage, headSums } from "../read/usage.ts";
import { type BranchFacet, type Reach, told } from "./facet.ts";

/** What administrators and the gateway's checks ask of the branch. */
export const admin: BranchFacet<AdminCalls> = {
  async loops({ ledger, engine }) {
    return ledger.exists ? { loops: engine.standing() } : null;
  },

  /**
   * The news is written down before the catalogue is set back, in case of a crash, and after: what it was told meanwhile
   * may have gone with that.
   */
  async announce(reach) {
    const { ledger, outbox } = reach;
    if (!ledger.exists || !ledger.generations.newest()) return refused("no-such-branch");
    tellAgain(reach);
    try {
      await reach.setCatalogueBack();
    } catch (error) {
      console.warn(`the catalogue could not be set back for branch ${reach.bucket()}: ${error}`);
      return refused("catalogue-unavailable");
    }
    tellAgain(reach);
    const isAcknowledged = (await outbox.flush("settings")) && (await outbox.flush("catalogue"));
    const deleted = ledger.live === null && !ledger.forks.coming();
    return isAcknowledged ? { ok: true, deleted } : refused("catalogue-unavailable");
  },

  async sums({ ledger }) {
    return told(ledger, headSums(ledger));
  },

  async usage(reach, request) {
    return told(reach.ledger, await branchUsage(reach, request));
  },

  /** Sweeps every generation from the beginning. */
  async sweep({ ledger, now }, { remove }) {
    if (!ledger.exists) return refused("no-such-branch");
    const since = now();
    ledger.transaction(() => ledger.sweeps.ask({ removes: remove, now: since }));
    return { ok: true, since };
  },

  async sweepStatus({ ledger }, { since }) {
    return ledger.exists ? { ok: true, ...ledger.sweeps.totals(since) } : refused("no-such-branch");
  },

  async checkNames({ ledger }, { after }) {
    return ledger.exists ? checkNames(ledger, after) : refused("no-such-branch");
  },

  async checkContents({ ledger }, { after }) {
    return ledger.exists ? checkContents(ledger, after) : refused("no-such-branch");
  },

  async namesOf({ ledger, turn }, { gen, limit, ...content }) {
    return ledger.exists ? await namesOf(ledger, { content, gen, limit, turn }) : [];
  },

  async forksHolding({ ledger }, content) {
    if (!ledger.exists) return [];
    return ledger.forkHolds.forksOf(content).flatMap((fork) => ledger.roots.find(fork)?.bucket ?? []);
  },
};

function tellAgain({ ledger, moment }: Reach): void {
  const { now, id } = moment();
  const newest = ledger.generations.newest();
  ledger.transaction(() => {
    if (!newest) return;
    // A creation that its creator waits for stays one, and is told as well.
    const { outbox } = ledger;
    if (!outbox.creationWaits(newest.uid)) outbox.tellCatalogue({ event: `again.${id(now)}`, now });
    if (ledger.settings.of(newest.gen).revision > 0) {
      outbox.tellSettings({ event: `again.${id(now)}`, now });
    }
    if (newest.deletedAt === null) ledger.tags.tellAll(newest.gen);
  });
}

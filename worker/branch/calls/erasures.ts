import type { Rowids } from "../contents/content-store.ts";
import type { AnswerOf } from "../contract/answers.ts";
import type { EraseVersions, ErasureCalls } from "../contract/erasures.ts";
import { eraseVersions, hasVersion, spansOfFiles } from "../erasures/erase.ts";
import { readHolders } from "../erasures/holders.ts";
import { rowidsAhead } from "../erasures/rowids.ts";
import { forgetErasures, hearersOf } from "../outbox/erasure-store.ts";
import { hastenScans } from "../settings/lifecycle-scans.ts";
import { commitChanges } from "../write/commit.ts";
import { absent, type BranchFacet, type Reach, told } from "./facet.ts";

/** Most erasures that one answer tells of. */
const TOLD = 500;

/** Versions that are erased for good. */
export const erasures: BranchFacet<ErasureCalls> = {
  /** One transaction, but for what is looked up ahead of it. It waits for a large commit like any other write. */
  async erase(reach, request) {
    const { ledger, gate } = reach;
    if (!ledger.exists) return absent(ledger);
    const rowids = await rowidsAhead(ledger, { ...reach, request });
    return told(ledger, await gate.pass(() => erase(reach, { request, rowids })));
  },

  async spans({ ledger }, request) {
    if (!ledger.exists) return { files: [], readers: [] };
    return { files: spansOfFiles(ledger, request), readers: ledger.subscribers.all() };
  },

  async holders({ ledger, turn }, request) {
    return told(ledger, await readHolders(ledger, { ...request, turn }));
  },

  /** What a pipeline has not heard of; asking says that it has heard of all before. */
  async list({ ledger, now }, { uid, after }) {
    if (!ledger.exists) return { erasures: [], upTo: after };
    if (hearersOf(ledger).some((hearer) => hearer.uid === uid)) {
      ledger.transaction((tx) => {
        ledger.erasures.heard(uid, after);
        forgetErasures(tx, ledger, now());
      });
    }
    const found = ledger.erasures.after(after, TOLD);
    const last = found.length < TOLD ? ledger.erasures.newest : found.at(-1)?.number;
    return {
      upTo: Math.max(after, last ?? after),
      erasures: found.map(({ gen: generation, version, ...row }) => ({
        ...row,
        generation,
        origin: ledger.commits.originOf({ gen: generation, seq: version }),
        now: ledger.files.head(generation, row.path) ?? null,
        left: hasVersion(ledger, generation, row.path),
      })),
    };
  },
};

function erase(
  { ledger, moment: newMoment }: Reach,
  { request, rowids }: { request: EraseVersions; rowids: Rowids },
): AnswerOf<ErasureCalls["erase"]> {
  const moment = newMoment();
  const { deletions = [], annotation } = request;
  const changes = {
    operations: deletions,
    onFailedCondition: "leave-out",
    ...(annotation && { annotation }),
  } as const;
  return ledger.transaction((tx) => {
    const before = ledger.live?.head ?? { seq: 0, births: 0 };
    const answer = eraseVersions(tx, ledger, { request, rowids, moment });
    if (!answer.ok) return answer;
    const deleted =
      deletions.length > 0 ? commitChanges(tx, ledger, { request: changes, moment }) : undefined;
    const event = deleted?.ok && deleted.commit ? deleted.commit : answer.commit;
    if (event !== null) ledger.outbox.ring(ledger.subscribers.all(), { event, now: moment.now });
    hastenScans(tx, ledger, { before, now: moment.now, by: "erasure" });
    return { ...answer, ...(deleted && { deleted }) };
  });
}

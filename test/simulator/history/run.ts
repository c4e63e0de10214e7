import { Random } from "../platform/random.ts";
import { importFaults } from "./archives.ts";
import { asideFaults } from "./asides.ts";
import { LEAST_TTL_MS } from "./beside.ts";
import { COPIES_MS, copyFaults, destroyAll, keptFaults, leftFaults, remains, shownFaults } from "./end.ts";
import { ADMIN_KINDS } from "./kinds/admin.ts";
import { BRANCH_KINDS } from "./kinds/branches.ts";
import { CLAIM_KINDS } from "./kinds/claims.ts";
import { ENTRY_KINDS } from "./kinds/entry.ts";
import { ENTRY_VIEW_KINDS } from "./kinds/entry-views.ts";
import { ERASURE_KINDS } from "./kinds/erasures.ts";
import { EXPORT_KINDS } from "./kinds/export.ts";
import { FEED_KINDS } from "./kinds/feed.ts";
import { FILE_KINDS } from "./kinds/files.ts";
import { IMPORT_KINDS } from "./kinds/import.ts";
import { KEEP_KINDS } from "./kinds/keep.ts";
import { LENT_KINDS } from "./kinds/lent.ts";
import { dueFaults, isAborted, isExpiry, LIFECYCLE_KINDS } from "./kinds/lifecycle.ts";
import { LOG_KINDS } from "./kinds/log.ts";
import { NOBODY_KINDS } from "./kinds/nobody.ts";
import { ODD_KINDS } from "./kinds/odd.ts";
import { OPEN_COMMIT_KINDS } from "./kinds/open-commits.ts";
import { PAGE_KINDS } from "./kinds/pages.ts";
import { PART_KINDS } from "./kinds/parts.ts";
import { READER_KINDS } from "./kinds/readers.ts";
import { REVERT_KINDS } from "./kinds/revert.ts";
import { SETTING_KINDS } from "./kinds/settings.ts";
import { SUBSCRIBER_KINDS } from "./kinds/subscribers.ts";
import { TAG_KINDS } from "./kinds/tags.ts";
import { fullFaults, TROUBLE_KINDS } from "./kinds/trouble.ts";
import { VERSION_KINDS } from "./kinds/versions.ts";
import { ended, endNowAndThen, insist, isMishap, mishapSimulation, setClock } from "./mishaps.ts";
import { faultsOf, type Taken } from "./model.ts";
import { type Plan, planOf } from "./plan.ts";
import { BUCKETS, bucketOf, type Kind, Stage } from "./stage.ts";
import { Tally } from "./tally.ts";

/** All kinds of steps. */
export const KINDS: Readonly<Record<string, Kind>> = {
  ...FILE_KINDS,
  ...BRANCH_KINDS,
  ...ERASURE_KINDS,
  ...KEEP_KINDS,
  ...LIFECYCLE_KINDS,
  ...TAG_KINDS,
  ...SETTING_KINDS,
  ...OPEN_COMMIT_KINDS,
  ...REVERT_KINDS,
  ...PART_KINDS,
  ...ENTRY_KINDS,
  ...ENTRY_VIEW_KINDS,
  ...EXPORT_KINDS,
  ...ODD_KINDS,
  ...IMPORT_KINDS,
  ...ADMIN_KINDS,
  ...FEED_KINDS,
  ...LOG_KINDS,
  ...PAGE_KINDS,
  ...VERSION_KINDS,
  ...NOBODY_KINDS,
  ...CLAIM_KINDS,
  ...SUBSCRIBER_KINDS,
  ...TROUBLE_KINDS,
  ...LENT_KINDS,
  ...READER_KINDS,
};

const CLIENTS = 3;
/** Of each client. */
const STEPS = 28;
/** One in so many seeds has small limits. */
const BETWEEN_SMALL = 4;
/** How long a branch that is idle takes at most to let go of what is kept no more; milliseconds. */
const SHORT_REST_MS = 60 * 60_000;
/** How long nothing goes wrong, nor is anything done, before all is looked at: longer than any grace; milliseconds. */
const REST_MS = 60 * 24 * 60 * 60_000;

export interface HistoryResult {
  readonly taken: readonly Taken[];
  /** What is wrong; empty: nothing is. */
  readonly faults: readonly string[];
}

/** The plan of the history of a seed. */
export function historyOf(seed: number): Plan {
  const weights = Object.fromEntries(Object.entries(KINDS).map(([kind, { weight }]) => [kind, weight]));
  const isSmall = seed % BETWEEN_SMALL === BETWEEN_SMALL - 1;
  return { ...planOf(seed, { clients: CLIENTS, steps: STEPS, weights }), isSmall };
}

/** Runs a history: its clients take their steps, side by side, while things go wrong. In the end all is compared. */
export async function runHistory(plan: Plan, counted = new Tally()): Promise<HistoryResult> {
  const tally = counted.ofHistory();
  const { simulation, calm, trouble } = mishapSimulation(plan.schedule, tally, {
    smallBranches: plan.isSmall,
    ...(plan.vars && { vars: plan.vars }),
  });
  calm.is = plan.isCalm ?? false;
  simulation.forgets = plan.forgets ?? false;
  const stage = new Stage(simulation, tally, { isSmall: plan.isSmall, trouble });
  try {
    return await played(plan, { stage, calm });
  } finally {
    simulation.close();
  }
}

async function played(
  plan: Plan,
  { stage, calm }: { stage: Stage; calm: { is: boolean } },
): Promise<HistoryResult> {
  const { simulation, tally, taken } = stage;
  await simulation.as(async () => {
    await insist(() => stage.branch(bucketOf("master")).lifecycle.create());
    endNowAndThen(simulation, { calm, tally, quiet: stage });
    const clients = Map.groupBy(plan.steps, ({ client }) => client).values();
    await Promise.all(
      [...clients].map(async (steps) => {
        for (const step of steps) {
          await stage.quiet();
          setClock(simulation, { jumps: plan.jumps, step: step.number, tally });
          await taking(stage, step);
        }
      }),
    );
  });
  calm.is = true;
  await simulation.as(() => Promise.all(stage.leaving.map((leave) => leave())));
  await simulation.pass(COPIES_MS);
  // What is due by a clock that jumped may be done later.
  const copies = plan.jumps?.length ? [] : copyFaults(stage);
  // What waits for a time waits longer by as much as the clock was set back.
  await simulation.pass(SHORT_REST_MS - COPIES_MS + simulation.world.setBackMs);
  // An alarm that was set before the clock jumped forward rings when it would have rung: until then nobody looks what is due by now.
  const isAhead = plan.jumps?.some(({ byMs }) => byMs > 0) ?? false;
  const faults = [...copies, ...(isAhead ? [] : await simulation.as(() => keptFaults(stage)))];
  await simulation.pass(REST_MS);
  faults.push(...(await simulation.as(() => shownFaults(stage))), ...leftFaults(stage), ...dueFaults(stage));
  faults.push(...(await simulation.as(() => keptFaults(stage))), ...asideFaults(stage));
  faults.push(
    ...faultsOf(taken, stage.observers, {
      othersMake: (bucket, change) => isExpiry(stage, bucket, change),
      endings: {
        ttlOf: (name) => stage.ttls.get(name) ?? LEAST_TTL_MS,
        isByRule: (ended) => isAborted(stage, ended),
      },
    }),
    ...importFaults(stage),
    ...fullFaults(stage),
    ...stage.wrong,
    ...(await ended(simulation)),
  );
  await simulation.as(() => destroyAll(stage));
  await simulation.pass(REST_MS);
  faults.push(...remains(stage), ...(await ended(simulation)));
  return { taken, faults };
}

async function taking(stage: Stage, { number, kind, seed }: Plan["steps"][number]): Promise<void> {
  const random = new Random(seed);
  // The first one is mostly there.
  const any = random.pick(random.chance(0.5) ? BUCKETS.slice(0, 1) : BUCKETS);
  const isThere = stage.facts.get(any)?.last.generation !== null;
  const bucket = isThere || random.chance(0.5) ? any : bucketOf("master");
  const take = KINDS[kind]?.take;
  if (!take) throw new Error(`there is no kind of steps '${kind}'`);
  await stage.tally
    .during(kind, () => take(stage, { id: String(number), random, bucket }))
    .catch((error) => {
      if (!isMishap(error)) throw error;
    });
}

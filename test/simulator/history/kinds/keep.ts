import type { Keep } from "../../../../worker/branch/contract/settings.ts";
import { askAside, refusedAside } from "../asides.ts";
import { shownTree } from "../model.ts";
import { ALL, wholeListing } from "../pages.ts";
import type { Kind, Stage, Turn } from "../stage.ts";
import type { Tree } from "../states.ts";
import { changeSettings } from "./settings.ts";

/** How much of the history stays; time that passes; reads of the past. */
export const KEEP_KINDS = {
  keep: { weight: 3, take: keep },
  wait: { weight: 3, take: wait },
  past: { weight: 4, take: past },
} satisfies Record<string, Kind>;

const KEEPS: readonly (Keep | null)[] = [
  ...[{ commits: 1 }, { commits: 2 }, { commits: 5 }, { days: 1 }, { days: 3 }, { days: 30 }],
  ...[{ commits: 2, days: 1 }, { commits: 1, days: 3 }, null],
];

async function keep(stage: Stage, turn: Turn): Promise<void> {
  await changeSettings(stage, turn, { keep: turn.random.pick(KEEPS) });
}

const HOUR_MS = 60 * 60_000;
const LONGEST_MS = 7 * 24 * HOUR_MS;
const WAITS_MS = [60_000, HOUR_MS, 12 * HOUR_MS, 25 * HOUR_MS, 3 * 24 * HOUR_MS];

/** How long before an alarm clients go on; milliseconds. */
const BEFORE_ALARM_MS = 30;

/** All clients rest, often until some branch is about to do something by itself. What is under way goes on. */
async function wait(stage: Stage, { random }: Turn): Promise<void> {
  const { world, branches } = stage.simulation;
  const alarms = branches
    .all()
    .flatMap(({ storage: { durableAlarm } }) => durableAlarm ?? [])
    .map((alarm) => world.now + alarm - world.clock)
    .filter((alarm) => alarm > world.now && alarm < world.now + LONGEST_MS);
  const until =
    alarms.length > 0 && random.chance(0.5)
      ? random.pick(alarms) - random.next() * BEFORE_ALARM_MS
      : world.now + random.pick(WAITS_MS);
  stage.quietUntil = Math.max(stage.quietUntil, until);
  await stage.quiet();
}

/** The tree of some commit that the branch made once. */
async function past(stage: Stage, { id, random, bucket }: Turn): Promise<void> {
  const commits = (stage.observers.get(bucket)?.states ?? []).flatMap(({ commit }) => commit ?? []);
  if (commits.length === 0) return;
  const commit = random.pick(commits);
  await askAside(
    stage,
    { id, bucket, text: `past ${id} at ${commit}` },
    {
      call: () => wholeListing((page) => stage.branch(bucket).files.list({ ...ALL, ...page, commit })),
      saidOf: (answer) => {
        if (answer.ok) {
          const tree = treeOf(answer.entries);
          return {
            kind: "saw",
            what: `past ${shownTree(tree)}`,
            of: (facts, observer) =>
              observer.shows(facts, commit) && isTreeOf(stage, { bucket, commit, tree }),
          };
        }
        if (answer.reason !== "no-such-version") return refusedAside(answer);
        return {
          kind: "saw",
          what: answer.reason,
          of: (facts, observer) => facts.generation !== null && !observer.shows(facts, commit),
        };
      },
    },
  );
}

interface Entry {
  readonly kind: string;
  readonly path: string;
  readonly digest?: string;
}

export function treeOf(entries: readonly Entry[]): Tree {
  return new Map(
    entries.flatMap(({ kind, path, digest }) =>
      kind !== "prefix" && digest !== undefined ? [[path, digest] as const] : [],
    ),
  );
}

/** Whether a commit had a tree when it was made, but for what was erased since. */
export function isTreeOf(
  stage: Stage,
  { bucket, commit, tree }: { bucket: string; commit: string; tree: Tree },
): boolean {
  const made = stage.observers.get(bucket)?.states.find((state) => state.commit === commit);
  return made !== undefined && stage.isButErased(made.tree, tree);
}

import { inline } from "../bytes.ts";
import { changed } from "../model.ts";
import { type Kind, PATHS, type Stage, type Turn } from "../stage.ts";
import { isSame } from "../states.ts";
import { writeAnswer } from "./answers.ts";

/** Stores that are away for longer than one call, and branches that are full. */
export const TROUBLE_KINDS = {
  outage: { weight: 3, take: outage },
  "fill up": { weight: 2, take: fillUp },
} satisfies Record<string, Kind>;

const MINUTE_MS = 60_000;
/** As long as a short step takes at most; milliseconds. */
const SHORT_MS = 300;
const OUTAGES_MS = [500, MINUTE_MS, 8 * MINUTE_MS];

/** Blobs can't be deleted for a while, or the store answers nothing; clients may rest until that is over. */
async function outage(stage: Stage, { random }: Turn): Promise<void> {
  const { world } = stage.simulation;
  const lasts = random.pick(OUTAGES_MS);
  stage.trouble[random.chance(0.6) ? "keepsBlobsUntil" : "awayUntil"] = world.now + lasts;
  if (random.chance(0.5)) stage.quietUntil = Math.max(stage.quietUntil, world.now + lasts);
  await stage.quiet();
  // It goes on to the end of the step at least.
  await scheduler.wait(random.next() * SHORT_MS);
}

/** Of what a database may have: no writes are taken any more, or not even deletions. */
const FULL = [9_600_000_000, 9_900_000_000];

/** A database is full for a while: writes are refused, and what was refused is not done. */
async function fillUp(stage: Stage, turn: Turn): Promise<void> {
  const { random, bucket } = turn;
  const { storage } = stage.simulation.branches.object(bucket);
  const from = stage.stamp();
  storage.filledBytes = random.pick(FULL);
  try {
    for (let n = 0; n < 2 + random.below(3); n++) await write(stage, { ...turn, id: `${turn.id}.${n}` });
  } finally {
    storage.filledBytes = 0;
    stage.full.push({ bucket, from, to: stage.stamp() });
  }
}

async function write(stage: Stage, { id, random, bucket }: Turn): Promise<void> {
  const path = random.pick(PATHS);
  const text = random.chance(0.7) ? `text ${id}` : null;
  const digest = text === null ? null : stage.text(text);
  const { files } = stage.branch(bucket);
  const annotation = { message: id };
  await stage.ask(
    {
      id,
      bucket,
      text: `${text === null ? "delete" : "put"} ${id} of ${path} in a full branch`,
      leads: ({ before, after }) => isSame(after.tree, changed(before.tree, [[path, digest]])),
    },
    () =>
      text === null
        ? files.commit({ operations: [{ delete: path }], annotation })
        : files.put({ path, content: inline(text), attributes: {}, annotation }),
    writeAnswer,
  );
}

/** Writes that were refused since the branch was full, when it was not. */
export function fullFaults({ taken, full }: Stage): string[] {
  return taken.flatMap(({ bucket, text, answer, begun, ended }) => {
    if (answer.kind !== "saw" || answer.what !== "branch-full") return [];
    // Why a large commit was not made is told to whoever asks for its end.
    const isOfLarge = text.startsWith("finish ");
    const isFull = full.some(
      (one) => one.bucket === bucket && one.from <= ended && (isOfLarge || one.to >= begun),
    );
    return isFull ? [] : [`${bucket}: ${text} was refused as full, and it was not`];
  });
}

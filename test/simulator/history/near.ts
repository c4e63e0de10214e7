import { NearFiles } from "../../../worker/near-files.ts";
import { type Plan, planOf } from "./plan.ts";
import { runHistory } from "./run.ts";

/*
 * Histories of the entry as it is on Cloudflare, where the objects are somewhere else: it keeps the rows of files that were read, and
 * takes bytes out of a cache that is late. Most steps read, and the others change what reads show.
 */

/** How often kinds of steps occur beside each other. */
const WEIGHTS = {
  ...{ "S3 request": 30, "S3 read of a commit": 15, "S3 read of a tag": 6, "S3 read of an open commit": 4 },
  ...{ put: 4, delete: 2, commit: 2, erase: 2, set: 2, create: 1, destroy: 1, keep: 1 },
  ...{ "near reads": 4, "S3 reads around a write": 8 },
};

/** Nothing of the newest state is answered out of the memory of the objects. */
const VARS = {
  ...{ SLUICE_READ_MEMORY: "off", SLUICE_BLOB_CACHE: "on" },
  ...{ SLUICE_ROW_CACHE: "on", SLUICE_COMMIT_CACHE: "on", SLUICE_NEAR_CACHE: "on" },
};

/** No generation of a history has so many. */
const MOST_COMMITS = 1_000_000;

/** The plan of the history of a seed. */
function nearHistoryOf(seed: number): Plan {
  const plan = planOf(seed, { clients: 4, steps: 25, weights: WEIGHTS });
  // Where nothing goes wrong, objects live for long enough to say that something is unchanged.
  return { ...plan, isCalm: seed % 2 === 1, vars: VARS };
}

/**
 * Runs the history of a seed. Returns what is wrong: in the end all is compared, and nobody is answered of an older state of a branch
 * than somebody was before he asked. `answered`: gets how often reads of what were answered by what.
 */
export async function runNear(seed: number, answered: Map<string, number>): Promise<string[]> {
  const { read } = NearFiles.prototype;
  const wrong: string[] = [];
  /** The newest state of each branch that anybody was told of. */
  const newest = new Map<string, number>();
  NearFiles.prototype.read = async function (of, asking) {
    const before = newest.get(of.bucket) ?? 0;
    const told = await read.call(this, of, asking);
    const { by, answer } = told;
    const at = "at" in answer && answer.at ? answer.at.gen * MOST_COMMITS + answer.at.seq : undefined;
    if (at !== undefined && at < before) {
      const how = by === "cache" ? "" : "told ";
      wrong.push(`${of.path} of ${of.bucket} is ${how}as at ${at}, and ${before} was seen`);
    }
    newest.set(of.bucket, Math.max(newest.get(of.bucket) ?? 0, at ?? 0));
    const kind = `${by} ${answer.ok && answer.lasting ? "commit" : "newest"}`;
    answered.set(kind, (answered.get(kind) ?? 0) + 1);
    return told;
  };
  try {
    const { faults } = await runHistory(nearHistoryOf(seed));
    return [...wrong, ...faults];
  } finally {
    NearFiles.prototype.read = read;
  }
}

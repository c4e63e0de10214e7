import { type ForkOptions, fork } from "node:child_process";
import { once } from "node:events";
import { join } from "node:path";
import { pathToFileURL } from "node:url";
import { Tally } from "./tally.ts";

const FOLDER = join(import.meta.dirname, "..");
/** Whatever the process runs with that begins the shares, they run in the simulation alone. */
const SHARE = {
  file: join(FOLDER, "share.ts"),
  execArgv: ["--import", pathToFileURL(join(FOLDER, "hooks.ts")).href],
};

/** Seeds of histories: one after the other, or each so-many-th of them. */
export interface Seeds {
  readonly from: number;
  /** Not one of them. */
  readonly to: number;
  readonly every: number;
}

/** What a process says of its share. */
export interface Told {
  /** A history in which something is wrong. */
  readonly report?: string;
  /** All that occurred: the share is done. */
  readonly counts?: readonly (readonly [what: string, count: number])[];
}

/** Runs the histories of some seeds in several processes, since a history has one thread to itself. Rejects if a process ends early. */
export async function runShares(
  { from, to }: Omit<Seeds, "every">,
  {
    processes,
    env,
    failed,
  }: {
    readonly processes: number;
    readonly env?: ForkOptions["env"];
    readonly failed: (report: string) => void;
  },
): Promise<Tally> {
  const tally = new Tally();
  const shares = Math.min(processes, to - from);
  await Promise.all(
    Array.from({ length: shares }, async (_, share) => {
      const child = fork(SHARE.file, { execArgv: SHARE.execArgv, env: { ...process.env, ...env } });
      let isDone = false;
      child.on("message", ({ report, counts }: Told) => {
        if (report !== undefined) failed(report);
        for (const [what, count] of counts ?? []) tally.add(what, count);
        isDone ||= counts !== undefined;
      });
      child.send({ from: from + share, to, every: shares } satisfies Seeds);
      const [code] = await once(child, "exit");
      if (!isDone) throw new Error(`a process of histories ended with ${code}, and its share is not done`);
    }),
  );
  return tally;
}

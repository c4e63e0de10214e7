import { existsSync } from "node:fs";
import { join } from "node:path";
import type { Door } from "../keys.ts";
import { mustRun } from "../processes.ts";
import { scratchFolder } from "../scratch.ts";

const RESTIC = "/usr/bin/restic";

/** Whether this machine has restic. */
export function hasRestic(): boolean {
  return existsSync(RESTIC);
}

/** restic with its repository in a bucket; answers what it printed. */
export function restic({ endpoint, accessKeyId, secretAccessKey }: Door, bucket: string) {
  const home = scratchFolder();
  const env = {
    HOME: home,
    TMPDIR: home,
    RESTIC_REPOSITORY: `s3:${endpoint}/${bucket}/backup`,
    RESTIC_PASSWORD: "all the world is a stage",
    RESTIC_CACHE_DIR: join(home, "cache"),
    AWS_ACCESS_KEY_ID: accessKeyId,
    AWS_SECRET_ACCESS_KEY: secretAccessKey,
  };
  return (...args: string[]): Promise<string> => mustRun([RESTIC, ...args], { env });
}

import { readFileSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { z } from "zod";

/** Who holds a data folder, and where it listens (null while it starts). Only word of it: the lock is another matter. */
const Holder = z.object({ pid: z.int(), endpoint: z.string().nullable() });
export type Holder = z.infer<typeof Holder>;

/** The gateway that uses a data folder, or was killed in it. */
export function readHolder(dataDir: string): Holder | undefined {
  try {
    return Holder.parse(JSON.parse(readFileSync(holderFile(dataDir), "utf8")));
  } catch {
    return undefined;
  }
}

export function writeHolder(dataDir: string, holder: Holder): void {
  writeFileSync(holderFile(dataDir), `${JSON.stringify(holder)}\n`);
}

export function removeHolder(dataDir: string): void {
  rmSync(holderFile(dataDir), { force: true });
}

function holderFile(dataDir: string): string {
  return join(dataDir, "gateway.json");
}

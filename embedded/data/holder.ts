import { readFileSync, rmSync } from "node:fs";
import { join } from "node:path";
import { z } from "zod";
import { keepFile } from "./flush.ts";

/** The gateway that holds a data folder, and its address (null while it starts). For people and other commands: what keeps a second gateway out is the lock. */
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
  keepFile(holderFile(dataDir), { text: `${JSON.stringify(holder)}\n` });
}

export function removeHolder(dataDir: string): void {
  rmSync(holderFile(dataDir), { force: true });
}

/** The file that names it. */
export function holderFile(dataDir: string): string {
  return join(dataDir, "gateway.json");
}

import { isWithin } from "../lib/system-calls.ts";
import type { MountedSecret } from "./executor.ts";

/** A secret, and where a command sees it: absolute, without `.`, `..` and a slash at the end. */
export interface PlannedSecret {
  readonly mounted: MountedSecret;
  readonly path: string;
}

/** A secret can't be shown to a command. */
export class Unmountable extends Error {
  constructor({ name, mountPath }: MountedSecret, why: string) {
    super(`secret "${name}" can't be mounted at ${mountPath}: ${why}`);
  }
}

/** The kernel's own, and what holds the datum. */
const RESERVED = ["/proc", "/sys", "/dev", "/pfs"];
/** Secrets are in the machine's memory: as long as a container lives, or in three processes at once while a jail is made. */
const MAX_BYTES = 8 * 1024 * 1024;

/** Throws Unmountable for what no executor can show. `reserved`: what is taken besides. */
export function refuseUnmountable(secrets: readonly PlannedSecret[], reserved: readonly string[] = []): void {
  let bytes = 0;
  for (const { mounted, path } of secrets) {
    if (path === "/") throw new Unmountable(mounted, "it would hide everything else");
    const taken = [...RESERVED, ...reserved].find((folder) => isWithin(path, folder));
    if (taken) throw new Unmountable(mounted, `nothing can be mounted in ${taken}`);
    const outer = secrets.find((other) => other.mounted !== mounted && isWithin(path, other.path));
    if (outer) throw new Unmountable(mounted, `secret "${outer.mounted.name}" is mounted there`);
    for (const value of mounted.secret.values()) bytes += value.length;
    if (bytes > MAX_BYTES) {
      throw new Unmountable(mounted, `the secrets of a pipeline may hold ${MAX_BYTES} bytes in all`);
    }
  }
}

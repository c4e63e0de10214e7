import { createHash } from "node:crypto";
import { posix } from "node:path";
import type { MountedSecret } from "../../executor.ts";
import { CONTROL } from "../init/init-script.ts";

/** The kernel's own, what holds the datum, and what the agent speaks through. */
const RESERVED = ["/proc", "/sys", "/dev", "/pfs", CONTROL];
/** Secrets are in the machine's memory as long as the container lives. */
const MAX_BYTES = 8 * 1024 * 1024;

/** A secret and where it goes. */
export interface PlannedSecret {
  readonly mounted: MountedSecret;
  /** In the container: absolute, without `.`, `..` and a slash at the end. */
  readonly target: string;
}

export type SecretPlan =
  | {
      readonly ok: true;
      readonly secrets: readonly PlannedSecret[];
      /** The same for the same names, paths and bytes, and for no others. */
      readonly fingerprint: string;
    }
  | { readonly ok: false; readonly reason: string };

/** Plans where secrets go in a container, or says why one can't be shown. */
export function planSecrets(mounts: readonly MountedSecret[]): SecretPlan {
  const secrets = mounts.map((mounted) => ({ mounted, target: normal(mounted.mountPath) }));
  for (const secret of secrets) {
    const why = problemOf(secret, secrets);
    if (why !== undefined) return { ok: false, reason: unmountable(secret.mounted, why) };
  }
  return { ok: true, secrets, fingerprint: fingerprintOf(mounts) };
}

/** Why the datum can't run: one of its secrets can't be shown. */
export function unmountable({ name, mountPath }: MountedSecret, why: string): string {
  return `secret "${name}" can't be mounted at ${mountPath}: ${why}`;
}

function normal(path: string): string {
  const whole = posix.normalize(`${path}/`);
  return whole === "/" ? whole : whole.slice(0, -1);
}

function problemOf({ mounted, target }: PlannedSecret, all: readonly PlannedSecret[]): string | undefined {
  if (target === "/") return "it would hide everything else";
  const reserved = RESERVED.find((folder) => isWithin(target, folder));
  if (reserved !== undefined) return `nothing can be mounted in ${reserved}`;
  const outer = all.find((other) => other.mounted !== mounted && isWithin(target, other.target));
  if (outer) return `secret "${outer.mounted.name}" is mounted there`;
  const key = [...mounted.secret.keys()].find((name) => name.includes("/") || ["", ".", ".."].includes(name));
  if (key !== undefined) return `its key ${JSON.stringify(key)} can't be the name of a file`;
  if (sizeOf(all) > MAX_BYTES) return `the secrets of a pipeline may hold ${MAX_BYTES} bytes in all`;
  return undefined;
}

function isWithin(path: string, folder: string): boolean {
  return path === folder || path.startsWith(`${folder}/`);
}

function sizeOf(secrets: readonly PlannedSecret[]): number {
  let bytes = 0;
  for (const { mounted } of secrets) for (const value of mounted.secret.values()) bytes += value.length;
  return bytes;
}

function fingerprintOf(mounts: readonly MountedSecret[]): string {
  const hash = createHash("sha256");
  for (const { name, mountPath, secret } of mounts) {
    hash.update(JSON.stringify([name, mountPath, secret.size]));
    for (const [key, bytes] of secret) hash.update(JSON.stringify([key, bytes.length])).update(bytes);
  }
  return hash.digest("hex");
}

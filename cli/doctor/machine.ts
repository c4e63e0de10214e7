import { readFile } from "node:fs/promises";
import type { Finding } from "./finding.ts";

interface Machine {
  readonly platform: string;
  /** The kernel's, such as `6.1.0-18-amd64`. */
  readonly release: string;
  readonly arch: string;
  readonly nodeVersion: string;
}

/** That Node is new enough is seen to before any command runs: `bin/sluice.js`. */
export function machineFindings({ platform, release, arch, nodeVersion }: Machine): Finding[] {
  const found = `${platform} ${release}, ${arch}`;
  const system: Finding =
    platform === "linux"
      ? { check: "system", state: "ok", found }
      : {
          check: "system",
          state: "fail",
          found,
          fix: "run the runner on Linux, such as in a virtual machine",
        };
  return [{ check: "node", state: "ok", found: nodeVersion }, system];
}

/** What an ordinary user needs for a private `/pfs`; settings of the kernel, by their paths below `/proc/sys`. */
const NEEDED = [
  {
    path: "kernel/unprivileged_userns_clone",
    refuses: (value: string) => value === "0",
    fix: "sysctl kernel.unprivileged_userns_clone=1",
  },
  {
    path: "user/max_user_namespaces",
    refuses: (value: string) => value === "0",
    fix: "sysctl user.max_user_namespaces=10000",
  },
  {
    // Ubuntu since 23.10. A profile for bwrap that allows it does as well.
    path: "kernel/apparmor_restrict_unprivileged_userns",
    refuses: (value: string) => value === "1",
    fix: "sysctl kernel.apparmor_restrict_unprivileged_userns=0",
  },
] as const;

interface UserNamespaces {
  /** The user who runs the runner. */
  readonly uid: number;
  /** A setting of the kernel, by its path below `/proc/sys`; undefined if this kernel has none of that name. */
  readonly setting: (path: string) => Promise<string | undefined>;
}

/** Whether the kernel lets this user make namespaces, for the process executor. Whether that works is tried elsewhere. */
export async function userNamespacesFinding({ uid, setting }: UserNamespaces): Promise<Finding> {
  const check = "namespaces";
  if (uid === 0) return { check, state: "ok", found: "this user is root, which needs no leave" };
  for (const { path, refuses, fix } of NEEDED) {
    const value = await setting(path);
    if (value === undefined || !refuses(value)) continue;
    const found = `${path.replace("/", ".")} is ${value}: users may not make namespaces`;
    return { check, state: "warn", found, fix: `as root: ${fix}` };
  }
  return { check, state: "ok", found: "the kernel lets users make them" };
}

/** Of this machine. */
export async function kernelSetting(path: string): Promise<string | undefined> {
  const text = await readFile(`/proc/sys/${path}`, "utf8").catch(() => undefined);
  return text?.trim();
}

import { mkdtemp, readFile, realpath, rm, stat } from "node:fs/promises";
import { tmpdir } from "node:os";
import { dirname, join, relative } from "node:path";
import type { RunnerConfig } from "../../runner/agent/config.ts";
import { type TriedWay, tryWays } from "../../runner/examine.ts";
import { reserveOf, type Space, spaceOf } from "../../runner/lib/sizes.ts";
import { showSize } from "../output/output.ts";

/** What one check of `sluice doctor` came to. */
export interface Finding {
  /** What was looked at, such as `docker`. */
  readonly check: string;
  /** `warn`: a runner works without it, or may not for long; `fail`: none works so. */
  readonly state: "ok" | "warn" | "fail";
  /** What is there. */
  readonly found: string;
  /** What to do about it. */
  readonly fix?: string;
}

interface Machine {
  readonly platform: string;
  /** The kernel's, such as `6.1.0-18-amd64`. */
  readonly release: string;
  readonly arch: string;
  readonly nodeVersion: string;
}

/** That Node is new enough is seen to before any command runs: `bin/sluice.js`. */
export function machineFindings({ platform, release, arch, nodeVersion }: Machine): Finding[] {
  const check = "system";
  const found = `${platform} ${release}, ${arch}`;
  const fix = "run the runner on Linux, such as in a virtual machine";
  return [
    { check: "node", state: "ok", found: nodeVersion },
    platform === "linux" ? { check, state: "ok", found } : { check, state: "fail", found, fix },
  ];
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

/** Each way that `--executor` allows, really tried. One is needed; `auto` does not take processes, which are tried all the same. */
export async function executorFindings(
  config: Pick<RunnerConfig, "executor" | "node">,
  folder: string,
): Promise<Finding[]> {
  const ways = await tryWays({ ...config, folder });
  const isAllowed = ({ name }: TriedWay) =>
    config.executor === name || (config.executor === "auto" && name !== "process");
  const taken = ways.find((way) => way.works && isAllowed(way));
  return ways.map((way): Finding => {
    const { name, found, works } = way;
    // One way is all that a runner needs, as in the image, which has no engine of its own and whose rights make no namespaces.
    if (!works && taken) {
      return { check: name, state: "ok", found: `not needed, since ${taken.name} runs commands (${found})` };
    }
    if (!works) return { check: name, state: "fail", found, fix: FIXES[name] };
    if (taken || isAllowed(way)) return { check: name, state: "ok", found };
    return { check: name, state: "warn", found: `${found}; but they must be asked for`, fix: ASK_FOR_IT };
  });
}

const ASK_FOR_IT = "start the runner with --executor process, if commands may have its rights";

const FIXES = {
  docker:
    "install Docker (Debian: apt-get install docker.io) and add the runner's user to the group docker; a socket elsewhere: DOCKER_HOST; in a container: -v /var/run/docker.sock:/var/run/docker.sock",
  podman:
    "install Podman (Debian: apt-get install podman) and start its service: systemctl enable --now podman.socket; a socket elsewhere: CONTAINER_HOST; in a container: -v /run/podman/podman.sock:/run/podman/podman.sock",
  process: "install bubblewrap (Debian: apt-get install bubblewrap); see also namespaces",
} as const;

/** A folder to try things in, below the place of the runner's data. */
export interface TryingPlace {
  readonly folder: string;
  readonly finding: Finding;
  remove(): Promise<void>;
}

/** Makes a folder in the data folder, or if there is none yet, in the folder that it would be made in. */
export async function openTryingPlace(
  dataDir: string,
  { cacheBytes }: { readonly cacheBytes: number },
): Promise<TryingPlace> {
  const place = await nearest(dataDir);
  try {
    const folder = await mkdtemp(join(place, ".sluice-doctor-"));
    // Whoever makes room must know where: links on the way, as in the image, are followed.
    const followed = join(await realpath(place), relative(place, dataDir));
    const finding = spaceFinding(await spaceOf(folder), { dataDir: followed, cacheBytes });
    return { folder, finding, remove: () => rm(folder, { recursive: true, force: true }) };
  } catch (error) {
    const folder = await mkdtemp(join(tmpdir(), "sluice-doctor-"));
    const found = `${dataDir} can't be written to: ${error instanceof Error ? error.message : String(error)}`;
    const fix = "name another folder with --data, or give it to this user";
    const finding = { check: CHECK, state: "fail", found, fix } as const;
    return { folder, finding, remove: () => rm(folder, { recursive: true, force: true }) };
  }
}

/** The folder, or the nearest of those that it is in that is there. */
async function nearest(folder: string): Promise<string> {
  const there = await stat(folder).then(
    () => true,
    () => false,
  );
  return there || folder === dirname(folder) ? folder : nearest(dirname(folder));
}

const CHECK = "data";

/** What is free against what the runner keeps free in any case, and what its cache may take. */
export function spaceFinding(
  { freeBytes, totalBytes }: Space,
  { dataDir, cacheBytes }: { readonly dataDir: string; readonly cacheBytes: number },
): Finding {
  const found = `${dataDir}: ${showSize(freeBytes)} free of ${showSize(totalBytes)}`;
  const reserve = reserveOf(totalBytes);
  if (freeBytes < reserve) {
    const fix = `make room, or name another folder with --data: below ${showSize(reserve)} datums are stopped. Of a gateway on the same disk, 'sluice branch keep' and 'sluice file erase --all-versions' free what history keeps; 'sluice rm' alone frees nothing`;
    return { check: CHECK, state: "fail", found, fix };
  }
  if (freeBytes < reserve + cacheBytes) {
    const fix = `the cache may take ${showSize(cacheBytes)}: give it less with --cache-size, unless it is what fills the disk`;
    return { check: CHECK, state: "warn", found, fix };
  }
  return { check: CHECK, state: "ok", found };
}

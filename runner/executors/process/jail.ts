import type { Devices, FolderEntries, HiddenPaths } from "./machine.ts";
import type { SecretMounts } from "./secret-mounts.ts";

/**
 * A tool that starts a command in the machine's own root with a private `/pfs`, a private `/dev` and its own process
 * ids. The machine's `/sys`, and what is the kernel's in `/proc`, are read-only in there, for root too. No device opens
 * but those of its `/dev`.
 */
export interface Jail extends JailTerms {
  readonly tool: string;
  /** Makes the files that every launch from there needs. */
  prepare(place: Place): Promise<void>;
  launch(request: LaunchRequest): Promise<Launch>;
  /** Understands what the tool wrote to file descriptor 3; `log` is what came on stdout and stderr. */
  read(said: { report: string; log: string }): Started;
}

/** What a jail shows of the machine. */
interface JailTerms {
  /** The node's data folder: absolute, and without links on the way. */
  readonly dataDir: string;
  /** What commands do not see, that folder among it: absolute paths, whether they are there or not. */
  readonly hidden: readonly string[];
  /** Names in the machine's `/dev` that commands see besides the usual ones and the GPUs, whether they are there or not. */
  readonly devices: readonly string[];
}

/** A jail's terms, and the machine that it is made on. */
export interface MachineTerms extends JailTerms {
  readonly root: FolderEntries;
  /** What is read-only in `/proc`. */
  readonly settings: readonly string[];
}

/** What the commands of one worker share. */
export interface Place {
  /** The worker's folder. */
  readonly dir: string;
  /** Folders of the machine, each a mount of its own, that commands may read and not change. */
  readonly readOnly: readonly string[];
}

export interface LaunchRequest extends Place {
  readonly pfs: string;
  readonly cmd: readonly string[];
  /** See Command. */
  readonly workingDir?: string;
  readonly env: Readonly<Record<string, string>>;
  /** What `hidden` of the jail leads to now. */
  readonly hidden: HiddenPaths;
  /** What `devices` of the jail names, and the GPUs, as far as they are there now. */
  readonly devices: Devices;
  readonly secrets: SecretMounts;
}

/** Plain data: it crosses to the launcher's process. */
export interface Launch {
  readonly file: string;
  readonly args: readonly string[];
  readonly env: Readonly<Record<string, string>>;
  /** What the tool reads from file descriptor FIRST_DATA_FD and those after it, each to its end, in base64. It is not among the arguments, where others could see it. */
  readonly data: readonly string[];
}

export const FIRST_DATA_FD = 4;

export interface Started {
  /**
   * `no-folder`: the working directory can't be entered; `no-command`: the command itself could not be executed;
   * `no-jail`: the tool did not get that far.
   */
  readonly kind: "started" | "no-folder" | "no-command" | "no-jail";
  /** The process, by this machine's ids, whose end is the end of all the others; null if there is none, or if the tool waits for it itself. */
  readonly init: number | null;
}

/** Whether the dynamic loader obeys a variable: it is meant for the command, and must not act on the tool that starts it. */
export function isLoaderVariable(name: string): boolean {
  return name.startsWith("LD_");
}

/**
 * The variables of a command that it gets. GLIBC_TUNABLES is none of them: the loader reads it in every program on the
 * way, before that has given up its rights, and has been talked into code of the caller's by it (CVE-2023-4911).
 */
export function permitted(env: Readonly<Record<string, string>>): Readonly<Record<string, string>> {
  const { GLIBC_TUNABLES: _, ...others } = env;
  return others;
}

/**
 * What a command may do as root, by the names of capabilities(7): what container engines let it do by default, but for
 * making devices, which engines then keep from being opened by a rule for each device. Above all not among them:
 * `sys_admin`, which could make the inputs writable again, `linux_immutable`, with which it could leave files that
 * can't be removed, and `dac_read_search`, which opens files by number, past every mount.
 */
export const ROOT_CAPABILITIES: readonly string[] = [
  "audit_write",
  "chown",
  "dac_override",
  "fowner",
  "fsetid",
  "kill",
  "net_bind_service",
  "net_raw",
  "setfcap",
  "setgid",
  "setpcap",
  "setuid",
  "sys_chroot",
];

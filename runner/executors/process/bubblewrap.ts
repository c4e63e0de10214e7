import { z } from "zod";
import { isWithin } from "../../lib/system-calls.ts";
import {
  FIRST_DATA_FD,
  isLoaderVariable,
  type Jail,
  type Launch,
  type LaunchRequest,
  type MachineTerms,
  ROOT_CAPABILITIES,
  type Started,
} from "./jail.ts";
import type { HiddenPaths } from "./machine.ts";
import type { OpenedFolder, SecretFolder, SecretMounts } from "./secret-mounts.ts";

export interface BubblewrapOptions extends MachineTerms {
  /** Absolute path of `bwrap`. */
  readonly bwrap: string;
  readonly superuser: "yes" | "no";
  /** Whether it can say which permissions a folder gets that it makes: not before version 0.5. */
  readonly permissions: "yes" | "no";
}

/**
 * Bubblewrap around a rebuilt root: every entry of `/` is bound one by one onto an empty root, in which `/pfs` can then
 * be made. Never `--bind / /`: for root that makes `/pfs` on the machine itself, for anybody else it fails. And never
 * `--dev-bind` but in `/dev`: `--bind` keeps devices from being opened, on the mounts below it as well.
 * Works unprivileged and as root.
 */
export function bubblewrap(options: BubblewrapOptions): Jail {
  const common = { bwrap: options.bwrap, root: rootArguments(options), kernel: kernelArguments(options) };
  return {
    tool: "bubblewrap",
    dataDir: options.dataDir,
    hidden: options.hidden,
    devices: options.devices,
    prepare: async () => {},
    launch: async (request) => launch(request, common),
    read,
  };
}

/** The same for every command. */
interface Common extends Pick<BubblewrapOptions, "bwrap"> {
  /** The machine's root. */
  readonly root: readonly string[];
  /** What a command may see and do of the kernel. */
  readonly kernel: readonly string[];
}

function rootArguments({ root }: BubblewrapOptions): string[] {
  const bind = (name: string) => [name === "sys" ? "--ro-bind-try" : "--bind-try", `/${name}`, `/${name}`];
  return [
    ...root.links.flatMap(({ name, target }) => ["--symlink", target, `/${name}`]),
    // An entry may go away while the runner lives.
    ...[...root.folders, ...root.files].flatMap(bind),
  ];
}

function kernelArguments({ settings, superuser, permissions }: BubblewrapOptions): string[] {
  return [
    ...["--unshare-pid", "--proc", "/proc"],
    // The usual devices, and a /dev/pts of its own. What it makes of /dev/shm, a command of another user can't write to.
    ...["--dev", "/dev", ...(permissions === "yes" ? ["--perms", "1777"] : []), "--tmpfs", "/dev/shm"],
    // Bubblewrap covers some of these itself, but not /proc/sys: access(2) says even to root that nobody may write there.
    ...settings.flatMap((path) => ["--ro-bind-try", path, path]),
    ...["--die-with-parent", "--json-status-fd", "3"],
    ...(superuser === "yes" ? ["--cap-drop", "ALL", ...ROOT_CAPABILITIES.flatMap(kept)] : []),
  ];
}

function kept(capability: string): string[] {
  return ["--cap-add", `CAP_${capability.toUpperCase()}`];
}

function launch(
  { readOnly, pfs, cmd, workingDir = "/", env, hidden, devices, secrets }: LaunchRequest,
  common: Common,
): Launch {
  const variables = Object.entries(env);
  const loader = variables.filter(([name]) => isLoaderVariable(name));
  const plain = variables.filter(([name]) => !isLoaderVariable(name));
  return {
    file: common.bwrap,
    args: [
      ...common.root,
      ...readOnly.flatMap((folder) => ["--ro-bind-try", folder, folder]),
      ...coveringArguments(secrets, hidden),
      ...common.kernel,
      ...[...devices.folders, ...devices.files].flatMap((name) => [
        ...["--dev-bind-try", `/dev/${name}`, `/dev/${name}`],
      ]),
      ...["--ro-bind", pfs, "/pfs", "--bind", `${pfs}/out`, "/pfs/out"],
      ...["--chdir", workingDir],
      ...loader.flatMap(([name, value]) => ["--setenv", name, value]),
      "--",
      ...cmd,
    ],
    env: Object.fromEntries(plain),
    data: secrets.folders.flatMap(({ files }) =>
      files.map(({ bytes }) => Buffer.from(bytes).toString("base64")),
    ),
  };
}

/**
 * What is hidden, and secrets. Opened folders come first, because they show again what is in them; secrets come last,
 * because one may be in a folder that is hidden. A hidden folder is an empty one, in the end read-only: files in it
 * would fill the machine's memory.
 */
function coveringArguments({ opened, folders }: SecretMounts, hidden: HiddenPaths): string[] {
  let descriptor = FIRST_DATA_FD;
  const isCovered = (path: string) => folders.some((secret) => isWithin(path, secret.path));
  const hiddenFolders = hidden.folders.filter((path) => !isCovered(path));
  const hiddenFiles = hidden.files.filter((path) => !isCovered(path));
  const secretFolder = ({ path, files }: SecretFolder) => [
    ...["--tmpfs", path],
    // Bubblewrap writes what it reads there into memory, mode 0600, and binds that.
    ...files.flatMap(({ name }) => ["--ro-bind-data", String(descriptor++), `${path}/${name}`]),
    ...["--remount-ro", path],
  ];
  return [
    ...opened.flatMap(openedFolder),
    ...hiddenFolders.flatMap((path) => ["--tmpfs", path]),
    ...hiddenFiles.flatMap((path) => ["--ro-bind", "/dev/null", path]),
    ...folders.flatMap(secretFolder),
    ...hiddenFolders.flatMap((path) => ["--remount-ro", path]),
  ];
}

function openedFolder({ path, mode, entries }: OpenedFolder): string[] {
  return [
    // 0755 is the default of every version; older ones know no --perms.
    ...(mode === 0o755 ? [] : ["--perms", mode.toString(8)]),
    ...["--tmpfs", path],
    ...entries.links.flatMap(({ name, target }) => ["--symlink", target, `${path}/${name}`]),
    ...[...entries.folders, ...entries.files].flatMap((name) => [
      ...["--bind-try", `${path}/${name}`, `${path}/${name}`],
    ]),
  ];
}

const StatusLine = z.object({ "child-pid": z.int().optional(), "exit-code": z.int().optional() });

// One JSON object a line: the first when the jail is made, the one with the exit code only if the command was executed.
function read({ report, log }: { report: string; log: string }): Started {
  const lines = report.split("\n").slice(0, -1);
  const status = Object.assign({}, ...lines.map((line) => StatusLine.parse(JSON.parse(line))));
  return { kind: kindOf(status, log), init: status["child-pid"] ?? null };
}

function kindOf(status: z.infer<typeof StatusLine>, log: string): Started["kind"] {
  if (status["exit-code"] !== undefined) return "started";
  if (/^bwrap: Can't chdir to /m.test(log)) return "no-folder";
  return /^bwrap: execvp /m.test(log) ? "no-command" : "no-jail";
}

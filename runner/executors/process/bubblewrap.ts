import { z } from "zod";
import {
  FIRST_DATA_FD,
  isLoaderVariable,
  type Jail,
  type Launch,
  type LaunchRequest,
  ROOT_CAPABILITIES,
  type Started,
} from "./jail.ts";
import type { FolderEntries } from "./root-entries.ts";
import type { OpenedFolder, SecretFolder, SecretMounts } from "./secret-mounts.ts";

export interface BubblewrapOptions {
  /** Absolute path of `bwrap`. */
  readonly bwrap: string;
  readonly root: FolderEntries;
  /** The node's data folder: hidden from commands, so that none changes the cache by mistake. */
  readonly dataDir: string;
  readonly superuser: "yes" | "no";
}

/**
 * Bubblewrap around a rebuilt root: every entry of `/` is bound one by one onto an empty root, in which `/pfs` can then
 * be made. Never `--dev-bind / /`: for root that makes `/pfs` on the machine itself, for anybody else it fails.
 * Works unprivileged and as root.
 */
export function bubblewrap(options: BubblewrapOptions): Jail {
  const common = commonArguments(options);
  return {
    tool: "bubblewrap",
    dataDir: options.dataDir,
    prepare: async () => {},
    launch: (request) => launch(request, { options, common }),
    read,
  };
}

function commonArguments({ root, dataDir, superuser }: BubblewrapOptions): string[] {
  return [
    ...root.links.flatMap(({ name, target }) => ["--symlink", target, `/${name}`]),
    // An entry may go away while the runner lives.
    ...[...root.folders, ...root.files].flatMap((name) => ["--dev-bind-try", `/${name}`, `/${name}`]),
    ...hidden(dataDir),
    ...["--unshare-pid", "--proc", "/proc"],
    ...["--die-with-parent", "--json-status-fd", "3"],
    ...(superuser === "yes" ? ["--cap-drop", "ALL", ...ROOT_CAPABILITIES.flatMap(kept)] : []),
  ];
}

/** Hides a folder behind an empty one. That one is read-only: files in it would fill the machine's memory. */
function hidden(folder: string): string[] {
  return ["--tmpfs", folder, "--remount-ro", folder];
}

function kept(capability: string): string[] {
  return ["--cap-add", `CAP_${capability.toUpperCase()}`];
}

function launch(
  { readOnly, pfs, cmd, workingDir = "/", env, secrets }: LaunchRequest,
  { options, common }: { options: BubblewrapOptions; common: string[] },
): Launch {
  const variables = Object.entries(env);
  const loader = variables.filter(([name]) => isLoaderVariable(name));
  const plain = variables.filter(([name]) => !isLoaderVariable(name));
  return {
    file: options.bwrap,
    args: [
      ...common,
      ...readOnly.flatMap((folder) => ["--ro-bind-try", folder, folder]),
      ...secretArguments(secrets, options),
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

function secretArguments({ opened, folders }: SecretMounts, { dataDir }: BubblewrapOptions): string[] {
  let descriptor = FIRST_DATA_FD;
  const secretFolder = ({ path, files }: SecretFolder) => [
    ...["--tmpfs", path],
    // Bubblewrap writes what it reads there into memory, mode 0600, and binds that.
    ...files.flatMap(({ name }) => ["--ro-bind-data", String(descriptor++), `${path}/${name}`]),
    ...["--remount-ro", path],
  ];
  return [
    ...opened.flatMap(openedFolder),
    // An opened folder may have shown it again.
    ...(opened.length > 0 ? hidden(dataDir) : []),
    ...folders.flatMap(secretFolder),
  ];
}

function openedFolder({ path, mode, entries }: OpenedFolder): string[] {
  return [
    // 0755 is the default of every version; older ones know no --perms.
    ...(mode === 0o755 ? [] : ["--perms", mode.toString(8)]),
    ...["--tmpfs", path],
    ...entries.links.flatMap(({ name, target }) => ["--symlink", target, `${path}/${name}`]),
    ...[...entries.folders, ...entries.files].flatMap((name) => [
      ...["--dev-bind-try", `${path}/${name}`, `${path}/${name}`],
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

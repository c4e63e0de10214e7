import { z } from "zod";
import { isLoaderVariable, type Jail, type Launch, type LaunchRequest, type Started } from "./jail.ts";
import type { RootEntries } from "./root-entries.ts";

export interface BubblewrapOptions {
  /** Absolute path of `bwrap`. */
  readonly bwrap: string;
  readonly root: RootEntries;
  /** The node's data folder: hidden from commands, so that none changes the cache by mistake. */
  readonly dataDir: string;
  readonly superuser: "yes" | "no";
}

/**
 * Bubblewrap around a rebuilt root: every entry of `/` is bound one by one onto an empty root, where `/pfs` can then
 * be made. Never `--dev-bind / /`: as root that makes `/pfs` on the machine itself, as anybody else it fails.
 * Works unprivileged and as root.
 */
export function bubblewrap(options: BubblewrapOptions): Jail {
  const common = commonArguments(options);
  return {
    tool: "bubblewrap",
    prepare: async () => {},
    launch: (request) => launch(request, { bwrap: options.bwrap, common }),
    read,
  };
}

function commonArguments({ root, dataDir, superuser }: BubblewrapOptions): string[] {
  return [
    ...root.links.flatMap(({ name, target }) => ["--symlink", target, `/${name}`]),
    // An entry may go away while the runner lives.
    ...[...root.folders, ...root.files].flatMap((name) => ["--dev-bind-try", `/${name}`, `/${name}`]),
    ...["--tmpfs", dataDir],
    ...["--unshare-pid", "--proc", "/proc"],
    ...["--die-with-parent", "--json-status-fd", "3"],
    // As root, this capability could make the inputs writable again; container engines withhold it as well.
    ...(superuser === "yes" ? ["--cap-drop", "CAP_SYS_ADMIN"] : []),
  ];
}

function launch(
  { pfs, cmd, workingDir = "/", env }: LaunchRequest,
  { bwrap, common }: { bwrap: string; common: string[] },
): Launch {
  const variables = Object.entries(env);
  const loader = variables.filter(([name]) => isLoaderVariable(name));
  const plain = variables.filter(([name]) => !isLoaderVariable(name));
  return {
    file: bwrap,
    args: [
      ...common,
      ...["--ro-bind", pfs, "/pfs", "--bind", `${pfs}/out`, "/pfs/out"],
      ...["--chdir", workingDir],
      ...loader.flatMap(([name, value]) => ["--setenv", name, value]),
      "--",
      ...cmd,
    ],
    env: Object.fromEntries(plain),
  };
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

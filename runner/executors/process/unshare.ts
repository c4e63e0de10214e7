import { mkdir, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { isWithin, quoted } from "../../lib/system-calls.ts";
import {
  FIRST_DATA_FD,
  type Jail,
  type Launch,
  type LaunchRequest,
  type MachineTerms,
  type Place,
  ROOT_CAPABILITIES,
  type Started,
} from "./jail.ts";
import {
  DEVICE_LINKS,
  type Devices,
  type FolderEntries,
  type HiddenPaths,
  mountsIn,
  USUAL_DEVICES,
} from "./machine.ts";
import type { OpenedFolder, SecretFolder, SecretMounts } from "./secret-mounts.ts";

/** Absolute paths of util-linux's tools, and of the POSIX ones. */
export type UnshareTools = Readonly<Record<(typeof UNSHARE_TOOLS)[number], string>>;
export const UNSHARE_TOOLS = [
  ...(["unshare", "setpriv", "mount", "umount", "pivot_root"] as const),
  ...(["sh", "env", "mkdir", "ln", "dd"] as const),
] as const;

export interface UnshareOptions extends MachineTerms {
  readonly tools: UnshareTools;
  /** The user who runs the agent. */
  readonly uid: number;
  readonly gid: number;
}

/**
 * The fallback without bubblewrap: util-linux makes the namespaces, and a shell script in them builds the root on a
 * tmpfs, moves into it, and runs the command as its child. Slower, since each step is a process of its own.
 */
export function unshare(options: UnshareOptions): Jail {
  return {
    tool: "unshare",
    dataDir: options.dataDir,
    hidden: options.hidden,
    devices: options.devices,
    prepare: (place) => prepare(place, options),
    launch: (request) => launch(request, options),
    read: ({ report }) => read(report),
  };
}

async function prepare({ dir, readOnly }: Place, { root, settings }: UnshareOptions): Promise<void> {
  await mkdir(join(dir, "root"));
  const target = (path: string) => escaped(join(dir, "root", path));
  const binds = [...root.folders, ...root.files].map(
    (name) => `${escaped(`/${name}`)} ${target(name)} none rbind 0 0`,
  );
  // `ro` is only for the mount itself, so each mount below /sys is laid over what came with it. One may go away.
  const sys = (await mountsIn("/sys")).map(
    ({ path, flags }) =>
      `${escaped(path)} ${target(path)} none ${["rbind", "ro", "nofail", ...flags].join(",")} 0 0`,
  );
  const devices = USUAL_DEVICES.map((name) => `/dev/${name} ${target(`dev/${name}`)} none bind 0 0`);
  const own = [
    `devpts ${target("dev/pts")} devpts newinstance,ptmxmode=0666,mode=0620,nosuid,noexec 0 0`,
    `sluice ${target("dev/shm")} tmpfs mode=1777,nosuid,nodev 0 0`,
    `proc ${target("proc")} proc defaults 0 0`,
  ];
  const kept = readOnly.map((path) => `${escaped(path)} ${target(path)} none bind,ro 0 0`);
  const kernel = settings.map((path) => `${target(path)} ${target(path)} none bind,ro,nofail 0 0`);
  await writeFile(
    join(dir, "fstab"),
    [...binds, ...sys, ...devices, ...kept, ...own, ...kernel, ""].join("\n"),
  );
}

/**
 * The script's arguments are the worker's folder, the folder for `/pfs`, the PATH and the name of the command, its
 * working directory, and then the words that run it. It says "no-folder", "missing" or "started" on file descriptor 3.
 */
function scriptOf({ tools, root }: UnshareOptions, covering: readonly string[]): string {
  const inDev = (name: string) => `dev/${name}`;
  const folders = [...root.folders, "dev", "dev/pts", "dev/shm", "pfs", "proc", ".old"];
  const files = [...root.files, ...USUAL_DEVICES.map(inDev)];
  const links = [...root.links, ...DEVICE_LINKS.map(({ name, target }) => ({ name: inDev(name), target }))];
  return [
    "set -e",
    "dir=$1 pfs=$2 path=$3 name=$4 start=$5; shift 5",
    `${tools.mount} -t tmpfs -o mode=0755,nodev sluice "$dir/root"`,
    'cd "$dir/root"',
    `${tools.mkdir} -- ${folders.map(quoted).join(" ")}`,
    ...files.map((name) => `: > ${quoted(name)}`),
    ...links.map(({ name, target }) => `${tools.ln} -s -- ${quoted(target)} ${quoted(name)}`),
    `${tools.mount} -a -T "$dir/fstab"`,
    // The terminal of a person. Without a name for it in here, it would be said not to be one.
    `if test -t 1; then : > dev/console && ${tools.mount} --bind /proc/self/fd/1 dev/console; fi`,
    ...covering,
    `${tools.mount} -o bind,ro "$pfs" pfs`,
    `${tools.mount} --bind "$pfs/out" pfs/out`,
    `${tools.pivot_root} . .old`,
    "cd /",
    `${tools.umount} -l /.old`,
    'cd -- "$start" 2>/dev/null || { echo no-folder >&3; exit 127; }',
    'runs() { case $1 in */*) test -f "$1" && test -x "$1" ;; *) command -v -- "$1" >/dev/null ;; esac; }',
    '(PATH=$path; runs "$name") || { echo missing >&3; exit 127; }',
    "echo started >&3",
    // As a child: process 1 of a pid namespace is deaf to signals. Whatever it leaves behind ends with this shell.
    'set +e; "$@" 3>&-',
    "exit $?",
  ].join("\n");
}

async function launch(
  { dir, pfs, cmd, workingDir = "/", env, hidden, devices, secrets }: LaunchRequest,
  options: UnshareOptions,
): Promise<Launch> {
  const { tools, uid } = options;
  const covering = await coveringScript(
    { hidden, devices, secrets },
    { ...options, target: join(dir, "root") },
  );
  const script = scriptOf(options, covering);
  const name = cmd[0] ?? "";
  const variables = Object.entries(env).map(([key, value]) => `${key}=${value}`);
  return {
    file: tools.setpriv,
    args: [
      // If the runner dies, `unshare` dies, and with it process 1 of the namespace.
      ...["--pdeathsig", "KILL", tools.unshare, ...(uid === 0 ? [] : ["--user", "--map-root-user"])],
      ...["--mount", "--pid", "--fork", "--kill-child"],
      ...[tools.sh, "-c", script, "sluice", dir, pfs, env.PATH ?? "", name, workingDir],
      ...privileges(options),
      ...[tools.env, "-i", ...variables],
      // env takes a word with "=" for one more variable.
      ...(name.includes("=") ? [tools.sh, "-c", 'exec "$@"', "sh"] : []),
      ...cmd,
    ],
    env: {},
    data: secretData(secrets),
  };
}

/** Root keeps some capabilities, and no program gives it more. Any other user gets the own id back, and with it loses all. */
function privileges({ tools, uid, gid }: UnshareOptions): string[] {
  if (uid === 0) {
    const kept = ["-all", ...ROOT_CAPABILITIES.map((name) => `+${name}`)].join(",");
    return [tools.setpriv, "--no-new-privs", `--bounding-set=${kept}`, `--inh-caps=-all`, "--"];
  }
  return [tools.unshare, "--user", `--map-user=${uid}`, `--map-group=${gid}`, "--"];
}

function read(report: string): Started {
  if (report.startsWith("started")) return { kind: "started", init: null };
  if (report.startsWith("no-folder")) return { kind: "no-folder", init: null };
  return { kind: report.startsWith("missing") ? "no-command" : "no-jail", init: null };
}

interface RootScript {
  readonly tools: UnshareTools;
  /** The machine's own. */
  readonly root: FolderEntries;
  /** The folder in which the root is built: absolute, and the script's present folder. */
  readonly target: string;
}

/** What the tools read: the files of all secrets, one after the other. */
function secretData({ folders }: SecretMounts): string[] {
  if (folders.length === 0) return [];
  const files = folders.flatMap((folder) => folder.files.map(({ bytes }) => bytes));
  return [Buffer.concat(files).toString("base64")];
}

/**
 * The lines that hide, and show devices and secrets, in the root that is being built. Opened folders come first, because
 * they show again what is in them; secrets come last, because one may be in a folder that is hidden.
 */
async function coveringScript(
  { hidden, devices, secrets: { opened, folders } }: Pick<LaunchRequest, "hidden" | "devices" | "secrets">,
  script: RootScript,
): Promise<string[]> {
  const { tools } = script;
  const seen = seenOf(hidden, { covers: folders, root: script.root });
  const isShown = (path: string) => folders.some((secret) => isWithin(secret.path, path));
  return [
    ...closeDevices(script),
    ...(await Promise.all(opened.map((folder) => openFolder(folder, script)))).flat(),
    ...(opened.length > 0 ? closeDevices(script) : []),
    ...showDevices(devices, script),
    ...hide(seen, { isShown, script }),
    ...folders.flatMap((folder) => fillFolder(folder, tools)),
    ...seen.folders.filter(isShown).map((path) => remountReadOnly(path, tools)),
    ...(folders.length > 0 ? [`exec ${FIRST_DATA_FD}<&-`] : []),
  ];
}

/**
 * Keeps devices from being opened in all that is there by now. What is mounted is asked of the kernel at that moment:
 * mounts of the machine come and go, but here none does any more. What a mount forbids besides stays so.
 */
function closeDevices({ tools, target }: RootScript): string[] {
  const at = quoted(escaped(target));
  const others = ["dev", "proc", "sys"].flatMap((name) => [`${at}/${name}`, `${at}/${name}/*`]).join("|");
  return [
    "while read -r _ _ _ _ at options _; do case $at in",
    `${others}) ;;`,
    `${at}/*) case ,$options, in *,nodev,*) ;; *) printf '%s\\n' "none $at none remount,bind,nodev,$options 0 0" ;; esac ;;`,
    "esac; done < /proc/self/mountinfo > .old/table",
    // It fails for a mount that another one covers, that the user can't reach, or whose server is away: no command gets there.
    `${tools.mount} -a -T .old/table 2>/dev/null || :`,
    ": > .old/table",
  ];
}

/** Shows those devices of the machine that not every command has. One may go away meanwhile. */
function showDevices({ folders, files }: Devices, { tools, target }: RootScript): string[] {
  const path = (name: string) => `/dev/${name}`;
  const table = [...folders, ...files].map(
    (name) => `${escaped(path(name))} ${escaped(join(target, path(name)))} none rbind,nofail 0 0`,
  );
  return [
    ...(folders.length > 0
      ? [`${tools.mkdir} -- ${folders.map((name) => below(path(name))).join(" ")}`]
      : []),
    ...files.map((name) => `: > ${below(path(name))}`),
    ...mountAll(table, tools),
  ];
}

/** Mounts what the lines say, as fstab(5) has them. The file of them is seen in there when the old root has left its place. */
function mountAll(table: readonly string[], { mount }: UnshareTools): string[] {
  if (table.length === 0) return [];
  return [
    `printf '%s\\n' ${table.map(quoted).join(" ")} > .old/table`,
    `${mount} -a -T .old/table`,
    ": > .old/table",
  ];
}

/** Of what is hidden, that which the root being built would show. */
function seenOf(
  { folders, files }: HiddenPaths,
  { covers, root }: { covers: readonly SecretFolder[]; root: FolderEntries },
): HiddenPaths {
  const entries = new Set([...root.folders, ...root.files]);
  const isSeen = (path: string) =>
    entries.has(path.split("/")[1] ?? "") && !covers.some((secret) => isWithin(path, secret.path));
  return { folders: folders.filter(isSeen), files: files.filter(isSeen) };
}

/** A hidden folder is an empty one. It is read-only, if no secret is to be shown in it: files in it would fill the machine's memory. */
function hide(
  { folders, files }: HiddenPaths,
  { isShown, script: { tools, target } }: { isShown: (path: string) => boolean; script: RootScript },
): string[] {
  const over = (path: string) => escaped(join(target, path));
  const table = [
    ...folders.map((path) => `sluice ${over(path)} tmpfs ${isShown(path) ? "mode=0755" : "ro"} 0 0`),
    ...files.map((path) => `/dev/null ${over(path)} none bind 0 0`),
  ];
  return mountAll(table, tools);
}

/** A path as fstab(5) wants its fields. */
function escaped(path: string): string {
  return path.replace(/[ \t\n\\]/g, (char) => `\\${char.charCodeAt(0).toString(8).padStart(3, "0")}`);
}

/** The path in the root that is being built, as a word of the script. */
function below(path: string): string {
  return quoted(`.${path}`);
}

async function openFolder({ path, mode, entries }: OpenedFolder, script: RootScript): Promise<string[]> {
  const { tools, target } = script;
  const inside = (name: string) => below(join(path, name));
  const mounted = new Set((await mountsIn(path)).map((mount) => mount.path));
  const names = [...entries.folders, ...entries.files];
  const isMount = (name: string) => mounted.has(join(path, name));
  // An entry may go away meanwhile.
  const binds = names
    .filter((name) => !isMount(name))
    .map((name) => `${escaped(join(path, name))} ${escaped(join(target, path, name))} none rbind,nofail 0 0`);
  // A table of mounts passes over what has been mounted at the same place before, though it is covered.
  const again = names.filter(isMount).map((name) => {
    const source = quoted(join(path, name));
    return `${tools.mount} --rbind -- ${source} ${inside(name)} || test ! -e ${source}`;
  });
  return [
    `${tools.mount} -t tmpfs -o mode=${mode.toString(8)} sluice ${below(path)}`,
    ...(entries.folders.length > 0 ? [`${tools.mkdir} -- ${entries.folders.map(inside).join(" ")}`] : []),
    ...entries.files.map((name) => `: > ${inside(name)}`),
    ...entries.links.map(({ name, target }) => `${tools.ln} -s -- ${quoted(target)} ${inside(name)}`),
    ...mountAll(binds, tools),
    ...again,
  ];
}

function fillFolder({ path, files }: SecretFolder, tools: UnshareTools): string[] {
  return [
    `${tools.mkdir} -p -- ${below(path)}`,
    `${tools.mount} -t tmpfs -o mode=0755 sluice ${below(path)}`,
    ...files.map(({ name, bytes }) => fillFile({ path: join(path, name), size: bytes.length }, tools)),
    remountReadOnly(path, tools),
  ];
}

/** Remounts the bind mount: without privileges the file system itself can't be changed any more. */
function remountReadOnly(path: string, { mount }: UnshareTools): string {
  return `${mount} -o remount,bind,ro ${below(path)}`;
}

/** The lines that fill one file. dd must read exactly `size` bytes: the next ones are the next file's. */
function fillFile({ path, size }: { path: string; size: number }, { dd }: UnshareTools): string {
  if (size === 0) return `(umask 0377; : > ${below(path)})`;
  return `(umask 0377; ${dd} bs=${size} count=1 iflag=fullblock <&${FIRST_DATA_FD} > ${below(path)} 2>/dev/null)`;
}

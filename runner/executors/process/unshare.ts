import { mkdir, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { quoted } from "../quoted.ts";
import { DEVICE_LINKS, type Devices, USUAL_DEVICES } from "./devices.ts";
import { type HiddenPaths, isWithin } from "./hidden.ts";
import {
  FIRST_DATA_FD,
  type Jail,
  type Launch,
  type LaunchRequest,
  ROOT_CAPABILITIES,
  type Started,
} from "./jail.ts";
import { type Mount, mountsIn } from "./kernel-settings.ts";
import type { FolderEntries } from "./root-entries.ts";
import type { OpenedFolder, SecretFolder, SecretMounts } from "./secret-mounts.ts";

/** Absolute paths of util-linux's tools, and of the POSIX ones. */
export interface UnshareTools {
  readonly unshare: string;
  readonly setpriv: string;
  readonly mount: string;
  readonly umount: string;
  readonly pivot_root: string;
  readonly sh: string;
  readonly env: string;
  readonly mkdir: string;
  readonly ln: string;
  readonly dd: string;
}

export interface UnshareOptions {
  readonly tools: UnshareTools;
  readonly root: FolderEntries;
  /** What is read-only in `/proc`. */
  readonly settings: readonly string[];
  /** See Jail. */
  readonly dataDir: string;
  readonly hidden: readonly string[];
  readonly devices: readonly string[];
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
    prepare: async ({ dir }) => {
      await mkdir(join(dir, "root"));
    },
    launch: (request) => launch(request, options),
    read: ({ report }) => read(report),
  };
}

/** Where one command's root is built, and of what. */
interface Building {
  readonly root: FolderEntries;
  /** The folder: absolute, and the script's present one. */
  readonly target: string;
  /** The machine's mounts, outer ones first, without those of the kernel's settings. */
  readonly mounts: readonly Mount[];
}

/**
 * What is mounted for a command, as fstab(5) has it. It is made for each one, since mounts of the machine come and go
 * while a worker lives. All of it is one file for one process, which passes over what it takes for mounted before it began.
 */
async function tableOf(
  { readOnly, devices }: Pick<LaunchRequest, "readOnly" | "devices">,
  { settings, building }: { settings: readonly string[]; building: Building },
): Promise<string> {
  const { root, target } = building;
  const over = (path: string) => escaped(join(target, path));
  const entries = [...root.folders, ...root.files].map((name) => `/${name}`);
  // `ro` is only for the mount itself, so each mount below /sys is laid over what came with it. One may go away.
  const sys = (await mountsIn("/sys")).map(
    ({ path, flags }) =>
      `${escaped(path)} ${over(path)} none ${["rbind", "ro", "nofail", ...flags].join(",")} 0 0`,
  );
  const lines = [
    ...entries.map((path) => lineOf(path, building)),
    ...openBelow(entries, building).map((path) => lineOf(path, building)),
    ...sys,
    ...USUAL_DEVICES.map((name) => `/dev/${name} ${over(`/dev/${name}`)} none bind 0 0`),
    `devpts ${over("/dev/pts")} devpts newinstance,ptmxmode=0666,mode=0620,nosuid,noexec 0 0`,
    `sluice ${over("/dev/shm")} tmpfs mode=1777,nosuid,nodev 0 0`,
    ...pathsOf(devices).map((path) => `${path} ${over(path)} none rbind,nofail 0 0`),
    ...readOnly.map((path) => `${escaped(path)} ${over(path)} none bind,ro 0 0`),
    `proc ${over("/proc")} proc defaults 0 0`,
    ...settings.map((path) => `${over(path)} ${over(path)} none bind,ro,nofail 0 0`),
  ];
  return `${lines.join("\n")}\n`;
}

function pathsOf({ folders, files }: Devices): string[] {
  return [...folders, ...files].map((name) => `/dev/${name}`);
}

/** The line that shows a path of the machine. No device opens there, but in mounts below it. It may go away meanwhile. */
function lineOf(path: string, { target, mounts }: Building): string {
  return `${escaped(path)} ${escaped(join(target, path))} none nofail,${boundOptions(path, mounts)} 0 0`;
}

/** What the mount around it forbids can't be allowed again without privileges, and must not be with them. */
function boundOptions(path: string, mounts: readonly Mount[]): string {
  const around = mounts.findLast((mount) => isWithin(path, mount.path));
  return [
    ...new Set(["rbind", "nodev", ...(around?.flags ?? []), ...(around?.readOnly ? ["ro"] : [])]),
  ].join();
}

/** The mounts at and below such paths whose devices would open: each is to be laid once more over what came with the path. */
function openBelow(paths: readonly string[], { mounts }: Building): string[] {
  return mounts
    .filter(({ path, flags }) => !flags.includes("nodev") && paths.some((outer) => isWithin(path, outer)))
    .map(({ path }) => path);
}

/**
 * The script's arguments are the worker's folder, the folder for `/pfs`, the PATH and the name of the command, its
 * working directory, and then the words that run it. It says "no-folder", "missing" or "started" on file descriptor 3.
 */
function scriptOf(
  { tools, root }: UnshareOptions,
  { devices, covering }: { devices: Devices; covering: readonly string[] },
): string {
  const inDev = (name: string) => `dev/${name}`;
  const folders = [
    ...[...root.folders, "dev", "dev/pts", "dev/shm", ...devices.folders.map(inDev)],
    ...["pfs", "proc", ".old"],
  ];
  const files = [...root.files, ...[...USUAL_DEVICES, ...devices.files].map(inDev)];
  const links = [...root.links, ...DEVICE_LINKS.map(({ name, target }) => ({ name: inDev(name), target }))];
  return [
    "set -e",
    "dir=$1 pfs=$2 path=$3 name=$4 start=$5; shift 5",
    `${tools.mount} -t tmpfs -o mode=0755 sluice "$dir/root"`,
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
  { dir, readOnly, pfs, cmd, workingDir = "/", env, hidden, devices, secrets }: LaunchRequest,
  options: UnshareOptions,
): Promise<Launch> {
  const { tools, root, uid } = options;
  const mounts = (await mountsIn("/")).filter(({ path }) => !isWithin(path, "/sys"));
  const building = { root, target: join(dir, "root"), mounts };
  await writeFile(join(dir, "fstab"), await tableOf({ readOnly, devices }, { ...options, building }));
  const covering = coveringScript({ hidden, secrets }, { ...building, tools });
  const script = scriptOf(options, { devices, covering });
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

interface RootScript extends Building {
  readonly tools: UnshareTools;
}

/** What the tools read: the files of all secrets, one after the other. */
function secretData({ folders }: SecretMounts): string[] {
  if (folders.length === 0) return [];
  const files = folders.flatMap((folder) => folder.files.map(({ bytes }) => bytes));
  return [Buffer.concat(files).toString("base64")];
}

/**
 * The lines that hide, and show secrets, in the root that is being built. Opened folders come first, because they show
 * again what is in them; secrets come last, because one may be in a folder that is hidden.
 */
function coveringScript(
  { hidden, secrets: { opened, folders } }: Pick<LaunchRequest, "hidden" | "secrets">,
  script: RootScript,
): string[] {
  const { tools } = script;
  const seen = seenOf(hidden, { covers: folders, root: script.root });
  const isShown = (path: string) => folders.some((secret) => isWithin(secret.path, path));
  return [
    ...opened.flatMap((folder) => openFolder(folder, script)),
    ...hide(seen, { isShown, script }),
    ...folders.flatMap((folder) => fillFolder(folder, tools)),
    ...seen.folders.filter(isShown).map((path) => remountReadOnly(path, tools)),
    ...(folders.length > 0 ? [`exec ${FIRST_DATA_FD}<&-`] : []),
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

function openFolder({ path, mode, entries }: OpenedFolder, script: RootScript): string[] {
  const { tools, mounts } = script;
  const inside = (name: string) => below(join(path, name));
  const paths = [...entries.folders, ...entries.files].map((name) => join(path, name));
  const isMount = (path: string) => mounts.some((mount) => mount.path === path);
  const again = [...paths.filter(isMount), ...openBelow(paths, script)];
  return [
    `${tools.mount} -t tmpfs -o mode=${mode.toString(8)} sluice ${below(path)}`,
    ...(entries.folders.length > 0 ? [`${tools.mkdir} -- ${entries.folders.map(inside).join(" ")}`] : []),
    ...entries.files.map((name) => `: > ${inside(name)}`),
    ...entries.links.map(({ name, target }) => `${tools.ln} -s -- ${quoted(target)} ${inside(name)}`),
    ...mountAll(
      paths.filter((path) => !isMount(path)).map((path) => lineOf(path, script)),
      tools,
    ),
    ...[...new Set(again)].map((path) => mountAgain(path, script)),
  ];
}

/** Mounts what has been mounted below the same path before, and was covered: a table of mounts passes over that. */
function mountAgain(path: string, { tools, mounts }: RootScript): string {
  const options = boundOptions(path, mounts);
  // It may have gone away meanwhile.
  return `${tools.mount} -o ${options} -- ${quoted(path)} ${below(path)} || test ! -e ${quoted(path)}`;
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

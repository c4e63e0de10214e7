import { join } from "node:path";
import { escaped, quoted } from "../words.ts";
import { FIRST_DATA_FD } from "./jail.ts";
import type { OpenedFolder, SecretFolder, SecretMounts } from "./secret-mounts.ts";
import type { UnshareTools } from "./unshare-tools.ts";

export interface SecretScriptOptions {
  readonly tools: UnshareTools;
  /** Where the root is built: absolute, and the script's present folder. */
  readonly root: string;
  readonly dataDir: string;
}

/** What the tools read: the files of all secrets, one after the other. */
export function secretData({ folders }: SecretMounts): string[] {
  if (folders.length === 0) return [];
  const files = folders.flatMap((folder) => folder.files.map(({ bytes }) => bytes));
  return [Buffer.concat(files).toString("base64")];
}

/** The lines that show secrets in the root that is being built. */
export function secretScript(
  { opened, folders }: SecretMounts,
  { tools, root, dataDir }: SecretScriptOptions,
): string[] {
  if (folders.length === 0) return [];
  return [
    ...opened.flatMap((folder) => openFolder(folder, { tools, root })),
    // An opened folder may have shown it again.
    ...(opened.length > 0 ? [`${tools.mount} -t tmpfs -o ro sluice ${below(dataDir)}`] : []),
    ...folders.flatMap((folder) => fillFolder(folder, tools)),
    `exec ${FIRST_DATA_FD}<&-`,
  ];
}

/** The path in the root that is being built, as a word. */
function below(path: string): string {
  return quoted(`.${path}`);
}

function openFolder(
  { path, mode, entries }: OpenedFolder,
  { tools, root }: Omit<SecretScriptOptions, "dataDir">,
): string[] {
  const inside = (name: string) => below(join(path, name));
  // An entry may go away meanwhile.
  const binds = [...entries.folders, ...entries.files].map(
    (name) => `${escaped(join(path, name))} ${escaped(join(root, path, name))} none rbind,nofail 0 0`,
  );
  return [
    `${tools.mount} -t tmpfs -o mode=${mode.toString(8)} sluice ${below(path)}`,
    ...(entries.folders.length > 0 ? [`${tools.mkdir} -- ${entries.folders.map(inside).join(" ")}`] : []),
    ...entries.files.map((name) => `: > ${inside(name)}`),
    ...entries.links.map(({ name, target }) => `${tools.ln} -s -- ${quoted(target)} ${inside(name)}`),
    `printf '%s\\n' ${binds.map(quoted).join(" ")} > .binds`,
    `${tools.mount} -a -T .binds`,
  ];
}

function fillFolder({ path, files }: SecretFolder, tools: UnshareTools): string[] {
  return [
    `${tools.mkdir} -p -- ${below(path)}`,
    `${tools.mount} -t tmpfs -o mode=0755 sluice ${below(path)}`,
    ...files.map(({ name, bytes }) => fillFile({ path: join(path, name), size: bytes.length }, tools)),
    // Of the mount, not of the file system: without privileges the latter can't be changed any more.
    `${tools.mount} -o remount,bind,ro ${below(path)}`,
  ];
}

/** It must read so many bytes and no more: the next ones are the next file's. */
function fillFile({ path, size }: { path: string; size: number }, { dd }: UnshareTools): string {
  if (size === 0) return `(umask 0377; : > ${below(path)})`;
  return `(umask 0377; ${dd} bs=${size} count=1 iflag=fullblock <&${FIRST_DATA_FD} > ${below(path)} 2>/dev/null)`;
}

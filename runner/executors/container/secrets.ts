import { createHash } from "node:crypto";
import { constants } from "node:fs";
import { access, chmod, mkdir, mkdtemp, readdir, statfs, writeFile } from "node:fs/promises";
import { join, posix } from "node:path";
import { isAgentAlive } from "../../pfs/folders.ts";
import { removeTree } from "../../pfs/remove.ts";
import type { MountedSecret } from "../executor.ts";
import { type PlannedSecret, refuseUnmountable, Unmountable } from "../mounted-secrets.ts";
import type { Owner } from "./engine/disposal.ts";
import { CONTROL } from "./init-script.ts";

/** A worker's secrets, and where they go in a container. */
export interface SecretPlan {
  readonly secrets: readonly PlannedSecret[];
  /** The same for the same names, paths and bytes, and for no others. */
  readonly fingerprint: string;
}

/** Plans where secrets go in a container. Throws Unmountable if one can't be shown. */
export function planSecrets(mounts: readonly MountedSecret[]): SecretPlan {
  const secrets = mounts.map((mounted) => ({ mounted, path: normal(mounted.mountPath) }));
  // The agent speaks through it.
  refuseUnmountable(secrets, [CONTROL]);
  for (const { mounted } of secrets) {
    const key = [...mounted.secret.keys()].find(
      (name) => name.includes("/") || ["", ".", ".."].includes(name),
    );
    if (key === undefined) continue;
    throw new Unmountable(mounted, `its key ${JSON.stringify(key)} can't be the name of a file`);
  }
  return { secrets, fingerprint: fingerprintOf(mounts) };
}

function normal(path: string): string {
  const whole = posix.normalize(`${path}/`);
  return whole === "/" ? whole : whole.slice(0, -1);
}

function fingerprintOf(mounts: readonly MountedSecret[]): string {
  const hash = createHash("sha256");
  for (const { name, mountPath, secret } of mounts) {
    hash.update(JSON.stringify([name, mountPath, secret.size]));
    for (const [key, bytes] of secret) hash.update(JSON.stringify([key, bytes.length])).update(bytes);
  }
  return hash.digest("hex");
}

/** What a container mounts to show a secret. */
export interface SecretMountpoint {
  readonly source: string;
  readonly target: string;
}

/** Secrets as files in this machine's memory. */
export interface SecretFiles {
  readonly mounts: readonly SecretMountpoint[];
  remove(): Promise<void>;
}

/** The container's user who reads them: root, who may read everything, or any other. */
export type SecretReader = "root" | "anybody";

/**
 * Writes secrets into a folder on a tmpfs, which nobody else on this machine can enter. Returns undefined if this machine
 * has no tmpfs that the agent may use: secrets are never written to a disk.
 */
export async function writeSecrets(
  secrets: readonly PlannedSecret[],
  { owner, reader }: { owner: Owner; reader: SecretReader },
): Promise<SecretFiles | undefined> {
  if (secrets.length === 0) return { mounts: [], remove: async () => undefined };
  const [memory] = await inMemory();
  if (memory === undefined) return undefined;
  // Mode 0700.
  const base = await mkdtemp(join(memory, `${prefixOf(owner)}.${owner.agent}.`));
  const remove = () => removeTree(base);
  try {
    const mounts: SecretMountpoint[] = [];
    for (const [index, secret] of secrets.entries()) {
      const source = join(base, String(index));
      await writeSecret(source, { secret, reader });
      mounts.push({ source, target: secret.path });
    }
    return { mounts, remove };
  } catch (error) {
    await remove();
    throw error;
  }
}

async function writeSecret(
  folder: string,
  { secret: { mounted }, reader }: { secret: PlannedSecret; reader: SecretReader },
): Promise<void> {
  await mkdir(folder);
  await chmod(folder, 0o755);
  for (const [key, bytes] of mounted.secret) {
    await writeFile(join(folder, key), bytes, { mode: 0o400, flag: "wx" });
    // Programs such as ssh want that only its owner may read a key. But a user other than root could not read it then.
    if (reader === "anybody") await chmod(join(folder, key), 0o444);
  }
}

/** Removes what killed agents of this data folder left in memory. */
export async function removeDeadSecrets({ data }: Pick<Owner, "data">): Promise<void> {
  const prefix = `${prefixOf({ data })}.`;
  for (const folder of await inMemory()) {
    for (const name of await readdir(folder)) {
      if (!name.startsWith(prefix) || (await isAgentAlive(name.slice(prefix.length).split(".")[0] ?? "")))
        continue;
      await removeTree(join(folder, name));
    }
  }
}

function prefixOf({ data }: Pick<Owner, "data">): string {
  return `sluice-secrets.${data}`;
}

const TMPFS = 0x01021994;

/** Folders of this machine that the agent may write to and that are in memory. */
async function inMemory(): Promise<string[]> {
  const found: string[] = [];
  for (const folder of [process.env.XDG_RUNTIME_DIR, "/dev/shm", "/run"]) {
    if (!folder?.startsWith("/")) continue;
    const usable = await access(folder, constants.W_OK | constants.X_OK).then(
      async () => (await statfs(folder)).type === TMPFS,
      () => false,
    );
    if (usable) found.push(folder);
  }
  return found;
}

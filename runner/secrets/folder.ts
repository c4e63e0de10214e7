import type { Dirent } from "node:fs";
import { readdir, readFile, stat } from "node:fs/promises";
import { join } from "node:path";
import { errorCode } from "../lib/fault.ts";
import { checkedSecret, type Secret, SecretMissing, type SecretSource } from "./source.ts";

/**
 * Secrets in a folder: `<folder>/<name>/<key>`. Links are followed, and names that begin with ".." are skipped: Kubernetes
 * mounts a secret by both.
 */
export function folderSecrets(folder: string): SecretSource {
  return { read: (name, signal) => read({ folder, name }, signal) };
}

const REASONS: Readonly<Record<string, string>> = {
  ENOENT: "is not there",
  ENOTDIR: "is not a folder",
  EACCES: "may not be read by this runner",
  EPERM: "may not be read by this runner",
};

async function read(
  { folder, name }: { folder: string; name: string },
  signal: AbortSignal,
): Promise<Secret> {
  const path = join(folder, name);
  try {
    const entries = await readdir(path, { withFileTypes: true });
    const keys = entries.filter((entry) => !entry.name.startsWith("..")).sort(byName);
    const secret = new Map<string, Uint8Array>();
    for (const { name: key } of keys) {
      signal.throwIfAborted();
      const file = join(path, key);
      if ((await stat(file)).isFile()) secret.set(key, await readFile(file, { signal }));
    }
    return checkedSecret(secret, { name, where: `in ${path}` });
  } catch (error) {
    const reason = REASONS[errorCode(error) ?? ""];
    throw reason ? new SecretMissing(`secret "${name}" ${reason}: looked for ${path}`) : error;
  }
}

function byName(a: Dirent, b: Dirent): number {
  return a.name < b.name ? -1 : 1;
}

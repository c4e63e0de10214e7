import type { Dirent } from "node:fs";
import { readdir, readFile, stat } from "node:fs/promises";
import { join } from "node:path";
import { errorCode } from "../lib/fault.ts";
import { checkedSecret, type KeptSecret, type Scope, SecretMissing, type SecretStore } from "./source.ts";

/**
 * Secrets in a folder: `<folder>/<name>/<key>`, each with the file `<folder>/<name>.pipelines` beside it if it says who may
 * use it. Links are followed, and names that begin with ".." are skipped: Kubernetes mounts a secret by both.
 */
export function folderSecrets(folder: string): SecretStore {
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
): Promise<KeptSecret> {
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
    // After the keys: whoever puts the scope there first never shows a secret without it.
    const scope = await readScope({ folder, name }, signal);
    return { secret: checkedSecret(secret, { name, where: `in ${path}` }), scope };
  } catch (error) {
    const reason = REASONS[errorCode(error) ?? ""];
    throw reason ? new SecretMissing(`secret "${name}" ${reason}: looked for ${path}`) : error;
  }
}

/** If a scope is there and can't be read, the secret is kept from everybody: the scope may say so. */
async function readScope(
  { folder, name }: { folder: string; name: string },
  signal: AbortSignal,
): Promise<Scope> {
  const where = join(folder, `${name}.pipelines`);
  try {
    return { text: await readFile(where, { encoding: "utf8", signal }), where };
  } catch (error) {
    const code = errorCode(error);
    if (code === "ENOENT") return { text: undefined, where };
    if (code === undefined || signal.aborted) throw error;
    throw new SecretMissing(
      `secret "${name}" does not say which pipelines it serves: ${where} can't be read (${code})`,
    );
  }
}

function byName(a: Dirent, b: Dirent): number {
  return a.name < b.name ? -1 : 1;
}

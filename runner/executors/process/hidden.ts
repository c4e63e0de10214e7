import { realpath, stat } from "node:fs/promises";
import { homedir } from "node:os";
import { delimiter, join, resolve } from "node:path";
import { errorCode } from "../../lib/fault.ts";

/** What of the machine commands do not see, as it is now: paths without links, none of them below another. */
export interface HiddenPaths {
  readonly folders: readonly string[];
  readonly files: readonly string[];
}

export interface HidingTerms {
  /** The node's data folder. */
  readonly dataDir: string;
  /** What the operator or the caller wants hidden besides. */
  readonly hidden?: readonly string[] | undefined;
  /** The source of secrets, as in RunnerConfig. */
  readonly secrets?: string | undefined;
}

/**
 * Where machines keep keys: of a pod's service account, of Docker's and Podman's secrets, and the runner's own, as
 * docs/runners.md has it.
 */
const USUAL = ["/var/run/secrets", "/run/secrets", "/etc/sluice"];

/**
 * Every path that is to be hidden, whether it is there or not: the node's data, what the runner reads secrets from,
 * and the usual places of keys.
 */
export function pathsToHide(
  { dataDir, hidden = [], secrets }: HidingTerms,
  env: Readonly<Record<string, string | undefined>>,
): string[] {
  return [dataDir, ...hidden, ...USUAL, ...placesOfSecrets(secrets, env)].map((path) => resolve(path));
}

function placesOfSecrets(
  secrets: string | undefined,
  { KUBECONFIG = "" }: Readonly<Record<string, string | undefined>>,
): string[] {
  if (secrets === undefined) return [];
  if (!/^kubernetes(:|$)/.test(secrets)) return [secrets];
  return [join(homedir(), ".kube"), ...KUBECONFIG.split(delimiter).filter((path) => path !== "")];
}

// The command is the agent's user: it can't reach what the agent can't.
const OUT_OF_REACH = new Set(["ENOENT", "ENOTDIR", "EACCES", "ELOOP"]);

/**
 * Where those paths lead now. It is asked before each command, because folders come and go while an agent lives. A path
 * that leads nowhere needs no hiding, and must not be mounted over: that would make it on the machine.
 */
export async function findHidden(paths: readonly string[]): Promise<HiddenPaths> {
  const found = new Map<string, "folder" | "file">();
  for (const path of paths) {
    try {
      const real = await realpath(path);
      found.set(real, (await stat(real)).isDirectory() ? "folder" : "file");
    } catch (error) {
      if (!OUT_OF_REACH.has(errorCode(error) ?? "")) throw error;
    }
  }
  const outermost = [...found].filter(
    ([path]) => ![...found.keys()].some((other) => other !== path && isWithin(path, other)),
  );
  const ofKind = (wanted: string) => outermost.filter(([, kind]) => kind === wanted).map(([path]) => path);
  return { folders: ofKind("folder"), files: ofKind("file") };
}

/** Whether a path is a folder or below it. Both are absolute, without `.`, `..` and a slash at the end. */
export function isWithin(path: string, folder: string): boolean {
  return path === folder || path.startsWith(folder === "/" ? "/" : `${folder}/`);
}

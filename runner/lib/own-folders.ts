import { homedir } from "node:os";
import { delimiter, join, resolve } from "node:path";

interface NamedFolder {
  readonly path: string;
  /** What stands for it in words for others, such as `<--data>`. */
  readonly shown: string;
}

/**
 * Folders of this runner, which are nobody's business but that of who looks after the machine: reasons of jobs and of nodes are
 * read by anybody who may read the pipeline. In their place stand the options by which they were given.
 */
export class OwnFolders {
  readonly #shown: ReadonlyMap<string, string>;
  readonly #pattern: RegExp | undefined;

  constructor(folders: readonly NamedFolder[]) {
    // The root of the file system is in every path, and says nothing.
    const named = folders.filter(({ path }) => path.length > 1);
    this.#shown = new Map(named.map(({ path, shown }) => [path, shown]));
    // The longest first: one may be in another.
    const paths = [...this.#shown.keys()].sort((a, b) => b.length - a.length).map(escaped);
    // As whole paths: /data is neither in /mnt/data nor in /database.
    const whole = `(?<![\\p{L}\\p{N}_./~-])(?:${paths.join("|")})(?![\\p{L}\\p{N}_-]|\\.[\\p{L}\\p{N}])`;
    this.#pattern = paths.length === 0 ? undefined : new RegExp(whole, "gu");
  }

  /** The text without the names of these folders. */
  hide(text: string): string {
    if (!this.#pattern) return text;
    return text.replace(this.#pattern, (path) => this.#shown.get(path) ?? "<folder>");
  }
}

/** Those of a runner: of its data, of its secrets, of Sluice itself, and where it finds its Kubernetes cluster. */
export function runnerFolders(
  { dataDirs, secrets }: { readonly dataDirs: readonly string[]; readonly secrets: string | undefined },
  env: NodeJS.ProcessEnv,
): OwnFolders {
  const clusters = (env.KUBECONFIG ?? "").split(delimiter).filter((path) => path !== "");
  return new OwnFolders([
    { path: join(import.meta.dirname, "../.."), shown: "<sluice>" },
    { path: join(homedir(), ".kube"), shown: "<~/.kube>" },
    ...clusters.map((path) => ({ path: resolve(path), shown: "<KUBECONFIG>" })),
    ...(secrets === undefined ? [] : [{ path: secrets, shown: "<--secrets>" }]),
    ...dataDirs.map((path) => ({ path, shown: "<--data>" })),
  ]);
}

function escaped(path: string): string {
  return path.replace(/[\\^$.*+?()[\]{}|/]/g, "\\$&");
}

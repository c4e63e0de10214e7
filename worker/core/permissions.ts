import type { KeyLevel } from "../../protocol/keys.ts";

/** What an operation on data needs: to see names, to read bytes, to write, or to make and delete branches. */
export type DataPermission = "list" | "read" | "write" | "admin";
/** What a request needs: one of those, to make code run on the nodes, or to lease and report as a runner does. */
export type Permission = DataPermission | "run" | "work";

/** The level of a key; that of the root key, which no other key has, is `root`. Who has no key has `public`, for a branch that is. */
export type ScopeLevel = KeyLevel | "root" | "public";

/** What an access key may do, and where. */
export interface KeyScope {
  readonly level: ScopeLevel;
  /** The repos that it is for; null: all repos, and what belongs to no repo. */
  readonly repos: readonly string[] | null;
  /** Whether a key for some repos may make code run there; absent: it may not. A key for all repos may by its level. */
  readonly pipelines?: boolean;
}

/** What a request must be allowed. */
export interface Need {
  readonly permission: Permission;
  /** Null: something that belongs to no repo, such as the list of buckets, the access keys or the nodes. */
  readonly repo: string | null;
}

/**
 * What each level allows. `work` is apart from the others, so that neither a writer nor an administrator can pose as a
 * node, and a runner's key that is stolen opens nothing by itself.
 */
const ALLOWED: Readonly<Record<ScopeLevel, readonly Permission[]>> = {
  read: ["list", "read"],
  write: ["list", "read", "write"],
  admin: ["list", "read", "write", "admin", "run"],
  runner: ["work"],
  root: ["list", "read", "write", "admin", "run", "work"],
  public: ["list", "read"],
};
/** By the level as D1 has it: one that a later release made allows nothing here. */
const BY_LEVEL: ReadonlyMap<string, readonly Permission[]> = new Map(Object.entries(ALLOWED));

/**
 * Whether a key may do something. Outside of its repos, a key for some repos may only list what belongs to no repo. The
 * answer to such a list must leave out what is not in the key's repos.
 */
export function permits(scope: KeyScope, { permission, repo }: Need): boolean {
  if (!hasLevel(scope, permission)) return false;
  if (scope.repos === null) return true;
  return repo === null ? permission === "list" : scope.repos.includes(repo);
}

/** Whether a key may do something in some repo at least. It can be asked before the repo is known. */
export function hasLevel(scope: KeyScope, permission: Permission): boolean {
  return permission === "run" ? runsCode(scope) : allows(scope, permission);
}

/** Whether a key may make code run on the nodes, beside everybody's data: one for some repos needs a right for it. */
export function runsCode(scope: KeyScope): boolean {
  return allows(scope, "run") && (scope.repos === null || scope.pipelines === true);
}

function allows({ level }: KeyScope, permission: Permission): boolean {
  return BY_LEVEL.get(level)?.includes(permission) ?? false;
}

/** Whether a key is for some repos alone: of secrets, its pipelines get only those that name them. */
export function isLimited({ repos }: Pick<KeyScope, "repos">): boolean {
  return repos !== null;
}

/** Says why a key may not do something: what it has and would need. No `repo`: the level alone is too low. */
export function refusalText(
  scope: KeyScope,
  { permission, repo }: { readonly permission: Permission; readonly repo?: string | null },
): string {
  const words = `The access key allows ${describeScope(scope)}; this needs ${WORDS[permission]}${placeOf(repo)}`;
  return permission === "work"
    ? `${words}: make a key with 'sluice key create --level runner' and give it to the runner.`
    : `${words}: use a key that has it.`;
}

/** What is needed, in words. */
const WORDS: Readonly<Record<Permission, string>> = {
  list: "list",
  read: "read",
  write: "write",
  admin: "admin",
  run: "the right to run pipelines ('sluice key create --pipelines')",
  work: "the level runner",
};

function placeOf(repo: string | null | undefined): string {
  if (repo === undefined) return "";
  return repo === null ? " on what belongs to no repo" : ` in the repo '${repo}'`;
}

/** Such as "write in the repos 'a', 'b'". */
function describeScope({ level, repos, pipelines = false }: KeyScope): string {
  if (repos === null) return `${level} everywhere`;
  const names = repos.slice(0, MAX_NAMED).map((repo) => `'${repo}'`);
  const more = repos.length > MAX_NAMED ? [`${repos.length - MAX_NAMED} more`] : [];
  const what = pipelines ? `${level} and running pipelines` : level;
  return `${what} in the repo${repos.length === 1 ? "" : "s"} ${[...names, ...more].join(", ")}`;
}

/** Repos that a sentence names before it says how many more there are. */
const MAX_NAMED = 5;

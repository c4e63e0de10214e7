import type { KeyLevel } from "../../protocol/keys.ts";

/** What an operation needs: to see names, to read bytes, to write, or to make and delete branches and pipelines. */
export type Permission = "list" | "read" | "write" | "admin";

/** What an access key may do, and where. */
export interface KeyScope {
  readonly level: KeyLevel;
  /** The repos that it is for; null: all repos, and what belongs to no repo. */
  readonly repos: readonly string[] | null;
}

/** What a request must be allowed. */
export interface Need {
  readonly permission: Permission;
  /** Null: something that belongs to no repo, such as the list of buckets, the access keys or the nodes. */
  readonly repo: string | null;
}

const LEVELS: Readonly<Record<KeyLevel, number>> = { read: 1, write: 2, admin: 3 };
const NEEDED: Readonly<Record<Permission, number>> = { list: 1, read: 1, write: 2, admin: 3 };

/**
 * Whether a key may do something. Outside of its repos, a key for some repos may only list what belongs to no repo. The
 * answer to such a list must leave out what is not in the key's repos.
 */
export function permits(scope: KeyScope, { permission, repo }: Need): boolean {
  if (!hasLevel(scope, permission)) return false;
  if (scope.repos === null) return true;
  return repo === null ? permission === "list" : scope.repos.includes(repo);
}

/** Whether a key's level is enough, in whatever repo. It can be asked before the repo is known. */
export function hasLevel({ level }: KeyScope, permission: Permission): boolean {
  return LEVELS[level] >= NEEDED[permission];
}

/**
 * Says why a key may not do something: what it has and what it would need. `repo` is absent if the level alone is too
 * low.
 */
export function refusalText(
  scope: KeyScope,
  { permission, repo }: { readonly permission: Permission; readonly repo?: string | null },
): string {
  return `The access key allows ${describeScope(scope)}; this needs ${permission}${placeOf(repo)}: use a key that has it.`;
}

function placeOf(repo: string | null | undefined): string {
  if (repo === undefined) return "";
  return repo === null ? " on what belongs to no repo" : ` in the repo '${repo}'`;
}

/** Such as "write in the repos 'a', 'b'". */
function describeScope({ level, repos }: KeyScope): string {
  if (repos === null) return `${level} everywhere`;
  const names = repos.slice(0, MAX_NAMED).map((repo) => `'${repo}'`);
  const more = repos.length > MAX_NAMED ? [`${repos.length - MAX_NAMED} more`] : [];
  return `${level} in the repo${repos.length === 1 ? "" : "s"} ${[...names, ...more].join(", ")}`;
}

/** Repos that a sentence names before it says how many more there are. */
const MAX_NAMED = 5;

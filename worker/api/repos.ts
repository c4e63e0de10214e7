import type { BranchAddress } from "../../protocol/names.ts";
import { type BranchList, BranchProtection, BranchPublic, type RepoList } from "../../protocol/repos.ts";
import type { SetBranch } from "../catalogue/branch-settings.ts";
import type { BranchRow } from "../catalogue/branches.ts";
import type { Catalogue } from "../catalogue/catalogue.ts";
import { permits } from "../core/permissions.ts";
import { ApiError } from "./answer/errors.ts";
import { branchError } from "./answer/failures.ts";
import { type ApiRequest, branchInPath, nameParam, noQuery } from "./request/api-request.ts";
import { readJson } from "./request/read-json.ts";

const PAGE_ROWS = 1000;

/** `GET /repos`: the repos that the key is for. */
export async function listRepos(asked: ApiRequest): Promise<Response> {
  noQuery(asked);
  const repos = new Map<string, string[]>();
  for await (const { repo, branch } of branchesOf(asked.context.catalogue, asked.caller.scope.repos)) {
    const branches = repos.get(repo);
    if (branches) branches.push(branch);
    else repos.set(repo, [branch]);
  }
  const list = [...repos].map(([name, branches]) => ({ name, branches }));
  return Response.json({ repos: list } satisfies RepoList);
}

/** `GET /repos/{repo}/branches` */
export async function listBranches(asked: ApiRequest): Promise<Response> {
  noQuery(asked);
  const { catalogue } = asked.context;
  const repo = nameParam(asked, "repo");
  const settings = await catalogue.settings.ofRepo(repo);
  const set = new Map(settings.map((row) => [row.branch, row]));
  const branches = [];
  for await (const { branch, createdAt } of branchesOf(catalogue, [repo]))
    branches.push({ name: branch, createdAt, ...shownSettings(set.get(branch)) });
  if (branches.length === 0) throw new ApiError("NoSuchRepo", `There is no repo '${repo}'.`);
  return Response.json({ branches } satisfies BranchList);
}

/** `PUT /repos/{repo}/branches/{branch}/public` */
export async function setPublic(asked: ApiRequest): Promise<Response> {
  noQuery(asked);
  const { address, branch } = branchInPath(asked);
  const wish = await readJson(asked, BranchPublic);
  const done = await branch.configure(wish);
  asked.context.openBranches.forget();
  if (!done.ok) throw branchError(done, address);
  return Response.json(wish satisfies BranchPublic);
}

/** `PUT /repos/{repo}/branches/{branch}/writer` */
export async function setWriter(asked: ApiRequest): Promise<Response> {
  noQuery(asked);
  const { address, branch } = branchInPath(asked);
  const wish = await readJson(asked, BranchProtection);
  if (wish.writer && "key" in wish.writer) await checkWriter(asked, { repo: address.repo, ...wish.writer });
  const done = await branch.configure(wish);
  if (!done.ok) throw branchError(done, address);
  return Response.json(wish satisfies BranchProtection);
}

/** A branch that is left to a key which can't write would be closed to everybody. */
async function checkWriter(
  { context }: Pick<ApiRequest, "context">,
  { repo, key: id }: { repo: string; key: string },
): Promise<void> {
  const key = await context.keys.find(id);
  const fault = !key
    ? `there is no access key '${id}'`
    : permits(key.scope, { permission: "write", repo })
      ? undefined
      : `the access key '${id}' may not write in the repo '${repo}'`;
  if (fault === undefined) return;
  const issues = [{ path: "writer.key", message: fault }];
  throw new ApiError("InvalidRequest", `Nobody could write to the branch: ${fault}.`, { issues });
}

function shownSettings({
  isPublic = false,
  writer = null,
}: Partial<SetBranch> = {}): Pick<BranchList["branches"][number], "public" | "writer"> {
  return { public: isPublic, writer };
}

/** Every branch of these repos, or of all. */
async function* branchesOf(
  catalogue: Pick<Catalogue, "branches">,
  repos: readonly string[] | null,
): AsyncGenerator<BranchRow> {
  let after: BranchAddress | undefined;
  for (;;) {
    const page = await catalogue.branches.list({
      limit: PAGE_ROWS,
      ...(repos && { repos }),
      ...(after && { after }),
    });
    yield* page;
    after = page.at(-1);
    if (page.length < PAGE_ROWS || !after) return;
  }
}

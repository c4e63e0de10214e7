import type { BranchAddress } from "../../protocol/names.ts";
import { type BranchList, BranchPublic, type RepoList } from "../../protocol/repos.ts";
import type { BranchRow } from "../catalogue/branches.ts";
import type { Catalogue } from "../catalogue/catalogue.ts";
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
  const open = new Set(settings.filter(({ isPublic }) => isPublic).map(({ branch }) => branch));
  const branches = [];
  for await (const { branch, createdAt } of branchesOf(catalogue, [repo]))
    branches.push({ name: branch, createdAt, public: open.has(branch) });
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

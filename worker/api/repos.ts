import type { BranchAddress } from "../../protocol/names.ts";
import type { BranchRow } from "../catalogue/branches.ts";
import { type ApiRequest, nameParam, noQuery } from "./api-request.ts";
import { ApiError } from "./errors.ts";

const PAGE_ROWS = 1000;

/** `GET /repos` */
export async function listRepos(asked: ApiRequest): Promise<Response> {
  noQuery(asked);
  const repos = new Map<string, string[]>();
  for await (const { repo, branch } of allBranches(asked)) {
    const branches = repos.get(repo);
    if (branches) branches.push(branch);
    else repos.set(repo, [branch]);
  }
  return Response.json({ repos: [...repos].map(([name, branches]) => ({ name, branches })) });
}

/** `GET /repos/{repo}/branches` */
export async function listBranches(asked: ApiRequest): Promise<Response> {
  noQuery(asked);
  const repo = nameParam(asked, "repo");
  const branches = [];
  for await (const row of allBranches(asked, { repo, branch: "" })) {
    if (row.repo !== repo) break;
    branches.push({ name: row.branch, createdAt: row.createdAt });
  }
  if (branches.length === 0) throw new ApiError("NoSuchRepo", `There is no repo '${repo}'.`);
  return Response.json({ branches });
}

async function* allBranches({ context }: ApiRequest, start?: BranchAddress): AsyncGenerator<BranchRow> {
  let after = start;
  for (;;) {
    const page = await context.catalogue.branches.list({ limit: PAGE_ROWS, ...(after && { after }) });
    yield* page;
    after = page.at(-1);
    if (page.length < PAGE_ROWS || !after) return;
  }
}

import { z } from "zod";
import type { Loops } from "../../../protocol/admin.ts";
import { type BranchAddress, bucketName, parseBucketName, SEPARATOR_FAULT } from "../../../protocol/names.ts";
import {
  type BranchDetail,
  BranchEmptyOnly,
  BranchKeep,
  BranchLastModified,
  type BranchList,
  BranchProtection,
  BranchPublic,
  BranchReads,
  CreateBranch,
  type Keep,
  type RepoList,
} from "../../../protocol/repos.ts";
import type { AnswerOf } from "../../branch/contract/answers.ts";
import type { BranchApi } from "../../branch/contract/api.ts";
import type { BranchInspection, LifecycleCalls, ShownFork } from "../../branch/contract/lifecycle.ts";
import type { Keep as ContractKeep, SettingsChange } from "../../branch/contract/settings.ts";
import type { BranchRow } from "../../catalogue/branches.ts";
import type { Catalogue } from "../../catalogue/catalogue.ts";
import { permits } from "../../core/permissions.ts";
import { type Place, placeOfRegion, regionFault } from "../../core/places.ts";
import { expiryText } from "../../keys/expiry.ts";
import type { AccessKey } from "../../keys/key-ring.ts";
import { type ApiError, apiError } from "../answer/errors.ts";
import { accepted, branchError } from "../answer/failures.ts";
import { commitId } from "../commits/tags.ts";
import {
  type ApiRequest,
  annotationOf,
  branchInPath,
  type Handler,
  nameParam,
  readJson,
  readQuery,
} from "../request/api-request.ts";
import { invalidField } from "../request/issues.ts";

const PAGE_ROWS = 1000;

const ReposQuery = z.strictObject({
  /** Also repos all of whose branches are deleted, of which something may be left. */
  deleted: z.enum(["true", "false"], { error: "must be true or false" }).optional(),
});

/** `GET /repos`: the repos that the key is for. */
export async function listRepos(asked: ApiRequest): Promise<Response> {
  const { deleted } = readQuery(asked, ReposQuery);
  const repos = new Map<string, string[]>();
  for await (const { repo, branch } of branchesOf(asked.context.catalogue, asked.caller.scope.repos)) {
    const branches = repos.get(repo);
    if (branches) branches.push(branch);
    else repos.set(repo, [branch]);
  }
  const list = [...repos].map(([name, branches]) => ({ name, branches }));
  if (deleted === "true") {
    const past = await asked.context.catalogue.branches.deletedRepos(asked.caller.scope.repos);
    list.push(...past.map((name) => ({ name, branches: [] })));
  }
  return Response.json({ repos: list } satisfies RepoList);
}

/** `GET /repos/{repo}/branches` */
export async function listBranches(asked: ApiRequest): Promise<Response> {
  const { catalogue } = asked.context;
  const repo = nameParam(asked, "repo");
  const settings = await catalogue.settings.ofRepo(repo);
  const set = new Map(settings.map((row) => [row.branch, row]));
  const branches: BranchList["branches"] = [];
  for await (const { branch, createdAt, forking, place = null } of branchesOf(catalogue, [repo])) {
    // Few are, and only they are asked.
    const found = forking ? await asked.context.branch({ repo, branch }).lifecycle.inspect() : undefined;
    const fork = found?.ok && found.fork;
    const progress = fork && !fork.ready && { forking: progressOf(fork) };
    const { isPublic = false, writer = null } = set.get(branch) ?? {};
    branches.push({ name: branch, createdAt, public: isPublic, writer, place, ...progress });
  }
  if (branches.length === 0) throw apiError.NoSuchRepo(`There is no repo '${repo}'.`);
  return Response.json({ branches } satisfies BranchList);
}

/** Sets something of a branch, and answers with that. `changeOf`: what it is to the branch. */
function setter<Wish>(
  schema: z.ZodType<Wish>,
  changeOf: (wish: Wish, asked: ApiRequest) => SettingsChange | Promise<SettingsChange>,
): Handler {
  return async (asked) => {
    const { address, branch } = branchInPath(asked);
    const wish = await readJson(asked, schema);
    const done = await branch.settings.change(await changeOf(wish, asked));
    asked.context.openBranches.forget();
    if (!done.ok) throw branchError(done, address);
    return Response.json(wish);
  };
}

/** `PUT /repos/{repo}/branches/{branch}/public` */
export const setPublic = setter(BranchPublic, (wish) => wish);

/** `PUT /repos/{repo}/branches/{branch}/writer` */
export const setWriter = setter(BranchProtection, async (wish, asked) => {
  const { repo } = branchInPath(asked).address;
  if (wish.writer && "key" in wish.writer) await checkWriter(asked, { repo, ...wish.writer });
  return wish;
});

/** `PUT /repos/{repo}/branches/{branch}/keep` */
export const setKeep = setter(BranchKeep, ({ keep }) => ({ keep: keep && keepOf(keep) }));

/** In one order, so that what is set again is no change. */
function keepOf({ commits, days }: Keep): ContractKeep {
  return { ...(commits !== undefined && { commits }), ...(days !== undefined && { days }) };
}

/** `PUT /repos/{repo}/branches/{branch}/last-modified` */
export const setLastModified = setter(BranchLastModified, ({ lastModified }) => ({
  modified: lastModified && MODIFIED_OF[lastModified],
}));

/** The words of the API, and those of the branch. */
const MODIFIED_OF = { branch: "branch", object: "file" } as const;

/** `PUT /repos/{repo}/branches/{branch}/empty-only` */
export const setEmptyOnly = setter(BranchEmptyOnly, (wish) => wish);

/** `PUT /repos/{repo}/branches/{branch}/reads` */
export const setReads = setter(BranchReads, ({ reads }) => ({ nearReads: reads === "near" }));

/** A branch that is left to a key which can't write would be closed to everybody. */
async function checkWriter(
  { context: { keys } }: Pick<ApiRequest, "context">,
  { repo, key: id }: { repo: string; key: string },
): Promise<void> {
  const fault = writerFault(await keys.find(id), { id, repo, expiredAt: keys.expiryOf?.(id) });
  if (fault === undefined) return;
  const issues = [{ path: "writer.key", message: fault }];
  throw apiError.InvalidRequest(`Nobody could write to the branch: ${fault}.`, { issues });
}

function writerFault(
  key: AccessKey | undefined,
  { id, repo, expiredAt }: { id: string; repo: string; expiredAt: number | undefined },
): string | undefined {
  if (key?.session !== undefined) return `'${id}' is a session of the access key '${key.id}': name that one`;
  if (expiredAt !== undefined) return `the access key '${id}' ${expiryText(expiredAt)}`;
  if (!key) return `there is no access key '${id}'`;
  if (permits(key.scope, { permission: "write", repo })) return undefined;
  return `the access key '${id}' may not write in the repo '${repo}'`;
}

/** The repo of the branch that a new one is to be made from. */
export async function newBranchSource(asked: ApiRequest): Promise<readonly string[]> {
  const { from } = await readJson(asked, CreateBranch);
  return from ? [from.repo] : [];
}

/**
 * `POST /repos/{repo}/branches`: an empty branch, or one made from a commit of another branch. That one is there when this
 * answers, and can be read when `forking` is null. Asked again with the same source, it answers the same.
 */
export async function createBranch(asked: ApiRequest): Promise<Response> {
  const { name, from, region, ...settings } = await readJson(asked, CreateBranch);
  const place = region === undefined ? null : placeOfRegion(region);
  if (place === undefined) throw invalidField("region", regionFault(region ?? ""));
  const address = { repo: nameParam(asked, "repo"), branch: name };
  const branch = asked.context.branch(address, place);
  const fault = await asked.context.catalogue.branches.newNameFault(address);
  if (fault !== undefined) throw invalidField(fault === "branch" ? "name" : "repo", SEPARATOR_FAULT);
  if (from) await fork(asked, { address, from });
  else await createEmpty(branch, { address, settings, place });
  return Response.json(await detailOf(branch, address), { status: 201 });
}

/** `GET /repos/{repo}/branches/{branch}` */
export async function inspectBranch(asked: ApiRequest): Promise<Response> {
  const { address, branch } = branchInPath(asked);
  return Response.json(await detailOf(branch, address));
}

async function createEmpty(
  branch: BranchApi,
  {
    address,
    settings,
    place,
  }: {
    address: BranchAddress;
    settings: Omit<CreateBranch, "name" | "from" | "region">;
    place: Place | null;
  },
): Promise<void> {
  const { keep = null, lastModified = null, emptyOnly = false } = settings;
  const modified = lastModified && MODIFIED_OF[lastModified];
  const made = await branch.lifecycle.create({ keep: keep && keepOf(keep), modified, emptyOnly, place });
  if (made.ok) return;
  const { reason } = made;
  throw reason === "already-exists" ? alreadyExists(address) : branchError({ ok: false, reason });
}

const DeletionQuery = z.strictObject({
  /** Only if it has no file. */
  empty: z.enum(["true", "false"], { error: "must be true or false" }).optional(),
});

/** `DELETE /repos/{repo}/branches/{branch}`: with its files, or with `empty=true` if it has none, whatever DeleteBucket may do. */
export async function deleteBranch(asked: ApiRequest): Promise<Response> {
  const { empty } = readQuery(asked, DeletionQuery);
  const { address, branch } = branchInPath(asked);
  accepted(await branch.lifecycle.destroy({ key: asked.caller.keyId, withFiles: empty !== "true" }), address);
  return new Response(null, { status: 204 });
}

type Source = NonNullable<CreateBranch["from"]>;

async function fork(
  asked: ApiRequest,
  { address, from }: { address: BranchAddress; from: Source },
): Promise<void> {
  const parent = bucketName(from);
  if (parent === bucketName(address)) {
    throw invalidField("from", "is the branch that is to be made: name another one");
  }
  // Before the fork calls it: a call makes the object of a name that never was.
  const { context } = asked;
  const { place = null } = accepted(await context.branch(from).lifecycle.inspect(), from);
  const commit = from.commit && (await commitId(asked, { address: from, name: from.commit }));
  const annotation = annotationOf(asked, {});
  const made = await context
    .branch(address, place)
    .lifecycle.fork({ parent, annotation, place, ...(commit !== undefined && { commit }) });
  if (!made.ok) throw forkError(made, { address, from });
}

function forkError(
  refused: Extract<AnswerOf<LifecycleCalls["fork"]>, { ok: false }>,
  { address, from }: { address: BranchAddress; from: Source },
): ApiError {
  const parent = bucketName(from);
  switch (refused.reason) {
    case "already-exists":
      return alreadyExists(address);
    case "no-such-parent":
      return branchError({ ok: false, reason: "no-such-branch" }, from);
    case "no-such-version":
      return apiError.NoSuchCommit(
        `The branch '${parent}' has no commit '${from.commit}': 'sluice commit list ${parent}' shows those it has.`,
      );
    case "parent-forking":
      return branchError({ ok: false, reason: "forking" });
    case "parent-unavailable":
      return apiError.Unavailable(
        `The branch '${parent}' can't be reached for the moment: try again. What was begun goes on by itself.`,
      );
    default:
      return branchError({ ok: false, reason: refused.reason });
  }
}

function alreadyExists(address: BranchAddress): ApiError {
  const bucket = bucketName(address);
  const message = `There is a branch '${bucket}' already, which was not made from that: take another name, or delete it first.`;
  return apiError.AlreadyExists(message);
}

async function detailOf(
  branch: Pick<BranchApi, "lifecycle" | "settings">,
  address: BranchAddress,
): Promise<BranchDetail> {
  const found = accepted(await branch.lifecycle.inspect(), address);
  const { createdAt, head, keep, imported, place = null, claimedBy } = found;
  return {
    name: address.branch,
    createdAt,
    head,
    imported,
    keep,
    place,
    ...sourceOf(found),
    ...(await settingsOf(branch)),
    ...(claimedBy !== undefined && { pipeline: claimedBy }),
  };
}

/** What a branch is set to, as far as it can be read yet. */
async function settingsOf(
  branch: Pick<BranchApi, "settings">,
): Promise<Pick<BranchDetail, "lastModified" | "emptyOnly" | "reads" | "public" | "writer">> {
  const settings = await branch.settings.read();
  if (!settings.ok) return {};
  const { public: isPublic, writer, modified, emptyOnly, nearReads } = settings;
  return {
    lastModified: modified === "file" ? "object" : modified,
    emptyOnly,
    reads: nearReads ? "near" : "fresh",
    public: isPublic,
    writer,
  };
}

function sourceOf({ fork }: BranchInspection): Pick<BranchDetail, "from" | "forking"> {
  if (!fork) return { from: null, forking: null };
  const parent = parseBucketName(fork.parent);
  if (!parent) throw new Error(`'${fork.parent}' is no bucket`);
  return { from: { ...parent, commit: fork.commit }, forking: fork.ready ? null : progressOf(fork) };
}

function progressOf({ copied, total }: ShownFork): { copied: number; total: number } {
  return { copied, total };
}

/** Every branch of these repos, or of all. */
export async function* branchesOf(
  catalogue: Pick<Catalogue, "branches">,
  repos: readonly string[] | null,
): AsyncGenerator<BranchRow> {
  let after: BranchAddress | undefined;
  for (;;) {
    const page = await catalogue.branches.list({ limit: PAGE_ROWS, repos: repos ?? undefined, after });
    yield* page;
    after = page.at(-1);
    if (page.length < PAGE_ROWS || !after) return;
  }
}

/** `GET /repos/{repo}/branches/{branch}/loops`: how its object's background jobs stand. Errors may name what the key could not see elsewhere, so it takes `admin`. */
export async function showBranchLoops(asked: ApiRequest): Promise<Response> {
  const { address, branch } = branchInPath(asked);
  const standing = await branch.admin.loops();
  if (!standing) throw branchError({ ok: false, reason: "no-such-branch" }, address);
  return Response.json(standing satisfies Loops);
}

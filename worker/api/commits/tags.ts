import { z } from "zod";
import { MAX_LIST_TAGS, SetTag, type Tag, type TagPage, type TagSet } from "../../../protocol/commits.ts";
import {
  type BranchAddress,
  bucketName,
  holdsSeparator,
  isUlid,
  Name,
  SEPARATOR_FAULT,
  TagName,
  viewBucket,
} from "../../../protocol/names.ts";
import type { Refused } from "../../branch/contract/answers.ts";
import type { TagChanger } from "../../branch/contract/history.ts";
import { permits, refusalText } from "../../core/permissions.ts";
import { type ApiError, apiError } from "../answer/errors.ts";
import { branchError } from "../answer/failures.ts";
import { type ApiRequest, branchInPath, nameParam, readJson, readQuery } from "../request/api-request.ts";
import { checked, invalidField } from "../request/issues.ts";

const ListQuery = z.strictObject({
  branch: Name.optional(),
  /** As `next` of the page before had it: `<tag>.<branch>`. */
  after: z
    .string()
    .regex(/^[^.]+\.[^.]+$/, { error: "must be 'next' of the page before" })
    .optional(),
  limit: z.coerce.number().int().min(1).max(MAX_LIST_TAGS).default(MAX_LIST_TAGS),
});

/** `GET /repos/{repo}/tags`: by branch and name; one query to the catalogue. */
export async function listTags(asked: ApiRequest): Promise<Response> {
  const { branch: only, after, limit } = readQuery(asked, ListQuery);
  const repo = nameParam(asked, "repo");
  const [name = "", branch = ""] = after?.split(".") ?? [];
  const rows = await asked.context.catalogue.tags.list({
    repo,
    branch: only,
    limit: limit + 1,
    ...(after !== undefined && { after: { branch, name } }),
  });
  const page = rows.slice(0, limit);
  const last = rows.length > limit ? page.at(-1) : undefined;
  return Response.json({
    tags: page.map((row) => ({ ...row, bucket: viewBucket({ repo, branch: row.branch, view: row.name }) })),
    next: last === undefined ? null : `${last.name}.${last.branch}`,
  } satisfies TagPage);
}

/** `GET …/branches/{branch}/tags/{tag}`: as the branch has it. */
export async function inspectTag(asked: ApiRequest): Promise<Response> {
  const { address, branch, name } = tagInPath(asked);
  const tag = await branch.tags.find({ name });
  if (!tag.ok) throw tagError(tag, { address, name });
  const { commit, createdAt } = tag;
  return Response.json({ ...shown(address, { name, commit }), createdAt } satisfies Tag);
}

/** `PUT …/branches/{branch}/tags/{tag}`: 201 if it was made, 200 if it was moved or names that commit already. */
export async function setTag(asked: ApiRequest): Promise<Response> {
  const { address, branch, name } = tagInPath(asked);
  const { commit, force } = await readJson(asked, SetTag);
  if (holdsSeparator(name) && !(await branch.tags.find({ name })).ok)
    throw invalidField("tag", SEPARATOR_FAULT);
  const made = await branch.tags.create({
    name,
    force,
    ...(commit !== undefined && { commit }),
    ...changer(asked, address),
  });
  if (!made.ok) {
    if (made.reason === "tag-exists") throw tagExists(name, made.commit);
    if (made.reason === "tag-kept") throw tagKept(asked, { address, name });
    if (made.reason === "no-commit")
      throw apiError.NoSuchCommit(
        `The branch '${bucketName(address)}' has no commit yet, so that there is nothing to tag: put something into it first.`,
      );
    if (made.reason === "no-such-version") throw noSuchCommit(address, commit ?? "");
    throw branchError({ ok: false, reason: made.reason }, address);
  }
  const { change, before } = made;
  return Response.json({ ...shown(address, made), change, before } satisfies TagSet, {
    status: change === "made" ? 201 : 200,
  });
}

/** `DELETE …/branches/{branch}/tags/{tag}`: its commit stays, for a day if nothing else keeps it. */
export async function deleteTag(asked: ApiRequest): Promise<Response> {
  const { address, branch, name } = tagInPath(asked);
  const deleted = await branch.tags.delete({ name, ...changer(asked, address) });
  if (!deleted.ok) {
    const { reason } = deleted;
    if (reason === "tag-kept") throw tagKept(asked, { address, name });
    throw tagError({ ok: false, reason }, { address, name });
  }
  return new Response(null, { status: 204 });
}

/** Who may not administer the repo deletes and moves tags only as the writer of the branch. */
function changer({ caller }: Pick<ApiRequest, "caller">, { repo }: BranchAddress): TagChanger {
  const { scope, keyId } = caller;
  return permits(scope, { permission: "admin", repo }) ? {} : { asWriter: keyId };
}

function tagKept(
  { caller }: Pick<ApiRequest, "caller">,
  { address, name }: { address: BranchAddress; name: string },
): ApiError {
  const { repo } = address;
  const why = refusalText(caller.scope, { permission: "admin", repo });
  return apiError.AccessDenied(
    `The tag '${name}' of '${bucketName(address)}' is deleted or moved by who administers the repo, or by the key that the branch is protected for. ${why}`,
  );
}

function tagInPath(asked: ApiRequest) {
  const name = checked(z.object({ tag: TagName }), { tag: asked.params.tag ?? "" }).tag;
  return { ...branchInPath(asked), name };
}

function shown(
  { repo, branch }: BranchAddress,
  { name, commit }: { name: string; commit: string },
): Pick<Tag, "branch" | "name" | "commit" | "bucket"> {
  return { branch, name, commit, bucket: viewBucket({ repo, branch, view: name }) };
}

/** The id of a commit that is named by its id or a tag. Throws if there is no such tag. */
export async function commitId(
  { context }: Pick<ApiRequest, "context">,
  { address, name }: { address: BranchAddress; name: string },
): Promise<string> {
  if (isUlid(name)) return name;
  const tag = await context.branch(address).tags.find({ name });
  if (!tag.ok) throw tagError(tag, { address, name });
  return tag.commit;
}

function tagError(
  { reason }: Refused<"no-such-branch" | "forking" | "no-such-tag" | "catalogue-unavailable">,
  { address, name }: { address: BranchAddress; name: string },
): ApiError {
  if (reason !== "no-such-tag") return branchError({ ok: false, reason }, address);
  return apiError.NoSuchTag(`The branch '${bucketName(address)}' has no tag '${name}'.`);
}

function tagExists(name: string, commit: string): ApiError {
  return apiError.AlreadyExists(
    `The tag '${name}' names the commit '${commit}' already: take another name, or move it with "force": true (--force).`,
  );
}

function noSuchCommit(address: BranchAddress, named: string): ApiError {
  return apiError.NoSuchCommit(
    `The branch '${bucketName(address)}' has no commit or tag '${named}': 'sluice commit list ${bucketName(address)}' shows its commits.`,
  );
}

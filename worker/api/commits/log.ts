import { z } from "zod";
import {
  type Commit,
  type CommitDetail,
  CommitId,
  type CommitPage,
  type CommitRedacted,
  type DiffPage,
  MAX_LIST_CHANGES,
  MAX_LIST_COMMITS,
  type PathChange,
} from "../../../protocol/commits.ts";
import { type BranchAddress, CommitName } from "../../../protocol/names.ts";
import type { Job } from "../../../protocol/pipelines.ts";
import type { Context } from "../../app.ts";
import type { CommitEntry, PathDifference } from "../../branch/contract/history.ts";
import { conditionalJson } from "../answer/conditional.ts";
import { accepted, branchError } from "../answer/failures.ts";
import { type ApiRequest, branchInPath, mayRead, readQuery } from "../request/api-request.ts";

const ListQuery = z.strictObject({
  limit: z.coerce.number().int().min(1).max(MAX_LIST_COMMITS).default(100),
  after: CommitId.optional(),
  /** What each changed is added up. */
  summary: z.enum(["true", "false"], { error: "must be true or false" }).optional(),
});

/** `GET /repos/{repo}/branches/{branch}/commits`: newest first. */
export async function listCommits(asked: ApiRequest): Promise<Response> {
  const { limit, after, summary } = readQuery(asked, ListQuery);
  const { address, branch } = branchInPath(asked);
  const page = { limit, ...(after !== undefined && { after }), ...(summary === "true" && { summary: true }) };
  const log = accepted(await branch.history.list(page), address);
  const body: CommitPage = { commits: log.commits.map(shown), next: log.next };
  return await conditionalJson(asked.request, { body });
}

/** `GET …/commits/{id}`: the commit, the pipeline whose job made it, and what the job read. */
export async function inspectCommit(asked: ApiRequest): Promise<Response> {
  const entry = await commitInPath(asked);
  const job = entry.origin === null ? null : await jobOf(asked, entry.origin);
  const body: CommitDetail = {
    ...shown(entry),
    pipeline: job?.pipeline ?? null,
    inputs: job ? await withKept(asked.context, job.inputs) : [],
  };
  return await conditionalJson(asked.request, { body });
}

/**
 * `POST …/commits/{id}/redact`: takes the message and the metadata out of a commit for good. `commit` of the path may be a
 * tag. Asked again, it changes nothing.
 */
export async function redactAnnotation(asked: ApiRequest): Promise<Response> {
  const { address, branch } = branchInPath(asked);
  const commit = CommitName.safeParse(asked.params.commit);
  if (!commit.success) throw branchError({ ok: false, reason: "no-such-version" });
  const done = await branch.history.redact({ commit: commit.data, key: asked.caller.keyId });
  const { commit: id, redacted, change } = accepted(done, address);
  return Response.json({ commit: id, redacted, change } satisfies CommitRedacted);
}

const DiffQuery = z.strictObject({
  from: CommitId.optional(),
  after: z.string().default(""),
  limit: z.coerce.number().int().min(1).max(MAX_LIST_CHANGES).default(MAX_LIST_CHANGES),
});

/** `GET …/commits/{id}/diff`: how it differs from its parent, or from the commit `from`. */
export async function diffCommit(asked: ApiRequest): Promise<Response> {
  const { from: asFrom, after, limit } = readQuery(asked, DiffQuery);
  const { address, branch } = branchInPath(asked);
  const entry = await commitInPath(asked);
  const { id: to, parent, origin: job } = entry;
  const from = asFrom ?? parent;
  const diff = accepted(await branch.history.diff({ from, to, after, limit }), address);
  const changes = diff.changes.map(changeOf);
  return Response.json({
    ...{ from, to, job, ...noted(entry) },
    ...{ changes, next: diff.next },
  } satisfies DiffPage);
}

/** The commit of the path. If the branch was deleted and made again, only commits since then are found. */
export async function commitInPath(asked: ApiRequest): Promise<CommitEntry> {
  const { address, branch } = branchInPath(asked);
  return accepted(await branch.history.commit({ commit: asked.params.commit ?? "" }), address);
}

/**
 * A pipeline's output is in the repo of its name. Of a deleted pipeline whose output was kept, the catalogue still knows the job.
 * A commit that was imported may name a job of another repo, which is told only to those who may read that.
 */
async function jobOf({ caller, context, params }: ApiRequest, id: string): Promise<Job | null> {
  const own = await context.pipeline(params.repo ?? "").jobs.view(id);
  const job = own ?? (await context.catalogue.jobs.find(id));
  return job && mayRead({ caller }, job.pipeline) ? job : null;
}

function shown({ id, parent, createdAt, origin, changes, summary, ...entry }: CommitEntry): Commit {
  const commit = { id, parent, createdAt, job: origin, ...noted(entry), changes };
  return { ...commit, ...(summary !== undefined && { summary }) };
}

/** What was said of a commit, and whether an archive says it, as the API tells it. */
export function noted({
  annotation = {},
  imported,
}: Pick<CommitEntry, "annotation" | "imported">): Pick<
  Commit,
  "key" | "message" | "meta" | "redacted" | "imported"
> {
  const { key = null, message = null, meta, redacted } = annotation;
  return { key, message, meta: { ...meta }, ...(redacted && { redacted }), ...(imported && { imported }) };
}

/** A difference as the API tells it. */
export function changeOf({ path, before, after }: PathDifference): PathChange {
  const change = before === null ? "added" : after === null ? "deleted" : "changed";
  return { path, change, before, after };
}

/** A commit that a job read or made; null: there was none. */
interface JobCommit extends BranchAddress {
  readonly commit: string | null;
  readonly kept?: false | undefined;
}

/** What a job read or made, and of each commit if its branch keeps it no more. Unsaid if the branch can't be asked. */
export async function withKept<Place extends JobCommit>(
  { branch }: Pick<Context, "branch">,
  places: readonly Place[],
): Promise<Place[]> {
  return await Promise.all(
    places.map(async (place) => {
      if (place.commit === null) return place;
      const answer = await branch(place)
        .feed.kept({ commits: [place.commit] })
        .catch(() => undefined);
      return answer?.kept.length === 0 ? { ...place, kept: false as const } : place;
    }),
  );
}

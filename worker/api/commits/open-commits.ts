import { z } from "zod";
import { SaidAnnotation } from "../../../protocol/annotations.ts";
import { parseDuration } from "../../../protocol/duration.ts";
import {
  MAX_LIST_SESSIONS,
  OpenSession,
  type RevertEnd,
  type Session,
  type SessionDiff,
  type SessionEnd,
  type SessionOpened,
  type SessionPage,
} from "../../../protocol/files.ts";
import { type BranchAddress, CommitName, SessionId, viewBucket } from "../../../protocol/names.ts";
import type { RequestOf } from "../../branch/contract/answers.ts";
import type { BranchApi } from "../../branch/contract/api.ts";
import type { OpenCommitCalls } from "../../branch/contract/open-commits.ts";
import { apiError } from "../answer/errors.ts";
import { accepted, branchError } from "../answer/failures.ts";
import {
  type ApiRequest,
  annotationOf,
  branchInPath,
  readJson,
  readQuery,
  waitMsFor,
} from "../request/api-request.ts";
import { changeOf, noted } from "./log.ts";

/** How long one request waits for the end of an open commit. */
const MAX_WAIT_MS = 20_000;
/** The first pause between two looks at a commit that is being applied. Each is twice as long as the one before, up to the last. */
const FIRST_PAUSE_MS = 50;
const LAST_PAUSE_MS = 1000;

/** `POST /repos/{repo}/branches/{branch}/sessions` */
export async function startOpenCommit(asked: ApiRequest): Promise<Response> {
  const { address, branch } = branchInPath(asked);
  const { ttl, ...said } = hasBody(asked) ? await readJson(asked, OpenSession) : {};
  const opened = accepted(
    await branch.openCommits.start({ ttlMs: ttlOf(asked, ttl), annotation: annotationOf(asked, said) }),
    address,
  );
  const { openCommit: session } = opened;
  return Response.json(
    { session, bucket: viewBucket({ ...address, view: session }) } satisfies z.infer<typeof SessionOpened>,
    { status: 201 },
  );
}

/** `GET …/sessions/{session}` */
export async function inspectOpenCommit(asked: ApiRequest): Promise<Response> {
  const { address, branch, openCommit } = openCommitInPath(asked);
  const found = accepted(await branch.openCommits.status({ openCommit }));
  const { state, operations, openedAt, due, commit } = found;
  const session = { session: openCommit, bucket: viewBucket({ ...address, view: openCommit }) };
  return Response.json({ ...session, state, operations, openedAt, dueAt: due, commit } satisfies Session);
}

const ListQuery = z.strictObject({
  limit: z.coerce.number().int().min(1).max(MAX_LIST_SESSIONS).default(100),
  after: z.coerce.number().int().min(0).optional(),
});

/** `GET …/sessions`: those that are not finished. */
export async function listOpenCommits(asked: ApiRequest): Promise<Response> {
  const { limit, after } = readQuery(asked, ListQuery);
  const { address, branch } = branchInPath(asked);
  const list = accepted(
    await branch.openCommits.list({ limit, ...(after !== undefined && { after }) }),
    address,
  );
  const sessions = list.openCommits.map(
    ({ openCommit, state, operations, openedAt, due, commit, annotation }) => ({
      ...{ session: openCommit, bucket: viewBucket({ ...address, view: openCommit }), state, operations },
      ...{ openedAt, dueAt: due, commit, ...noted({ ...(annotation && { annotation }) }) },
    }),
  );
  const next = list.next === null ? null : String(list.next);
  return Response.json({ sessions, next } satisfies SessionPage);
}

const DiffQuery = z.strictObject({
  after: z.string().default(""),
  limit: z.coerce.number().int().min(1).max(MAX_LIST_SESSIONS).default(MAX_LIST_SESSIONS),
});

/** `GET …/sessions/{session}/diff`: what it would change if it were finished now. */
export async function diffOpenCommit(asked: ApiRequest): Promise<Response> {
  const { after, limit } = readQuery(asked, DiffQuery);
  const { address, branch, openCommit } = openCommitInPath(asked);
  const found = accepted(await branch.openCommits.changes({ openCommit, after, limit }), address);
  return Response.json({ changes: found.changes.map(changeOf), next: found.next } satisfies SessionDiff);
}

/**
 * `POST …/sessions/{session}/finish`: 202 if it takes longer than one request waits. It may be asked again: the commit
 * keeps the annotation of the request that finished it.
 */
export async function finishOpenCommit(asked: ApiRequest): Promise<Response> {
  const { branch, openCommit } = openCommitInPath(asked);
  const said = hasBody(asked) ? await readJson(asked, SaidAnnotation) : undefined;
  const end = await waitForEnd(asked, branch, { openCommit, annotation: annotationOf(asked, said ?? {}) });
  return Response.json(end satisfies SessionEnd, {
    status: end.state === "applying" ? 202 : 200,
  });
}

/** `POST …/commits/{id}/revert`: one commit whose tree is that of this one. 202 if it takes longer than one request waits: its session then tells. */
export async function revertCommit(asked: ApiRequest): Promise<Response> {
  const { address, branch } = branchInPath(asked);
  const annotation = annotationOf(asked, hasBody(asked) ? await readJson(asked, SaidAnnotation) : {});
  const commit = CommitName.safeParse(asked.params.commit);
  if (!commit.success) throw branchError({ ok: false, reason: "no-such-version" });
  const begun = accepted(await branch.openCommits.revert({ commit: commit.data, annotation }), address);
  const { openCommit: session } = begun;
  const end = await waitForEnd(asked, branch, { openCommit: session, annotation });
  return Response.json({ ...end, session } satisfies RevertEnd, {
    status: end.state === "applying" ? 202 : 200,
  });
}

/** `DELETE …/sessions/{session}`: also succeeds if it is gone. */
export async function abortOpenCommit(asked: ApiRequest): Promise<Response> {
  const { branch, openCommit } = openCommitInPath(asked);
  const aborted = await branch.openCommits.abort({ openCommit });
  if (aborted.ok) return new Response(null, { status: 204 });
  throw apiError.SessionApplying(
    `The open commit '${openCommit}' is being made already, which can't be stopped any more: it is there in a moment.`,
  );
}

async function waitForEnd(
  asked: ApiRequest,
  branch: BranchApi,
  request: RequestOf<OpenCommitCalls["finish"]>,
): Promise<Pick<SessionEnd, "state" | "commit">> {
  // Pauses are counted, since a clock may be set.
  let leftMs = waitMsFor(asked, MAX_WAIT_MS);
  for (let pause = FIRST_PAUSE_MS; ; pause = Math.min(2 * pause, LAST_PAUSE_MS)) {
    const end = accepted(await branch.openCommits.finish(request));
    if (end.state === "finished") return { state: "finished", commit: end.commit };
    if (leftMs <= 0) return { state: "applying", commit: null };
    await scheduler.wait(pause);
    leftMs -= pause;
  }
}

function ttlOf({ context }: ApiRequest, ttl: string | undefined): number {
  const { defaultMs, maxMs } = context.config.openCommitTtl;
  const asked = ttl === undefined ? defaultMs : (parseDuration(ttl) ?? defaultMs);
  if (asked <= maxMs) return asked;
  const message = `must be at most ${maxMs / 3_600_000}h, which SLUICE_SESSION_MAX_TTL of the gateway says`;
  throw apiError.InvalidRequest(`The request is not valid: ttl: ${message}`, {
    issues: [{ path: "ttl", message }],
  });
}

function hasBody({ request }: ApiRequest): boolean {
  return request.body !== null && request.headers.get("content-length") !== "0";
}

function openCommitInPath(asked: ApiRequest): {
  address: BranchAddress;
  branch: BranchApi;
  openCommit: string;
} {
  const { address, branch } = branchInPath(asked);
  const id = SessionId.safeParse(asked.params.session);
  if (!id.success) throw branchError({ ok: false, reason: "no-such-open-commit" });
  return { address, branch, openCommit: id.data };
}

import type { z } from "zod";
import { parseDuration } from "../../../protocol/duration.ts";
import { OpenSession, type Session, type SessionEnd, type SessionOpened } from "../../../protocol/files.ts";
import { type BranchAddress, openCommitBucket, SessionId } from "../../../protocol/names.ts";
import type { BranchApi } from "../../branch/contract.ts";
import { ApiError } from "../answer/errors.ts";
import { branchFailure } from "../answer/failures.ts";
import { type ApiRequest, nameParam, noQuery } from "../request/api-request.ts";
import { readJson } from "../request/read-json.ts";

/** Longest time that the end of an open commit is waited for in one request. */
const MAX_WAIT_MS = 20_000;
/** First pause between two looks at a commit that is being applied; each is twice as long, up to the last. */
const FIRST_PAUSE_MS = 50;
const LAST_PAUSE_MS = 1000;

/** `POST /repos/{repo}/branches/{branch}/sessions` */
export async function startOpenCommit(asked: ApiRequest): Promise<Response> {
  noQuery(asked);
  const address = branchInPath(asked);
  const { ttl } = hasBody(asked) ? await readJson(asked, OpenSession) : {};
  const opened = await asked.context.branch(address).startOpenCommit({ ttlMs: ttlOf(asked, ttl) });
  if (!opened.ok) throw branchFailure(opened, address);
  const { openCommit: session } = opened;
  return Response.json(
    { session, bucket: openCommitBucket({ ...address, session }) } satisfies z.infer<typeof SessionOpened>,
    { status: 201 },
  );
}

/** `GET …/sessions/{session}` */
export async function inspectOpenCommit(asked: ApiRequest): Promise<Response> {
  noQuery(asked);
  const { address, branch, openCommit } = openCommitInPath(asked);
  const found = await branch.openCommitStatus({ openCommit });
  if (!found.ok) throw branchFailure(found);
  const { state, operations, openedAt, due, commit } = found;
  const bucket = openCommitBucket({ ...address, session: openCommit });
  return Response.json({
    session: openCommit,
    bucket,
    state,
    operations,
    openedAt,
    dueAt: due,
    commit,
  } satisfies Session);
}

/** `POST …/sessions/{session}/finish`: 202 where it takes longer than one request waits. May be asked again. */
export async function finishOpenCommit(asked: ApiRequest): Promise<Response> {
  noQuery(asked);
  const { branch, openCommit } = openCommitInPath(asked);
  const end = await waitForEnd(branch, openCommit);
  return Response.json(end, { status: end.state === "applying" ? 202 : 200 });
}

/** `DELETE …/sessions/{session}`: good, too, where it is gone. */
export async function abortOpenCommit(asked: ApiRequest): Promise<Response> {
  noQuery(asked);
  const { branch, openCommit } = openCommitInPath(asked);
  const aborted = await branch.abortOpenCommit({ openCommit });
  if (aborted.ok) return new Response(null, { status: 204 });
  throw new ApiError(
    "SessionApplying",
    `The open commit '${openCommit}' is being made already, which can't be stopped any more: it is there in a moment.`,
  );
}

async function waitForEnd(branch: BranchApi, openCommit: string): Promise<SessionEnd> {
  const deadline = Date.now() + MAX_WAIT_MS;
  for (let pause = FIRST_PAUSE_MS; ; pause = Math.min(2 * pause, LAST_PAUSE_MS)) {
    const end = await branch.finishOpenCommit({ openCommit });
    if (!end.ok) throw branchFailure(end);
    if (end.state === "finished") return { state: "finished", commit: end.commit };
    if (Date.now() >= deadline) return { state: "applying", commit: null };
    await scheduler.wait(pause);
  }
}

function ttlOf({ context }: ApiRequest, ttl: string | undefined): number {
  const { defaultMs, maxMs } = context.config.openCommitTtl;
  const asked = ttl === undefined ? defaultMs : (parseDuration(ttl) ?? defaultMs);
  if (asked <= maxMs) return asked;
  const message = `must be at most ${maxMs / 3_600_000}h, which SLUICE_SESSION_MAX_TTL of the gateway says`;
  throw new ApiError("InvalidRequest", `The request is not valid: ttl: ${message}`, {
    issues: [{ path: "ttl", message }],
  });
}

function hasBody({ request }: ApiRequest): boolean {
  return request.body !== null && request.headers.get("content-length") !== "0";
}

function branchInPath(asked: ApiRequest): BranchAddress {
  return { repo: nameParam(asked, "repo"), branch: nameParam(asked, "branch") };
}

function openCommitInPath(asked: ApiRequest): {
  address: BranchAddress;
  branch: BranchApi;
  openCommit: string;
} {
  const address = branchInPath(asked);
  const id = SessionId.safeParse(asked.params.session);
  if (!id.success) throw branchFailure({ ok: false, reason: "no-such-open-commit" });
  return { address, branch: asked.context.branch(address), openCommit: id.data };
}

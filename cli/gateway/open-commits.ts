import type { z } from "zod";
import type { SaidOfCommit } from "../../protocol/annotations.ts";
import {
  CommitCreated,
  MAX_LIST_SESSIONS,
  Session,
  SessionDiff,
  SessionEnd,
  SessionOpened,
  SessionPage,
  UploadOpened,
} from "../../protocol/files.ts";
import {
  type BranchAddress,
  type BucketAddress,
  type ViewAddress,
  viewBucket,
} from "../../protocol/names.ts";
import { CliError, InterruptedError } from "../output/failure.ts";
import { stopRequests } from "../stop-requests.ts";
import { allPages, type Client, unlessRefused } from "./client.ts";

/** Calls of the control API about open commits, which it calls sessions. */

/** An upload, and how long a part of a content is that is too long for one body. */
export type OpenedUpload = z.infer<typeof UploadOpened>;

/** Starts an open commit. It ends by itself if nothing is added for `ttl`, a length of time such as "24h". */
export function startOpenCommit(
  client: Client,
  { repo, branch, ttl, said }: BranchAddress & { ttl?: string | undefined; said?: SaidOfCommit | undefined },
): ReturnType<typeof client.call<typeof SessionOpened>> {
  return client.post(SessionOpened, `/repos/${repo}/branches/${branch}/sessions`, { json: { ttl, ...said } });
}

/** Finishes an open commit, however long that takes. Returns the commit's id, or null if nothing changed. */
export async function finishOpenCommit(
  client: Client,
  { said, ...open }: ViewAddress & { readonly said?: SaidOfCommit },
): Promise<string | null> {
  for (;;) {
    const end = await client.post(SessionEnd, `${openCommitPath(open)}/finish`, {
      ...(said && { json: said }),
      repeatable: true,
    });
    if (end.state === "finished") return end.commit;
  }
}

/** A commit that is to be made, and what fills it. */
interface Filling<To, Opened, Filled> {
  readonly to: To;
  readonly said?: SaidOfCommit | undefined;
  readonly fill: (opened: Opened) => Promise<Filled>;
}

/**
 * Makes one commit of the operations that `fill` returns for an upload, or stages them in an open commit. Returns the
 * commit's id, or null if none was made.
 */
export async function commitUpload(
  client: Client,
  { to, said, fill }: Filling<BucketAddress, OpenedUpload, readonly object[]>,
): Promise<string | null> {
  const { repo, branch, view } = to;
  const opened = await client.post(UploadOpened, "/uploads", { json: { repo, branch } });
  const { upload } = opened;
  const { commit } = await client.post(CommitCreated, `/repos/${repo}/branches/${branch}/commits`, {
    json: { upload, operations: await fill(opened), session: view, ...said },
  });
  return commit;
}

/** Forgets an open commit and what it holds. Does nothing if it is gone already. */
export async function abortOpenCommit(client: Client, open: ViewAddress): Promise<void> {
  await client.delete(openCommitPath(open));
}

/**
 * One commit of any size: `fill` stages its operations, then it is finished. If that fails, or somebody stops this
 * program, the open commit is forgotten, and nothing of it becomes visible.
 */
export async function asOneCommit(
  client: Client,
  { to, said, fill }: Filling<BranchAddress, ViewAddress, void>,
): Promise<string | null> {
  // Said at the start: a gateway that does not know it refuses it before anything is sent.
  const { session } = await startOpenCommit(client, { ...to, said });
  const open: ViewAddress = { repo: to.repo, branch: to.branch, view: session };
  const stop = stopRequests();
  try {
    await Promise.race([fill(open), stop.drain.then(interrupted)]);
    return await finishOpenCommit(client, open);
  } catch (error) {
    // If the gateway can't be reached now, the open commit ends by itself later.
    await abortOpenCommit(client, open).catch(() => {});
    throw error;
  } finally {
    stop.forget();
  }
}

function interrupted(signal: NodeJS.Signals): never {
  throw new InterruptedError("stopped by a signal; nothing was committed", signal);
}

/** How an open commit stands; also one that was finished lately. */
export function inspectOpenCommit(client: Client, open: ViewAddress): Promise<Session> {
  return client.get(Session, openCommitPath(open));
}

/** The open commits of a branch that are not finished. */
export async function listOpenCommits(
  client: Client,
  { repo, branch }: BranchAddress,
): Promise<SessionPage["sessions"]> {
  const path = `/repos/${repo}/branches/${branch}/sessions`;
  const pages = await allPages(client.pages(SessionPage, path, { limit: MAX_LIST_SESSIONS }));
  return pages.flatMap(({ sessions }) => sessions);
}

/** What an open commit would change if it were finished now: at most so many paths, behind one. */
export async function diffOpenCommit(
  client: Client,
  open: ViewAddress,
  { limit, after: start }: { limit: number; after: string | undefined },
): Promise<SessionDiff> {
  const changes: SessionDiff["changes"] = [];
  let after = start;
  for (;;) {
    const page = await client.get(SessionDiff, `${openCommitPath(open)}/diff`, {
      limit: Math.min(limit - changes.length, MAX_LIST_SESSIONS),
      after,
    });
    changes.push(...page.changes);
    if (page.next === null || changes.length >= limit) return { changes, next: page.next };
    after = page.next;
  }
}

/**
 * Throws if what is written to is said to be an open commit and is not there, or is a commit, into which nothing can be put:
 * asked before many bytes are sent.
 */
export async function mustBeOpen(client: Client, { repo, branch, view }: BucketAddress): Promise<void> {
  if (view === undefined) return;
  const open = { repo, branch, view };
  if (await unlessRefused(inspectOpenCommit(client, open), "NoSuchSession")) return;
  throw new CliError(
    `there is no such open commit: s3://${viewBucket(open)} was finished or aborted, ran out, or is the bucket of a commit, which is read-only`,
    { code: "NoSuchSession" },
  );
}

function openCommitPath({ repo, branch, view }: ViewAddress): string {
  return `/repos/${repo}/branches/${branch}/sessions/${view}`;
}

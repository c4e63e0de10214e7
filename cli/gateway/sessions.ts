import { SessionEnd, SessionOpened } from "../../protocol/files.ts";
import type { BranchAddress, BucketAddress } from "../../protocol/names.ts";
import { stopRequests } from "../local/stop-requests.ts";
import { CliError } from "../output/failure.ts";
import type { Client } from "./client.ts";

/** The session calls of the control API. */

/** A session and its branch. */
export type OpenCommit = Required<BucketAddress>;

/** Opens a commit; with `ttl`, a length of time such as "24h", it expires when nothing is added for so long. */
export function openSession(
  client: Client,
  { repo, branch, ttl }: BranchAddress & { readonly ttl?: string },
): ReturnType<typeof client.call<typeof SessionOpened>> {
  return client.call(SessionOpened, {
    method: "POST",
    path: `/repos/${repo}/branches/${branch}/sessions`,
    json: ttl === undefined ? {} : { ttl },
  });
}

/** Publishes an open commit, however long it takes; answers the commit, or null where nothing changed. */
export async function finishSession(client: Client, open: OpenCommit): Promise<string | null> {
  for (;;) {
    const end = await client.call(SessionEnd, {
      method: "POST",
      path: `${sessionPath(open)}/finish`,
      repeatable: true,
    });
    if (end.state === "finished") return end.commit;
  }
}

/** Forgets an open commit and what it holds; fine where it is gone. */
export async function abortSession(client: Client, open: OpenCommit): Promise<void> {
  const answer = await client.send({ method: "DELETE", path: `/api/v1${sessionPath(open)}` });
  await answer.body.dump();
}

/**
 * One commit of any size: `fill` stages what it holds, then it is published. Where that fails, or somebody stops this
 * program, the open commit is forgotten, and nothing of it is seen.
 */
export async function commitThroughSession(
  client: Client,
  { to, fill }: { to: BranchAddress; fill: (open: OpenCommit) => Promise<void> },
): Promise<string | null> {
  const { session } = await openSession(client, to);
  const open: OpenCommit = { repo: to.repo, branch: to.branch, session };
  const stop = stopRequests();
  try {
    await Promise.race([fill(open), stop.drain.then(interrupted)]);
    return await finishSession(client, open);
  } catch (error) {
    // Best effort: what can't be told to go runs out by itself.
    await abortSession(client, open).catch(() => {});
    throw error;
  } finally {
    stop.forget();
  }
}

/** Code of the failure of a command that somebody stopped. */
export const INTERRUPTED = "Interrupted";

function interrupted(): never {
  throw new CliError("stopped by a signal; nothing was committed", { code: INTERRUPTED });
}

function sessionPath({ repo, branch, session }: OpenCommit): string {
  return `/repos/${repo}/branches/${branch}/sessions/${session}`;
}

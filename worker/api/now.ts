import type { Overview } from "../../protocol/pipelines.ts";
import type { Caller, Context } from "../app.ts";
import { UNDER_WAY } from "../catalogue/jobs.ts";
import { isAlive } from "../catalogue/nodes.ts";
import { permits } from "../core/permissions.ts";
import { conditionalJson } from "./answer/conditional.ts";
import { unfinishedJobs } from "./jobs.ts";
import type { ApiRequest } from "./request/api-request.ts";

const DAY_MS = 24 * 60 * 60 * 1000;
const MAX_UNDER_WAY = 100;
const MAX_FAILED = 50;
const MAX_ENDED = 60;
const MAX_COUNTED = 10_000;
const MAX_STOPPED = 20;

/**
 * `GET /now`: one answer for who wants to see how things are. It costs five queries of the catalogue, each of which
 * reads as much as it shows, one more if something failed, and one more if more failed than it shows; and a call to each of the pipelines
 * whose jobs wait, at most 50. With the ETag of the last
 * answer in `if-none-match` it is 304 until something is new.
 */
export async function showNow(asked: ApiRequest): Promise<Response> {
  const { request, context, caller } = asked;
  const now = Date.now();
  const [jobs, pipelines, nodes] = await Promise.all([
    findJobs(context, { caller, since: now - DAY_MS }),
    findPipelines(context, caller),
    findNodes(context, { caller, now }),
  ]);
  const body: Omit<Overview, "at"> = { ...jobs, pipelines, nodes };
  return await conditionalJson(request, { body, fleeting: { at: now } satisfies Pick<Overview, "at"> });
}

async function findJobs(
  context: Context,
  { caller, since }: { caller: Caller; since: number },
): Promise<Pick<Overview, "underWay" | "failed" | "failedCount" | "ended" | "more">> {
  const scope = { pipelines: caller.scope.repos ?? undefined };
  const { jobs } = context.catalogue;
  const [failures, newest, open] = await Promise.all([
    // By the time when they were made: one that was made long ago and failed only now is among the last that failed, too.
    jobs.list({ ...scope, states: ["failure"], limit: MAX_FAILED + 1 }),
    jobs.list({ ...scope, limit: MAX_ENDED + MAX_UNDER_WAY }),
    jobs.list({ ...scope, states: UNDER_WAY, limit: MAX_UNDER_WAY + 1 }),
  ]);
  const failed = failures.filter(({ finishedAt }) => (finishedAt ?? 0) >= since);
  // Beyond the page they are counted by when they were made.
  const counted =
    failures.length > MAX_FAILED ? await jobs.countFailed({ ...scope, since, limit: MAX_COUNTED }) : 0;
  const failedCount = Math.max(failed.length, counted);
  const underWay = open.slice(0, MAX_UNDER_WAY);
  const shownFailed = failed.slice(0, MAX_FAILED);
  const [live, mended] = await Promise.all([unfinishedJobs(context, underWay), jobs.mended(shownFailed)]);
  const mends = new Map(mended.map(({ failed: id, ...mend }) => [id, mend]));
  const ended = newest.filter(({ finishedAt }) => finishedAt !== null).slice(0, MAX_ENDED);
  return {
    underWay: underWay.map((job) => live.get(job.id) ?? job),
    failed: shownFailed.map((job) => {
      const mend = mends.get(job.id);
      return mend ? { ...job, mended: mend } : job;
    }),
    failedCount,
    ended: ended.map(({ id, pipeline, state, createdAt, startedAt, finishedAt }) => ({
      ...{ id, pipeline, state, createdAt, startedAt, finishedAt },
    })),
    more: { underWay: open.length > MAX_UNDER_WAY, failed: failedCount > MAX_FAILED },
  };
}

async function findPipelines({ catalogue }: Context, { scope }: Caller): Promise<Overview["pipelines"]> {
  const all = await catalogue.pipelines.list();
  const seen = all.filter(({ name }) => permits(scope, { permission: "list", repo: name }));
  const stopped = seen.filter(({ state }) => state === "stopped").map(({ name }) => name);
  return { total: seen.length, stopped: stopped.slice(0, MAX_STOPPED) };
}

/** Nodes belong to no repo: a key for some repos does not see them. */
async function findNodes(
  { catalogue }: Context,
  { caller, now }: { caller: Caller; now: number },
): Promise<Overview["nodes"]> {
  if (!permits(caller.scope, { permission: "read", repo: null })) return null;
  const rows = await catalogue.nodes.list(now - DAY_MS);
  const live = rows.filter((row) => isAlive(row, now));
  const rooms = live.map(({ bounds }) => bounds?.running);
  return {
    live: live.length,
    draining: live.filter(({ draining }) => draining).length,
    silent: rows.length - live.length,
    running: sum(live.flatMap(({ work }) => work.map(({ running }) => running))),
    room: rooms.every((room) => room !== undefined) ? sum(rooms) : null,
  };
}

function sum(numbers: readonly number[]): number {
  return numbers.reduce((total, each) => total + each, 0);
}

import { KeptLines, ScrubAsk, ScrubState } from "../../../protocol/admin.ts";
import type { HostRequest } from "../../env.ts";
import { apiError } from "../answer/errors.ts";
import { type ApiRequest, readJson } from "../request/api-request.ts";

/** `POST /admin/scrub`: the host stops this runtime soon after it has answered. */
export async function startScrub(asked: ApiRequest): Promise<Response> {
  const body = await readJson(asked, ScrubAsk);
  const state = await askHost(asked, { path: "/scrub", body }, NO_SCRUB);
  return Response.json(ScrubState.parse(state), { status: 202 });
}

/** `GET /admin/scrub` */
export async function scrubState(asked: ApiRequest): Promise<Response> {
  return Response.json(ScrubState.parse(await askHost(asked, { path: "/scrub" }, NO_SCRUB)));
}

/** `GET /admin/log`: the newest lines of the log that the host keeps. */
export async function showLog(asked: ApiRequest): Promise<Response> {
  return Response.json(KeptLines.parse(await askHost(asked, { path: "/log" }, NO_LOG)));
}

const NO_SCRUB =
  "There is no scrub on Cloudflare: the platform keeps what was erased in its own history for up to 30 days, and no command reaches it.";
const NO_LOG =
  "The gateway keeps no log on Cloudflare: Workers Logs has it ('wrangler tail', or the dashboard).";

/** Throws NotImplemented, with these words, on Cloudflare, which is no host of ours. */
async function askHost({ context }: ApiRequest, request: HostRequest, absent: string): Promise<unknown> {
  if (!context.askHost) throw apiError.NotImplemented(absent);
  return await context.askHost(request);
}

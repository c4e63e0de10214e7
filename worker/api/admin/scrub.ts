import { ScrubAsk, ScrubState } from "../../../protocol/admin.ts";
import type { HostRequest } from "../../app.ts";
import { ApiError } from "../answer/errors.ts";
import { type ApiRequest, noQuery } from "../request/api-request.ts";
import { readJson } from "../request/read-json.ts";

/** `POST /admin/scrub`: the host stops this runtime soon after it has answered. */
export async function startScrub(asked: ApiRequest): Promise<Response> {
  noQuery(asked);
  const body = await readJson(asked, ScrubAsk);
  return Response.json(await askHost(asked, { path: "/scrub", body }), { status: 202 });
}

/** `GET /admin/scrub` */
export async function scrubState(asked: ApiRequest): Promise<Response> {
  noQuery(asked);
  return Response.json(await askHost(asked, { path: "/scrub" }));
}

async function askHost({ context }: ApiRequest, request: HostRequest): Promise<ScrubState> {
  if (!context.askHost) {
    throw new ApiError(
      "NotImplemented",
      "There is no scrub on Cloudflare: the platform keeps what was erased in its own history for up to 30 days, and no command reaches it.",
    );
  }
  return ScrubState.parse(await context.askHost(request));
}

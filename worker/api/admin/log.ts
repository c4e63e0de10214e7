import { KeptLines } from "../../../protocol/admin.ts";
import { ApiError } from "../answer/errors.ts";
import { type ApiRequest, noQuery } from "../request/api-request.ts";

/** `GET /admin/log`: the newest lines of the log that the host keeps. */
export async function showLog(asked: ApiRequest): Promise<Response> {
  noQuery(asked);
  const { askHost } = asked.context;
  if (!askHost) {
    throw new ApiError(
      "NotImplemented",
      "The gateway keeps no log on Cloudflare: Workers Logs has it ('wrangler tail', or the dashboard).",
    );
  }
  return Response.json(KeptLines.parse(await askHost({ path: "/log" })));
}

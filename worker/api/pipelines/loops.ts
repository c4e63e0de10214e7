import { type ApiRequest, nameParam, noQuery } from "../request/api-request.ts";
import { noSuchPipeline } from "./shown.ts";

/** `GET /pipelines/{name}/loops`: how its object's work stands. Errors may name what the key could not see elsewhere, so it takes `admin`. */
export async function showLoops(asked: ApiRequest): Promise<Response> {
  noQuery(asked);
  const name = nameParam(asked, "pipeline");
  const standing = await asked.context.pipeline(name).admin.loops();
  if (!standing) throw noSuchPipeline(name);
  return Response.json(standing);
}

import { handleApi, isApiPath } from "./api/api.ts";
import { foreignError } from "./api/errors.ts";
import { openContext } from "./app.ts";
import { type Env, readConfig } from "./env.ts";
import { authenticate } from "./s3/auth/authenticate.ts";
import { S3_ERRORS } from "./s3/errors.ts";
import { handleS3 } from "./s3/gateway.ts";

export { Branch } from "./branch/branch.ts";
export { Pipeline } from "./pipeline/pipeline.ts";

export default {
  async fetch(request, env): Promise<Response> {
    const path = pathOf(request.url);
    if (path === "/healthz") return new Response("ok\n");
    const read = readConfig(env);
    if (!read.ok) return new Response(`The gateway is not set up: ${read.problem}\n`, { status: 503 });
    const { rootKey } = read.config;
    const context = openContext(env);
    if (!isApiPath(path)) return handleS3(request, { context, rootKey, now: Date.now });
    const auth = authenticate(request, { rootKey, now: Date.now() });
    if (auth.ok) return handleApi(request, { context, caller: auth.caller });
    const { code, message } = auth;
    return foreignError({ code, message, status: S3_ERRORS[code].status, requestId: context.requestId });
  },
} satisfies ExportedHandler<Env>;

/** The path of an absolute URL, as it came: parsing would rewrite it. */
function pathOf(url: string): string {
  const start = url.indexOf("/", url.indexOf("//") + 2);
  if (start < 0) return "/";
  const end = url.indexOf("?", start);
  return end < 0 ? url.slice(start) : url.slice(start, end);
}

import { ownPath } from "../protocol/names.ts";
import { errorAnswer, renderApiError } from "./api/answer/errors.ts";
import { handleApi, isApiPath } from "./api/api.ts";
import { type Context, openContext, withTime } from "./app.ts";
import { type Env, readConfig } from "./env.ts";
import { S3_ERRORS } from "./s3/answer/errors.ts";
import { authenticate } from "./s3/auth/authenticate.ts";
import { handleS3 } from "./s3/gateway.ts";
import { isBucketHost } from "./s3/request/address.ts";
import { authorityOf } from "./s3/request/target.ts";

export { Branch } from "./branch/branch.ts";
export { Pipeline } from "./pipeline/pipeline.ts";

const HEALTH = ownPath("healthz");

export default {
  async fetch(request, env): Promise<Response> {
    const read = readConfig(env);
    // On a bucket's own host every path is a key, even these two.
    const path = read.ok && isBucketHost(hostOf(request), read.config) ? undefined : pathOf(request.url);
    // Signatures are held to the gateway's clock: `sluice doctor` compares it with its own.
    if (path === HEALTH) return new Response("ok\n", { headers: { date: new Date().toUTCString() } });
    if (!read.ok) return new Response(`The gateway is not set up: ${read.problem}\n`, { status: 503 });
    const context = openContext(env, read.config);
    const isApi = path !== undefined && isApiPath(path);
    const answer = isApi ? answerApi(request, context) : handleS3(request, { context, now: Date.now });
    return withTime(await answer, Date.now());
  },
} satisfies ExportedHandler<Env>;

async function answerApi(request: Request, context: Context): Promise<Response> {
  const { keys, requestId } = context;
  try {
    const auth = await authenticate(request, { keys, now: Date.now() });
    if (auth.ok) return await handleApi(request, { context, caller: auth.caller });
    const { code, message } = auth;
    return errorAnswer({ code, message }, { status: S3_ERRORS[code].status, requestId });
  } catch (error) {
    return renderApiError(error, requestId);
  }
}

function hostOf(request: Request): string {
  return request.headers.get("host") ?? authorityOf(request.url);
}

/** The path of an absolute URL, as it came: parsing would rewrite it. */
function pathOf(url: string): string {
  const start = url.indexOf("/", url.indexOf("//") + 2);
  if (start < 0) return "/";
  const end = url.indexOf("?", start);
  return end < 0 ? url.slice(start) : url.slice(start, end);
}

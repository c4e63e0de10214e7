import { ownPath } from "../protocol/names.ts";
import type { Readiness } from "../protocol/ready.ts";
import { errorAnswer, renderApiError } from "./api/answer/errors.ts";
import { handleApi, isApiPath } from "./api/api.ts";
import { type Context, openContext, withTime } from "./app.ts";
import { sentBody } from "./blobs/body-reader.ts";
import { answerConsole, isConsolePath } from "./console.ts";
import { permits } from "./core/permissions.ts";
import { type Config, type Env, readConfig } from "./env.ts";
import { findAlmostFull, findCauses, readiness, readinessInFull, UNCONFIGURED } from "./ready.ts";
import { logRequest } from "./request-log.ts";
import { S3Error } from "./s3/answer/errors.ts";
import { authenticate } from "./s3/auth/verify.ts";
import { handleS3 } from "./s3/gateway.ts";
import { isBucketHost } from "./s3/request/address.ts";
import { authorityOf } from "./s3/request/target.ts";

export { Blobs } from "./blobs/near/entrypoint.ts";
export { Branch } from "./branch/branch.ts";
export { Fleet } from "./fleet/fleet.ts";
export { Pipeline } from "./pipeline/pipeline.ts";

const HEALTH = ownPath("healthz");
const READY = ownPath("readyz");

export default {
  async fetch(request, env): Promise<Response> {
    const read = readConfig(env);
    // On a bucket's own host every path is a key, even these two.
    const path = read.ok && isOnBucketHost(request, read.config) ? undefined : pathOf(request.url);
    // Signatures are held to the gateway's clock: `sluice doctor` compares it with its own.
    if (path === HEALTH) return new Response("ok\n", { headers: { date: new Date().toUTCString() } });
    if (path === READY) return await answerReady(request, { env, read });
    if (path !== undefined && isConsolePath(path)) {
      return await answerConsole(request, { path, assets: env.CONSOLE });
    }
    if (!read.ok) return new Response(`The gateway is not set up: ${read.problem}\n`, { status: 503 });
    const startedAt = Date.now();
    const context = openContext(env, read.config);
    const isApi = path !== undefined && isApiPath(path);
    const answered = isApi ? answerApi(request, context) : handleS3(request, { context, now: Date.now });
    const answer = withTime(await answered, Date.now());
    // Only a refusal may leave a body unread: what is served is spared the look at it, which each request would pay for.
    if (answer.status >= 400) await takeUnread(request);
    const { requestId, event } = context;
    logRequest(read.config, { request, answer, event, requestId, ms: Date.now() - startedAt });
    return answer;
  },
} satisfies ExportedHandler<Env>;

/**
 * Whether the gateway can serve. Unsigned, so that monitors need no key; a request that is signed hears why not, if its
 * key is for all repos. A signature that is not good is passed over, since D1 may be what is away.
 */
async function answerReady(
  request: Request,
  { env, read }: { env: Env; read: ReturnType<typeof readConfig> },
): Promise<Response> {
  if (!read.ok) return readyAnswer(readiness(UNCONFIGURED));
  const context = openContext(env, read.config);
  const now = Date.now();
  const [causes, inFull] = await Promise.all([findCauses(context, now), mayHearAll(request, context, now)]);
  if (!inFull) return readyAnswer(readiness(causes));
  const almostFull = await findAlmostFull(context);
  return readyAnswer(readinessInFull(causes, { almostFull, upload: env.VERSION?.id }));
}

async function mayHearAll(request: Request, { keys }: Context, now: number): Promise<boolean> {
  if (!request.headers.has("authorization")) return false;
  const caller = await authenticate(request, { keys, now }).catch(() => undefined);
  return caller !== undefined && permits(caller.scope, { permission: "read", repo: null });
}

function readyAnswer(body: Readiness): Response {
  return Response.json(body, { status: body.ready ? 200 : 503, headers: { "cache-control": "no-store" } });
}

async function answerApi(request: Request, context: Context): Promise<Response> {
  const { keys } = context;
  try {
    const caller = await authenticate(request, { keys, now: Date.now() });
    return await handleApi(request, { context, caller });
  } catch (error) {
    if (error instanceof S3Error) {
      const { code, message, status } = error;
      return errorAnswer({ code, message }, { status, context });
    }
    return renderApiError(error, context);
  }
}

/** Takes what a client sends that is refused before its body is read. One that asks first, with Expect, sends nothing. */
async function takeUnread({ body, headers }: Request): Promise<void> {
  if (body === null || body.locked || headers.has("expect")) return;
  // A client that is gone hears nothing, but its request is logged.
  await sentBody(body)
    .cancel()
    .catch(() => {});
}

function isOnBucketHost({ headers, url }: Request, config: Config): boolean {
  if (config.domain === undefined) return false;
  return isBucketHost(headers.get("host") ?? authorityOf(url), config);
}

/** The path of an absolute URL, as it came: parsing would rewrite it. */
function pathOf(url: string): string {
  const start = url.indexOf("/", url.indexOf("//") + 2);
  if (start < 0) return "/";
  const end = url.indexOf("?", start);
  return end < 0 ? url.slice(start) : url.slice(start, end);
}

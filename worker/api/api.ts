import { type IRequest, Router } from "itty-router";
import type { Caller, Context } from "../app.ts";
import type { ApiRequest, Handler } from "./api-request.ts";
import { createCommit, listFiles } from "./commits.ts";
import { readContents } from "./contents.ts";
import { ApiError, renderApiError } from "./errors.ts";
import { inspectJob, listJobs } from "./jobs.ts";
import { listNodes } from "./nodes.ts";
import { createPipeline, deletePipeline, inspectPipeline, listPipelines } from "./pipelines.ts";
import { listBranches, listRepos } from "./repos.ts";
import { finish, heartbeat, lease, leave, renew } from "./runner.ts";
import { addContent, addInlineContents, openUpload, reserveContents } from "./uploads.ts";

/** Under which the control API lives. No bucket has this name: bucket names hold a dot. */
const BASE = "/api/v1";

/** Every route (design §10): path, then method to handler. */
const ROUTES: Readonly<Record<string, Readonly<Record<string, Handler>>>> = {
  "/pipelines": { GET: listPipelines, POST: createPipeline },
  "/pipelines/:pipeline": { GET: inspectPipeline, DELETE: deletePipeline },
  "/jobs": { GET: listJobs },
  "/jobs/:job": { GET: inspectJob },
  "/repos": { GET: listRepos },
  "/repos/:repo/branches": { GET: listBranches },
  "/repos/:repo/branches/:branch/commits": { POST: createCommit },
  "/repos/:repo/branches/:branch/commits/:commit/files": { GET: listFiles },
  "/repos/:repo/branches/:branch/contents/:content": { GET: readContents },
  "/uploads": { POST: openUpload },
  "/uploads/:upload/reserve": { POST: reserveContents },
  "/uploads/:upload/contents": { POST: addInlineContents, PUT: addContent },
  "/runner/heartbeat": { POST: heartbeat, DELETE: leave },
  "/runner/lease": { POST: lease },
  "/runner/renew": { POST: renew },
  "/runner/finish": { POST: finish },
  "/nodes": { GET: listNodes },
};

const router = Router<IRequest, [Context, Caller]>({ base: BASE });
for (const [path, methods] of Object.entries(ROUTES)) {
  router.all(path, (request, context, caller) => {
    const handler = methods[request.method];
    if (handler) return handler(apiRequest(request, { context, caller }));
    const allow = Object.keys(methods).join(", ");
    throw new ApiError("MethodNotAllowed", `${request.method} is not allowed here: use ${allow}.`, {
      headers: { allow },
    });
  });
}
router.all("*", (request) => {
  throw new ApiError("NotFound", `The control API has no route ${new URL(request.url).pathname}.`);
});

/** Whether a request is for the control API. */
export function isApiPath(path: string): boolean {
  return path === BASE || path.startsWith(`${BASE}/`);
}

/** Answers one request of the control API whose signature is good. Never rejects. */
export async function handleApi(
  request: Request,
  { context, caller }: { context: Context; caller: Caller },
): Promise<Response> {
  try {
    return await router.fetch(request as unknown as IRequest, context, caller);
  } catch (error) {
    return renderApiError(error, context.requestId);
  }
}

function apiRequest(
  request: IRequest,
  { context, caller }: { context: Context; caller: Caller },
): ApiRequest {
  const params = Object.entries(request.params).map(([name, value]) => [name, decoded(value ?? "")]);
  return {
    request: request as unknown as Request,
    params: Object.fromEntries(params),
    query: new URL(request.url).searchParams,
    context,
    caller,
  };
}

function decoded(segment: string): string {
  try {
    return decodeURIComponent(segment);
  } catch {
    throw new ApiError("InvalidRequest", `The path segment '${segment}' is not valid percent-encoding.`);
  }
}

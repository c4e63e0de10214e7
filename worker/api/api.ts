import { type IRequest, Router } from "itty-router";
import { ownPath } from "../../protocol/names.ts";
import { WIRE_HEADER, WIRE_VERSION, wireFault } from "../../protocol/runner.ts";
import type { Caller, Context } from "../app.ts";
import { apiError, renderApiError } from "./answer/errors.ts";
import { admit } from "./request/admit.ts";
import { type ApiRequest, noQuery } from "./request/api-request.ts";
import type { BodyLimits } from "./request/body-scan.ts";
import { readJsonValue } from "./request/read-json.ts";
import { ROUTES, SMALL_BODY } from "./routes.ts";

/** The path of the control API. */
const BASE = ownPath("api", "/v1");

const router = Router<IRequest, [Context, Caller]>({ base: BASE });
for (const [path, methods] of Object.entries(ROUTES)) {
  router.all(path, async (request, context, caller) => {
    const route = methods[request.method];
    const { event } = context;
    const { repo, branch } = request.params;
    if (route) event.operation = `${request.method} ${path}`;
    if (repo && branch) event.bucket = `${branch}.${repo}`;
    event.key = caller.keyId;
    if (route) {
      const asked = apiRequest(request, { context, caller, limits: route.body ?? SMALL_BODY });
      await admit(asked, route);
      if (!route.query) noQuery(asked);
      return await route.handle(asked);
    }
    const allow = Object.keys(methods).join(", ");
    throw apiError.MethodNotAllowed(`${request.method} is not allowed here: use ${allow}.`, {
      headers: { allow },
    });
  });
}
router.all("*", (request) => {
  throw apiError.NotFound(`The control API has no route ${new URL(request.url).pathname}.`);
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
  const answer = await route(request, { context, caller }).catch((error: unknown) =>
    renderApiError(error, context),
  );
  answer.headers.set(WIRE_HEADER, String(WIRE_VERSION));
  return answer;
}

async function route(
  request: Request,
  { context, caller }: { context: Context; caller: Caller },
): Promise<Response> {
  const fault = wireFault(request.headers.get(WIRE_HEADER));
  if (fault !== undefined) throw apiError.InvalidRequest(fault);
  return await router.fetch(request as unknown as IRequest, context, caller);
}

function apiRequest(
  incoming: IRequest,
  { context, caller, limits }: { context: Context; caller: Caller; limits: BodyLimits },
): ApiRequest {
  const request = incoming as unknown as Request;
  const params = Object.entries(incoming.params).map(([name, value]) => [name, decoded(value ?? "")]);
  const bodySha256 = plainBodySha256(caller);
  let json: Promise<unknown> | undefined;
  return {
    request,
    params: Object.fromEntries(params),
    query: new URL(request.url).searchParams,
    context,
    caller,
    bodySha256,
    json() {
      json ??= readJsonValue({ request, bodySha256 }, limits);
      return json;
    },
  };
}

function plainBodySha256({ payload }: Caller): string | null {
  if (payload.form === "plain") return payload.sha256;
  throw apiError.InvalidRequest(
    "The control API takes no aws-chunked bodies: send the body as it is, with its SHA-256 or UNSIGNED-PAYLOAD in x-amz-content-sha256.",
  );
}

function decoded(segment: string): string {
  try {
    return decodeURIComponent(segment);
  } catch {
    throw apiError.InvalidRequest(`The path segment '${segment}' is not valid percent-encoding.`);
  }
}

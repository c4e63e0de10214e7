import type { Context } from "../../app.ts";
import { accessControl, CORS_METHODS, CORS_VARY, isHeaderName } from "../../core/cors.ts";
import { type S3Error, s3Error } from "../answer/errors.ts";
import { type Address, bucketAt } from "./address.ts";

type Openness = Pick<Context, "openBranches">;

/**
 * The answer to a preflight: a browser asks, unsigned, whether a page from elsewhere may send a request. It is judged by
 * the bucket's rules alone, and tells nothing of the bucket beside them: one without rules answers as one that is not there.
 */
export async function answerPreflight(
  { headers, address }: { headers: ReadonlyMap<string, string>; address: Address },
  { openBranches }: Openness,
): Promise<Response> {
  const origin = headers.get("origin");
  if (origin === undefined) {
    throw s3Error.BadRequest("Insufficient information. Origin request header needed.");
  }
  const method = headers.get("access-control-request-method");
  if (method === undefined) {
    throw s3Error.BadRequest(
      "Invalid Access-Control-Request-Method: null. Send the method of the request that is to follow.",
    );
  }
  if (!CORS_METHODS.has(method)) {
    throw s3Error.BadRequest(`Invalid Access-Control-Request-Method: ${method}`);
  }
  const names = namesIn(headers.get("access-control-request-headers"));
  const strange = names.find((name) => !isHeaderName(name));
  if (strange !== undefined) {
    throw s3Error.BadRequest(
      `Access-Control-Request-Headers names '${strange}', which is not the name of a header.`,
    );
  }
  const bucket = bucketAt(address);
  if (bucket === undefined || !(await openBranches.find(bucket)).hasCors) throw notEnabled();
  const rules = await openBranches.corsRules(bucket);
  if (rules.length === 0) throw notEnabled();
  const asked = { origin, method, headers: names };
  const allowed = accessControl(rules, asked);
  if (allowed === undefined) {
    throw s3Error.AccessForbidden(NOT_ALLOWED, { headers: { vary: CORS_VARY } });
  }
  return new Response(null, { headers: { ...allowed, vary: CORS_VARY } });
}

const NOT_ALLOWED =
  "CORSResponse: This CORS request is not allowed. This is usually because the evaluation of Origin, request method / Access-Control-Request-Method or Access-Control-Request-Headers are not whitelisted by the resource's CORS spec.";

function notEnabled(): S3Error {
  return s3Error.AccessForbidden("CORSResponse: CORS is not enabled for this bucket.");
}

/**
 * The headers that a browser wants to see before a page from elsewhere may read an answer, good or bad. None if the bucket
 * has no rules. A request is not refused for them: that its page is not let in is for the browser to hold.
 */
export async function crossOriginHeaders(
  { origin, method, address }: { origin: string; method: string; address: Address },
  { openBranches }: Openness,
): Promise<Readonly<Record<string, string>>> {
  const bucket = bucketAt(address);
  if (bucket === undefined) return {};
  try {
    if (!(await openBranches.find(bucket)).hasCors) return {};
    const rules = await openBranches.corsRules(bucket);
    if (rules.length === 0) return {};
    return { vary: CORS_VARY, ...accessControl(rules, { origin, method, headers: [] }) };
  } catch (error) {
    // A signed request needs neither D1 nor the rules.
    console.warn("an answer goes out without CORS headers: the rules can't be read", error);
    return {};
  }
}

function namesIn(list: string | undefined): string[] {
  return (list ?? "").split(",").flatMap((name) => name.trim() || []);
}

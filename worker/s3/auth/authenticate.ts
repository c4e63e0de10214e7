import type { Caller } from "../../app.ts";
import { S3Error } from "../answer/errors.ts";
import { authorityOf, parseTarget } from "../request/target.ts";
import { type VerifyOptions, verify } from "./verify.ts";

/** Finds out who sent a request of the control API, which is signed as one of the S3 gateway is. Throws S3's codes. */
export async function authenticate(request: Request, options: VerifyOptions): Promise<Caller> {
  const target = parseTarget(request.url);
  if (target === undefined) throw new S3Error("InvalidURI");
  return await verify({ method: request.method, target, headers: signableHeaders(request) }, options);
}

/**
 * The headers as the client sent them, in one pass. Cloudflare and `wrangler dev` rewrite Accept-Encoding, which
 * some clients sign, and keep the original in `request.cf`.
 */
export function signableHeaders(request: Request): Map<string, string> {
  const headers = new Map<string, string>();
  request.headers.forEach((value, name) => {
    headers.set(name, value);
  });
  const acceptEncoding = request.cf?.clientAcceptEncoding;
  if (typeof acceptEncoding === "string") headers.set("accept-encoding", acceptEncoding);
  if (!headers.has("host")) headers.set("host", authorityOf(request.url));
  return headers;
}

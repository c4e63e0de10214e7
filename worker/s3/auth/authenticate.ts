import { authorityOf, parseTarget, type Target } from "../request/target.ts";
import type { FormClaim } from "./form-claim.ts";
import { SigningKeys } from "./signature.ts";
import { type AuthResult, type VerifyOptions, verify, verifyPolicy } from "./verify.ts";

export type AuthenticateOptions = Omit<VerifyOptions, "signingKeys">;

const signingKeys = new SigningKeys(100);

/** Finds out who sent a request of the S3 gateway or of the control API: both are signed in the same way. */
export async function authenticate(request: Request, options: AuthenticateOptions): Promise<AuthResult> {
  const target = parseTarget(request.url);
  if (target === undefined) {
    return {
      ok: false,
      code: "InvalidURI",
      message: "The URL's percent-encoding is broken or is not UTF-8.",
    };
  }
  return await authenticateTarget({ request, target, headers: signableHeaders(request) }, options);
}

/** The same, for a caller that has read target and headers already. */
export function authenticateTarget(
  { request, target, headers }: { request: Request; target: Target; headers: ReadonlyMap<string, string> },
  options: AuthenticateOptions,
): Promise<AuthResult> {
  return verify({ method: request.method, target, headers }, { ...options, signingKeys });
}

/** Finds out who signed the policy of a form. */
export function authenticateForm(
  claim: FormClaim,
  { keys }: Pick<AuthenticateOptions, "keys">,
): Promise<AuthResult> {
  return verifyPolicy(claim, { keys, signingKeys });
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

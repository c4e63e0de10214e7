import type { Caller } from "../../app.ts";
import { type S3Code, S3Error } from "../answer/errors.ts";
import { authorityOf, parseTarget } from "../request/target.ts";
import type { FormClaim } from "./form-claim.ts";
import { type VerifyOptions, verify, verifyPolicy } from "./verify.ts";

/** Finds out who sent a request of the control API, which is signed as one of the S3 gateway is. Throws S3's codes. */
export async function authenticate(request: Request, options: VerifyOptions): Promise<Caller> {
  const target = parseTarget(request.url);
  if (target === undefined) throw new S3Error("InvalidURI");
  return await verify({ method: request.method, target, headers: signableHeaders(request) }, options);
}

type FormAuth =
  | { readonly ok: true; readonly caller: Caller }
  | { readonly ok: false; readonly code: S3Code; readonly message: string };

/** Finds out who signed the policy of a form. */
export async function authenticateForm(
  claim: FormClaim,
  { keys }: Pick<VerifyOptions, "keys">,
): Promise<FormAuth> {
  try {
    return { ok: true, caller: await verifyPolicy(claim, keys) };
  } catch (error) {
    if (!(error instanceof S3Error)) throw error;
    return { ok: false, code: error.code, message: error.message };
  }
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

import type { Caller, Context } from "../../app.ts";
import { NOT_SIGNED, type S3Error, s3Error } from "../answer/errors.ts";
import type { Operation } from "../operation.ts";
import { type Address, bucketAt } from "../request/address.ts";
import { type Members, queryLine } from "../request/members.ts";

/**
 * Requests that nobody signed. They read what public branches hold, and nothing else. Whether a branch is public is known
 * here without asking it, so that made-up names cost nothing, and the answer is the same for a branch that is not public
 * and for one that is not there. What D1 said may be out of date: the branch looks once more, in the call that reads
 * (PublicRead of its contract), and its refusal is that same answer.
 */

/** The caller of a request without a signature. Throws AccessDenied unless it is a read of a public branch. */
export async function admitUnsigned(
  { method, address }: { method: string; address: Address },
  { openBranches }: Pick<Context, "openBranches">,
): Promise<Caller> {
  const isRead = method === "GET" || method === "HEAD";
  const named = isRead ? bucketAt(address) : undefined;
  if (named === undefined) throw notSigned();
  const { isPublic } = await openBranches.find(named);
  if (!isPublic) throw notSigned();
  const scope = { level: "public", repos: [named.repo] } as const;
  return { keyId: "", scope, payload: { form: "plain", sha256: null } };
}

/**
 * Throws for what a request without a signature may not ask of a public branch: other operations, versions and
 * sub-resources, and headers of its choice in answers that others see under the same name.
 */
export function refuseUnsigned(
  query: ReadonlyMap<string, string>,
  { unsigned, members }: Pick<Operation<never>, "unsigned"> & { readonly members: Members },
): void {
  if (!unsigned) throw notSigned();
  for (const name of query.keys()) {
    const line = queryLine(members, name);
    if (line?.kind === "harmless" || (line?.kind === "taken" && line.unsigned)) continue;
    if (name.startsWith("response-")) {
      throw s3Error.InvalidRequest(
        `The query parameter '${name}' cannot be used in a request without a signature: leave it out, or sign the request.`,
      );
    }
    throw s3Error.AccessDenied(
      `The query parameter '${name}' needs a signed request: leave it out, or sign the request.`,
    );
  }
}

function notSigned(): S3Error {
  return s3Error.AccessDenied(NOT_SIGNED);
}

import type { SaidOfCommit } from "../../../protocol/annotations.ts";
import type { Annotation } from "../../branch/contract/answers.ts";
import type { ApiRequest } from "./api-request.ts";

/** The annotation of the commit that a request makes: the caller's key, and what the body says. */
export function annotationOf(
  { caller }: Pick<ApiRequest, "caller">,
  { message, meta }: SaidOfCommit,
): Annotation {
  const hasMeta = meta !== undefined && Object.keys(meta).length > 0;
  return { key: caller.keyId, ...(message !== undefined && { message }), ...(hasMeta && { meta }) };
}

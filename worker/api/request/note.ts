import type { SaidOfCommit } from "../../../protocol/notes.ts";
import type { CommitNote } from "../../branch/contract/answers.ts";
import type { ApiRequest } from "./api-request.ts";

/** The note of the commit that a request makes: the caller's key, and what the body says. */
export function noteOf({ caller }: Pick<ApiRequest, "caller">, { message, meta }: SaidOfCommit): CommitNote {
  const hasMeta = meta !== undefined && Object.keys(meta).length > 0;
  return { key: caller.keyId, ...(message !== undefined && { message }), ...(hasMeta && { meta }) };
}

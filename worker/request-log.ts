import type { BytesFrom } from "./blobs/near/near.ts";
import type { Config } from "./env.ts";
import type { ReadBy } from "./near-files.ts";

/** What became known of a request while it was answered. Filled in on the way, told once. */
export interface RequestEvent {
  /** Of S3 its name, of the control API the method and the route. Undefined: it did not get so far. */
  operation?: string;
  bucket?: string;
  /** The id of the key that signed. */
  key?: string;
  /** Of the error, if it is one. */
  code?: string;
  /** Bytes of a file that the answer has. */
  bytesOut?: number;
  /**
   * Of GET and HEAD of an object, and of listings of objects: whether its branch was asked (`call`), or only whether what is kept
   * near the reader is still so (`unchanged`), or not at all, since memory had it, or that was kept of a commit (`cache`).
   */
  read?: "memory" | ReadBy;
  /** Of a file whose bytes lie in blobs: whether the first of them came from a cache near the reader. */
  bytesFrom?: BytesFrom;
}

/** A client may send much as its name. */
const MAX_AGENT = 120;

/**
 * One line of JSON for a request, with all that is known of it: so one query finds the slow ones of a bucket, or what a key is
 * refused. It holds neither secrets nor the names of files. `ms` is the time until the answer began; a body that is read
 * then goes on. docs/cloudflare.md says what to watch.
 */
export function logRequest(
  { requestLog }: Pick<Config, "requestLog">,
  {
    request,
    answer,
    event,
    requestId,
    ms,
  }: { request: Request; answer: Response; event: RequestEvent; requestId: string; ms: number },
): void {
  if (!requestLog) return;
  const { operation, bucket, key, code, bytesOut, read, bytesFrom } = event;
  console.log(
    JSON.stringify({
      event: "request",
      requestId,
      method: request.method,
      operation,
      bucket,
      status: answer.status,
      code,
      bytesIn: lengthOf(request),
      bytesOut,
      read,
      bytesFrom,
      ms,
      key,
      agent: request.headers.get("user-agent")?.slice(0, MAX_AGENT),
      colo: request.cf?.colo,
    }),
  );
}

/** Undefined: there is no body, or it does not say how long it is. */
function lengthOf({ headers }: Request): number | undefined {
  const length = headers.get("content-length");
  return length === null ? undefined : Number(length);
}

import { STORE_WORDS, type StoreFault, storeFault } from "../../blobs/stores.ts";
import { CATALOGUE_WORDS, catalogueFault } from "../../core/catalogue-fault.ts";
import type { RequestEvent } from "../../request-log.ts";
import { type S3Code, S3Error, s3Error } from "./errors.ts";
import { xmlBody } from "./xml.ts";

export interface FailedRequest {
  readonly method: string;
  /** The request's path, as sent. */
  readonly resource: string;
  readonly requestId: string;
  readonly event: RequestEvent;
}

/** The one place where a failure becomes an answer. */
export function renderError(error: unknown, request: FailedRequest): Response {
  const failure = error instanceof S3Error ? error : unexpected(error, request);
  request.event.code = failure.code;
  const headers = { ...failure.headers, "x-amz-request-id": request.requestId };
  const { status } = failure;
  // An answer to HEAD has no body: clients take the code from the status.
  if (request.method === "HEAD") return new Response(null, { status, headers });
  if (failure.form === "text") {
    return new Response(`${failure.message}\n`, {
      status,
      headers: { ...headers, "content-type": "text/plain; charset=utf-8" },
    });
  }
  const { code, message, form, more } = failure;
  const place = form !== "short" && { Resource: request.resource, RequestId: request.requestId };
  const body = xmlBody("Error", { Code: code, Message: message, ...more, ...place });
  // To the letter, without a charset: aws-c-s3 reads the size out of a 416 of this type and of no other.
  return new Response(body, { status, headers: { ...headers, "content-type": "application/xml" } });
}

const STORE_CODES: Record<StoreFault, S3Code> = {
  "bytes-lost": "InternalError",
  "store-takes-nothing": "ServiceUnavailable",
  "disk-full": "StorageFull",
  "no-handles": "SlowDown",
};

/** A fault of ours or of the platform. The platform marks its own if another try may help. */
function unexpected(error: unknown, { method, resource, requestId }: FailedRequest): S3Error {
  console.error("s3 request failed", { requestId, method, resource, error });
  const fault = catalogueFault(error);
  if (fault) return s3Error.ServiceUnavailable(CATALOGUE_WORDS[fault]);
  const lacking = storeFault(error);
  if (lacking) return new S3Error(STORE_CODES[lacking], STORE_WORDS[lacking]);
  const told: object = typeof error === "object" && error !== null ? error : {};
  if ("overloaded" in told && told.overloaded === true) return s3Error.SlowDown();
  if ("retryable" in told && told.retryable === true) return s3Error.ServiceUnavailable();
  return s3Error.InternalError();
}

import { S3Error } from "./errors.ts";
import { OWNER_ID } from "./filler.ts";
import type { Operation } from "./operation.ts";

/** `x-amz-*` headers that change no answer of ours, or that others than the operation have looked at. */
const HARMLESS = new Set([
  "x-amz-content-sha256",
  "x-amz-date",
  "x-amz-user-agent",
  "x-amz-request-payer",
  "x-amz-expected-bucket-owner",
]);

/** Headers that are understood with one value only. */
const ONLY_VALUE: ReadonlyMap<string, string> = new Map([
  ["x-amz-acl", "private"],
  ["x-amz-storage-class", "STANDARD"],
]);

/** SDKs name the operation in a query parameter of this name. */
const OPERATION_HINT = "x-id";

const NEW_SDK_HINT =
  "set AWS_REQUEST_CHECKSUM_CALCULATION=when_required for SDKs that send checksums by themselves";

type Refusable = Pick<Operation<never>, "query" | "takes" | "refuses">;

/** Throws NotImplemented for a query parameter that the operation does not understand: `PUT key?tagging` never writes `key`. */
export function refuseQuery(query: ReadonlyMap<string, string>, operation: Refusable): void {
  for (const name of query.keys()) {
    if (name !== OPERATION_HINT && !operation.query?.includes(name)) {
      throw new S3Error("NotImplemented", {
        message: `The query parameter '${name}' is not implemented for this operation: leave it out.`,
      });
    }
  }
}

/** Throws NotImplemented for a header that would change what the operation does on S3 and does not do so here. */
export function refuseHeaders(headers: ReadonlyMap<string, string>, operation: Refusable): void {
  for (const [name, value] of headers) {
    const known = name.startsWith("x-amz-")
      ? HARMLESS.has(name) || isTaken(name, operation)
      : value === "" || !operation.refuses?.includes(name);
    if (!known) throw notImplemented(name);
    const only = ONLY_VALUE.get(name);
    if (only !== undefined && value !== only) {
      throw new S3Error("NotImplemented", {
        message: `The header ${name} is implemented with the value '${only}' only, not '${value}'.`,
      });
    }
  }
}

/** Throws AccessDenied where the client expects another owner than the one that every bucket has. */
export function checkExpectedOwner(headers: ReadonlyMap<string, string>): void {
  const expected = headers.get("x-amz-expected-bucket-owner");
  if (expected !== undefined && expected !== OWNER_ID) {
    throw new S3Error("AccessDenied", {
      message: `x-amz-expected-bucket-owner is '${expected}', but every bucket here belongs to '${OWNER_ID}'.`,
    });
  }
}

function isTaken(name: string, { takes = [] }: Refusable): boolean {
  return takes.some((taken) => (taken.endsWith("*") ? name.startsWith(taken.slice(0, -1)) : name === taken));
}

function notImplemented(name: string): S3Error {
  const isChecksum = name.startsWith("x-amz-checksum-") || name === "x-amz-sdk-checksum-algorithm";
  const fix = isChecksum ? `leave it out, or ${NEW_SDK_HINT}` : "leave it out";
  return new S3Error("NotImplemented", {
    message: `The header ${name} is not implemented for this operation: ${fix}.`,
  });
}

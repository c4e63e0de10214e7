import { contentName } from "../../protocol/content.ts";
import type { ByteRange } from "../blobs/port.ts";
import type { FileRead } from "../branch/contract.ts";
import { attributeHeaders } from "./attributes.ts";
import { evaluateConditions, rangeApplies, type Validators } from "./conditions.ts";
import { S3Error } from "./errors.ts";
import { branchFailure } from "./failures.ts";
import type { ObjectRequest } from "./operation.ts";
import { contentRange, parseRange } from "./range.ts";

/** What GET and HEAD understand alike. */
export const SELECT_QUERY = ["versionId"];
export const SELECT_HEADERS = ["x-amz-checksum-mode"];

/** What GET and HEAD answer alike: everything but the bytes. */
export interface Selected {
  readonly status: 200 | 206 | 304;
  readonly headers: Readonly<Record<string, string>>;
  readonly file: FileRead;
  readonly range: ByteRange;
}

/** Finds a file at HEAD or at `versionId`, and applies the request's conditions and range to it. */
export async function selectObject(request: ObjectRequest): Promise<Selected> {
  const { branch, key, query, headers } = request;
  const commit = versionId(query);
  const file = await branch.read({ path: key, ...(commit === undefined ? {} : { commit }) });
  if (!file.ok) throw branchFailure(file);
  const validators: Validators = { etag: etag(file), modifiedAt: file.modifiedAt };
  const whole = { offset: 0, length: file.size };
  const always = {
    etag: validators.etag,
    "last-modified": new Date(file.modifiedAt).toUTCString(),
    "x-amz-version-id": file.commit,
  };
  const verdict = evaluateConditions(headers, validators);
  if (verdict === "not-modified") return { status: 304, headers: always, file, range: whole };
  if (verdict === "precondition-failed") throw preconditionFailed();

  const asked = rangeApplies(headers, validators) ? headers.get("range") : undefined;
  const range = parseRange(asked, file.size);
  if (range === "unsatisfiable") throw invalidRange(file.size);
  const described = {
    ...always,
    "accept-ranges": "bytes",
    ...attributeHeaders(file.attributes),
    ...(request.compressingProxy ? UNTOUCHED : {}),
  };
  if (range === null) return { status: 200, headers: described, file, range: whole };
  const partial = { ...described, "content-range": contentRange(range, file.size) };
  return { status: 206, headers: partial, file, range };
}

/** A proxy that compresses would take Content-Length away; one that sees an encoding leaves the bytes alone. */
const UNTOUCHED = { "content-encoding": "identity" };

/** The ETag of a content (design §4). */
export function etag(content: { readonly digest: string; readonly size: number }): string {
  return `"${contentName(content)}"`;
}

function versionId(query: ReadonlyMap<string, string>): string | undefined {
  const id = query.get("versionId");
  if (id === "") {
    throw new S3Error("InvalidArgument", {
      message: "versionId is empty: give the id of a commit, or leave it out for the newest.",
    });
  }
  return id;
}

/** Not XML, as the spec says (§4.4). */
function preconditionFailed(): S3Error {
  return new S3Error("PreconditionFailed", {
    message: "If-Match or If-Unmodified-Since does not hold for this object.",
    body: "text",
  });
}

function invalidRange(size: number): S3Error {
  return new S3Error("InvalidRange", {
    message: `The range lies outside of the object, which has ${size} bytes.`,
    headers: { "content-range": `bytes */${size}` },
    body: "text",
  });
}

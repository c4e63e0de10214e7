import type { Payload } from "../../app.ts";
import { type ByteSource, sentBody } from "../../blobs/body-reader.ts";
import type { ExpectedHashes } from "../../blobs/write-content.ts";
import type { ChecksumAlgorithm } from "../../core/checksums.ts";
import { invalidRequest, S3Error } from "../answer/errors.ts";
import { checksumHeader } from "../answer/fields.ts";
import type { ServiceRequest } from "../operation.ts";
import { AwsChunkedSource } from "./aws-chunked-source.ts";
import { type BodyChecksum, bodyChecksum, checksumFault } from "./body-checksum.ts";
import { ChunkDecoder } from "./chunk-decoder.ts";
import { ChunkSignatures } from "./chunk-signatures.ts";
import { Trailer } from "./trailer.ts";

/** A request's body, whatever form it came in. */
export interface OpenBody {
  /** Its bytes, framing undone and signatures of chunks checked; null if the request has no body. */
  readonly source: ByteSource | null;
  /** How many of those bytes the client says will come. */
  readonly declaredSize: number | undefined;
  readonly expect: ExpectedHashes;
  /** The algorithm of the checksum that the client sent, announced, or wants computed. */
  readonly checksum: ChecksumAlgorithm | undefined;
  /** To ask when the read has ended: what is wrong with the framing, a signature or the trailer. It comes before any other reason. */
  fault(): S3Error | undefined;
}

/** A request as far as its body goes. */
export type OpenRequest = Pick<ServiceRequest, "caller" | "headers" | "body">;
type Chunked = Extract<Payload, { form: "aws-chunked" }>;
/** A body as it comes out of its form. */
type Unframed = Pick<OpenBody, "source" | "declaredSize" | "fault"> & { readonly trailer?: Trailer };

/**
 * What the headers say of the body, and its bytes. Reads nothing by itself. Throws S3Error for headers that are
 * malformed or contradict each other.
 */
export function openBody(request: OpenRequest): OpenBody {
  const { payload } = request.caller;
  const hashes = bodyHashes(request.headers);
  const { checksum } = hashes;
  if (checksum?.value === "trailer" && (payload.form === "plain" || payload.trailer === "none")) {
    throw invalidRequest(
      "x-amz-trailer announces a trailer, but x-amz-content-sha256 does not end in '-TRAILER'.",
    );
  }
  if (payload.form !== "plain") return withHashes(chunkedBody(request, { payload, checksum }), hashes);
  const { expect, ...body } = withHashes(plainBody(request), hashes);
  return { ...body, expect: { ...expect, ...(payload.sha256 !== null && { sha256: payload.sha256 }) } };
}

/** The file of a form as a body, whose fields stand for headers. Its size is not known before it ends. */
export function fileBody(
  source: ByteSource & Pick<OpenBody, "fault">,
  headers: ReadonlyMap<string, string>,
): OpenBody {
  const body = { source, declaredSize: undefined, fault: () => source.fault() };
  return withHashes(body, bodyHashes(headers));
}

interface BodyHashes {
  readonly md5: Uint8Array | undefined;
  readonly checksum: BodyChecksum | undefined;
}

function bodyHashes(headers: ReadonlyMap<string, string>): BodyHashes {
  return { md5: contentMd5(headers), checksum: bodyChecksum(headers) };
}

function withHashes({ trailer, ...body }: Unframed, { md5, checksum }: BodyHashes): OpenBody {
  const stated = checksum?.value;
  const value = () => (stated === "trailer" ? trailer?.value : stated?.header) ?? null;
  return {
    ...body,
    checksum: checksum?.algorithm,
    expect: {
      ...(md5 && { md5 }),
      ...(checksum && stated !== undefined && { checksum: { algorithm: checksum.algorithm, value } }),
    },
  };
}

function plainBody({ headers, body }: OpenRequest): Unframed {
  return {
    source: body && sentBody(body),
    declaredSize: sizeIn(headers, "content-length"),
    fault: () => undefined,
  };
}

function chunkedBody(
  { headers, body }: OpenRequest,
  { payload, checksum }: { payload: Chunked; checksum: BodyChecksum | undefined },
): Unframed {
  const decodedSize = decodedContentLength(headers);
  if (body === null) {
    throw new S3Error("IncompleteBody", {
      message: "The request has no body, not even an empty aws-chunked one.",
    });
  }
  const signatures = payload.signing ? new ChunkSignatures(payload.signing) : undefined;
  const announced = checksum?.value === "trailer" ? checksum.algorithm : undefined;
  const trailer = new Trailer({
    announced: announced && checksumHeader(announced),
    valueFault: (value) => announced && checksumFault(announced, value),
    signatures: payload.trailer === "expected" ? signatures : undefined,
  });
  const decoder = new ChunkDecoder({ decodedSize, signatures, trailer });
  const source = new AwsChunkedSource(sentBody(body), decoder);
  return { source, declaredSize: decodedSize, fault: () => source.fault(), trailer };
}

const MD5_BASE64 = /^[A-Za-z0-9+/]{22}==$/;

/** The 16 bytes of `Content-MD5`, if it is sent. Throws InvalidDigest. */
function contentMd5(headers: ReadonlyMap<string, string>): Uint8Array | undefined {
  const text = headers.get("content-md5");
  if (text === undefined) return undefined;
  if (!MD5_BASE64.test(text)) {
    throw new S3Error("InvalidDigest", {
      message: `Content-MD5 is '${text}': it must be the base64 of the 16 bytes of the body's MD5.`,
      body: { form: "document", more: { "Content-MD5": text } },
    });
  }
  return Uint8Array.from(atob(text), (character) => character.charCodeAt(0));
}

/** The number of bytes that an aws-chunked body holds without its framing. Throws MissingContentLength, as S3 does also if it is no number. */
function decodedContentLength(headers: ReadonlyMap<string, string>): number {
  const text = headers.get("x-amz-decoded-content-length")?.trim() ?? "";
  if (/^[0-9]{1,15}$/.test(text)) return Number(text);
  throw new S3Error("MissingContentLength", {
    message:
      "An aws-chunked body needs x-amz-decoded-content-length: the number of its bytes without the framing, in decimal digits.",
  });
}

/** The number of bytes in a header, if it is sent. Throws InvalidArgument. */
function sizeIn(headers: ReadonlyMap<string, string>, name: string): number | undefined {
  const text = headers.get(name);
  if (text === undefined) return undefined;
  if (/^[0-9]{1,15}$/.test(text)) return Number(text);
  throw new S3Error("InvalidArgument", {
    message: `${name} is '${text}': it must be a number of bytes in decimal digits.`,
  });
}

import type { Payload } from "../../app.ts";
import { type ByteSource, sentBody } from "../../blobs/body-reader.ts";
import type { ExpectedHashes } from "../../blobs/write-content.ts";
import { CHECKSUM_ALGORITHMS, type ChecksumAlgorithm, parseChecksum } from "../../core/checksums.ts";
import { type S3Error, s3Error } from "../answer/errors.ts";
import { checksumHeader } from "../answer/fields.ts";
import type { ServiceRequest } from "../operation.ts";
import { AwsChunkedSource, ChunkDecoder, ChunkSignatures, Trailer } from "./aws-chunked.ts";

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
    throw s3Error.InvalidRequest(
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
    throw s3Error.IncompleteBody("The request has no body, not even an empty aws-chunked one.");
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
    throw s3Error.InvalidDigest(
      `Content-MD5 is '${text}': it must be the base64 of the 16 bytes of the body's MD5.`,
      { more: { "Content-MD5": text } },
    );
  }
  return Uint8Array.from(atob(text), (character) => character.charCodeAt(0));
}

/** The number of bytes that an aws-chunked body holds without its framing. Throws MissingContentLength, as S3 does also if it is no number. */
function decodedContentLength(headers: ReadonlyMap<string, string>): number {
  const text = headers.get("x-amz-decoded-content-length")?.trim() ?? "";
  if (/^[0-9]{1,15}$/.test(text)) return Number(text);
  throw s3Error.MissingContentLength(
    "An aws-chunked body needs x-amz-decoded-content-length: the number of its bytes without the framing, in decimal digits.",
  );
}

/** The number of bytes in a header, if it is sent. Throws InvalidArgument. */
function sizeIn(headers: ReadonlyMap<string, string>, name: string): number | undefined {
  const text = headers.get(name);
  if (text === undefined) return undefined;
  if (/^[0-9]{1,15}$/.test(text)) return Number(text);
  throw s3Error.InvalidArgument(`${name} is '${text}': it must be a number of bytes in decimal digits.`);
}

/** What a request says of the checksum of its body. */
interface BodyChecksum {
  readonly algorithm: ChecksumAlgorithm;
  /** Base64 in a header, or `trailer`: it comes behind the body. Undefined: the client sends none and wants it computed. */
  readonly value: { readonly header: string } | "trailer" | undefined;
}

type Headers = ReadonlyMap<string, string>;

const ALGORITHM_HEADER = "x-amz-sdk-checksum-algorithm";
const TRAILER_HEADER = "x-amz-trailer";
const ALGORITHM_OF: ReadonlyMap<string, ChecksumAlgorithm> = new Map(
  CHECKSUM_ALGORITHMS.map((algorithm) => [checksumHeader(algorithm), algorithm]),
);

/**
 * The checksum that the client sent, announced, or wants computed (S3 User Guide, "Checking object integrity").
 * Throws InvalidRequest if there is more than one, or if the headers are malformed or contradict each other.
 */
function bodyChecksum(headers: Headers): BodyChecksum | undefined {
  const wanted = wantedAlgorithm(headers);
  const sent = sentChecksums(headers);
  const announced = announcedChecksum(headers);
  const all = announced === undefined ? sent : [...sent, announced];
  if (all.length > 1) {
    throw s3Error.InvalidRequest(
      `Expecting a single x-amz-checksum- header, in the headers or announced by ${TRAILER_HEADER}, and there are ${all.length}.`,
    );
  }
  const [found] = all;
  if (found === undefined) return wanted && { algorithm: wanted, value: undefined };
  if (wanted !== undefined && wanted !== found.algorithm) {
    throw s3Error.InvalidRequest(
      `${ALGORITHM_HEADER} is '${wanted}', but the checksum is in ${checksumHeader(found.algorithm)}: they must agree.`,
    );
  }
  return found;
}

/** What is wrong with a checksum's value; undefined if nothing is. */
function checksumFault(algorithm: ChecksumAlgorithm, value: string): string | undefined {
  if (parseChecksum(algorithm, value) !== null) return undefined;
  return `Value for ${checksumHeader(algorithm)} is invalid: '${value}' is not the base64 of a ${algorithm}.`;
}

function wantedAlgorithm(headers: Headers): ChecksumAlgorithm | undefined {
  const text = headers.get(ALGORITHM_HEADER);
  if (text === undefined) return undefined;
  const algorithm = CHECKSUM_ALGORITHMS.find((each) => each === text.trim().toUpperCase());
  if (algorithm !== undefined) return algorithm;
  throw s3Error.InvalidRequest(
    `Value for ${ALGORITHM_HEADER} is invalid: '${text}' is none of ${CHECKSUM_ALGORITHMS.join(", ")}.`,
  );
}

function sentChecksums(headers: Headers): BodyChecksum[] {
  const sent: BodyChecksum[] = [];
  for (const [name, algorithm] of ALGORITHM_OF) {
    const header = headers.get(name)?.trim();
    if (header === undefined) continue;
    const fault = checksumFault(algorithm, header);
    if (fault !== undefined) throw s3Error.InvalidRequest(fault);
    sent.push({ algorithm, value: { header } });
  }
  return sent;
}

function announcedChecksum(headers: Headers): BodyChecksum | undefined {
  const text = headers.get(TRAILER_HEADER);
  if (text === undefined) return undefined;
  const algorithm = ALGORITHM_OF.get(text.trim().toLowerCase());
  if (algorithm !== undefined) return { algorithm, value: "trailer" };
  throw s3Error.InvalidRequest(
    `The value specified in the ${TRAILER_HEADER} header is not supported: '${text}' is none of ${[...ALGORITHM_OF.keys()].join(", ")}.`,
  );
}

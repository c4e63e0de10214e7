import { CHECKSUM_ALGORITHMS, type ChecksumAlgorithm, parseChecksum } from "../../core/checksums.ts";
import { invalidRequest } from "../answer/errors.ts";
import { checksumHeader } from "../answer/fields.ts";

/** What a request says of the checksum of its body. */
export interface BodyChecksum {
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
export function bodyChecksum(headers: Headers): BodyChecksum | undefined {
  const wanted = wantedAlgorithm(headers);
  const sent = sentChecksums(headers);
  const announced = announcedChecksum(headers);
  const all = announced === undefined ? sent : [...sent, announced];
  if (all.length > 1) {
    throw invalidRequest(
      `Expecting a single x-amz-checksum- header, in the headers or announced by ${TRAILER_HEADER}, and there are ${all.length}.`,
    );
  }
  const [found] = all;
  if (found === undefined) return wanted && { algorithm: wanted, value: undefined };
  if (wanted !== undefined && wanted !== found.algorithm) {
    throw invalidRequest(
      `${ALGORITHM_HEADER} is '${wanted}', but the checksum is in ${checksumHeader(found.algorithm)}: they must agree.`,
    );
  }
  return found;
}

/** What is wrong with a checksum's value; undefined if nothing is. */
export function checksumFault(algorithm: ChecksumAlgorithm, value: string): string | undefined {
  if (parseChecksum(algorithm, value) !== null) return undefined;
  return `Value for ${checksumHeader(algorithm)} is invalid: '${value}' is not the base64 of a ${algorithm}.`;
}

function wantedAlgorithm(headers: Headers): ChecksumAlgorithm | undefined {
  const text = headers.get(ALGORITHM_HEADER);
  if (text === undefined) return undefined;
  const algorithm = CHECKSUM_ALGORITHMS.find((each) => each === text.trim().toUpperCase());
  if (algorithm !== undefined) return algorithm;
  throw invalidRequest(
    `Value for ${ALGORITHM_HEADER} is invalid: '${text}' is none of ${CHECKSUM_ALGORITHMS.join(", ")}.`,
  );
}

function sentChecksums(headers: Headers): BodyChecksum[] {
  const sent: BodyChecksum[] = [];
  for (const [name, algorithm] of ALGORITHM_OF) {
    const header = headers.get(name)?.trim();
    if (header === undefined) continue;
    const fault = checksumFault(algorithm, header);
    if (fault !== undefined) throw invalidRequest(fault);
    sent.push({ algorithm, value: { header } });
  }
  return sent;
}

function announcedChecksum(headers: Headers): BodyChecksum | undefined {
  const text = headers.get(TRAILER_HEADER);
  if (text === undefined) return undefined;
  const algorithm = ALGORITHM_OF.get(text.trim().toLowerCase());
  if (algorithm !== undefined) return { algorithm, value: "trailer" };
  throw invalidRequest(
    `The value specified in the ${TRAILER_HEADER} header is not supported: '${text}' is none of ${[...ALGORITHM_OF.keys()].join(", ")}.`,
  );
}

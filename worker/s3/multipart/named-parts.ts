import { type ContentId, contentName } from "../../../protocol/content.ts";
import type { Part } from "../../branch/contract/multipart.ts";
import { CHECKSUM_ALGORITHMS, type ChecksumAlgorithm, parseChecksum } from "../../core/checksums.ts";
import { type S3Error, s3Error } from "../answer/errors.ts";
import { acceptedOfUpload } from "../answer/failures.ts";
import { checksumTag } from "../answer/fields.ts";
import { malformed, type ParsedXml, parseXml, tagsOf } from "../answer/xml.ts";
import type { BesideTree } from "../bucket-tree.ts";
import { MAX_PAGE_ENTRIES, MAX_PART_NUMBER, MAX_TAGS, MIN_PART_BYTES } from "../limits.ts";
import { parseEtag } from "../request/conditions.ts";

/** A part as CompleteMultipartUpload names it. */
export interface NamedPart {
  readonly number: number;
  /** The content that its ETag stands for; undefined if that is not of our form, and so says nothing. */
  readonly content: ContentId | undefined;
  /** Base64. */
  readonly checksums: readonly { readonly algorithm: ChecksumAlgorithm; readonly value: string }[];
}

const ALGORITHM_OF_TAG: ReadonlyMap<string, ChecksumAlgorithm> = new Map(
  CHECKSUM_ALGORITHMS.map((algorithm) => [checksumTag(algorithm), algorithm]),
);

/** The parts in the body of CompleteMultipartUpload, one at least. Throws MalformedXML, InvalidArgument and InvalidPartOrder. */
export function parseCompletion(text: string): NamedPart[] {
  const most = { tag: "Part", count: MAX_PART_NUMBER };
  const tags = tagsOf(parseXml(text, "CompleteMultipartUpload", { tags: MAX_TAGS.complete, most }));
  const unknown = [...tags.keys()].find((name) => name !== "Part");
  if (unknown !== undefined)
    throw malformed(`CompleteMultipartUpload holds ${unknown}, it may hold Parts only`);
  const parts = (tags.get("Part") ?? []).map(parsePart);
  if (parts.length === 0)
    throw malformed("CompleteMultipartUpload has no Part: name those that were uploaded");
  for (const [index, { number }] of parts.entries()) {
    const before = parts[index - 1]?.number ?? 0;
    if (number > before) continue;
    throw s3Error.InvalidPartOrder(
      `Part ${number} stands behind part ${before}: name each part once, in ascending order.`,
    );
  }
  return parts;
}

function parsePart(part: ParsedXml): NamedPart {
  const tags = tagsOf(part);
  const number = parseNumber(oneText(tags.get("PartNumber"), "PartNumber"));
  const etag = oneText(tags.get("ETag"), "ETag");
  const checksums: { algorithm: ChecksumAlgorithm; value: string }[] = [];
  for (const [name, values] of tags) {
    if (name === "PartNumber" || name === "ETag") continue;
    const algorithm = ALGORITHM_OF_TAG.get(name);
    if (algorithm === undefined) {
      throw malformed(`Part ${number} holds ${name}, it may hold PartNumber, ETag and Checksum*`);
    }
    const value = oneText(values, name).trim();
    if (parseChecksum(algorithm, value) === null) {
      throw invalidPart(number, `the ${name} '${value}', which is not the base64 of a ${algorithm}`);
    }
    checksums.push({ algorithm, value });
  }
  if (checksums.length > 1)
    throw invalidPart(number, "more than one checksum: send that of the upload's algorithm");
  return { number, content: parseEtag(etag), checksums };
}

function invalidPart(number: number, has: string): S3Error {
  return s3Error.InvalidArgument(`Part ${number} has ${has}.`);
}

function parseNumber(text: string): number {
  const number = /^\s*[0-9]{1,9}\s*$/.test(text) ? Number(text) : 0;
  if (number >= 1 && number <= MAX_PART_NUMBER) return number;
  throw s3Error.InvalidArgument(
    `PartNumber is '${text}': part numbers are whole numbers from 1 to ${MAX_PART_NUMBER}, inclusive.`,
  );
}

function oneText(values: readonly ParsedXml[] | undefined, tag: string): string {
  const [value, ...others] = values ?? [];
  if (typeof value !== "string" || others.length > 0) throw malformed(`each Part must have one ${tag}`);
  return value;
}

interface Upload {
  readonly upload: string;
  /** The algorithm of the checksums that parts have. */
  readonly algorithm: ChecksumAlgorithm | undefined;
}

/**
 * The uploaded parts that a completion names, in its order. Throws InvalidPart if one was not uploaded or is not as the
 * completion says, and EntityTooSmall if one that is not the last is below S3's bound.
 */
export async function matchParts(
  branch: BesideTree,
  { upload, algorithm, named }: Upload & { named: readonly NamedPart[] },
): Promise<Part[]> {
  const uploaded = await uploadedParts(branch, { upload, named });
  return named.map((name, index) => {
    const part = uploaded.get(name.number);
    if (!part) throw s3Error.InvalidPart(`Part ${name.number} was not uploaded: upload it, or leave it out.`);
    checkPart(name, { part, algorithm });
    if (index < named.length - 1 && part.size < MIN_PART_BYTES) throw tooSmall(part);
    return part;
  });
}

/** The named parts that were uploaded, by number. Reads page by page, no further than the last one named. */
async function uploadedParts(
  branch: BesideTree,
  { upload, named }: { upload: string; named: readonly NamedPart[] },
): Promise<Map<number, Part>> {
  const wanted = new Set(named.map(({ number }) => number));
  const found = new Map<number, Part>();
  const last = named.at(-1)?.number ?? 0;
  let after = (named[0]?.number ?? 1) - 1;
  while (after < last) {
    const page = acceptedOfUpload(await branch.multipart.parts({ upload, after, limit: MAX_PAGE_ENTRIES }));
    for (const part of page.parts) {
      if (wanted.has(part.number)) found.set(part.number, part);
    }
    const end = page.parts.at(-1);
    if (!page.truncated || !end) break;
    after = end.number;
  }
  return found;
}

function checkPart(
  { number, content, checksums }: NamedPart,
  { part, algorithm }: { part: Part; algorithm: ChecksumAlgorithm | undefined },
): void {
  if (content !== undefined && (content.digest !== part.digest || content.size !== part.size)) {
    throw s3Error.InvalidPart(
      `Part ${number} has the ETag "${contentName(part)}", not "${contentName(content)}": list the parts, or upload it again.`,
    );
  }
  for (const { algorithm: said, value } of checksums) {
    const tag = checksumTag(said);
    if (algorithm === undefined) {
      throw s3Error.InvalidRequest(
        `Part ${number} has a ${tag}, but the upload was begun without a checksum algorithm: leave it out.`,
      );
    }
    // As on S3: the part that came has no such checksum, so that it can't be this one.
    if (said !== algorithm) {
      throw s3Error.BadDigest(
        `Part ${number} has a ${tag}, but the upload was begun for ${algorithm}: leave it out.`,
      );
    }
    if (value !== part.checksum) {
      throw s3Error.InvalidPart(
        `Part ${number} has the ${tag} '${part.checksum}', not '${value}': upload it again.`,
      );
    }
  }
}

function tooSmall({ number, size }: Part): S3Error {
  return s3Error.EntityTooSmall(
    `Part ${number} has ${size} bytes: every part but the last needs at least ${MIN_PART_BYTES}. Upload it again, larger.`,
  );
}

import type { ContentId } from "../../../protocol/content.ts";
import { CHECKSUM_ALGORITHMS, type ChecksumAlgorithm } from "../../core/checksums.ts";
import { checksumTag } from "../answer/checksum-names.ts";
import { S3Error } from "../answer/errors.ts";
import { malformed, type ParsedXml, parseXml, tagsOf } from "../answer/xml.ts";
import { MAX_PART_NUMBER } from "../limits.ts";
import { parseEtag } from "../request/conditions.ts";

/** A part as CompleteMultipartUpload names it. */
export interface NamedPart {
  readonly number: number;
  /** What its ETag stands for; undefined where that is not of our form, and so says nothing (spec §4.2). */
  readonly content: ContentId | undefined;
  /** Base64. */
  readonly checksums: readonly { readonly algorithm: ChecksumAlgorithm; readonly value: string }[];
}

const ALGORITHM_OF_TAG: ReadonlyMap<string, ChecksumAlgorithm> = new Map(
  CHECKSUM_ALGORITHMS.map((algorithm) => [checksumTag(algorithm), algorithm]),
);

/** The parts in the body of CompleteMultipartUpload, one at least. Throws MalformedXML, InvalidArgument and InvalidPartOrder. */
export function parseCompletion(text: string): NamedPart[] {
  const tags = tagsOf(parseXml(text, "CompleteMultipartUpload"));
  const unknown = [...tags.keys()].find((name) => name !== "Part");
  if (unknown !== undefined)
    throw malformed(`CompleteMultipartUpload holds ${unknown}, it may hold Parts only`);
  const parts = (tags.get("Part") ?? []).map(parsePart);
  if (parts.length === 0)
    throw malformed("CompleteMultipartUpload has no Part: name those that were uploaded");
  for (const [index, { number }] of parts.entries()) {
    const before = parts[index - 1]?.number ?? 0;
    if (number > before) continue;
    throw new S3Error("InvalidPartOrder", {
      message: `Part ${number} stands behind part ${before}: name each part once, in ascending order.`,
    });
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
    checksums.push({ algorithm, value: oneText(values, name).trim() });
  }
  return { number, content: parseEtag(etag), checksums };
}

function parseNumber(text: string): number {
  const number = /^\s*[0-9]{1,9}\s*$/.test(text) ? Number(text) : 0;
  if (number >= 1 && number <= MAX_PART_NUMBER) return number;
  throw new S3Error("InvalidArgument", {
    message: `PartNumber is '${text}': part numbers are whole numbers from 1 to ${MAX_PART_NUMBER}, inclusive.`,
  });
}

function oneText(values: readonly ParsedXml[] | undefined, tag: string): string {
  const [value, ...others] = values ?? [];
  if (typeof value !== "string" || others.length > 0) throw malformed(`each Part must have one ${tag}`);
  return value;
}

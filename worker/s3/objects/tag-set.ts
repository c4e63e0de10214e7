import {
  MAX_OBJECT_TAGS,
  type ObjectTag,
  sortedTags,
  type TagsFault,
  tagsFault,
} from "../../../protocol/object-tags.ts";
import { type S3Code, S3Error, s3Error } from "../answer/errors.ts";
import { malformed, type ParsedXml, parseXml, tagsOf } from "../answer/xml.ts";
import { MAX_TAGS } from "../limits.ts";
import { decodeUri } from "../request/target.ts";

/*
 * The tags of an object, as S3 sends and takes them: a `Tagging` of XML (PutObjectTagging, GetObjectTagging and the field of a
 * form), and the query of a URL in a header of what makes an object. The words for what is wrong are S3's own.
 */

const HEADER = "x-amz-tagging";

/** The tags of a `Tagging`, in order of their keys. Throws MalformedXML, InvalidTag, and BadRequest for too many. */
export function parseTagging(text: string): ObjectTag[] {
  const { TagSet: set } = only("Tagging", tagsOf(parseXml(text, "Tagging", { tags: MAX_TAGS.tagging })), [
    "TagSet",
  ]);
  if (set === undefined) throw malformed("Tagging has no TagSet");
  if (typeof set === "string" && set.trim() !== "") throw malformed("TagSet holds Tags, not text");
  const inSet = tagsOf(set);
  const unknown = [...inSet.keys()].find((name) => name !== "Tag");
  if (unknown !== undefined) throw malformed(`TagSet holds Tags, not ${unknown}`);
  return checkedTags((inSet.get("Tag") ?? []).map(parseTag));
}

/** One `Tag` of XML, unchecked. Throws MalformedXML. */
export function parseTag(tag: ParsedXml): ObjectTag {
  const { Key: key, Value: value } = only("Tag", tagsOf(tag), ["Key", "Value"]);
  if (typeof key !== "string" || typeof value !== "string") {
    throw malformed("a Tag has one Key and one Value, which hold text");
  }
  return [key, value];
}

/** Tags that an object can have, in order of their keys. Throws InvalidTag, and BadRequest for too many. */
export function checkedTags(tags: readonly ObjectTag[]): ObjectTag[] {
  const fault = tagsFault(tags);
  if (fault) throw new S3Error(...FAULTS[fault]);
  return sortedTags(tags);
}

/** The tags that a header names; undefined if it names none. Throws InvalidArgument, and what `checkedTags` throws. */
export function readTags(headers: ReadonlyMap<string, string>): ObjectTag[] | undefined {
  const text = headers.get(HEADER);
  if (!text) return undefined;
  const tags = text.split("&").flatMap((part) => (part === "" ? [] : [headerTag(part)]));
  if (tags.length === 0) return undefined;
  if (tagsFault(tags) === "same-key") throw badHeader();
  return checkedTags(tags);
}

/** Tags as a header has them. */
export function tagsHeader(tags: readonly ObjectTag[]): string {
  return tags.map((tag) => tag.map(encodeURIComponent).join("=")).join("&");
}

function headerTag(part: string): ObjectTag {
  const equals = part.indexOf("=");
  const texts = equals === -1 ? [part, ""] : [part.slice(0, equals), part.slice(equals + 1)];
  const [key, value] = texts.map((text) => decodeUri(text.replaceAll("+", " ")));
  if (!key || value === undefined) throw badHeader();
  return [key, value];
}

function badHeader(): S3Error {
  return s3Error.InvalidArgument(
    `The header '${HEADER}' shall be encoded as UTF-8 then URLEncoded URL query parameters without tag name duplicates.`,
  );
}

/** The one of each of these tags; undefined if there is none. */
function only(
  of: string,
  tags: ReadonlyMap<string, readonly ParsedXml[]>,
  known: readonly string[],
): Readonly<Record<string, ParsedXml | undefined>> {
  const found: Record<string, ParsedXml> = {};
  for (const [name, [value, ...others]] of tags) {
    if (!known.includes(name)) throw malformed(`${of} holds ${known.join(" and ")}, not ${name}`);
    if (value === undefined || others.length > 0) throw malformed(`${of} has one ${name}`);
    found[name] = value;
  }
  return found;
}

const FAULTS: Record<TagsFault, readonly [S3Code, string]> = {
  "too-many": ["BadRequest", `Object tags cannot be greater than ${MAX_OBJECT_TAGS}`],
  "bad-key": ["InvalidTag", "The TagKey you have provided is invalid"],
  "bad-value": ["InvalidTag", "The TagValue you have provided is invalid"],
  "system-key": ["InvalidTag", "System tags cannot be added/updated by requester"],
  "same-key": ["InvalidTag", "Cannot provide multiple Tags with the same key"],
};

import fc from "fast-check";
import { S3Error } from "../../../worker/s3/answer/errors.ts";
import { type ParsedXml, parseXml, tagsOf, type XmlTags, xmlBody } from "../../../worker/s3/answer/xml.ts";
import { DOCUMENTS } from "../gateway/documents.ts";
import type { Tally } from "../tally.ts";
import { spoiled } from "../text.ts";

const BOUNDS = { tags: 500 };
/** What has a meaning of its own in XML comes often. */
const unit = fc.oneof(
  fc.constantFrom(..."<>&\"'\r\n\t ]ab"),
  fc.constantFrom("é", "日", "😀", "\ufffd", "]]>", "&amp;"),
);
const text = fc.string({ maxLength: 12, unit });
const name = fc.constantFrom("A", "B", "Key", "Long-Name", "x.y", "_z");

/** Tags in tags; a leaf is a text. */
export const tree: fc.Arbitrary<XmlTags> = fc.letrec<{ tags: XmlTags; value: string | XmlTags }>((tie) => ({
  tags: fc.dictionary(name, tie("value"), { minKeys: 1, maxKeys: 3 }),
  value: fc.oneof({ maxDepth: 4, withCrossShrink: true }, text, tie("tags")),
})).tags;

/** What is written is read as it was. */
export function holdsTree(tags: XmlTags, tally: Tally): void {
  const read = plain(parseXml(xmlBody("R", tags), "R", BOUNDS));
  tally.add("xml, written and read", "good");
  if (JSON.stringify(read) !== JSON.stringify(sorted(tags)))
    throw new Error(`read as ${JSON.stringify(read)}`);
}

const whole = fc.oneof(...Object.values(DOCUMENTS));
/** Tags that a parser may not bear: reserved names, and those that go deep. */
const hard = fc
  .tuple(
    fc.constantFrom("__proto__", "constructor", "Key", "x:Key", "xmlns"),
    fc.integer({ min: 1, max: 14 }),
  )
  .map(([tag, deep]) => `<Delete>${`<${tag}>`.repeat(deep)}1${`</${tag}>`.repeat(deep)}</Delete>`);

/** A document of a client, mostly spoiled. */
export const documentText = fc.oneof(whole, spoiled(whole), hard);
const ROOTS = [
  "CompleteMultipartUpload",
  "Delete",
  "Tagging",
  "LifecycleConfiguration",
  "CORSConfiguration",
  "AccessControlPolicy",
];

/** It is read, or there is a refusal that says what is wrong. */
export function holdsDocument(document: string, tally: Tally): void {
  const root = ROOTS.find((each) => document.includes(each)) ?? "R";
  try {
    parseXml(document, root, BOUNDS);
    tally.add("xml, a client's", "good");
  } catch (error) {
    if (!(error instanceof S3Error) || error.code !== "MalformedXML") throw error;
    tally.add("xml, a client's", "refused");
  }
}

/** A tag without text in it, and one with an empty text, are the same. */
function plain(parsed: ParsedXml): unknown {
  if (typeof parsed === "string") return parsed;
  return sorted(Object.fromEntries([...tagsOf(parsed)].map(([tag, [value = ""]]) => [tag, plain(value)])));
}

function sorted(value: unknown): unknown {
  if (typeof value !== "object" || value === null) return value;
  const entries = Object.entries(value).sort(([one], [other]) => (one < other ? -1 : 1));
  return Object.fromEntries(entries.map(([tag, held]) => [tag, sorted(held)]));
}

import { type X2jOptions, XMLParser, XMLValidator } from "fast-xml-parser";
import { S3Error, s3Error } from "./errors.ts";

/** What a tag holds: text, tags in order, or a list, which repeats the tag for each of its members. */
type XmlValue = string | number | boolean | undefined | XmlTags | TaggedXml | readonly XmlValue[];
export interface XmlTags {
  readonly [tag: string]: XmlValue;
}

/** What a tag holds that has attributes. */
export class TaggedXml {
  readonly attributes: string;
  readonly content: XmlTags;

  constructor(attributes: Readonly<Record<string, string>>, content: XmlTags) {
    const written = Object.entries(attributes).map(([name, value]) => ` ${name}="${escapeXml(value)}"`);
    this.attributes = written.join("");
    this.content = content;
  }
}

const NAMESPACE = "http://s3.amazonaws.com/doc/2006-03-01/";
/** The beginning of every document of ours. */
export const XML_DECLARATION = '<?xml version="1.0" encoding="UTF-8"?>\n';

/** A good answer: one root in S3's namespace. Several groups of tags follow each other, so that names can alternate. */
export function xmlAnswer(
  root: string,
  value: XmlTags | readonly XmlTags[] | string,
  { headers }: { readonly headers?: Readonly<Record<string, string>> | undefined } = {},
): Response {
  const inner = typeof value === "string" ? escapeXml(value) : [value].flat().map(tags).join("");
  return new Response(`${XML_DECLARATION}<${root} xmlns="${NAMESPACE}">${inner}</${root}>`, {
    headers: { "content-type": "application/xml", ...headers },
  });
}

/** An XML document without a namespace, which is how S3 sends errors. */
export function xmlBody(root: string, value: XmlTags): string {
  return XML_DECLARATION + element(root, value);
}

/** Written by hand, because listings are hot: the XML library's builder takes six times as long over 1,000 keys. */
function element(tag: string, value: XmlValue): string {
  if (value === undefined) return "";
  if (typeof value === "string") return `<${tag}>${escapeXml(value)}</${tag}>`;
  if (typeof value !== "object") return `<${tag}>${value}</${tag}>`;
  if (value instanceof TaggedXml) return `<${tag}${value.attributes}>${tags(value.content)}</${tag}>`;
  if (isList(value)) return value.map((each) => element(tag, each)).join("");
  return `<${tag}>${tags(value)}</${tag}>`;
}

function tags(value: XmlTags): string {
  let text = "";
  for (const name in value) text += element(name, value[name]);
  return text;
}

function isList(value: XmlTags | readonly XmlValue[]): value is readonly XmlValue[] {
  return Array.isArray(value);
}

/** Most text needs no escape: this test is cheaper than a replacement. */
const PLAIN = /^[\t\n\u0020!#-%'-;=?-\ud7ff\ue000-\ufffd]*$/;
/** What must be escaped, then what XML 1.0 cannot carry at all (its production `Char`). */
const SPECIAL = /[&<>"\r]|[^\t\n\r\u0020-\ud7ff\ue000-\ufffd\u{10000}-\u{10ffff}]/gu;
const ESCAPED: Readonly<Record<string, string>> = {
  "&": "&amp;",
  "<": "&lt;",
  ">": "&gt;",
  '"': "&quot;",
  "\r": "&#13;",
};

/** Text for XML 1.0. A character that XML cannot carry becomes U+FFFD: clients to which it matters ask for encoding-type=url. */
function escapeXml(text: string): string {
  if (PLAIN.test(text)) return text;
  return text.replace(SPECIAL, (character) => ESCAPED[character] ?? "\ufffd");
}

/** Parsed XML: the text of a tag, or the tags in it; a list if a tag comes more than once. */
export type ParsedXml = string | { readonly [tag: string]: ParsedXml } | readonly ParsedXml[];

const OPTIONS: X2jOptions = {
  ignoreAttributes: true,
  ignoreDeclaration: true,
  ignorePiTags: true,
  removeNSPrefix: true,
  parseTagValue: false,
  // Keys may start and end with spaces.
  trimValues: false,
  maxNestedTags: 10,
  entityDecoder: {
    decode: decodeEntities,
    addInputEntities() {
      throw malformed("entities cannot be defined");
    },
    setExternalEntities: () => {},
    setXmlVersion: () => {},
    reset: () => {},
  },
};
const parser = new XMLParser(OPTIONS);
/** Gives attributes as tags whose names begin with `@`. */
const attributesParser = new XMLParser({ ...OPTIONS, ignoreAttributes: false, attributeNamePrefix: "@" });

/** How many tags a document may hold: what has many more takes seconds to parse, and an isolate serves nobody else meanwhile. */
export interface XmlBounds {
  /** Those that begin an element, and those that end one. */
  readonly tags: number;
  /** The tag that an operation takes many of, and how many. */
  readonly most?: { readonly tag: string; readonly count: number };
  /** Whether the attributes of tags are told, too. */
  readonly attributes?: true;
}

/**
 * The content of a document's root, which must be `root`. Throws MalformedXML, also for a DOCTYPE, since it can define
 * entities, and, before anything is parsed, for a document beyond its bounds.
 */
export function parseXml(text: string, root: string, bounds: XmlBounds): ParsedXml {
  refuseBeyond(bounds, { text, root });
  const problem = XMLValidator.validate(text);
  if (problem !== true) throw malformed(`${problem.err.msg} (line ${problem.err.line})`);
  if (text.includes("<!DOCTYPE")) throw malformed("a DOCTYPE is not allowed");
  let document: unknown;
  try {
    document = (bounds.attributes ? attributesParser : parser).parse(text);
  } catch (error) {
    throw error instanceof S3Error ? error : malformed(error instanceof Error ? error.message : "unreadable");
  }
  const roots = isParsed(document) ? [...tagsOf(document)] : [];
  const [[name, [content]] = ["", []], ...others] = roots;
  if (name !== root || content === undefined || others.length > 0)
    throw malformed(`its root must be ${root}`);
  return content;
}

function refuseBeyond({ tags, most }: XmlBounds, { text, root }: { text: string; root: string }): void {
  const start = most && `<${most.tag}`;
  let left = tags;
  let leftOfMost = most?.count ?? 0;
  for (let at = text.indexOf("<"); at !== -1; at = text.indexOf("<", at + 1)) {
    if (--left < 0) throw malformed(`${root} holds more than ${tags} tags`);
    if (start === undefined || !text.startsWith(start, at)) continue;
    if (/[A-Za-z0-9:._-]/.test(text.charAt(at + start.length))) continue;
    if (--leftOfMost < 0) throw malformed(`${root} has more than ${most?.count} ${most?.tag}s`);
  }
}

/** The tags in a parsed tag, each as a list; text between tags, which is white space, is left out. */
export function tagsOf(parsed: ParsedXml): Tags {
  const tags = new Map<string, readonly ParsedXml[]>();
  if (typeof parsed === "string" || Array.isArray(parsed)) return tags;
  for (const [name, value] of Object.entries(parsed)) {
    if (name !== "#text") tags.set(name, Array.isArray(value) ? value : [value]);
  }
  return tags;
}

export type Tags = ReadonlyMap<string, readonly ParsedXml[]>;

export interface KnownTags {
  readonly known: readonly string[];
  /** Those that may come more than once. */
  readonly many?: readonly string[];
  /** The error for one that is not known, if it is another one than MalformedXML. */
  readonly other?: (name: string) => S3Error | undefined;
}

/** The tags in `of` as they are. Throws MalformedXML for one that is not known, or comes twice. */
export function onlyTags(tags: Tags, of: string, { known, many = [], other }: KnownTags): Tags {
  for (const [name, values] of tags) {
    if (!known.includes(name)) {
      throw other?.(name) ?? malformed(`${of} holds ${known.join(", ")}, not ${name}`);
    }
    if (values.length > 1 && !many.includes(name)) throw malformed(`${of} has one ${name} at most`);
  }
  return tags;
}

/** The first tag of a name as it stands; undefined if there is none. Throws MalformedXML for one that holds tags. */
export function textIn(tags: Tags, name: string): string | undefined {
  const value = tags.get(name)?.[0];
  if (value === undefined || typeof value === "string") return value;
  throw malformed(`${name} holds text alone`);
}

/** What the first tag of a name holds; undefined if there is none. Throws MalformedXML for text. */
export function tagsIn(tags: Tags, name: string): Tags | undefined {
  const value = tags.get(name)?.[0];
  return value === undefined ? undefined : mustHoldTags(value, name);
}

/** The tags in a document, which holds no text beside them. */
export function parseTags(text: string, root: string, bounds: XmlBounds): Tags {
  return mustHoldTags(parseXml(text, root, bounds), root);
}

function mustHoldTags(value: ParsedXml, name: string): Tags {
  if (typeof value === "string" && value.trim() !== "") throw malformed(`${name} holds tags, not text`);
  return tagsOf(value);
}

/** MalformedXML that says what is wrong. */
export function malformed(what: string): S3Error {
  return s3Error.MalformedXML(`The body is not the XML that this operation takes: ${what}.`);
}

/** The parser makes nothing but strings, objects and arrays of them with these options. */
function isParsed(value: unknown): value is ParsedXml {
  return typeof value === "string" || (typeof value === "object" && value !== null);
}

const ENTITY = /&(?:#x([0-9a-f]{1,6});|#([0-9]{1,7});|([a-z]{2,4});)?/gi;
const NAMED: Readonly<Record<string, string>> = { amp: "&", lt: "<", gt: ">", quot: '"', apos: "'" };

/** Knows the five entities of XML and character references: without a DOCTYPE there are no others. */
function decodeEntities(text: string): string {
  if (!text.includes("&")) return text;
  return text.replace(ENTITY, (whole, hex?: string, decimal?: string, name?: string) => {
    if (name !== undefined && name in NAMED) return NAMED[name] ?? "";
    const point = hex === undefined ? Number(decimal ?? "-1") : Number.parseInt(hex, 16);
    const isCharacter = point > 0 && point <= 0x10ffff && !(point >= 0xd800 && point <= 0xdfff);
    if (!isCharacter) throw malformed(`'${whole}' is not an entity that XML knows`);
    return String.fromCodePoint(point);
  });
}

import { CORS_METHODS, type CorsRule, isHeaderName } from "../../core/cors.ts";
import { invalidRequest } from "../answer/errors.ts";
import { malformed, onlyTags, type ParsedXml, parseXml, tagsOf, type XmlTags } from "../answer/xml.ts";
import { MAX_CORS_RULES, MAX_TAGS } from "../limits.ts";

const ROOT = "CORSConfiguration";
const MAX_ID_CHARACTERS = 255;
const TAGS = [
  "ID",
  "AllowedHeader",
  "AllowedMethod",
  "AllowedOrigin",
  "ExposeHeader",
  "MaxAgeSeconds",
] as const;
type Tag = (typeof TAGS)[number];

/** The rules of a `CORSConfiguration`. Throws MalformedXML and InvalidRequest for what S3 refuses. */
export function parseCors(text: string): CorsRule[] {
  const tags = tagsOf(parseXml(text, ROOT, { tags: MAX_TAGS.cors }));
  onlyTags(tags, ROOT, { known: ["CORSRule"], many: ["CORSRule"] });
  const rules = tags.get("CORSRule") ?? [];
  if (rules.length === 0)
    throw malformed(`${ROOT} has no CORSRule: to take all away, delete the configuration`);
  if (rules.length > MAX_CORS_RULES) {
    throw invalidRequest(
      `The number of CORS rules is ${rules.length}: it should not exceed the limit of ${MAX_CORS_RULES}.`,
    );
  }
  return rules.map(parseRule);
}

/** The same as XML, as S3 lists it. */
export function corsTags(rules: readonly CorsRule[]): XmlTags {
  return {
    CORSRule: rules.map(({ id, headers, methods, origins, exposed, maxAgeSeconds }) => ({
      ID: id,
      AllowedHeader: headers,
      AllowedMethod: methods,
      AllowedOrigin: origins,
      ExposeHeader: exposed,
      MaxAgeSeconds: maxAgeSeconds,
    })),
  };
}

function parseRule(parsed: ParsedXml): CorsRule {
  const tags = onlyTags(tagsOf(parsed), "CORSRule", { known: TAGS, many: TAGS });
  const texts = (tag: Tag): string[] => (tags.get(tag) ?? []).map((value) => textOf(tag, value));
  // An empty method is none that there is, which S3 says as of any other.
  const methods = (tags.get("AllowedMethod") ?? []).map((value) =>
    value === "" ? "" : textOf("AllowedMethod", value),
  );
  const origins = texts("AllowedOrigin");
  if (methods.length === 0 || origins.length === 0) {
    throw malformed("each CORSRule needs an AllowedMethod and an AllowedOrigin at least");
  }
  const id = once("ID", texts("ID"));
  const maxAge = once("MaxAgeSeconds", texts("MaxAgeSeconds"));
  const [headers, exposed] = [texts("AllowedHeader"), texts("ExposeHeader")];
  checkMethods(methods);
  for (const origin of origins) checkPattern("AllowedOrigin", origin);
  for (const header of headers) checkPattern("AllowedHeader", header);
  for (const header of exposed) {
    if (header.includes("*")) {
      throw invalidRequest(
        `ExposeHeader "${header}" contains wildcard. We currently do not support wildcard for ExposeHeader.`,
      );
    }
  }
  for (const name of headers) checkHeaderName("AllowedHeader", name);
  for (const name of exposed) checkHeaderName("ExposeHeader", name);
  if (id !== undefined && id.length > MAX_ID_CHARACTERS) {
    throw invalidRequest(
      `The ID of a CORSRule has ${id.length} characters: at most ${MAX_ID_CHARACTERS} are allowed.`,
    );
  }
  return {
    ...(id !== undefined && { id }),
    origins,
    methods,
    headers,
    exposed,
    ...(maxAge !== undefined && { maxAgeSeconds: secondsOf(maxAge) }),
  };
}

function textOf(tag: Tag, value: ParsedXml): string {
  const text = typeof value === "string" ? value.trim() : undefined;
  if (text) return text;
  throw malformed(text === "" ? `${tag} is empty` : `${tag} holds text alone`);
}

function once(tag: Tag, [text, ...others]: readonly string[]): string | undefined {
  if (others.length > 0) throw malformed(`a CORSRule has one ${tag} at most`);
  return text;
}

function checkMethods(methods: readonly string[]): void {
  for (const method of methods) {
    if (CORS_METHODS.has(method)) continue;
    throw invalidRequest(
      `Found unsupported HTTP method in CORS config. Unsupported method is ${method}: it must be one of ${[...CORS_METHODS].join(", ")}.`,
    );
  }
}

function checkPattern(tag: Tag, text: string): void {
  if (text.split("*").length > 2)
    throw invalidRequest(`${tag} "${text}" can not have more than one wildcard.`);
}

/** A field name of RFC 9110, with a wildcard where there may be one: it goes into a header of answers. */
function checkHeaderName(tag: Tag, name: string): void {
  if (isHeaderName(name)) return;
  throw invalidRequest(`${tag} "${name}" is not the name of a header.`);
}

function secondsOf(text: string): number {
  if (/^[0-9]{1,9}$/.test(text)) return Number(text);
  throw malformed(`MaxAgeSeconds is '${text}': it must be a whole number of seconds`);
}

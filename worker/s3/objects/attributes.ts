import { guessContentType } from "../../../protocol/content-types.ts";
import { type Attributes, METADATA_NAME } from "../../../protocol/files.ts";
import { s3Error } from "../answer/errors.ts";
import { accepted } from "../answer/failures.ts";
import { MAX_METADATA_BYTES } from "../limits.ts";
import type { ObjectRequest } from "../operation.ts";
import { readTags } from "./tag-set.ts";

const META = "x-amz-meta-";

type Headers = ReadonlyMap<string, string>;
/** The attributes that are one header each. */
type HeaderAttribute = Exclude<keyof Attributes, "metadata" | "tags">;

const HEADER_OF: Readonly<Record<HeaderAttribute, string>> = {
  contentType: "content-type",
  cacheControl: "cache-control",
  contentDisposition: "content-disposition",
  contentEncoding: "content-encoding",
  contentLanguage: "content-language",
  expires: "expires",
};
const KEPT = Object.entries(HEADER_OF) as readonly [HeaderAttribute, string][];

/**
 * The headers of a PUT that are kept with its file. The type is guessed from the key if none is sent. Values are kept as
 * they came, also UTF-8 and RFC 2047's encoded words. Throws MetadataTooLarge, InvalidArgument for control characters, as
 * clients would refuse to read an answer with them, and for metadata whose name is none of a header, which a field of a form
 * may have; and what `readTags` throws.
 */
export function readAttributes(headers: Headers, key: string): Attributes {
  const kept: { -readonly [Name in HeaderAttribute]?: string } = {};
  for (const [attribute, header] of KEPT) {
    const value = attribute === "contentEncoding" ? storedContentEncoding(headers) : headers.get(header);
    if (value) kept[attribute] = refuseControls(value, header);
  }
  kept.contentType ??= guessContentType(key);
  const metadata = readMetadata(headers);
  const tags = readTags(headers);
  return { ...kept, ...(metadata && { metadata }), ...(tags && { tags }) };
}

function readMetadata(headers: Headers): Record<string, string> | undefined {
  const metadata: [key: string, value: string][] = [];
  let bytes = 0;
  for (const [name, value] of headers) {
    if (!name.startsWith(META)) continue;
    const key = name.slice(META.length);
    if (!METADATA_NAME.test(key)) {
      throw s3Error.InvalidArgument(
        `${name} cannot be the name of a header: behind ${META} stand letters and digits of ASCII, '-', '_' and '.'.`,
      );
    }
    metadata.push([key, refuseControls(value, name)]);
    bytes += utf8Length(key) + utf8Length(value);
  }
  if (bytes > MAX_METADATA_BYTES) {
    throw s3Error.MetadataTooLarge(
      `The headers ${META}* hold ${bytes} bytes, names and values together: at most ${MAX_METADATA_BYTES} are kept.`,
    );
  }
  return metadata.length === 0 ? undefined : Object.fromEntries(metadata);
}

/**
 * Puts what was kept into the headers of an answer. A file without a type of its own is answered with that of its
 * extension. Outputs of jobs have none: the type would be a copy of what the path says, and storing one would change files
 * that nothing computed anew.
 */
export function setAttributeHeaders(
  headers: Record<string, string>,
  { attributes, key }: { readonly attributes: Attributes; readonly key: string },
): void {
  for (const [attribute, header] of KEPT) {
    const value = attributes[attribute];
    if (value !== undefined) headers[header] = value;
  }
  headers["content-type"] ??= guessContentType(key);
  for (const key in attributes.metadata) headers[META + key] = attributes.metadata[key] as string;
}

/** `response-*` parameters of a GET or HEAD, and the header that each replaces. */
const OVERRIDES: readonly (readonly [parameter: string, header: string])[] = KEPT.map(
  ([, header]) => [`response-${header}`, header] as const,
);

/** Lets the request's `response-*` parameters replace headers of its answer. Throws InvalidArgument. */
export function setOverrides(headers: Record<string, string>, query: ReadonlyMap<string, string>): void {
  if (query.size === 0) return;
  for (const [parameter, header] of OVERRIDES) {
    const value = query.get(parameter);
    if (value) headers[header] = refuseControls(value, parameter);
  }
}

// A tab is allowed in a header (RFC 9110 §5.5).
const CONTROL = /[\u0000-\u0008\u000a-\u001f\u007f]/;

function refuseControls(value: string, name: string): string {
  if (!CONTROL.test(value)) return value;
  throw s3Error.InvalidArgument(
    `${name} holds a control character: send it percent-encoded, or leave it out.`,
  );
}

function utf8Length(text: string): number {
  return new TextEncoder().encode(text).length;
}

/** The object's `Content-Encoding`, without `aws-chunked`, which belongs to the transfer. Undefined: nothing is left. */
export function storedContentEncoding(headers: ReadonlyMap<string, string>): string | undefined {
  const text = headers.get("content-encoding");
  if (text === undefined || !/aws-chunked/i.test(text)) return text || undefined;
  const codings = text.split(",").map((coding) => coding.trim());
  const stored = codings.filter((coding) => coding !== "" && coding.toLowerCase() !== "aws-chunked");
  return stored.join(", ") || undefined;
}

/**
 * An object is as public as its branch. Clients that publish say so with each object: in a public branch that is so, and
 * elsewhere it must not seem done. Throws NotImplemented.
 */
export async function checkAcl({
  headers,
  branch,
}: Pick<ObjectRequest, "headers" | "branch">): Promise<void> {
  if (headers.get("x-amz-acl") !== "public-read") return;
  const settings = accepted(await branch.settings.read());
  if (settings.public) return;
  throw s3Error.NotImplemented(
    "The header x-amz-acl is 'public-read', but no object is public by itself: leave it out, or make the whole branch public with 'sluice branch public <branch>.<repo> on'.",
  );
}

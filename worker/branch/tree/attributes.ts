import { type ObjectTag, sortedTags } from "../../../protocol/object-tags.ts";
import type { StoredAttributes } from "../contract/files.ts";

/** One text for one set of attributes, so that equal sets are equal texts; null for none. */
export function attributesText(attributes: StoredAttributes): string | null {
  const { metadata, tags, checksum, parts, ...headers } = attributes;
  const text = JSON.stringify({
    contentType: headers.contentType,
    cacheControl: headers.cacheControl,
    contentDisposition: headers.contentDisposition,
    contentEncoding: headers.contentEncoding,
    contentLanguage: headers.contentLanguage,
    expires: headers.expires,
    metadata: metadata && sorted(metadata),
    tags: tags && tags.length > 0 ? sortedTags(tags) : undefined,
    checksum: checksum && { algorithm: checksum.algorithm, type: checksum.type, value: checksum.value },
    parts: parts && { sizes: parts.sizes, checksums: parts.checksums },
  });
  return text === "{}" ? null : text;
}

/** What `attributesText` wrote. */
export function readAttributes(text: string | null): StoredAttributes {
  return text === null ? {} : JSON.parse(text);
}

/** The same text with these tags in place of those that it has. */
export function withTags(text: string | null, tags: readonly ObjectTag[]): string | null {
  return attributesText({ ...readAttributes(text), tags });
}

function sorted(metadata: Record<string, string>): Record<string, string> | undefined {
  const names = Object.keys(metadata).sort();
  if (names.length === 0) return undefined;
  return Object.fromEntries(names.map((name) => [name, metadata[name] ?? ""]));
}

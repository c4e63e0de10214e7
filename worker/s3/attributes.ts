import type { Attributes } from "../../protocol/files.ts";
import { S3Error } from "./errors.ts";
import { MAX_METADATA_BYTES } from "./limits.ts";

const META = "x-amz-meta-";
/** What S3 answers for an object that was put without a Content-Type. */
const DEFAULT_CONTENT_TYPE = "binary/octet-stream";

/** What is kept with a file of the headers of its PUT. Throws MetadataTooLarge. */
export function readAttributes(headers: ReadonlyMap<string, string>): Attributes {
  const contentType = headers.get("content-type");
  const metadata: [key: string, value: string][] = [];
  let bytes = 0;
  for (const [name, value] of headers) {
    if (!name.startsWith(META)) continue;
    const key = name.slice(META.length);
    metadata.push([key, value]);
    bytes += utf8Length(key) + utf8Length(value);
  }
  if (bytes > MAX_METADATA_BYTES) {
    throw new S3Error("MetadataTooLarge", {
      message: `The headers ${META}* hold ${bytes} bytes, names and values together: at most ${MAX_METADATA_BYTES} are kept.`,
    });
  }
  return {
    ...(contentType ? { contentType } : {}),
    ...(metadata.length > 0 ? { metadata: Object.fromEntries(metadata) } : {}),
  };
}

function utf8Length(text: string): number {
  return new TextEncoder().encode(text).length;
}

/** The same as headers of an answer. */
export function attributeHeaders({ contentType, metadata = {} }: Attributes): Record<string, string> {
  const headers: Record<string, string> = { "content-type": contentType ?? DEFAULT_CONTENT_TYPE };
  for (const [key, value] of Object.entries(metadata)) headers[META + key] = value;
  return headers;
}

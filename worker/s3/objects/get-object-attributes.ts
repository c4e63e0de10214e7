import { contentName } from "../../../protocol/content.ts";
import type { FileRead } from "../../branch/contract/files.ts";
import { s3Error } from "../answer/errors.ts";
import { checksumTag, checksumTags, httpDate, readVersionHeader, STORAGE_CLASS } from "../answer/fields.ts";
import { type XmlTags, xmlAnswer } from "../answer/xml.ts";
import { MAX_KEYS } from "../limits.ts";
import type { ObjectRequest, Operation } from "../operation.ts";
import { versionId, wholeNumber } from "../request/query-values.ts";
import { partCount, partSizes, readVersion } from "./get-object.ts";

const ATTRIBUTES = ["ETag", "Checksum", "ObjectParts", "StorageClass", "ObjectSize"] as const;
type Attribute = (typeof ATTRIBUTES)[number];

interface PartPage {
  /** Only parts of a greater number. */
  readonly after: number;
  readonly limit: number;
}

/** What is known of an object, as a document, without its bytes. */
export const getObjectAttributes: Operation<ObjectRequest> = {
  permission: "read",

  async handle(request) {
    const { headers, query } = request;
    const list = headers.get("x-amz-object-attributes");
    const asked = list ? askedAttributes(list) : undefined;
    const page = askedParts(headers);
    const file = await readVersion(request, versionId(query));
    // As on S3, whoever asks for nothing of what is not there hears that it is not there.
    if (asked === undefined)
      throw s3Error.InvalidRequest(
        `x-amz-object-attributes is missing or empty: list one or more of ${ATTRIBUTES.join(", ")}.`,
      );
    const version = { "last-modified": httpDate(file.modifiedAt), ...readVersionHeader(request, file) };
    return xmlAnswer("GetObjectAttributesResponse", describe(file, { asked, page }), { headers: version });
  },
};

function askedAttributes(text: string): ReadonlySet<Attribute> {
  const names = text.split(",").map((name) => name.trim());
  const asked = new Set(names.filter(isAttribute));
  if (asked.size === new Set(names).size) return asked;
  throw s3Error.InvalidArgument(
    `x-amz-object-attributes is '${text}': it must list one or more of ${ATTRIBUTES.join(", ")}.`,
  );
}

function isAttribute(name: string): name is Attribute {
  return (ATTRIBUTES as readonly string[]).includes(name);
}

function askedParts(headers: ReadonlyMap<string, string>): PartPage {
  return {
    after: wholeNumber(headers, "x-amz-part-number-marker", {
      min: 0,
      max: Number.MAX_SAFE_INTEGER,
      absent: 0,
    }),
    limit: wholeNumber(headers, "x-amz-max-parts", { min: 0, max: MAX_KEYS }),
  };
}

function describe(
  file: FileRead,
  { asked, page }: { asked: ReadonlySet<Attribute>; page: PartPage },
): XmlTags {
  const { checksum } = file.attributes;
  return {
    // Without the quotes, unlike everywhere else: as on S3.
    ETag: asked.has("ETag") ? contentName(file) : undefined,
    Checksum: asked.has("Checksum") && checksum ? checksumTags(checksum) : undefined,
    ObjectParts: asked.has("ObjectParts") ? describeParts(file, page) : undefined,
    StorageClass: asked.has("StorageClass") ? STORAGE_CLASS : undefined,
    ObjectSize: asked.has("ObjectSize") ? file.size : undefined,
  };
}

/** Returns undefined for an object that was not put together from parts. */
function describeParts({ attributes }: FileRead, { after, limit }: PartPage): XmlTags | undefined {
  const { parts, checksum } = attributes;
  if (!parts) return undefined;
  const count = partCount(parts);
  const sizes = partSizes(parts, { after, limit });
  const last = after + sizes.length;
  return {
    PartsCount: count,
    PartNumberMarker: after,
    NextPartNumberMarker: last,
    MaxParts: limit,
    IsTruncated: limit > 0 && last < count,
    Part: sizes.map((size, index) => ({
      PartNumber: after + index + 1,
      Size: size,
      ...(checksum && { [checksumTag(checksum.algorithm)]: parts.checksums?.[after + index] }),
    })),
  };
}

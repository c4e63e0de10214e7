import { z } from "zod";
import { TOO_LARGE_IN_FRONT } from "../../protocol/errors.ts";
import type { ObjectTag } from "../../protocol/object-tags.ts";
import { CliError } from "../output/failure.ts";

/** The S3 answers that the CLI reads. */

type Parser = { parse(text: string): unknown };
/** Loaded with the first answer that needs it: calls of the control API never do. */
let parser: Promise<Parser> | undefined;
/** Keeps the order of elements of different names, in which versions and deletions come. */
let orderedParser: Promise<Parser> | undefined;

async function xmlParser({ preserveOrder }: { preserveOrder: boolean }): Promise<Parser> {
  const { XMLParser } = await import("fast-xml-parser");
  // A page names a thousand keys, each with two quoted marks in its ETag: the parser's default bounds on entities are lower.
  return new XMLParser({
    preserveOrder,
    ignoreDeclaration: true,
    ignoreAttributes: true,
    parseTagValue: false,
    trimValues: false,
    htmlEntities: true,
    processEntities: { enabled: true, maxTotalExpansions: 1_000_000, maxExpandedLength: 100_000_000 },
    isArray: (name) => ["Contents", "CommonPrefixes", "Bucket", "Tag"].includes(name),
  });
}

const S3Error = z.object({ Error: z.object({ Code: z.string(), Message: z.string() }) });

/** The code and message of an S3 error, whose body may be XML, plain text (412) or, for HEAD, nothing. */
export async function parseS3Error(
  status: number,
  body: string,
): Promise<{ code: string; message: string; issues?: never }> {
  const parsed = S3Error.safeParse(await parsedXml(body));
  if (parsed.success) return { code: parsed.data.Error.Code, message: parsed.data.Error.Message };
  if (status === 413) return { code: "BodyTooLarge", message: TOO_LARGE_IN_FRONT };
  return {
    code: `Http${status}`,
    message: `the gateway answered ${status}${body === "" ? "" : `: ${body.trim()}`}`,
  };
}

const Size = z.string().transform(Number);
const ETag = z.string().transform((quoted) => quoted.replaceAll('"', ""));

const ListedFile = z
  .object({ Key: z.string(), Size, ETag, LastModified: z.string() })
  .transform(({ Key, Size, ETag, LastModified }) => {
    return { path: Key, size: Size, etag: ETag, modifiedAt: LastModified };
  });
export type ListedFile = Readonly<z.infer<typeof ListedFile>>;

const Listing = z.object({
  ListBucketResult: z.object({
    IsTruncated: z.string().transform((text) => text === "true"),
    NextContinuationToken: z.string().optional(),
    Contents: z.array(ListedFile).default([]),
    CommonPrefixes: z.array(z.object({ Prefix: z.string() })).default([]),
  }),
});

export interface Listed {
  readonly files: readonly ListedFile[];
  readonly prefixes: readonly string[];
  /** Token of the next page. */
  readonly next: string | undefined;
}

/** A page of ListObjectsV2. */
export async function parseListing(body: string): Promise<Listed> {
  const { ListBucketResult: page } = await expectXml(Listing, body);
  return {
    files: page.Contents,
    prefixes: page.CommonPrefixes.map(({ Prefix }) => Prefix),
    next: page.IsTruncated ? page.NextContinuationToken : undefined,
  };
}

const VersionBase = {
  Key: z.string(),
  VersionId: z.string(),
  IsLatest: z.stringbool(),
  LastModified: z.string(),
};
const VersionItem = z.union([
  z.object({ Version: z.object({ ...VersionBase, Size, ETag }) }),
  z.object({ DeleteMarker: z.object(VersionBase) }),
]);
/** Versions, deletions and prefixes in the order in which they came. */
const VersionItems = z.array(
  z.union([VersionItem, z.object({ CommonPrefixes: z.object({ Prefix: z.string() }) })]),
);
const VersionHead = z.object({
  IsTruncated: z.stringbool(),
  NextKeyMarker: z.string().optional(),
  NextVersionIdMarker: z.string().optional(),
});

/** A version of a file, or its deletion. */
export interface ListedVersion {
  readonly path: string;
  /** The commit that wrote or deleted it. */
  readonly version: string;
  readonly kind: "version" | "deletion";
  /** Nothing came after it: it is what the branch shows, or why it shows nothing. */
  readonly current: boolean;
  readonly modifiedAt: string;
  /** Both of a version alone. */
  readonly size?: number;
  readonly etag?: string;
}
export interface ListedVersions {
  /** By path, the newest of a path first. */
  readonly versions: readonly ListedVersion[];
  readonly prefixes: readonly string[];
  /** Where the next page begins. */
  readonly next: { readonly path: string; readonly version: string | undefined } | undefined;
}

/** A page of ListObjectVersions. */
export async function parseVersions(body: string): Promise<ListedVersions> {
  const children = await childrenOf("ListVersionsResult", body);
  const heads = children.filter(([name]) => name in VersionHead.shape);
  const head = expectShape(VersionHead, Object.fromEntries(heads));
  const listed = children.filter(([name]) => LISTED.has(name)).map(([name, value]) => ({ [name]: value }));
  const versions: ListedVersion[] = [];
  const prefixes: string[] = [];
  for (const item of expectShape(VersionItems, listed)) {
    if ("CommonPrefixes" in item) prefixes.push(item.CommonPrefixes.Prefix);
    else versions.push(versionOf(item));
  }
  const { IsTruncated, NextKeyMarker: path, NextVersionIdMarker: version } = head;
  return { versions, prefixes, next: IsTruncated && path ? { path, version } : undefined };
}

const LISTED = new Set(["Version", "DeleteMarker", "CommonPrefixes"]);

function versionOf(item: z.infer<typeof VersionItem>): ListedVersion {
  const { Key, VersionId, IsLatest, LastModified } = "Version" in item ? item.Version : item.DeleteMarker;
  const said = { path: Key, version: VersionId, current: IsLatest, modifiedAt: LastModified };
  if (!("Version" in item)) return { ...said, kind: "deletion" };
  return { ...said, kind: "version", size: item.Version.Size, etag: item.Version.ETag };
}

const Tagging = z.object({
  Tagging: z.object({
    TagSet: z
      .object({ Tag: z.array(z.object({ Key: z.string(), Value: z.string() })) })
      // Without any, the element is empty, which reads as text.
      .or(z.string().transform(() => ({ Tag: [] }))),
  }),
});

/** The answer of GetObjectTagging. */
export async function parseTagging(body: string): Promise<ObjectTag[]> {
  const { TagSet } = (await expectXml(Tagging, body)).Tagging;
  return TagSet.Tag.map(({ Key, Value }) => [Key, Value]);
}

const ListedBucket = z
  .object({ Name: z.string(), CreationDate: z.string() })
  .transform(({ Name, CreationDate }) => ({ name: Name, createdAt: CreationDate }));
export type ListedBucket = Readonly<z.infer<typeof ListedBucket>>;

const Buckets = z.object({
  ListAllMyBucketsResult: z.object({
    Buckets: z
      .object({ Bucket: z.array(ListedBucket).default([]) })
      // Without any, the element is empty, which reads as text.
      .or(z.string().transform(() => ({ Bucket: [] }))),
  }),
});

/** The answer of ListBuckets. */
export async function parseBuckets(body: string): Promise<ListedBucket[]> {
  return (await expectXml(Buckets, body)).ListAllMyBucketsResult.Buckets.Bucket;
}

async function expectXml<Schema extends z.ZodType>(schema: Schema, body: string): Promise<z.infer<Schema>> {
  return expectShape(schema, await parsedXml(body));
}

function expectShape<Schema extends z.ZodType>(schema: Schema, value: unknown): z.infer<Schema> {
  const parsed = schema.safeParse(value);
  if (parsed.success) return parsed.data;
  const issue = parsed.error.issues[0];
  throw new CliError(`the gateway's answer is not what S3 says: ${issue?.path.join(".")} ${issue?.message}`, {
    code: "ContractError",
  });
}

async function parsedXml(body: string): Promise<unknown> {
  parser ??= xmlParser({ preserveOrder: false });
  try {
    return (await parser).parse(body);
  } catch {
    return undefined;
  }
}

/** An element by its name: a list of elements, or a text. */
const Ordered: z.ZodType<OrderedNode> = z.lazy(() =>
  z.record(z.string(), z.union([z.string(), z.array(Ordered)])),
);
interface OrderedNode {
  readonly [name: string]: string | OrderedNode[];
}
const TEXT = "#text";

/** The elements in the root, in their order: each by its name, with its text or its own elements. */
async function childrenOf(root: string, body: string): Promise<[name: string, value: unknown][]> {
  orderedParser ??= xmlParser({ preserveOrder: true });
  const read = await orderedParser.then((parser) => parser.parse(body)).catch(() => undefined);
  const top = expectShape(z.array(Ordered), read).find((node) => root in node)?.[root];
  return elementsIn(expectShape(z.array(Ordered), top));
}

function elementsIn(nodes: readonly OrderedNode[]): [name: string, value: unknown][] {
  return nodes.flatMap((node) =>
    Object.entries(node).flatMap(([name, inner]): [string, unknown][] =>
      name === TEXT || typeof inner === "string" ? [] : [[name, contentOf(inner)]],
    ),
  );
}

function contentOf(nodes: readonly OrderedNode[]): unknown {
  const elements = elementsIn(nodes);
  if (elements.length > 0) return Object.fromEntries(elements);
  return nodes.map((node) => node[TEXT]).join("");
}

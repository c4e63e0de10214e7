import { z } from "zod";
import { TOO_LARGE_IN_FRONT } from "../../protocol/errors.ts";
import { CliError } from "../output/failure.ts";

/** The S3 answers that the CLI reads. */

/** Loaded with the first answer that needs it: calls of the control API never do. */
let parser: Promise<{ parse(text: string): unknown }> | undefined;

async function xmlParser(): Promise<{ parse(text: string): unknown }> {
  const { XMLParser } = await import("fast-xml-parser");
  // A page names a thousand keys, each with two quoted marks in its ETag: the parser's default bounds on entities are lower.
  return new XMLParser({
    ignoreDeclaration: true,
    ignoreAttributes: true,
    parseTagValue: false,
    trimValues: false,
    htmlEntities: true,
    processEntities: { enabled: true, maxTotalExpansions: 1_000_000, maxExpandedLength: 100_000_000 },
    isArray: (name) => ["Contents", "CommonPrefixes", "Bucket"].includes(name),
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

const Listing = z.object({
  ListBucketResult: z.object({
    IsTruncated: z.string().transform((text) => text === "true"),
    NextContinuationToken: z.string().optional(),
    Contents: z
      .array(
        z.object({
          Key: z.string(),
          Size: z.string().transform(Number),
          ETag: z.string(),
          LastModified: z.string(),
        }),
      )
      .default([]),
    CommonPrefixes: z.array(z.object({ Prefix: z.string() })).default([]),
  }),
});

export interface ListedFile {
  readonly path: string;
  readonly size: number;
  readonly etag: string;
  readonly modifiedAt: string;
}
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
    files: page.Contents.map(({ Key, Size, ETag, LastModified }) => ({
      path: Key,
      size: Size,
      etag: ETag.replaceAll('"', ""),
      modifiedAt: LastModified,
    })),
    prefixes: page.CommonPrefixes.map(({ Prefix }) => Prefix),
    next: page.IsTruncated ? page.NextContinuationToken : undefined,
  };
}

const Buckets = z.object({
  ListAllMyBucketsResult: z.object({
    Buckets: z
      .object({ Bucket: z.array(z.object({ Name: z.string(), CreationDate: z.string() })).default([]) })
      // Without any, the element is empty, which reads as text.
      .or(z.string().transform(() => ({ Bucket: [] }))),
  }),
});

export interface ListedBucket {
  readonly name: string;
  readonly createdAt: string;
}

/** The answer of ListBuckets. */
export async function parseBuckets(body: string): Promise<ListedBucket[]> {
  const { ListAllMyBucketsResult: result } = await expectXml(Buckets, body);
  return result.Buckets.Bucket.map(({ Name, CreationDate }) => ({ name: Name, createdAt: CreationDate }));
}

async function expectXml<Schema extends z.ZodType>(schema: Schema, body: string): Promise<z.infer<Schema>> {
  const parsed = schema.safeParse(await parsedXml(body));
  if (parsed.success) return parsed.data;
  const issue = parsed.error.issues[0];
  throw new CliError(`the gateway's answer is not what S3 says: ${issue?.path.join(".")} ${issue?.message}`, {
    code: "ContractError",
  });
}

async function parsedXml(body: string): Promise<unknown> {
  parser ??= xmlParser();
  try {
    return (await parser).parse(body);
  } catch {
    return undefined;
  }
}

import type { Description, Place } from "./client.ts";

/** What a tool made of an answer. */
export type ToolAnswer =
  | { readonly ok: true; readonly output: ToolOutput; readonly bytes: Buffer }
  /** `code` is the S3 error code; where an answer has no XML body, its status. */
  | { readonly ok: false; readonly code: string };

/** An operation's output under the names of the S3 API, as far as anybody here looks at it. */
export interface ToolOutput {
  readonly ETag?: string;
  readonly VersionId?: string;
  readonly ContentType?: string;
  readonly ContentLength?: number;
  readonly ContentRange?: string;
  readonly CacheControl?: string;
  readonly Metadata?: Readonly<Record<string, string>>;
  readonly ChecksumSHA256?: string;
  readonly PartsCount?: number;
  readonly Contents?: readonly { readonly Key: string; readonly Size: number; readonly ETag: string }[];
  readonly CommonPrefixes?: readonly { readonly Prefix: string }[];
  readonly Buckets?: readonly { readonly Name: string }[];
  readonly Deleted?: readonly { readonly Key: string }[];
  readonly IsTruncated?: boolean;
  readonly NextMarker?: string;
  readonly NextContinuationToken?: string;
  readonly KeyCount?: number;
  readonly Status?: string;
  readonly Versions?: readonly {
    readonly Key: string;
    readonly VersionId: string;
    readonly IsLatest: boolean;
  }[];
  readonly DeleteMarkers?: readonly { readonly Key: string; readonly VersionId: string }[];
  readonly DeleteMarker?: boolean;
  readonly UploadId?: string;
  readonly Uploads?: readonly { readonly Key: string; readonly UploadId: string }[];
  readonly Parts?: readonly { readonly PartNumber: number; readonly Size: number; readonly ETag: string }[];
  readonly NextPartNumberMarker?: number | string;
  readonly CopyObjectResult?: { readonly ETag: string };
  readonly CopyPartResult?: { readonly ETag: string };
  readonly ObjectSize?: number;
  readonly Checksum?: { readonly ChecksumSHA256?: string };
}

/** A tool that speaks the operations of the S3 API, named as on the command line: `list-objects-v2`. */
export interface ApiTool {
  /** One request. `send` is the body of an upload; `bytes` of the answer is the body of a download. */
  call(operation: string, parameters: object, send?: Buffer): Promise<ToolAnswer>;
  /** A listing as the tool's own paging walks it, `pageSize` keys a request. */
  walk(operation: string, parameters: object, pageSize: number): Promise<ToolAnswer>;
  close(): Promise<void>;
}

/** An SDK: it also moves files by rules of its own, and makes links. */
export interface Sdk extends ApiTool {
  upload(file: string, to: Place & { readonly description?: Description }): Promise<void>;
  download(from: Place, file: string): Promise<void>;
  /** Copies by rules of its own, in parts where it thinks so. */
  copy(from: Place, to: Place): Promise<void>;
  presign(operation: "get-object" | "put-object", place: Place): Promise<string>;
}

/** The output of an answer that must be a success. */
export function good(answer: ToolAnswer): ToolOutput {
  if (!answer.ok) throw new Error(`refused: ${answer.code}`);
  return answer.output;
}

/** The body of an answer that must be a success. */
export function bytesOf(answer: ToolAnswer): Buffer {
  if (!answer.ok) throw new Error(`refused: ${answer.code}`);
  return answer.bytes;
}

/** The keys of a listing that must be a success. */
export function keysOf(answer: ToolAnswer): string[] {
  return (good(answer).Contents ?? []).map(({ Key }) => Key);
}

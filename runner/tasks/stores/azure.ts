import { randomUUID } from "node:crypto";
import type { Readable } from "node:stream";
import type { BlobServiceClient, BlockBlobClient, StoragePipelineOptions } from "@azure/storage-blob";
import { contentName } from "../../../protocol/content.ts";
import { forEachLimited } from "../../lib/concurrency.ts";
import { EgressFault, labelOf, statusOf } from "../store-failure.ts";
import { contentNamed, Outrun, PARTS_AT_ONCE, partBytes, type Store, type StoreRequest } from "./store.ts";

/** Azure's bound on the blocks of a blob. */
const MAX_BLOCKS = 50_000;
/** `DIGEST_METADATA` of Azure, whose names must be identifiers. */
const DIGEST_NAME = "sluice_digest";
// The SDK's own retries are few and soon, because the caller tries again.
const RETRIES: NonNullable<StoragePipelineOptions["retryOptions"]> = {
  maxTries: 3,
  retryDelayInMs: 500,
  maxRetryDelayInMs: 4000,
};

/** A container of Azure Blob Storage, or with `endpoint` of whatever speaks like it. */
export async function openAzure(request: StoreRequest): Promise<Store> {
  const service = await openService(request);
  const container = service.getContainerClient(request.destination.bucket);

  return {
    host: new URL(service.url).hostname,
    noVersion: '"0x0"',
    takesConditions: true,
    async look({ key, signal }) {
      const blob = container.getBlockBlobClient(key);
      try {
        const { etag, contentLength, metadata } = await blob.getProperties({ abortSignal: signal });
        return { version: etag ?? "*", content: contentNamed(metadata?.[DIGEST_NAME], contentLength) };
      } catch (error) {
        if (statusOf(error) === 404) return { version: null };
        throw error;
      }
    },
    async put({ key, content, contentType, body, version, signal }) {
      const blob = container.getBlockBlobClient(key);
      const metadata = { [DIGEST_NAME]: contentName(content) };
      const conditions = version === null ? { ifNoneMatch: "*" } : { ifMatch: version };
      const blobHTTPHeaders = { blobContentType: contentType };
      const how = { metadata, blobHTTPHeaders, conditions, abortSignal: signal };
      if (Buffer.isBuffer(body)) return await conditionally(() => blob.upload(body, body.length, how));
      const blockBytes = partBytes({ size: content.size, maxParts: MAX_BLOCKS });
      const ids = await stageBlocks(blob, { body, blockBytes, abortSignal: signal });
      await conditionally(() => blob.commitBlockList(ids, how));
    },
    async remove({ key, version, signal }) {
      if (version === null) return;
      const options = { conditions: { ifMatch: version }, abortSignal: signal };
      await conditionally(() => container.getBlockBlobClient(key).deleteIfExists(options));
    },
    close() {},
  };
}

async function conditionally(write: () => Promise<unknown>): Promise<void> {
  try {
    await write();
  } catch (error) {
    // Of a blob that must not be there, Azure says that it is.
    const isOutrun = statusOf(error) === 412 || labelOf(error) === "BlobAlreadyExists";
    throw isOutrun ? new Outrun() : error;
  }
}

async function openService(request: StoreRequest): Promise<BlobServiceClient> {
  const { BlobServiceClient, StorageSharedKeyCredential } = await import("@azure/storage-blob");
  const { credentials, endpoint } = request;
  const options = { retryOptions: RETRIES };
  const connection = credentials.get("AZURE_STORAGE_CONNECTION_STRING");
  if (connection) {
    const service = connected(() => BlobServiceClient.fromConnectionString(connection, options));
    expectAccount(service.accountName, request);
    if (endpoint === undefined) return service;
    return new BlobServiceClient(
      withQuery(endpoint, new URL(service.url).search),
      service.credential,
      options,
    );
  }
  const url = endpoint ?? accountUrl(request);
  const token = credentials.get("AZURE_STORAGE_SAS_TOKEN");
  if (token) return new BlobServiceClient(withQuery(url, token), undefined, options);
  const key = credentials.need("AZURE_STORAGE_KEY");
  return new BlobServiceClient(url, new StorageSharedKeyCredential(accountName(request), key), options);
}

/** The SDK's words on a connection string that it can't read could repeat it. */
function connected<T>(open: () => T): T {
  try {
    return open();
  } catch {
    throw new EgressFault("AZURE_STORAGE_CONNECTION_STRING is not a connection string of a storage account");
  }
}

function expectAccount(found: string, { destination: { account } }: StoreRequest): void {
  if (account === undefined || account.name === found) return;
  throw new EgressFault(
    `egress.URL names the account "${account.name}", AZURE_STORAGE_CONNECTION_STRING the account "${found}"`,
  );
}

/** Always encrypted, even if the scheme is `wasb` and not `wasbs`, whose last `s` once stood for that. */
function accountUrl(request: StoreRequest): string {
  return `https://${request.destination.account?.host ?? `${accountName(request)}.blob.core.windows.net`}`;
}

function accountName({ destination, credentials }: StoreRequest): string {
  return destination.account?.name ?? credentials.need("AZURE_STORAGE_ACCOUNT");
}

function withQuery(url: string, query: string): string {
  return query === "" ? url : `${url}?${query.replace(/^\?/, "")}`;
}

/**
 * Sends a blob's blocks and returns their ids, for the list that makes the blob. The SDK's own way of doing this never ends if it is aborted: it waits for streams of its
 * own that nobody reads any more.
 */
async function stageBlocks(
  blob: BlockBlobClient,
  { body, blockBytes, abortSignal }: { body: Readable; blockBytes: number; abortSignal: AbortSignal },
): Promise<string[]> {
  // A worker that was taken for dead may be uploading this blob, too: its blocks must not get between these.
  const upload = randomUUID();
  const ids: string[] = [];
  await forEachLimited(blocksOf(body, blockBytes), {
    limit: PARTS_AT_ONCE,
    work: async ({ index, bytes }) => {
      // Azure wants all ids of a blob to have one length.
      const id = Buffer.from(`${upload}-${String(index).padStart(5, "0")}`).toString("base64");
      ids[index] = id;
      await blob.stageBlock(id, bytes, bytes.length, { abortSignal });
    },
  });
  return ids;
}

/** A stream in pieces of `blockBytes`; the last one has what is left. */
async function* blocksOf(
  body: Readable,
  blockBytes: number,
): AsyncGenerator<{ index: number; bytes: Buffer }> {
  let index = 0;
  let pieces: Buffer[] = [];
  let size = 0;
  for await (const chunk of body as AsyncIterable<Buffer>) {
    pieces.push(chunk);
    size += chunk.length;
    while (size >= blockBytes) {
      const whole = Buffer.concat(pieces);
      yield { index, bytes: whole.subarray(0, blockBytes) };
      index += 1;
      pieces = [whole.subarray(blockBytes)];
      size -= blockBytes;
    }
  }
  if (size > 0) yield { index, bytes: Buffer.concat(pieces) };
}

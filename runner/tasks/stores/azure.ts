import type { BlobServiceClient, StoragePipelineOptions } from "@azure/storage-blob";
import { contentName } from "../../../protocol/content.ts";
import type { Credentials } from "../credentials.ts";
import type { Destination } from "../destination.ts";
import { EgressFault } from "../store-failure.ts";
import { putBlocks } from "./blocks.ts";
import { PARTS_AT_ONCE, partBytes, type Store } from "./store.ts";

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

export interface AzureRequest {
  readonly destination: Destination;
  readonly endpoint: string | undefined;
  readonly credentials: Credentials;
}

/** A container of Azure Blob Storage, or with `endpoint` of whatever speaks like it. */
export async function openAzure(request: AzureRequest): Promise<Store> {
  const container = (await openService(request)).getContainerClient(request.destination.bucket);

  return {
    async has({ key, content, signal }) {
      const blob = container.getBlockBlobClient(key);
      const { contentLength, metadata } = await blob.getProperties({ abortSignal: signal });
      return contentLength === content.size && metadata?.[DIGEST_NAME] === contentName(content);
    },
    async put({ key, content, body, signal }) {
      const blob = container.getBlockBlobClient(key);
      const metadata = { [DIGEST_NAME]: contentName(content) };
      if (Buffer.isBuffer(body)) await blob.upload(body, body.length, { metadata, abortSignal: signal });
      else {
        const blockBytes = partBytes({ size: content.size, maxParts: MAX_BLOCKS });
        await putBlocks(blob, { body, blockBytes, atOnce: PARTS_AT_ONCE, metadata, signal });
      }
    },
    async remove({ key, signal }) {
      await container.getBlockBlobClient(key).deleteIfExists({ abortSignal: signal });
    },
    close() {},
  };
}

async function openService(request: AzureRequest): Promise<BlobServiceClient> {
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

function expectAccount(found: string, { destination: { account } }: AzureRequest): void {
  if (account === undefined || account.name === found) return;
  throw new EgressFault(
    `egress.URL names the account "${account.name}", AZURE_STORAGE_CONNECTION_STRING the account "${found}"`,
  );
}

/** Always encrypted, even if the scheme is `wasb` and not `wasbs`, whose last `s` once stood for that. */
function accountUrl(request: AzureRequest): string {
  return `https://${request.destination.account?.host ?? `${accountName(request)}.blob.core.windows.net`}`;
}

function accountName({ destination, credentials }: AzureRequest): string {
  return destination.account?.name ?? credentials.need("AZURE_STORAGE_ACCOUNT");
}

function withQuery(url: string, query: string): string {
  return query === "" ? url : `${url}?${query.replace(/^\?/, "")}`;
}

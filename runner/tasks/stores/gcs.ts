import { Readable } from "node:stream";
import { pipeline } from "node:stream/promises";
import type { StorageOptions } from "@google-cloud/storage";
import { type ContentId, contentName } from "../../../protocol/content.ts";
import { jsonOf } from "../../gateway/signed-pool.ts";
import { unlessAborted } from "../../lib/concurrency.ts";
import { type Credentials, GOOGLE_JSON_KEYS } from "../credentials.ts";
import { EgressFault } from "../store-failure.ts";
import { DIGEST_METADATA, partBytes, type Store, type StoreRequest } from "./store.ts";

// The SDK tries a chunk of a large object again and goes on behind the last one. The caller repeats all other calls.
const RESUMING = { autoRetry: true, maxRetries: 4, maxRetryDelay: 8, totalTimeout: 60 };
const SCOPE = "https://www.googleapis.com/auth/devstorage.read_write";
/** There is no bound on them; a part's size is a multiple of 256 KiB. */
const MAX_PARTS = 100_000;
const PART_UNIT_BYTES = 256 * 1024;

/** Google Cloud Storage, or with `endpoint` whatever speaks its JSON API. */
export async function openGcs({ destination, endpoint, credentials }: StoreRequest): Promise<Store> {
  const { bucket } = destination;
  const { Storage } = await import("@google-cloud/storage");
  const options = {
    ...(await access(credentials)),
    ...(endpoint !== undefined && { apiEndpoint: endpoint, useAuthWithCustomEndpoint: true }),
  };
  const storage = new Storage({ ...options, retryOptions: { autoRetry: false } });
  const { authClient } = storage;
  const resuming = new Storage({ ...options, authClient, retryOptions: RESUMING });
  const files = storage.bucket(bucket);
  const large = resuming.bucket(bucket);

  return {
    async has({ key, content, signal }) {
      const [{ size, metadata }] = await unlessAborted(files.file(key).getMetadata(), signal);
      return Number(size) === content.size && metadata?.[DIGEST_METADATA] === contentName(content);
    },
    async put({ key, content, body, signal }) {
      const metadata = { metadata: { [DIGEST_METADATA]: contentName(content) } };
      if (Buffer.isBuffer(body)) {
        const sink = files.file(key).createWriteStream({ resumable: false, metadata, validation: "crc32c" });
        return pipeline(Readable.from([body]), sink, { signal });
      }
      const file = large.file(key);
      // Begun apart: left to begin it, the SDK would not sign in at an endpoint of its user's.
      const [uri] = await unlessAborted(file.createResumableUpload({ metadata }), signal);
      const how = { uri, offset: 0, chunkSize: chunkSize(content), metadata };
      await pipeline(body, file.createWriteStream({ ...how, resumable: true, validation: "crc32c" }), {
        signal,
      });
    },
    async remove({ key, signal }) {
      await unlessAborted(files.file(key).delete({ ignoreNotFound: true }), signal);
    },
    close() {},
  };
}

function chunkSize({ size }: ContentId): number {
  return Math.ceil(partBytes({ size, maxParts: MAX_PARTS }) / PART_UNIT_BYTES) * PART_UNIT_BYTES;
}

/** From the environment the SDK reads them itself: a file that is named there, the machine's own account. */
async function access(
  credentials: Credentials,
): Promise<Pick<StorageOptions, "authClient" | "universeDomain">> {
  if (credentials.secret === null) return {};
  const { JWT } = await import("google-auth-library");
  const { client_email: email, private_key: key, universe_domain } = serviceAccount(credentials);
  const universe = universe_domain === undefined ? {} : { universeDomain: universe_domain };
  return { authClient: new JWT({ email, key, scopes: [SCOPE], ...universe }), ...universe };
}

interface ServiceAccount {
  readonly client_email: string;
  readonly private_key: string;
  readonly universe_domain?: string;
}

/** Takes only keys of accounts from a secret: other kinds of credentials could name files and programs of this machine. */
function serviceAccount(credentials: Credentials): ServiceAccount {
  const [first, second] = GOOGLE_JSON_KEYS;
  const json = credentials.get(first) ?? credentials.get(second);
  if (json === undefined)
    throw new EgressFault(`secret "${credentials.secret}" has no ${first} and no ${second}`);
  const account = jsonOf(json);
  if (isServiceAccount(account)) return account;
  throw new EgressFault(`secret "${credentials.secret}" does not hold the JSON of a service account's key`);
}

function isServiceAccount(value: unknown): value is ServiceAccount {
  if (typeof value !== "object" || value === null) return false;
  const { type, client_email, private_key, universe_domain = "" } = value as Record<string, unknown>;
  const texts = [client_email, private_key, universe_domain].every((text) => typeof text === "string");
  return type === "service_account" && texts;
}

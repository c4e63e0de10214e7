import { Readable } from "node:stream";
import { pipeline } from "node:stream/promises";
import type { StorageOptions } from "@google-cloud/storage";
import { z } from "zod";
import { type ContentId, contentName } from "../../../protocol/content.ts";
import { jsonOf } from "../../../protocol/json.ts";
import { unlessAborted } from "../../lib/concurrency.ts";
import { type Credentials, GOOGLE_JSON_KEYS } from "../credentials.ts";
import { EgressFault, statusOf } from "../store-failure.ts";
import { contentNamed, DIGEST_METADATA, Outrun, partBytes, type Store, type StoreRequest } from "./store.ts";

// The SDK tries a chunk of a large object again and goes on behind the last one. The caller repeats all other calls.
const RESUMING = { autoRetry: true, maxRetries: 4, maxRetryDelay: 8, totalTimeout: 60 };
const SCOPE = "https://www.googleapis.com/auth/devstorage.read_write";
/** There is no bound on them; a part's size is a multiple of 256 KiB. */
const MAX_PARTS = 100_000;
const PART_UNIT_BYTES = 256 * 1024;
/** The generation of an object that is not there. */
const NO_OBJECT = 0;

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
    host: new URL(storage.apiEndpoint).hostname,
    // Google's generations are times in microseconds.
    noVersion: "1",
    takesConditions: true,
    async look({ key, signal }) {
      try {
        const [found] = await unlessAborted(files.file(key).getMetadata(), signal);
        const name = found.metadata?.[DIGEST_METADATA];
        const content = contentNamed(name == null ? undefined : String(name), Number(found.size));
        return { version: String(found.generation), content };
      } catch (error) {
        if (statusOf(error) === 404) return { version: null };
        throw error;
      }
    },
    async put({ key, content, contentType, body, version, signal }) {
      const metadata = { contentType, metadata: { [DIGEST_METADATA]: contentName(content) } };
      const preconditionOpts = { ifGenerationMatch: version ?? NO_OBJECT };
      const how = { metadata, preconditionOpts, validation: "crc32c" } as const;
      if (Buffer.isBuffer(body)) {
        const sink = files.file(key).createWriteStream({ ...how, resumable: false });
        return await conditionally(() => pipeline(Readable.from([body]), sink, { signal }));
      }
      const file = large.file(key);
      await conditionally(async () => {
        // Begun apart: left to begin it, the SDK would not sign in at an endpoint of its user's.
        const begun = file.createResumableUpload({ metadata, preconditionOpts });
        const [uri] = await unlessAborted(begun, signal);
        const chunks = { uri, offset: 0, chunkSize: chunkSize(content), resumable: true };
        await pipeline(body, file.createWriteStream({ ...how, ...chunks }), { signal });
      });
    },
    async remove({ key, version, signal }) {
      if (version === null) return;
      const options = { ignoreNotFound: true, ifGenerationMatch: version };
      await conditionally(() => unlessAborted(files.file(key).delete(options), signal));
    },
    close() {},
  };
}

async function conditionally(write: () => Promise<unknown>): Promise<void> {
  try {
    await write();
  } catch (error) {
    throw statusOf(error) === 412 ? new Outrun() : error;
  }
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

const ServiceAccount = z.object({
  type: z.literal("service_account"),
  client_email: z.string(),
  private_key: z.string(),
  universe_domain: z.string().optional(),
});

/** Takes only keys of accounts from a secret: other kinds of credentials could name files and programs of this machine. */
function serviceAccount(credentials: Credentials): z.infer<typeof ServiceAccount> {
  const [first, second] = GOOGLE_JSON_KEYS;
  const json = credentials.get(first) ?? credentials.get(second);
  if (json === undefined)
    throw new EgressFault(`secret "${credentials.secret}" has no ${first} and no ${second}`);
  const account = ServiceAccount.safeParse(jsonOf(json));
  if (account.success) return account.data;
  throw new EgressFault(`secret "${credentials.secret}" does not hold the JSON of a service account's key`);
}

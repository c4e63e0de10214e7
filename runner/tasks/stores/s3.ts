import type { S3ClientConfig } from "@aws-sdk/client-s3";
import { contentName } from "../../../protocol/content.ts";
import type { Credentials } from "../credentials.ts";
import { labelOf, statusOf } from "../store-failure.ts";
import {
  contentNamed,
  DIGEST_METADATA,
  type ObjectPut,
  Outrun,
  PARTS_AT_ONCE,
  partBytes,
  type Store,
  type StoreRequest,
} from "./store.ts";

/** S3's bound, of which one is kept in reserve. */
const MAX_PARTS = 9_999;
const CONNECT_MS = 10_000;
/** A connection on which nothing is said for so long is given up. */
const SILENCE_MS = 120_000;
/** How long a store may take to drop the parts of an upload that was given up. */
const TIDY_MS = 3000;
const DEFAULT_REGION = "us-east-1";
const AMAZON_HOST = "s3.amazonaws.com";

/** Amazon S3, or with `endpoint` whatever speaks like it. */
export async function openS3({ destination, endpoint, credentials }: StoreRequest): Promise<Store> {
  const { bucket } = destination;
  const s3 = await import("@aws-sdk/client-s3");
  const { Upload } = await import("@aws-sdk/lib-storage");
  const config: S3ClientConfig = {
    ...access(credentials),
    requestHandler: { connectionTimeout: CONNECT_MS, socketTimeout: SILENCE_MS },
    ...(endpoint !== undefined && { endpoint, forcePathStyle: true }),
  };
  const region = await regionOf(new s3.S3Client(config), credentials);
  const client = new s3.S3Client({ ...config, region });

  client.middlewareStack.add(
    (next) => async (args) => {
      credentials.checkKey((await client.config.credentials()).accessKeyId);
      return await next(args);
    },
    { step: "initialize", name: "sluiceKey" },
  );

  // The SDK's uploader can't stop a request that is on its way. What an upload leaves behind is still tidied up after.
  const sendUntil = (signal: AbortSignal) => (command: Parameters<typeof client.send>[0]) => {
    const tidies = command instanceof s3.AbortMultipartUploadCommand;
    return client.send(command, { abortSignal: tidies ? AbortSignal.timeout(TIDY_MS) : signal });
  };

  let takesConditions = true;
  /** The condition goes into the request that makes the object: PutObject, or the completion of an upload in parts. */
  const conditionOn = (version: string | null) => {
    if (!takesConditions) return {};
    return version === null ? { IfNoneMatch: "*" } : { IfMatch: version };
  };
  const conditionally = async (write: () => Promise<unknown>) => {
    try {
      await write();
    } catch (error) {
      if (statusOf(error) === 501 && takesConditions) takesConditions = false;
      else if (!isOutrun(error)) throw error;
      throw new Outrun();
    }
  };

  return {
    // The operator may have set an endpoint as well.
    host: endpoint
      ? new URL(endpoint).hostname
      : ((await client.config.endpoint?.())?.hostname ?? AMAZON_HOST),
    noVersion: '"0"',
    get takesConditions() {
      return takesConditions;
    },
    async look({ key, signal }) {
      const command = new s3.HeadObjectCommand({ Bucket: bucket, Key: key });
      try {
        const { ETag, ContentLength, Metadata } = await client.send(command, { abortSignal: signal });
        return { version: ETag ?? "*", content: contentNamed(Metadata?.[DIGEST_METADATA], ContentLength) };
      } catch (error) {
        if (statusOf(error) === 404) return { version: null };
        throw error;
      }
    },
    async put({ key, content, contentType, body, version, signal }: ObjectPut) {
      const Metadata = { [DIGEST_METADATA]: contentName(content) };
      const what = { Body: body, ContentType: contentType, Metadata };
      const params = { Bucket: bucket, Key: key, ...what, ...conditionOn(version) };
      if (Buffer.isBuffer(body)) {
        const command = new s3.PutObjectCommand(params);
        return await conditionally(() => client.send(command, { abortSignal: signal }));
      }
      const partSize = partBytes({ size: content.size, maxParts: MAX_PARTS });
      const stoppable = Object.create(client, { send: { value: sendUntil(signal) } });
      const upload = new Upload({ client: stoppable, params, partSize, queueSize: PARTS_AT_ONCE });
      await conditionally(() => upload.done());
    },
    async remove({ key, version, signal }) {
      if (version === null) return;
      const params = { Bucket: bucket, Key: key, ...(takesConditions && { IfMatch: version }) };
      try {
        const command = new s3.DeleteObjectCommand(params);
        await conditionally(() => client.send(command, { abortSignal: signal }));
      } catch (error) {
        // There is nothing to remove any more.
        if (statusOf(error) !== 404) throw error;
      }
    },
    close: () => client.destroy(),
  };
}

/** A conditional write finds another object, none, or another write under way (S3 User Guide, "Conditional writes"). */
function isOutrun(error: unknown): boolean {
  const code = labelOf(error);
  return statusOf(error) === 412 || code === "ConditionalRequestConflict" || code === "NoSuchKey";
}

/** From the environment the SDK reads them itself, with profiles, roles and all else that it knows. */
function access(credentials: Credentials): Pick<S3ClientConfig, "credentials" | "region"> {
  if (credentials.secret === null) return {};
  const sessionToken = credentials.get("AWS_SESSION_TOKEN");
  const region = credentials.get("AWS_REGION") ?? credentials.get("AWS_DEFAULT_REGION");
  return {
    credentials: {
      accessKeyId: credentials.need("AWS_ACCESS_KEY_ID"),
      secretAccessKey: credentials.need("AWS_SECRET_ACCESS_KEY"),
      ...(sessionToken !== undefined && { sessionToken }),
    },
    ...(region !== undefined && { region }),
  };
}

/** If none is set up: Amazon's first region, which other stores take as well. */
async function regionOf(
  client: { config: { region: () => Promise<string> }; destroy(): void },
  credentials: Credentials,
): Promise<string> {
  try {
    return await client.config.region();
  } catch {
    return credentials.get("AWS_DEFAULT_REGION") ?? DEFAULT_REGION;
  } finally {
    client.destroy();
  }
}

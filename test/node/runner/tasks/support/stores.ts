import { generateKeyPairSync } from "node:crypto";
import { writeFileSync } from "node:fs";
import { createRequire } from "node:module";
import { join } from "node:path";
import {
  AccountSASPermissions,
  BlobServiceClient,
  generateAccountSASQueryParameters,
  StorageSharedKeyCredential,
} from "@azure/storage-blob";
import { KeyCreated } from "../../../../../protocol/keys.ts";
import { Control } from "../../../../support/control.ts";
import { ROOT, startDevServer } from "../../../../support/dev-server.ts";
import { eventually } from "../../../../support/eventually.ts";
import { FakeGcs } from "../../../../support/fake-gcs.ts";
import { freePort } from "../../../../support/ports.ts";
import { start } from "../../../../support/processes.ts";
import { S3 } from "../../../../support/s3.ts";
import { removeScratch, scratchFolder } from "../../../../support/scratch.ts";
import { type Seen, StoreProxy } from "../../../../support/store-proxy.ts";

/** The main module of Azurite, a package of its own (test/azurite); undefined if it is not installed. */
const azuriteMain = findAzurite();
/** Why there is no Azure store here; undefined if there is one. */
export const noAzurite = azuriteMain ? undefined : "not installed: cd test/azurite && npm ci";

type Values = Readonly<Record<string, string>>;

/** Credentials that do not let in, what the store says of that, and what nobody may read of them. */
export interface Refused {
  readonly values: Values;
  readonly words: RegExp;
  readonly hidden: readonly string[];
}

/** An external store that egress is tried against. All its clients but the test's own go through `proxy`. */
export interface TestStore {
  /** `<scheme>://<bucket>` */
  readonly url: string;
  /** What is behind the proxy's origin in the endpoint. */
  readonly endpointPath: string;
  readonly proxy: StoreProxy;
  /** As keys of a secret. */
  readonly credentials: Values;
  /** The same access as variables of a process. */
  readonly environment: Values;
  /** Other sets of keys that let in. */
  readonly others: readonly Values[];
  readonly refused: readonly Refused[];
  /** A bucket that is not there, and what the store says of it. */
  readonly absent: { readonly url: string; readonly words: RegExp };
  get(key: string): Promise<Buffer | undefined>;
  /** The Content-Type that an object has. */
  typeOf(key: string): Promise<string | undefined>;
  /** Writes an object as somebody else would. */
  put(key: string, text: string): Promise<void>;
  /** Whether a request is the one that makes an object of several parts. */
  readonly makesLarge: (seen: Seen) => boolean;
  /** Uploads in parts that were begun and neither completed nor aborted. */
  unfinished(): Promise<number>;
  stop(): Promise<void>;
}

/** Sluice itself as the store, with a key of its own. */
export async function sluiceStore(): Promise<TestStore> {
  const server = await startDevServer();
  const s3 = new S3(server);
  const bucket = "master.results";
  await s3.createBucket(bucket);
  const proxy = new StoreProxy(server.endpoint);
  await proxy.start();
  const keyOf = async (level: string): Promise<Values> => {
    const body = { level };
    const key = await new Control(server).call("POST", "/keys", { body, answers: KeyCreated });
    return { AWS_ACCESS_KEY_ID: key.id, AWS_SECRET_ACCESS_KEY: key.secret };
  };
  const credentials = await keyOf("write");
  const reader = await keyOf("read");
  const wrongSecret = "not-the-secret-of-this-key-0123456789";
  return {
    url: `s3://${bucket}`,
    endpointPath: "",
    proxy,
    credentials,
    environment: credentials,
    others: [{ ...credentials, AWS_REGION: "eu-central-1" }],
    refused: [
      {
        values: { ...credentials, AWS_SECRET_ACCESS_KEY: wrongSecret },
        words: /SignatureDoesNotMatch/,
        hidden: [wrongSecret, credentials.AWS_ACCESS_KEY_ID ?? ""],
      },
      { values: reader, words: /AccessDenied/, hidden: Object.values(reader) },
    ],
    absent: { url: "s3://master.nowhere", words: /NoSuchBucket/ },
    get: (key) => s3.get(bucket, key),
    typeOf: async (key) => (await s3.ask("HEAD", `/${bucket}/${key}`)).headers["content-type"],
    put: async (key, text) => void (await s3.put(bucket, key, text)),
    makesLarge: ({ method, target }) => method === "POST" && target.includes("uploadId="),
    async unfinished() {
      const { text } = await s3.ask("GET", `/${bucket}?uploads`);
      return text.split("<Upload>").length - 1;
    },
    async stop() {
      await proxy.stop();
      await server.stop();
    },
  };
}

/** Azurite, Microsoft's emulator of Azure Storage, in memory. */
export async function azureStore(): Promise<TestStore> {
  const folder = scratchFolder();
  const port = await freePort();
  const account = "sluicetests";
  const key = Buffer.from("a key of these tests and of nothing else").toString("base64");
  if (!azuriteMain) throw new Error(`azurite is ${noAzurite}`);
  const options = ["--inMemoryPersistence", "--silent", "--disableTelemetry", "--skipApiVersionCheck"];
  const command = [process.execPath, azuriteMain, "--blobPort", String(port), ...options];
  const azurite = start(command, {
    cwd: folder,
    env: { AZURITE_ACCOUNTS: `${account}:${key}`, HOME: folder },
  });
  const endpoint = `http://127.0.0.1:${port}`;
  const owner = new StorageSharedKeyCredential(account, key);
  const service = new BlobServiceClient(`${endpoint}/${account}`, owner);
  const container = service.getContainerClient("results");
  const ended = azurite.ended.then(({ stdout, stderr }) => {
    throw new Error(`azurite ended: ${stdout}${stderr}`);
  });
  const answers = eventually("azurite answers", async () => {
    await container.createIfNotExists();
    return true;
  });
  await Promise.race([answers, ended]);
  ended.catch(() => undefined);
  const proxy = new StoreProxy(endpoint);
  await proxy.start();
  const wrongKey = Buffer.from("some other key that nobody gave out").toString("base64");
  const credentials = { AZURE_STORAGE_ACCOUNT: account, AZURE_STORAGE_KEY: key };
  const connection = `DefaultEndpointsProtocol=https;AccountName=${account};AccountKey=${key};EndpointSuffix=core.windows.net`;
  return {
    url: "wasb://results",
    endpointPath: `/${account}`,
    proxy,
    credentials,
    environment: { AZURE_STORAGE_CONNECTION_STRING: connection },
    others: [
      { AZURE_STORAGE_CONNECTION_STRING: connection },
      { AZURE_STORAGE_SAS_TOKEN: sharedAccess(owner) },
    ],
    refused: [
      {
        values: { ...credentials, AZURE_STORAGE_KEY: wrongKey },
        words: /AuthorizationFailure|AuthenticationFailed/,
        hidden: [wrongKey],
      },
      {
        values: { AZURE_STORAGE_SAS_TOKEN: "sv=2024-11-04&sp=rwd&sig=bm90IGEgc2lnbmF0dXJl" },
        words: /AuthorizationFailure|AuthenticationFailed/,
        hidden: ["bm90IGEgc2lnbmF0dXJl"],
      },
    ],
    absent: { url: "wasb://nowhere", words: /ContainerNotFound/ },
    async get(name) {
      const blob = container.getBlockBlobClient(name);
      return (await blob.exists()) ? blob.downloadToBuffer() : undefined;
    },
    typeOf: async (name) => (await container.getBlockBlobClient(name).getProperties()).contentType,
    async put(name, text) {
      await container.getBlockBlobClient(name).upload(text, Buffer.byteLength(text));
    },
    makesLarge: ({ target }) => target.includes("comp=blocklist"),
    // Azure drops blocks that nobody commits.
    unfinished: () => Promise.resolve(0),
    async stop() {
      await proxy.stop();
      await azurite.stop();
      removeScratch(folder);
    },
  };
}

function findAzurite(): string | undefined {
  try {
    return createRequire(join(ROOT, "test/azurite/package.json")).resolve("azurite/dist/src/blob/main.js");
  } catch {
    return undefined;
  }
}

function sharedAccess(owner: StorageSharedKeyCredential): string {
  const expiresOn = new Date(Date.now() + 24 * 60 * 60 * 1000);
  const permissions = AccountSASPermissions.parse("rwdlac");
  const values = { expiresOn, permissions, services: "b", resourceTypes: "sco" };
  return generateAccountSASQueryParameters(values, owner).toString();
}

/** The fake of Google Cloud Storage. */
export async function gcsStore(): Promise<TestStore> {
  const folder = scratchFolder();
  const bucket = "results";
  const own = rsaKeys();
  const stranger = rsaKeys();
  const fake = new FakeGcs({ bucket, publicKey: own.publicKey });
  await fake.start();
  const proxy = new StoreProxy(fake.endpoint);
  await proxy.start();
  writeFileSync(join(folder, "subject"), fake.subjectToken);
  const file = join(folder, "adc.json");
  writeFileSync(file, JSON.stringify(federated(fake.endpoint, join(folder, "subject"))));
  return {
    url: `gs://${bucket}`,
    endpointPath: "",
    proxy,
    credentials: { "service-account.json": serviceAccount(own.privateKey) },
    environment: { GOOGLE_APPLICATION_CREDENTIALS: file },
    others: [{ GOOGLE_APPLICATION_CREDENTIALS_JSON: serviceAccount(own.privateKey) }],
    refused: [
      {
        values: { GOOGLE_APPLICATION_CREDENTIALS_JSON: serviceAccount(stranger.privateKey) },
        words: /authError \(status 401\)/,
        hidden: stranger.privateKey.split("\n").filter((line) => line.length > 40),
      },
    ],
    absent: { url: "gs://nowhere", words: /notFound \(status 404\)/ },
    get: (key) => Promise.resolve(fake.objects.get(key)?.bytes),
    typeOf: (key) => Promise.resolve(fake.objects.get(key)?.contentType),
    put(key, text) {
      fake.write(key, { bytes: Buffer.from(text), metadata: {} });
      return Promise.resolve();
    },
    makesLarge: ({ method, target }) => method === "PUT" && target.includes("upload_id="),
    // Google drops sessions that nobody ends.
    unfinished: () => Promise.resolve(0),
    async stop() {
      await proxy.stop();
      await fake.stop();
      removeScratch(folder);
      if (fake.unknown.length > 0) throw new Error(`the fake did not know: ${fake.unknown.join("; ")}`);
    },
  };
}

function rsaKeys(): { publicKey: string; privateKey: string } {
  return generateKeyPairSync("rsa", {
    modulusLength: 2048,
    publicKeyEncoding: { type: "spki", format: "pem" },
    privateKeyEncoding: { type: "pkcs8", format: "pem" },
  });
}

/** A key of Google's, of an account that nobody knows. */
export function strangersKey(): string {
  return serviceAccount(rsaKeys().privateKey);
}

/** A key as Google gives it out. Outside Google's own universe it signs its tokens itself, so that nobody need be asked for one. */
function serviceAccount(privateKey: string): string {
  return JSON.stringify({
    type: "service_account",
    project_id: "tests",
    private_key_id: "0123456789abcdef",
    private_key: privateKey,
    client_email: "egress@tests.example",
    universe_domain: "cloud.example",
  });
}

function federated(endpoint: string, subject: string): object {
  return {
    type: "external_account",
    audience: "//iam.googleapis.com/projects/1/locations/global/workloadIdentityPools/tests/providers/tests",
    subject_token_type: "urn:ietf:params:oauth:token-type:jwt",
    token_url: `${endpoint}/token`,
    credential_source: { file: subject },
  };
}

import { env } from "cloudflare:test";
import { AwsClient } from "aws4fetch";
import { XMLParser } from "fast-xml-parser";
import { afterAll, beforeAll } from "vitest";
import { type Context, openContext } from "../../../worker/app.ts";
import type { BlobStore } from "../../../worker/blobs/port.ts";
import type { KeyScope } from "../../../worker/core/permissions.ts";
import { type Config, readConfig } from "../../../worker/env.ts";
import type { AccessKey } from "../../../worker/keys/key-ring.ts";
import { handleS3 } from "../../../worker/s3/gateway.ts";

export const ROOT_KEY = { id: "test-root", secret: "test-root-secret" };
export const ENDPOINT = "http://sluice.test";
/** What the gateway under test is set up with. */
export const CONFIG: Config = readTestConfig();

export interface Ask {
  readonly headers?: Record<string, string>;
  readonly body?: string | Uint8Array<ArrayBuffer> | ReadableStream<Uint8Array>;
  readonly key?: { readonly id: string; readonly secret: string };
}

/** A signed request for `method target`, such as `GET /master.data/key?versionId=x`, as the gateway gets it. */
export async function signed(
  line: string,
  { headers = {}, body, key = ROOT_KEY }: Ask = {},
): Promise<Request> {
  const { method, url } = parseLine(line);
  const client = new AwsClient({
    accessKeyId: key.id,
    secretAccessKey: key.secret,
    service: "s3",
    region: "auto",
  });
  // What undici and workerd send by themselves with a body of known length.
  const length = typeof body === "string" ? new TextEncoder().encode(body).length : lengthOf(body);
  const sent = length === undefined ? headers : { "content-length": String(length), ...headers };
  return client.sign(url, { method, headers: sent, ...(body === undefined ? {} : { body }) });
}

export function unsigned(line: string, headers: Record<string, string> = {}): Request {
  const { method, url } = parseLine(line);
  return new Request(url, { method, headers });
}

export interface Gateway {
  /** The clock; milliseconds since 1970. */
  readonly now?: () => number;
  readonly config?: Partial<Config>;
}

/** The gateway's answer to a request, over real objects, blobs and catalogue. */
export function answer(request: Request, { now = Date.now, config }: Gateway = {}): Promise<Response> {
  return handleS3(request, { context: testContext(config), now });
}

/** What a request has, with the keys of `scopedKey` beside the root key. */
export function testContext(config: Partial<Config> = {}): Context {
  const context = openContext(env, { ...CONFIG, ...config });
  const blobs = manifestBound === undefined ? context.blobs : withBound(context.blobs, manifestBound);
  const keys = { find: (id: string) => scopedKeys.get(id) ?? context.keys.find(id), used() {} };
  return { ...context, blobs, keys };
}

let manifestBound: number | undefined;

/** In this file's tests, lists of chunks go to manifests from this many bytes of JSON. Later files share this module. */
export function lowerManifestBound(bytes: number): void {
  beforeAll(() => {
    manifestBound = bytes;
  });
  afterAll(() => {
    manifestBound = undefined;
  });
}

/** The same while `work` runs. */
export async function withManifestBound<T>(bytes: number, work: () => Promise<T>): Promise<T> {
  manifestBound = bytes;
  try {
    return await work();
  } finally {
    manifestBound = undefined;
  }
}

function withBound(store: BlobStore, bound: number): BlobStore {
  return {
    manifestBound: bound,
    put: (name, bytes) => store.put(name, bytes),
    get: (name, range) => store.get(name, range),
    delete: (names) => store.delete(names),
    list: (request) => store.list(request),
  };
}

const scopedKeys = new Map<string, AccessKey>();

/** A key that may do no more than this. */
export function scopedKey(scope: KeyScope): AccessKey {
  const id = `test-${scope.level}-${scope.repos?.join("-") ?? "everywhere"}`;
  const key = { id, secret: `secret-of-${id}`, scope };
  scopedKeys.set(id, key);
  return key;
}

/** One signed request and its answer. */
export async function s3(line: string, ask: Ask = {}): Promise<Response> {
  return answer(await signed(line, ask));
}

/** The same, where anything but success is an error of the test. */
export async function good(line: string, ask: Ask = {}): Promise<Response> {
  const response = await s3(line, ask);
  if (!response.ok) throw new Error(`${line}: ${response.status} ${await response.text()}`);
  return response;
}

export interface Failure {
  readonly status: number;
  readonly Code: string;
  readonly Message: string;
  readonly Resource: string;
  readonly RequestId: string;
}

/** An answer that must be an S3 error document. */
export async function failure(answered: Response | Promise<Response>): Promise<Failure> {
  const response = await answered;
  const document = parser.parse(await response.text());
  return { status: response.status, ...document.Error };
}

/** An answer's XML: text as it is, and a list for what may come several times. */
// biome-ignore lint/suspicious/noExplicitAny: the shape is what the tests assert.
export async function xml(answered: Response | Promise<Response>): Promise<any> {
  return parser.parse(await (await answered).text());
}

/** Tags that may come several times. */
const LISTS = new Set(["Contents", "CommonPrefixes", "Deleted", "DeleteMarker", "Part", "Upload", "Version"]);

const parser = new XMLParser({
  parseTagValue: false,
  ignoreDeclaration: true,
  trimValues: false,
  processEntities: true,
  isArray: (name, path) => LISTS.has(name) || String(path).endsWith("Buckets.Bucket"),
});

function readTestConfig(): Config {
  const read = readConfig(env);
  if (!read.ok) throw new Error(read.problem);
  return read.config;
}

function parseLine(line: string): { method: string; url: string } {
  const space = line.indexOf(" ");
  return { method: line.slice(0, space), url: ENDPOINT + line.slice(space + 1) };
}

function lengthOf(body: Ask["body"]): number | undefined {
  return body instanceof Uint8Array ? body.length : undefined;
}

import { XMLParser } from "fast-xml-parser";
import { type Answer, signedExchange } from "./http.ts";
import type { Door } from "./keys.ts";

export interface PutAnswer {
  readonly etag: string;
  /** The commit that the PUT made. */
  readonly version: string;
}

const xml = new XMLParser({
  ignoreAttributes: true,
  parseTagValue: false,
  isArray: (name) => ["Contents", "CommonPrefixes", "Bucket", "Version", "DeleteMarker"].includes(name),
});

/** A bare S3 client for tests: one signed request a call, no retries; anything but success is an error with the answer in it. */
export class S3 {
  readonly #door: Door;

  constructor(door: Door) {
    this.#door = door;
  }

  /** One request, whatever its answer. */
  async ask(method: string, target: string, body?: Uint8Array | string): Promise<Answer> {
    return signedExchange(this.#door, { method, target, ...(body === undefined ? {} : { body }) });
  }

  async createBucket(bucket: string): Promise<void> {
    expectStatus(await this.ask("PUT", `/${bucket}`), 200);
  }

  async put(bucket: string, key: string, body: Uint8Array | string): Promise<PutAnswer> {
    const answer = expectStatus(await this.ask("PUT", objectTarget(bucket, key), body), 200);
    return { etag: answer.headers.etag ?? "", version: answer.headers["x-amz-version-id"] ?? "" };
  }

  /** The bytes, or undefined where there is no such key. */
  async get(bucket: string, key: string): Promise<Buffer | undefined> {
    const answer = await this.ask("GET", objectTarget(bucket, key));
    return answer.status === 404 ? undefined : expectStatus(answer, 200).body;
  }

  /** The newest commit that put or deleted a file of the branch: versions are commits, whose ids grow. */
  async headCommit(bucket: string): Promise<string> {
    let newest = "";
    let marker = "";
    for (;;) {
      const answer = expectStatus(await this.ask("GET", `/${bucket}?versions${marker}`), 200);
      const result = xml.parse(answer.text).ListVersionsResult;
      const ids = [...(result.Version ?? []), ...(result.DeleteMarker ?? [])].map(
        ({ VersionId }) => VersionId,
      );
      newest = ids.reduce((last, id) => (id > last ? id : last), newest);
      if (result.IsTruncated !== "true") return newest;
      const key = encodeSegment(result.NextKeyMarker);
      const version = result.NextVersionIdMarker;
      marker = `&key-marker=${key}${version ? `&version-id-marker=${version}` : ""}`;
    }
  }

  async delete(bucket: string, key: string): Promise<void> {
    expectStatus(await this.ask("DELETE", objectTarget(bucket, key)), 204);
  }

  /** Every key under a prefix, in the order of the gateway, page by page. */
  async keys(bucket: string, prefix = ""): Promise<string[]> {
    const keys: string[] = [];
    let marker = "";
    for (;;) {
      const query = new URLSearchParams({ marker, prefix }).toString().replaceAll("+", "%20");
      const answer = expectStatus(await this.ask("GET", `/${bucket}?${query}`), 200);
      const result = xml.parse(answer.text).ListBucketResult;
      const page = (result.Contents ?? []).map((entry: { Key: string }) => entry.Key);
      keys.push(...page);
      if (result.IsTruncated !== "true") return keys;
      marker = page.at(-1);
    }
  }

  async buckets(): Promise<string[]> {
    const answer = expectStatus(await this.ask("GET", "/"), 200);
    const result = xml.parse(answer.text).ListAllMyBucketsResult;
    return (result.Buckets?.Bucket ?? []).map((bucket: { Name: string }) => bucket.Name);
  }
}

/** The request target of an object. */
export function objectTarget(bucket: string, key: string): string {
  return `/${bucket}/${key.split("/").map(encodeSegment).join("/")}`;
}

function encodeSegment(segment: string): string {
  return encodeURIComponent(segment).replace(
    /[!'()*]/g,
    (character) => `%${character.charCodeAt(0).toString(16).toUpperCase()}`,
  );
}

function expectStatus(answer: Answer, status: number): Answer {
  if (answer.status !== status) throw new Error(`expected ${status}, got ${answer.status}: ${answer.text}`);
  return answer;
}

import { createWriteStream, openAsBlob } from "node:fs";
import { Readable } from "node:stream";
import { pipeline } from "node:stream/promises";
import { AwsClient } from "aws4fetch";
import { XMLParser } from "fast-xml-parser";
import type { Door } from "../keys.ts";
import { objectTarget } from "../s3.ts";
import type { Client, Condition, Description, Level, Place } from "./client.ts";

const PART_BYTES = 8 * 1024 * 1024;

const xml = new XMLParser({
  ignoreAttributes: true,
  parseTagValue: false,
  isArray: (name) => ["Contents", "CommonPrefixes", "Bucket"].includes(name),
});

/** aws4fetch: `fetch` with signatures. Multipart uploads go by the routes without a key. */
export function aws4fetch({ endpoint, accessKeyId, secretAccessKey }: Door): Client {
  const aws = new AwsClient({ accessKeyId, secretAccessKey, service: "s3", region: "us-east-1", retries: 0 });
  const ask = (target: string, init: RequestInit = {}): Promise<Response> =>
    aws.fetch(endpoint + target, init);
  const must = async (target: string, init: RequestInit = {}): Promise<Response> => {
    const response = await ask(target, init);
    if (!response.ok)
      throw new Error(`${init.method} ${target}: ${response.status} ${await response.text()}`);
    return response;
  };
  const at = ({ bucket, key }: Place): string => objectTarget(bucket, key);
  const onePut = async (file: string, to: Place, headers: Record<string, string> = {}): Promise<void> => {
    await must(at(to), { method: "PUT", body: await openAsBlob(file), headers });
  };
  const link = async (method: "GET" | "PUT", place: Place): Promise<string> => {
    const signed = await aws.sign(endpoint + at(place), { method, aws: { signQuery: true } });
    return signed.url;
  };

  const putParts = async (bytes: Blob, { bucket, key }: Place): Promise<void> => {
    const opened = await must(`/${bucket}?uploads&filepath=${encodeURIComponent(key)}`, { method: "POST" });
    const { UploadId } = xml.parse(await opened.text()).InitiateMultipartUploadResult;
    const upload = `/${bucket}?uploadId=${encodeURIComponent(UploadId)}`;
    const parts: string[] = [];
    for (let first = 0, number = 1; first < bytes.size; first += PART_BYTES, number++) {
      const body = bytes.slice(first, first + PART_BYTES);
      const part = await must(`${upload}&partNumber=${number}`, { method: "PUT", body });
      parts.push(`<Part><PartNumber>${number}</PartNumber><ETag>${part.headers.get("etag")}</ETag></Part>`);
    }
    const body = `<CompleteMultipartUpload>${parts.join("")}</CompleteMultipartUpload>`;
    await must(upload, { method: "POST", body });
  };

  const pages = async (bucket: string, query: Record<string, string>): Promise<Level> => {
    const level = { keys: [] as string[], folders: [] as string[] };
    let token: Record<string, string> = {};
    for (;;) {
      const search = new URLSearchParams({ "list-type": "2", ...query, ...token });
      const answer = await must(`/${bucket}?${search.toString().replaceAll("+", "%20")}`);
      const page = xml.parse(await answer.text()).ListBucketResult;
      for (const { Key } of page.Contents ?? []) level.keys.push(Key);
      for (const { Prefix } of page.CommonPrefixes ?? []) level.folders.push(Prefix);
      if (page.IsTruncated !== "true") return level;
      token = { "continuation-token": page.NextContinuationToken };
    }
  };

  return {
    async makeBucket(bucket) {
      await must(`/${bucket}`, { method: "PUT" });
    },
    async buckets() {
      const { Buckets } = xml.parse(await (await must("/")).text()).ListAllMyBucketsResult;
      return (Buckets.Bucket ?? []).map(({ Name }: { Name: string }) => Name);
    },
    async put(file, to) {
      const bytes = await openAsBlob(file);
      await (bytes.size > 2 * PART_BYTES ? putParts(bytes, to) : onePut(file, to));
    },
    putDescribed: (file, to) => onePut(file, to, headersOf(to.description)),
    async get(from, file) {
      const { body } = await must(at(from));
      if (!body) throw new Error("the answer has no body");
      await pipeline(Readable.fromWeb(body), createWriteStream(file));
    },
    list: async ({ bucket, prefix }) => [...(await pages(bucket, { prefix })).keys],
    browse: ({ bucket, prefix }) => pages(bucket, { prefix, delimiter: "/" }),
    async copy(from, to) {
      await must(at(to), { method: "PUT", headers: { "x-amz-copy-source": at(from) } });
    },
    async redescribe(place, description) {
      const headers = {
        ...headersOf(description),
        "x-amz-copy-source": at(place),
        "x-amz-metadata-directive": "REPLACE",
      };
      await must(at(place), { method: "PUT", headers });
    },
    async remove(bucket, keys) {
      for (const key of keys) await must(at({ bucket, key }), { method: "DELETE" });
    },
    async stat(place) {
      const { headers } = await must(at(place), { method: "HEAD" });
      const metadata = [...headers]
        .filter(([name]) => name.startsWith("x-amz-meta-"))
        .map(([name, value]) => [name.slice("x-amz-meta-".length), value]);
      return {
        contentType: headers.get("content-type") ?? "",
        size: Number(headers.get("content-length")),
        metadata: Object.fromEntries(metadata),
      };
    },
    async range(from, { first, last }) {
      const response = await must(at(from), { headers: { range: `bytes=${first}-${last}` } });
      return Buffer.from(await response.arrayBuffer());
    },
    async getUnlessKnown(from, etag) {
      const response = await ask(at(from), { headers: { "if-none-match": etag } });
      await response.arrayBuffer();
      return response.status === 304 ? "not modified" : "sent";
    },
    async putIf(file, { condition, ...to }) {
      const body = await openAsBlob(file);
      const response = await ask(at(to), { method: "PUT", body, headers: conditionHeaders(condition) });
      if (!response.ok && response.status !== 412) throw new Error(await response.text());
      return response.ok ? "put" : "refused";
    },
    linkToGet: (place) => link("GET", place),
    linkToPut: (place) => link("PUT", place),
  };
}

function headersOf({ contentType, metadata }: Description): Record<string, string> {
  const named = Object.entries(metadata).map(([name, value]) => [`x-amz-meta-${name}`, value]);
  return { "content-type": contentType, ...Object.fromEntries(named) };
}

function conditionHeaders(condition: Condition): Record<string, string> {
  return "ifMatch" in condition ? { "if-match": condition.ifMatch } : { "if-none-match": "*" };
}

import { bytesOf, good, keysOf, type Sdk } from "./api-tool.ts";
import type { Client, Description } from "./client.ts";

const PAGE = 1000;

/** The verbs of a client by the operations of an SDK. */
export function clientOverSdk(sdk: Sdk): Client {
  return {
    async makeBucket(bucket) {
      good(await sdk.call("create-bucket", { Bucket: bucket }));
    },
    async buckets() {
      const { Buckets = [] } = good(await sdk.call("list-buckets", {}));
      return Buckets.map(({ Name }) => Name);
    },
    put: (file, to) => sdk.upload(file, to),
    putDescribed: (file, to) => sdk.upload(file, to),
    get: (from, file) => sdk.download(from, file),
    async list({ bucket, prefix }) {
      return keysOf(await sdk.walk("list-objects-v2", { Bucket: bucket, Prefix: prefix }, PAGE));
    },
    async browse({ bucket, prefix }) {
      const level = { Bucket: bucket, Prefix: prefix, Delimiter: "/" };
      const answer = await sdk.walk("list-objects-v2", level, PAGE);
      const folders = (good(answer).CommonPrefixes ?? []).map(({ Prefix }) => Prefix);
      return { keys: keysOf(answer), folders };
    },
    copy: (from, to) => sdk.copy(from, to),
    async remove(bucket, keys) {
      const Delete = { Objects: keys.map((Key) => ({ Key })) };
      good(await sdk.call("delete-objects", { Bucket: bucket, Delete }));
    },
    async stat({ bucket, key }) {
      const head = good(await sdk.call("head-object", { Bucket: bucket, Key: key }));
      const { ContentType = "", ContentLength = -1, Metadata = {} } = head;
      return { contentType: ContentType, size: ContentLength, metadata: Metadata };
    },
    async redescribe({ bucket, key }, description) {
      const onItself = { Bucket: bucket, Key: key, CopySource: `${bucket}/${key}` };
      const replacing = { ...onItself, MetadataDirective: "REPLACE", ...parametersOf(description) };
      good(await sdk.call("copy-object", replacing));
    },
    async range({ bucket, key }, { first, last }) {
      const Range = `bytes=${first}-${last}`;
      return bytesOf(await sdk.call("get-object", { Bucket: bucket, Key: key, Range }));
    },
    async getUnlessKnown({ bucket, key }, etag) {
      const answer = await sdk.call("get-object", { Bucket: bucket, Key: key, IfNoneMatch: etag });
      if (!answer.ok && answer.code === "304") return "not modified";
      good(answer);
      return "sent";
    },
    linkToGet: (place) => sdk.presign("get-object", place),
    linkToPut: (place) => sdk.presign("put-object", place),
    close: () => sdk.close(),
  };
}

/** A description under the names of the S3 API. */
export function parametersOf({ contentType, metadata }: Description): object {
  return { ContentType: contentType, Metadata: metadata };
}

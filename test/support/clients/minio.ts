import * as minio from "minio";
import type { Door } from "../keys.ts";
import type { Client, Description, Folder } from "./client.ts";

/** minio-js, as it comes but for the retries: they would hide faults. */
export function minioJs({ endpoint, accessKeyId, secretAccessKey }: Door): Client {
  const { hostname, port } = new URL(endpoint);
  const client = new minio.Client({
    endPoint: hostname,
    port: Number(port),
    useSSL: false,
    accessKey: accessKeyId,
    secretKey: secretAccessKey,
    retryOptions: { disableRetry: true },
  });
  return {
    makeBucket: (bucket) => client.makeBucket(bucket),
    async buckets() {
      return (await client.listBuckets()).map(({ name }) => name);
    },
    async put(file, { bucket, key }) {
      await client.fPutObject(bucket, key, file);
    },
    async putDescribed(file, { bucket, key, description }) {
      await client.fPutObject(bucket, key, file, headersOf(description));
    },
    get: ({ bucket, key }, file) => client.fGetObject(bucket, key, file),
    async list({ bucket, prefix }) {
      const entries = await client.listObjects(bucket, prefix, true).toArray();
      return entries.map(({ name = "" }) => name);
    },
    browse: (folder) => browse(client, folder),
    async copy(from, to) {
      const source = new minio.CopySourceOptions({ Bucket: from.bucket, Object: from.key });
      await client.copyObject(
        source,
        new minio.CopyDestinationOptions({ Bucket: to.bucket, Object: to.key }),
      );
    },
    async redescribe({ bucket, key }, { contentType, metadata }) {
      const source = new minio.CopySourceOptions({ Bucket: bucket, Object: key });
      const onItself = new minio.CopyDestinationOptions({
        Bucket: bucket,
        Object: key,
        MetadataDirective: "REPLACE",
        UserMetadata: { ...metadata },
        Headers: { "Content-Type": contentType },
      });
      await client.copyObject(source, onItself);
    },
    async remove(bucket, keys) {
      await client.removeObjects(bucket, [...keys]);
    },
    async stat({ bucket, key }) {
      const { size, metaData } = await client.statObject(bucket, key);
      const { "content-type": contentType = "", ...metadata } = metaData;
      return { contentType, size, metadata };
    },
    async range({ bucket, key }, { first, last }) {
      const stream = await client.getPartialObject(bucket, key, first, last - first + 1);
      return Buffer.concat(await stream.toArray());
    },
    linkToGet: ({ bucket, key }) => client.presignedGetObject(bucket, key),
    linkToPut: ({ bucket, key }) => client.presignedPutObject(bucket, key),
  };
}

function headersOf({ contentType, metadata }: Description): minio.ItemBucketMetadata {
  return { "Content-Type": contentType, ...metadata };
}

async function browse(client: minio.Client, { bucket, prefix }: Folder) {
  const entries = await client.listObjectsV2(bucket, prefix, false).toArray();
  return {
    keys: entries.flatMap(({ name }) => (name === undefined ? [] : [name])),
    folders: entries.flatMap(({ prefix }) => (prefix === undefined ? [] : [prefix])),
  };
}

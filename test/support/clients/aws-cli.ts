import type { Door } from "../keys.ts";
import { mustRun } from "../processes.ts";
import { scratchFolder } from "../scratch.ts";
import { bytesOf, good } from "./api-tool.ts";
import { AWS, awsApi } from "./aws-api.ts";
import { awsEnvironment } from "./aws-environment.ts";
import type { Client, Description, Folder, Place } from "./client.ts";

/** `aws s3`, and `aws s3api` for what that has no command for. */
export function awsCli(door: Door): Client {
  const env = awsEnvironment(door, scratchFolder());
  const api = awsApi(door);
  const s3 = (...args: string[]): Promise<string> =>
    mustRun([AWS, "--endpoint-url", door.endpoint, "s3", ...args], { env });
  const quietly = async (...args: string[]): Promise<void> => {
    await s3(...args, "--only-show-errors");
  };
  return {
    async makeBucket(bucket) {
      await s3("mb", `s3://${bucket}`);
    },
    async buckets() {
      return lines(await s3("ls")).map((line) => line.replace(/^\S+ \S+ /, ""));
    },
    put: (file, to) => quietly("cp", file, url(to)),
    putDescribed: (file, to) => quietly("cp", file, url(to), ...describing(to.description)),
    get: (from, file) => quietly("cp", url(from), file),
    copy: (from, to) => quietly("cp", url(from), url(to)),
    redescribe: (place, description) =>
      quietly("cp", url(place), url(place), "--metadata-directive", "REPLACE", ...describing(description)),
    async list(folder) {
      return lines(await s3("ls", "--recursive", folderUrl(folder))).map(named);
    },
    async browse(folder) {
      const listed = lines(await s3("ls", folderUrl(folder)));
      const under = (line: string): string => folder.prefix + line;
      return {
        keys: listed.filter((line) => !isFolder(line)).map((line) => under(named(line))),
        folders: listed.filter(isFolder).map((line) => under(line.replace(/^ +PRE /, ""))),
      };
    },
    async remove(bucket, keys) {
      const Delete = { Objects: keys.map((Key) => ({ Key })), Quiet: true };
      good(await api.call("delete-objects", { Bucket: bucket, Delete }));
    },
    async stat({ bucket, key }) {
      const head = good(await api.call("head-object", { Bucket: bucket, Key: key }));
      const { ContentType = "", ContentLength = -1, Metadata = {} } = head;
      return { contentType: ContentType, size: ContentLength, metadata: Metadata };
    },
    async range({ bucket, key }, { first, last }) {
      const Range = `bytes=${first}-${last}`;
      return bytesOf(await api.call("get-object", { Bucket: bucket, Key: key, Range }));
    },
    async getUnlessKnown({ bucket, key }, etag) {
      const answer = await api.call("get-object", { Bucket: bucket, Key: key, IfNoneMatch: etag });
      if (!answer.ok && answer.code === "304") return "not modified";
      good(answer);
      return "sent";
    },
    async linkToGet(place) {
      return (await s3("presign", url(place))).trim();
    },
    putFolder: (folder, to) => quietly("cp", "--recursive", folder, folderUrl(to)),
    getFolder: (from, folder) => quietly("cp", "--recursive", folderUrl(from), folder),
    syncUp: (folder, to) => quietly("sync", folder, folderUrl(to)),
    syncDown: (from, folder) => quietly("sync", folderUrl(from), folder),
  };
}

function url({ bucket, key }: Place): string {
  return `s3://${bucket}/${key}`;
}

function folderUrl({ bucket, prefix }: Folder): string {
  return `s3://${bucket}/${prefix}`;
}

function describing({ contentType, metadata }: Description): string[] {
  return ["--content-type", contentType, "--metadata", JSON.stringify(metadata)];
}

function lines(text: string): string[] {
  return text.split("\n").filter((line) => line !== "");
}

function isFolder(line: string): boolean {
  return /^ +PRE /.test(line);
}

// `2026-01-01 00:00:00       1234 the key`
function named(line: string): string {
  return line.replace(/^\S+ \S+ +\d+ /, "");
}

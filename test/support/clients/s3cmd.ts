import { existsSync, readFileSync, rmSync, statSync, truncateSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import type { Door } from "../keys.ts";
import { mustRun } from "../processes.ts";
import { scratchFolder } from "../scratch.ts";
import type { Client, Description, Folder, Place } from "./client.ts";

const S3CMD = "/usr/bin/s3cmd";

/** Whether this machine has s3cmd. */
export function hasS3cmd(): boolean {
  return existsSync(S3CMD);
}

/** s3cmd, with the checks of MD5s that it makes by itself. */
export function s3cmd(door: Door): Client {
  const home = scratchFolder();
  const config = join(home, "s3cfg");
  writeFileSync(config, configOf(door));
  const env = { HOME: home, LC_ALL: "C.UTF-8" };
  const run = (...args: string[]): Promise<string> =>
    mustRun([S3CMD, "--config", config, "--no-progress", ...args], { env });
  const quietly = async (...args: string[]): Promise<void> => {
    await run("--quiet", ...args);
  };
  return {
    makeBucket: (bucket) => quietly("mb", `s3://${bucket}`),
    async buckets() {
      return named(await run("ls"), "s3://");
    },
    put: (file, to) => quietly("put", file, url(to)),
    putDescribed: (file, to) => quietly("put", ...describing(to.description), file, url(to)),
    get: (from, file) => quietly("get", "--force", url(from), file),
    copy: (from, to) => quietly("cp", url(from), url(to)),
    redescribe: (place, description) => quietly("modify", ...describing(description), url(place)),
    async list(folder) {
      return named(await run("ls", "--recursive", folderUrl(folder)), `s3://${folder.bucket}/`);
    },
    async browse(folder) {
      const all = named(await run("ls", folderUrl(folder)), `s3://${folder.bucket}/`);
      return {
        keys: all.filter((name) => !name.endsWith("/")),
        folders: all.filter((name) => name.endsWith("/")),
      };
    },
    remove: (bucket, keys) => quietly("del", ...keys.map((key) => url({ bucket, key }))),
    async stat(place) {
      const info = await run("info", url(place));
      const metadata = [...info.matchAll(/^ +x-amz-meta-([^:]+): +(.*)$/gm)]
        .map(([, name = "", value = ""]) => [name, value] as const)
        // Where it keeps what the file system knew of the file.
        .filter(([name]) => name !== "s3cmd-attrs");
      return {
        contentType: /^ +MIME type: +(.*)$/m.exec(info)?.[1] ?? "",
        size: Number(/^ +File size: +(\d+)/m.exec(info)?.[1]),
        metadata: Object.fromEntries(metadata),
      };
    },
    // It asks for ranges only to go on with a file of which the beginning is there.
    async range(from, { first, last }) {
      const file = join(home, "begun");
      writeFileSync(file, "");
      truncateSync(file, first);
      await quietly("get", "--continue", url(from), file);
      if (statSync(file).size <= last) throw new Error(`s3cmd went on to byte ${statSync(file).size} only`);
      const bytes = readFileSync(file).subarray(first, last + 1);
      rmSync(file);
      return bytes;
    },
    putFolder: (folder, to) => quietly("put", "--recursive", `${folder}/`, folderUrl(to)),
    getFolder: (from, folder) => quietly("get", "--recursive", folderUrl(from), `${folder}/`),
    syncUp: (folder, to) => quietly("sync", `${folder}/`, folderUrl(to)),
    syncDown: (from, folder) => quietly("sync", folderUrl(from), `${folder}/`),
  };
}

function configOf({ endpoint, accessKeyId, secretAccessKey }: Door): string {
  const { host } = new URL(endpoint);
  return [
    "[default]",
    `access_key = ${accessKeyId}`,
    `secret_key = ${secretAccessKey}`,
    `host_base = ${host}`,
    `host_bucket = ${host}`,
    "use_https = False",
    "check_ssl_certificate = False",
    "",
  ].join("\n");
}

function url({ bucket, key }: Place): string {
  return `s3://${bucket}/${key}`;
}

function folderUrl({ bucket, prefix }: Folder): string {
  return `s3://${bucket}/${prefix}`;
}

function describing({ contentType, metadata }: Description): string[] {
  return [
    `--mime-type=${contentType}`,
    ...Object.entries(metadata).map(([name, value]) => `--add-header=x-amz-meta-${name}:${value}`),
  ];
}

/** What stands behind `start` in each line of a listing. */
function named(listing: string, start: string): string[] {
  return listing
    .split("\n")
    .filter((line) => line.includes(start))
    .map((line) => line.slice(line.indexOf(start) + start.length));
}

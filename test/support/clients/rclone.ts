import { existsSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import type { Door } from "../keys.ts";
import { run as runToEnd } from "../processes.ts";
import { removeScratch, scratchFolder } from "../scratch.ts";
import type { Client, Folder, Place } from "./client.ts";

const RCLONE = "/usr/bin/rclone";

/** Whether this machine has rclone. */
export function hasRclone(): boolean {
  return existsSync(RCLONE);
}

// By itself it sends up to 200 MiB as one PUT and copies up to 4.6 GiB in one piece; retries would hide faults.
const FLAGS = [
  ...["--s3-upload-cutoff", "16M", "--s3-copy-cutoff", "64M"],
  ...["--retries", "1", "--low-level-retries", "1"],
];

/** rclone with its S3 backend. */
export function rclone(door: Door): Client {
  const home = scratchFolder();
  const config = join(home, "rclone.conf");
  writeFileSync(config, configOf(door));
  const raw = async (...args: string[]): Promise<Buffer> => {
    const command = [RCLONE, "--config", config, ...FLAGS, ...args];
    const { code, stdout, stderr } = await runToEnd(command, { env: { HOME: home, LC_ALL: "C.UTF-8" } });
    if (code !== 0) throw new Error(`${command.join(" ")} ended with ${code}\n${stderr}`);
    return stdout;
  };
  const run = async (...args: string[]): Promise<void> => {
    await raw(...args);
  };
  const names = async (...args: string[]): Promise<string[]> =>
    (await raw(...args))
      .toString()
      .split("\n")
      .filter((line) => line !== "");
  return {
    makeBucket: (bucket) => run("mkdir", `it:${bucket}`),
    async buckets() {
      return (await names("lsf", "it:")).map((name) => name.replace(/\/$/, ""));
    },
    put: (file, to) => run("copyto", file, remote(to)),
    async putDescribed(file, { description, ...to }) {
      const headers = Object.entries(description.metadata).map(
        ([name, value]) => `x-amz-meta-${name}: ${value}`,
      );
      const flags = [`Content-Type: ${description.contentType}`, ...headers].flatMap((header) => [
        "--header-upload",
        header,
      ]);
      await run("copyto", ...flags, file, remote(to));
    },
    get: (from, file) => run("copyto", remote(from), file),
    copy: (from, to) => run("copyto", remote(from), remote(to)),
    async list(folder) {
      const listed = await names("lsf", "--recursive", "--fast-list", "--files-only", remoteFolder(folder));
      return listed.map((name) => folder.prefix + name);
    },
    async browse(folder) {
      const all = (await names("lsf", remoteFolder(folder))).map((name) => folder.prefix + name);
      return {
        keys: all.filter((name) => !name.endsWith("/")),
        folders: all.filter((name) => name.endsWith("/")),
      };
    },
    async remove(bucket, keys) {
      const list = join(home, "files");
      writeFileSync(list, `${keys.join("\n")}\n`);
      await run("delete", "--files-from-raw", list, `it:${bucket}`);
    },
    async stat(place) {
      const { Size, MimeType, Metadata } = JSON.parse(
        (await raw("lsjson", "--stat", "--metadata", remote(place))).toString(),
      );
      // It shows what S3 keeps in headers of its own beside what the user gave.
      const { "content-type": _type, btime: _born, mtime: _changed, tier: _tier, ...metadata } = Metadata;
      return { contentType: MimeType, size: Size, metadata };
    },
    range: (from, { first, last }) =>
      raw("cat", "--offset", String(first), "--count", String(last - first + 1), remote(from)),
    async linkToGet(place) {
      return (await names("link", "--expire", "10m", remote(place)))[0] ?? "";
    },
    putFolder: (folder, to) => run("copy", folder, remoteFolder(to)),
    getFolder: (from, folder) => run("copy", remoteFolder(from), folder),
    syncUp: (folder, to) => run("sync", folder, remoteFolder(to)),
    syncDown: (from, folder) => run("sync", remoteFolder(from), folder),
  };
}

/** One command of rclone on a gateway, which is its remote `it:`. */
export async function rcloneRun(door: Door, ...args: readonly string[]): Promise<string> {
  const home = scratchFolder();
  const config = join(home, "rclone.conf");
  writeFileSync(config, configOf(door));
  const command = [RCLONE, "--config", config, ...FLAGS, ...args];
  const { code, stdout, stderr } = await runToEnd(command, { env: { HOME: home, LC_ALL: "C.UTF-8" } });
  removeScratch(home);
  if (code !== 0) throw new Error(`${command.join(" ")} ended with ${code}\n${stderr}`);
  return stdout.toString();
}

function configOf({ endpoint, accessKeyId, secretAccessKey }: Door): string {
  return [
    "[it]",
    "type = s3",
    "provider = Other",
    `endpoint = ${endpoint}`,
    `access_key_id = ${accessKeyId}`,
    `secret_access_key = ${secretAccessKey}`,
    "",
  ].join("\n");
}

function remote({ bucket, key }: Place): string {
  return `it:${bucket}/${key}`;
}

function remoteFolder({ bucket, prefix }: Folder): string {
  return `it:${bucket}/${prefix}`;
}

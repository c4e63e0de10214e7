import { spawnSync } from "node:child_process";
import { closeSync, existsSync, mkdirSync, openSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { eventually } from "../eventually.ts";
import type { Door } from "../keys.ts";
import { start } from "../processes.ts";
import { removeScratch, scratchFolder } from "../scratch.ts";

const S3FS = "/usr/bin/s3fs";
const UNMOUNT = "fusermount";
/** CAP_SYS_ADMIN: without it nobody here may mount, whatever the permissions of /dev/fuse say. */
const MAY_MOUNT = 1n << 21n;

/** Whether this machine has s3fs and lets us mount through /dev/fuse. */
export function hasS3fs(): boolean {
  return existsSync(S3FS) && spawnSync(UNMOUNT, ["-V"]).status === 0 && mayMount();
}

function mayMount(): boolean {
  const bounds = /^CapBnd:\s*([0-9a-f]+)$/m.exec(readFileSync("/proc/self/status", "utf8"))?.[1] ?? "0";
  if ((BigInt(`0x${bounds}`) & MAY_MOUNT) === 0n) return false;
  try {
    closeSync(openSync("/dev/fuse", "r+"));
    return true;
  } catch {
    return false;
  }
}

/** A bucket as a folder. */
export interface Mounted {
  readonly folder: string;
  unmount(): Promise<void>;
}

/** Mounts a bucket. It is unmounted when the test process ends at the latest, however that ends but by SIGKILL. */
export async function mountS3fs(door: Door, bucket: string): Promise<Mounted> {
  const home = scratchFolder();
  const [folder, passwords] = [join(home, "mounted"), join(home, "passwords")];
  mkdirSync(folder);
  writeFileSync(passwords, `${door.accessKeyId}:${door.secretAccessKey}\n`, { mode: 0o600 });
  const options = `url=${door.endpoint},use_path_request_style,passwd_file=${passwords},multipart_size=10,retries=1`;
  const s3fs = start([S3FS, bucket, folder, "-f", "-o", options], { env: { HOME: home, LC_ALL: "C.UTF-8" } });

  // Lazily, so that nothing that is still open there keeps it mounted.
  const detach = (): void => void spawnSync(UNMOUNT, ["-u", "-z", folder]);
  // Before the scratch folder goes, and before its server: a dead mount can be neither read nor removed.
  process.prependOnceListener("exit", detach);
  const unmount = async (): Promise<void> => {
    detach();
    process.removeListener("exit", detach);
    await s3fs.stop();
    removeScratch(home);
  };
  let gone = false;
  void s3fs.ended.then(() => {
    gone = true;
  });
  try {
    await eventually(`${bucket} is mounted`, () => gone || isMounted(folder));
    if (gone) throw new Error(`s3fs ended at once:\n${s3fs.output()}`);
  } catch (error) {
    await unmount();
    throw error;
  }
  return { folder, unmount };
}

// Asked of the kernel: a look into the folder would wait for the file system.
function isMounted(folder: string): boolean {
  return readFileSync("/proc/self/mountinfo", "utf8").includes(` ${folder} `);
}

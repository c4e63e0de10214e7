import { execFileSync } from "node:child_process";
import { mkdirSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { awsEnvironment } from "../../test/support/clients/aws-environment.ts";
import { type PythonClient, pythonObjects } from "../../test/support/clients/python.ts";
import type { Door } from "../../test/support/keys.ts";
import { mustRun } from "../../test/support/processes.ts";
import { S3 } from "../../test/support/s3.ts";
import { scratchFolder } from "../../test/support/scratch.ts";

/** A client that does a bit of everything, with buckets of a repo of its own. */
export interface Story {
  /** With its version. */
  client(): string;
  tell(door: Door, bucket: string): Promise<void>;
}

const GO = join(import.meta.dirname, "go");
const REQUIREMENTS = join(import.meta.dirname, "../../test/python/requirements.txt");
const ODD_KEYS = ["odd/a b.txt", "odd/a+b.txt", "odd/ü 😀.txt", "odd/50%.txt"];
const PART_BYTES = 5 * 1024 * 1024;

export const STORIES: Readonly<Record<string, Story>> = {
  "aws-sdk-go": goStory("aws-sdk-go", "github.com/aws/aws-sdk-go-v2/service/s3"),
  "aws-sdk-go-v1": goStory("aws-sdk-go-v1", "github.com/aws/aws-sdk-go"),
  gocloud: goStory("gocloud", "gocloud.dev"),
  "minio-go": goStory("minio-go", "github.com/minio/minio-go/v7"),
  mc: { client: mcVersion, tell: tellOfMc },
  pyarrow: pythonStory("pyarrow"),
  s3torchconnectorclient: pythonStory("s3torchconnectorclient"),
};

function goStory(name: string, module: string): Story {
  return {
    client() {
      const version = new RegExp(`${module} (v\\S+)`).exec(readFileSync(join(GO, "go.mod"), "utf8"))?.[1];
      return `${module} ${version}`;
    },
    async tell(door, bucket) {
      const folder = scratchFolder();
      const program = join(folder, "story");
      execFileSync("go", ["build", "-o", program, "."], { cwd: GO });
      const env = { ...awsEnvironment(door, folder), AWS_ENDPOINT_URL: door.endpoint, BUCKET: bucket };
      await mustRun([program, name], { env });
    },
  };
}

/** What `go install github.com/minio/mc@latest` made of it. */
function mcVersion(): string {
  const mc = execFileSync("sh", ["-c", "command -v mc"], { encoding: "utf8" }).trim();
  const told = execFileSync("go", ["version", "-m", mc], { encoding: "utf8" });
  const [, module, version] = /^\s+mod\s+(\S+)\s+(\S+)/m.exec(told) ?? [];
  return `${module} ${version}`;
}

/** By the commands that docs/from-minio.md names, and those next to them. */
async function tellOfMc(door: Door, bucket: string): Promise<void> {
  const folder = scratchFolder();
  const env = { MC_CONFIG_DIR: folder, HOME: folder };
  const mc = (...args: string[]) => mustRun(["mc", "--quiet", ...args], { env, cwd: folder });
  const refused = (...args: string[]) =>
    mc(...args).then(
      () => Promise.reject(new Error(`mc ${args.join(" ")} was let through`)),
      () => {},
    );
  const write = (name: string, body: string | Buffer) => writeFileSync(join(folder, name), body);
  const root = `here/${bucket}`;
  await mc("alias", "set", "here", door.endpoint, door.accessKeyId, door.secretAccessKey, "--api", "S3v4");
  await mc("mb", root);
  write("notes.txt", "first\n");
  write("empty", "");
  write("large.bin", largeBody());
  await mc("cp", "notes.txt", `${root}/notes.txt`);
  write("notes.txt", "second\n");
  await mc("cp", "--attr", "origin=tests", "notes.txt", `${root}/notes.txt`);
  await mc("cp", "empty", `${root}/empty`);
  await mc("put", "--part-size", "5MiB", "--parallel", "1", "large.bin", `${root}/large.bin`);
  for (const key of ODD_KEYS) {
    await mc("cp", "notes.txt", `${root}/${key}`);
    await mc("cp", `${root}/${key}`, `${root}/copied/${key}`);
    await mc("cat", `${root}/copied/${key}`);
  }
  await mc("cat", `${root}/empty`);
  await mc("cat", "--offset", "2", `${root}/notes.txt`);
  await mc("head", "-n", "1", `${root}/notes.txt`);
  await mc("stat", `${root}/notes.txt`);
  await mc("stat", root);
  await mc("get", `${root}/large.bin`, "got.bin");
  await mc("ls", "here");
  await mc("ls", root);
  await mc("ls", "--recursive", root);
  await mc("ls", "--versions", `${root}/notes.txt`);
  await mc("du", root);
  await mc("tree", root);
  await mc("find", root, "--name", "*.txt");
  mkdirSync(join(folder, "mirrored"));
  write("mirrored/one.txt", "mirrored\n");
  write("mirrored/two.txt", "mirrored, too\n");
  await mc("mirror", "mirrored", `${root}/mirror`);
  await mc("diff", `${root}/odd`, `${root}/copied/odd`);
  await mc("mv", `${root}/copied/odd/a b.txt`, `${root}/moved.txt`);
  await mc("share", "download", `${root}/notes.txt`);
  await mc("version", "info", root);
  await mc("ilm", "rule", "add", "--prefix", "logs/", "--expire-days", "30", root);
  await mc("ilm", "rule", "ls", root);
  await mc("ilm", "rule", "export", root);
  await mc("ilm", "rule", "rm", "--all", "--force", root);
  await refused("tag", "set", `${root}/notes.txt`, "a=b");
  await refused("retention", "set", "--default", "governance", "30d", root);
  await refused("cat", `${root}/absent`);
  await mc("rm", `${root}/notes.txt`);
  await mc("undo", `${root}/notes.txt`, "--force");
  await mc("rm", "--recursive", "--force", `${root}/odd`);
  await mc("rb", "--force", root);
}

function pythonStory(client: PythonClient): Story {
  return {
    client() {
      const version = new RegExp(`^${client}==(\\S+)`, "m").exec(readFileSync(REQUIREMENTS, "utf8"))?.[1];
      return `${client} ${version}`;
    },
    async tell(door, bucket) {
      const folder = scratchFolder();
      const [sent, received] = [join(folder, "sent"), join(folder, "received")];
      const python = pythonObjects(door, client);
      const put = (body: string | Buffer, key: string) => {
        writeFileSync(sent, body);
        return python.put(sent, { bucket, key });
      };
      await new S3(door).createBucket(bucket);
      await put("first\n", "notes.txt");
      await put("second\n", "notes.txt");
      await put("", "empty");
      await put(largeBody(), "large.bin");
      for (const key of ["notes.txt", "empty", "large.bin"]) await python.get({ bucket, key }, received);
      await python.range(
        { bucket, key: "large.bin" },
        { first: PART_BYTES - 10, last: PART_BYTES + 9, file: received },
      );
      await python.get({ bucket, key: "absent" }, received).catch(() => {});
      for (const key of ODD_KEYS) {
        await put(`in ${key}`, key);
        await python.get({ bucket, key }, received);
        // aws-c-s3 looks at the source by its bare name, which must do as a path of HTTP.
        if (client === "pyarrow" || !/[ %]/.test(key)) await python.copy({ bucket, key }, `copied/${key}`);
      }
      await put("below a file", "notes.txt/below").catch(() => {});
      await python.list(bucket, "odd/");
      await python.remove(bucket, ODD_KEYS);
      await python.list(bucket, "");
      await python.close();
    },
  };
}

function largeBody(): Buffer {
  return Buffer.concat([
    Buffer.alloc(PART_BYTES, "a"),
    Buffer.alloc(PART_BYTES, "b"),
    Buffer.alloc(1000, "c"),
  ]);
}

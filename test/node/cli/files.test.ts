import { execFileSync } from "node:child_process";
import { mkdirSync, readdirSync, readFileSync, statSync, symlinkSync, writeFileSync } from "node:fs";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { dirname, join } from "node:path";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { type DevServer, sluice, sluiceOk, startDevServer } from "../../support/dev-server.ts";
import type { Ended } from "../../support/processes.ts";
import { S3 } from "../../support/s3.ts";
import { scratchFolder } from "../../support/scratch.ts";
import { REST } from "../../support/suite.ts";

/** What is refused in front of the gateway: a little more than a part. */
const BODY_LIMIT_BYTES = 65 * 1024 * 1024;

let server: DevServer;
let s3: S3;

beforeAll(async () => {
  server = await startDevServer({ bodyLimit: BODY_LIMIT_BYTES });
  s3 = new S3(server);
});
afterAll(() => server.stop());

function cli(...args: string[]): Promise<Ended> {
  return sluice(server, ...args);
}

function ok(...args: string[]): Promise<string> {
  return sluiceOk(server, ...args);
}

async function okJson(...args: string[]): Promise<Record<string, unknown>> {
  return JSON.parse(await ok(...args, "--json"));
}

/** Runs a command that must end with 1; answers what it said. */
function refused(...args: string[]): Promise<string> {
  return refusedWith(1, ...args);
}

/** Runs a command on something that is not there; answers what it said. */
function absent(...args: string[]): Promise<string> {
  return refusedWith(7, ...args);
}

async function refusedWith(exitCode: number, ...args: string[]): Promise<string> {
  const { code, stdout, stderr } = await cli(...args);
  expect(stdout.toString()).toBe("");
  expect(code).toBe(exitCode);
  expect(stderr).toMatch(/^error: .+\n$/);
  return stderr;
}

function folderOf(files: Record<string, string | Buffer>): string {
  const folder = scratchFolder();
  for (const [path, content] of Object.entries(files)) {
    mkdirSync(dirname(join(folder, path)), { recursive: true });
    writeFileSync(join(folder, path), content);
  }
  return folder;
}

describe("sluice mb and rb", () => {
  test("make and remove a bucket", async () => {
    expect(await okJson("mb", "s3://master.made")).toEqual({ bucket: "master.made", hostLabel: "made" });
    expect(await ok("ls")).toContain("s3://master.made\n");
    expect(await ok("rb", "s3://master.made")).toBe("removed s3://master.made\n");
    expect(await ok("ls")).not.toContain("master.made");
  });

  test("say what is in the way", REST, async () => {
    await ok("mb", "s3://master.twice");
    expect(JSON.parse((await cli("mb", "s3://master.twice", "--json")).stderr)).toMatchObject({
      error: { code: "BucketAlreadyOwnedByYou" },
    });
    await s3.put("master.twice", "file", "x");
    expect(await refused("rb", "s3://master.twice")).toContain("--force");
    await ok("rb", "--force", "s3://master.twice");
    await absent("rb", "--force", "s3://master.twice");
  });
});

describe("sluice ls", () => {
  beforeAll(async () => {
    await s3.createBucket("master.listed");
    for (const key of ["a.txt", "dir/b.txt", "dir/deep/c.txt", "odd &<>\"' ☃ +%.txt", "z/"]) {
      await s3.put("master.listed", key, key.endsWith("/") ? "" : "12345");
    }
  });

  async function names(...args: string[]): Promise<unknown[]> {
    const lines = (await ok("ls", ...args, "--json")).trimEnd().split("\n").filter(Boolean);
    return lines.map((line) => JSON.parse(line)).map((entry) => entry.prefix ?? entry.path);
  }

  test("shows one level, or with -r all", REST, async () => {
    expect((await names("s3://master.listed")).sort()).toEqual(
      ["a.txt", "dir/", "odd &<>\"' ☃ +%.txt", "z/"].sort(),
    );
    expect(await names("s3://master.listed/dir/")).toEqual(["dir/deep/", "dir/b.txt"]);
    expect(await names("-r", "s3://master.listed/dir")).toEqual(["dir/b.txt", "dir/deep/c.txt"]);
  });

  test("prints time, size and name for people", REST, async () => {
    const text = await ok("ls", "s3://master.listed/");
    expect(text).toMatch(/^\d{4}-\d\d-\d\d \d\d:\d\d:\d\d [+-]\d\d:\d\d +5 {2}a\.txt$/m);
    expect(text).toMatch(/^ +dir {2}dir\/$/m);
  });

  test("shows the files of a pattern, and a path that has such a character as it is", REST, async () => {
    await ok(
      "cp",
      "-r",
      "--create",
      folderOf({ "a.csv": "1", "b.csv": "1", "c.txt": "1", "x/d.csv": "1", "[a]": "1" }),
      "s3://master.patterns",
    );
    const listed = async (pattern: string) =>
      (await ok("ls", `s3://master.patterns/${pattern}`))
        .split("\n")
        .filter(Boolean)
        .map((line) => line.split(/ +/).at(-1));
    expect(await listed("*.csv")).toEqual(["a.csv", "b.csv"]);
    expect(await listed("**/*.csv")).toEqual(["a.csv", "b.csv", "x/d.csv"]);
    expect(await listed("[a]")).toEqual(["[a]"]);
    const none = await cli("ls", "s3://master.patterns/*.parquet");
    expect({ code: none.code, stderr: none.stderr }).toEqual({
      code: 7,
      stderr: "error: s3://master.patterns/*.parquet: no file matches it\n",
    });
  });

  test("of a file that is not there ends with 7, and of an empty bucket lists nothing", REST, async () => {
    for (const path of ["a.tx", "dir/none", "none/"]) {
      const { code, stderr } = await cli("ls", `s3://master.listed/${path}x`);
      expect({ code, stderr }).toEqual({
        code: 7,
        stderr: `error: s3://master.listed/${path}x: there is no such file, and none below it\n`,
      });
    }
    await s3.createBucket("master.hollow");
    expect(await ok("ls", "s3://master.hollow")).toBe("");
  });

  test("--all-versions shows what was deleted, too, and which version is current", REST, async () => {
    await s3.createBucket("master.versions");
    for (const [path, text] of [
      ["a.csv", "1"],
      ["a.csv", "22"],
      ["x/gone.csv", "333"],
    ] as const) {
      await s3.put("master.versions", path, text);
    }
    const written = await s3.headCommit("master.versions");
    await s3.delete("master.versions", "x/gone.csv");
    const deleted = await s3.headCommit("master.versions");
    const versions = async (...args: string[]) =>
      (await ok("ls", "--all-versions", ...args, "--json"))
        .trimEnd()
        .split("\n")
        .map((line) => JSON.parse(line));
    const gone = [
      { path: "x/gone.csv", version: deleted, kind: "deletion", current: true },
      { path: "x/gone.csv", version: written, kind: "version", current: false, size: 3 },
    ];
    const all = await versions("-r", "s3://master.versions");
    expect(all).toMatchObject([
      { path: "a.csv", size: 2, current: true },
      { size: 1, current: false },
      ...gone,
    ]);
    expect(all[2].modifiedAt).toMatch(/^\d{4}-\d\d-\d\dT/);
    expect(await versions("s3://master.versions")).toMatchObject([
      { prefix: "x/" },
      { size: 2 },
      { size: 1 },
    ]);
    expect(await versions("s3://master.versions/**/g*.csv")).toMatchObject(gone);
    expect(await versions("s3://master.versions/x/gone.csv")).toMatchObject(gone);
    const [line] = (await ok("ls", "--all-versions", "s3://master.versions/x/")).split("\n");
    expect(line?.slice(26)).toBe(`        deleted  ${deleted}  current  x/gone.csv`);
    await absent("ls", "--all-versions", "s3://master.versions/never");
    await refusedWith(2, "ls", "--all-versions");
    await refusedWith(2, "ls", "--all-versions", "--commit", written, "s3://master.versions");
  });

  test("--all-versions shows as many versions as there are, page by page, in their order", REST, async () => {
    const names = Array.from({ length: 1100 }, (_, index) => `f${String(index).padStart(4, "0")}`);
    const folder = folderOf(Object.fromEntries(names.map((name) => [name, name])));
    await ok("cp", "-r", "--create", folder, "s3://master.paged");
    await ok("rm", "-r", "s3://master.paged/");
    const rows = (await ok("ls", "-r", "--all-versions", "s3://master.paged")).trimEnd().split("\n");
    expect(rows.map((row) => `${row.includes("deleted")} ${row.split(" ").at(-1)}`)).toEqual(
      names.flatMap((name) => [`true ${name}`, `false ${name}`]),
    );
  });

  test("of a bucket that is not there ends with 1", REST, async () => {
    await absent("ls", "s3://master.nowhere");
  });
});

describe("sluice cp", () => {
  test("copies a folder up as one commit and down again as it was", async () => {
    const files = {
      "top.txt": "top",
      "dir/small.bin": Buffer.from([0, 255, 10, 13]),
      "dir/large.bin": Buffer.alloc(3_500_000, "0123456789"),
      "dir/same.bin": Buffer.alloc(3_500_000, "0123456789"),
      "dir/empty": "",
      "with space+plus%.txt": "odd",
    };
    const folder = folderOf(files);
    mkdirSync(join(folder, "hollow"));
    const put = await okJson("cp", "-r", "--create", folder, "s3://master.tree/in/here");
    expect(put).toMatchObject({ files: 7, bytes: 7_000_010, sentBytes: 3_500_010 });
    expect(put.commit).toBe(await s3.headCommit("master.tree"));
    expect(await s3.keys("master.tree")).toContain("in/here/hollow/");

    const down = join(scratchFolder(), "down");
    await ok("cp", "-r", "s3://master.tree/in/here", down);
    for (const [path, content] of Object.entries(files)) {
      expect(readFileSync(join(down, path)).equals(Buffer.from(content))).toBe(true);
    }
    expect(statSync(join(down, "hollow")).isDirectory()).toBe(true);
    expect(readdirSync(join(down, "dir")).sort()).toEqual(["empty", "large.bin", "same.bin", "small.bin"]);
  });

  test(
    "sends nothing again that the branch has, and makes no commit where nothing changes",
    REST,
    async () => {
      const folder = folderOf({ a: "a", "b/large": Buffer.alloc(100_000, "large") });
      await ok("cp", "-r", "--create", folder, "s3://master.again");
      expect(await okJson("cp", "-r", folder, "s3://master.again")).toEqual({
        commit: null,
        files: 2,
        bytes: 100_001,
        sentBytes: 0,
      });
      writeFileSync(join(folder, "c"), "new");
      expect(await okJson("cp", "-r", folder, "s3://master.again")).toMatchObject({
        files: 3,
        sentBytes: 3,
        commit: expect.any(String),
      });
    },
  );

  test("puts a file under the name that is asked, or under its own", REST, async () => {
    await s3.createBucket("master.single");
    const file = join(folderOf({ "one.txt": "one" }), "one.txt");
    await ok("cp", file, "s3://master.single");
    await ok("cp", file, "s3://master.single/dir/");
    await ok("cp", file, "s3://master.single/two.txt");
    expect(await s3.keys("master.single")).toEqual(["dir/one.txt", "one.txt", "two.txt"]);

    const down = scratchFolder();
    await ok("cp", "s3://master.single/two.txt", down);
    await ok("cp", "s3://master.single/two.txt", join(down, "deep/three.txt"));
    expect(readFileSync(join(down, "two.txt"), "utf8")).toBe("one");
    expect(readFileSync(join(down, "deep/three.txt"), "utf8")).toBe("one");
  });

  test("sends a file in parts that is longer than what goes through in one body", REST, async () => {
    const bytes = Buffer.alloc(BODY_LIMIT_BYTES + 1, "parts of a file ");
    bytes.writeUInt32LE(1, 64 * 1024 * 1024);
    await expect(s3.put("master.single", "refused", bytes)).rejects.toThrow();
    const file = join(folderOf({ "long.bin": bytes }), "long.bin");
    const name = "s3://master.single/long.bin";
    expect(await okJson("cp", file, name)).toMatchObject({ bytes: bytes.length, sentBytes: bytes.length });
    const down = join(scratchFolder(), "long.bin");
    await ok("cp", name, down);
    expect(readFileSync(down).equals(bytes)).toBe(true);
    await ok("rm", name);
  });

  test("says how to make a bucket that is not there", REST, async () => {
    const file = join(folderOf({ a: "a" }), "a");
    expect(await absent("cp", file, "s3://master.absent")).toContain("--create");
  });

  test("refuses links and pipes by name, or leaves them out when told so", REST, async () => {
    const folder = folderOf({ kept: "kept" });
    symlinkSync("/etc/hostname", join(folder, "link"));
    expect(await refused("cp", "-r", "--create", folder, "s3://master.special")).toContain("a symbolic link");
    execFileSync("rm", [join(folder, "link")]);
    execFileSync("mkfifo", [join(folder, "pipe")]);
    expect(await refused("cp", "-r", "--create", folder, "s3://master.special")).toContain("a named pipe");
    expect(await ok("ls")).not.toContain("master.special");
    await ok("cp", "-r", "--create", "--skip-special", folder, "s3://master.special");
    expect(await s3.keys("master.special")).toEqual(["kept"]);
  });

  test("refuses names that a branch can't hold", REST, async () => {
    const folder = folderOf({ "bad\u0001name": "x" });
    expect(await refused("cp", "-r", "--create", folder, "s3://master.names")).toContain(
      "control characters",
    );
  });

  test.each([
    ["cp", "-r", "--create"],
    ["sync"],
  ])("says of a name that is not UTF-8 that it is not: %s", async (...command) => {
    await ok("mb", `s3://master.latin-${command[0]}`);
    const folder = folderOf({ kept: "x" });
    writeFileSync(Buffer.concat([Buffer.from(`${folder}/`), Buffer.from("f\xfcr.txt", "latin1")]), "x");
    expect(await refused(...command, folder, `s3://master.latin-${command[0]}`)).toContain(
      "can't be stored: its name is not UTF-8",
    );
  });

  test.each([
    ["a folder without -r", (folder: string) => ["cp", folder, "s3://master.x"]],
    ["a file with -r", (folder: string) => ["cp", "-r", join(folder, "a"), "s3://master.x"]],
  ])("refuses %s", async (_what, args) => {
    const { code, stderr } = await cli(...args(folderOf({ a: "a" })));
    expect(code).toBe(2);
    expect(stderr).toContain("-r");
  });

  test("says what is not there", REST, async () => {
    expect(await absent("cp", "/nonexistent/file", "s3://master.single")).toContain(
      "/nonexistent/file does not exist",
    );
    await absent("cp", "s3://master.single/absent", scratchFolder());
    expect(await absent("cp", "-r", "s3://master.single/absent", scratchFolder())).toContain(
      "there is nothing at s3://master.single/absent",
    );
  });

  test("refuses to put a file where a directory is, and changes nothing", REST, async () => {
    const folder = folderOf({ "new.txt": "new", dir: "a file" });
    const before = await s3.keys("master.single");
    expect(await refused("cp", "-r", folder, "s3://master.single")).toContain("dir");
    expect(await s3.keys("master.single")).toEqual(before);
  });
});

describe("sluice cat", () => {
  test("prints bytes as they are, also of an earlier commit", async () => {
    await s3.createBucket("master.printed");
    const bytes = Buffer.from([0, 1, 2, 253, 254, 255]);
    const { version } = await s3.put("master.printed", "f", bytes);
    await s3.put("master.printed", "f", "later");
    expect(await ok("cat", "s3://master.printed/f")).toBe("later");
    const earlier = await cli("cat", "--commit", version, "s3://master.printed/f");
    expect(earlier.stdout.equals(bytes)).toBe(true);
  });

  test("with --json tells about the file", async () => {
    const { etag, version } = await s3.put("master.printed", "told.txt", "told");
    expect(await okJson("cat", "s3://master.printed/told.txt")).toMatchObject({
      bucket: "master.printed",
      path: "told.txt",
      size: 4,
      etag: etag.replaceAll('"', ""),
      commit: version,
      modifiedAt: expect.stringMatching(/^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z$/),
    });
  });

  test("of a file that is not there ends with 1", REST, async () => {
    await s3.createBucket("master.unread");
    await absent("cat", "s3://master.unread/absent");
  });
});

describe("sluice rm", () => {
  test("removes a file, or with -r a folder in one commit", async () => {
    await s3.createBucket("master.removed");
    for (const key of ["a", "dir/b", "dir/c", "dirty"]) await s3.put("master.removed", key, key);
    expect(await ok("rm", "s3://master.removed/a")).toMatch(/^removed 1 file/);
    expect(await okJson("rm", "-r", "s3://master.removed/dir")).toEqual({
      files: 2,
      commit: expect.any(String),
    });
    expect(await s3.keys("master.removed")).toEqual(["dirty"]);
  });

  test("says when there is nothing to remove", REST, async () => {
    await s3.createBucket("master.kept");
    expect(await absent("rm", "s3://master.kept/absent")).toContain("there is nothing at");
    expect(await absent("rm", "-r", "s3://master.kept/absent")).toContain("there is nothing at");
  });
});

test("a page of what stands in front of the gateway is told in words", async () => {
  const front = createServer((_request, response) => {
    response.writeHead(413, { "content-type": "text/html" }).end("<html><center>413</center></html>");
  });
  await new Promise<void>((resolve) => front.listen(0, "127.0.0.1", resolve));
  try {
    const endpoint = `http://127.0.0.1:${(front.address() as AddressInfo).port}`;
    const { code, stderr } = await sluice({ ...server, endpoint }, "ls");
    expect(code).toBe(1);
    expect(stderr).toContain("what stands in front of the gateway refuses a body of this size (413)");
    expect(stderr).not.toContain("<");
  } finally {
    front.close();
  }
});

test("a wrong secret is told with the key and where it came from", REST, async () => {
  const wrong = { ...server, secretAccessKey: "wrong-secret" };
  const { code, stderr } = await sluice(wrong, "ls");
  expect(code).toBe(1);
  expect(stderr).toContain(`(the key is ${server.accessKeyId}, from SLUICE_ACCESS_KEY_ID)`);
  expect(stderr).toContain("check SLUICE_SECRET_ACCESS_KEY,");
});

test.each([
  [404, ["ls"]],
  [404, ["job", "list"]],
  [200, ["ls"]],
  [200, ["job", "list"]],
])("a web server that is no gateway is told as one: %i to %j", async (status, args) => {
  const front = createServer((_request, response) => {
    response.writeHead(status, { "content-type": "text/html" }).end("<!DOCTYPE html>\n<html>a page</html>");
  });
  await new Promise<void>((resolve) => front.listen(0, "127.0.0.1", resolve));
  try {
    const endpoint = `http://127.0.0.1:${(front.address() as AddressInfo).port}`;
    const { code, stderr } = await sluice({ ...server, endpoint }, ...args);
    expect({ code, stderr }).toEqual({
      code: 8,
      stderr: `error: no gateway answers at ${endpoint} (from SLUICE_ENDPOINT), but a web page; set SLUICE_ENDPOINT to another one\n`,
    });
  } finally {
    front.close();
  }
});

test("an endpoint that can't be is told in words", REST, async () => {
  const tls = await sluice({ ...server, endpoint: server.endpoint.replace("http:", "https:") }, "ls");
  expect({ code: tls.code, stderr: tls.stderr }).toEqual({
    code: 8,
    stderr: expect.stringMatching(/^error: .+ does not speak TLS: .+ http:.+\n$/),
  });
  const { code, stderr } = await sluice({ ...server, endpoint: "http://nowhere.invalid" }, "ls");
  expect({ code, stderr }).toEqual({
    code: 8,
    stderr: expect.stringContaining(
      "the host nowhere.invalid (from SLUICE_ENDPOINT) is not found; set SLUICE_ENDPOINT",
    ),
  });
});

// @module-tag rest
import { existsSync, mkdirSync, readdirSync, readFileSync, utimesSync, writeFileSync } from "node:fs";
import { createServer, request as forward } from "node:http";
import type { AddressInfo } from "node:net";
import { dirname, join } from "node:path";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { Control } from "../../support/control.ts";
import {
  type DevServer,
  ROOT,
  sluice,
  sluiceCommand,
  sluiceEnv,
  sluiceOk,
  startDevServer,
} from "../../support/dev-server.ts";
import { type Ended, run } from "../../support/processes.ts";
import { startRelay } from "../../support/relay.ts";
import { objectTarget, S3 } from "../../support/s3.ts";
import { scratchFolder } from "../../support/scratch.ts";
import { onTerminal } from "../../support/terminal.ts";

let server: DevServer;
let s3: S3;
let control: Control;

beforeAll(async () => {
  server = await startDevServer();
  s3 = new S3(server);
  control = new Control(server);
});
afterAll(() => server?.stop());

function cli(...args: string[]): Promise<Ended> {
  return sluice(server, ...args);
}

async function ok(...args: string[]): Promise<string> {
  return (await sluiceOk(server, ...args)).trimEnd();
}

async function okJson(...args: string[]): Promise<Record<string, unknown>> {
  return JSON.parse(await ok(...args, "--json"));
}

/** What a command says that must end with this code. */
async function refused(code: number, ...args: string[]): Promise<string> {
  const ended = await cli(...args);
  expect({ code: ended.code, stderr: ended.stderr }).toEqual({
    code,
    stderr: expect.stringMatching(/^error: .+\n$/),
  });
  return ended.stderr;
}

function folderOf(files: Record<string, string | Buffer>): string {
  const folder = scratchFolder();
  for (const [path, content] of Object.entries(files)) {
    mkdirSync(dirname(join(folder, path)), { recursive: true });
    writeFileSync(join(folder, path), content);
  }
  return folder;
}

/** The paths of the files below a folder. */
function filesIn(folder: string): string[] {
  return readdirSync(folder, { recursive: true, withFileTypes: true })
    .filter((entry) => entry.isFile())
    .map((entry) => join(entry.parentPath, entry.name).slice(folder.length + 1))
    .toSorted();
}

async function bucket(name: string, files: Record<string, string> = {}): Promise<string> {
  await s3.createBucket(name);
  for (const [key, content] of Object.entries(files)) await s3.put(name, key, content);
  return `s3://${name}`;
}

async function headers(name: string, key: string): Promise<Record<string, string | undefined>> {
  return (await s3.ask("HEAD", objectTarget(name, key))).headers;
}

async function commits(branch: string): Promise<number> {
  const { commits } = (await okJson("commit", "list", branch)) as { commits: unknown[] };
  return commits.length;
}

/** A shell of a person that has the key of the gateway in the environment. */
function shell(script: string, variables: Record<string, string> = {}): Promise<Ended> {
  const folder = scratchFolder();
  const env = { ...sluiceEnv(server), ...variables };
  const words = sluiceCommand([])
    .map((word) => `'${word}'`)
    .join(" ");
  return run(["bash", "-c", `sluice() { ${words} "$@"; }\n${script}`], { env, cwd: folder });
}

describe("sluice cp to this machine", () => {
  test("tells every byte of a folder that came in several lanes", async () => {
    const files = Object.fromEntries(Array.from({ length: 60 }, (_, n) => [`${n}`, "x".repeat(100 + n)]));
    await ok("cp", "-r", "--create", folderOf(files), "s3://master.lanes");
    const bytes = Object.values(files).reduce((sum, { length }) => sum + length, 0);
    expect(await okJson("cp", "-r", "s3://master.lanes", scratchFolder())).toEqual({ files: 60, bytes });
  });

  test("gives the terminal back and leaves no half file when Ctrl-C stops it", {
    timeout: 120_000,
  }, async () => {
    await ok(
      "cp",
      "--create",
      join(folderOf({ big: Buffer.alloc(24 * 1024 * 1024, 7) }), "big"),
      "s3://master.big",
    );
    const stalled = await stallingDoor();
    const folder = scratchFolder();
    const target = join(folder, "into");
    const terminal = onTerminal(sluiceCommand(["cp", "-r", "s3://master.big", target]), {
      env: sluiceEnv({ ...server, endpoint: stalled.endpoint }),
      cwd: ROOT,
    });
    await terminal.shows("receiving");
    await stalled.stalls;
    // The bytes are on their way: it has yet to make the folder.
    await expect
      .poll(() => readdirSync(target))
      .toEqual([expect.stringMatching(/^big\.sluice-[0-9a-f]{16}$/)]);
    terminal.type("\u0003");
    expect(await terminal.ended).toBe(130);
    stalled.stop();
    expect(readdirSync(target)).toEqual([]);
    const after = terminal.screen().split("receiving").at(-1) ?? "";
    // The cursor is shown again, and lines wrap.
    expect(after).toContain("\u001b[?25h");
    expect(after).toContain("\u001b[?7h");
  });

  test("names the file that can't be written", async () => {
    await bucket("master.full", { file: "content" });
    const target = join(folderOf({ taken: "a file" }), "taken", "file");
    expect(await refused(1, "cp", "s3://master.full/file", target)).toContain(`can not write ${target}: `);
  });

  test("writes into a named pipe and leaves it there", { timeout: 60_000 }, async () => {
    await bucket("master.piped", { file: "content" });
    const script = `mkfifo pipe; cat pipe > got & sluice cp s3://master.piped/file pipe
      if test -p pipe; then wait; else kill %1; fi; cat got`;
    expect(String((await shell(script)).stdout)).toBe("pipe, 7 B\ncontent");
  });

  test("takes /dev/stdout as stdout, with nothing but the bytes", async () => {
    await bucket("master.out", { file: "content" });
    expect(String((await shell("sluice cp s3://master.out/file /dev/stdout | cat")).stdout)).toBe("content");
  });
});

/** A way to the gateway on which large answers stop in their middle. */
async function stallingDoor(): Promise<{ endpoint: string; stalls: Promise<void>; stop(): void }> {
  const stalls = Promise.withResolvers<void>();
  const proxy = createServer((incoming, answer) => {
    const { method = "", url = "", headers } = incoming;
    const outgoing = forward(server.endpoint + url, { method, headers }, (response) => {
      answer.writeHead(response.statusCode ?? 0, response.rawHeaders);
      let sent = 0;
      response.on("data", (bytes: Buffer) => {
        sent += bytes.length;
        answer.write(bytes);
        if (sent < 10 * 1024 * 1024) return;
        response.pause();
        stalls.resolve();
      });
      response.on("end", () => answer.end());
    });
    incoming.pipe(outgoing);
  });
  await new Promise<void>((listening) => proxy.listen(0, "127.0.0.1", listening));
  return {
    endpoint: `http://127.0.0.1:${(proxy.address() as AddressInfo).port}`,
    stalls: stalls.promise,
    stop() {
      proxy.closeAllConnections();
      proxy.close();
    },
  };
}

describe("sluice cp into a bucket", () => {
  test("gives a file the type of its name, or the one that is said", async () => {
    await bucket("master.types");
    const folder = folderOf({ "a.csv": "1,2\n", "b.parquet": "p", c: "c" });
    await ok("cp", "-r", folder, "s3://master.types");
    const types = async () =>
      Promise.all(
        ["a.csv", "b.parquet", "c"].map(async (key) => (await headers("master.types", key))["content-type"]),
      );
    expect(await types()).toEqual(["text/csv", "application/vnd.apache.parquet", "binary/octet-stream"]);
    await ok("cp", "--content-type", "text/plain", join(folder, "c"), "s3://master.types/");
    expect((await types()).at(-1)).toBe("text/plain");
  });

  test("leaves a file that has the same bytes as it is, and makes no commit", async () => {
    await bucket("master.kept");
    const metadata = { contentType: "text/x-own", metadata: { camera: "k7" } };
    const upload = await control.openUpload("kept");
    const digest = await contentOf("same");
    await control.addContent(upload, Buffer.from("same"), digest);
    await control.commit("kept", upload, [{ put: "a.csv", ...digest, attributes: metadata }]);
    const folder = folderOf({ "a.csv": "same", "b.csv": "new" });
    expect(await ok("cp", join(folder, "a.csv"), "s3://master.kept/")).toContain("nothing changed");
    expect(await commits("master.kept")).toBe(1);
    await ok("cp", "-r", folder, "s3://master.kept");
    expect(await commits("master.kept")).toBe(2);
    // An open commit may be finished when the branch has something else: there it is put, with what it has.
    const open = await ok("commit", "start", "s3://master.kept", "--json").then(
      (text) => JSON.parse(text).bucket,
    );
    await ok("cp", "-r", folder, `s3://${open}`);
    await s3.put("master.kept", "a.csv", "other");
    await ok("commit", "finish", `s3://${open}`);
    expect(await ok("cat", "s3://master.kept/a.csv")).toBe("same");
    expect(await headers("master.kept", "a.csv")).toMatchObject({
      "content-type": "text/x-own",
      "x-amz-meta-camera": "k7",
    });
  });

  test("puts a file again that has the same bytes where files expire, as it was", async () => {
    await bucket("master.expires", { "a.bin": "same" });
    const rule = `<LifecycleConfiguration><Rule><ID>r</ID><Filter><Prefix></Prefix></Filter><Status>Enabled</Status><Expiration><Days>30</Days></Expiration></Rule></LifecycleConfiguration>`;
    expect((await s3.ask("PUT", "/master.expires?lifecycle=", rule)).status).toBe(200);
    const tagging = "<Tagging><TagSet><Tag><Key>a</Key><Value>1</Value></Tag></TagSet></Tagging>";
    expect((await s3.ask("PUT", "/master.expires/a.bin?tagging=", tagging)).status).toBe(200);
    const relay = await startRelay(server);
    const file = join(folderOf({ "a.bin": "same" }), "a.bin");
    try {
      await sluiceOk({ ...server, endpoint: relay.endpoint }, "cp", file, "s3://master.expires/");
      const put = relay.passed.find(({ path }) => path.endsWith("/commits"));
      expect(JSON.parse(put?.sent ?? "{}").operations).toMatchObject([
        { put: "a.bin", attributes: { tags: [["a", "1"]] } },
      ]);
    } finally {
      await relay.stop();
    }
    expect(await commits("master.expires")).toBe(2);
  });

  test("tells in the diff that only metadata changed", async () => {
    await bucket("master.meta", { "a.txt": "a", "b.txt": "b" });
    const file = join(folderOf({ "a.txt": "a" }), "a.txt");
    await ok("cp", "--content-type", "text/x-new", file, "s3://master.meta/");
    expect(await ok("commit", "diff", "master.meta")).toMatch(/^metadata +1 B +a\.txt$/m);
  });

  test("takes several sources, each by its name, and refuses two of one name", async () => {
    await bucket("master.several");
    const folder = folderOf({ "a.csv": "a", "b.csv": "b", "sub/c.csv": "c", "other/a.csv": "x" });
    const paths = ["a.csv", "b.csv", "sub"].map((path) => join(folder, path));
    const done = await okJson("cp", "-r", ...paths, "s3://master.several/in/");
    expect(done).toMatchObject({ files: 3 });
    expect(await s3.keys("master.several")).toEqual(["in/a.csv", "in/b.csv", "in/sub/c.csv"]);
    expect(await commits("master.several")).toBe(1);
    const same = [join(folder, "a.csv"), join(folder, "other/a.csv"), "s3://master.several/"];
    expect(await refused(2, "cp", ...same)).toContain("would both become 'a.csv'");
    expect(await refused(2, "cp", ...paths.slice(0, 2), "s3://master.several/in")).toContain(
      "end the path 'in' in /",
    );
  });

  test("takes stdin as a file, and gives one to stdout", async () => {
    await bucket("master.pipes");
    const { code, stderr } = await shell(
      "head -c 100000 /dev/zero | sluice cp - s3://master.pipes/zeros.bin",
    );
    expect({ code, stderr }).toEqual({ code: 0, stderr: "" });
    expect((await s3.get("master.pipes", "zeros.bin"))?.length).toBe(100_000);
    const out = await shell("sluice cp s3://master.pipes/zeros.bin - | wc -c");
    expect(out.stdout.toString().trim()).toBe("100000");
    expect(await refused(2, "cp", "-", "s3://master.pipes/")).toContain("has no name");
  });
});

async function contentOf(text: string): Promise<{ digest: string; size: number }> {
  const { createHash } = await import("node:crypto");
  return { digest: createHash("sha256").update(text).digest("hex"), size: text.length };
}

describe("addresses with wildcards", () => {
  test("name files of one level, with ** of all, and a path that has such a character itself", async () => {
    await bucket("master.wild", {
      "a.csv": "a",
      "b.csv": "b",
      "b.txt": "t",
      "d/c.csv": "c",
      "odd*.txt": "o",
    });
    const copied = async (...args: string[]): Promise<string[]> => {
      const folder = scratchFolder();
      await ok("cp", ...args, folder);
      return filesIn(folder);
    };
    expect(await copied("s3://master.wild/*.csv")).toEqual(["a.csv", "b.csv"]);
    expect(await copied("s3://master.wild/**.csv")).toEqual(["a.csv", "b.csv", "c.csv"]);
    expect(await copied("s3://master.wild/[ab].*")).toEqual(["a.csv", "b.csv", "b.txt"]);
    expect(await copied("s3://master.wild/odd*.txt")).toEqual(["odd*.txt"]);
    expect(await copied("-r", "s3://master.wild/?")).toEqual(["d/c.csv"]);
    expect(await refused(7, "cp", "s3://master.wild/*.png", scratchFolder())).toContain(
      "there is nothing at",
    );
    await ok("rm", "s3://master.wild/*.csv", "s3://master.wild/odd*.txt");
    expect(await s3.keys("master.wild")).toEqual(["b.txt", "d/c.csv"]);
  });
});

describe("from bucket to bucket", () => {
  test("cp copies as one commit, with types and metadata, and bytes stay at the gateway", async () => {
    await bucket("master.source", { "x/a.csv": "a", "x/y/b.csv": "b", other: "o" });
    await bucket("master.target");
    const done = await okJson("cp", "-r", "s3://master.source/x", "s3://master.target/from");
    expect(done).toMatchObject({ files: 2, bytes: 2, commit: await s3.headCommit("master.target") });
    expect(await s3.keys("master.target")).toEqual(["from/a.csv", "from/y/b.csv"]);
    expect(await commits("master.target")).toBe(1);
    expect((await headers("master.target", "from/a.csv"))["content-type"]).toBe("text/csv");
    await ok("cp", "s3://master.source/other", "s3://master.target/");
    expect(await ok("cat", "s3://master.target/other")).toBe("o");
  });

  test("mv inside a branch is one commit, between branches one in each", async () => {
    await bucket("master.moves", { "a/1": "1", "a/2": "2", keep: "k" });
    await bucket("master.moved");
    const before = await commits("master.moves");
    await ok("mv", "-r", "s3://master.moves/a", "s3://master.moves/b/");
    expect(await s3.keys("master.moves")).toEqual(["b/1", "b/2", "keep"]);
    expect(await commits("master.moves")).toBe(before + 1);
    await ok("mv", "s3://master.moves/b/*", "s3://master.moved/");
    expect([await s3.keys("master.moves"), await s3.keys("master.moved")]).toEqual([["keep"], ["1", "2"]]);
    expect([await commits("master.moves"), await commits("master.moved")]).toEqual([before + 2, 1]);
  });

  test("mv between this machine and a bucket leaves nothing behind", async () => {
    await bucket("master.here");
    const folder = folderOf({ "tree/a": "a", "tree/sub/b": "b" });
    await ok("mv", "-r", join(folder, "tree"), "s3://master.here/tree");
    expect(existsSync(join(folder, "tree"))).toBe(false);
    expect(await s3.keys("master.here")).toEqual(["tree/a", "tree/sub/b"]);
    const back = join(scratchFolder(), "back");
    await ok("mv", "-r", "s3://master.here/tree", back);
    expect(filesIn(back)).toEqual(["a", "sub/b"]);
    expect(await s3.keys("master.here")).toEqual([]);
  });
});

describe("a commit", () => {
  test("is listed and copied by the beginning of its id, and by a tag", async () => {
    await bucket("master.then", { a: "old" });
    const commit = await s3.headCommit("master.then");
    await ok("tag", "create", "v1", "master.then");
    await s3.put("master.then", "a", "newer");
    // Commits of one test differ in their last characters.
    const short = commit.slice(0, -1);
    expect(await ok("cat", "--commit", short, "s3://master.then/a")).toBe("old");
    const folder = scratchFolder();
    await ok("cp", "-r", "--commit", "v1", "s3://master.then", folder);
    expect(readFileSync(join(folder, "a"), "utf8")).toBe("old");
    expect(await ok("ls", "--commit", short, "s3://master.then")).toMatch(/ 3 {2}a$/);
    expect(await ok("ls", "-h", "s3://master.then")).toMatch(/ 5 B {2}a$/);
    expect(await refused(2, "cat", "--commit", "0", "s3://master.then/a")).toContain(
      "several commits begin with '0'",
    );
    expect(await refused(7, "cat", "--commit", "7ZZ", "s3://master.then/a")).toContain(
      "no commit and no tag '7ZZ'",
    );
    await ok("commit", "revert", `master.then@${short.toLowerCase()}`);
    expect(await ok("cat", "s3://master.then/a")).toBe("old");
  });

  test("that is open is listed, inspected and compared before it is finished", async () => {
    await bucket("master.opened", { a: "1", b: "2", c: "3" });
    const open = await ok("commit", "start", "s3://master.opened", "--message", "spring", "--json").then(
      (text) => `s3://${JSON.parse(text).bucket}`,
    );
    const folder = folderOf({ a: "10", c: "3", "new/d": "4" });
    await ok("cp", "-r", folder, open);
    await ok("rm", `${open}/b`);
    expect(await ok("commit", "list", "--open", "master.opened")).toMatch(
      new RegExp(`^${open} .* 4 paths .*spring$`, "m"),
    );
    expect(await ok("commit", "inspect", open)).toMatch(/^state +open\nholds +4 paths$/m);
    const changes = [
      { path: "a", change: "changed" },
      { path: "b", change: "deleted" },
      { path: "c", change: "changed" },
      { path: "new/d", change: "added" },
    ];
    const { changes: told } = (await okJson("commit", "diff", open)) as {
      changes: { path: string; change: string }[];
    };
    // What has the same bytes and the same type is no change.
    expect(told.map(({ path, change }) => ({ path, change }))).toEqual(
      changes.filter(({ path }) => path !== "c"),
    );
    const paged = (await okJson("commit", "diff", open, "--limit", "1", "--after", "a")) as { next: string };
    expect(paged).toMatchObject({ changes: [{ path: "b" }], next: "b" });
    await ok("commit", "finish", open);
    expect(await ok("commit", "list", "--open", "master.opened")).toMatch(/^BUCKET [^\n]*$/);
  });
});

describe("sluice sync", () => {
  test("finds a file of equal size that was edited before a later commit, which times do not", async () => {
    const folder = folderOf({ a: "one", "sub/b": "two", "skip.tmp": "t", ".git/x": "g" });
    await bucket("master.synced", { gone: "g", "old.tmp": "t" });
    const sync = (...args: string[]) => okJson("sync", ...args, folder, "s3://master.synced");
    const rules = ["--exclude", "*.tmp", "--exclude", ".git"];
    const first = await sync(...rules);
    expect(first).toEqual({
      copied: 2,
      deleted: 0,
      same: 0,
      bytes: 6,
      commit: await s3.headCommit("master.synced"),
    });
    writeFileSync(join(folder, "a"), "ONE");
    utimesSync(join(folder, "a"), new Date(0), new Date(0));
    await s3.put("master.synced", "later", "l");
    const plan = await ok("sync", "--dry-run", "--delete", ...rules, folder, "s3://master.synced", "--json");
    expect(JSON.parse(plan)).toEqual({ copy: ["a"], delete: ["gone", "later"], same: 1, dryRun: true });
    const before = await commits("master.synced");
    expect(await sync("--delete", ...rules)).toMatchObject({ copied: 1, deleted: 2, same: 1 });
    expect(await commits("master.synced")).toBe(before + 1);
    expect(await s3.keys("master.synced")).toEqual(["a", "old.tmp", "sub/b"]);
    expect(await ok("cat", "s3://master.synced/a")).toBe("ONE");
    expect(await sync("--delete", ...rules)).toMatchObject({ copied: 0, deleted: 0, same: 2, commit: null });
  });

  test("goes down as well, to a commit too, and removes what only the folder has if that is asked", async () => {
    await bucket("master.down", { a: "1", "x/b": "2", "x/c": "3" });
    const commit = await s3.headCommit("master.down");
    await s3.put("master.down", "a", "9");
    const folder = folderOf({ a: "1", extra: "e", "x/b/in-the-way": "w" });
    const failed = await cli("sync", "s3://master.down", folder);
    expect({ code: failed.code, stderr: failed.stderr }).toEqual({
      code: 1,
      stderr: expect.stringContaining("x/b"),
    });
    const done = await okJson("sync", "--delete", "s3://master.down", folder);
    expect(done).toMatchObject({ deleted: 2 });
    expect(filesIn(folder)).toEqual(["a", "x/b", "x/c"]);
    expect(readFileSync(join(folder, "a"), "utf8")).toBe("9");
    expect(await okJson("sync", "--commit", commit.slice(0, -1), "s3://master.down", folder)).toMatchObject({
      copied: 1,
      same: 2,
    });
    expect(readFileSync(join(folder, "a"), "utf8")).toBe("1");
  });

  test("keeps what a folder has if the path in the bucket holds nothing", async () => {
    await bucket("master.mistyped", { "right/a": "1" });
    const folder = folderOf({ mine: "m" });
    const said = await refused(7, "sync", "--delete", "s3://master.mistyped/rihgt", folder);
    expect(said).toContain("there is nothing at s3://master.mistyped/rihgt");
    expect(filesIn(folder)).toEqual(["mine"]);
  });

  test("makes one commit of more than one call takes", { timeout: 180_000 }, async () => {
    const folder = scratchFolder();
    for (let n = 0; n < 10_050; n++) writeFileSync(join(folder, String(n)), "");
    await bucket("master.plenty", { z: "z" });
    expect(await okJson("sync", "--delete", folder, "s3://master.plenty")).toMatchObject({
      copied: 10_050,
      deleted: 1,
      commit: await s3.headCommit("master.plenty"),
    });
    expect(await commits("master.plenty")).toBe(2);
  });
});

describe("what a command ends with", () => {
  test("a key that is evaluated is the only one that tools find", async () => {
    await bucket("master.keyed");
    const script =
      'eval "$(sluice key create --level read --repo keyed)"; echo "$SLUICE_ACCESS_KEY_ID"; env | grep -E "ACCESS_KEY_ID|SECRET|ENDPOINT|TOKEN"';
    const root = {
      AWS_ACCESS_KEY_ID: "root",
      AWS_SECRET_ACCESS_KEY: "root-secret",
      AWS_SESSION_TOKEN: "old",
    };
    const { stdout } = await shell(script, root);
    const [id = "", ...set] = stdout.toString().trimEnd().split("\n");
    const value = (name: string) => set.find((line) => line.startsWith(`${name}=`))?.slice(name.length + 1);
    expect(value("AWS_ACCESS_KEY_ID")).toBe(id);
    expect(value("RCLONE_CONFIG_SLUICE_ACCESS_KEY_ID")).toBe(id);
    expect(value("AWS_SECRET_ACCESS_KEY")).toBe(value("SLUICE_SECRET_ACCESS_KEY"));
    expect(value("AWS_ENDPOINT_URL")).toBe(server.endpoint);
    expect(value("AWS_SESSION_TOKEN")).toBeUndefined();
  });

  test("an archive that finds no room names its file and leaves none", async () => {
    await bucket("master.roomless", { file: "x".repeat(100_000) });
    const script = `trap '' XFSZ; ulimit -f 8; sluice repo export roomless a.tar; code=$?; ls; exit $code`;
    const { code, stdout, stderr } = await shell(script);
    expect({ code, stdout: String(stdout), stderr }).toEqual({
      code: 1,
      stdout: "",
      stderr: "error: can not write a.tar: file too large\n",
    });
  });

  test("a full disk behind stdout is one line, and no stack", async () => {
    const { code, stderr } = await shell("sluice ls > /dev/full");
    expect({ code, stderr }).toEqual({ code: 9, stderr: "error: stdout: no space left on device\n" });
  });
});

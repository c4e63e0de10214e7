// @module-tag rest
import { randomBytes } from "node:crypto";
import { readFileSync, statSync, truncateSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { KeyCreated, KeysImported } from "../../../protocol/keys.ts";
import { parseCliJson } from "../../support/cli-json.ts";
import { Control } from "../../support/control.ts";
import {
  type DevServer,
  sluice,
  sluiceCommand,
  sluiceEnv,
  sluiceOk,
  startDevServer,
} from "../../support/dev-server.ts";
import { eventually } from "../../support/eventually.ts";
import { mustRun, start } from "../../support/processes.ts";
import { startRelay } from "../../support/relay.ts";
import { S3 } from "../../support/s3.ts";
import { scratchFolder } from "../../support/scratch.ts";

const MIB = 1024 * 1024;
/** More than one body, one chunk and one row hold. */
const IN_PARTS_BYTES = 65 * MIB + 5;
const SECRET = "what somebody has had erased";

let server: DevServer;
let s3: S3;
const folder = scratchFolder();

beforeAll(async () => {
  server = await startDevServer();
  s3 = new S3(server);
});
afterAll(() => server?.stop());

function cli(...args: string[]): Promise<string> {
  return sluiceOk(server, ...args);
}

function inFolder(name: string): string {
  return join(folder, name);
}

/** All that anybody sees of a branch's history, but that its commits came out of an archive. */
async function seen(bucket: string): Promise<unknown> {
  const [branch = "", repo = ""] = bucket.split(".");
  const { commits } = JSON.parse(await cli("commit", "list", bucket, "--limit", "1000", "--json"));
  const { tags } = JSON.parse(await cli("tag", "list", repo, "--json"));
  const versions = (await s3.ask("GET", `/${bucket}?versions`)).text.replaceAll(bucket, "BUCKET");
  return {
    commits: commits.map(({ imported: _, ...commit }: { imported?: true }) => commit),
    tags: tags
      .filter((tag: { branch: string }) => tag.branch === branch)
      .map(({ bucket: _, ...tag }: { bucket: string }) => tag),
    versions,
  };
}

async function ended(started: ReturnType<typeof start>): Promise<number | null> {
  return (await started.ended).code;
}

describe("an archive of a repo", () => {
  const big = randomBytes(IN_PARTS_BYTES);
  const medium = randomBytes(5 * MIB);
  let commit = "";

  beforeAll(async () => {
    writeFileSync(inFolder("big"), big);
    await s3.createBucket("master.photos");
    await s3.put("master.photos", "small", "one");
    commit = (await s3.put("master.photos", "medium", medium)).version;
    await cli("tag", "create", "v1", "master.photos");
    await s3.put("master.photos", "small", "two");
    await cli("cp", inFolder("big"), "s3://master.photos/in/parts", "--message", "the big one");
    await s3.delete("master.photos", "medium");
    await s3.put("master.photos", "again", medium);
    const { version } = await s3.put("master.photos", "erased", SECRET);
    await s3.ask("DELETE", `/master.photos/erased?versionId=${version}`);
    await cli("branch", "create", "fork.photos", "--from", "master.photos@v1");
    await s3.put("fork.photos", "own", "of the fork");
    await cli("branch", "public", "fork.photos", "on");
    await cli("repo", "export", "photos", inFolder("photos.tar"));
  });

  test("is a tar file that any tar lists, with the bytes of each content once", async () => {
    const names = (await mustRun(["tar", "-tf", inFolder("photos.tar")])).trim().split("\n");
    expect(names[0]).toBe("archive.json");
    expect(names.at(-1)).toBe("end.json");
    const contents = names.filter((name) => name.startsWith("contents/"));
    expect(contents.length).toBe(2);
    expect(new Set(contents).size).toBe(2);
    expect(statSync(inFolder("photos.tar")).size).toBeLessThan(big.length + medium.length + MIB);
    expect(readFileSync(inFolder("photos.tar")).includes(SECRET)).toBe(false);
    const bytes = await mustRun(["tar", "-xOf", inFolder("photos.tar"), "archive.json"]);
    expect(JSON.parse(bytes)).toMatchObject({
      format: "sluice-repo",
      repo: "photos",
      branches: ["fork", "master"],
    });
    expect(await cli("repo", "import", inFolder("photos.tar"), "--check")).toMatch(/is good: 2 branches/);
  });

  test("is the same repo again: commits, tags, versions and bytes, at HEAD and before", async () => {
    const printed = await cli("repo", "import", inFolder("photos.tar"), "--as", "copies");
    expect(await cli("branch", "inspect", "master.copies")).toMatch(
      new RegExp(`^imported       .* by ${server.accessKeyId}$`, "m"),
    );
    expect(await cli("commit", "list", "master.copies")).toContain("(imported)");
    expect(await cli("commit", "inspect", "master.copies")).toMatch(/^imported {2}yes/m);
    expect(printed).toContain("s3://master.copies: 8 commits, 1 tag, 5 versions of files");
    expect(printed).toContain("not in it: pipelines");
    for (const branch of ["master", "fork"])
      expect(await seen(`${branch}.copies`)).toEqual(await seen(`${branch}.photos`));
    expect((await s3.get("master.copies", "in/parts"))?.equals(big)).toBe(true);
    expect((await s3.get("master.copies", "again"))?.equals(medium)).toBe(true);
    expect((await s3.get(`${commit.toLowerCase()}.master.copies`, "medium"))?.equals(medium)).toBe(true);
    expect(String(await s3.get("v1.master.copies", "small"))).toBe("one");
    expect((await s3.get("fork.copies", "medium"))?.equals(medium)).toBe(true);
    expect((await fetch(`${server.endpoint}/fork.copies/own`)).status).toBe(200);
    expect((await fetch(`${server.endpoint}/master.copies/small`)).status).toBe(403);
    // The same again sends nothing; what did not come of the archive is not replaced.
    expect(await cli("repo", "import", inFolder("photos.tar"), "--as", "copies")).toContain(
      "is there already",
    );
    const joined = await sluice(server, "repo", "import", inFolder("photos.tar"), "--as", "co--pies");
    expect(joined).toMatchObject({ code: 2, stderr: expect.stringContaining("must not hold '--'") });
    const taken = await sluice(server, "repo", "import", inFolder("photos.tar"));
    expect(taken).toMatchObject({ code: 1 });
    expect(taken.stderr).toContain("There is a branch 'fork.photos' already");
  }, 180_000);

  test("is gone on with after it broke off and the gateway was killed, and nothing of it is seen till then", async () => {
    const relay = await startRelay(server);
    const into = ["repo", "import", inFolder("photos.tar"), "--as", "broken", "--branch", "master"];
    const importing = start(sluiceCommand(into), { env: sluiceEnv({ ...server, endpoint: relay.endpoint }) });
    // Its pages of commits and tags are there, and bytes of the first content.
    await relay.seen(({ method, path }) => method === "PUT" && path.includes("/contents"));
    await importing.kill9();
    await server.kill9();
    await importing.ended;
    const commitsSent = relay.passed.filter(({ path }) => path.endsWith("/commits")).length;
    expect(commitsSent).toBeGreaterThan(0);
    await relay.stop();
    await server.restart();
    expect((await s3.ask("HEAD", "/master.broken")).status).toBe(404);
    expect(await s3.buckets()).not.toContain("master.broken");
    const again = await startRelay(server);
    const printed = await sluiceOk({ ...server, endpoint: again.endpoint }, ...into);
    expect(printed).toContain("s3://master.broken: 8 commits");
    expect(again.passed.filter(({ path }) => path.endsWith("/commits"))).toEqual([]);
    await again.stop();
    expect(await seen("master.broken")).toEqual(await seen("master.photos"));
    expect((await s3.get("master.broken", "in/parts"))?.equals(big)).toBe(true);
  }, 180_000);

  test("is given up with --abort, after which the name is free", async () => {
    const args = ["repo", "import", inFolder("photos.tar"), "--as", "given-up", "--branch", "master"];
    expect(await cli(...args, "--abort")).toBe("what the import had begun is given up\n");
    await s3.createBucket("master.given-up");
    expect(await sluice(server, ...args)).toMatchObject({ code: 1 });
  });

  test("that is cut off, changed or no archive is refused before anything is made of it", async () => {
    const good = readFileSync(inFolder("photos.tar"));
    const page = good.indexOf("branches/master/files-000001.json");
    const inPage = good.indexOf('"files"', page);
    const inContent = good.indexOf(medium.subarray(0, 64));
    const damaged = (at: number) => {
      const bytes = Buffer.from(good);
      bytes[at] = (bytes[at] ?? 0) ^ 1;
      return bytes;
    };
    writeFileSync(inFolder("cut.tar"), good);
    truncateSync(inFolder("cut.tar"), good.length - 4096);
    writeFileSync(inFolder("page.tar"), damaged(inPage + 12));
    writeFileSync(inFolder("header.tar"), damaged(page + 3));
    writeFileSync(inFolder("none.tar"), "no archive");
    for (const name of ["cut", "page", "header", "none"]) {
      const refused = await sluice(server, "repo", "import", inFolder(`${name}.tar`), "--as", "damaged");
      expect(refused, name).toMatchObject({ code: 1 });
      expect(refused.stderr, name).toContain("is no whole archive of a repo");
    }
    // Bytes of contents are checked where they arrive, and all of them with --check.
    writeFileSync(inFolder("content.tar"), damaged(inContent + 7));
    const checked = await sluice(server, "repo", "import", inFolder("content.tar"), "--check");
    expect(checked.stderr).toContain("has other bytes");
    const refused = await sluice(server, "repo", "import", inFolder("content.tar"), "--as", "damaged");
    expect(refused).toMatchObject({ code: 1 });
    expect(refused.stderr).toContain("is no whole archive of a repo: the content");
    const length = Math.ceil(medium.length / 512) * 512;
    const without = [good.subarray(0, inContent - 512), good.subarray(inContent + length)];
    writeFileSync(inFolder("without.tar"), Buffer.concat(without));
    for (const way of [["--check"], ["--as", "damaged"]]) {
      const lacking = await sluice(server, "repo", "import", inFolder("without.tar"), ...way);
      expect(lacking, way.join(" ")).toMatchObject({ code: 1 });
      expect(lacking.stderr).toMatch(
        /^error: \S+ is no whole archive of a repo: the content \S+ is not at byte /,
      );
    }
    expect(await s3.buckets()).not.toContain("master.damaged");
    // Nothing half-made holds the name, or stands in the way of the archive as it was.
    await s3.createBucket("master.damaged");
    await s3.createBucket("fork.damaged");
  });

  test("goes to standard output, and is not written over what is there", async () => {
    const there = await sluice(server, "repo", "export", "photos", inFolder("photos.tar"));
    expect(there).toMatchObject({ code: 1 });
    expect(there.stderr).toContain("file already exists");
    const out = await sluice(server, "repo", "export", "photos", "-", "--branch", "fork");
    expect(out).toMatchObject({ code: 0 });
    expect(out.stderr).toContain("fork: 2 commits");
    writeFileSync(inFolder("fork.tar"), out.stdout);
    expect(await cli("repo", "import", inFolder("fork.tar"), "--check")).toMatch(/is good: 1 branch /);
    expect(await sluice(server, "repo", "export", "nowhere", inFolder("nowhere.tar"))).toMatchObject({
      code: 7,
    });
    expect(await ended(start(["test", "-e", inFolder("nowhere.tar")]))).toBe(1);
  });

  test("is not made of a branch that a pipeline follows", async () => {
    const control = new Control(server);
    await s3.createBucket("master.followed");
    await s3.put("master.followed", "a", "a");
    await cli("repo", "export", "followed", inFolder("followed.tar"));
    await control.createPipeline({
      pipeline: { name: "follows" },
      transform: { image: "none", cmd: ["true"] },
      inputs: [{ repo: { name: "followed" }, glob: "/*" }],
    });
    expect(await sluice(server, "rb", "--force", "s3://master.followed")).toMatchObject({ code: 0 });
    const refused = await sluice(server, "repo", "import", inFolder("followed.tar"));
    expect(refused.stderr).toContain("sluice pipeline stop");
    await cli("pipeline", "stop", "follows");
    await cli("repo", "import", inFolder("followed.tar"));
    await cli("pipeline", "start", "follows");
    expect(String(await s3.get("master.followed", "a"))).toBe("a");
  });
});

describe("an export of access keys", () => {
  const passphrase = inFolder("passphrase");

  test("brings them back with the same secrets, and nobody reads or changes them in the file", async () => {
    writeFileSync(passphrase, "correct horse battery staple\n");
    const create = ["--level", "write", "--repo", "photos", "--description", "camera", "--json"];
    const made = KeyCreated.parse(parseCliJson(await cli("key", "create", ...create)));
    const asCamera = { ...server, accessKeyId: made.id, secretAccessKey: made.secret };
    const file = inFolder("keys.json");
    expect(await cli("key", "export", file, "--passphrase-file", passphrase)).toContain("1 key exported");
    expect(statSync(file).mode & 0o777).toBe(0o600);
    const text = readFileSync(file, "utf8");
    for (const hidden of [made.secret, "photos", "camera", "write"]) expect(text).not.toContain(hidden);
    await cli("key", "delete", made.id);
    await eventually(
      "the key is forgotten",
      async () => (await new S3(asCamera).ask("GET", "/master.photos")).status === 403,
    );

    writeFileSync(inFolder("wrong"), "another horse battery staple\n");
    const wrong = await sluice(server, "key", "import", file, "--passphrase-file", inFolder("wrong"));
    expect(wrong.stderr).toContain("the passphrase is not the one");
    const archive = JSON.parse(text);
    writeFileSync(inFolder("fewer.json"), JSON.stringify({ ...archive, keys: [] }));
    const fewer = await sluice(
      server,
      "key",
      "import",
      inFolder("fewer.json"),
      "--passphrase-file",
      passphrase,
    );
    expect(fewer.stderr).toContain("does not open");

    const again = KeysImported.parse(
      JSON.parse(await cli("key", "import", file, "--passphrase-file", passphrase, "--json")),
    );
    expect(again).toEqual({ added: [made.id], there: [], taken: [], refused: [], expired: [] });
    await eventually(
      "the key works",
      async () => (await new S3(asCamera).ask("GET", "/master.photos")).status === 200,
    );
    expect((await new S3(asCamera).ask("GET", "/master.copies")).status).toBe(403);
    expect(await cli("key", "import", file, "--passphrase-file", passphrase)).toContain(
      "0 keys made, 1 there already",
    );
  });

  test("is sealed with a key instead, and says what is missing", async () => {
    writeFileSync(inFolder("export.key"), `${randomBytes(32).toString("base64")}\n`);
    await cli("key", "export", inFolder("sealed.json"), "--key-file", inFolder("export.key"));
    expect(
      await cli("key", "import", inFolder("sealed.json"), "--key-file", inFolder("export.key")),
    ).toContain("1 there");
    for (const [args, words] of [
      [["key", "export", inFolder("x.json")], "SLUICE_EXPORT_PASSPHRASE"],
      [
        ["key", "import", inFolder("sealed.json"), "--passphrase-file", passphrase],
        "was sealed with a key file",
      ],
      [["key", "export", inFolder("x.json"), "--key-file", passphrase], "the base64 of 32 random bytes"],
    ] as const) {
      const refused = await sluice(server, ...args);
      expect(refused).toMatchObject({ code: 2 });
      expect(refused.stderr).toContain(words);
    }
    const there = await sluice(
      server,
      "key",
      "export",
      inFolder("sealed.json"),
      "--key-file",
      inFolder("export.key"),
    );
    expect(there.stderr).toContain("file already exists");
  });
});

// @module-tag rest
import { execFileSync } from "node:child_process";
import { createWriteStream, mkdirSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { Client } from "../../../cli/gateway/client.ts";
import { asOneCommit } from "../../../cli/gateway/open-commits.ts";
import { Control } from "../../support/control.ts";
import { type DevServer, ROOT, sluice, startDevServer } from "../../support/dev-server.ts";
import { doorVariables } from "../../support/keys.ts";
import { type Ended, start } from "../../support/processes.ts";
import { startRelay } from "../../support/relay.ts";
import { S3 } from "../../support/s3.ts";
import { scratchFolder } from "../../support/scratch.ts";

/** One more than one call takes. */
const MANY = 10_001;
const SESSION = "01ARZ3NDEKTSV4RRFFQ69G5FAV";

let server: DevServer;
let s3: S3;
let control: Control;

beforeAll(async () => {
  server = await startDevServer();
  s3 = new S3(server);
  control = new Control(server);
});
afterAll(() => server.stop());

function cli(...args: string[]): Promise<Ended> {
  return sluice(server, ...args);
}

async function ok(...args: string[]): Promise<string> {
  const { code, stdout, stderr } = await cli(...args);
  expect([code, stderr]).toEqual([0, ""]);
  return stdout.toString().trimEnd();
}

async function okJson(...args: string[]): Promise<Record<string, string | number | null>> {
  return JSON.parse(await ok(...args, "--json"));
}

/** Opens a commit of a new branch; answers its bucket as an address. */
async function open(bucket: string): Promise<string> {
  await s3.createBucket(bucket);
  return `s3://${(await okJson("commit", "start", `s3://${bucket}`)).bucket}`;
}

function file(content: string): string {
  const path = join(scratchFolder(), "file.txt");
  writeFileSync(path, content);
  return path;
}

/** A folder of so many files, `0`, `1` and so on, in folders of 1,000. */
function folderOfMany(count: number): string {
  const folder = scratchFolder();
  for (let number = 0; number < count; number++) {
    if (number % 1000 === 0) mkdirSync(join(folder, String(number / 1000)));
    writeFileSync(join(folder, String(Math.floor(number / 1000)), String(number)), "");
  }
  return folder;
}

describe("sluice commit", () => {
  test("start prints the bucket, and beside it what to do with it", async () => {
    await s3.createBucket("master.started");
    const { code, stdout, stderr } = await cli("commit", "start", "s3://master.started", "--ttl", "90m");
    expect(code).toBe(0);
    const bucket = stdout.toString().trimEnd();
    expect(bucket).toMatch(/^s3:\/\/[0-9a-z]{26}\.master\.started$/);
    expect(stderr).toContain(`aws s3 sync <folder> ${bucket}`);
    expect(stderr).toContain(`sluice commit finish ${bucket}`);
  });

  test("takes buckets with or without s3:// before them, as mb, rb and branch delete do", async () => {
    for (const removal of [["rb"], ["branch", "delete"]]) {
      expect(await ok("mb", "drafts.bare")).toBe("made s3://drafts.bare");
      const { stdout } = await cli("commit", "start", "drafts.bare");
      const bucket = stdout.toString().trimEnd().replace("s3://", "");
      expect(await ok("commit", "abort", bucket)).toBe(`aborted s3://${bucket}`);
      const { stdout: next } = await cli("commit", "start", "drafts.bare");
      const empty = next.toString().trimEnd().replace("s3://", "");
      expect(await ok("commit", "finish", empty)).toBe("nothing changed: no commit was made");
      expect(await ok(...removal, "drafts.bare")).toBe("removed s3://drafts.bare");
    }
  });

  test("start, then cp, ls, cat and rm in its bucket, then finish make one commit", async () => {
    const bucket = await open("master.filled");
    await s3.put("master.filled", "old.txt", "old");
    const head = await s3.headCommit("master.filled");
    expect(await ok("cp", file("one"), `${bucket}/dir/`)).toMatch(
      /^1 file, 3 B \(3 B sent\): staged; publish it with 'sluice commit finish s3:\/\//,
    );
    const staged = await okJson(
      "cp",
      file("two"),
      `${bucket.replace(/[0-9a-z]{26}/, (id) => id.toUpperCase())}/two.txt`,
    );
    expect(staged).toEqual({ commit: null, files: 1, bytes: 3, sentBytes: 3, staged: true });
    expect(await okJson("rm", `${bucket}/old.txt`)).toEqual({ files: 1, commit: null });
    expect(await ok("cat", `${bucket}/dir/file.txt`)).toBe("one");
    const listed = (await ok("ls", "-r", bucket, "--json")).split("\n").map((line) => JSON.parse(line).path);
    expect(listed).toEqual(["dir/file.txt", "two.txt"]);
    const down = scratchFolder();
    await ok("cp", "-r", bucket, down);
    expect(readFileSync(join(down, "dir/file.txt"), "utf8")).toBe("one");
    expect([await s3.keys("master.filled"), await s3.headCommit("master.filled")]).toEqual([
      ["old.txt"],
      head,
    ]);

    const commit = await ok("commit", "finish", bucket);
    expect(await s3.keys("master.filled")).toEqual(["dir/file.txt", "two.txt"]);
    expect(await s3.headCommit("master.filled")).toBe(commit);
    expect(await okJson("commit", "finish", bucket)).toEqual({ commit });
  });

  test("rm -r in its bucket removes what is there and what is staged", async () => {
    const bucket = await open("master.emptied");
    await s3.put("master.emptied", "dir/old", "old");
    await ok("cp", file("new"), `${bucket}/dir/new`);
    expect(await okJson("rm", "-r", `${bucket}/dir`)).toEqual({ files: 2, commit: null });
    await ok("commit", "finish", bucket);
    expect(await s3.keys("master.emptied")).toEqual([]);
  });

  test("finish says when nothing changed", async () => {
    const bucket = await open("master.unchanged");
    expect(await ok("commit", "finish", bucket)).toBe("nothing changed: no commit was made");
    expect(await okJson("commit", "finish", bucket)).toEqual({ commit: null });
  });

  test("abort forgets what was put, also when it is asked again", async () => {
    const bucket = await open("master.aborted");
    await ok("cp", file("x"), `${bucket}/x`);
    expect(await ok("commit", "abort", bucket)).toBe(`aborted ${bucket}`);
    expect(await okJson("commit", "abort", bucket)).toHaveProperty("aborted");
    const { code, stderr } = await cli("commit", "finish", bucket, "--json");
    expect([code, JSON.parse(stderr).error.code]).toEqual([7, "NoSuchSession"]);
    const put = await cli("cp", file("x"), `${bucket}/x`);
    expect([put.code, put.stderr]).toEqual([7, expect.stringContaining("no such open commit")]);
    expect(await s3.keys("master.aborted")).toEqual([]);
  });

  test.each([
    [["commit", "start", `s3://${SESSION}.master.x`], "is the bucket of an open commit or a commit already"],
    [["commit", "start", "s3://master.x", "--ttl", "soon"], "must be a length of time"],
    [["commit", "finish", "s3://master.x"], "must be the bucket of an open commit"],
    [["commit", "abort", `s3://${SESSION}.master.x/path`], "must name a bucket alone"],
    [["ls", "s3://a.b.c.d"], "that of an open commit, a commit or a tag is <x>.<branch>.<repo>"],
  ])("%j is refused", async (args, said) => {
    const { code, stderr } = await cli(...args);
    expect([code, stderr]).toEqual([2, expect.stringContaining(said)]);
  });

  test("start in a branch that is not there says so", async () => {
    const { code, stderr } = await cli("commit", "start", "s3://master.nowhere");
    expect([code, stderr]).toEqual([7, expect.stringContaining("There is no branch 'master.nowhere'")]);
  });
});

describe("more files than one call takes", () => {
  test("go up by cp -r, and go by rm -r, as one commit and one job each", {
    timeout: 180_000,
  }, async () => {
    await s3.createBucket("master.many");
    await control.createPipeline({
      pipeline: { name: "counts-many" },
      transform: { image: "busybox", cmd: ["true"] },
      inputs: [{ repo: { name: "many" }, glob: "/" }],
    });
    const put = await okJson("cp", "-r", folderOfMany(MANY), "s3://master.many/in");
    expect(put).toEqual({ commit: await s3.headCommit("master.many"), files: MANY, bytes: 0, sentBytes: 0 });
    expect((await s3.keys("master.many")).length).toBe(MANY);
    const removed = await okJson("rm", "-r", "s3://master.many/in");
    expect(removed).toEqual({ commit: await s3.headCommit("master.many"), files: MANY });
    expect(await s3.keys("master.many")).toEqual([]);
    const jobs = await control.jobs("counts-many");
    expect(jobs.map(({ inputs }) => inputs[0]?.commit)).toEqual([put.commit, removed.commit]);
  });

  test("leave nothing behind where one of them can't be put", async () => {
    await s3.createBucket("master.half");
    const client = new Client({ ...server, endpointSource: "the test", keySource: "the test" });
    const to = { repo: "half", branch: "master" };
    let session = "";
    const fill = async (opened: { view: string }): Promise<void> => {
      session = opened.view;
      await ok("cp", file("x"), `s3://${session}.master.half/x`);
      throw new Error("the second page failed");
    };
    await expect(asOneCommit(client, { to, fill })).rejects.toThrow("the second page failed");
    await client.close();
    expect((await control.ask("GET", `/repos/half/branches/master/sessions/${session}`)).status).toBe(404);
    expect(await s3.keys("master.half")).toEqual([]);
  });

  test("are not seen where a signal stops cp while it waits for input", {
    timeout: 180_000,
  }, async () => {
    await s3.createBucket("master.waiting");
    const relay = await startRelay(server);
    const pipe = join(scratchFolder(), "pipe");
    execFileSync("mkfifo", [pipe]);
    const lines = createWriteStream(pipe);
    try {
      const command = [process.execPath, join(ROOT, "bin/sluice.js"), "cp", "--split", "line", "-"];
      const fromPipe = ["sh", "-c", 'exec "$@" < "$0"', pipe];
      const copying = start([...fromPipe, ...command, "s3://master.waiting"], {
        cwd: ROOT,
        env: doorVariables({ ...server, endpoint: relay.endpoint }),
      });
      // The pipe stays open: more may come.
      lines.write("line\n".repeat(MANY));
      await relay.seen(({ path, status }) => path.endsWith("/commits") && status === 201);
      copying.signal("SIGTERM");
      const { signal, stderr } = await copying.ended;
      expect([signal, stderr]).toEqual(["SIGTERM", "error: stopped by a signal; nothing was committed\n"]);
    } finally {
      lines.destroy();
      await relay.stop();
    }
    expect(await s3.keys("master.waiting")).toEqual([]);
  });

  test.each([
    ["SIGINT", "half-way-told"],
    ["SIGKILL", "half-way-killed"],
  ] as const)("are not seen where %s stops cp half-way", { timeout: 180_000 }, async (signal, repo) => {
    await s3.createBucket(`master.${repo}`);
    const relay = await startRelay(server);
    try {
      const door = { ...server, endpoint: relay.endpoint };
      const command = [process.execPath, join(ROOT, "bin/sluice.js"), "cp", "-r"];
      const copying = start([...command, folderOfMany(2 * MANY), `s3://master.${repo}`], {
        cwd: ROOT,
        env: doorVariables(door),
      });
      await relay.seen(({ path, status }) => path.endsWith("/commits") && status === 201);
      copying.signal(signal);
      const { signal: endedBy, stderr } = await copying.ended;
      if (signal === "SIGINT") {
        expect([endedBy, stderr]).toEqual([signal, "error: stopped by a signal; nothing was committed\n"]);
        const { path } = await relay.seen(({ method }) => method === "DELETE");
        expect((await s3.ask("GET", path)).status).toBe(404);
      }
    } finally {
      await relay.stop();
    }
    expect([await s3.keys(`master.${repo}`), await s3.headCommit(`master.${repo}`)]).toEqual([[], ""]);
  });
});

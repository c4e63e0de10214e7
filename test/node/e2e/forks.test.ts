// @module-tag rest
import { randomBytes } from "node:crypto";
import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { BranchDetail, BranchList } from "../../../protocol/repos.ts";
import { parseCliJson } from "../../support/cli-json.ts";
import { good } from "../../support/clients/api-tool.ts";
import { AWS, awsApi, hasAws } from "../../support/clients/aws-api.ts";
import { awsEnvironment } from "../../support/clients/aws-environment.ts";
import { type DevServer, sluice, sluiceOk, startDevServer } from "../../support/dev-server.ts";
import { mustRun } from "../../support/processes.ts";
import { S3 } from "../../support/s3.ts";
import { scratchFolder } from "../../support/scratch.ts";

/** Above what `aws s3 cp` sends in one piece. */
const IN_PARTS_BYTES = 9 * 1024 * 1024;

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

/** What a bucket lists of each key, but for times. */
async function listing(bucket: string): Promise<unknown[]> {
  const { Contents = [] } = good(await awsApi(server).call("list-objects-v2", { Bucket: bucket }));
  return Contents.map(({ Key, ETag, Size }) => ({ Key, ETag, Size }));
}

describe.skipIf(!(await hasAws()))("a branch from an old commit", () => {
  const bytes = randomBytes(IN_PARTS_BYTES);
  let before: unknown[];
  let commit: string;

  beforeAll(async () => {
    const env = awsEnvironment(server, folder);
    const big = join(folder, "big");
    writeFileSync(big, bytes);
    await s3.createBucket("master.photos");
    await s3.put("master.photos", "small.txt", "small\n");
    const to = ["s3://master.photos/a/big", "--metadata", "colour=red", "--content-type", "image/x"];
    await mustRun([AWS, "--endpoint-url", server.endpoint, "s3", "cp", big, ...to], { env });
    commit = await s3.headCommit("master.photos");
    before = await listing("master.photos");
    await s3.put("master.photos", "small.txt", "changed\n");
    await s3.put("master.photos", "later.txt", "later\n");
    await s3.delete("master.photos", "a/big");
  });

  test("is made by the command line, and any S3 tool reads in it what the commit had", async () => {
    const printed = await cli("branch", "create", "old.photos", "--from", `master.photos@${commit}`);
    expect(printed).toBe(`made s3://old.photos from s3://master.photos at ${commit}\n`);
    expect(await listing("old.photos")).toEqual(before);
    expect(await s3.get("old.photos", "a/big")).toEqual(bytes);
    const head = async (bucket: string, more = {}) => {
      const asked = { Bucket: bucket, Key: "a/big", PartNumber: 1, ...more };
      const { ETag, ContentLength, ContentType, Metadata, PartsCount } = good(
        await awsApi(server).call("head-object", asked),
      );
      return { ETag, ContentLength, ContentType, Metadata, PartsCount };
    };
    const there = await head("master.photos", { VersionId: commit });
    expect(there).toMatchObject({ ContentType: "image/x", Metadata: { colour: "red" }, PartsCount: 2 });
    expect(await head("old.photos")).toEqual(there);
    const list = await cli("branch", "list", "photos");
    expect(list).toMatch(/^NAME +BUCKET +CREATED +PLACE +PUBLIC +WRITTEN BY +KEEPS +STATE\n/);
    expect(list).toMatch(/^old +s3:\/\/old\.photos +\S+ \S+ \S+ +- +- +- +all of its history +ready$/m);
    expect(
      BranchList.parse(parseCliJson(await cli("branch", "list", "photos", "--json"))).branches,
    ).toHaveLength(2);
  });

  test("lives where the other branch was made to, which the list and the branch itself show", async () => {
    await cli("mb", "--region", "eu-west-1", "s3://placed");
    await cli("mb", "--plain", "--region", "afr", "s3://plain.placed");
    await cli("branch", "create", "empty.placed", "--region", "fr-par");
    await cli("branch", "create", "fork.placed", "--from", "master.placed");
    const list = await cli("branch", "list", "placed");
    const places = ["empty +.* fr-par \\(anywhere\\)", "fork +.* eu-west-1 \\(weur\\)"];
    for (const place of [...places, "master +.* eu-west-1 \\(weur\\)", "plain +.* afr"]) {
      expect(list).toMatch(new RegExp(`^${place} +- +-`, "m"));
    }
    expect(await cli("branch", "inspect", "fork.placed")).toMatch(/^place +eu-west-1 \(weur\)$/m);
    const refused = await sluice(server, "mb", "--region", "<Frankfurt>", "s3://unplaced");
    expect(refused).toMatchObject({ code: 1 });
    expect(refused.stderr).toMatch(/LocationConstraint is "<Frankfurt>", but must be .*eu-central-1/);
    const both = ["--from", "master.placed", "--region", "eu-west-1"];
    expect((await sluice(server, "branch", "create", "x.placed", ...both)).stderr).toContain("region");
    for (const branch of ["empty", "fork", "master", "plain"]) await cli("rb", `s3://${branch}.placed`);
  });

  test("is made once, however often it is asked for", async () => {
    const again = ["branch", "create", "s3://old.photos", "--json", "--from"];
    const made = BranchDetail.parse(
      parseCliJson(await cli(...again, `master.photos@${commit.toLowerCase()}`)),
    );
    expect(made).toMatchObject({
      name: "old",
      from: { repo: "photos", branch: "master", commit },
      forking: null,
    });
    const head = await s3.headCommit("master.photos");
    const other = await sluice(server, ...again, `master.photos@${head}`);
    expect(other).toMatchObject({ code: 1 });
    expect(other.stderr).toContain("AlreadyExists");
  });

  test("crosses repos, and goes its own way", async () => {
    const made = JSON.parse(
      await cli("branch", "create", "master.copies", "--from", `s3://old.photos`, "--no-wait", "--json"),
    );
    expect(made).toMatchObject({ name: "master", from: { repo: "photos", branch: "old" } });
    await cli("branch", "create", "master.copies", "--from", "old.photos");
    await s3.put("master.copies", "small.txt", "of the copy\n");
    await s3.delete("old.photos", "a/big");
    expect(await s3.get("master.copies", "a/big")).toEqual(bytes);
    expect(String(await s3.get("old.photos", "small.txt"))).toBe("small\n");
    expect(await s3.keys("old.photos")).toEqual(["small.txt"]);
    expect(await s3.keys("master.photos")).toEqual(["later.txt", "small.txt"]);
  });

  test("goes back to an earlier commit by one new one", async () => {
    const log = JSON.parse(await cli("commit", "list", "old.photos", "--json"));
    const first = log.commits.at(-1).id;
    const made = (await cli("commit", "revert", `old.photos@${first}`)).trim();
    expect(made).toBe(await s3.headCommit("old.photos"));
    expect(await listing("old.photos")).toEqual(before);
    expect(await s3.get("old.photos", "a/big")).toEqual(bytes);
    expect(JSON.parse(await cli("commit", "list", "old.photos", "--json")).commits).toHaveLength(3);
    expect(await cli("commit", "revert", `s3://old.photos@${first}`)).toMatch(/no commit was made/);
    await cli("tag", "create", "v1", "old.photos");
    await s3.put("old.photos", "small.txt", "not for long\n");
    await cli("commit", "revert", "old.photos@v1", "--message", "back to v1");
    expect(await listing("old.photos")).toEqual(before);
    const [newest] = JSON.parse(await cli("commit", "list", "old.photos", "--json")).commits;
    expect(newest).toMatchObject({ message: "back to v1" });
    await cli("branch", "create", "tagged.photos", "--from", "old.photos@v1");
    expect(await listing("tagged.photos")).toEqual(before);
    await cli("rb", "--force", "s3://tagged.photos");
  });

  test("says what is wrong with what was typed, and with what is not there", async () => {
    for (const [args, words] of [
      [["branch", "create", "x.photos", "--from", "master.photos@no.tag"], "the id of a commit, or a tag"],
      [["branch", "create", "x.photos/file"], "a branch alone"],
      [["commit", "revert", "old.photos"], "must name the commit"],
    ] as const) {
      const ended = await sluice(server, ...args);
      expect(ended).toMatchObject({ code: 2 });
      expect(ended.stderr).toContain(words);
    }
    const nowhere = "01ARZ3NDEKTSV4RRFFQ69G5FAV";
    for (const [code, args, words] of [
      [7, ["branch", "create", "x.photos", "--from", "nowhere.photos"], "nowhere.photos"],
      [7, ["branch", "create", "x.photos", "--from", `master.photos@${nowhere}`], nowhere],
      [7, ["branch", "create", "x.photos", "--from", "master.photos@nowhere"], "no tag 'nowhere'"],
      [1, ["branch", "create", "x.photos", "--from", "x.photos"], "name another one"],
      [7, ["commit", "revert", `old.photos@${nowhere}`], "no such commit"],
      [1, ["branch", "create", "old.photos"], "'old.photos' already"],
    ] as const) {
      const ended = await sluice(server, ...args);
      expect(ended).toMatchObject({ code });
      expect(ended.stderr).toContain(words);
    }
    expect(await s3.buckets()).not.toContain("x.photos");
    expect(await cli("branch", "create", "empty.photos")).toBe("made s3://empty.photos\n");
  });

  test("keeps its bytes when its parent is deleted, and when what was between is", async () => {
    await cli("rb", "--force", "s3://master.photos");
    expect(await s3.get("old.photos", "a/big")).toEqual(bytes);
    await cli("rb", "--force", "s3://old.photos");
    await server.kill9();
    await server.restart();
    expect(await s3.get("master.copies", "a/big")).toEqual(bytes);
    await cli("rb", "--force", "s3://master.copies");
    expect(await s3.buckets()).toEqual(["empty.photos"]);
    expect((await s3.ask("GET", "/master.copies/a/big")).status).toBe(404);
    await cli("mb", "s3://master.copies");
    expect(await s3.keys("master.copies")).toEqual([]);
  });
});

// @module-tag rest
import { writeFile } from "node:fs/promises";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { CommitDetail, CommitPage, DiffPage, Provenance } from "../../../protocol/commits.ts";
import { BranchList, RepoList } from "../../../protocol/repos.ts";
import { NodeList } from "../../../protocol/runner.ts";
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
import { FakeRunner } from "../../support/fake-runner.ts";
import type { Ended } from "../../support/processes.ts";
import { S3 } from "../../support/s3.ts";
import { onTerminal } from "../../support/terminal.ts";

let server: DevServer;
let control: Control;
let s3: S3;
let runner: FakeRunner;

beforeAll(async () => {
  server = await startDevServer();
  control = new Control(server);
  s3 = new S3(server);
  runner = new FakeRunner(server, { node: "n1" });
});
afterAll(() => server?.stop());

function cli(...args: string[]): Promise<Ended> {
  return sluice(server, ...args);
}

function ok(...args: string[]): Promise<string> {
  return sluiceOk(server, ...args);
}

async function okJson(...args: string[]): Promise<unknown> {
  return parseCliJson(await ok(...args, "--json"));
}

/** A bucket with a commit for each file; answers the commits. */
async function filled(bucket: string, ...files: [path: string, text: string][]): Promise<string[]> {
  await s3.createBucket(bucket);
  const commits: string[] = [];
  for (const [path, text] of files) {
    await s3.put(bucket, path, text);
    commits.push(await s3.headCommit(bucket));
  }
  return commits;
}

/** A pipeline over one input whose only datum writes one empty file. */
async function ran(name: string, { input, path }: { input: string; path: string }): Promise<void> {
  await control.createPipeline({
    pipeline: { name },
    transform: { image: "none", cmd: ["true"] },
    inputs: [{ repo: { name: input }, glob: "/*" }],
  });
  const digest = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855";
  await runner.work(name, { count: 1, outputs: () => [{ path, digest, size: 0, bytes: "" }] });
  await control.ended(name, { count: 1 });
}

describe("sluice commit list", () => {
  test("is one page with short ids on a terminal, and all of it, whole, into a pipe", async () => {
    const files = Array.from({ length: 22 }, (_, index): [string, string] => ["a", `${index}`]);
    const commits = await filled("master.lengthy", ...files);
    const terminal = onTerminal(sluiceCommand(["commit", "list", "master.lengthy"]), {
      env: sluiceEnv(server),
    });
    expect(await terminal.ended).toBe(0);
    const shown = terminal.screen().split("\r\n");
    expect(shown.filter((line) => /^01/.test(line))).toHaveLength(20);
    const short = /^01\S+/.exec(shown[1] ?? "")?.[0] ?? "";
    expect(short.length).toBeLessThan(26);
    expect(commits.filter((id) => id.startsWith(short))).toEqual([commits.at(-1)]);
    expect(terminal.screen()).toContain(`more with --all, or --after ${commits[2]}`);
    // What is shown is what may be typed.
    expect(await ok("commit", "inspect", "master.lengthy", short)).toContain(`commit    ${commits.at(-1)}\n`);

    const piped = (await ok("commit", "list", "master.lengthy")).trimEnd().split("\n").slice(1);
    expect(piped.map((line) => line.slice(0, 26))).toEqual(commits.toReversed());
    const page = JSON.parse(await ok("commit", "list", "master.lengthy", "--json"));
    expect([page.commits.length, page.next]).toEqual([22, null]);
    expect(page.commits[0].createdAt).toMatch(/^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z$/);
    const all = onTerminal(sluiceCommand(["commit", "list", "master.lengthy", "--all"]), {
      env: sluiceEnv(server),
    });
    expect(await all.ended).toBe(0);
    expect(
      all
        .screen()
        .split("\r\n")
        .filter((line) => /^01/.test(line)),
    ).toHaveLength(22);
  });

  test("shows a branch's commits, newest first, with or without s3:// before it", async () => {
    const [first, second] = await filled("master.log", ["a", "1"], ["a", "2"]);
    const lines = (await ok("commit", "list", "master.log")).trimEnd().split("\n");
    expect(lines[0]).toMatch(/^ID +CREATED +FILES +JOB +KEY +MESSAGE$/);
    expect(lines[1]).toMatch(
      new RegExp(`^${second} .* 1 written, 1 replaced or deleted +- +${server.accessKeyId}$`),
    );
    expect(lines[2]).toMatch(new RegExp(`^${first} `));
    expect((await cli("commit", "list", "s3://master.log", "--limit", "1")).stderr).toBe(
      `more with --after ${second}\n`,
    );
    const page = CommitPage.parse(await okJson("commit", "list", "master.log", "--after", second ?? ""));
    expect(page).toMatchObject({ commits: [{ id: first, parent: null, job: null }], next: null });
  });

  test("fails in words where there is nothing to list, or the address is none", async () => {
    const unknown = await cli("commit", "list", "master.nowhere");
    expect(unknown.code).toBe(7);
    expect(unknown.stderr).toContain("master.nowhere");
    for (const text of ["-nowhere", "master.log/a", "01ARZ3NDEKTSV4RRFFQ69G5FAV.master.log"])
      expect(await cli("commit", "list", text)).toMatchObject({ code: 2 });
    expect(await cli("commit", "list", "master.log", "--limit", "0")).toMatchObject({ code: 2 });
  });
});

describe("sluice commit diff", () => {
  test("shows what the newest commit did, or what two commits have differently", async () => {
    const [first, second] = await filled("master.diff", ["a", "1"], ["a", "22"], ["b", "1"]);
    expect(await ok("commit", "diff", "master.diff")).toBe("CHANGE  SIZE  PATH\nadded   1 B   b\n");
    const rows = (await ok("commit", "diff", "master.diff", first ?? "")).trimEnd().split("\n");
    expect(rows.slice(1)).toEqual(["changed  1 B -> 2 B  a", "added    1 B         b"]);
    const page = DiffPage.parse(await okJson("commit", "diff", "master.diff", second ?? "", first ?? ""));
    expect(page).toMatchObject({
      from: second,
      to: first,
      changes: [{ path: "a", change: "changed" }],
      next: null,
    });
    expect(await ok("commit", "diff", `master.diff@${second}`)).toBe(
      "CHANGE   SIZE        PATH\nchanged  1 B -> 2 B  a\n",
    );
    const limited = await cli("commit", "diff", "master.diff", first ?? "", "--limit", "1");
    expect(limited.stderr).toBe("more with --after 'a'\n");
    expect(await ok("commit", "diff", "master.diff", first ?? "", "--after", "a")).not.toContain(" a\n");
    expect((await cli("commit", "diff", "master.diff", "01ARZ3NDEKTSV4RRFFQ69G5FAV")).code).toBe(7);
  });

  test("--stat sums up what differs, of commits and of an open commit, page by page", async () => {
    const [first = ""] = await filled("master.sums", ["a", "1"], ["gone", "1"], ["type", "1"], ["a", "22"]);
    const { bucket: open } = JSON.parse(await ok("commit", "start", "s3://sums", "--json"));
    for (let index = 0; index < 1001; index++) await s3.put(open, `n${index}`, "12");
    await s3.delete(open, "gone");
    const added = { files: 1001, bytesBefore: 0, bytesAfter: 2002 };
    const deleted = { files: 1, bytesBefore: 1, bytesAfter: 0 };
    const none = { files: 0, bytesBefore: 0, bytesAfter: 0 };
    expect(await okJson("commit", "diff", open, "--stat")).toEqual({
      stat: { added, changed: none, deleted, metadata: none },
    });
    await ok("commit", "finish", `s3://${open}`);
    const rows = (await ok("commit", "diff", "sums", first, "--stat")).trimEnd().split("\n");
    expect(rows.map((row) => row.split(/ {2,}/))).toEqual([
      ["CHANGE", "FILES", "BEFORE", "AFTER"],
      ["added", "1002", "0 B", "2.0 KiB"],
      ["changed", "1", "1 B", "2 B"],
    ]);
    expect((await cli("commit", "diff", "sums", "--stat", "--limit", "1")).code).toBe(2);
  });

  test("takes commits and tags as other commands do: as buckets, and behind an @", async () => {
    const [first = "", second = ""] = await filled("master.places", ["a", "1"], ["a", "22"], ["b", "1"]);
    await ok("tag", "create", "v1", `master.places@${first}`);
    await ok("tag", "create", "v2", "master.places");
    const both = ["changed  1 B -> 2 B  a", "added    1 B         b"];
    const rows = async (...args: string[]) =>
      (await ok("commit", "diff", ...args)).trimEnd().split("\n").slice(1);
    for (const args of [
      ["places@v1", "places@v2"],
      ["s3://v1.master.places", "s3://v2.master.places"],
      ["v1.master.places", "master.places"],
      [`${first.toLowerCase()}.master.places`, "s3://places@v2"],
      ["s3://v2.master.places", "v1"],
      ["places@v1", "places"],
    ]) {
      expect(await rows(...args)).toEqual(both);
    }
    // One alone is compared with its parent.
    for (const one of [`s3://${second.toLowerCase()}.master.places`, `places@${second}`]) {
      expect(await rows(one)).toEqual(["changed  1 B -> 2 B  a"]);
    }
    expect(await rows("v2.master.places")).toEqual(["added   1 B   b"]);
    const { bucket: open } = JSON.parse(await ok("commit", "start", "s3://places", "--json"));
    await s3.put(open, "c", "1");
    expect(await rows(open)).toEqual(["added   1 B   c"]);
    for (const [args, said] of [
      [["places@v1", open], "an open commit is compared with the newest"],
      [["places@v1", "v2.master.other"], "are of two branches"],
      [["places@v1", "places@v2", "v1"], "are two already: leave 'v1' out"],
      [["v1.master.places", first, "v2"], "name the newer commit once"],
    ] as const) {
      const refused = await cli("commit", "diff", ...args);
      expect(refused).toMatchObject({ code: 2, stderr: expect.stringContaining(said) });
    }
    expect((await cli("commit", "diff", "s3://01arz3ndektsv4rrffq69g5fav.master.places")).code).toBe(7);
  });
});

describe("--message and --meta", () => {
  /** An open commit's bucket, as an address. */
  async function opened(bucket: string, ...options: string[]): Promise<string> {
    const { bucket: open } = JSON.parse(await ok("commit", "start", ...options, `s3://${bucket}`, "--json"));
    return `s3://${open}`;
  }

  test("of cp, rm and commit finish are kept with the commit, and shown where it is", async () => {
    await s3.createBucket("master.said");
    const file = join(server.data, "said.txt");
    await writeFile(file, "1");
    // A message steers no terminal.
    const said = ["--message", "Größe, not \u202esize", "--meta", "run=7", "--meta", "git=a=b"];
    await ok("cp", ...said, file, "s3://master.said/");
    await ok("cp", ...said, file, "s3://master.said/b");
    await ok("rm", "--message", "one", "s3://master.said/b");
    await ok("rm", "-r", "--message", "all", "s3://master.said");
    const open = await opened("master.said", "--meta", "run=8");
    await ok("cp", file, open);
    await ok("commit", "finish", "--message", "together", open);
    const { commits } = CommitPage.parse(await okJson("commit", "list", "master.said"));
    const first = { message: "Größe, not \u202esize", meta: { run: "7", git: "a=b" } };
    expect(commits).toMatchObject([
      { message: "together", meta: { run: "8" } },
      { message: "all", meta: {} },
      { message: "one", meta: {} },
      first,
      { ...first, key: server.accessKeyId },
    ]);
    const shown = "Größe, not \\u202esize";
    expect(await ok("commit", "list", "master.said")).toContain(
      `${server.accessKeyId}  ${shown}  run=7  git=a=b\n`,
    );
    const id = commits.at(-1)?.id ?? "";
    const lines = [
      `key       ${server.accessKeyId}`,
      `message   ${shown}`,
      "meta      run=7",
      "meta      git=a=b",
    ];
    expect(await ok("commit", "inspect", "master.said", id)).toContain(`${lines.join("\n")}\n`);
    const before = commits.at(-2)?.id ?? "";
    expect((await cli("commit", "diff", "master.said", before, id)).stderr).toBe(`${lines.join("\n")}\n`);
  });

  test("are gone from a commit that is redacted, which shows who did it and when", async () => {
    await filled("master.told", ["a", "1"]);
    const said = ["--message", "for ada@example.org", "--meta", "ticket=7"];
    await ok("rm", "s3://master.told/a", ...said);
    const commit = await s3.headCommit("master.told");
    await ok("tag", "create", "v1", "master.told");
    expect(await ok("commit", "redact", "master.told@v1")).toBe(`redacted ${commit}\n`);
    expect(await ok("commit", "redact", `s3://master.told@${commit}`)).toMatch(
      new RegExp(`^${commit} was redacted before: .* by ${server.accessKeyId}\n$`),
    );
    const by = server.accessKeyId;
    const shown = { message: null, meta: {}, redacted: { at: expect.any(Number), by } };
    expect(await okJson("commit", "redact", "master.told@v1")).toEqual({
      commit,
      redacted: shown.redacted,
      change: "none",
    });
    expect(await okJson("commit", "inspect", "master.told")).toMatchObject(shown);
    expect(await ok("commit", "inspect", "master.told")).toMatch(new RegExp(`^redacted  .* by ${by}$`, "m"));
    const list = await ok("commit", "list", "master.told");
    expect(list).toMatch(new RegExp(`\\(redacted .* by ${by}\\)`));
    expect(list).not.toContain("example.org");
    const [first] = await filled("master.silent", ["a", "1"]);
    expect(await ok("commit", "redact", `master.silent@${first}`)).toBe(
      `${first} has no message and no metadata: nothing was redacted\n`,
    );
    const unnamed = await cli("commit", "redact", "master.told");
    expect([unnamed.code, unnamed.stderr]).toEqual([2, expect.stringContaining("must name the commit")]);
  });

  test("are refused before anything is sent if no commit can keep them", async () => {
    await s3.createBucket("master.unsaid");
    const open = await opened("master.unsaid");
    const file = join(server.data, "unsaid.txt");
    await writeFile(file, "1");
    const up = [file, "s3://master.unsaid/"];
    for (const [args, text] of [
      [["cp", "--meta", "run", ...up], "<key>=<value>"],
      [["cp", "--meta", "a=1", "--meta", "a=2", ...up], "twice"],
      [["cp", "--meta", "Run=1", ...up], "lower-case"],
      [["cp", "--message", "m".repeat(2049), ...up], "2049 bytes"],
      [["cp", "--message", "a\nb", ...up], "control characters"],
      [["cp", "--message", "why", "s3://master.unsaid/a", "."], "to this machine"],
      [["cp", "--message", "why", file, open], "commit finish"],
      [["rm", "--message", "why", `${open}/a`], "commit finish"],
    ] as const) {
      const refused = await cli(...args);
      expect(refused, args.join(" ")).toMatchObject({ code: 2 });
      expect(refused.stderr).toContain(text);
    }
  });
});

describe("sluice commit inspect", () => {
  test("leads from an output file to its datum and input files, and on upstream", async () => {
    const [input] = await filled("master.photos", ["liberty.png", "1"]);
    await ran("edges", { input: "photos", path: "edges.png" });
    await ran("album", { input: "edges", path: "album.html" });
    const text = await ok("commit", "inspect", "master.album/album.html");
    expect(text).toMatch(/^branch {4}s3:\/\/master\.album$/m);
    expect(text).toMatch(/^job {7}\w{26} of album$/m);
    expect(text).toMatch(/^datum {5}[0-9a-f]{64} \(this job ran it on n1, exit code 0\)$/m);
    const [, edges = ""] =
      /^ {2}from {4}edges: s3:\/\/master\.edges\/edges\.png at (\w{26})$/m.exec(text) ?? [];
    const upstream = await ok("commit", "inspect", "s3://master.edges", edges, "--path", "edges.png");
    expect(upstream).toContain(`photos: s3://master.photos/liberty.png at ${input}\n`);

    const json = await okJson("commit", "inspect", "master.edges/edges.png");
    const detail = CommitDetail.extend({ provenance: Provenance }).parse(json);
    expect(detail).toMatchObject({
      id: edges,
      pipeline: "edges",
      inputs: [{ name: "photos", repo: "photos", branch: "master", commit: input }],
      provenance: { datums: [{ inputs: [{ path: "liberty.png", kind: "file", commit: input }] }] },
    });
    expect(await ok("commit", "inspect", "master.photos/liberty.png")).toMatch(
      /^job {7}- \(no job made it\)$/m,
    );
  });

  test("takes a commit or a tag behind @, as other commands do, with a file behind it", async () => {
    const [first = ""] = await filled("master.marks", ["in/a@2x", "1"], ["in/a@2x", "22"]);
    await ok("tag", "create", "v1", `master.marks@${first}`);
    for (const text of [`master.marks@${first}`, "s3://master.marks@v1/in/a@2x", "marks@v1"]) {
      expect(await ok("commit", "inspect", text)).toMatch(new RegExp(`^commit +${first}$`, "m"));
    }
    expect(await ok("commit", "inspect", "marks@v1/in/a@2x")).toMatch(/^file {6}in\/a@2x$/m);
    expect(await ok("commit", "inspect", "marks/in/a@2x")).not.toContain(`commit    ${first}`);
  });

  test("fails in words where the commit, or the file in it, is not there", async () => {
    await filled("master.gaps", ["a", "1"]);
    await s3.createBucket("master.bare");
    const none = await cli("commit", "inspect", "master.bare");
    expect(none).toMatchObject({ code: 7 });
    expect(none.stderr).toContain("s3://master.bare has no commit yet");
    expect((await cli("commit", "inspect", "master.gaps/b")).stderr).toContain("has no file 'b'");
    expect((await cli("commit", "inspect", "master.gaps", "01ARZ3NDEKTSV4RRFFQ69G5FAV")).code).toBe(7);
    expect(await cli("commit", "inspect", "master.gaps/a", "--path", "b")).toMatchObject({ code: 2 });
  });
});

describe("the other lists", () => {
  test("show repos with their branches", async () => {
    for (const bucket of ["master.lists", "dev.lists"]) await s3.createBucket(bucket);
    expect(await ok("repo", "list")).toMatch(/^lists +dev master$/m);
    const { repos } = RepoList.parse(await okJson("repo", "list"));
    expect(repos).toContainEqual({ name: "lists", branches: ["dev", "master"] });
    expect(await ok("branch", "list", "lists")).toMatch(/^dev +s3:\/\/dev\.lists +\d{4}-/m);
    const { branches } = BranchList.parse(await okJson("branch", "list", "lists"));
    expect(branches.map(({ name }) => name)).toEqual(["dev", "master"]);
    expect((await cli("branch", "list", "nobody")).stderr).toContain("nobody");
    expect(await cli("branch", "list", "no.body")).toMatchObject({ code: 2 });
  });

  test("show nodes and whether they live", async () => {
    await runner.heartbeat();
    expect(await ok("node", "list")).toMatch(/^n1 +live +fake +1 +- +- +\d{4}-/m);
    const { nodes } = NodeList.parse(await okJson("node", "list"));
    expect(nodes).toMatchObject([{ name: "n1", live: true }]);
  });
});

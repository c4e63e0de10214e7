// @module-tag rest
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { type ErasedSum, linesOfErased, ToldOutputs } from "../../../cli/commands/file/show-erased.ts";
import {
  type DevServer,
  sluice,
  sluiceCommand,
  sluiceEnv,
  sluiceOk,
  startDevServer,
} from "../../support/dev-server.ts";
import { S3 } from "../../support/s3.ts";
import { onTerminal } from "../../support/terminal.ts";

let server: DevServer;
let s3: S3;

beforeAll(async () => {
  server = await startDevServer();
  s3 = new S3(server);
});
afterAll(() => server?.stop());

/** Six versions of four paths under `old/`, one of which HEAD has no more and one an empty folder, and two beside it. */
async function filled(bucket: string): Promise<void> {
  await s3.createBucket(bucket);
  for (const [path, text] of [
    ["old/a", "1"],
    ["old/a", "22"],
    ["old/deep/b", "1"],
    ["old/empty/", ""],
    ["old/gone", "3"],
    ["older", "4"],
    ["new/a", "5"],
  ] as const) {
    await s3.put(bucket, path, text);
  }
  await s3.delete(bucket, "old/gone");
}

function erase(address: string, ...options: string[]) {
  return sluice(server, "file", "erase", "-r", address, "--all-versions", ...options);
}

/** The paths and kinds of what a branch keeps. */
async function versions(bucket: string): Promise<string[]> {
  const { text } = await s3.ask("GET", `/${bucket}?versions`);
  return [...text.matchAll(/<(Version|DeleteMarker)><Key>([^<]*)/g)].map(([, kind, key]) => `${kind} ${key}`);
}

const UNDER_OLD = [
  "Version old/a",
  "Version old/a",
  "Version old/deep/b",
  "Version old/empty/",
  "DeleteMarker old/gone",
  "Version old/gone",
];
const BESIDE = ["Version new/a", "Version older"];

const erasedLines = (text: string): Record<string, unknown>[] =>
  text
    .trimEnd()
    .split("\n")
    .map((line) => JSON.parse(line));

test("what was computed from many files is named once, not with each of them", () => {
  const told = new ToldOutputs();
  const of = (path: string, ...outputs: string[]) =>
    linesOfErased({ bucket: "master.sales" }, erasedOf(path, outputs), told).slice(1);
  const heading = "and still there unless erased as well";
  expect(of("a", "a.txt", "total")).toEqual([
    `computed from it, ${heading}`,
    "  s3://master.stats/a.txt at c (job j)",
    "  s3://master.stats/total at c (job j)",
  ]);
  expect(of("b", "b.txt", "total")).toEqual([
    `computed from it, beside what is named above, ${heading}`,
    "  s3://master.stats/b.txt at c (job j)",
  ]);
  expect(of("c", "total")).toEqual(["what was computed from it is named above"]);
  expect(of("d")).toEqual([]);
});

/** An erasure of one version, from which these were computed. */
function erasedOf(path: string, outputs: readonly string[]): ErasedSum {
  const computed = outputs.map((output) => ({ bucket: "master.stats", path: output, commit: "c", job: "j" }));
  return { path, versions: 1, commit: "k", forks: new Map(), stays: [], outputs: computed };
}

describe("sluice file erase -r", () => {
  test("lists what would go, and then erases it, also what HEAD has no more, and nothing beside it", async () => {
    const bucket = "master.under";
    await filled(bucket);
    const dry = await erase(`s3://${bucket}/old`, "--dry-run");
    expect(dry).toMatchObject({ code: 0, stderr: "6 versions of 4 files would go\n" });
    const rows = dry.stdout.toString().trimEnd().split("\n");
    expect(rows.map((row) => row.replace(/^.{26} +(\S+) {2}\S{26} {2}(.{7}) {2}/, "$1 $2 "))).toEqual([
      "2 current old/a",
      "1         old/a",
      "1 current old/deep/b",
      "0 current old/empty/",
      "deleted current old/gone",
      "1         old/gone",
    ]);
    expect(await versions(bucket)).toEqual([...BESIDE.slice(0, 1), ...UNDER_OLD, ...BESIDE.slice(1)]);

    const head = await s3.headCommit(bucket);
    await sluiceOk(server, "tag", "create", "v1", bucket);
    const done = await erase(`s3://${bucket}/old/`, "--yes");
    expect(done).toMatchObject({ code: 0, stderr: "" });
    const lines = done.stdout.toString().trimEnd().split("\n");
    expect(lines.map((line) => line.replace(/01\w{24}$/, "ID"))).toEqual([
      `erased 2 versions of s3://${bucket}/old/a: commit ID`,
      `erased 1 version of s3://${bucket}/old/deep/b: commit ID`,
      `erased 1 version of s3://${bucket}/old/empty/: commit ID`,
      `erased 2 versions of s3://${bucket}/old/gone`,
      "erased 6 versions in all",
    ]);
    expect(await versions(bucket)).toEqual(BESIDE);
    expect(await s3.keys(`v1.${bucket}`)).toEqual(["new/a", "older"]);
    expect(await s3.headCommit(bucket)).not.toBe(head);

    const again = await erase(`s3://${bucket}/old/`, "--yes");
    expect(again).toMatchObject({ code: 7, stderr: expect.stringContaining("no version of any file is at") });
  });

  test("asks on a terminal, and takes nothing but a yes for one", async () => {
    const bucket = "master.asked";
    await filled(bucket);
    const args = ["file", "erase", "-r", `s3://${bucket}/old`, "--all-versions"];
    const question = "erase 6 versions of 4 files for good? [y/N] ";
    for (const [keys, code] of [
      ["\n", 1],
      ["\u0004", 1],
      ["yes\n", 0],
    ] as const) {
      const terminal = onTerminal(sluiceCommand(args), { env: sluiceEnv(server) });
      await terminal.shows(question);
      expect(terminal.screen()).toContain("old/deep/b");
      expect(await versions(bucket)).toHaveLength(8);
      terminal.type(keys);
      expect(await terminal.ended).toBe(code);
      expect(terminal.screen()).toContain(code === 0 ? "erased 6 versions in all" : "nothing was erased");
    }
    expect(await versions(bucket)).toEqual(BESIDE);
  });

  test("is refused if nobody can be asked, or a version of each would come back, and says what to type", async () => {
    const bucket = "master.refused";
    await filled(bucket);
    const address = `s3://${bucket}/old`;
    for (const [args, said] of [
      [["-r", address, "--all-versions"], `'sluice file erase -r ${address} --all-versions --dry-run'`],
      [["-r", address, "--all-versions", "--json"], "with --json nobody is asked"],
      [["-r", address], "-r needs --all-versions"],
      [["-r", address, "--yes", "--version-id", "x"], "-r needs --all-versions"],
      [[`${address}/a`, "--all-versions", "--dry-run"], "--dry-run and --yes go with -r"],
      [["-r", `s3://v1.${bucket}`, "--all-versions", "--yes"], "is no branch of its own"],
    ] as const) {
      const ended = await sluice(server, "file", "erase", ...args);
      expect(ended).toMatchObject({ code: 2, stderr: expect.stringContaining(said) });
    }
    expect(await versions(bucket)).toHaveLength(8);
  });

  test("leaves what is written after the list was shown, and names it at the end", async () => {
    const bucket = "master.meanwhile";
    await filled(bucket);
    const args = ["file", "erase", "-r", `s3://${bucket}/old`, "--all-versions"];
    const terminal = onTerminal(sluiceCommand(args), { env: sluiceEnv(server) });
    await terminal.shows("for good? [y/N] ");
    await s3.put(bucket, "old/a", "later");
    await s3.put(bucket, "old/new", "later");
    terminal.type("y\n");
    expect(await terminal.ended).toBe(0);
    const [, told = ""] = terminal.screen().split("written meanwhile, and still there\r\n");
    expect(told).toMatch(
      /^.* 5 {2}\S{26} {2}current {2}old\/a\r\n.* 5 {2}\S{26} {2}current {2}old\/new\r\n$/,
    );
    expect(await versions(bucket)).toEqual([
      "Version new/a",
      "Version old/a",
      "Version old/new",
      "Version older",
    ]);
    expect((await s3.get(bucket, "old/a"))?.toString()).toBe("later");
  });

  test("stops at a copy in a fork, goes on with --forks, and tells each version as JSON", async () => {
    const bucket = "master.forked";
    await filled(bucket);
    await sluiceOk(server, "branch", "create", "try.forked", "--from", bucket);
    // What was erased before the command was stopped is not in the next list.
    await sluiceOk(server, "file", "erase", `s3://${bucket}/old/gone`, "--all-versions");
    const held = await erase(`s3://${bucket}/old`, "--yes");
    expect(held).toMatchObject({ code: 1, stderr: expect.stringMatching(/^erased \d of 4 versions/) });
    const [first] = erasedLines((await erase(`s3://${bucket}/old`, "--dry-run", "--json")).stdout.toString());
    expect(first).toMatchObject({ path: "old/a", kind: "version", current: true, size: 2 });
    const done = await erase(`s3://${bucket}/old`, "--yes", "--forks", "--json");
    expect(done.code).toBe(0);
    const answers = erasedLines(done.stdout.toString());
    // The same bytes are at two paths of the list: neither is told to stay.
    expect(answers.filter(({ path }) => path === "old/a").at(-1)).toMatchObject({
      stays: [],
      forks: [{ bucket: "try.forked" }],
    });
    expect(await versions(bucket)).toEqual(BESIDE);
    expect(await s3.keys("try.forked")).toEqual(["new/a", "older"]);
  });
});

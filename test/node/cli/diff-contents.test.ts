// @module-tag rest
import { readdirSync, readlinkSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import {
  type DevServer,
  sluice,
  sluiceCommand,
  sluiceEnv,
  startDevServer,
} from "../../support/dev-server.ts";
import { eventually } from "../../support/eventually.ts";
import { type Ended, mustRun, run, start } from "../../support/processes.ts";
import { S3 } from "../../support/s3.ts";
import { removeScratch, scratchFolder } from "../../support/scratch.ts";
import { StoreProxy } from "../../support/store-proxy.ts";

let server: DevServer;
let s3: S3;
let scratch: string;

beforeAll(async () => {
  server = await startDevServer();
  s3 = new S3(server);
  scratch = scratchFolder();
});
afterAll(async () => {
  await server?.stop();
  if (scratch) removeScratch(scratch);
});

type Files = Readonly<Record<string, string | Buffer | null>>;

/** A repo with these files under the tag v1, and then those at HEAD; null deletes. */
async function twice(repo: string, before: Files, after: Files): Promise<void> {
  const bucket = `master.${repo}`;
  await s3.createBucket(bucket);
  await s3.put(bucket, "other", "");
  const put = async (files: Files) => {
    for (const [path, text] of Object.entries(files)) {
      await (text === null ? s3.delete(bucket, path) : s3.put(bucket, path, text));
    }
  };
  await put(before);
  await sluice(server, "tag", "create", "v1", repo);
  await put(after);
}

async function ended(
  running: Promise<Ended>,
): Promise<{ code: number | null; stdout: string; stderr: string }> {
  const { code, stdout, stderr } = await running;
  return { code, stdout: stdout.toString(), stderr };
}

function diff(repo: string, ...options: string[]) {
  return ended(sluice(server, "commit", "diff", `${repo}@v1`, repo, ...options));
}

async function lines(repo: string, ...options: string[]): Promise<string[]> {
  const { code, stdout, stderr } = await diff(repo, ...options);
  if (code !== 0) throw new Error(stderr);
  return stdout.split("\n").slice(0, -1);
}

/** Lines of numbers, with others in place of some. */
function numbered(count: number, others: Readonly<Record<number, string>> = {}): string {
  return Array.from({ length: count }, (_, index) => `${others[index + 1] ?? index + 1}\n`).join("");
}

describe("sluice commit diff --text", () => {
  test("is a patch that makes the later files of the earlier ones, and names binary files", async () => {
    const before = {
      "a/changed": numbered(40),
      "a/crlf": "one\r\ntwo\r\n",
      "a/end": "1\n2",
      "a/gone": "gone\n",
      "a/rewritten": numbered(4000),
    };
    const after = {
      "a/added": "new\n\u001b[2J\n",
      "a/changed": numbered(40, { 3: "three", 39: "" }),
      "a/crlf": "one\r\n2\r\n",
      "a/end": "1\n2\n",
      "a/gone": null,
      "a/rewritten": numbered(4000).replaceAll("\n", "!\n"),
    };
    await twice("patched", before, { ...after, bin: Buffer.from([97, 0, 98]), latin: Buffer.from([0xe9]) });
    const { stdout, code } = await diff("patched", "--text", "--path", "a");
    expect(code).toBe(0);
    expect(stdout).toContain("--- a/a/changed\n+++ b/a/changed\n@@ -1,6 +1,6 @@\n 1\n 2\n-3\n+three\n 4\n");
    const folder = join(scratch, "patched");
    await mustRun(["mkdir", "-p", join(folder, "a")]);
    for (const [path, text] of Object.entries(before)) writeFileSync(join(folder, path), text);
    writeFileSync(join(scratch, "patch"), stdout);
    await mustRun(["patch", "--binary", "-p1", "-d", folder, "-i", join(scratch, "patch")]);
    for (const [path, text] of Object.entries(after)) {
      const [found] = text === null ? [""] : [await mustRun(["cat", join(folder, path)])];
      expect(found, path).toBe(text ?? "");
    }
    expect(readdirSync(join(folder, "a"))).not.toContain("gone");
    expect((await lines("patched", "--text")).slice(-2)).toEqual([
      "Binary files /dev/null and b/bin differ",
      "Binary files /dev/null and b/latin differ",
    ]);
  });

  test("of large files compares what lies between the first difference and the last, and says if that is too much", async () => {
    const many = numbered(2_000_000);
    await twice(
      "large",
      { log: many, "log.2": many },
      { log: `${many}last\n`, "log.2": many.replace("1\n2\n", "1\n\n").replace("\n1999999\n", "\n\n") },
    );
    const env = { ...sluiceEnv(server), NODE_OPTIONS: "--max-old-space-size=56" };
    const command = sluiceCommand(["commit", "diff", "large@v1", "large", "--text"]);
    const { stdout, code } = await ended(run(command, { env }));
    expect(code).toBe(0);
    expect(stdout.split("\n")).toEqual([
      "--- a/log",
      "+++ b/log",
      "@@ -1999998,3 +1999998,4 @@",
      ...[" 1999998", " 1999999", " 2000000", "+last"],
      "Files a/log.2 and b/log.2 differ in more than 4.0 MiB from line 1 on: not compared by line",
      "",
    ]);
  });

  test.each(["binary", "too-large"])("takes a file that says '%s' for the text that it is", async (word) => {
    await twice(`says-${word}`, { t: "text" }, { t: word });
    const end = "\\ No newline at end of file";
    expect(await lines(`says-${word}`, "--text")).toEqual([
      ...["--- a/t", "+++ b/t", "@@ -1,1 +1,1 @@"],
      ...["-text", end, `+${word}`, end],
    ]);
  });

  test("of an open commit shows what it would change", async () => {
    await twice("opened", { t: "1\n" }, {});
    const { stdout } = await ended(sluice(server, "commit", "start", "s3://opened", "--json"));
    const { bucket } = JSON.parse(stdout);
    await s3.put(bucket, "t", "2\n");
    const shown = await ended(sluice(server, "commit", "diff", bucket, "--text"));
    expect(shown.stdout).toBe("--- a/t\n+++ b/t\n@@ -1,1 +1,1 @@\n-1\n+2\n");
  });
});

describe("sluice commit diff --csv", () => {
  const EARLIER = "id,day,price\n1,mon,3\n2,tue,4\n3,wed,5\n";

  test("tells rows apart by their key, whatever their order, and tells columns, quotes, CRLF and a mark of UTF-8", async () => {
    const later = '\ufeffday,id,price,note\r\nthu,4,1,"x ""y"", z"\r\ntue,2,9,\r\nmon,1,3,\r\n';
    await twice("rows", { "p.csv": EARLIER, "q.tsv": "id\tv\n1\ta,b\n", t: "1" }, { "p.csv": later, t: "2" });
    expect(await lines("rows", "--csv", "id")).toEqual([
      "p.csv",
      "columns added: note",
      "~ 2  price: 4 -> 9",
      "- 3,wed,5",
      '+ 4,thu,1,"x ""y"", z"',
      "1 added, 1 removed, 1 changed",
    ]);
    expect(await lines("rows", "--csv", "id,day", "--stat")).toEqual([
      "p.csv: 1 added, 1 removed, 1 changed",
      "  columns added: note",
    ]);
    const json = (await lines("rows", "--csv", "id", "--json")).map((line) => JSON.parse(line));
    expect(json.slice(1)).toEqual([
      { path: "p.csv", change: "removed", before: { id: "3", day: "wed", price: "5" }, after: null },
      {
        ...{ path: "p.csv", change: "added", before: null },
        after: { id: "4", day: "thu", price: "1", note: 'x "y", z' },
      },
      {
        path: "p.csv",
        columns: { added: ["note"], removed: [] },
        rows: { added: 1, removed: 1, changed: 1, repeatedKeys: 0 },
      },
    ]);
    // Without a key a row is itself alone.
    expect((await lines("rows", "--csv")).slice(-1)).toEqual(["2 added, 2 removed"]);
    const { stderr } = await diff("rows", "--csv");
    expect(stderr).toBe("1 file left out: no .csv or .tsv. --path takes one by its name, --text all\n");
  });

  test("compares rows of a key that several have whole, and says how many such keys there are", async () => {
    const rows = (...texts: string[]) => ["id,v", ...texts, ""].join("\n");
    await twice(
      "repeated",
      { "a.csv": rows("1,a", "1,b", "1,b", "2,x", "3,y"), "b.csv": rows("1,a", "1,a", "2,b") },
      { "a.csv": rows("1,b", "1,c", "2,z", "3,y"), "b.csv": rows("2,b", "1,a", "3,c") },
    );
    expect(await lines("repeated", "--csv", "id", "--path", "a.csv")).toEqual([
      "a.csv",
      ...["- 1,a", "- 1,b", "+ 1,c", "~ 2  v: x -> z"],
      "1 added, 2 removed, 1 changed",
      "keys of several rows, which are compared whole: 1",
    ]);
    expect(await lines("repeated", "--path", "b.csv", "--csv")).toEqual([
      ...["b.csv", "- 1,a", "+ 3,c", "1 added, 1 removed"],
    ]);
  });

  test("names each file that it can't compare, with the columns that are there, and compares the others", async () => {
    await twice(
      "faulty",
      { "a.csv": "x,y\n1,2\n", "b.csv": EARLIER, "c.csv": EARLIER, "d.csv": EARLIER },
      {
        "a.csv": "x,y\n1,3\n",
        "b.csv": `${EARLIER}4\n`,
        "c.csv": `${EARLIER}4,"thu,1\n5,fri,2\n`,
        "d.csv": `${EARLIER}4,thu,6\n`,
      },
    );
    const { code, stdout, stderr } = await diff("faulty", "--csv", "id");
    expect({ code, stdout: stdout.split("\n"), stderr: stderr.split("\n") }).toEqual({
      code: 1,
      stdout: ["d.csv", "+ 4,thu,6", "1 added, 0 removed, 0 changed", ""],
      stderr: [
        "error: 3 of 4 files can't be compared by rows",
        '  a.csv: the earlier side has no column "id": there are "x", "y"',
        "  b.csv: row 5 is no CSV: it has 1 fields, and the header 3",
        "  c.csv: row 5 is no CSV: Quoted field unterminated",
        "",
      ],
    });
    for (const [options, said] of [
      [["--csv", "id,"], "name columns with commas between"],
      [["--csv", "id", "--limit", "1"], "cannot be used with"],
      [["--text", "--csv"], "cannot be used with"],
      [["--path", "a.csv"], "--path is for --text and --csv"],
    ] as const) {
      expect(await diff("faulty", ...options)).toMatchObject({
        code: 2,
        stderr: expect.stringContaining(said),
      });
    }
  });

  test("sorts on disk what is larger than its memory", async () => {
    const rows = Array.from(
      { length: 600_000 },
      (_, id) => `${id},"a text, of ${id}",2026-11-25,${id % 97}\n`,
    );
    const head = "id,text,day,value\n";
    const later = rows.toReversed().map((row, at) => (at === 5 ? row.replace("2026", "2027") : row));
    later.splice(100_000, 1);
    await twice("big", { "t.csv": head + rows.join("") }, { "t.csv": head + later.join("") });
    const env = { ...sluiceEnv(server), NODE_OPTIONS: "--max-old-space-size=80" };
    const command = sluiceCommand(["commit", "diff", "big@v1", "big", "--csv", "id"]);
    const { code, stdout } = await ended(run(command, { env }));
    expect({ code, lines: stdout.split("\n").slice(0, -1) }).toEqual({
      code: 0,
      lines: [
        "t.csv",
        '- 499999,"a text, of 499999",2026-11-25,61',
        "~ 599994  day: 2026-11-25 -> 2027-11-25",
        "0 added, 1 removed, 1 changed",
      ],
    });
  });
});

test("temporary files have no name, so that nothing is left of them when a signal ends the command", async () => {
  await twice("left", { t: "1\n" }, { t: "2\n" });
  const proxy = new StoreProxy(server.endpoint);
  await proxy.start();
  const folder = scratchFolder();
  try {
    const isFile = (target: string) => target.endsWith(".master.left/t");
    proxy.trouble = ({ target }) => (isFile(target) ? "silence" : undefined);
    const env = { ...sluiceEnv({ ...server, endpoint: proxy.endpoint }), TMPDIR: folder };
    const command = start(sluiceCommand(["commit", "diff", "left@v1", "left", "--text"]), { env });
    await eventually("a side is asked for", async () => proxy.requests.some(({ target }) => isFile(target)));
    const descriptors = readdirSync(`/proc/${command.pid}/fd`).map((fd) => {
      try {
        return readlinkSync(`/proc/${command.pid}/fd/${fd}`);
      } catch {
        return "";
      }
    });
    expect(descriptors.filter((path) => path.startsWith(folder) && path.endsWith(" (deleted)"))).toHaveLength(
      2,
    );
    expect(readdirSync(folder)).toEqual([]);
    command.signal("SIGTERM");
    expect(await command.ended).toMatchObject({ signal: "SIGTERM" });
    expect(readdirSync(folder)).toEqual([]);
  } finally {
    await proxy.stop();
    removeScratch(folder);
  }
});

// @module-tag rest
import { mkdirSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { gzipSync } from "node:zlib";
import type { Page, Request } from "playwright-core";
import { afterAll, afterEach, describe, expect, test } from "vitest";
import { z } from "zod";
import { ImportBegun, ImportedPage, ImportFinished } from "../../../protocol/archives.ts";
import { CommitPage, CommitRedacted } from "../../../protocol/commits.ts";
import { SessionPage } from "../../../protocol/files.ts";
import { KeyCreated } from "../../../protocol/keys.ts";
import { BranchDetail, BranchEmptyOnly, BranchList } from "../../../protocol/repos.ts";
import { soundArchive } from "../../support/archive-cases.ts";
import { faultsOf, HAS_CHROMIUM, logInAt, passSeconds, type TestBrowser } from "../../support/browser.ts";
import { setStage } from "../../support/console.ts";
import type { Control } from "../../support/control.ts";
import type { DevServer } from "../../support/dev-server.ts";
import { eventually } from "../../support/eventually.ts";
import { signedExchange } from "../../support/http.ts";
import { objectTarget, type S3 } from "../../support/s3.ts";
import { removeScratch, scratchFolder } from "../../support/scratch.ts";

/** What would mark the page if it was taken for a script, or for HTML. */
const TAKE = "globalThis.taken=true;document.title='taken'";
const MARKUP = `<img src=x onerror="${TAKE}">.txt`;
/** A name with everything that an address gives a meaning to. */
const ODD = "50%25 off + ünï #1?&=é.txt";

const PNG = Buffer.from(
  "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg==",
  "base64",
);
const SVG = `<svg xmlns="http://www.w3.org/2000/svg" width="40" height="40" onload="${TAKE}"><script>${TAKE}</script><circle r="20"/></svg>`;

let server: DevServer;
let control: Control;
let s3: S3;
let browser: TestBrowser;
let folder: string;
/** The one that a test looks at. */
let page: Page;
/** The one that most tests go on with: a login is most of what a short one costs. */
let shared: Page | undefined;
/** Requests to the gateway since the page was opened. */
let asked: Request[];

/** Commits of `master.letters`: the first, and the one that wrote a.txt again. */
let first: string;
let second: string;

afterAll(() => {
  if (folder) removeScratch(folder);
});

setStage({
  node: "edge-1",
  async begin(stage) {
    ({ server, control, s3, browser } = stage);
    folder = scratchFolder();
    await s3.createBucket("master.letters");
    ({ version: first } = await s3.put("master.letters", "a.txt", "alpha"));
    await s3.put("master.letters", "b.txt", "beta");
    await control.createPipeline({
      pipeline: { name: "capitals" },
      transform: {
        image: "busybox",
        cmd: ["sh", "-c", "cd /pfs/letters; for f in *; do tr a-z A-Z < $f > /pfs/out/$f.up; done"],
      },
      inputs: [{ repo: { name: "letters" }, glob: "/*" }],
    });
    await control.ended("capitals", { count: 1 });
    ({ version: second } = await s3.put("master.letters", "a.txt", "aleph"));
    await control.ended("capitals", { count: 2 });

    await s3.createBucket("master.stuff");
    const csv = `name,said\nadam,"a, ""b""\nand c"\neva,none\n`;
    const lines = Array.from({ length: 40_000 }, (_, n) => `line ${n}`).join("\n");
    const files: Record<string, Buffer | string> = {
      "in/deep/er.txt": "deep",
      "table.csv": csv,
      "list.json": JSON.stringify([
        { name: "adam", age: 1 },
        { name: "eva", tall: true },
      ]),
      "lines.jsonl": `{"a":1}\n{"a":2,"b":"x"}\n`,
      "dot.png": PNG,
      "drawing.svg": SVG,
      "page.html": `<!doctype html><script>${TAKE}</script><img src=x onerror="${TAKE}"><h1>not shown as HTML</h1>`,
      "tone.wav": wav(),
      "packed.txt.gz": gzipSync("packed words"),
      "long.txt": lines,
      "empty.txt": "",
      "bytes.bin": Buffer.from([0, 1, 2, 3, 255]),
      [ODD]: "odd",
      [MARKUP]: "marked up",
    };
    for (const [key, body] of Object.entries(files)) await s3.put("master.stuff", key, body);
  },
});

afterEach(async () => {
  if (page === shared) await page?.unrouteAll();
  else await page?.close();
});

async function openPage(): Promise<Page> {
  const opened = await browser.context.newPage();
  page = opened;
  asked = [];
  opened.on("request", (request) => {
    // Another one may be open, which asks on.
    if (opened === page) asked.push(request);
  });
  return opened;
}

/** A page of its own, which asks for the key before it shows what was asked for. */
async function logIn(path: string): Promise<void> {
  if (page === undefined || page === shared || page.isClosed()) await openPage();
  await logInAt(page, server, path);
}

/** The page that is logged in, at a path: as a link in it would go there. */
async function visit(path: string): Promise<void> {
  if (!shared) {
    await logIn("/repos");
    shared = page;
  }
  page = shared;
  asked = [];
  await page.setViewportSize({ width: 1280, height: 900 });
  await page.evaluate((to) => history.pushState(null, "", to), `/console${path}`);
}

function fileAt(bucket: string, path: string, at?: string): string {
  const [branch, repo] = bucket.split(".");
  return `/repos/${repo}/${branch}/file?${new URLSearchParams({ path, ...(at && { at }) })}`;
}

/** The login, and what a test itself asks in a page. */
const NOT_DATA: ReadonlySet<string> = new Set(["/api/v1/console/sessions", "/healthz"]);

/** What was asked of the gateway for data. */
function calls(): string[] {
  return asked
    .map((request) => new URL(request.url()))
    .filter(({ pathname }) => !pathname.startsWith("/console") && !NOT_DATA.has(pathname))
    .map(({ pathname, search }) => pathname + search);
}

async function historyOf(repo: string, branch = "master"): Promise<CommitPage["commits"]> {
  const path = `/repos/${repo}/branches/${branch}/commits`;
  return (await control.call("GET", path, { answers: CommitPage })).commits;
}

/** A tenth of a second of silence. */
function wav(): Buffer {
  const data = Buffer.alloc(800, 128);
  const head = Buffer.alloc(44);
  head.write("RIFF", 0);
  head.writeUInt32LE(36 + data.length, 4);
  head.write("WAVEfmt ", 8);
  head.writeUInt32LE(16, 16);
  head.writeUInt16LE(1, 20);
  head.writeUInt16LE(1, 22);
  head.writeUInt32LE(8000, 24);
  head.writeUInt32LE(8000, 28);
  head.writeUInt16LE(1, 32);
  head.writeUInt16LE(8, 34);
  head.write("data", 36);
  head.writeUInt32LE(data.length, 40);
  return Buffer.concat([head, data]);
}

/** Makes a repo of one commit of more files than a page shows: f000 to f500. Returns the commit. */
async function manyFiles(repo: string): Promise<string> {
  await s3.createBucket(`master.${repo}`);
  const upload = await control.openUpload(repo);
  const operations = Array.from({ length: 501 }, (_, n) => ({
    put: `f${String(n).padStart(3, "0")}`,
    ...{ digest: "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855", size: 0 },
  }));
  await control.addInlineContents(upload, [{ digest: operations[0]?.digest ?? "", size: 0, bytes: "" }]);
  return (await control.commit(repo, upload, operations)) ?? "";
}

const preview = () => page.getByRole("region", { name: "Preview" });

describe.skipIf(!HAS_CHROMIUM)("repos", () => {
  test("are listed with their branches, and a bucket is made there", async () => {
    await logIn("/repos");
    const row = page.getByRole("row", { name: "letters" });
    await row.getByRole("link", { name: "master" }).waitFor();
    await row.getByText("9 B").waitFor();
    expect(new Set(calls().map((call) => call.split("?")[0]))).toEqual(
      new Set(["/api/v1/repos", "/api/v1/repos/sums"]),
    );
    await page.getByLabel("Repo", { exact: true }).fill("fresh");
    await page.getByRole("button", { name: "Make it" }).click();
    await page.getByRole("heading", { level: 1, name: "master.fresh" }).waitFor();
    await page.getByText("The branch is empty.", { exact: false }).waitFor();
    expect(await s3.buckets()).toContain("master.fresh");
  });

  test("say how many files each has, when it changed, what makes it and whether it is public or protected", async () => {
    await s3.createBucket("master.shown");
    await s3.put("master.shown", "a", "12345");
    await control.call("PUT", "/repos/shown/branches/master/public", {
      body: { public: true },
      answers: z.unknown(),
    });
    const writer = { key: server.accessKeyId };
    await control.call("PUT", "/repos/shown/branches/master/writer", {
      body: { writer },
      answers: z.unknown(),
    });
    await visit("/repos");
    await page.getByLabel("Find by name").fill("shown");
    const row = page.getByRole("row", { name: "shown" });
    await row.getByText("5 B").waitFor();
    for (const words of ["public", "protected"]) await row.getByText(words, { exact: true }).waitFor();
    expect(await row.locator("time").count()).toBe(1);
    // What is typed finds branches, too, and leaves out the others.
    expect(await page.getByRole("row", { name: "letters" }).count()).toBe(0);
    await page.getByLabel("Find by name").fill("capit");
    const made = page.getByRole("row", { name: "capitals" });
    await made.getByText("made by").getByRole("link", { name: "capitals" }).waitFor();
    expect(await made.getByText("public", { exact: true }).count()).toBe(0);
  });

  test("are summed up for the rows in view alone, fifty in one call, and once a minute", async () => {
    const names = Array.from({ length: 60 }, (_, n) => `zz-${String(n).padStart(2, "0")}`);
    for (const name of names) await s3.createBucket(`master.${name}`);
    await openPage();
    await page.clock.install();
    await logIn("/repos");
    await page.getByLabel("Find by name").fill("zz-");
    const row = (name: string) => page.getByRole("row", { name });
    await row("zz-49").getByText("none yet").waitFor();
    expect(await row("zz-50").count()).toBe(0);
    const asks = () => calls().filter((call) => call.startsWith("/api/v1/repos/sums"));
    const bucketsOf = (call: string | undefined) =>
      new URLSearchParams(call?.split("?")[1]).get("buckets")?.split(",");
    for (const call of asks()) expect(bucketsOf(call)?.length).toBeLessThanOrEqual(50);
    const before = asks().length;
    await passSeconds(page, 40);
    expect(asks().length).toBe(before);
    await page.getByRole("button", { name: "More", exact: true }).click();
    await row("zz-59").getByText("none yet").waitFor();
    expect(bucketsOf(asks().at(-1))).toEqual(names.slice(50).map((name) => `master.${name}`));
    // Whoever leaves and comes back asks for nothing that is known, until the minute is over.
    await page
      .getByRole("navigation", { name: "Pages", exact: true })
      .getByRole("link", { name: "Keys" })
      .click();
    await page.getByRole("heading", { level: 1, name: "Keys" }).waitFor();
    const known = asks().length;
    await page.goBack();
    await page.getByLabel("Find by name").fill("zz-0");
    await row("zz-00").getByText("none yet").waitFor();
    await passSeconds(page, 2);
    expect(asks().length).toBe(known);
    await passSeconds(page, 60);
    expect(asks().length).toBeGreaterThan(known);
  });

  test("show their branches, tags and what they take up", async () => {
    await logIn("/repos/letters");
    await page.getByRole("region", { name: "Usage" }).getByRole("row", { name: "master" }).waitFor();
    const first = new Set(calls().map((call) => call.split("?")[0]));
    expect(first).toEqual(
      new Set([
        "/api/v1/repos/letters/branches",
        "/api/v1/repos/letters/tags",
        "/api/v1/repos/letters/usage",
      ]),
    );
    await page.getByRole("button", { name: "Count files and history" }).click();
    await page.getByText("in 2 files").waitFor();
  });
});

describe.skipIf(!HAS_CHROMIUM)("a folder", () => {
  test("is walked down and up, and what somebody else puts into it comes by itself", async () => {
    await s3.createBucket("master.walk");
    await s3.put("master.walk", "in/deep/er.txt", "deep");
    await visit("/repos/walk/master");
    await page.getByRole("link", { name: "in/" }).click();
    await page.getByRole("link", { name: "deep/" }).click();
    await page.getByRole("heading", { level: 1, name: "deep" }).waitFor();
    await page.getByRole("link", { name: "er.txt" }).waitFor();
    // Who uses keys goes on from the top of what came.
    expect(await page.evaluate(() => document.activeElement?.id)).toBe("page");
    await s3.put("master.walk", "in/deep/new.txt", "new");
    await page.getByRole("link", { name: "new.txt" }).waitFor();
    await page.getByRole("navigation", { name: "Where this is" }).getByRole("link", { name: "in" }).click();
    await page.getByRole("heading", { level: 1, name: "in" }).waitFor();
    expect(page.url()).toBe(`${server.endpoint}/console/repos/walk/master?in=in%2F`);
  });

  test("of more files than fit a page shows the rest when asked", async () => {
    await manyFiles("many");
    await visit("/repos/many/master");
    await page.getByRole("link", { name: "f499" }).waitFor();
    expect(await page.getByRole("link", { name: "f500" }).count()).toBe(0);
    await page.getByRole("button", { name: "More", exact: true }).click();
    await page.getByRole("link", { name: "f500" }).waitFor();
  });

  test("shows of each file when it was last changed itself, and is sorted by that, by size and by name", async () => {
    await s3.createBucket("master.sorted");
    for (const [key, body] of [
      ["old", "333"],
      ["mid", "1"],
      ["new", "22"],
      ["sub/x", "x"],
    ] as const)
      await s3.put("master.sorted", key, body);
    await visit("/repos/sorted/master");
    const names = () => page.locator(".folder td.name").allInnerTexts();
    await page.getByRole("link", { name: "old" }).waitFor();
    expect(await names()).toEqual(["sub/", "mid", "new", "old"]);
    const times = await page
      .locator(".folder time")
      .evaluateAll((all) => all.map((time) => time.getAttribute("datetime")));
    expect(new Set(times).size).toBe(3);
    const press = (name: string) => page.getByRole("columnheader", { name }).getByRole("button").click();
    await press("Size");
    expect(await names()).toEqual(["sub/", "old", "new", "mid"]);
    await page.locator("th[aria-sort=descending]").filter({ hasText: "Size" }).waitFor();
    await press("Size");
    expect(await names()).toEqual(["sub/", "mid", "new", "old"]);
    await press("Changed");
    expect(await names()).toEqual(["sub/", "new", "mid", "old"]);
    await press("Name");
    expect(await names()).toEqual(["sub/", "mid", "new", "old"]);
    expect(calls().filter((call) => call.includes("/files?")).length).toBe(1);
  });

  test("of more files than fit a page is sorted as a whole", async () => {
    await manyFiles("whole");
    await s3.put("master.whole", "f250", "largest");
    await visit("/repos/whole/master");
    await page.getByRole("link", { name: "f499" }).waitFor();
    await page.getByRole("columnheader", { name: "Size" }).getByRole("button").click();
    await page.locator(".folder tbody tr").first().filter({ hasText: "f250" }).waitFor();
    await page.getByRole("columnheader", { name: "Name" }).getByRole("button").click();
    await page.getByRole("columnheader", { name: "Name" }).getByRole("button").click();
    await page.locator(".folder tbody tr").first().filter({ hasText: "f500" }).waitFor();
    expect(await page.getByRole("link", { name: "f000" }).count()).toBe(0);
    await page.getByRole("button", { name: "More", exact: true }).click();
    await page.getByRole("link", { name: "f000" }).waitFor();
  });

  test("of more than 10,000 entries is shown by name, whatever order is wanted, and says so", async () => {
    await manyFiles("longer");
    await visit("/repos/longer/master");
    await page.getByRole("link", { name: "f499" }).waitFor();
    // Pages without end, as of a folder that nobody reads to its end.
    let pages = 0;
    await page.route("**/files?*", (route) => {
      const files = Array.from({ length: 1000 }, (_, n) => {
        return { path: `z${pages}-${n}`, size: n, digest: "0".repeat(64), modifiedAt: 1 };
      });
      return route.fulfill({ json: { files, folders: [], next: `z${pages++}-999` } });
    });
    await page.getByRole("columnheader", { name: "Size" }).getByRole("button").click();
    await page.getByText("More than 10,000 entries are in it: they are shown by name alone.").waitFor();
    expect(pages).toBe(10);
    expect(await page.locator(".folder tbody tr").first().innerText()).toContain("f000");
  });

  test("is shown as a commit had it, by the picker and by a link that survives the login", async () => {
    await visit("/repos/letters/master");
    await page.getByRole("link", { name: "b.txt" }).waitFor();
    expect(new Set(calls()).size).toBeLessThanOrEqual(3);
    await page.getByRole("button", { name: "Look at another commit" }).click();
    const dialog = page.getByRole("dialog");
    // What each commit changed tells it from the others.
    await dialog.getByText("a.txt · changed, ±0 B", { exact: false }).waitFor();
    await dialog.getByRole("button", { name: first.slice(-6) }).click();
    await page.getByText("This is what was there at the commit", { exact: false }).waitFor();
    await page.getByRole("link", { name: "a.txt" }).waitFor();
    expect(await page.getByRole("link", { name: "b.txt" }).count()).toBe(0);
    expect(await page.getByRole("region", { name: "Upload" }).count()).toBe(0);
    const address = new URL(page.url());
    expect(address.searchParams.get("at")).toBe(first);
    await logIn(`${address.pathname.slice("/console".length)}${address.search}`);
    await page.getByText("This is what was there at the commit", { exact: false }).waitFor();
    await page.getByRole("link", { name: "a.txt" }).click();
    await preview().getByText("alpha").waitFor();
  });

  test("asks at most once in 2 s", async () => {
    await openPage();
    await page.clock.install();
    await logIn("/repos/letters/master");
    await page.getByRole("link", { name: "b.txt" }).waitFor();
    const before = calls().length;
    await passSeconds(page, 20);
    const seen = calls().length - before;
    expect(seen).toBeGreaterThan(3);
    expect(seen).toBeLessThanOrEqual(10);
  });
});

describe.skipIf(!HAS_CHROMIUM)("what a page asks only when it is told to", () => {
  // A past commit changes no more, so that no poll hears of the key before.
  test.each([
    ["more files", "stays-files", "More"],
    ["older commits", "stays-commits", "Older commits"],
  ])("ends the session if the key is no longer good: %s", async (_, repo, button) => {
    const commit = await manyFiles(repo);
    for (let n = 0; n < 50; n++) await s3.put(`master.${repo}`, "f000", `${n}`);
    const made = await control.call("POST", "/keys", { body: { level: "read" }, answers: KeyCreated });
    const door = { ...server, accessKeyId: made.id, secretAccessKey: made.secret };
    await openPage();
    await logInAt(page, door, `/repos/${repo}/master?at=${commit}`);
    await page.getByRole("button", { name: "More", exact: true }).waitFor();
    if (button !== "More") await page.getByRole("button", { name: "Look at another commit" }).click();
    await page.getByRole("button", { name: button, exact: true }).waitFor();
    await control.call("DELETE", `/keys/${made.id}`, { answers: z.unknown() });
    await eventually("the key is refused", async () => {
      const { status } = await signedExchange(door, { method: "GET", target: "/api/v1/whoami" });
      return status === 403;
    });
    await page.getByRole("button", { name: button, exact: true }).click();
    await page.getByText("The key is no longer good", { exact: false }).waitFor();
  });
});

describe.skipIf(!HAS_CHROMIUM)("a file", () => {
  test("is shown in three calls, now and at a commit, with its versions", async () => {
    await logIn(fileAt("master.letters", "a.txt"));
    await preview().getByText("aleph").waitFor();
    const versions = page.getByRole("region", { name: "Versions" });
    await versions.getByText("shown").waitFor();
    expect(new Set(calls()).size).toBeLessThanOrEqual(3);
    expect(await versions.getByRole("row").count()).toBe(3);
    await versions.getByRole("link", { name: first }).click();
    await preview().getByText("alpha").waitFor();
    await page.getByText(`This is the file as the commit ${first} has it.`).waitFor();
    await page.getByRole("link", { name: "To the newest" }).click();
    await preview().getByText("aleph").waitFor();
    // The picker says which commits wrote it.
    await page.getByRole("button", { name: "Look at another commit" }).click();
    await page.getByRole("listitem").filter({ hasText: "wrote this file" }).nth(1).waitFor();
    await page.keyboard.press("Escape");
    await page.getByRole("dialog").waitFor({ state: "hidden" });
  });

  test("that was deleted leads to the commit that wrote it last", async () => {
    await s3.createBucket("master.gone");
    const { version } = await s3.put("master.gone", "was.txt", "once here");
    await s3.delete("master.gone", "was.txt");
    await visit(fileAt("master.gone", "was.txt"));
    await page.getByText("There is no such file now.").waitFor();
    await page
      .getByRole("alert")
      .getByRole("link", { name: version.slice(-6) })
      .click();
    await preview().getByText("once here").waitFor();
  });

  test("leads to what made it, to the job and to what that read, and back to what was made from that", async () => {
    await visit(fileAt("master.capitals", "a.txt.up"));
    await preview().getByText("ALEPH").waitFor();
    await page.getByRole("button", { name: "What made this" }).click();
    const lineage = page.getByRole("region", { name: "Lineage" });
    await lineage.getByText("on edge-1", { exact: false }).waitFor();
    await lineage.getByRole("link", { name: "master.letters/a.txt" }).click();
    await preview().getByText("aleph").waitFor();
    expect(new URL(page.url()).searchParams.get("at")).toBe(second);
    await page.getByRole("button", { name: "What made this" }).click();
    await lineage.getByText("No job made it", { exact: false }).waitFor();
    await lineage.getByText(server.accessKeyId).waitFor();
    await page.getByRole("button", { name: "What was made from this" }).click();
    await lineage.getByRole("link", { name: "master.capitals/a.txt.up" }).click();
    await preview().getByText("ALEPH").waitFor();
    // What came of the version before is another commit's.
    await visit(fileAt("master.letters", "a.txt", first));
    await page.getByRole("button", { name: "What was made from this" }).click();
    await lineage.getByRole("link", { name: "master.capitals/a.txt.up" }).click();
    await preview().getByText("ALPHA").waitFor();
  });

  test("is led back to its sources over all steps, each drawn below what was made from it", async () => {
    await control.createPipeline({
      pipeline: { name: "doubled" },
      transform: { image: "busybox", cmd: ["sh", "-c", "cat /pfs/capitals/*.up > /pfs/out/all"] },
      inputs: [{ repo: { name: "capitals" }, glob: "/" }],
    });
    await control.createPipeline({
      pipeline: { name: "again" },
      transform: {
        image: "busybox",
        cmd: ["sh", "-c", "cat /pfs/capitals/* > /pfs/out/$(ls /pfs/capitals)"],
      },
      inputs: [{ repo: { name: "capitals" }, glob: "/*" }],
    });
    await control.ended("doubled", { count: 1 });
    await control.ended("again", { count: 1 });
    const sources = page.getByRole("region", { name: "Lineage" }).locator(".sources");
    const back = async (path: string): Promise<string[]> => {
      await visit(path);
      await page.getByRole("button", { name: "Back to its sources" }).click();
      await sources.getByText("put there by hand", { exact: false }).first().waitFor();
      return await sources.getByRole("link").allInnerTexts();
    };
    const job = expect.stringMatching(/^job/);
    const steps = await back(fileAt("master.again", "a.txt.up"));
    expect(steps).toEqual([
      "master.again/a.txt.up",
      job,
      "master.capitals/a.txt.up",
      job,
      "master.letters/a.txt",
    ]);
    expect(await faultsOf(page)).toEqual([]);
    // Of a whole folder, what its commit was made from.
    const whole = await back(fileAt("master.doubled", "all"));
    expect(whole).toEqual(["master.doubled/all", job, "master.capitals/", job, "master.letters/"]);
    await sources.getByRole("link", { name: "master.letters/" }).click();
    await page.getByText(`This is what was there at the commit ${second}`, { exact: false }).waitFor();
  });

  test.each([
    ["a table of CSV with quotes and lines in its cells", "table.csv", 'a, "b"\nand c'],
    ["a table of a JSON list", "list.json", "tall"],
    ["a table of lines of JSON", "lines.jsonl", "b"],
  ])("is shown as %s", async (_, path, cell) => {
    await visit(fileAt("master.stuff", path));
    await preview().getByRole("region", { name: "Table" }).waitFor();
    const cells = await preview().getByRole("region", { name: "Table" }).locator("th,td").allTextContents();
    expect(cells).toContain(cell);
    await preview().getByRole("button", { name: "As text" }).click();
    await preview().getByRole("region", { name: "Text" }).waitFor();
  });

  test("of Markdown is drawn, its HTML is text, and nothing of it is loaded", async () => {
    const body = [
      `# Title <img src="https://example.com/1.png" onerror="${TAKE}">`,
      `Some **bold** and *soft* &amp; <b onclick="${TAKE}">raw</b>, [out](https://example.com/out) and [in](javascript:${TAKE}) or [data](data:text/html,x).`,
      `![a picture](https://example.com/2.png) ![](javascript:${TAKE})`,
      `<script>${TAKE}</script>\n<iframe src="https://example.com/3"></iframe>\n<style>body{display:none}</style>`,
      "- [x] done\n- [ ] open\n  1. deeper",
      "| a | b |\n|---|---|\n| `x` | <i>y</i> |",
      "```html\n<h1>code</h1>\n```",
      `[ref]: https://example.com/4 "t"\n\n[by name][ref] <https://example.com/5>`,
    ].join("\n\n");
    await s3.put("master.stuff", "read.md", body);
    await visit(fileAt("master.stuff", "read.md"));
    const drawn = preview().locator(".markdown");
    await drawn.getByRole("heading", { name: "Title" }).waitFor();
    expect(await drawn.locator("strong, em, ol, li, td code").count()).toBe(7);
    await drawn.getByText("bold and soft & <b onclick", { exact: false }).waitFor();
    expect(
      await drawn.getByRole("link").evaluateAll((all) => all.map((one) => one.getAttribute("href"))),
    ).toEqual(["https://example.com/out", "https://example.com/4", "https://example.com/5"]);
    expect(await drawn.locator("img, b, i, script, style, iframe, [onclick], [onerror]").count()).toBe(0);
    expect(asked.filter((request) => !request.url().startsWith(server.endpoint))).toEqual([]);
    expect(await page.evaluate(() => "taken" in globalThis)).toBe(false);
    expect(await faultsOf(page)).toEqual([]);
    await preview().getByRole("button", { name: "As text" }).click();
    await preview().getByText("# Title", { exact: false }).waitFor();
  });

  test.each([
    ["brackets", "[".repeat(200_000)],
    ["quotes", `${">".repeat(50_000)} deep`],
    ["stars", "*a ".repeat(60_000)],
    ["lists", Array.from({ length: 400 }, (_, n) => `${"  ".repeat(n)}- x`).join("\n")],
  ])("of Markdown that is made to be slow or deep is shown all the same: %s", async (name, body) => {
    await s3.put("master.stuff", `${name}.md`, body);
    await visit(fileAt("master.stuff", `${name}.md`));
    await preview().locator(".markdown, .text").first().waitFor();
    // The page still does what it is told to.
    await page
      .getByRole("navigation", { name: "Where this is" })
      .getByRole("link", { name: "master" })
      .click();
    await page.getByRole("link", { name: `${name}.md` }).waitFor();
  });

  test("of JSON that is no table is folded, and what it holds is text", async () => {
    const body = JSON.stringify({
      list: Array.from({ length: 300 }, (_, n) => ({ n })),
      [MARKUP]: `<i>${MARKUP}`,
    });
    await s3.put("master.stuff", "deep.json", body);
    await visit(fileAt("master.stuff", "deep.json"));
    await preview().getByText(`"<i>`, { exact: false }).waitFor();
    expect(await preview().getByText("n:", { exact: false }).count()).toBe(0);
    await preview().getByText("[300 entries]").click();
    await preview().getByText("{1 name}").first().click();
    await preview().getByText("n: 0", { exact: true }).waitFor();
    await preview().getByText("and 100 more", { exact: false }).waitFor();
    expect(await preview().locator("i, img").count()).toBe(0);
    expect(await faultsOf(page)).toEqual([]);
    await preview().getByRole("button", { name: "As text" }).click();
    await preview().getByRole("region", { name: "Text" }).waitFor();
  });

  test("is shown as a picture, a sound, what is packed in it, or its bytes, by what it is", async () => {
    await visit(fileAt("master.stuff", "dot.png"));
    const picture = preview().getByRole("img");
    await picture.waitFor();
    await eventually("it is drawn", () =>
      picture.evaluate((image) => image instanceof HTMLImageElement && image.naturalWidth === 1),
    );
    const at = async (path: string): Promise<void> => {
      await page
        .getByRole("navigation", { name: "Where this is" })
        .getByRole("link", { name: "master" })
        .click();
      await page.getByRole("link", { name: path, exact: true }).click();
    };
    await at("tone.wav");
    await preview().getByRole("button", { name: "Play it" }).click();
    const sound = preview().locator("audio");
    await sound.waitFor();
    await eventually("it can be played", () =>
      sound.evaluate((audio) => audio instanceof HTMLAudioElement && audio.readyState >= 1),
    );
    await at("packed.txt.gz");
    await preview().getByText("packed words").waitFor();
    await at("bytes.bin");
    await preview().getByText("00 01 02 03 ff").waitFor();
    await at("empty.txt");
    await preview().getByText("The file has no bytes.").waitFor();
  });

  test("is fetched no further than what is shown, and the rest when asked", async () => {
    await visit(fileAt("master.stuff", "long.txt"));
    await preview().getByText("Shown are the first 256 KiB", { exact: false }).waitFor();
    const request = asked.find((one) => new URL(one.url()).pathname === "/master.stuff/long.txt");
    expect((await request?.allHeaders())?.range).toBe("bytes=0-262143");
    expect((await (await request?.response())?.body())?.length).toBe(262_144);
    await preview().getByRole("button", { name: "Show all of it" }).click();
    await preview().getByText("line 39999").waitFor();
  });

  test("of any name is found, and its name is text", async () => {
    await visit("/repos/stuff/master");
    await page.getByRole("link", { name: ODD }).click();
    await page.getByRole("heading", { level: 1, name: ODD }).waitFor();
    await preview().getByText("odd", { exact: true }).waitFor();
    await logIn(page.url().slice(`${server.endpoint}/console`.length));
    await preview().getByText("odd", { exact: true }).waitFor();
  });

  test("is downloaded as it is, without an address that has a signature", async () => {
    await visit(fileAt("master.stuff", ODD));
    const [download] = await Promise.all([
      page.waitForEvent("download"),
      page.getByRole("button", { name: "Download" }).click(),
    ]);
    expect(download.url()).toMatch(/^blob:/);
    const place = join(folder, "downloaded");
    await download.saveAs(place);
    expect(readFileSync(place, "utf8")).toBe("odd");
    expect(asked.filter((request) => request.url().includes("X-Amz-"))).toEqual([]);
  });

  test("that is too large to be held is written to the disk as it comes", async () => {
    await visit("/repos");
    // The file says that it is large, and the dialog of the browser chooses a place in its own file system.
    await page.route("**/master.stuff/page.html?*", async (route) => {
      if (!route.request().headers().range) return route.continue();
      const answer = await route.fetch();
      const headers = { ...answer.headers(), "content-range": "bytes 0-99/300000000" };
      return route.fulfill({ response: answer, headers });
    });
    await page.evaluate(() => {
      Object.assign(globalThis, {
        async showSaveFilePicker({ suggestedName }: { suggestedName: string }) {
          const root = await navigator.storage.getDirectory();
          return root.getFileHandle(suggestedName, { create: true });
        },
      });
    });
    await page.getByRole("row", { name: "stuff" }).getByRole("link", { name: "master" }).click();
    await page.getByRole("link", { name: "page.html" }).click();
    await page.getByRole("button", { name: "Download" }).click();
    const text = await eventually("it is saved", () =>
      page.evaluate(async () => {
        const root = await navigator.storage.getDirectory();
        const text = await (await (await root.getFileHandle("page.html")).getFile()).text();
        return text !== "" && text;
      }),
    );
    expect(text).toContain("not shown as HTML");
  });
});

describe.skipIf(!HAS_CHROMIUM)("the key is out of reach of what is shown", () => {
  /** Nothing of the file ran, and nothing of it became an element. */
  async function expectNothingTaken(): Promise<void> {
    expect(await page.evaluate(() => "taken" in globalThis)).toBe(false);
    expect(await page.title()).not.toBe("taken");
    expect(
      await page.locator("iframe, object, embed, main script, main [onerror], main [onload]").count(),
    ).toBe(0);
  }

  test("of an HTML file, which is text", async () => {
    await visit(fileAt("master.stuff", "page.html"));
    await preview().getByText("<h1>not shown as HTML</h1>", { exact: false }).waitFor();
    await expectNothingTaken();
    expect(await preview().locator("h1, img").count()).toBe(0);
  });

  test("of an SVG, which is drawn where nothing of it runs, and whose address is of no origin", async () => {
    await visit(fileAt("master.stuff", "drawing.svg"));
    const drawing = preview().getByRole("img");
    await eventually("it is drawn", () =>
      drawing.evaluate((image) => image instanceof HTMLImageElement && image.naturalWidth === 40),
    );
    await expectNothingTaken();
    const address = (await drawing.getAttribute("src")) ?? "";
    expect(address).toMatch(/^data:image\/svg\+xml/);
    // Opened by itself it may run, in an origin of its own.
    const alone = await browser.context.newPage();
    await alone.goto(address);
    expect(await alone.evaluate(() => globalThis.origin)).toBe("null");
    await alone.close();
    await preview().getByRole("button", { name: "As text" }).click();
    await preview().getByText("<script>", { exact: false }).waitFor();
    await expectNothingTaken();
  });

  test("of a picture that says it is HTML: its blob is of the type that its bytes have", async () => {
    const put = await signedExchange(server, {
      ...{ method: "PUT", target: objectTarget("master.stuff", "liar.html"), body: PNG },
      headers: { "content-type": "text/html" },
    });
    expect(put.status).toBe(200);
    await visit(fileAt("master.stuff", "liar.html"));
    const address = await preview().getByRole("img").getAttribute("src");
    expect(
      await page
        .evaluate(async (blob) => (await (await fetch(blob)).blob()).type, address ?? "")
        .catch(() => "unreadable"),
    ).toMatch(/^(image\/png|unreadable)$/);
    const alone = await browser.context.newPage();
    const opened = await alone.goto(address ?? "").catch(() => null);
    expect(opened ? opened.headers()["content-type"] : "not there").not.toMatch(/html/);
    await alone.close();
  });

  test("of a name that is markup", async () => {
    await visit("/repos/stuff/master");
    await page.getByRole("link", { name: MARKUP }).click();
    await page.getByRole("heading", { level: 1, name: MARKUP }).waitFor();
    await preview().getByText("marked up").waitFor();
    await expectNothingTaken();
    expect(await page.locator("main img").count()).toBe(0);
    const [download] = await Promise.all([
      page.waitForEvent("download"),
      page.getByRole("button", { name: "Download" }).click(),
    ]);
    await download.cancel();
    await expectNothingTaken();
  });

  test("of names and tables that are markup, in the list of a folder's changes and beside each other", async () => {
    await s3.createBucket("master.marked");
    const table = MARKUP.replace(".txt", ".csv");
    const says = { "x-sluice-commit-message": MARKUP };
    for (const value of ["1", MARKUP]) {
      const target = objectTarget("master.marked", table);
      const body = `id,${MARKUP.replaceAll('"', "")}\n1,"${value.replaceAll('"', '""')}"\n`;
      await signedExchange(server, { method: "PUT", target, body, headers: says });
    }
    await visit("/repos/marked/master/history");
    await page.getByText(`${table} · changed`, { exact: false }).waitFor();
    await expectNothingTaken();
    await visit("/repos/marked/master/diff");
    const cells = page.getByRole("region", { name: "Rows that differ" });
    await cells.getByText(MARKUP, { exact: true }).waitFor();
    await page.getByRole("button", { name: "By line" }).click();
    await page.locator(".lines").getByText("onerror", { exact: false }).first().waitFor();
    await expectNothingTaken();
    await visit(fileAt("master.marked", table));
    await page.getByRole("button", { name: "Back to its sources" }).click();
    await page.getByText("put there by hand", { exact: false }).waitFor();
    await expectNothingTaken();
    expect(await page.locator("main img").count()).toBe(0);
  });

  test("of an address that names what is no commit", async () => {
    await visit(`/repos/stuff/master?at=${encodeURIComponent("../../api/v1/keys?")}`);
    await page.getByRole("alert").first().waitFor();
    // The list of repos is what the page before may still ask for.
    const isOwn = (call: string) => call === "/api/v1/repos" || call.startsWith("/api/v1/repos/stuff/");
    expect(calls().filter((call) => !isOwn(call) && !call.includes("%2F"))).toEqual([]);
  });
});

describe.skipIf(!HAS_CHROMIUM)("the history", () => {
  test("tells who made each commit and what they said, marks two to compare, tags and reverts", async () => {
    await s3.createBucket("master.story");
    const says = (text: string) => ({ "x-sluice-commit-message": text });
    const put = async (key: string, body: string, text: string): Promise<string> => {
      const ask = { method: "PUT", target: `/master.story/${key}`, body, headers: says(text) };
      const answer = await signedExchange(server, ask);
      expect(answer.status).toBe(200);
      return answer.headers["x-amz-version-id"] ?? "";
    };
    const one = await put("a", "1", "the beginning");
    await put("b", "1", "more");
    const three = await put("a", "22", "a again");
    await s3.delete("master.story", "b");
    await visit("/repos/story/master/history");
    const line = (text: string) => page.getByRole("listitem").filter({ hasText: text });
    await line("the beginning").getByText(server.accessKeyId).waitFor();
    // What a plain DELETE made says nothing of itself but this.
    await page.getByText("b · deleted, −1 B", { exact: true }).waitFor();
    await line("the beginning").getByRole("button", { name: "Mark" }).click();
    await line("a again").getByRole("link", { name: "Compare with the marked one" }).click();
    await page.waitForURL((url) => url.pathname.endsWith("/diff"));
    const rows = page.getByRole("row");
    await rows.filter({ hasText: "changed" }).filter({ hasText: "1 B" }).filter({ hasText: "2 B" }).waitFor();
    await rows.filter({ hasText: "added" }).waitFor();
    const query = new URL(page.url()).searchParams;
    expect([query.get("from"), query.get("to")]).toEqual([one, three]);
    // Any other one, by the picker.
    await page.getByRole("button", { name: "To …" }).click();
    await page.getByRole("dialog").getByRole("button", { name: "Newest" }).click();
    await rows.filter({ hasText: "added" }).waitFor({ state: "detached" });
    await page.getByRole("link", { name: "History" }).click();
    await line("the beginning").getByRole("button", { name: "Tag" }).click();
    await page.getByLabel("Name of the tag").fill("v1");
    await page.keyboard.press("Enter");
    await line("the beginning").getByRole("link", { name: "v1" }).waitFor();
    // A difference from what has a name.
    const history = new URL(page.url()).pathname.slice("/console".length);
    await visit(`/repos/story/master/diff?from=v1&to=${three}`);
    await rows.filter({ hasText: "added" }).waitFor();
    await page.getByRole("button", { name: "From v1" }).waitFor();
    await visit("/repos/story/master/diff?from=never");
    await page.getByRole("alert").getByText("never", { exact: false }).waitFor();
    await visit(history);
    await line("more").getByRole("button", { name: "Revert to it" }).click();
    await line("more").getByRole("button", { name: "Revert to it" }).click();
    await page.getByText(/^revert to 0/).waitFor();
    expect(await s3.keys("master.story")).toEqual(["a", "b"]);
    await line("the beginning").getByRole("link", { name: "v1" }).click();
    await page.getByText("This is what was there at the commit v1", { exact: false }).waitFor();
    await page.getByRole("link", { name: "a", exact: true }).click();
    await page.getByRole("button", { name: "What made this" }).click();
    await page.getByText("“the beginning”", { exact: false }).waitFor();
  });

  test("tells of a commit of many files the first and how many more, and how many bytes they came to", async () => {
    await manyFiles("sums");
    await s3.put("master.sums", "f000", "four");
    await visit("/repos/sums/master/history");
    await page.getByText("f000 and 500 more · 501 files added, ±0 B", { exact: true }).waitFor();
    await page.getByText("f000 · changed, +4 B", { exact: true }).waitFor();
    // The poll does not ask it again.
    const asks = () => calls().filter((call) => call.includes("summary=true")).length;
    const before = asks();
    await page.waitForResponse((answer) => answer.url().endsWith("/commits?limit=50"));
    await page.waitForResponse((answer) => answer.url().endsWith("/commits?limit=50"));
    expect(asks()).toBe(before);
  });

  test("offers no revert that the gateway would refuse", async () => {
    const reverts = page.getByRole("button", { name: "Revert to it" });
    await s3.createBucket("master.fixed");
    for (const body of ["1", "2"]) await s3.put("master.fixed", "a", body);
    await visit("/repos/fixed/master/history");
    await reverts.waitFor();
    const other = await control.call("POST", "/keys", { body: { level: "write" }, answers: KeyCreated });
    const writer = { key: other.id };
    await control.call("PUT", "/repos/fixed/branches/master/writer", {
      body: { writer },
      answers: z.unknown(),
    });
    await visit("/repos/capitals/master/history");
    await page.getByText("Only jobs of the pipeline capitals write to it", { exact: false }).waitFor();
    expect(await page.getByRole("button", { name: "Mark" }).count()).toBeGreaterThan(1);
    expect(await reverts.count()).toBe(0);
    await visit("/repos/fixed/master/history");
    await page.getByText(`Only the key ${other.id} writes to it`, { exact: false }).waitFor();
    expect(await reverts.count()).toBe(0);
    const door = { ...server, accessKeyId: other.id, secretAccessKey: other.secret };
    await openPage();
    await logInAt(page, door, "/repos/fixed/master/history");
    await page.getByRole("button", { name: "Revert to it" }).waitFor();
  });

  test("shows in place of what was said of a commit that it was redacted, by whom and when", async () => {
    await s3.createBucket("master.untold");
    const headers = { "x-sluice-commit-message": "for ada", "x-sluice-commit-meta-ticket": "no-77" };
    await signedExchange(server, { method: "PUT", target: "/master.untold/a", body: "1", headers });
    const [commit] = await historyOf("untold");
    await visit("/repos/untold/master/history");
    const line = page.getByRole("listitem").filter({ hasText: commit?.id ?? "" });
    await line.getByText("for ada").waitFor();
    const path = `/repos/untold/branches/master/commits/${commit?.id}/redact`;
    await control.call("POST", path, { answers: CommitRedacted });
    // The next poll tells it.
    await line.getByText(/redacted .* by key/).waitFor();
    const told = await line.textContent();
    expect(told).toContain(server.accessKeyId);
    expect(told).not.toMatch(/for ada|no-77/);
    await visit(`/repos/untold/master/diff?to=${commit?.id}`);
    await page.getByText(/redacted .* by key/).waitFor();
  });

  test("shows of what was imported that it was, and of the branch by whom and when", async () => {
    const { branch, commits, tags, files, contents } = soundArchive();
    const path = "/repos/imported/branches/master/imports";
    const archive = "0".repeat(64);
    const begun = await control.call("POST", path, { body: { archive, branch }, answers: ImportBegun });
    for (const [what, body] of [
      ["commits", { after: 0, commits }],
      ["tags", { after: "", tags }],
      ["files", { after: { path: "", born: 0 }, files, contents }],
    ] as const) {
      await control.call("POST", `${path}/${begun.import}/${what}`, { body, answers: ImportedPage });
    }
    const counts = { commits: commits.length, tags: tags.length, files: files.length };
    await control.call("POST", `${path}/${begun.import}/finish`, {
      body: { counts },
      answers: ImportFinished,
    });
    await visit("/repos/imported/master/history");
    await page.getByText("by key SLUICEK1 · ", { exact: false }).first().waitFor();
    expect(await page.getByText(/· imported/).count()).toBe(commits.length);
    await visit("/repos/imported/master/settings");
    await page.getByText(/It was imported .* by key/).waitFor();
    await visit(`/repos/imported/master/diff?to=${commits[1]?.[1]}`);
    await page.getByText(/· imported/).waitFor();
  });

  test("of an output leads to the jobs, and a job to the files that it read and made, as they were", async () => {
    const [newest] = await historyOf("capitals");
    const commits = page.getByRole("region", { name: "Commits" });
    await visit("/repos/capitals/master/history");
    // What each job changed tells its commit from the others.
    await page.locator(".commits .what").first().getByText("a.txt.up").waitFor();
    await page.getByRole("link", { name: "job …" }).first().click();
    await page.getByRole("heading", { level: 1, name: "capitals" }).waitFor();
    await commits.getByRole("link", { name: second }).click();
    await page.getByText(`This is what was there at the commit ${second}`, { exact: false }).waitFor();
    await page.goBack();
    await commits.getByRole("link", { name: newest?.id ?? "" }).click();
    await page.getByRole("link", { name: "a.txt.up" }).click();
    await page.getByText(`This is the file as the commit ${newest?.id} has it.`, { exact: false }).waitFor();
    await page.getByRole("link", { name: "job …" }).click();
    await commits.getByRole("link", { name: newest?.id ?? "" }).waitFor();
  });

  test("names a job on one line, wherever the line before it ends", async () => {
    await visit("/repos/capitals/master/history");
    const job = page.getByRole("link", { name: "job …" }).first();
    await job.waitFor();
    const lines = await job.evaluate((link) => {
      const paragraph = link.closest("p");
      const least = link.getBoundingClientRect().width;
      return Array.from({ length: 20 }, (_, n) => {
        if (paragraph) paragraph.style.width = `${least + 1 + 6 * n}px`;
        return new Set([...link.getClientRects()].map(({ top }) => top)).size;
      });
    });
    expect(new Set(lines)).toEqual(new Set([1]));
  });

  test("shows how files differ side by side: text by line, tables by row, pictures as two", async () => {
    await s3.createBucket("master.beside");
    const lines = Array.from({ length: 40 }, (_, n) => `line ${n}`);
    const put = (key: string, body: Buffer | string) => s3.put("master.beside", key, body);
    await put("a.txt", `${lines.join("\n")}\n`);
    await put("b.csv", "id,name,age\n1,adam,30\n2,eva,31\n3,kain,5\n");
    await put("c.png", PNG);
    const { version: from } = await put("d.bin", Buffer.from([0, 1]));
    await put("a.txt", `${lines.with(20, "<b>another</b>").join("\n")}\n`);
    await put("b.csv", "id,name,age\n3,kain,6\n1,adam,30\n4,abel,3\n");
    await put("c.png", Buffer.concat([PNG, Buffer.from("more")]));
    const { version: to } = await put("d.bin", Buffer.from([0, 2]));
    const compare = async (path: string) => {
      await page.getByRole("button", { name: `Compare ${path}` }).click();
      return page.locator(`tr:has(button[aria-label="Hide ${path}"]) + tr`);
    };
    await visit(`/repos/beside/master/diff?from=${from}&to=${to}`);
    const text = await compare("a.txt");
    const changed = text.locator("tbody tr:not(.same)");
    await changed.waitFor();
    expect(await changed.locator("td").allInnerTexts()).toEqual(["21", "line 20", "21", "<b>another</b>"]);
    // Some lines around it, and not the others.
    expect(await text.locator("tbody tr").count()).toBe(7);
    const table = await compare("b.csv");
    await table.getByText("1 changed, 1 added, 1 removed").waitFor();
    expect(await table.locator("tbody tr").allInnerTexts()).toEqual([
      expect.stringMatching(/changed\s+3\s+kain\s+5 6/),
      expect.stringMatching(/added\s+4\s+abel\s+3/),
      expect.stringMatching(/removed\s+2\s+eva\s+31/),
    ]);
    await table.getByRole("button", { name: "By line" }).click();
    await table.getByText("2,eva,31").waitFor();
    const pictures = (await compare("c.png")).getByRole("img");
    await pictures.nth(1).waitFor();
    expect(await pictures.count()).toBe(2);
    await (await compare("d.bin")).getByText("are not compared").waitFor();
    expect(await faultsOf(page)).toEqual([]);
  });

  test("shows what one commit changed, with what was deleted where it still was", async () => {
    await s3.createBucket("master.change");
    await s3.put("master.change", "x", "was here");
    await s3.delete("master.change", "x");
    await visit("/repos/change/master/diff");
    await page.getByRole("row").filter({ hasText: "deleted" }).getByRole("link", { name: "x" }).click();
    await preview().getByText("was here").waitFor();
  });
});

describe.skipIf(!HAS_CHROMIUM)("an upload", () => {
  const bar = () => page.getByRole("region", { name: "Upload" });

  test("of a folder is one commit, with the paths that its files have there", async () => {
    const photos = join(folder, "photos");
    mkdirSync(join(photos, "2026"), { recursive: true });
    writeFileSync(join(photos, "a.txt"), "a");
    writeFileSync(join(photos, "2026", ODD.replace("?", "")), "b");
    await s3.createBucket("master.up");
    await visit("/repos/up/master?in=trip%2F");
    await bar().getByLabel("Choose a folder").setInputFiles(photos);
    await bar().getByText("2 files").waitFor();
    await bar().getByLabel("Message of the commit").fill("from the trip");
    await bar().getByRole("button", { name: "Upload" }).click();
    await bar().getByText("2 files uploaded as one commit.").waitFor();
    expect(await s3.keys("master.up")).toEqual([
      `trip/photos/2026/${ODD.replace("?", "")}`,
      "trip/photos/a.txt",
    ]);
    expect(await historyOf("up")).toMatchObject([{ message: "from the trip", key: server.accessKeyId }]);
    await page.getByRole("link", { name: "photos/" }).waitFor();
    await bar().getByRole("link", { name: "What it changed" }).click();
    await page.getByRole("link", { name: "trip/photos/a.txt" }).waitFor();
  });

  test("takes folders that are dropped", async () => {
    const dropped = join(folder, "dropped");
    mkdirSync(join(dropped, "sub"), { recursive: true });
    writeFileSync(join(dropped, "sub", "one.txt"), "1");
    writeFileSync(join(folder, "two.txt"), "2");
    await s3.createBucket("master.drop");
    await visit("/repos/drop/master");
    const box = await bar().boundingBox();
    if (!box) throw new Error("there is no place to drop at");
    const at = { x: box.x + box.width / 2, y: box.y + 20 };
    const devtools = await browser.context.newCDPSession(page);
    const data = { items: [], files: [dropped, join(folder, "two.txt")], dragOperationsMask: 1 };
    for (const type of ["dragEnter", "dragOver", "drop"] as const) {
      await devtools.send("Input.dispatchDragEvent", { type, ...at, data });
    }
    await bar().getByRole("button", { name: "Upload" }).click();
    await bar().getByText("2 files uploaded as one commit.").waitFor();
    expect(await s3.keys("master.drop")).toEqual(["dropped/sub/one.txt", "two.txt"]);
    expect(await historyOf("drop")).toHaveLength(1);
  });

  test("sends a large file in parts, goes on over a broken connection, and after a refusal when it is asked", async () => {
    await s3.createBucket("master.large");
    const large = Buffer.alloc(20 * 1024 * 1024, "sluice ");
    await visit("/repos/large/master");
    // Once each: while a page has a route, all that it sends goes through the test.
    await page.route("**/*partNumber=1*", (route) => route.abort(), { times: 1 });
    await page.route(
      "**/small.txt",
      (route) =>
        route.fulfill({ status: 400, body: "<Error><Code>No</Code><Message>not today</Message></Error>" }),
      { times: 1 },
    );
    await bar()
      .getByLabel("Choose files")
      .setInputFiles([
        { name: "large.bin", mimeType: "application/octet-stream", buffer: large },
        { name: "small.txt", mimeType: "text/plain", buffer: Buffer.from("small") },
      ]);
    await bar().getByRole("button", { name: "Upload" }).click();
    await bar().getByText("small.txt not today").waitFor({ timeout: 30_000 });
    expect(await historyOf("large")).toEqual([]);
    await bar().getByRole("button", { name: "Try again" }).click();
    await bar().getByText("2 files uploaded as one commit.").waitFor();
    expect((await s3.get("master.large", "large.bin"))?.equals(large)).toBe(true);
    expect(await historyOf("large")).toHaveLength(1);
    // The one that was there was not sent again.
    const parts = asked.filter((request) => request.url().includes("partNumber=2"));
    expect(parts).toHaveLength(1);
  });

  test("that is cancelled leaves nothing behind", async () => {
    await s3.createBucket("master.cancel");
    await visit("/repos/cancel/master");
    await page.route("**/held.txt", () => undefined);
    await bar()
      .getByLabel("Choose files")
      .setInputFiles([
        { name: "held.txt", mimeType: "text/plain", buffer: Buffer.from("held") },
        { name: "sent.txt", mimeType: "text/plain", buffer: Buffer.from("sent") },
      ]);
    await bar().getByRole("button", { name: "Upload" }).click();
    await bar().getByText("1 of 2 files", { exact: false }).waitFor();
    await bar().getByRole("button", { name: "Cancel" }).click();
    await bar().getByText("Nothing of it was kept.").waitFor();
    const path = "/repos/cancel/branches/master/sessions";
    expect((await control.call("GET", path, { answers: SessionPage })).sessions).toEqual([]);
    expect(await historyOf("cancel")).toEqual([]);
  });

  test("goes on while other folders are looked at", async () => {
    await s3.createBucket("master.stay");
    await s3.put("master.stay", "other/x", "x");
    let release = (): void => undefined;
    const held = new Promise<void>((resolve) => {
      release = resolve;
    });
    await visit("/repos/stay/master");
    await page.route("**/late.txt", async (route) => {
      await held;
      await route.continue();
    });
    const buffer = Buffer.from("late");
    await bar()
      .getByLabel("Choose files")
      .setInputFiles([{ name: "late.txt", mimeType: "text/plain", buffer }]);
    await bar().getByRole("button", { name: "Upload" }).click();
    await bar().getByText("0 of 1 file", { exact: false }).waitFor();
    await page.getByRole("link", { name: "other/" }).click();
    await page.getByRole("link", { name: "x", exact: true }).waitFor();
    await bar().getByText("0 of 1 file", { exact: false }).waitFor();
    release();
    await bar().getByText("1 file uploaded as one commit.").waitFor();
  });

  test("ends with the session", async () => {
    await s3.createBucket("master.leave");
    await openPage();
    await page.route("**/held.txt", () => undefined);
    await logIn("/repos/leave/master");
    const buffer = Buffer.from("held");
    await bar()
      .getByLabel("Choose files")
      .setInputFiles([{ name: "held.txt", mimeType: "text/plain", buffer }]);
    const sending = page.waitForRequest("**/held.txt");
    await bar().getByRole("button", { name: "Upload" }).click();
    const held = await sending;
    const broken = page.waitForEvent("requestfailed", (request) => request === held);
    await page.getByRole("button", { name: "Log out" }).click();
    await broken;
  });

  test("that may not be says why", async () => {
    await visit("/repos/capitals/master");
    const buffer = Buffer.from("x");
    await bar()
      .getByLabel("Choose files")
      .setInputFiles([{ name: "x", mimeType: "text/plain", buffer }]);
    await bar().getByRole("button", { name: "Upload" }).click();
    await bar().getByRole("alert").getByText("pipeline", { exact: false }).waitFor();
  });
});

describe.skipIf(!HAS_CHROMIUM)("the settings of a branch", () => {
  const section = (name: string) => page.getByRole("region", { name });

  test("make it public, protect it, say how much of its history stays, and make a branch from it", async () => {
    await s3.createBucket("master.set");
    await s3.put("master.set", "a", "1");
    await visit("/repos/set/master/settings");
    await section("Public").getByRole("button", { name: "Make it public" }).click();
    await section("Public").getByRole("button", { name: "Make it public" }).click();
    await section("Public").getByText("Everybody reads its files", { exact: false }).waitFor();
    await section("Protection").getByLabel("Id of the key").fill("nobody");
    await section("Protection").getByRole("button", { name: "Protect it" }).click();
    await section("Protection").getByRole("alert").getByText("nobody", { exact: false }).waitFor();
    await section("Protection").getByLabel("Id of the key").fill(server.accessKeyId);
    await section("Protection").getByRole("button", { name: "Protect it" }).click();
    await section("Protection").getByText(`Only the key ${server.accessKeyId} writes to it.`).waitFor();
    await section("History that stays").getByLabel("Newest commits").fill("7");
    expect(await section("History that stays").getByRole("button", { name: "Keep that" }).isDisabled()).toBe(
      true,
    );
    await section("History that stays").getByLabel("What is older goes for good").check();
    await section("History that stays").getByRole("button", { name: "Keep that" }).click();
    await section("History that stays").getByText("What stays: the newest 7 commits.").waitFor();
    const branches = await control.call("GET", "/repos/set/branches", { answers: BranchList });
    expect(branches.branches).toMatchObject([{ public: true, writer: { key: server.accessKeyId } }]);
    const detail = await control.call("GET", "/repos/set/branches/master", { answers: BranchDetail });
    expect(detail.keep).toEqual({ commits: 7 });
    const deletion = section("Deletion by S3 tools");
    await deletion.getByRole("button", { name: "Let them delete it only while it is empty" }).click();
    await deletion.getByText("only while it has no files").waitFor();
    expect((await s3.ask("DELETE", "/master.set")).status).toBe(409);
    await section("Public").getByRole("button", { name: "End that" }).click();
    await section("Public").getByRole("button", { name: "Make it public" }).waitFor();
    await section("A branch from this one").getByLabel("Name").fill("try");
    await section("A branch from this one").getByRole("button", { name: "Make it" }).click();
    await page.getByRole("heading", { level: 1, name: "try.set" }).waitFor();
    await page.getByRole("link", { name: "a", exact: true }).waitFor();
    await page.getByRole("link", { name: "Settings" }).click();
    await page.getByText("It was made from").getByRole("link", { name: "master.set" }).waitFor();
  });

  test("show what goes by itself and which pages from elsewhere may do what, in three calls, and remove that when asked", async () => {
    await s3.createBucket("master.rules");
    const put = async (query: string, body: string): Promise<void> => {
      const answer = await signedExchange(server, { method: "PUT", target: `/master.rules?${query}=`, body });
      expect(answer.status).toBe(200);
    };
    await put(
      "lifecycle",
      `<LifecycleConfiguration>
        <Rule><ID>old</ID><Status>Enabled</Status><Filter><Prefix>scratch/</Prefix></Filter><Expiration><Days>7</Days></Expiration>
          <AbortIncompleteMultipartUpload><DaysAfterInitiation>1</DaysAfterInitiation></AbortIncompleteMultipartUpload></Rule>
        <Rule><ID>late</ID><Status>Disabled</Status><Filter/><Expiration><Date>2031-01-01T00:00:00Z</Date></Expiration></Rule>
        <Rule><ID>some</ID><Status>Enabled</Status><Filter><And><Prefix>a/</Prefix><Tag><Key>kind</Key><Value>scratch</Value></Tag></And></Filter><Expiration><Days>2</Days></Expiration></Rule>
        <Rule><ID>past</ID><Status>Enabled</Status><Filter/><NoncurrentVersionExpiration><NoncurrentDays>30</NoncurrentDays></NoncurrentVersionExpiration></Rule>
      </LifecycleConfiguration>`,
    );
    await put(
      "cors",
      `<CORSConfiguration><CORSRule><AllowedOrigin>https://example.com</AllowedOrigin><AllowedMethod>GET</AllowedMethod>
        <AllowedMethod>PUT</AllowedMethod><AllowedHeader>x-a</AllowedHeader><ExposeHeader>etag</ExposeHeader>
        <MaxAgeSeconds>3600</MaxAgeSeconds></CORSRule></CORSConfiguration>`,
    );
    await logIn("/repos/rules/master/settings");
    const [rules, cors] = [section("Lifecycle rules"), section("Pages from elsewhere (CORS)")];
    await rules.getByRole("listitem").nth(3).waitFor();
    expect(await rules.getByRole("listitem").allInnerTexts()).toEqual([
      "old Files whose path begins with scratch/ go 7 days after they were written. Uploads in parts whose path begins with scratch/ are given up 1 day after they began.",
      "late switched off All files go from 2031-01-01 on.",
      "some Files whose path begins with a/ and that have the tag kind=scratch go 2 days after they were written.",
      "past What was replaced stays in the history for 30 days.",
    ]);
    await cors.getByRole("listitem").waitFor();
    expect(await cors.getByRole("listitem").innerText()).toBe(
      "Pages of https://example.com may send GET, PUT with the headers x-a, and read the headers etag of answers. Browsers remember that for 1 h.",
    );
    expect(new Set(calls())).toEqual(
      new Set(["/api/v1/repos/rules/branches/master", "/master.rules?lifecycle=", "/master.rules?cors="]),
    );
    await rules
      .getByText("get-bucket-lifecycle-configuration --bucket master.rules", { exact: false })
      .waitFor();
    await section("History that stays").getByText("less than 30 days ago", { exact: false }).waitFor();
    expect(await faultsOf(page)).toEqual([]);
    await rules.getByRole("button", { name: "Remove the rules" }).click();
    await rules.getByRole("button", { name: "Cancel" }).click();
    await rules.getByRole("button", { name: "Remove the rules" }).click();
    await rules.getByRole("button", { name: "Remove the rules" }).click();
    await rules.getByText("No rules: nothing is deleted automatically.").waitFor();
    await rules
      .getByText("put-bucket-lifecycle-configuration --bucket master.rules", { exact: false })
      .waitFor();
    // They had said how much of the history stays.
    await section("History that stays").getByText("All of its history stays.").waitFor();
    expect(await cors.getByRole("listitem").count()).toBe(1);
    await cors.getByRole("button", { name: "Remove the rule" }).click();
    await cors.getByRole("button", { name: "Remove the rule" }).click();
    await cors.getByText("Browsers let no page from elsewhere read its files.").waitFor();
    for (const query of ["lifecycle", "cors"]) {
      const answer = await signedExchange(server, { method: "GET", target: `/master.rules?${query}=` });
      expect(answer.status).toBe(404);
    }
  });

  test("show no rules to a key that may not set them", async () => {
    const key = await control.call("POST", "/keys", { body: { level: "write" }, answers: KeyCreated });
    await openPage();
    const refused = page.waitForResponse((answer) => answer.url().endsWith("?cors="));
    await logInAt(
      page,
      { ...server, accessKeyId: key.id, secretAccessKey: key.secret },
      "/repos/letters/master/settings",
    );
    expect((await refused).status()).toBe(403);
    await section("Public").waitFor();
    await section("Pages from elsewhere (CORS)").waitFor({ state: "detached" });
    await section("Lifecycle rules").waitFor({ state: "detached" });
  });

  test("delete a bucket once its name is typed, and not before", async () => {
    await s3.createBucket("master.doomed");
    await s3.put("master.doomed", "a", "a");
    await control.call("PUT", "/repos/doomed/branches/master/empty-only", {
      body: { emptyOnly: true },
      answers: BranchEmptyOnly,
    });
    await visit("/repos/doomed/master/settings");
    const gone = section("Delete the bucket");
    await gone.getByRole("button", { name: "Delete master.doomed" }).click();
    const button = gone.getByRole("button", { name: "Delete it for good" });
    await gone.getByLabel("Type master.doomed").fill("master.doome");
    await page.keyboard.press("Enter");
    expect(await button.isDisabled()).toBe(true);
    expect(await s3.buckets()).toContain("master.doomed");
    await gone.getByLabel("Type master.doomed").fill("master.doomed");
    await button.click();
    await page.getByRole("heading", { level: 1, name: "Repos" }).waitFor();
    expect(await s3.buckets()).not.toContain("master.doomed");
  });
});

describe.skipIf(!HAS_CHROMIUM)("the pages about repos", () => {
  const PAGES: readonly (readonly [name: string, path: () => string])[] = [
    ["repos", () => "/repos"],
    ["a repo", () => "/repos/letters"],
    ["a folder", () => "/repos/stuff/master"],
    ["a file", () => fileAt("master.letters", "a.txt", first)],
    ["a table", () => fileAt("master.stuff", "table.csv")],
    ["the history", () => "/repos/letters/master/history"],
    ["the history of an output", () => "/repos/capitals/master/history"],
    ["a difference", () => `/repos/letters/master/diff?from=${first}&to=${second}`],
    ["the settings", () => "/repos/letters/master/settings"],
  ];

  test.each(PAGES)("have nothing that axe finds serious, and fit a phone: %s", async (_, path) => {
    await visit(path());
    await page.getByRole("heading", { level: 1 }).waitFor();
    await page.getByText("Asking the gateway…").first().waitFor({ state: "detached" });
    expect(await faultsOf(page)).toEqual([]);
  });

  test("have nothing that axe finds serious while a commit is picked, lineage is told, and files wait", async () => {
    await visit(fileAt("master.capitals", "a.txt.up"));
    await page.getByRole("button", { name: "What made this" }).click();
    await page.getByRole("link", { name: "master.letters/a.txt" }).waitFor();
    expect(await faultsOf(page)).toEqual([]);
    await visit("/repos/letters/master");
    const buffer = Buffer.from("x");
    await page.getByLabel("Choose files").setInputFiles([{ name: "x", mimeType: "text/plain", buffer }]);
    await page.getByLabel("Message of the commit").waitFor();
    expect(await faultsOf(page)).toEqual([]);
    await page.getByRole("button", { name: "Look at another commit" }).click();
    await page
      .getByRole("dialog")
      .getByRole("button", { name: first.slice(-6) })
      .waitFor();
    expect(await faultsOf(page)).toEqual([]);
    await page.keyboard.press("Escape");
  });
});

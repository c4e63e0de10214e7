// @module-tag rest
import { readFile } from "node:fs/promises";
import type { Page } from "playwright-core";
import { describe, expect, test } from "vitest";
import { z } from "zod";
import { CommitPage } from "../../../protocol/commits.ts";
import { callsOf, faultsOf, HAS_CHROMIUM, logInAt } from "../../support/browser.ts";
import { setStage } from "../../support/console.ts";
import type { Control } from "../../support/control.ts";
import type { DevServer } from "../../support/dev-server.ts";
import { eventually } from "../../support/eventually.ts";
import type { S3 } from "../../support/s3.ts";

let server: DevServer;
let control: Control;
let s3: S3;
let page: Page;
/** Calls of the control API since the page was opened. */
let asked: string[];

/** The first job of the pipeline whose later jobs succeeded: three of its files failed alike. */
let mendedJob: string;
/** The job that mended it. */
let goodJob: string;

const FILES = ["a.txt", "b.txt", "c.txt"] as const;

function spec(name: string, script: string, more: object = {}): object {
  return {
    pipeline: { name },
    transform: { image: "busybox", cmd: ["sh", "-c", script] },
    inputs: [{ repo: { name: "menu" }, glob: "/*" }],
    datumTries: 1,
    ...more,
  };
}

setStage({
  node: "edge-1",
  async begin(stage) {
    ({ server, control, s3 } = stage);
    await s3.createBucket("master.menu");
    for (const file of FILES) await s3.put("master.menu", file, "bread");
    const cook =
      'for f in /pfs/menu/*; do echo looking; echo at ${f##*/}; grep -q soup "$f" || { echo no soup today >&2; exit 4; }; done';
    await control.createPipeline(spec("kitchen", cook));
    [{ id: mendedJob = "" } = {}] = await control.ended("kitchen", { count: 1 });
    for (const file of FILES) await s3.put("master.menu", file, "soup");
    const jobs = await control.ended("kitchen", { count: 4 });
    goodJob = jobs.at(-1)?.id ?? "";
    await control.createPipeline(spec("broken", "echo out of gas >&2; exit 5"));
    await control.ended("broken", { count: 1 });
  },
  opened(opened) {
    page = opened;
    asked = callsOf(page);
  },
});

const logIn = (path: string): Promise<void> => logInAt(page, server, path);

async function sectionText(name: string): Promise<string> {
  return await page.getByRole("region", { name, exact: true }).innerText();
}

describe.skipIf(!HAS_CHROMIUM)("Now", () => {
  test("keeps what failed apart from what a later job mended, which it names", async () => {
    await logIn("");
    const failed = await sectionText("Failed since yesterday");
    expect(failed).toContain("broken");
    expect(failed).not.toContain("kitchen");
    const mended = page.getByRole("region", { name: "Failed, and mended since" });
    expect(await mended.innerText()).toContain("kitchen");
    // Three jobs, of fewer bad files each, are one line.
    expect(await mended.getByRole("listitem").count()).toBe(1);
    expect(await mended.innerText()).toContain("and 2 jobs before it in the same way");
    expect(await faultsOf(page)).toEqual([]);
    await mended
      .getByRole("link", { name: `job …${goodJob.slice(-6)}` })
      .first()
      .click();
    await page.waitForURL((url) => url.pathname === `/console/jobs/${goodJob}`);
  });

  test("says what the height of its bars is, and keys pass them in one step", async () => {
    await logIn("");
    const bars = page.locator(".bars");
    await bars.getByText("The height is how long each ran.", { exact: false }).waitFor();
    expect(await bars.locator(".axis").innerText()).toMatch(/\d+(\.\d)? m?s[\s\S]*\n0$/);
    expect(await bars.locator("a[tabindex='0']").count()).toBe(1);
    await bars.locator("a[tabindex='0']").focus();
    const focused = (): Promise<string | null> =>
      page.evaluate(() => document.activeElement?.getAttribute("href") ?? null);
    const newest = await focused();
    await page.keyboard.press("ArrowLeft");
    const before = await focused();
    expect(before).not.toBe(newest);
    await page.keyboard.press("End");
    expect(await focused()).toBe(newest);
    await page.keyboard.press("Home");
    expect(await focused()).toBe(`/console/jobs/${mendedJob}`);
    await page.keyboard.press("Tab");
    expect(await page.evaluate(() => document.activeElement?.closest(".bars"))).toBeNull();
  });
});

describe.skipIf(!HAS_CHROMIUM)("the search", () => {
  const dialog = () => page.getByRole("dialog", { name: "Search" });
  const results = () => dialog().getByRole("list", { name: "Results" }).getByRole("link");

  async function search(text: string, first: RegExp): Promise<void> {
    await page.keyboard.press("/");
    await eventually("what is typed is searched for", async () =>
      dialog()
        .getByLabel("Name or id")
        .evaluate((field) => field === document.activeElement),
    );
    await page.keyboard.type(text);
    await results().filter({ hasText: first }).first().waitFor();
  }

  test("finds repos, branches, pipelines and nodes by a part of their names, and pages", async () => {
    await logIn("");
    await search("MEN", /^repo menu$/);
    expect((await results().allInnerTexts()).map((text) => text.replace(/\s+/g, " "))).toEqual([
      "repo menu",
      "branch master.menu",
      "jobs with “MEN” in the pipeline's name or the reason",
    ]);
    await page.keyboard.press("ArrowDown");
    await page.keyboard.press("ArrowDown");
    await page.keyboard.press("Enter");
    await page.waitForURL((url) => url.pathname === "/console/repos/menu/master");
    await search("kitc", /^pipeline kitchen$/);
    await page.keyboard.press("Enter");
    await page.waitForURL((url) => url.pathname === "/console/pipelines/kitchen");
    await page.getByRole("heading", { level: 1, name: "kitchen" }).waitFor();
    expect(await dialog().count()).toBe(0);
    await search("k", /^pipeline kitchen$/);
    // What begins so comes before what only has it.
    const pipelines = results().filter({ hasText: /^pipeline/ });
    expect(await pipelines.allInnerTexts()).toEqual([
      expect.stringMatching(/kitchen$/),
      expect.stringMatching(/broken$/),
    ]);
    await page.keyboard.press("Escape");
    await dialog().waitFor({ state: "hidden" });
    await search("edge", /^node edge-1$/);
    await results().filter({ hasText: "edge-1" }).click();
    await page.getByRole("heading", { level: 1, name: "Nodes" }).waitFor();
    await search("graph", /^page Graph$/);
    await page.keyboard.press("Escape");
    await dialog().waitFor({ state: "hidden" });
  });

  test("finds a job by the end of its id, and a commit by its id with or without its branch", async () => {
    const { commits } = await control.call("GET", "/repos/menu/branches/master/commits", {
      answers: CommitPage,
    });
    const [, second] = commits;
    await logIn("");
    await search(goodJob.slice(-6).toLowerCase(), /^job kitchen …/);
    await page.keyboard.press("Enter");
    await page.waitForURL((url) => url.pathname === `/console/jobs/${goodJob}`);
    for (const text of [`${second?.id}`, `master.menu@${second?.id}`]) {
      await search(text, /^commit master\.menu@/);
      await page.keyboard.press("Enter");
      await page.waitForURL((url) => url.pathname === "/console/repos/menu/master");
      expect(new URL(page.url()).searchParams.get("at")).toBe(second?.id);
      await page.goBack();
    }
    await search(mendedJob, /^job kitchen …/);
  });

  test("is typed into, beside a list of all keys, and neither opens where something is typed", async () => {
    await logIn("/jobs");
    await page.getByLabel("Name or reason").fill("a");
    await page.keyboard.type("/?");
    expect(await page.getByLabel("Name or reason").inputValue()).toBe("a/?");
    expect(await page.getByRole("dialog").count()).toBe(0);
    await page.getByRole("heading", { level: 1, name: "Jobs" }).click();
    await page.getByRole("main").focus();
    await page.keyboard.press("?");
    const keys = page.getByRole("dialog", { name: "Keys of the keyboard" });
    await keys.getByText("search for a repo, branch, pipeline, job, node or commit").waitFor();
    expect(await faultsOf(page)).toEqual([]);
    await page.keyboard.press("Escape");
    await page.keyboard.press("/");
    await dialog().waitFor();
    await page.keyboard.press("Escape");
    await page.keyboard.press("?");
    await keys.waitFor();
    await page.keyboard.press("Escape");
    await keys.waitFor({ state: "hidden" });
    await page.getByRole("button", { name: "Search" }).click();
    await dialog().getByLabel("Name or id").fill("men");
    await results().first().waitFor();
    expect(await faultsOf(page)).toEqual([]);
    await dialog().getByRole("button", { name: "Keys of the keyboard" }).click();
    await keys.waitFor();
  });
});

describe.skipIf(!HAS_CHROMIUM)("the page of all jobs", () => {
  const rows = () => page.getByRole("list", { name: "Jobs" }).getByRole("listitem");

  test("shows them newest first, and finds them by state, pipeline and text", async () => {
    await logIn("");
    await page.getByRole("link", { name: "Jobs", exact: true }).click();
    await page.getByRole("heading", { level: 1, name: "Jobs" }).waitFor();
    await rows().first().waitFor();
    expect(await rows().count()).toBe(5);
    expect(await rows().first().innerText()).toContain("broken");
    await page.getByLabel("State").selectOption("succeeded");
    await eventually("only the good one is there", async () => (await rows().count()) === 1);
    expect(new URL(page.url()).search).toBe("?state=success");
    await page.getByRole("link", { name: "All jobs" }).click();
    await page.getByLabel("Pipeline", { exact: true }).fill("broken");
    await page.getByRole("button", { name: "Find" }).click();
    await eventually("only the other pipeline's is there", async () => (await rows().count()) === 1);
    await logIn("/jobs?search=NO+SOUP");
    await page.getByText("3 of 5 jobs", { exact: false }).waitFor();
    expect(await rows().count()).toBe(3);
    expect(new Set(asked)).toContain("/jobs");
  });

  test("asks once for a search, and again when it is told to", async () => {
    await page.clock.install();
    await logIn("/jobs?search=soup");
    await rows().first().waitFor();
    await page.clock.runFor(20_000);
    expect(asked.filter((path) => path === "/jobs")).toHaveLength(1);
    await page.getByRole("button", { name: "Look again" }).click();
    await eventually("it asked again", async () => asked.filter((path) => path === "/jobs").length === 2);
  });

  test("finds by when they were made, and quotes what is looked for into a command line", async () => {
    await logIn("/jobs?made=1h&search=%24(touch+x)");
    await page.getByText("None of 5 jobs", { exact: false }).waitFor();
    const copied = page.getByRole("button", { name: /^Copy: sluice job list / });
    expect(await copied.getAttribute("aria-label")).toBe(
      "Copy: sluice job list --search '$(touch x)' --since 1h",
    );
    await logIn("/jobs?made=between&to=2020-01-01T00%3A00");
    await page.getByText("No job is like that.").waitFor();
  });

  test("has nothing that axe finds serious, in light and dark, and fits a phone", async () => {
    await logIn("/jobs?search=soup");
    await rows().first().waitFor();
    expect(await faultsOf(page)).toEqual([]);
  });
});

describe.skipIf(!HAS_CHROMIUM)("the page of a job", () => {
  test("has equal failures as one entry, its files folded, on the first screen with the timeline", async () => {
    await page.setViewportSize({ width: 1280, height: 900 });
    await logIn(`/jobs/${mendedJob}`);
    const failed = page.getByRole("region", { name: "Failed datums" });
    await failed.getByText("3 datums", { exact: true }).waitFor();
    await page
      .getByText("Mended: the pipeline is good since")
      .getByRole("link", { name: `job …${goodJob.slice(-6)}` })
      .waitFor();
    expect(await failed.innerText()).toContain("the command ended with exit code 4: no soup today");
    expect(await failed.getByRole("button", { name: "/b.txt" }).isVisible()).toBe(false);
    for (const name of ["Timeline", "Datums", "Logs"])
      await eventually(`${name} begins on the first screen`, async () => {
        const box = await page.getByRole("region", { name, exact: true }).boundingBox();
        return box !== null && box.y < 900;
      });
    await failed.getByText("/a.txt and 2 others").click();
    await failed.getByRole("button", { name: "/b.txt" }).click();
    await page.getByRole("log", { name: "What /b.txt printed" }).getByText("at b.txt").waitFor();
  });

  test("its logs name the files, and are filtered by text, by file and by stream, and downloaded", async () => {
    await logIn(`/jobs/${mendedJob}?datum=all`);
    const log = page.getByRole("log");
    await log.getByRole("button", { name: "/c.txt" }).first().waitFor();
    await page.getByLabel("Lines with").fill("NO SOUP");
    await page.getByText("3 of 9 lines").waitFor();
    await page.getByLabel("Lines with").fill("/c.txt");
    await page.getByText("3 of 9 lines").waitFor();
    expect(await log.locator("code").allInnerTexts()).toContain("at c.txt");
    expect(await faultsOf(page)).toEqual([]);
    const [download] = await Promise.all([
      page.waitForEvent("download"),
      page.getByRole("button", { name: "Download" }).click(),
    ]);
    expect(download.suggestedFilename()).toBe(`kitchen-${mendedJob}.log`);
    const text = await readFile(await download.path(), "utf8");
    expect(text.trimEnd().split("\n")).toHaveLength(9);
    expect(text).toMatch(/^20\S+Z edge-1 \/b\.txt stdout at b\.txt$/m);
    await page.getByLabel("Lines with").fill("");
    await page.getByLabel("Printed on").selectOption("stderr");
    await eventually("only lines of stderr are shown", async () => {
      const shown = await log.locator("code").allInnerTexts();
      return shown.length === 3 && shown.every((line) => line === "no soup today");
    });
    await page.getByRole("button", { name: /^Copy: sluice job logs \S+ --stream stderr$/ }).waitFor();
    expect(await faultsOf(page)).toEqual([]);
    const [part] = await Promise.all([
      page.waitForEvent("download"),
      page.getByRole("button", { name: "Download" }).click(),
    ]);
    expect(part.suggestedFilename()).toBe(`kitchen-${mendedJob}-stderr.log`);
    expect((await readFile(await part.path(), "utf8")).trimEnd().split("\n")).toHaveLength(3);
    await page.getByLabel("Printed on").selectOption("stdout");
    await log.getByText("at b.txt").waitFor();
    expect(await log.getByText("no soup today").count()).toBe(0);
    await page.getByLabel("Printed on").selectOption("stdout and stderr");
    await log.getByText("no soup today").first().waitFor();
    await page.getByLabel("Of the datum").fill("/b.txt");
    await page.getByRole("button", { name: "Show" }).click();
    await page.getByRole("log", { name: "What /b.txt printed" }).waitFor();
    await page.getByLabel("Of the datum").fill("/none.txt");
    await page.getByRole("button", { name: "Show" }).click();
    await page.getByRole("alert").getByText("No datum of the job reads '/none.txt'.").waitFor();
  });

  test("says what is other than at the last good job, and leads there", async () => {
    await s3.put("master.menu", "d.txt", "bread");
    const jobs = await control.ended("kitchen", { count: 5 });
    await logIn(`/jobs/${jobs.at(-1)?.id}`);
    const compared = page.getByRole("region", { name: "Since the last good job" });
    await compared.getByRole("link", { name: `job …${goodJob.slice(-6)}` }).waitFor();
    await compared.getByRole("link", { name: "what changed in master.menu" }).click();
    await page.getByText("d.txt", { exact: true }).first().waitFor();
    await control.call("POST", "/pipelines?update=true", {
      body: spec("kitchen", "echo closed >&2; exit 6"),
      answers: z.unknown(),
    });
    const [last] = (await control.ended("kitchen", { count: 6 })).slice(-1);
    await logIn(`/jobs/${last?.id}`);
    await compared.getByText("version 1 then, 2 now, which differ in", { exact: false }).waitFor();
    await page.getByRole("button", { name: "version 2 of its specification" }).click();
    await page
      .getByRole("region", { name: "Version 2 of the specification" })
      .getByText("echo closed", { exact: false })
      .waitFor();
    expect(await faultsOf(page)).toEqual([]);
  });

  test("says which datum runs where, and since when", async () => {
    // Those before it are done soon.
    await control.createPipeline(spec("slow", '[ "$(ls /pfs/menu)" != c.txt ] || sleep 600'));
    const [job] = await eventually("it has a job", async () => {
      const jobs = await control.jobs("slow");
      return jobs.length > 0 && jobs;
    });
    await logIn(`/jobs/${job?.id}`);
    const running = page.getByRole("region", { name: "Datums that run" });
    await running.getByText(/\/c\.txt on edge-1 for \d+ s/).waitFor();
    await page.getByText("a few seconds left for them, with 1 at a time", { exact: true }).waitFor();
    expect(await faultsOf(page)).toEqual([]);
    await control.deletePipeline("slow");
  });

  test("has nothing that axe finds serious, in light and dark, and fits a phone", async () => {
    await logIn(`/jobs/${mendedJob}`);
    await page.getByRole("region", { name: "Failed datums" }).waitFor();
    await page.getByText("/a.txt and 2 others").click();
    expect(await faultsOf(page)).toEqual([]);
  });
});

describe.skipIf(!HAS_CHROMIUM)("a job that runs", () => {
  test("says in the list of what goes on how much of it is left, by what the last ones of its pipeline took", async () => {
    await s3.createBucket("master.pace");
    await s3.put("master.pace", "a.txt", "1");
    const inputs = [{ repo: { name: "pace" }, glob: "/*" }];
    await control.createPipeline(
      spec("paced", "grep -q slow /pfs/pace/* && sleep 600; cp /pfs/pace/* /pfs/out", { inputs }),
    );
    for (const [index, text] of ["2", "3"].entries()) {
      await control.ended("paced", { count: index + 1 });
      await s3.put("master.pace", "a.txt", text);
    }
    await control.ended("paced", { count: 3 });
    await s3.put("master.pace", "a.txt", "slow");
    const job = await eventually("the next one runs", async () => {
      const found = (await control.jobs("paced")).at(-1);
      return found?.finishedAt === null && found.startedAt !== null && found;
    });
    // By the clock it began just now.
    await page.clock.setFixedTime(job.startedAt ?? 0);
    await logIn("");
    const line = page.getByRole("listitem").filter({ hasText: "paced" });
    await line.getByText("a few seconds left", { exact: true }).waitFor();
    await control.deletePipeline("paced");
  });
});

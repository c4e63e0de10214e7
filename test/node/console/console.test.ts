// @module-tag rest
import type { Page } from "playwright-core";
import { describe, expect, test } from "vitest";
import { z } from "zod";
import { DatumPage, JobPage } from "../../../protocol/pipelines.ts";
import { BranchDetail } from "../../../protocol/repos.ts";
import {
  callsOf,
  faultsOf,
  HAS_CHROMIUM,
  logInAt,
  passSeconds,
  type TestBrowser,
} from "../../support/browser.ts";
import { setStage } from "../../support/console.ts";
import type { Control } from "../../support/control.ts";
import type { DevServer } from "../../support/dev-server.ts";
import { eventually } from "../../support/eventually.ts";
import { signedExchange } from "../../support/http.ts";
import type { S3 } from "../../support/s3.ts";

/** What a name would do if a page took it for markup. */
const MARKUP = `<img src=x onerror="document.title='taken'">.txt`;

let server: DevServer;
let control: Control;
let s3: S3;
let browser: TestBrowser;
let page: Page;
/** Calls of the control API since the page was opened. */
let asked: string[];

/** The newest job of the pipeline that fails at one file, whose name is markup. */
let failedJob: string;

setStage({
  node: "edge-1",
  async begin(stage) {
    ({ server, control, s3, browser } = stage);
    await s3.createBucket("master.photos");
    await s3.put("master.photos", "fine.txt", "fine");
    await s3.put("master.photos", MARKUP, "torn");
    const cmd = [
      "sh",
      "-c",
      'for f in /pfs/photos/*; do echo reading ${f##*/}; grep -q fine "$f" || { echo no end of image >&2; exit 3; }; done',
    ];
    await control.createPipeline({
      pipeline: { name: "thumbnails" },
      transform: { image: "busybox", cmd },
      inputs: [{ repo: { name: "photos" }, glob: "/*" }],
      datumTries: 1,
    });
    [{ id: failedJob = "" } = {}] = await control.ended("thumbnails", { count: 1 });
    await s3.createBucket("master.site");
    await control.call("PUT", "/repos/site/branches/master/public", {
      body: { public: true },
      answers: z.unknown(),
    });
    // It waits for good: no node runs containers.
    await control.createPipeline({
      pipeline: { name: "transcode" },
      transform: { image: "busybox", cmd: ["true"], container: "required" },
      inputs: [{ repo: { name: "photos" }, glob: "/" }],
    });
  },
  opened(opened) {
    page = opened;
    asked = callsOf(page);
  },
});

const logIn = (path: string): Promise<void> => logInAt(page, server, path);

/** As if another tab was in front, or this one again. */
async function setHidden(hidden: boolean): Promise<void> {
  await page.evaluate(
    (state) => {
      Object.defineProperty(document, "visibilityState", { value: state, configurable: true });
      document.dispatchEvent(new Event("visibilitychange"));
    },
    hidden ? "hidden" : "visible",
  );
}

/** The number in the last line that is shown. */
async function lastLine(): Promise<number> {
  const text = await page.getByRole("log").locator("code").last().innerText();
  return Number(/\d+/.exec(text)?.[0]);
}

/** The text of a section of the page, once it is there. */
async function sectionText(name: string): Promise<string> {
  return await page.getByRole("region", { name }).innerText();
}

describe.skipIf(!HAS_CHROMIUM)("the console", () => {
  test("asks for a key, says what is wrong with it, and then shows the page that was asked for", async () => {
    await page.goto(`${server.endpoint}/console/jobs/${failedJob}`);
    await page.getByLabel("Access key id").fill(server.accessKeyId);
    await page.getByLabel("Secret access key").fill("not the secret");
    await page.getByRole("button", { name: "Log in" }).click();
    await page.getByText("The secret is not that of this key.").waitFor();
    await page.getByLabel("Secret access key").fill(server.secretAccessKey);
    await page.keyboard.press("Enter");
    await page.getByRole("heading", { level: 1, name: "thumbnails" }).waitFor();
    expect(new URL(page.url()).pathname).toBe(`/console/jobs/${failedJob}`);
  });

  test("takes a key as `sluice env` prints it", async () => {
    await page.goto(`${server.endpoint}/console`);
    await page.getByLabel("Access key id").evaluate((field, text) => {
      const clipboardData = new DataTransfer();
      clipboardData.setData("text", text);
      field.dispatchEvent(new ClipboardEvent("paste", { clipboardData, bubbles: true, cancelable: true }));
    }, `export SLUICE_ACCESS_KEY_ID=${server.accessKeyId}\nexport SLUICE_SECRET_ACCESS_KEY=${server.secretAccessKey}\n`);
    await page.getByRole("button", { name: "Log in" }).click();
    await page.getByRole("heading", { level: 1, name: "Now" }).waitFor();
  });

  test("shows what waits and why, and what failed since yesterday, in one call", async () => {
    await logIn("");
    expect(await sectionText("Waiting")).toContain("no live node runs containers");
    const failed = await sectionText("Failed since yesterday");
    expect(failed).toContain("thumbnails");
    expect(failed).toContain(`datum /${MARKUP} failed after 1 try`);
    expect(failed).toContain("no end of image");
    expect(new Set(asked)).toEqual(new Set(["/console/sessions", "/now"]));
    await page.getByRole("link", { name: "thumbnails", exact: false }).last().click();
    await page.getByRole("heading", { level: 1, name: "thumbnails" }).waitFor();
  });

  test("shows of a job what failed with its last lines, how long its datums ran, and what one printed", async () => {
    await logIn(`/jobs/${failedJob}`);
    const failed = await sectionText("Failed datums");
    expect(failed).toContain(`/${MARKUP}: the command ended with exit code 3`);
    expect(failed).toContain("no end of image");
    expect(await sectionText("Durations of datums")).toContain("Half took at most");
    expect(await sectionText("Timeline")).toMatch(/its input was split into datums[\s\S]*its datums ran/);
    // Of the first one that failed, without being asked.
    await page.getByRole("log").getByText("no end of image").waitFor();
    await page.getByText("The slowest 1", { exact: true }).click();
    await page.getByRole("button", { name: "/fine.txt" }).click();
    await page.getByRole("log").getByText("reading fine.txt").waitFor();
    expect(new URL(page.url()).search).toMatch(/^\?datum=[0-9a-f]{64}$/);
    expect(new Set(asked)).toEqual(
      new Set(["/console/sessions", `/jobs/${failedJob}/summary`, `/jobs/${failedJob}/logs`]),
    );
  });

  test("follows what a datum prints while its job runs, and stops the job", async () => {
    await control.createPipeline({
      pipeline: { name: "slow" },
      transform: {
        image: "busybox",
        cmd: ["sh", "-c", "while :; do n=$((n+1)); echo line $n.; sleep 0.1; done"],
      },
      inputs: [{ repo: { name: "photos" }, glob: "/" }],
    });
    const { jobs } = await control.call("GET", "/jobs?pipeline=slow", { answers: JobPage });
    const id = jobs[0]?.id ?? "";
    await logIn(`/jobs/${id}`);
    const { datums } = await eventually("its datum runs", async () => {
      const found = await control.call("GET", `/jobs/${id}/datums`, { answers: DatumPage });
      return found.datums.length > 0 && found;
    });
    // Of all datums, as long as nobody asks for one.
    await page.getByRole("log").getByText("line 1.", { exact: true }).waitFor();
    await page.getByLabel("Of the datum").fill(datums[0]?.id.slice(0, 12) ?? "");
    await page.getByRole("button", { name: "Show" }).click();
    // Lines that were not there when the page asked.
    const shown = await lastLine();
    await page
      .getByRole("log")
      .getByText(`line ${shown + 5}.`, { exact: true })
      .waitFor();
    await setHidden(true);
    const whenHidden = await lastLine();
    const logs = (): number => asked.filter((path) => path.endsWith("/logs")).length;
    const before = logs();
    await setHidden(false);
    await page
      .getByRole("log")
      .getByText(`line ${whenHidden + 5}.`, { exact: true })
      .waitFor();
    expect(logs()).toBeGreaterThan(before);
    const numbers = (await page.getByRole("log").locator("code").allInnerTexts()).map(
      (text) => text.match(/\d+/)?.[0],
    );
    // None twice, none left out.
    expect(numbers).toEqual(numbers.map((_, index) => String(index + 1)));
    await page.getByRole("button", { name: "Stop the job" }).click();
    await page.getByRole("button", { name: "Stop the job" }).click();
    await page.getByText("it was stopped").waitFor();
    // A line's time puts it into the address, which leads there after another login.
    await page.getByRole("log").getByRole("listitem").nth(2).getByRole("button").first().click();
    const { pathname, search } = new URL(page.url());
    expect(search).toMatch(/^\?datum=[0-9a-f]{12}&line=\d+\.\d+$/);
    await logIn(`${pathname.slice("/console".length)}${search}`);
    await page.locator(".lines .marked").getByText("line 3.", { exact: true }).waitFor();
    await control.deletePipeline("slow");
  });

  test("says of a job that waits what for, where its lines will be", async () => {
    const { jobs } = await control.call("GET", "/jobs?pipeline=transcode", { answers: JobPage });
    await logIn(`/jobs/${jobs.at(-1)?.id}`);
    await page.getByRole("region", { name: "Logs" }).getByText("no live node runs containers").waitFor();
    expect(await sectionText("Timeline")).toContain("waits for a worker");
    expect(await page.locator(".timeline rect").last().getAttribute("class")).toBe("waits");
  });

  test("leads from a job to the one that it waits for", async () => {
    await s3.createBucket("master.queue");
    for (const key of ["a", "b"]) await s3.put("master.queue", key, key);
    // It waits for good: no node runs containers.
    await control.createPipeline({
      pipeline: { name: "queued" },
      transform: { image: "busybox", cmd: ["true"], container: "required" },
      inputs: [{ repo: { name: "queue" }, glob: "/" }],
    });
    await s3.put("master.queue", "c", "c");
    const [first, second] = await eventually("there are two jobs", async () => {
      const jobs = await control.jobs("queued");
      return jobs.length === 2 && jobs[1]?.reason?.startsWith("behind") && jobs;
    });
    await logIn(`/jobs/${second?.id}`);
    await page
      .locator(".reason")
      .getByRole("link", { name: `job …${first?.id.slice(-6)}` })
      .click();
    await page.waitForURL((url) => url.pathname === `/console/jobs/${first?.id}`);
    await control.deletePipeline("queued");
  });

  test("goes on with a job's lines when the gateway is back", async () => {
    await page.route("**/logs?*", (route) => route.abort());
    const { jobs } = await control.call("GET", "/jobs?pipeline=transcode", { answers: JobPage });
    await logIn(`/jobs/${jobs.at(-1)?.id}`);
    const away = page.getByText("The lines go on when it does.", { exact: false });
    await away.waitFor();
    await page.unroute("**/logs?*");
    await away.waitFor({ state: "hidden" });
    await page.getByRole("region", { name: "Logs" }).getByText("no live node runs containers").waitFor();
  });

  test("begins another page at its top, for whoever listens, too", async () => {
    await logIn("");
    await page.getByRole("link", { name: "thumbnails", exact: false }).last().click();
    await page.getByRole("heading", { level: 1, name: "thumbnails" }).waitFor();
    const arrived = (): Promise<boolean> =>
      page.evaluate(() => document.activeElement?.id === "page" && scrollY === 0);
    await eventually("the focus is on the page", arrived);
    await page.getByRole("link", { name: "Now", exact: true }).click();
    await page.getByRole("heading", { level: 1, name: "Now" }).waitFor();
  });

  test("says so if a page's script is not there any more, and shows the others", async () => {
    await logIn("");
    await page.route("**/console/assets/job-*", (route) => route.fulfill({ status: 404, body: "none" }));
    await page.getByRole("link", { name: "thumbnails", exact: false }).last().click();
    await page.getByRole("button", { name: "Load the console anew" }).waitFor();
    await page.getByRole("link", { name: "Now", exact: true }).click();
    await page.getByRole("region", { name: "Waiting" }).waitFor();
  });

  test("tries a job again, and shows the one that this made", async () => {
    await logIn(`/jobs/${failedJob}`);
    await page.getByRole("button", { name: "Retry what failed" }).click();
    // First it says what the new job will read.
    const { head } = await control.call("GET", "/repos/photos/branches/master", { answers: BranchDetail });
    await page.getByText(`master.photos at ${head}, as this one did`, { exact: false }).waitFor();
    expect(await faultsOf(page)).toEqual([]);
    await page.getByRole("button", { name: "Retry what failed" }).click();
    await page.waitForURL((url) => !url.pathname.endsWith(failedJob));
    const jobs = await control.ended("thumbnails", { count: 2 });
    expect(new URL(page.url()).pathname).toBe(`/console/jobs/${jobs.at(-1)?.id}`);
    await page.getByText(`datum /${MARKUP} failed after 1 try`, { exact: false }).waitFor();
  });

  test("says why something was refused", async () => {
    await logIn(`/jobs/${failedJob}`);
    await control.call("POST", "/pipelines/thumbnails/stop", { answers: z.unknown() });
    await page.getByRole("button", { name: "Retry what failed" }).click();
    await page.getByText("The new job reads", { exact: false }).waitFor();
    await page.getByRole("button", { name: "Retry what failed" }).click();
    await page.getByRole("alert").getByText("sluice pipeline start thumbnails").waitFor();
    await control.call("POST", "/pipelines/thumbnails/start", { answers: z.unknown() });
  });

  test("asks at most once in 2 s, is told only what is new, and asks not at all while nobody looks", async () => {
    await page.clock.install();
    const statuses: number[] = [];
    page.on("response", (response) => {
      if (new URL(response.url()).pathname === "/api/v1/now") statuses.push(response.status());
    });
    await logIn("");
    const polls = (): number => asked.filter((path) => path === "/now").length;
    const before = polls();
    await passSeconds(page, 20);
    const seen = polls() - before;
    expect(seen).toBeGreaterThan(3);
    expect(seen).toBeLessThanOrEqual(10);
    expect(statuses).toContain(304);
    await setHidden(true);
    const hidden = polls();
    await page.clock.runFor(60_000);
    await page.evaluate(() => fetch("/healthz"));
    expect(polls()).toBe(hidden);
  });

  test("keeps what it showed when the gateway goes away, and goes on when it is back", async () => {
    await logIn("");
    expect(await sectionText("Waiting")).toContain("transcode");
    await page.route("**/api/**", (route) => route.abort());
    await page.getByText("The gateway does not answer.", { exact: false }).waitFor();
    expect(await sectionText("Waiting")).toContain("transcode");
    await page.unroute("**/api/**");
    await page.getByRole("button", { name: "Try again" }).click();
    await page.getByText("live", { exact: true }).waitFor();
  });

  test("goes back to the login when its key is deleted, and tells why", async () => {
    const made = await control.call("POST", "/keys", {
      body: { level: "read" },
      answers: z.object({ id: z.string(), secret: z.string() }),
    });
    await logInAt(page, { ...server, accessKeyId: made.id, secretAccessKey: made.secret }, "");
    await control.call("DELETE", `/keys/${made.id}`, { answers: z.unknown() });
    await page.getByText("The key is no longer good", { exact: false }).waitFor({ timeout: 30_000 });
  });

  test("has nothing that axe finds serious, in light and dark, and fits a phone", async () => {
    await page.goto(`${server.endpoint}/console`);
    await page.getByRole("button", { name: "Log in" }).waitFor();
    expect(await faultsOf(page)).toEqual([]);
    await logIn("");
    await page.getByRole("region", { name: "Waiting" }).waitFor();
    expect(await faultsOf(page)).toEqual([]);
    await page.getByRole("link", { name: "thumbnails", exact: false }).last().click();
    await page.getByRole("region", { name: "Timeline" }).waitFor();
    expect(await faultsOf(page)).toEqual([]);
  });
});

describe.skipIf(!HAS_CHROMIUM)("the key", () => {
  test("is in no address, no storage and no cookie, and nothing of it or its session stays after the log out", async () => {
    const addresses: string[] = [];
    page.on("request", (request) => addresses.push(request.url()));
    await logIn("");
    await page.getByRole("region", { name: "Waiting" }).waitFor();
    expect(addresses.filter((address) => address.includes(server.secretAccessKey))).toEqual([]);
    expect(addresses.filter((address) => address.includes("X-Amz-"))).toEqual([]);
    const kept = await page.evaluate(
      async (secret) => ({
        local: localStorage.length,
        session: sessionStorage.length,
        // Of the session, which has another secret: the tests of sessions look into it.
        databases: (await indexedDB.databases()).map(({ name }) => name),
        caches: (await caches.keys()).length,
        cookies: document.cookie,
        here: `${location.href} ${JSON.stringify(history.state)} ${window.name}`.includes(secret),
      }),
      server.secretAccessKey,
    );
    expect(kept).toEqual({
      local: 0,
      session: 0,
      databases: ["sluice"],
      caches: 0,
      cookies: "",
      here: false,
    });
    await page.getByRole("button", { name: "Log out" }).click();
    expect(await page.getByLabel("Secret access key").inputValue()).toBe("");
    await page.reload();
    await page.getByRole("button", { name: "Log in" }).waitFor();
  });

  test.each([
    ["an HTML file", "page.html", "text/html", `<!doctype html><title>file</title><script>TAKE</script>`],
    [
      "an SVG",
      "a.svg",
      "image/svg+xml",
      `<svg xmlns="http://www.w3.org/2000/svg"><script>TAKE</script></svg>`,
    ],
  ])("is out of reach of %s, whose script would run in the origin of the console", async (_, key, type, text) => {
    const body = text.replace("TAKE", `globalThis.taken = true; globalThis.opened = open("/console");`);
    const put = await signedExchange(server, {
      ...{ method: "PUT", target: `/master.site/${key}`, body },
      headers: { "content-type": type },
    });
    expect(put.status).toBe(200);
    await page.goto(`${server.endpoint}/master.site/${key}`);
    expect(await page.evaluate(() => "taken" in globalThis)).toBe(false);
  });

  test("takes no script and no style from a public bucket, which has the same origin", async () => {
    const files = {
      "evil.js": ["text/javascript", "globalThis.taken = 1"],
      "evil.css": ["text/css", "h1 { color: red }"],
    };
    for (const [key, [type = "", body = ""]] of Object.entries(files)) {
      const headers = { "content-type": type };
      const put = await signedExchange(server, {
        method: "PUT",
        target: `/master.site/${key}`,
        body,
        headers,
      });
      expect(put.status).toBe(200);
      expect((await fetch(`${server.endpoint}/master.site/${key}`)).status).toBe(200);
    }
    await page.goto(`${server.endpoint}/console`);
    await page.getByRole("button", { name: "Log in" }).waitFor();
    const events = await page.evaluate(async () => {
      const added = async (tag: "script" | "link", attributes: object): Promise<string> => {
        const element = Object.assign(document.createElement(tag), attributes);
        const heard = new Promise<string>((resolve) => {
          for (const type of ["load", "error"])
            element.addEventListener(type, () => resolve(type), { once: true });
        });
        document.head.append(element);
        return await heard;
      };
      const own = [...document.querySelectorAll("script[src]")].map((script) => script.getAttribute("src"));
      return {
        own: await added("script", { src: own[0], type: "module" }),
        script: await added("script", { src: "/master.site/evil.js" }),
        module: await added("script", { src: "/master.site/evil.js", type: "module" }),
        // Names that the browser or the gateway might take for one below the assets.
        dots: await added("script", { src: "/console/assets/..%2f..%2fmaster.site/evil.js" }),
        style: await added("link", { rel: "stylesheet", href: "/master.site/evil.css" }),
        taken: "taken" in globalThis,
      };
    });
    expect(events).toEqual({
      ...{ own: "load", script: "error", module: "error", dots: "error", style: "error", taken: false },
    });
  });

  test("quotes what an address puts into a command line", async () => {
    await logIn(`/jobs/${failedJob}?datum=${encodeURIComponent(";touch x")}`);
    const copied = page.getByRole("button", { name: /^Copy: sluice job logs / });
    expect(await copied.getAttribute("aria-label")).toBe(
      `Copy: sluice job logs ${failedJob} --datum ';touch x'`,
    );
  });

  test("is out of reach of a page of the same origin that opens the console, or frames it", async () => {
    // No file becomes such a page; should one do some day, the console still shares nothing with it.
    await page.goto(`${server.endpoint}/healthz`);
    const [opened] = await Promise.all([
      browser.context.waitForEvent("page"),
      page.evaluate(() => {
        Object.assign(globalThis, { opened: open("/console") });
      }),
    ]);
    await opened.getByRole("button", { name: "Log in" }).waitFor();
    const reach = await page.evaluate(async () => {
      const { opened: other } = globalThis as unknown as { opened: Window | null };
      const frame = document.createElement("iframe");
      frame.src = "/console";
      const loaded = new Promise((resolve) => frame.addEventListener("load", resolve, { once: true }));
      document.documentElement.append(frame);
      await loaded;
      // A page that may not be framed is of an origin of its own: its document is null.
      return { isSevered: other === null || other.closed, isFramed: frame.contentDocument !== null };
    });
    expect(reach).toEqual({ isSevered: true, isFramed: false });
    await opened.close();
  });

  test("is out of reach of a file's name that is markup", async () => {
    await logIn(`/jobs/${failedJob}`);
    await page.getByText(MARKUP, { exact: false }).first().waitFor();
    expect(await page.title()).not.toContain("taken");
    expect(await page.locator("main img").count()).toBe(0);
  });
});

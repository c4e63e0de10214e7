// @module-tag rest
import { createServer, type Server } from "node:http";
import type { AddressInfo } from "node:net";
import type { Page } from "playwright-core";
import { afterAll, describe, expect, test } from "vitest";
import { z } from "zod";
import { KeyCreated } from "../../../protocol/keys.ts";
import { HAS_CHROMIUM, logInAt, type TestBrowser } from "../../support/browser.ts";
import { setStage } from "../../support/console.ts";
import type { Control } from "../../support/control.ts";
import type { DevServer } from "../../support/dev-server.ts";
import { eventually } from "../../support/eventually.ts";
import { signedExchange } from "../../support/http.ts";
import { lyingParquetFiles, parquetFile } from "../../support/parquet.ts";
import { objectTarget, type S3 } from "../../support/s3.ts";

/*
 * Whatever somebody stored or said is shown, runs nothing and fetches nothing from elsewhere. Every script of it would call
 * `ran`, and all that it would load is on a server of its own, which counts who comes. The console's policy is a second wall: what
 * only that wall stopped is a fault, too, and counts as `refused`.
 */

let server: DevServer;
let control: Control;
let s3: S3;
let browser: TestBrowser;
let page: Page;

/** Where what is hostile would have things loaded from. */
let elsewhere: string;
let other: Server | undefined;
/** What came to that server: each connection, as somebody may be told of a page by that alone, and each request. */
const arrived: string[] = [];
/** Where a script of what is shown ran. */
const ran: string[] = [];
/** What the policy of a page, or of a worker of it, did not let in. */
const refused: string[] = [];

/** The job that printed and failed with what is hostile. */
let failedJob: string;

/** What the test itself has the policy refuse in the end. */
const LAST = "/last";
const isLast = (said: string): boolean => said.includes(`${elsewhere}${LAST}`);
const others = (said: readonly string[]): string[] => said.filter((one) => !isLast(one));

const NAME = "<img src=x onerror=ran()>";

/** Markup that runs and loads, in each of the ways that HTML has for it. */
function running(): string {
  return [
    `<img src="${elsewhere}/img" onerror="ran()"><svg onload=ran()></svg><script>ran()</script>`,
    `<script src="${elsewhere}/script"></script><link rel="stylesheet" href="${elsewhere}/style">`,
    `<iframe src="${elsewhere}/frame" srcdoc="<script>ran()</script>"></iframe><object data="${elsewhere}/object"></object>`,
    `<style>@import url(${elsewhere}/import); * { background: url(${elsewhere}/background) }</style>`,
  ].join("");
}

/** The same, which then leads away. */
function markup(): string {
  return `${running()}<base href="${elsewhere}/"><meta http-equiv="refresh" content="0;url=${elsewhere}/">`;
}

function drawing(): string {
  return [
    `<svg xmlns="http://www.w3.org/2000/svg" width="40" height="40" onload="ran()"><script>ran()</script>`,
    `<style>@import url(${elsewhere}/svg-import); rect { fill: url(${elsewhere}/svg-fill#a) }</style>`,
    `<image href="${elsewhere}/svg-image" width="9" height="9"/><use href="${elsewhere}/svg-use#a"/><rect width="9" height="9"/>`,
    `<foreignObject width="9" height="9"><img xmlns="http://www.w3.org/1999/xhtml" src="${elsewhere}/svg-img" onerror="ran()"/></foreignObject></svg>`,
  ].join("");
}

function markdown(): string {
  const html = markup();
  return [
    `# ${html}`,
    html,
    `![one](${elsewhere}/md-1.png "t") ![two][ref] [![three](${elsewhere}/md-3.png)](javascript:ran())`,
    `[link](javascript:ran()) [data](data:text/html,<script>ran()</script>) <javascript:ran()> [vb](vbscript:ran())`,
    `| a | ${html} |\n|---|---|\n| ${NAME} | ![four](${elsewhere}/md-4.png) |`,
    `\`\`\`html"><script>ran()</script>\n${html}\n\`\`\``,
    `> - ${html}`,
    `[ref]: ${elsewhere}/md-2.png "${NAME}"`,
  ].join("\n\n");
}

/** A table whose names are markup of the length that they had. */
function parquet(): Buffer {
  const text = parquetFile("none.parquet").toString("latin1");
  return Buffer.from(text.replace(/name \d <b>bold<\/b>/g, "<svg onload=ran()>"), "latin1");
}

/** Each file by its name: what it holds, and what its preview says once it is drawn. */
function corpus(): Record<string, { body: Buffer | string; shows: string | RegExp }> {
  const cell = `"${markup().replaceAll('"', '""')}"`;
  const unreadable = "can't be read as such";
  const liars = lyingParquetFiles().map(([, body], index) => [
    `liar-${index}.parquet`,
    { body, shows: unreadable },
  ]);
  return {
    [`${NAME}.txt`]: { body: markup(), shows: "onerror" },
    "read.md": { body: markdown(), shows: "onerror" },
    "table.csv": { body: `id,${cell}\n1,${cell}\n`, shows: "onerror" },
    "lines.jsonl": { body: `${JSON.stringify({ [NAME]: markup() })}\n`, shows: "onerror" },
    "tree.json": { body: JSON.stringify({ [NAME]: markup(), a: { b: [NAME] } }), shows: "onerror" },
    "page.html": { body: `<!doctype html>${markup()}`, shows: "onerror" },
    "liar.png": { body: `<!doctype html>${markup()}`, shows: "onerror" },
    "drawing.svg": { body: drawing(), shows: "" },
    "table.parquet": { body: parquet(), shows: "<svg onload=ran()>" },
    ...Object.fromEntries(liars),
  };
}

const preview = () => page.getByRole("region", { name: "Preview" });

setStage({
  node: "edge-1",
  async begin(stage) {
    ({ server, control, s3, browser } = stage);
    other = createServer((request, response) => {
      arrived.push(request.url ?? "");
      // Whoever comes again is counted as a connection again.
      response.writeHead(200, { connection: "close" }).end();
    });
    other.on("connection", () => arrived.push("a connection"));
    await new Promise<void>((resolve) => other?.listen(0, "127.0.0.1", resolve));
    elsewhere = `http://127.0.0.1:${(other.address() as AddressInfo).port}`;
    await browser.context.exposeBinding("ran", ({ frame }) => ran.push(frame.url()));
    await browser.context.exposeBinding("refused", (_, what: string) => refused.push(what));
    await browser.context.addInitScript(() => {
      const shown = globalThis as unknown as { refused(what: string): void };
      addEventListener("securitypolicyviolation", ({ effectiveDirective, blockedURI }) =>
        shown.refused(`${effectiveDirective} ${blockedURI}`),
      );
    });
    await s3.createBucket("master.corpus");
    const headers = { "x-sluice-commit-message": NAME, "x-sluice-commit-meta-said": NAME };
    for (const [path, { body }] of Object.entries(corpus())) {
      const put = { method: "PUT", target: objectTarget("master.corpus", path), headers };
      expect((await signedExchange(server, { ...put, body })).status).toBe(200);
    }
    const said = `${NAME}<script>ran()</script>`;
    const spec = {
      pipeline: { name: "hostile" },
      transform: {
        image: "busybox",
        cmd: ["sh", "-c", `echo '${said}'; echo '${said}' >&2; exit 3`, said],
        env: { SAID: said },
      },
      inputs: [{ repo: { name: "corpus" }, glob: "/*.txt" }],
      datumTries: 1,
    };
    const text = `# ${said}\n${JSON.stringify(spec, null, 2)}\n`;
    await control.call("POST", "/pipelines?text=true", { body: { spec, text }, answers: z.unknown() });
    [{ id: failedJob = "" } = {}] = await control.ended("hostile", { count: 1 });
    await control.call("POST", "/keys", { body: { level: "read", description: said }, answers: KeyCreated });
  },
  opened(opened) {
    page = opened;
  },
});

afterAll(() => {
  other?.close();
});

/** Goes to a page as a link of it would. */
async function visit(path: string): Promise<void> {
  await page.evaluate((to) => history.pushState(null, "", to), `/console${path}`);
}

/** What is in the page that is neither the console's nor text. */
async function elementsOf(): Promise<number> {
  const never =
    "iframe, object, embed, link, base, style, script, video, [onerror], [onload], [href^='javascript' i]";
  return await page.locator(`main :is(${never}), dialog :is(${never})`).count();
}

/** Shows all of the corpus, and has each page looked at by its name. */
async function lookEverywhere(look: (what: string) => Promise<void>): Promise<void> {
  await page.getByRole("link", { name: NAME }).waitFor();
  await look("the folder");
  for (const [path, { shows }] of Object.entries(corpus())) {
    await visit(`/repos/corpus/master/file?${new URLSearchParams({ path })}`);
    await page.getByRole("heading", { level: 1, name: path, exact: true }).waitFor();
    if (shows === "") await preview().getByRole("img").first().waitFor();
    else await preview().getByText(shows, { exact: false }).first().waitFor();
    await look(path);
    const asText = preview().getByRole("button", { name: "As text" });
    if ((await asText.count()) > 0) {
      await asText.click();
      await preview().getByRole("region", { name: "Text" }).waitFor();
      await look(`${path} as text`);
    }
  }
  await page.getByRole("button", { name: "Back to its sources" }).click();
  await page.getByText("put there by hand", { exact: false }).waitFor();

  // Beside what was there before; of so little it is shown at once.
  for (const path of ["read.md", "table.csv", "drawing.svg"]) {
    const before = await s3.get("master.corpus", path);
    const { version } = await s3.put("master.corpus", path, `${before}\n${markup()}`);
    await visit(`/repos/corpus/master/diff?to=${version}`);
    await page.getByRole("link", { name: path }).waitFor();
    const compared = page.locator(".compared");
    const cells = compared.locator("td td").filter({ hasText: "onerror" });
    await (path.endsWith(".svg") ? compared.getByRole("img") : cells).first().waitFor();
    await look(`the difference of ${path}`);
  }
  await visit("/repos/corpus/master/history");
  await page.getByRole("listitem").filter({ hasText: NAME }).first().waitFor();
  await look("the history");

  await visit(`/jobs/${failedJob}`);
  await page.getByRole("log").getByText("onerror", { exact: false }).first().waitFor();
  await look("the job");
  await visit(`/jobs?${new URLSearchParams({ search: NAME })}`);
  await page.getByRole("list", { name: "Jobs" }).getByText("onerror", { exact: false }).first().waitFor();
  await look("the jobs");
  await visit("");
  await page.getByRole("region", { name: "Failed since yesterday" }).getByText("onerror").first().waitFor();
  await look("now");
  await visit("/pipelines/hostile");
  await page
    .getByRole("region", { name: "Specification", exact: true })
    .getByText("onerror")
    .first()
    .waitFor();
  await look("the pipeline");
  await visit("/pipelines/hostile/edit");
  await page.getByRole("textbox", { name: "Specification, in YAML" }).getByText("onerror").first().waitFor();
  await look("the editor");
  // It counts as live for some seconds.
  const trouble = `${NAME}<script>ran()</script>`;
  const work = [{ pipeline: "hostile", workers: 1, running: 0, trouble }];
  const bounds = { running: 1, workers: 1 };
  const node = { node: "edge-2", executor: "docker", capacity: 1, bounds, work, about: { version: NAME } };
  await control.call("POST", "/runner/heartbeat", { body: node, answers: z.unknown() });
  await visit("/nodes");
  await page.locator(".nodes .trouble").getByText("onerror").waitFor();
  await page.getByText(`Sluice ${NAME}`).waitFor();
  await look("the nodes");
  await visit("/repos/corpus/master");
  const buffer = Buffer.from(markup());
  await page.getByLabel("Choose files").setInputFiles([{ name: NAME, mimeType: "text/html", buffer }]);
  await page.getByLabel("Message of the commit").fill(NAME);
  await page.getByRole("button", { name: "Look at another commit" }).click();
  await page.getByRole("dialog").getByText("onerror").first().waitFor();
  await look("the dialog of commits");
  await page.keyboard.press("Escape");
  const bar = page.getByRole("region", { name: "Upload" });
  await bar.getByRole("button", { name: "Upload" }).click();
  await bar.getByText("uploaded as one commit").waitFor();
  await look("the upload");
  await visit("/keys");
  await page.getByRole("list").getByText("onerror", { exact: false }).first().waitFor();
  await look("the keys");
  await page.getByRole("main").focus();
  await page.keyboard.press("/");
  const dialog = page.getByRole("dialog", { name: "Search" });
  await dialog.getByLabel("Name or id").fill(NAME);
  await dialog.getByRole("link").filter({ hasText: "onerror" }).first().waitFor();
  await look("the search");

  // Whatever was refused before this is told of before it.
  await page.evaluate((source) => {
    new Image().src = source;
  }, `${elsewhere}${LAST}`);
  await eventually("it was refused", () => refused.some(isLast));
}

describe.skipIf(!HAS_CHROMIUM)("what somebody stored or said", () => {
  test("would run and load things in a page that took it for markup", async () => {
    await page.setContent(running(), { waitUntil: "commit" });
    await eventually("it ran, and was loaded", () => ran.length > 1 && arrived.includes("/img"));
  });

  test("runs nothing and fetches nothing from elsewhere, on whatever page it is shown", async () => {
    const abroad: string[] = [];
    browser.context.on("request", (request) => {
      const url = request.url();
      if (!url.startsWith(`${server.endpoint}/`) && !/^(data|blob):/.test(url)) abroad.push(url);
    });
    const scripts: string[] = [];
    const devtools = await browser.context.newCDPSession(page);
    devtools.on("Debugger.scriptParsed", ({ url }) => scripts.push(url));
    await devtools.send("Debugger.enable");
    // A page hears of what its own policy refused, and its workers say it in the log alone.
    devtools.on("Log.entryAdded", ({ entry: { source, text } }) => {
      if (source === "worker" && text.includes("Content Security Policy")) refused.push(text);
    });
    await devtools.send("Log.enable");
    await logInAt(page, server, "/repos/corpus/master");
    ran.length = 0;
    arrived.length = 0;
    const elements: string[] = [];
    const look = async (what: string): Promise<void> => {
      if ((await elementsOf()) > 0) elements.push(what);
    };

    // What leads away, or hides something, is told by what was counted until then, and not by the wait that it breaks.
    const stopped = await lookEverywhere(look).then(
      () => "",
      (error: unknown) => String(error),
    );
    const own = `${server.endpoint}/console/assets/`;
    const strangers = scripts.filter((url) => /^(https?|data|blob):/.test(url) && !url.startsWith(own));
    const counted = { ran, arrived, abroad: others(abroad), refused: others(refused), scripts: strangers };
    expect({ stopped, ...counted, elements }).toEqual({
      ...{ stopped: "", ran: [], arrived: [], abroad: [], refused: [], scripts: [], elements: [] },
    });
    expect(scripts.filter((url) => url.startsWith(own)).length).toBeGreaterThan(5);
  }, 180_000);
});

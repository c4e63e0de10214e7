import { existsSync } from "node:fs";
import axe from "axe-core";
import { type BrowserContext, chromium, type Page } from "playwright-core";
import type { Door } from "./keys.ts";
import { removeScratch, scratchFolder } from "./scratch.ts";

const CHROMIUM = "/usr/bin/chromium";

/** Whether this machine has the browser: Debian's package. */
export const HAS_CHROMIUM = existsSync(CHROMIUM);

/** Nothing of it goes to the network, and it keeps nothing. */
const FLAGS = [
  "--no-sandbox",
  "--disable-gpu",
  "--disable-quic",
  "--no-first-run",
  "--disable-background-networking",
  "--disable-component-update",
  "--disable-sync",
];

/** A browser with a profile of its own. */
export interface TestBrowser {
  readonly context: BrowserContext;
  close(): Promise<void>;
}

export async function openBrowser(): Promise<TestBrowser> {
  const profile = scratchFolder();
  const context = await chromium.launchPersistentContext(profile, {
    executablePath: CHROMIUM,
    headless: true,
    args: FLAGS,
    // Without it, Chromium can't open files whose names are not ASCII.
    env: { ...process.env, LC_ALL: "C.UTF-8" },
    viewport: { width: 1280, height: 900 },
  });
  return {
    context,
    async close() {
      await context.close();
      removeScratch(profile);
    },
  };
}

/** Takes the session of an origin out of a browser, as if nobody had logged in. */
export async function forgetSession(page: Page, endpoint: string): Promise<void> {
  await page.goto(`${endpoint}/healthz`);
  await page.evaluate(`new Promise((resolve, reject) => {
    const asked = indexedDB.deleteDatabase("sluice");
    asked.addEventListener("success", () => resolve());
    asked.addEventListener("error", () => reject(asked.error));
  })`);
}

/** Opens a page of the console by its address, and logs in there, whoever was logged in before. */
export async function logInAt(
  page: Page,
  { endpoint, accessKeyId, secretAccessKey }: Door,
  path: string,
): Promise<void> {
  await forgetSession(page, endpoint);
  await page.goto(`${endpoint}/console${path}`);
  await page.getByLabel("Access key id").fill(accessKeyId);
  await page.getByLabel("Secret access key").fill(secretAccessKey);
  await page.getByRole("button", { name: "Log in" }).click();
  await page.getByRole("navigation", { name: "Pages", exact: true }).waitFor();
}

/** Collects the paths of a page's calls of the control API, without what is before `/now` and the like. */
export function callsOf(page: Page): string[] {
  const calls: string[] = [];
  page.on("request", (request) => {
    const { pathname } = new URL(request.url());
    if (pathname.startsWith(API)) calls.push(pathname.slice(API.length));
  });
  return calls;
}

const API = "/api/v1";

/** The clock of a page, once it is installed, goes on by so many seconds; what was asked in one is answered before the next. */
export async function passSeconds(page: Page, seconds: number): Promise<void> {
  for (let second = 0; second < seconds; second++) {
    await page.clock.runFor(1000);
    await page.evaluate(() => fetch("/healthz"));
  }
}

/** What is wrong with how a page looks: what axe finds that is serious or worse, in light and in dark, and what is wider than a phone. */
export async function faultsOf(page: Page): Promise<string[]> {
  await page.emulateMedia({ colorScheme: "light", reducedMotion: "reduce" });
  const light = await seriousFaults(page);
  await page.emulateMedia({ colorScheme: "dark", reducedMotion: "reduce" });
  const dark = await seriousFaults(page);
  return [
    ...light.map((fault) => `light: ${fault}`),
    ...dark.map((fault) => `dark: ${fault}`),
    ...(await tooWide(page)),
  ];
}

/** What makes a page scroll sideways on a phone. The page is then as large again as it was. */
async function tooWide(page: Page): Promise<string[]> {
  const size = page.viewportSize();
  await page.setViewportSize({ width: 390, height: 800 });
  const wide = await page.evaluate<string[]>(`(() => {
    if (document.documentElement.scrollWidth <= innerWidth) return [];
    const beyond = [...document.body.querySelectorAll("*")]
      .filter((one) => one.getBoundingClientRect().right > innerWidth);
    return ["the page", ...beyond.slice(0, 5).map((one) => one.outerHTML.slice(0, 100))];
  })()`);
  if (size) await page.setViewportSize(size);
  return wide.map((what) => `at 390 px: ${what} is too wide`);
}

/** What axe finds in the colours that the page shows now. */
async function seriousFaults(page: Page): Promise<string[]> {
  // The page's policy lets no script in; what the debugger evaluates is none of the page.
  if (!(await page.evaluate(() => "axe" in globalThis))) await page.evaluate(axe.source);
  const found = await page.evaluate(async () => {
    const { axe: inPage } = globalThis as unknown as { axe: { run(options: object): Promise<AxeResults> } };
    const { violations } = await inPage.run({ resultTypes: ["violations"] });
    return violations;
  });
  return found
    .filter(({ impact }) => impact === "serious" || impact === "critical")
    .flatMap(({ id, nodes }) =>
      nodes.map(({ target, failureSummary }) => `${id} ${target}: ${failureSummary}`),
    );
}

interface AxeResults {
  readonly violations: readonly {
    readonly id: string;
    readonly impact: string | null;
    readonly nodes: readonly { readonly target: readonly string[]; readonly failureSummary: string }[];
  }[];
}

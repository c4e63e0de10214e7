import { copyFileSync, mkdirSync, statSync } from "node:fs";
import { join } from "node:path";
import { setTimeout as pause } from "node:timers/promises";
import type { Locator, Page } from "playwright-core";
import { logInAt, openBrowser } from "../../test/support/browser.ts";
import { type DevServer, ROOT, startDevServer } from "../../test/support/dev-server.ts";
import type { Door } from "../../test/support/keys.ts";
import { PAGES, type World } from "./console-pages.ts";
import { Worlds } from "./console-worlds.ts";

/**
 * `npm run console:screenshots`: every page of the console at a gateway that is empty, full, and failing, in light and dark, on a
 * desk and on a phone, into `build/console/`. Names after `--`, such as `jobs graph`, make those alone. With `--readme` those that
 * the README shows go into `docs/pictures/`.
 */

const FOLDER = join(ROOT, "build/console");
/** Of what is made, and what it is called in the README. */
const OF_THE_README = {
  "now-failing-light.png": "console-now.png",
  "graph-failing-light.png": "console-graph.png",
};
const MOST_BYTES = 150 * 1024;

const DESK = { width: 1280, height: 860 };
const PHONE = { width: 390, height: 844 };

const LOOKS = [
  { name: "light", colorScheme: "light", viewport: DESK },
  { name: "dark", colorScheme: "dark", viewport: DESK },
  { name: "phone", colorScheme: "light", viewport: PHONE },
  { name: "phone-dark", colorScheme: "dark", viewport: PHONE },
] as const;

type Look = (typeof LOOKS)[number];

const LOOK_EVERY_MS = 400;
/** What pages say meanwhile. */
const ASKING = /Asking the gateway|Loading the page/;

const only = process.argv.slice(2).filter((word) => !word.startsWith("--"));
mkdirSync(FOLDER, { recursive: true });
const [server, browser] = await Promise.all([startDevServer(), openBrowser()]);
const worlds = new Worlds(server);
try {
  await photographLogin(await browser.context.newPage(), server);
  await logIn(server);
  await photograph(worlds.empty());
  const full = await worlds.full();
  await logIn(full.door);
  await photograph(full);
  await photograph(await worlds.failing());
} finally {
  await browser.close();
  await worlds.stop();
  await server.stop();
}
if (process.argv.includes("--readme")) copyForReadme();

async function photographLogin(page: Page, { endpoint }: DevServer): Promise<void> {
  for (const look of LOOKS) {
    await dress(page, look);
    await page.goto(`${endpoint}/console`);
    await page.getByRole("button", { name: "Log in" }).waitFor();
    await take(page, { name: "login", look });
  }
  await page.close();
}

/** Logs in with a key whose session all pages share. */
async function logIn(door: Door): Promise<void> {
  const page = await browser.context.newPage();
  await logInAt(page, door, "/keys");
  await page.close();
}

async function photograph(world: World): Promise<void> {
  for (const { name, path, pose } of PAGES) {
    const address = path(world);
    if (address === undefined || (only.length > 0 && !only.includes(name))) continue;
    const page = await browser.context.newPage();
    await page.goto(`${server.endpoint}/console${address}`);
    await page.getByRole("heading", { level: 1 }).waitFor();
    await allThere(page);
    const seen = await pose?.(page, world);
    for (const look of LOOKS) {
      await dress(page, look);
      await take(page, { name: `${name}-${world.state}`, look, seen });
    }
    await page.close();
  }
}

/** A page may ask for more once it has its first answer: it is all there when it asks for nothing in two looks. */
async function allThere(page: Page): Promise<void> {
  for (let quiet = 0; quiet < 2; ) {
    await pause(LOOK_EVERY_MS);
    quiet = ASKING.test(await page.locator("main").innerText()) ? 0 : quiet + 1;
  }
}

async function dress(page: Page, { colorScheme, viewport }: Look): Promise<void> {
  await page.emulateMedia({ colorScheme, reducedMotion: "reduce" });
  await page.setViewportSize(viewport);
  // What places itself by the window, as the graph does, has then done so.
  await page.evaluate("new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)))");
}

interface Picture {
  readonly name: string;
  readonly look: Look;
  /** What is to be in view. */
  readonly seen?: Locator | undefined;
}

/**
 * From the top of the page, or with `seen` in its middle. A phone's picture is as long as the page, but for a dialog, which lies
 * over what is in view.
 */
async function take(page: Page, { name, look, seen }: Picture): Promise<void> {
  await page.evaluate("scrollTo(0, 0)");
  await seen?.scrollIntoViewIfNeeded();
  const isLong = look.viewport === PHONE && (await page.locator("dialog[open]").count()) === 0;
  const file = `${name}-${look.name}.png`;
  await page.screenshot({ path: join(FOLDER, file), fullPage: isLong });
  const isWide = await page.evaluate("document.documentElement.scrollWidth > innerWidth");
  console.log(`${file}${isWide ? ": it scrolls sideways" : ""}`);
}

function copyForReadme(): void {
  for (const [made, shown] of Object.entries(OF_THE_README)) {
    const from = join(FOLDER, made);
    const { size } = statSync(from);
    if (size > MOST_BYTES)
      throw new Error(`${made} has ${size} bytes: the README shows at most ${MOST_BYTES}`);
    copyFileSync(from, join(ROOT, "docs/pictures", shown));
  }
}

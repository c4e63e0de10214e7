import { setTimeout as pause } from "node:timers/promises";
import type { Page } from "playwright-core";
import type { TestBrowser } from "../../test/support/browser.ts";
import type { Door } from "../../test/support/keys.ts";
import { putBurst } from "../support/burst.ts";
import { onConsoleStage, openFreshPage, untilNewestJob } from "../support/console-stage.ts";
import type { Control } from "../support/control.ts";
import type { Row } from "../support/row.ts";
import type { BenchGateway } from "../support/servers.ts";

/** Each commit makes a job of each pipeline. */
const SIZES = { full: { pipelines: 100, commits: 100 }, quick: { pipelines: 20, commits: 50 } } as const;
/** So many of a hundred pipelines have a datum, which no runner runs: their jobs wait, one behind the other. */
const WAITING_SHARE = 0.2;
const INPUT = { repo: "console-in", branch: "master" };
const PROBE_EVERY_MS = 50;
const GIVE_UP_MS = 15 * 60 * 1000;
/** For so long an open page is watched. */
const WATCH_MS = 30_000;

/**
 * The page that people have open all day, with as many jobs as there may be, most of them ended, and others that wait: each
 * of these says why, for which its pipeline is asked. The browser has nothing in its cache, and the key is typed in no time.
 */
export const consoleRow: Row = {
  name: "console",
  title: "the console's page Now in Chromium, with 100 pipelines and 10,000 jobs",
  run: ({ scale, pairs, say }) =>
    onConsoleStage(async ({ gateway, control, openBrowser }) => {
      await makeJobs({ gateway, control, ...SIZES[scale], say });
      const browser = await openBrowser();
      const seconds: number[] = [];
      for (let turn = 0; turn < pairs; turn++) seconds.push(await firstPaint(browser, gateway.door));
      const requests = await requestsWhileOpen(browser, gateway.door);
      return [
        {
          what: "from the address to the jobs, log-in included",
          ...{ unit: "s", values: seconds, compare: "nothing", target: { atMost: 1 } },
        },
        {
          what: "requests of an open page in 2 s",
          ...{ unit: "", values: [(requests * 2000) / WATCH_MS], compare: "nothing", target: { atMost: 1 } },
        },
      ];
    }),
};

interface Making {
  readonly gateway: BenchGateway;
  readonly control: Control;
  readonly pipelines: number;
  readonly commits: number;
  say(message: string): void;
}

/** Real jobs. Those of most pipelines find nothing that matches, and end at once. */
async function makeJobs({ gateway, control, pipelines, commits, say }: Making): Promise<void> {
  const startedAt = performance.now();
  await control.createBranch(INPUT);
  const waiting = Math.round(pipelines * WAITING_SHARE);
  const names = Array.from({ length: pipelines }, (_, n) => `console-${String(n).padStart(3, "0")}`);
  for (const [n, name] of names.entries()) {
    await control.createPipeline({
      pipeline: { name },
      transform: { image: "none", cmd: ["true"] },
      inputs: [{ name: "in", repo: { name: INPUT.repo }, glob: n < waiting ? "/*" : "/none/*" }],
    });
  }
  const files = Array.from({ length: commits }, (_, n) => ({ path: `f${n % 10}`, text: `${n}\n` }));
  const newest = await putBurst(gateway, { address: INPUT, files });
  for (const [n, name] of names.entries()) {
    await untilNewestJob(control, { pipeline: name, commit: newest, hasEnded: n >= waiting });
  }
  const seconds = ((performance.now() - startedAt) / 1000).toFixed(1);
  say(`${pipelines * commits} jobs of ${pipelines} pipelines in ${seconds} s`);
}

/**
 * What types the key as soon as it is asked for, and notes when jobs have been drawn: two frames after they came into the page,
 * by when the first of them is done. It runs in the page, so that no way to the browser and back is counted.
 */
function typist({ accessKeyId, secretAccessKey }: Door): string {
  return `(() => {
    const values = ${JSON.stringify([accessKeyId, secretAccessKey])};
    const set = Object.getOwnPropertyDescriptor(HTMLInputElement.prototype, "value").set;
    let typed = false;
    new MutationObserver((_, observer) => {
      const fields = document.querySelectorAll(".login input");
      if (!typed && fields.length === values.length) {
        typed = true;
        fields.forEach((field, index) => {
          set.call(field, values[index]);
          field.dispatchEvent(new Event("input", { bubbles: true }));
        });
        setTimeout(() => fields[0].form.requestSubmit());
      }
      if (document.querySelector("main .jobs li") === null) return;
      observer.disconnect();
      requestAnimationFrame(() => requestAnimationFrame(() => { globalThis.drawnAt = performance.now(); }));
    }).observe(document, { childList: true, subtree: true });
  })()`;
}

async function openNow(browser: TestBrowser, door: Door): Promise<Page> {
  const page = await openFreshPage(browser);
  await page.addInitScript(typist(door));
  return page;
}

/** Seconds from the start of the navigation. */
async function firstPaint(browser: TestBrowser, door: Door): Promise<number> {
  const page = await openNow(browser, door);
  await page.goto(`${door.endpoint}/console`);
  const millis = await drawnAt(page);
  await page.close();
  return millis / 1000;
}

/** What the typist noted. The page's policy lets it wait for no text that is to become a script, so it is asked for. */
async function drawnAt(page: Page): Promise<number> {
  const giveUpAt = performance.now() + GIVE_UP_MS;
  while (performance.now() < giveUpAt) {
    const at: unknown = await page.evaluate("globalThis.drawnAt");
    if (typeof at === "number") return at;
    await pause(PROBE_EVERY_MS);
  }
  throw new Error("no job was drawn in time");
}

async function requestsWhileOpen(browser: TestBrowser, door: Door): Promise<number> {
  const page = await openNow(browser, door);
  await page.goto(`${door.endpoint}/console`);
  await drawnAt(page);
  let requests = 0;
  page.on("request", () => {
    requests += 1;
  });
  await pause(WATCH_MS);
  await page.close();
  return requests;
}

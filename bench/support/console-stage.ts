import { setTimeout as pause } from "node:timers/promises";
import type { Page } from "playwright-core";
import { HAS_CHROMIUM, openBrowser, type TestBrowser } from "../../test/support/browser.ts";
import { Control } from "./control.ts";
import type { Figure } from "./figure.ts";
import { type BenchGateway, startBenchGateway } from "./servers.ts";

const LOOK_EVERY_MS = 200;
const GIVE_UP_MS = 15 * 60 * 1000;

/** What a row about the console stands on. */
interface ConsoleStage {
  readonly gateway: BenchGateway;
  readonly control: Control;
  /** For when the gateway is filled: until then it would take from that. */
  openBrowser(): Promise<TestBrowser>;
}

/** Measures at a gateway of its own. That ends afterwards, and so does the browser. */
export async function onConsoleStage(measure: (stage: ConsoleStage) => Promise<Figure[]>): Promise<Figure[]> {
  if (!HAS_CHROMIUM) throw new Error("there is no /usr/bin/chromium: apt-get install chromium");
  const gateway = await startBenchGateway();
  const control = new Control(gateway.door);
  let browser: TestBrowser | undefined;
  try {
    return await measure({
      gateway,
      control,
      async openBrowser() {
        browser = await openBrowser();
        return browser;
      },
    });
  } finally {
    await browser?.close();
    await control.close();
    await gateway.stop();
  }
}

/** A page with nothing in its cache. */
export async function openFreshPage({ context }: TestBrowser): Promise<Page> {
  const page = await context.newPage();
  const session = await context.newCDPSession(page);
  await session.send("Network.setCacheDisabled", { cacheDisabled: true });
  return page;
}

interface AwaitedJob {
  readonly pipeline: string;
  /** Of its first input. */
  readonly commit: string;
  readonly hasEnded: boolean;
}

/** Waits for the job of a commit: what is measured is the page, and not beside it the making of jobs. */
export async function untilNewestJob(
  control: Control,
  { pipeline, commit, hasEnded }: AwaitedJob,
): Promise<void> {
  const giveUpAt = performance.now() + GIVE_UP_MS;
  while (performance.now() < giveUpAt) {
    const job = await control.newestJob(pipeline);
    const isThere = job?.inputs[0]?.commit === commit;
    if (isThere && (job.finishedAt !== null) === hasEnded) return;
    await pause(LOOK_EVERY_MS);
  }
  throw new Error(`the job of ${pipeline} was not made in time`);
}

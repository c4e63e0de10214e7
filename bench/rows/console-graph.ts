import { setTimeout as pause } from "node:timers/promises";
import { HAS_CHROMIUM, openBrowser, type TestBrowser } from "../../test/support/browser.ts";
import type { Door } from "../../test/support/keys.ts";
import { Control } from "../support/control.ts";
import type { Row } from "../support/row.ts";
import { startBenchGateway } from "../support/servers.ts";

/** Layers, in each of which every pipeline reads two of the layer before: all of it hangs together. */
const SIZES = { full: { layers: 10, width: 100 }, quick: { layers: 5, width: 20 } } as const;
const INPUT = { repo: "graph-in", branch: "master" };
/** Pipelines that are made at once. */
const AT_ONCE = 8;
const LOOK_EVERY_MS = 200;
const GIVE_UP_MS = 5 * 60 * 1000;

/**
 * All pipelines are real, and those of the first layer have a job that waits: the call asks their objects why. The browser
 * has nothing in its cache; the time is from the click to the picture, so the library and the call are in it.
 */
export const consoleGraph: Row = {
  name: "console-graph",
  title: "the console's graph of 1,000 pipelines in Chromium",
  async run({ scale, pairs, say }) {
    if (!HAS_CHROMIUM) throw new Error("there is no /usr/bin/chromium: apt-get install chromium");
    const gateway = await startBenchGateway();
    const control = new Control(gateway.door);
    let browser: TestBrowser | undefined;
    try {
      const count = await makeLayers(control, { ...SIZES[scale], say });
      const call: number[] = [];
      for (let turn = 0; turn < pairs; turn++) {
        const startedAt = performance.now();
        await control.get("/graph");
        call.push(performance.now() - startedAt);
      }
      browser = await openBrowser();
      const seconds: number[] = [];
      for (let turn = 0; turn < pairs; turn++) seconds.push(await secondsToPicture(browser, gateway.door));
      return [
        {
          what: `from the click to the graph of ${count}`,
          ...{ unit: "s", values: seconds, compare: "nothing", target: { atMost: 1 } },
        },
        { what: "GET /graph of them", unit: "ms", values: call, compare: "nothing", target: null },
      ];
    } finally {
      await browser?.close();
      await control.close();
      await gateway.stop();
    }
  },
};

interface Making {
  readonly layers: number;
  readonly width: number;
  say(message: string): void;
}

/** Returns how many there are. */
async function makeLayers(control: Control, { layers, width, say }: Making): Promise<number> {
  const startedAt = performance.now();
  await control.createBranch(INPUT);
  const nameOf = (layer: number, place: number): string => `layer${layer}-${place % width}`;
  for (let layer = 0; layer < layers; layer++) {
    for (let place = 0; place < width; place += AT_ONCE) {
      const places = Array.from({ length: Math.min(AT_ONCE, width - place) }, (_, n) => place + n);
      await Promise.all(
        places.map((each) => {
          const before = [nameOf(layer - 1, each), nameOf(layer - 1, each + 1)];
          const repos = layer === 0 ? [INPUT.repo] : before;
          return control.createPipeline({
            pipeline: { name: nameOf(layer, each) },
            transform: { image: "none", cmd: ["true"] },
            inputs: repos.map((name) => ({ repo: { name }, glob: "/" })),
          });
        }),
      );
    }
  }
  const commit = await control.putFile(INPUT, { path: "a", bytes: "a" });
  for (let place = 0; place < width; place++) await jobOf(control, { pipeline: nameOf(0, place), commit });
  say(`${layers * width} pipelines in ${((performance.now() - startedAt) / 1000).toFixed(1)} s`);
  return layers * width;
}

/** Waits until a pipeline has its job: what is measured is the graph, and not beside it the making of jobs. */
async function jobOf(
  control: Control,
  { pipeline, commit }: { readonly pipeline: string; readonly commit: string },
): Promise<void> {
  const giveUpAt = performance.now() + GIVE_UP_MS;
  while (performance.now() < giveUpAt) {
    const job = await control.newestJob(pipeline);
    if (job?.inputs[0]?.commit === commit) return;
    await pause(LOOK_EVERY_MS);
  }
  throw new Error(`the job of ${pipeline} was not made in time`);
}

/**
 * Goes to the graph from the page before it, and says when nodes have been drawn: two frames after they came into the page. It
 * runs in the page, so that no way to the browser and back is counted.
 */
const GO = `new Promise((resolve) => {
  const startedAt = performance.now();
  new MutationObserver((_, observer) => {
    if (document.querySelector(".graph [data-node]") === null) return;
    observer.disconnect();
    requestAnimationFrame(() => requestAnimationFrame(() => resolve(performance.now() - startedAt)));
  }).observe(document, { childList: true, subtree: true });
  document.querySelector('nav a[href$="/graph"]').click();
})`;

async function secondsToPicture(browser: TestBrowser, door: Door): Promise<number> {
  const page = await browser.context.newPage();
  const session = await browser.context.newCDPSession(page);
  await session.send("Network.setCacheDisabled", { cacheDisabled: true });
  await page.goto(`${door.endpoint}/console`);
  await page.getByLabel("Access key id").fill(door.accessKeyId);
  await page.getByLabel("Secret access key").fill(door.secretAccessKey);
  await page.getByRole("button", { name: "Log in" }).click();
  await page.getByRole("navigation").waitFor();
  const millis: number = await page.evaluate(GO);
  await page.close();
  return millis / 1000;
}

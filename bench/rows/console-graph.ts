import { logInAt, type TestBrowser } from "../../test/support/browser.ts";
import type { Door } from "../../test/support/keys.ts";
import { onConsoleStage, openFreshPage, untilNewestJob } from "../support/console-stage.ts";
import type { Control } from "../support/control.ts";
import type { Row } from "../support/row.ts";

/** Layers, in each of which every pipeline reads two of the layer before: all of it hangs together. */
const SIZES = { full: { layers: 10, width: 100 }, quick: { layers: 5, width: 20 } } as const;
const INPUT = { repo: "graph-in", branch: "master" };
/** Pipelines that are made at once. */
const AT_ONCE = 8;

/**
 * All pipelines are real, and those of the first layer have a job that waits: the call asks their objects why. The browser
 * has nothing in its cache; the time is from the click to the picture, so the library and the call are in it.
 */
export const consoleGraph: Row = {
  name: "console-graph",
  title: "the console's graph of 1,000 pipelines in Chromium",
  run: ({ scale, pairs, say }) =>
    onConsoleStage(async ({ gateway, control, openBrowser }) => {
      const count = await makeLayers(control, { ...SIZES[scale], say });
      const call: number[] = [];
      for (let turn = 0; turn < pairs; turn++) {
        const startedAt = performance.now();
        await control.get("/graph");
        call.push(performance.now() - startedAt);
      }
      const browser = await openBrowser();
      const seconds: number[] = [];
      for (let turn = 0; turn < pairs; turn++) seconds.push(await secondsToPicture(browser, gateway.door));
      return [
        {
          what: `from the click to the graph of ${count}`,
          ...{ unit: "s", values: seconds, compare: "nothing", target: { atMost: 1 } },
        },
        { what: "GET /graph of them", unit: "ms", values: call, compare: "nothing", target: null },
      ];
    }),
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
  for (let place = 0; place < width; place++)
    await untilNewestJob(control, { pipeline: nameOf(0, place), commit, hasEnded: false });
  say(`${layers * width} pipelines in ${((performance.now() - startedAt) / 1000).toFixed(1)} s`);
  return layers * width;
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
  const page = await openFreshPage(browser);
  await logInAt(page, door, "");
  const millis: number = await page.evaluate(GO);
  await page.close();
  return millis / 1000;
}

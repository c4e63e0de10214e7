// @module-tag rest
import type { Page } from "playwright-core";
import { describe, expect, test } from "vitest";
import { z } from "zod";
import { callsOf, faultsOf, HAS_CHROMIUM, logInAt } from "../../support/browser.ts";
import { setStage } from "../../support/console.ts";
import type { Control } from "../../support/control.ts";
import type { DevServer } from "../../support/dev-server.ts";

let server: DevServer;
let control: Control;
let page: Page;
let asked: string[];

setStage({
  async begin(stage) {
    ({ server, control } = stage);
    const { s3 } = stage;
    await s3.createBucket("master.photos");
    await s3.createBucket("master.masks");
    await s3.put("master.photos", "a.txt", "a");
    await create("etl-clean", ["photos"]);
    await create("etl-join", ["etl-clean", "masks"]);
    await create("report", ["etl-join"]);
    await create("lonely", ["masks"]);
  },
  opened(opened) {
    page = opened;
    asked = callsOf(page);
  },
});

async function create(name: string, inputs: readonly string[]): Promise<void> {
  await control.createPipeline({
    pipeline: { name },
    transform: { image: "busybox", cmd: ["true"] },
    inputs: inputs.map((repo) => ({ repo: { name: repo }, glob: "/" })),
  });
}

const logIn = (path: string): Promise<void> => logInAt(page, server, path);

/** Looks again and again, also on a machine that has much else to do. */
const soon = <T>(look: () => T | Promise<T>) => expect.poll(look);

const node = (id: string) => page.locator(`[data-node="${id}"]`);
const graph = () => page.getByRole("application", { name: "Graph of pipelines" });

/** The names of the nodes that are drawn, those that are faint in brackets. */
async function drawn(): Promise<string[]> {
  const nodes = await page.locator("[data-node]").evaluateAll((all) =>
    all.map((one) => {
      const name = one.getAttribute("data-node") ?? "";
      return one.classList.contains("faint") ? `(${name})` : name;
    }),
  );
  return nodes.sort();
}

/** Whether every node is in the window of the graph. */
async function isWhole(): Promise<boolean> {
  return graph().evaluate((svg) => {
    const window = svg.getBoundingClientRect();
    const boxes = [...svg.querySelectorAll("[data-node]")].map((one) => one.getBoundingClientRect());
    return boxes.length === 6 && boxes.every((box) => box.left >= window.left && box.right <= window.right);
  });
}

/** Where the middle of what is drawn is in the window of the graph: 0 at its top, 1 at its bottom. */
async function heightOfMiddle(): Promise<number> {
  return graph().evaluate((svg) => {
    const window = svg.getBoundingClientRect();
    const boxes = [...svg.querySelectorAll("[data-node]")].map((one) => one.getBoundingClientRect());
    const top = Math.min(...boxes.map((box) => box.top));
    const bottom = Math.max(...boxes.map((box) => box.bottom));
    return ((top + bottom) / 2 - window.top) / window.height;
  });
}

/** How much of each node is in the window of the graph, from left to right: 1 is all of it. */
async function partsInView(ids: readonly string[]): Promise<number[]> {
  return graph().evaluate((svg, wanted) => {
    const window = svg.getBoundingClientRect();
    return wanted.map((id) => {
      const box = svg.querySelector(`[data-node="${id}"]`)?.getBoundingClientRect();
      if (!box) return 0;
      return (Math.min(box.right, window.right) - Math.max(box.left, window.left)) / box.width;
    });
  }, ids);
}

const transformOfAll = () => graph().locator("> g").getAttribute("transform");

describe.skipIf(!HAS_CHROMIUM)("the graph", () => {
  test("shows who reads whom and how each stands, in one call, from left to right", async () => {
    // What draws comes only when the gateway has been asked: neither waits for the other.
    const call = page.waitForRequest("**/api/v1/graph");
    await page.route("**/assets/graph-*.js", async (route) => {
      await call;
      await route.continue();
    });
    await logIn("/graph");
    await node("pipeline:report").waitFor();
    await soon(drawn).toEqual([
      "bucket:master.masks",
      "bucket:master.photos",
      "pipeline:etl-clean",
      "pipeline:etl-join",
      "pipeline:lonely",
      "pipeline:report",
    ]);
    expect(new Set(asked)).toEqual(new Set(["/console/sessions", "/graph"]));
    const lefts = await Promise.all(
      ["bucket:master.photos", "pipeline:etl-clean", "pipeline:etl-join", "pipeline:report"].map(
        async (id) => (await node(id).boundingBox())?.x ?? 0,
      ),
    );
    expect(lefts).toEqual(lefts.toSorted((a, b) => a - b));
    // No runner is there.
    await page.locator('.waiting[data-node="pipeline:etl-clean"]').waitFor();
    expect(await node("pipeline:etl-clean").locator("title").textContent()).toContain("no live runner");
    expect(await node("pipeline:etl-clean").locator(".below").textContent()).toBe("1 job under way");
  });

  test("takes states over as they change, and keeps its places", async () => {
    await logIn("/graph");
    await node("pipeline:lonely").waitFor();
    const place = await node("pipeline:lonely").getAttribute("transform");
    await control.call("POST", "/pipelines/lonely/stop", { answers: z.unknown() });
    await page.locator('.killed[data-node="pipeline:lonely"]').waitFor();
    expect(await node("pipeline:lonely").getAttribute("transform")).toBe(place);
    expect(await page.locator(".heard").textContent()).toBe("live");
    await page.getByRole("link", { name: "Now", exact: true }).click();
    await page.getByText("lonely: it follows no input until it is started.").waitFor();
    await page.getByRole("link", { name: "Graph", exact: true }).click();
    await control.call("POST", "/pipelines/lonely/start", { answers: z.unknown() });
    await page.locator('.idle[data-node="pipeline:lonely"]').waitFor();
  });

  test("finds a pipeline with all before and after it, shows these alone if asked, and a link shows the same", async () => {
    await logIn("/graph");
    await page.getByLabel("Find, with all before and after").fill("clean");
    await page.getByText("1 found; 4 with all that is before and after it").waitFor();
    await soon(drawn).toEqual([
      "(bucket:master.masks)",
      "(pipeline:lonely)",
      "bucket:master.photos",
      "pipeline:etl-clean",
      "pipeline:etl-join",
      "pipeline:report",
    ]);
    await page.getByLabel("show only these").check();
    await soon(() => page.locator("[data-node]").count()).toBe(4);
    const link = new URL(page.url());
    await logIn(`/graph${link.search}`);
    await soon(() => page.locator("[data-node]").count()).toBe(4);
  });

  test("folds pipelines whose names begin alike, and unfolds them with a click", async () => {
    await logIn("/graph");
    await page.getByText("Fold by prefix").click();
    await page.getByRole("checkbox", { name: "etl- 2" }).check();
    await node("fold:etl-").waitFor();
    await soon(drawn).toEqual(["bucket:master.masks", "fold:etl-", "pipeline:lonely", "pipeline:report"]);
    expect(await node("fold:etl-").textContent()).toContain("2 pipelines");
    await node("fold:etl-").click();
    await node("pipeline:etl-clean").waitFor();
  });

  test("is walked with the keyboard alone, tells where one is, and opens what one is at", async () => {
    await logIn("/graph");
    await node("pipeline:report").waitFor();
    await graph().focus();
    const status = page.locator(".graph [role=status]");
    await page.keyboard.press("ArrowDown");
    await soon(() => status.textContent()).not.toBe("");
    await page.getByLabel("Find, with all before and after").fill("etl-clean");
    await page.getByText("1 found", { exact: false }).waitFor();
    await page.keyboard.press("Tab");
    await graph().focus();
    await page.keyboard.press("Escape");
    await page.keyboard.press("ArrowRight");
    await soon(() => status.textContent()).toBe("pipeline etl-clean, waits; 1 before it, 1 after it");
    await page.keyboard.press("ArrowRight");
    await soon(() => status.textContent()).toContain("pipeline etl-join");
    await page.keyboard.press("ArrowRight");
    await page.keyboard.press("Enter");
    await page.waitForURL(/\/pipelines\/report$/);
  });

  test("fits the window when that becomes narrow or wide, until somebody looks closer", async () => {
    await page.setViewportSize({ width: 1280, height: 860 });
    await logIn("/graph");
    await node("pipeline:report").waitFor();
    await page.setViewportSize({ width: 720, height: 860 });
    await soon(isWhole).toBe(true);
    // Where names could not be read, it is seen in part, in the middle.
    await page.setViewportSize({ width: 390, height: 860 });
    await soon(isWhole).toBe(false);
    await soon(heightOfMiddle).toBeCloseTo(0.5, 1);
    await page.setViewportSize({ width: 1280, height: 860 });
    await soon(isWhole).toBe(true);
    await page.getByRole("button", { name: "Larger" }).click();
    const seen = await transformOfAll();
    await page.setViewportSize({ width: 720, height: 860 });
    await soon(() => graph().evaluate((one) => one.clientWidth)).toBeLessThan(720);
    expect(await transformOfAll()).toBe(seen);
    await page.getByRole("button", { name: "All", exact: true }).click();
    await soon(isWhole).toBe(true);
  });

  test("shows two whole columns on a phone, in letters that one reads, and names that fit", async () => {
    await page.setViewportSize({ width: 390, height: 860 });
    await logIn("/graph");
    await node("pipeline:etl-clean").waitFor();
    const columns = ["bucket:master.photos", "pipeline:etl-clean"];
    await soon(() => partsInView(columns)).toEqual([1, 1]);
    const letters = await graph().evaluate((svg) =>
      [...svg.querySelectorAll<SVGTextElement>("[data-node] > text")].map((text) => {
        const scale = text.getScreenCTM()?.a ?? 0;
        const node = text.parentElement?.querySelector("rect:not(.behind)")?.getBoundingClientRect();
        return {
          pixels: Number.parseFloat(getComputedStyle(text).fontSize) * scale,
          isInside: text.getBoundingClientRect().right <= (node?.right ?? 0),
        };
      }),
    );
    expect(letters.length).toBeGreaterThan(4);
    expect(Math.min(...letters.map(({ pixels }) => pixels))).toBeGreaterThanOrEqual(12);
    expect(letters.every(({ isInside }) => isInside)).toBe(true);
  });

  test("is a list for who sees no drawing", async () => {
    await logIn("/graph");
    await page.getByRole("button", { name: "As a list" }).click();
    const row = page
      .getByRole("row", { name: /etl-join/ })
      .filter({ has: page.getByRole("link", { name: "etl-join" }) });
    await row.waitFor();
    expect(await row.innerText()).toMatch(/etl-clean, master\.masks\s+report/);
    await page.getByRole("button", { name: "Choose report" }).click();
    await page.getByText("1 found; 5 with all that is before and after it").waitFor();
    expect(await page.getByRole("link", { name: "lonely" }).count()).toBe(0);
  });

  test("has what each pipeline makes as data, if asked, which leads to its files", async () => {
    await logIn("/graph");
    await node("pipeline:report").waitFor();
    await page.getByLabel("with what each makes").check();
    await node("bucket:master.etl-clean").waitFor();
    expect(new URL(page.url()).search).toBe("?data=1");
    await soon(drawn).toContain("bucket:master.report");
    expect(await faultsOf(page)).toEqual([]);
    await node("bucket:master.etl-clean").click();
    await page.waitForURL(/\/repos\/etl-clean\/master$/);
  });

  test("says when the last job of a pipeline ended, and how long that took", async () => {
    const [job] = await control.jobs("etl-clean");
    await control.call("POST", `/jobs/${job?.id}/stop`, { answers: z.unknown() });
    await logIn("/graph");
    await soon(() => node("pipeline:etl-clean").locator(".below").textContent()).toMatch(/\d.*, took \d/);
  });

  test("has nothing that axe finds serious, in light and dark, and fits a phone", async () => {
    await logIn("/graph?search=clean");
    await node("pipeline:report").waitFor();
    expect(await faultsOf(page)).toEqual([]);
    await page.getByRole("button", { name: "As a list" }).click();
    await page.getByRole("table").waitFor();
    expect(await faultsOf(page)).toEqual([]);
  });
});

describe.skipIf(!HAS_CHROMIUM)("a graph of 1,000 pipelines", () => {
  /** Layers of 100 that read two of the layer before, so that all of it hangs together. */
  const MANY = Array.from({ length: 1000 }, (_, index) => {
    const [layer, place] = [Math.floor(index / 100), index % 100];
    const name = (at: number, where: number): string => `p${at}-${where % 100}`;
    return {
      ...{ name: name(layer, place), state: "active", outputs: [`master.${name(layer, place)}`] },
      inputs:
        layer === 0
          ? [`master.source-${place % 10}`]
          : [`master.${name(layer - 1, place)}`, `master.${name(layer - 1, place + 1)}`],
    };
  });

  /** How many nodes and edges are in the page, and which nodes are farther from the window than it is large. */
  async function drawnOfMany() {
    return graph().evaluate((svg) => {
      const window = svg.getBoundingClientRect();
      const nodes = [...svg.querySelectorAll("[data-node]")];
      const paths = [...svg.querySelectorAll(".edge")].map((one) => one.getAttribute("d") ?? "");
      const far = nodes.filter((one) => {
        const { left, right, top, bottom } = one.getBoundingClientRect();
        const isBeside = right < window.left - window.width || left > window.right + window.width;
        return isBeside || bottom < window.top - window.height || top > window.bottom + window.height;
      });
      return {
        nodes: nodes.length,
        edges: paths.join("").split("M").length - 1,
        far: far.map((one) => one.getAttribute("data-node")),
      };
    });
  }

  test("draws what is in view alone, and from afar all of it", async () => {
    await page.route("**/api/v1/graph", (route) => route.fulfill({ json: { pipelines: MANY } }));
    await logIn("/graph");
    await graph().waitFor();
    expect(await graph().getAttribute("data-nodes")).toBe("1010");
    await page.locator("[data-node]").first().waitFor();
    const { nodes, edges, far } = await drawnOfMany();
    expect(nodes).toBeGreaterThan(10);
    expect(nodes).toBeLessThan(600);
    expect(edges).toBeGreaterThan(10);
    expect(edges).toBeLessThan(1200);
    expect(far).toEqual([]);
    await page.getByRole("button", { name: "All", exact: true }).click();
    await soon(() => page.locator("[data-node]").count()).toBe(1010);
    expect((await drawnOfMany()).edges).toBe(1900);
    await page.getByLabel("Find, with all before and after").fill("p9-42");
    await node("pipeline:p9-42").waitFor();
    await page.getByText("1 found; ", { exact: false }).waitFor();
  });

  test("a graph of no pipelines leads to the creation of one", async () => {
    await page.route("**/api/v1/graph", (route) => route.fulfill({ json: { pipelines: [] } }));
    await logIn("/graph");
    await page.getByRole("link", { name: "Create a pipeline" }).click();
    await page.waitForURL(/\/new\/pipeline$/);
  });
});

import type { Locator, Page } from "playwright-core";
import type { Door } from "../../test/support/keys.ts";
import { TRIPS, TRIPS_TAG } from "./console-files.ts";

/** What there is to show at a gateway. */
export interface World {
  readonly state: "empty" | "full" | "failing";
  /** The key that looks at it. */
  readonly door: Door;
  readonly jobs: {
    /** It runs, some of its datums are done. */
    readonly running: string;
    /** No node can run it. */
    readonly waiting: string;
    readonly done: string;
    readonly failed: string;
  };
  /** A repo with commits, and one of its files. */
  readonly repo: string;
  readonly file: string;
  /** Whose jobs are many. */
  readonly pipeline: string;
}

/** A page of the console as it is photographed. */
interface PicturedPage {
  readonly name: string;
  /** Undefined: in this state there is nothing to show. `path` is below `/console`. */
  path(world: World): string | undefined;
  /** Brings it to what is to be seen: its beginning, unless this tells what else. By default what it shows first. */
  pose?(page: Page, world: World): Promise<Locator | undefined>;
}

function whenFull(path: (world: World) => string): PicturedPage["path"] {
  return (world) => (world.state === "full" ? path(world) : undefined);
}

function whenFailing(path: (world: World) => string): PicturedPage["path"] {
  return (world) => (world.state === "failing" ? path(world) : undefined);
}

const TRIPS_HREF = `/repos/${TRIPS}/master`;

/** A preview of one of the files of many kinds. */
function preview(name: string, path: string): PicturedPage {
  return {
    name,
    path: whenFull(() => `${TRIPS_HREF}/file?${new URLSearchParams({ path })}`),
    async pose(page) {
      await page.getByRole("region", { name: "Preview" }).waitFor();
      return undefined;
    },
  };
}

/** Every page of the console. Those that need a key are opened by their address. */
export const PAGES: readonly PicturedPage[] = [
  { name: "now", path: () => "/" },
  {
    name: "job",
    path: ({ state, jobs }) =>
      ({ empty: undefined, full: `/jobs/${jobs.running}`, failing: `/jobs/${jobs.failed}` })[state],
  },
  { name: "job-waiting", path: whenFull(({ jobs }) => `/jobs/${jobs.waiting}`) },
  {
    name: "job-filtered",
    path: whenFailing(({ jobs }) => `/jobs/${jobs.failed}?datum=all`),
    async pose(page) {
      await page.getByText(/and \d+ others/).click();
      await page.getByLabel("Lines with").fill("end of");
      return page.getByRole("log");
    },
  },
  {
    name: "job-stream",
    path: whenFailing(({ jobs }) => `/jobs/${jobs.failed}?datum=all`),
    async pose(page) {
      await page.getByLabel("Printed on").selectOption("stderr");
      const log = page.getByRole("log");
      await log.locator(".stderr").first().waitFor();
      return log;
    },
  },
  {
    name: "job-retry",
    path: whenFailing(({ jobs }) => `/jobs/${jobs.failed}`),
    async pose(page) {
      await page.getByRole("button", { name: "Retry what failed" }).click();
      await page.getByText("The new job reads").waitFor();
      return undefined;
    },
  },
  { name: "jobs", path: () => "/jobs" },
  { name: "jobs-found", path: whenFailing(() => "/jobs?search=end of image&state=failure&made=1d") },
  { name: "repos", path: () => "/repos" },
  { name: "repo", path: whenFull(({ repo }) => `/repos/${repo}`) },
  { name: "folder", path: whenFull(({ repo }) => `/repos/${repo}/master`) },
  {
    name: "file",
    path: whenFull(({ repo, file }) => `/repos/${repo}/master/file?${new URLSearchParams({ path: file })}`),
    async pose(page) {
      await page.getByRole("button", { name: "What was made from this" }).click();
      await page.getByRole("region", { name: "Lineage" }).getByRole("link").first().waitFor();
      return undefined;
    },
  },
  {
    name: "sources",
    path: whenFull(() => "/repos/contact-sheet/master/file?path=sheet.html"),
    async pose(page) {
      await page.getByRole("button", { name: "Back to its sources" }).click();
      await page.getByText("put there by hand").first().waitFor();
      return undefined;
    },
  },
  {
    name: "folder-sorted",
    path: whenFull(() => TRIPS_HREF),
    async pose(page) {
      await page.getByRole("button", { name: "Size" }).click();
      return undefined;
    },
  },
  preview("markdown", "README.md"),
  preview("json", "settings.json"),
  preview("parquet", "trips.parquet"),
  preview("table", "stops.csv"),
  {
    name: "diff-compared",
    path: whenFull(() => `${TRIPS_HREF}/diff?from=${TRIPS_TAG}`),
    async pose(page) {
      await page.getByRole("img", { name: "map.svg after" }).waitFor();
      return undefined;
    },
  },
  { name: "history-trips", path: whenFull(() => `${TRIPS_HREF}/history`) },
  { name: "history-output", path: whenFull(() => "/repos/thumbnails/master/history") },
  {
    name: "commit-picker",
    path: whenFull(({ repo }) => `/repos/${repo}/master`),
    async pose(page) {
      await page.getByRole("button", { name: "Look at another commit" }).click();
      await page.getByRole("dialog").getByRole("listitem").nth(1).waitFor();
      return undefined;
    },
  },
  { name: "history", path: whenFull(({ repo }) => `/repos/${repo}/master/history`) },
  { name: "diff", path: whenFull(({ repo }) => `/repos/${repo}/master/diff`) },
  { name: "settings", path: whenFull(({ repo }) => `/repos/${repo}/master/settings`) },
  {
    name: "bucket-deletion",
    path: whenFull(({ repo }) => `/repos/${repo}/master/settings`),
    async pose(page, { repo }) {
      await page.getByRole("button", { name: `Delete master.${repo}` }).click();
      const field = page.getByLabel(`Type master.${repo}`);
      await field.fill(`master.${repo}`);
      return field;
    },
  },
  { name: "pipelines", path: () => "/pipelines" },
  { name: "pipeline", path: ({ pipeline }) => (pipeline === "" ? undefined : `/pipelines/${pipeline}`) },
  {
    name: "pipeline-deletion",
    path: whenFull(({ pipeline }) => `/pipelines/${pipeline}`),
    async pose(page, { pipeline }) {
      await page.getByRole("button", { name: `Delete ${pipeline}` }).click();
      return page.getByLabel(`Type ${pipeline}`);
    },
  },
  { name: "job-done", path: whenFull(({ jobs }) => `/jobs/${jobs.done}`) },
  { name: "specification", path: whenFull(() => "/new/pipeline") },
  {
    name: "versions",
    path: whenFull(() => "/pipelines/trip-stats"),
    async pose(page) {
      await page.getByText("and those before it").click();
      const show = page.getByRole("button", { name: "Show the difference" });
      await show.first().click();
      await show.first().click();
      const difference = page.getByRole("region", { name: "Version 2 beside 1" });
      await difference.waitFor();
      return difference;
    },
  },
  { name: "specification-yaml", path: whenFull(() => "/pipelines/trip-stats/edit") },
  {
    name: "specification-wrong",
    path: whenFull(() => "/pipelines/trip-stats/edit"),
    async pose(page) {
      await page.getByText("parallelism_spec", { exact: true }).click();
      await page.keyboard.press("Home");
      await page.keyboard.type("datumTries: many\n");
      await page.getByText("1 problem").waitFor();
      return undefined;
    },
  },
  { name: "graph", path: () => "/graph" },
  { name: "graph-data", path: whenFull(() => "/graph?data=1") },
  { name: "nodes", path: () => "/nodes" },
  {
    name: "search",
    path: whenFailing(() => "/"),
    async pose(page) {
      await page.keyboard.press("/");
      await page.getByLabel("Name or id").fill("th");
      await page.getByRole("list", { name: "Results" }).getByRole("link").nth(3).waitFor();
      return undefined;
    },
  },
  {
    name: "shortcuts",
    path: whenFailing(() => "/"),
    async pose(page) {
      await page.keyboard.press("?");
      await page.getByRole("dialog", { name: "Keys of the keyboard" }).waitFor();
      return undefined;
    },
  },
  {
    name: "gateway-away",
    path: whenFailing(() => "/"),
    async pose(page) {
      await page.route("**/*", (route) => route.abort());
      await page.getByRole("link", { name: "Nodes", exact: true }).click();
      await page.getByText("The gateway may be away").waitFor();
      return undefined;
    },
  },
  { name: "keys", path: () => "/keys" },
  {
    name: "key-form",
    path: whenFull(() => "/keys"),
    async pose(page) {
      await page.getByRole("button", { name: "Make a key" }).click();
      await page.getByRole("radio", { name: /^admin/ }).check();
      await page.getByRole("radio", { name: /^some repos/ }).check();
      return undefined;
    },
  },
  {
    name: "key-deletion",
    path: ({ state }) => (state === "failing" ? "/keys" : undefined),
    async pose(page) {
      await page
        .getByRole("button", { name: /^Delete SLUICE/ })
        .nth(2)
        .click();
      return page.getByLabel(/^Type SLUICE/);
    },
  },
];

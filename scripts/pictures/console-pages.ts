import type { Locator, Page } from "playwright-core";

/** What there is to show at a gateway. */
export interface World {
  readonly state: "empty" | "full" | "failing";
  readonly jobs: {
    /** It runs, some of its datums are done. */
    readonly running: string;
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

/** Every page of the console. Those that need a key are opened by their address. */
export const PAGES: readonly PicturedPage[] = [
  { name: "now", path: () => "/" },
  {
    name: "job",
    path: ({ state, jobs }) =>
      ({ empty: undefined, full: `/jobs/${jobs.running}`, failing: `/jobs/${jobs.failed}` })[state],
  },
  { name: "jobs", path: () => "/jobs" },
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
  { name: "graph", path: () => "/graph" },
  { name: "nodes", path: () => "/nodes" },
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

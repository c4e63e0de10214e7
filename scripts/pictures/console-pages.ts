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

/** Every page of the console. Those that need a key are opened by their address. */
export const PAGES: readonly PicturedPage[] = [
  { name: "now", path: () => "/" },
  {
    name: "job",
    path: ({ state, jobs }) =>
      ({ empty: undefined, full: `/jobs/${jobs.running}`, failing: `/jobs/${jobs.failed}` })[state],
  },
  { name: "repos", path: () => "/repos" },
  { name: "repo", path: ({ state, repo }) => (state === "full" ? `/repos/${repo}` : undefined) },
  { name: "folder", path: ({ state, repo }) => (state === "full" ? `/repos/${repo}/master` : undefined) },
  {
    name: "file",
    path: ({ state, repo, file }) =>
      state === "full" ? `/repos/${repo}/master/file?${new URLSearchParams({ path: file })}` : undefined,
    async pose(page) {
      await page.getByRole("button", { name: "What was made from this" }).click();
      await page.getByRole("region", { name: "Lineage" }).getByRole("link").first().waitFor();
      return undefined;
    },
  },
  {
    name: "commit-picker",
    path: ({ state, repo }) => (state === "full" ? `/repos/${repo}/master` : undefined),
    async pose(page) {
      await page.getByRole("button", { name: "Look at another commit" }).click();
      await page.getByRole("dialog").getByRole("listitem").nth(1).waitFor();
      return undefined;
    },
  },
  {
    name: "history",
    path: ({ state, repo }) => (state === "full" ? `/repos/${repo}/master/history` : undefined),
  },
  { name: "diff", path: ({ state, repo }) => (state === "full" ? `/repos/${repo}/master/diff` : undefined) },
  {
    name: "settings",
    path: ({ state, repo }) => (state === "full" ? `/repos/${repo}/master/settings` : undefined),
  },
  {
    name: "bucket-deletion",
    path: ({ state, repo }) => (state === "full" ? `/repos/${repo}/master/settings` : undefined),
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
    path: ({ state, pipeline }) => (state === "full" ? `/pipelines/${pipeline}` : undefined),
    async pose(page, { pipeline }) {
      await page.getByRole("button", { name: `Delete ${pipeline}` }).click();
      return page.getByLabel(`Type ${pipeline}`);
    },
  },
  { name: "job-done", path: ({ state, jobs }) => (state === "full" ? `/jobs/${jobs.done}` : undefined) },
  { name: "specification", path: ({ state }) => (state === "full" ? "/new/pipeline" : undefined) },
  { name: "graph", path: () => "/graph" },
  { name: "nodes", path: () => "/nodes" },
  { name: "keys", path: () => "/keys" },
  {
    name: "key-form",
    path: ({ state }) => (state === "full" ? "/keys" : undefined),
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

// @module-tag rest
import type { Page } from "playwright-core";
import { afterAll, describe, expect, test } from "vitest";
import { z } from "zod";
import { KeyCreated, KeyPage } from "../../../protocol/keys.ts";
import { JobPage } from "../../../protocol/pipelines.ts";
import { type Node, NodeList } from "../../../protocol/runner.ts";
import { callsOf, faultsOf, HAS_CHROMIUM, logInAt, passSeconds } from "../../support/browser.ts";
import { setStage } from "../../support/console.ts";
import type { Control } from "../../support/control.ts";
import { type DevServer, startRunner } from "../../support/dev-server.ts";
import type { Door } from "../../support/keys.ts";
import type { Started } from "../../support/processes.ts";
import { S3 } from "../../support/s3.ts";

/** The day of a key's last use, which is over if a midnight (UTC) falls into the test. */
const LATELY = "(today|yesterday)";

let server: DevServer;
let control: Control;
let runner: Started | undefined;
let page: Page;
/** Calls of the control API since the page was opened. */
let asked: string[];

setStage({
  async begin(stage) {
    ({ server, control } = stage);
    for (const bucket of ["master.photos", "master.labels"]) await stage.s3.createBucket(bucket);
  },
  opened(opened) {
    page = opened;
    asked = callsOf(page);
  },
});
// A test starts it: others are about a gateway without one.
afterAll(() => runner?.stop());

/** A node as its runner tells of it; nothing runs there. */
async function beat(node: string, more: object = {}): Promise<void> {
  const body = {
    node,
    executor: "docker",
    capacity: 8,
    bounds: { running: 32, workers: 256 },
    work: [],
    ...more,
  };
  await control.call("POST", "/runner/heartbeat", { body, answers: z.unknown() });
}

async function nodeNamed(name: string): Promise<Node | undefined> {
  const { nodes } = await control.call("GET", "/nodes", { answers: NodeList });
  return nodes.find((node) => node.name === name);
}

/** The entry of a node, or of a key, by what stands in it. */
function entryOf(list: "nodes" | "keys", text: string) {
  return page.locator(`.${list} > li`).filter({ hasText: text });
}

describe.skipIf(!HAS_CHROMIUM)("the page of the nodes", () => {
  test("says how to start the first one", async () => {
    await logInAt(page, server, "/nodes");
    const steps = page.getByRole("region", { name: "First steps" });
    await steps.getByText("sluice runner", { exact: true }).waitFor();
    await steps.getByText("sluice key create --level runner", { exact: false }).waitFor();
    expect(new Set(asked)).toEqual(new Set(["/console/sessions", "/nodes"]));
  });

  test("shows what runs, drains a node until nothing runs there, and resumes it", async () => {
    runner = startRunner(server, { node: "edge-1", options: ["--max-running", "2"] });
    await new S3(server).put("master.photos", "one.txt", "one");
    await control.createPipeline({
      pipeline: { name: "slow" },
      transform: { image: "busybox", cmd: ["sh", "-c", "while :; do sleep 0.2; done"] },
      inputs: [{ repo: { name: "photos" }, glob: "/" }],
    });
    await logInAt(page, server, "/nodes");
    const edge = entryOf("nodes", "edge-1");
    await edge.getByText("1 of 2 commands running").waitFor();
    await edge.getByText("slow 1 running in 1 worker").waitFor();
    await edge.getByText("at work", { exact: true }).waitFor();
    await edge.getByText(/^last heard of (just now|\d+ s ago)$/).waitFor();
    await edge.getByText(/^Sluice \d\S+, .* of its disk free, .* in its cache$/).waitFor();
    await edge.getByRole("button", { name: "Drain edge-1" }).click();
    await edge.getByText("It finishes 1 command that runs.", { exact: false }).waitFor();
    expect(await nodeNamed("edge-1")).toMatchObject({ draining: false });
    await edge.getByRole("button", { name: "Drain edge-1" }).click();
    await edge.getByText("1 command still runs there, and nothing new begins.", { exact: false }).waitFor();
    await edge.getByText("sluice node drain edge-1 --wait", { exact: true }).waitFor();
    expect(await nodeNamed("edge-1")).toMatchObject({ draining: true });
    const { jobs } = await control.call("GET", "/jobs?pipeline=slow", { answers: JobPage });
    await control.call("POST", `/jobs/${jobs[0]?.id}/stop`, { answers: z.unknown() });
    await edge.getByText("Nothing runs there: it can be switched off.").waitFor();
    await edge.getByRole("button", { name: "Resume edge-1" }).click();
    await edge.getByText("live, nothing runs").waitFor();
    expect(await nodeNamed("edge-1")).toMatchObject({ draining: false });
    await control.deletePipeline("slow");
  });

  test("says first what is wrong with a node, in words, and what to do", async () => {
    const work = [
      { pipeline: "edges", workers: 2, running: 0, trouble: "pull access denied for nowhere/none:1" },
      { pipeline: "fine", workers: 1, running: 1 },
    ];
    await Promise.all([beat("edge-2", { work }), beat("edge-3", { executor: "none" })]);
    await logInAt(page, server, "/nodes");
    const troubled = entryOf("nodes", "edge-2");
    await troubled.getByText("can't run some commands").waitFor();
    await troubled.getByText("edges: pull access denied for nowhere/none:1").waitFor();
    const waiting = entryOf("nodes", "edge-3");
    await waiting.getByText("waits for a container engine").waitFor();
    await waiting.getByText("sluice doctor", { exact: true }).waitFor();
    await page.getByText("2 in trouble").waitFor();
    expect(await troubled.getByRole("list", { name: "What runs there" }).innerText()).toMatch(
      /^fine\s+1 running in 1 worker$/,
    );
    await troubled.getByText("1 pipeline waits for work there").click();
    await troubled.getByText("edges", { exact: true }).waitFor();
    expect((await page.locator(".nodes .name").allInnerTexts()).slice(0, 2)).toEqual(["edge-2", "edge-3"]);
    // A mark keeps the row of a node that says good-bye: without it, it is one that was heard of no more.
    for (const [method, path] of [
      ["POST", "/nodes/edge-2/drain"],
      ["DELETE", "/runner/heartbeat?node=edge-2"],
      ["POST", "/nodes/edge-2/resume"],
    ] as const)
      await control.call(method, path, { answers: z.unknown() });
    await troubled.getByText("silent", { exact: true }).waitFor();
    await troubled.getByText("its runner ended, or does not reach the gateway", { exact: false }).waitFor();
  });

  test("has what works first, and many nodes with nothing to do as a number", async () => {
    const names = Array.from({ length: 9 }, (_, index) => `idle-${index}`);
    const work = [{ pipeline: "fine", workers: 4, running: 4 }];
    const about = {
      version: "0.1.0",
      disk: { totalBytes: 50 * 1024 ** 3, freeBytes: 12 * 1024 ** 3 },
      cache: { usedBytes: 2 * 1024 ** 3, maxBytes: 10 * 1024 ** 3 },
    };
    await Promise.all([...names.map((name) => beat(name)), beat("zealous", { work, about })]);
    await logInAt(page, server, "/nodes");
    await page.getByText("10 nodes live, and nothing runs there").waitFor();
    expect(await entryOf("nodes", "idle-3").isVisible()).toBe(false);
    const shown = await page
      .getByRole("list", { name: "Nodes", exact: true })
      .locator(".name")
      .allInnerTexts();
    expect(shown.at(-1)).toBe("zealous");
    await entryOf("nodes", "zealous")
      .getByText("Sluice 0.1.0, 12 GiB of 50 GiB of its disk free, 2.0 GiB of 10 GiB in its cache")
      .waitFor();
    await page.getByText("10 nodes live, and nothing runs there").click();
    await entryOf("nodes", "idle-3").getByText("live, nothing runs").waitFor();
    expect(await faultsOf(page)).toEqual([]);
  });
});

describe.skipIf(!HAS_CHROMIUM)("when a node was heard of", () => {
  test("is told anew of one that only lives on, which is no news", async () => {
    await page.clock.install();
    await beat("steady", { about: { version: "0.1.0" } });
    await logInAt(page, server, "/nodes");
    const heard = entryOf("nodes", "steady").getByText("last heard of").locator("time");
    const before = await heard.getAttribute("datetime");
    const statuses: number[] = [];
    page.on("response", (answer) => {
      if (new URL(answer.url()).pathname === "/api/v1/nodes") statuses.push(answer.status());
    });
    await beat("steady", { about: { version: "0.1.0" } });
    await passSeconds(page, 20);
    expect(await heard.getAttribute("datetime")).not.toBe(before);
    expect(statuses.filter((status) => status === 200).length).toBeLessThan(3);
    expect(statuses).toContain(304);
  });
});

describe.skipIf(!HAS_CHROMIUM)("the page of the keys", () => {
  const description = "camera's upload";

  test("makes a key by the keyboard alone, and shows its secret once", async () => {
    await logInAt(page, server, "/keys");
    await page.getByRole("region", { name: "First steps" }).waitFor();
    await page.getByRole("button", { name: "Make a key" }).press("Enter");
    await page.keyboard.press("ArrowDown");
    expect(await page.getByRole("radio", { name: /^write/ }).isChecked()).toBe(true);
    await page.keyboard.press("Tab");
    await page.keyboard.press("ArrowDown");
    await page.getByRole("combobox", { name: "Repos" }).press("Tab");
    await page.getByText("Name at least one repo.").waitFor();
    const form = page.getByRole("form", { name: "A new key" });
    expect(await form.getByText("sluice key create", { exact: false }).count()).toBe(0);
    await page.getByRole("combobox", { name: "Repos" }).pressSequentially("photos labels ");
    await page.getByLabel("What it is for").fill(description);
    await page
      .getByText(
        "sluice key create --level write --repo photos --repo labels --description 'camera'\\''s upload'",
      )
      .waitFor();
    await page.keyboard.press("Enter");
    const made = page.getByRole("region", { name: "The new key" });
    await made.waitFor();
    const [id = "", secret = ""] = await made.locator("dd code").allInnerTexts();
    expect(secret).toMatch(/^[\w-]{40}$/);
    const key: Door = { endpoint: server.endpoint, accessKeyId: id, secretAccessKey: secret };
    await new S3(key).put("master.labels", "one.txt", "one");
    expect(await new S3(key).buckets()).toEqual(["master.labels", "master.photos"]);
    const entry = entryOf("keys", id);
    await entry.getByText(new RegExp(`^used ${LATELY}$`)).waitFor();
    await entry.getByText("write in photos, labels").waitFor();
    await page.getByRole("button", { name: "I have it: show it no more" }).click();
    expect(await page.content()).not.toContain(secret);
  });

  test("says at its field what is wrong with a wish", async () => {
    await logInAt(page, server, "/keys");
    await page.getByRole("button", { name: "Make a key" }).click();
    await page.getByRole("radio", { name: /^admin/ }).check();
    await page.getByRole("radio", { name: /^some repos/ }).check();
    await page.getByRole("checkbox", { name: "may run pipelines" }).check();
    await page.getByRole("combobox", { name: "Repos" }).fill("a.b");
    await page.getByText("sluice key create --level admin --repo a.b --pipelines", { exact: true }).waitFor();
    await page.getByRole("button", { name: "Make the key" }).click();
    await page.getByRole("alert").filter({ hasText: "repos[0] must" }).waitFor();
    // A runner's key is for all repos: that part of the form is gone, and what was chosen there does not count.
    await page.getByRole("radio", { name: /^runner/ }).check();
    await page.getByText("sluice key create --level runner", { exact: true }).waitFor();
  });

  test("makes a key that expires, and tells one that has from others", async () => {
    await logInAt(page, server, "/keys");
    await page.getByRole("button", { name: "Make a key" }).click();
    await page.getByLabel("When it expires").fill("next month");
    await page.getByRole("button", { name: "Make the key" }).click();
    await page
      .getByRole("alert")
      .filter({ hasText: "expires must be a length of time such as 30d" })
      .waitFor();
    await page.getByLabel("When it expires").fill("30d");
    await page.getByText("sluice key create --level read --expires 30d", { exact: true }).waitFor();
    await page.getByRole("button", { name: "Make the key" }).click();
    const made = page.getByRole("region", { name: "The new key" });
    const [id = ""] = await made.locator("dd code").allInnerTexts();
    await entryOf("keys", id)
      .getByText(/^expires in (30 d|29 d 23 h)$/)
      .waitFor();
    const body = { level: "read", description: "for an hour", expires: "1s" };
    const brief = await control.call("POST", "/keys", { body, answers: KeyCreated });
    // The page asks again every few seconds.
    await entryOf("keys", brief.id)
      .getByText(/^expired /)
      .waitFor();
  });

  test("deletes a key only when its id is typed, and what is signed with it is then refused", async () => {
    const { id, secret } = await control.call("POST", "/keys", {
      body: { level: "read", description: "to be deleted" },
      answers: KeyCreated,
    });
    await new S3({ ...server, accessKeyId: id, secretAccessKey: secret }).buckets();
    await logInAt(page, server, "/keys");
    const entry = entryOf("keys", id);
    await entry.getByRole("button", { name: `Delete ${id}` }).click();
    await entry.getByText(new RegExp(`It was used ${LATELY}\\.`)).waitFor();
    const end = entry.getByRole("button", { name: "Delete it" });
    expect(await end.isDisabled()).toBe(true);
    await page.keyboard.type(id.slice(0, -1));
    await page.keyboard.press("Enter");
    expect(await end.isDisabled()).toBe(true);
    await page.keyboard.press("Escape");
    await entry.getByRole("button", { name: `Delete ${id}` }).click();
    await page.keyboard.type(id);
    await page.keyboard.press("Enter");
    await entry.waitFor({ state: "detached" });
    const left = await control.call("GET", "/keys", { answers: KeyPage });
    expect(left.keys.map((key) => key.id)).not.toContain(id);
  });

  test("tells a key that may not handle keys what it lacks", async () => {
    const { id, secret } = await control.call("POST", "/keys", {
      body: { level: "read" },
      answers: KeyCreated,
    });
    await logInAt(page, { ...server, accessKeyId: id, secretAccessKey: secret }, "/keys");
    await page.getByText("The access key allows read", { exact: false }).waitFor();
    expect(await page.getByRole("button", { name: "Make a key" }).count()).toBe(0);
  });
});

describe.skipIf(!HAS_CHROMIUM)("the pages of nodes and keys", () => {
  test("have nothing that axe finds serious, in light and dark, and fit a phone", async () => {
    const work = [{ pipeline: "edges", workers: 2, running: 0, trouble: "no such image" }];
    await beat("edge-4", { work });
    await control.call("POST", "/keys", { body: { level: "read" }, answers: KeyCreated });
    await logInAt(page, server, "/nodes");
    await entryOf("nodes", "edge-4").getByText("no such image").waitFor();
    expect(await faultsOf(page)).toEqual([]);
    await page.getByRole("link", { name: "Keys" }).click();
    await page.getByRole("button", { name: "Make a key" }).click();
    await page.getByRole("radio", { name: /^some repos/ }).check();
    const last = page.getByRole("button", { name: /^Delete SLUICE/ }).first();
    const id = ((await last.getAttribute("aria-label")) ?? "").slice("Delete ".length);
    await last.click();
    expect(await faultsOf(page)).toEqual([]);
    // What deletes is another button once the name stands there.
    await page.getByLabel(`Type ${id}`).fill(id);
    await expect.poll(() => page.getByRole("button", { name: "Delete it" }).isEnabled()).toBe(true);
    expect(await faultsOf(page)).toEqual([]);
    await page.getByRole("radio", { name: /^all repos/ }).check();
    await page.getByRole("button", { name: "Make the key" }).click();
    await page.getByRole("region", { name: "The new key" }).waitFor();
    expect(await faultsOf(page)).toEqual([]);
  });

  test("ask at most once in 2 s", async () => {
    await page.clock.install();
    for (const path of ["/nodes", "/keys"]) {
      await logInAt(page, server, path);
      await page.getByText("live", { exact: true }).waitFor();
      const before = asked.length;
      await passSeconds(page, 20);
      const polls = asked.slice(before).filter((call) => call === path).length;
      expect(polls).toBeGreaterThan(3);
      expect(polls).toBeLessThanOrEqual(10);
    }
  });
});

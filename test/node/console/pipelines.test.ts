// @module-tag rest
import type { Page } from "playwright-core";
import { describe, expect, test } from "vitest";
import { z } from "zod";
import { callsOf, faultsOf, HAS_CHROMIUM, logInAt, passSeconds } from "../../support/browser.ts";
import { setStage } from "../../support/console.ts";
import type { Control } from "../../support/control.ts";
import type { DevServer } from "../../support/dev-server.ts";

let server: DevServer;
let control: Control;
let page: Page;
/** Paths of the requests to the control API since the page was opened. */
let asked: string[];

setStage({
  node: "edge-1",
  async begin(stage) {
    ({ server, control } = stage);
    const { s3 } = stage;
    await s3.createBucket("master.photos");
    await s3.put("master.photos", "a.txt", "a");
    await control.createPipeline(spec("edges", { inputs: ["photos"] }));
    await control.ended("edges", { count: 1 });
    await control.createPipeline({
      ...spec("torn", { inputs: ["photos"], cmd: ["sh", "-c", "echo no end of image >&2; exit 3"] }),
      datumTries: 1,
    });
    await control.ended("torn", { count: 1 });
    await control.createPipeline(spec("montage", { inputs: ["edges", "torn"] }));
  },
  opened(opened) {
    page = opened;
    asked = callsOf(page);
  },
});

function spec(
  name: string,
  {
    inputs,
    cmd = ["sh", "-c", "echo made > /pfs/out/made.txt"],
  }: { inputs: readonly string[]; cmd?: readonly string[] },
): object {
  return {
    pipeline: { name },
    transform: { image: "busybox", cmd },
    inputs: inputs.map((repo) => ({ repo: { name: repo }, glob: "/" })),
  };
}

const logIn = (path: string): Promise<void> => logInAt(page, server, path);

const sectionText = (name: string): Promise<string> =>
  page.getByRole("region", { name, exact: true }).innerText();

/** The line of a pipeline in the list. */
const lineOf = (name: string) =>
  page.getByRole("listitem").filter({ has: page.getByRole("link", { name, exact: true }) });

/** Writes a text in place of what the editor has. */
async function write(text: string): Promise<void> {
  await page.getByRole("textbox", { name: "Specification, in JSON" }).click();
  await page.keyboard.press("ControlOrMeta+a");
  await page.keyboard.insertText(text);
}

describe.skipIf(!HAS_CHROMIUM)("the pages of pipelines", () => {
  test("show each with its last jobs as bars and what it waits for, in one call", async () => {
    await logIn("/pipelines");
    const torn = lineOf("torn");
    await torn.getByRole("link", { name: /^failed after / }).waitFor();
    expect(await torn.innerText()).toContain("failed");
    expect(
      await lineOf("edges")
        .getByRole("link", { name: /^succeeded after / })
        .count(),
    ).toBe(1);
    expect(await lineOf("montage").innerText()).toMatch(/no job yet/);
    // What failed comes first, however it is called.
    expect(await page.locator(".pipelines .name").allInnerTexts()).toEqual(["torn", "edges", "montage"]);
    expect(await lineOf("edges").innerText()).toMatch(/succeeded (just now|.* ago), took \d/);
    // What can't be undone comes last, and looks like any other button.
    const last = lineOf("edges").getByRole("button").last();
    expect(await last.getAttribute("aria-label")).toBe("Delete edges");
    expect((await last.getAttribute("class")) ?? "").not.toContain("danger");
    expect(new Set(asked)).toEqual(new Set(["/console/sessions", "/pipelines"]));
    await page.getByLabel("Name contains").fill("ONT");
    await page.getByText("1 pipeline", { exact: true }).waitFor();
    await page.getByRole("link", { name: "montage", exact: true }).click();
    await page.getByText("input 'torn' is empty", { exact: false }).waitFor();
    expect(await sectionText("Inputs")).toMatch(/master\.edges.*\n?.*edges/);
  });

  test("show of one its jobs, what is before and after it, and its specification, in one call", async () => {
    await logIn("/pipelines/edges");
    await page.getByRole("heading", { level: 1, name: "edges" }).waitFor();
    expect(await sectionText("Output")).toContain("s3://master.edges");
    expect(await sectionText("Output")).toContain("montage");
    expect(await sectionText("Specification")).toContain('"glob": "/"');
    expect(new Set(asked)).toEqual(new Set(["/console/sessions", "/pipelines/edges/summary"]));
    const made = page.getByRole("link", { name: "s3://master.edges" });
    expect(await made.getAttribute("href")).toBe("/console/repos/edges/master");
    await page.getByRole("region", { name: "Jobs" }).getByRole("link").first().click();
    await page.waitForURL(/\/console\/jobs\//);
  });

  test("create one: a mistake is named at its place before anything is made, and its job is seen to succeed", async () => {
    await logIn("/new/pipeline");
    await page.getByText("What it would come to stands here as you write.").waitFor();
    const wrong = { ...spec("thumbnails", { inputs: ["photo"] }), datumTries: 0 };
    await write(JSON.stringify(wrong, null, 2));
    const problems = page.getByRole("region", { name: "Dry run" });
    await problems.getByText("did you mean 'photos'?", { exact: false }).waitFor();
    await problems.getByRole("button", { name: "datumTries" }).waitFor();
    // Both at once, each marked where it is.
    expect(await page.locator(".cm-lintRange-error").allInnerTexts()).toEqual(
      expect.arrayContaining(['"photo"', "0"]),
    );
    await problems.getByRole("button", { name: "inputs[0].repo.name" }).click();
    await page.keyboard.press("End");
    expect(await page.locator(".cm-activeLine").innerText()).toContain('"photo"');
    await page.getByRole("button", { name: "Create the pipeline" }).click();
    await write(JSON.stringify(spec("thumbnails", { inputs: ["photos"] }), null, 2));
    await problems.getByText("thumbnails is good.", { exact: false }).waitFor();
    expect(await problems.innerText()).toMatch(/1 match\b/);
    expect(await control.pipelineNames()).not.toContain("thumbnails");
    await page.getByRole("button", { name: "Create the pipeline" }).click();
    await page.waitForURL(/\/pipelines\/thumbnails$/);
    await page.getByRole("link", { name: /succeeded after / }).waitFor();
    await control.deletePipeline("thumbnails");
  });

  test("say where a text is no JSON, and ask the gateway nothing for it", async () => {
    await logIn("/new/pipeline");
    await page.getByRole("textbox", { name: "Specification, in JSON" }).waitFor();
    await write('{"pipeline": {"name": "a"} "transform": {}}');
    await page.getByText("from here on it is not JSON", { exact: false }).waitFor();
    const before = asked.length;
    await page.getByRole("button", { name: "Create the pipeline" }).click();
    await page.getByText("from here on it is not JSON", { exact: false }).waitFor();
    expect(asked.slice(before)).toEqual([]);
  });

  test("take what is typed into the editor as text, also the keys that each page knows", async () => {
    await logIn("/new/pipeline");
    await write('{ "inputs": [] }');
    await page.keyboard.press("End");
    await page.keyboard.type("/?/");
    await expect
      .poll(() => page.getByRole("textbox", { name: "Specification, in JSON" }).innerText())
      .toBe('{ "inputs": [] }/?/');
    expect(await page.getByRole("dialog").count()).toBe(0);
  });

  test("complete by the schema, with the keyboard alone", async () => {
    await logIn("/new/pipeline");
    await write("{ ");
    await page.keyboard.press("Control+Space");
    const options = page.getByRole("option");
    await options.first().waitFor();
    expect(await options.allInnerTexts()).toEqual(
      expect.arrayContaining([
        expect.stringContaining("transform"),
        expect.stringContaining("onDatumFailure"),
      ]),
    );
    await page.keyboard.type("onD");
    await page.getByRole("option", { name: /onDatumFailure/ }).waitFor();
    await expect.poll(() => options.count()).toBe(1);
    await page.keyboard.press("Enter");
    await expect
      .poll(() => page.getByRole("textbox", { name: "Specification, in JSON" }).innerText())
      .toContain('"onDatumFailure": "fail"');
  });

  test("offer the repos and branches that an input may read", async () => {
    await logIn("/new/pipeline");
    for (const [text, offered] of [
      ['{ "inputs": [{ "repo": { "name": "pho', '"photos"'],
      ['{ "inputs": [{ "branch": "mas', '"master"'],
    ] as const) {
      await write(text);
      await page.keyboard.press("Control+Space");
      await page.getByRole("option", { name: offered }).waitFor();
      await page.keyboard.press("Escape");
    }
  });

  test("offer them in YAML, too, and write them as YAML has them", async () => {
    await logIn("/new/pipeline");
    await write("inputs:\n  - repo: { name: pho");
    await page.getByRole("textbox", { name: "Specification, in YAML" }).waitFor();
    await page.keyboard.press("Control+Space");
    await page.getByRole("option", { name: "photos" }).click();
    await page.keyboard.insertText(" }\n    branch: ");
    await page.keyboard.press("Control+Space");
    await page.getByRole("option", { name: "master" }).click();
    await expect
      .poll(() => page.getByRole("textbox", { name: "Specification, in YAML" }).innerText())
      .toMatch(/repo: \{ name: photos \}\s+branch: master$/);
  });

  test("offer in YAML the names of fields, too, of what is inside of others as it is opened", async () => {
    await logIn("/new/pipeline");
    await write("transform: { image: busybox, cmd: ['true'] }\n");
    const editor = page.getByRole("textbox", { name: "Specification, in YAML" });
    await editor.waitFor();
    const options = page.getByRole("option");
    const choose = async (typed: string, name: string): Promise<void> => {
      await page.keyboard.type(typed);
      await options.first().waitFor();
      await page.getByRole("option", { name: new RegExp(`^${name}`) }).click();
    };
    await choose("pipe", "pipeline");
    await choose("", "name");
    await page.keyboard.type("by-names\n");
    // Out of the pipeline.
    await page.keyboard.press("Backspace");
    await choose("inp", "inputs");
    // What is needed comes first, with what it is for.
    await page.locator(".cm-completionInfo").getByText("applied to the root of the repo").waitFor();
    await choose("", "glob");
    await page.keyboard.type("/\n");
    await choose("re", "repo");
    await choose("", "name");
    await page.keyboard.press("Control+Space");
    await page.getByRole("option", { name: "photos" }).click();
    await page
      .getByRole("region", { name: "Dry run" })
      .getByText("by-names is good.", { exact: false })
      .waitFor();
    expect((await editor.innerText()).replaceAll(/\n+/g, "\n")).toBe(
      [
        "transform: { image: busybox, cmd: ['true'] }",
        "pipeline:",
        "  name: by-names",
        "inputs:",
        "  - glob: /",
        "    repo:",
        "      name: photos",
      ].join("\n"),
    );
  });

  test("show nothing as wrong before a key is pressed, neither of a new one nor of one that would be refused now", async () => {
    await page.clock.install();
    const marks = page.locator(".cm-lintRange, .cm-lint-marker, .problems li");
    await logIn("/new/pipeline");
    await page.getByRole("textbox", { name: "Specification, in JSON" }).waitFor();
    await passSeconds(page, 5);
    expect(await marks.count()).toBe(0);
    expect(asked).not.toContain("/pipelines");
    await page.route("**/api/v1/pipelines?*", (route) => {
      const issues = [{ path: "inputs[0].repo.name", message: "there is no such repo" }];
      const error = { code: "InvalidSpec", message: "It is refused.", issues };
      return route.fulfill({ status: 400, json: { error, requestId: "1" } });
    });
    await logIn("/pipelines/edges/edit");
    await page.getByRole("textbox", { name: "Specification, in JSON" }).click();
    await passSeconds(page, 5);
    await page.getByText("Why stands here as you write.", { exact: false }).waitFor();
    expect(await marks.count()).toBe(0);
    await page.keyboard.press("ControlOrMeta+End");
    await page.keyboard.press("Enter");
    await passSeconds(page, 5);
    await page.locator(".problems li").getByText("there is no such repo").waitFor();
    expect(await page.locator(".cm-lintRange-error").allInnerTexts()).toEqual(['"photos"']);
  });

  test("update one, after they showed what would run again", async () => {
    await control.createPipeline(spec("changing", { inputs: ["photos"] }));
    await control.ended("changing", { count: 1 });
    await logIn("/pipelines/changing/edit");
    await page.getByRole("textbox", { name: "Specification, in JSON" }).waitFor();
    const trial = page.getByRole("region", { name: "Dry run" });
    await trial.getByText("changing is good.", { exact: false }).waitFor();
    expect(await trial.innerText()).toMatch(/Changes\s+nothing/);
    await write(JSON.stringify(spec("changing", { inputs: ["photos"], cmd: ["true"] })));
    await trial.getByText("transform.cmd").waitFor();
    expect(await trial.innerText()).toMatch(/Would run\s+1 datum, and keep the results of 0/);
    await page.getByRole("button", { name: "Update the pipeline" }).click();
    await page.waitForURL(/\/pipelines\/changing$/);
    await page.getByText("version 2", { exact: true }).waitFor();
    const versions = page.getByRole("region", { name: "Versions" });
    await versions.getByText("Version 2 and those before it").click();
    await versions.getByText("changed transform.cmd").waitFor();
    await versions.getByRole("button", { name: "Show the difference" }).click();
    const difference = versions.getByRole("region", { name: "Version 2 beside 1" });
    await difference.waitFor();
    expect(await difference.innerText()).toMatch(/^- .*echo made[\s\S]*^\+ .*"true"/m);
    expect(await faultsOf(page)).toEqual([]);
    await control.ended("changing", { count: 2 });
    await control.deletePipeline("changing");
  });

  test("update one that was written in YAML as YAML, and keep its comments", async () => {
    const text = [
      "# as the camera has them",
      "pipeline: { name: by-hand }",
      "transform: { image: busybox, cmd: ['true'] }",
      "inputs: [{ repo: { name: photos }, glob: / }]",
      "datumTries: 2",
      "",
    ].join("\n");
    const written = { ...spec("by-hand", { inputs: ["photos"], cmd: ["true"] }), datumTries: 2 };
    await control.call("POST", "/pipelines?text=true", {
      body: { spec: written, text },
      answers: z.unknown(),
    });
    await logIn("/pipelines/by-hand/edit");
    const editor = page.getByRole("textbox", { name: "Specification, in YAML" });
    await editor.getByText("# as the camera has them").waitFor();
    await page.getByText("sluice pipeline inspect by-hand --spec > spec.yaml", { exact: false }).waitFor();
    const trial = page.getByRole("region", { name: "Dry run" });
    for (const tries of ["0", "3"]) {
      await editor.click();
      await page.keyboard.press("ControlOrMeta+a");
      await page.keyboard.insertText(text.replace("datumTries: 2", `datumTries: ${tries}`));
      if (tries === "0") {
        await trial.getByRole("button", { name: "datumTries" }).waitFor();
        expect(await page.locator(".cm-lintRange-error").allInnerTexts()).toEqual(["0"]);
      }
    }
    await trial.getByText("by-hand is good.", { exact: false }).waitFor();
    expect(await faultsOf(page)).toEqual([]);
    await page.getByRole("button", { name: "Update the pipeline" }).click();
    await page.waitForURL(/\/pipelines\/by-hand$/);
    const { text: kept } = await control.call("GET", "/pipelines/by-hand/versions/latest", {
      answers: z.object({ text: z.string() }),
    });
    expect(kept).toBe(text.replace("datumTries: 2", "datumTries: 3"));
    await control.deletePipeline("by-hand");
  });

  test("stop and start one, and delete it once its name is typed; what is in the way is told", async () => {
    await control.createPipeline(spec("short-lived", { inputs: ["photos"] }));
    await control.ended("short-lived", { count: 1 });
    await logIn("/pipelines");
    await page.getByRole("button", { name: "Stop short-lived" }).click();
    await lineOf("short-lived").getByRole("button", { name: "Stop" }).click();
    await page.getByRole("button", { name: "Start short-lived" }).click();
    await page.getByRole("button", { name: "Stop short-lived" }).waitFor();
    await page.getByRole("button", { name: "Delete edges" }).click();
    const dialog = page.getByRole("dialog");
    await dialog.getByLabel(/^Type edges/).fill("edges");
    await dialog.getByRole("button", { name: "Delete the pipeline" }).click();
    await dialog.getByText("The pipeline 'montage' reads the output of 'edges'", { exact: false }).waitFor();
    await page.keyboard.press("Escape");
    await page.getByRole("button", { name: "Delete short-lived" }).click();
    const last = page.getByRole("dialog").getByRole("button", { name: "Delete the pipeline" });
    expect(await last.isDisabled()).toBe(true);
    await page
      .getByRole("dialog")
      .getByLabel(/^Type short-lived/)
      .fill("short-lived");
    await last.click();
    await lineOf("short-lived").waitFor({ state: "detached" });
    expect(await control.pipelineNames()).not.toContain("short-lived");
  });

  test("show to a key that may only read why it may not stop one", async () => {
    const key = await control.call("POST", "/keys", {
      body: { level: "read" },
      answers: z.object({ id: z.string(), secret: z.string() }),
    });
    await logInAt(page, { ...server, accessKeyId: key.id, secretAccessKey: key.secret }, "/pipelines/edges");
    await page.getByRole("button", { name: "Stop edges" }).click();
    await page.getByRole("button", { name: "Stop", exact: true }).click();
    await page.getByRole("alert").getByText("this needs admin", { exact: false }).waitFor();
  });

  test("have nothing that axe finds serious, in light and dark, and fit a phone", async () => {
    await logIn("/pipelines");
    await lineOf("torn").waitFor();
    expect(await faultsOf(page)).toEqual([]);
    await page.getByRole("button", { name: "Delete edges" }).click();
    expect(await faultsOf(page)).toEqual([]);
    await page.keyboard.press("Escape");
    await page.getByRole("link", { name: "edges", exact: true }).click();
    await page.getByRole("region", { name: "Specification", exact: true }).waitFor();
    expect(await faultsOf(page)).toEqual([]);
    await page.getByRole("link", { name: "Update" }).click();
    await page.getByText("edges is good.", { exact: false }).waitFor();
    expect(await faultsOf(page)).toEqual([]);
    await write('{"pipeline": {}}');
    await page.getByRole("button", { name: "transform" }).waitFor();
    expect(await faultsOf(page)).toEqual([]);
  });
});

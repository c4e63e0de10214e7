import { mkdirSync, readdirSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { expect, test } from "vitest";
import { putFiles } from "../../../embedded/bundle/built.ts";
import { bundleWorker } from "../../../embedded/bundle/bundle.ts";
import { buildConsole } from "../../../embedded/bundle/console.ts";
import { scratchFolder } from "../../support/scratch.ts";

const files = (texts: Readonly<Record<string, string>>): Map<string, Uint8Array> =>
  new Map(Object.entries(texts).map(([name, text]) => [name, Buffer.from(text)]));

test("the console is built while the Worker is, its page names its files, and none of them is a script in the page", async () => {
  const entry = join(scratchFolder(), "index.ts");
  writeFileSync(entry, "export default 1;");
  // Whichever ends first must not take the bundler away from the other.
  const [{ value, first }] = await Promise.all([buildConsole(), bundleWorker(entry)]);
  const page = Buffer.from(value.get("index.html") ?? "").toString();
  const named = [...page.matchAll(/"\/console\/assets\/([^"]+)"/g)].map(([, name = ""]) => name);
  expect(named.filter((name) => !value.has(name))).toEqual([]);
  expect(first.filter((name) => !value.has(name))).toEqual([]);
  expect(named.map((name) => name.replace(/.*\./, "")).sort()).toEqual(
    expect.arrayContaining(["css", "js", "svg"]),
  );
  expect(page).not.toMatch(/<script(?![^>]* src=)|<style| style=| on\w+=/);
});

test("a folder that the console is put into has its files and no others", () => {
  const folder = join(scratchFolder(), "console");
  putFiles(folder, files({ "index.html": "one", "main-A.js": "1" }));
  mkdirSync(join(folder, "other"));
  putFiles(folder, files({ "index.html": "two", "main-B.js": "2" }));
  expect(readdirSync(folder).sort()).toEqual(["index.html", "main-B.js"]);
  expect(readFileSync(join(folder, "index.html"), "utf8")).toBe("two");
});

import { mkdirSync, readdirSync, readFileSync, statSync, utimesSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { beforeEach, describe, expect, test } from "vitest";
import { keptBundle } from "../../../embedded/bundle/bundle.ts";
import { ROOT } from "../../support/dev-server.ts";
import { mustRun } from "../../support/processes.ts";
import { scratchFolder } from "../../support/scratch.ts";

describe("the kept bundle of a Worker", () => {
  let folder: string;
  let cache: string;
  let entry: string;

  beforeEach(() => {
    folder = scratchFolder();
    cache = join(folder, "cache/of/bundles");
    entry = source(
      "index.ts",
      'import { word } from "./word.ts"; import "./some.wasm"; export default word;',
    );
    source("word.ts", 'export const word: string = "first";');
    source("some.wasm", "\0asm\x01\0\0\0");
  });

  /** Writes a source that looks as if it had been there for a while. */
  function source(name: string, content: string): string {
    const file = join(folder, name);
    writeFileSync(file, content);
    utimesSync(file, 1000, 1000);
    return file;
  }

  function keptFile(): string {
    const [name = "", ...others] = readdirSync(cache);
    expect(others).toEqual([]);
    return join(cache, name);
  }

  test("is what was bundled, and is not made again", async () => {
    const made = await keptBundle(entry, cache);
    const { ino } = statSync(keptFile());
    const kept = await keptBundle(entry, cache);
    expect(statSync(keptFile()).ino).toBe(ino);
    expect(kept.main).toBe(made.main);
    expect(kept.sourceMap).toBe(made.sourceMap);
    expect([...kept.wasm].map(([name, bytes]) => [name, Buffer.from(bytes).toString()])).toEqual(
      [...made.wasm].map(([name, bytes]) => [name, Buffer.from(bytes).toString()]),
    );
    expect(kept.wasm.size).toBe(1);
  });

  test("is made again when the content of a source changed, even if its time and size did not", async () => {
    expect((await keptBundle(entry, cache)).main).toContain('"first"');
    source("word.ts", 'export const word: string = "other";');
    expect((await keptBundle(entry, cache)).main).toContain('"other"');
    expect((await keptBundle(entry, cache)).main).toContain('"other"');
  });

  test("is not kept if a source was changed while it was made", async () => {
    const making = keptBundle(entry, cache);
    writeFileSync(join(folder, "word.ts"), 'export const word: string = "newer";');
    await making;
    expect((await keptBundle(entry, cache)).main).toContain('"newer"');
  });

  test.each([
    ["cut short", (text: string) => text.slice(0, -100)],
    ["emptied", () => ""],
    ["changed in one letter", (text: string) => text.replace('\\"first\\"', '\\"worst\\"')],
  ])("that was %s is made again", async (_, damage) => {
    await keptBundle(entry, cache);
    const whole = readFileSync(keptFile(), "utf8");
    writeFileSync(keptFile(), damage(whole));
    expect(readFileSync(keptFile(), "utf8")).not.toBe(whole);
    expect((await keptBundle(entry, cache)).main).toContain('"first"');
    expect(readFileSync(keptFile(), "utf8")).toBe(whole);
  });

  test("is done without in a folder that can't be written", async () => {
    mkdirSync(join(cache, ".."), { recursive: true });
    writeFileSync(cache, "a file");
    expect((await keptBundle(entry, cache)).main).toContain('"first"');
    expect((await keptBundle(entry, cache)).main).toContain('"first"');
    expect(readFileSync(cache, "utf8")).toBe("a file");
  });

  test("is whole when several starts make it at once", async () => {
    const bundle = JSON.stringify(join(ROOT, "embedded/bundle/bundle.ts"));
    const program = `const { keptBundle } = await import(${bundle});
      process.stdout.write((await keptBundle(...process.argv.slice(1))).main);`;
    const command = [process.execPath, "--input-type=module", "-e", program, "--", entry, cache];
    const all = await Promise.all(Array.from({ length: 4 }, () => mustRun(command)));
    for (const main of all) expect(main).toContain('"first"');
    const { ino } = statSync(keptFile());
    expect((await keptBundle(entry, cache)).main).toBe(all[0]);
    expect(statSync(keptFile()).ino).toBe(ino);
  });
});

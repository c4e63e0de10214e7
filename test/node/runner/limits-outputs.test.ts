import { execFileSync } from "node:child_process";
import { mkdir, mkdtemp, readdir, symlink, truncate, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, expect, test } from "vitest";
import { findTool } from "../../../runner/lib/system-calls.ts";
import { collect } from "../../../runner/pfs/collect.ts";
import { printable, quotedPath } from "../../../runner/pfs/raw-path.ts";
import { removeTree } from "../../../runner/pfs/remove.ts";

const signal = new AbortController().signal;
const needsPython = test.skipIf((await findTool("python3")) === undefined);
let dir: string;

beforeEach(async () => {
  dir = await mkdtemp(join(tmpdir(), "sluice-outputs-"));
});
afterEach(() => removeTree(dir));

/** Steps down as it goes, as paths can't say it. Some of the folders are closed behind it. */
const DEEP = `
import os, sys
os.chdir(sys.argv[1])
for i in range(800):
    open("file", "w").close()
    os.mkdir("folder-" + str(i % 2))
    os.chdir("folder-" + str(i % 2))
    if i % 100 == 0: os.chmod("..", 0)
`;

import { REST } from "../../support/suite.ts";

needsPython("folders deeper than a path can say are removed, and collected as too long", REST, async () => {
  const out = join(dir, "out");
  await mkdir(out);
  execFileSync("python3", ["-c", DEEP, out]);
  await expect(collect({ out, signal })).rejects.toThrow("a path must be at most 1024 bytes");
  await removeTree(out);
  expect(await readdir(dir)).toEqual([]);
});

test("more entries than are known at a time are all removed, whatever they are", async () => {
  const folder = join(dir, "wide");
  for (let i = 0; i < 1500; i += 1) {
    const path = join(folder, String(i));
    if (i % 3 === 0) await mkdir(join(path, "inner"), { recursive: true });
    else if (i % 3 === 1) await symlink("/etc", path);
    else await writeFile(path, "");
  }
  await removeTree(folder);
  expect(await readdir(dir)).toEqual([]);
});

test("a file with more holes than the disk could hold is refused before it is read", async () => {
  await writeFile(join(dir, "holes"), "");
  await truncate(join(dir, "holes"), 15 * 1024 ** 4);
  await expect(collect({ out: dir, signal })).rejects.toThrow(
    /^output file "holes" has 15 TiB, more than the .* that the node's disk could hold of it/,
  );
});

test("a name for people is one line of plain text, and leaves room for what is said of it", () => {
  expect(quotedPath('a "b"\nc')).toBe('"a \\"b\\"\\nc"');
  expect(quotedPath("a\u202eb\u0085c\u2028")).toBe('"a\\u202eb\\u0085c\\u2028"');
  expect(quotedPath("grün 😀")).toBe('"grün 😀"');
  expect(printable("\xff\n")).toBe("\\xff\\x0a");
  for (const long of [quotedPath(`${"é".repeat(2000)}.txt`), printable("\xff".repeat(2000))]) {
    expect(long.length).toBeLessThan(310);
    expect(long).toContain("…");
  }
});

import { existsSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { expect, test } from "vitest";
import { ROOT } from "../../support/dev-server.ts";
import { PAGES } from "../../support/pages.ts";

/** A claim's test, as the page names it: `[test: the file "a part of the test's name"]`. */
const NAMED = /\[test: (\S+) "([^"]+)"\]/g;

test.each(PAGES)("every test that %s names is there", (page) => {
  const text = readFileSync(join(ROOT, page), "utf8").replace(/\s+/g, " ");
  const named = [...text.matchAll(NAMED)].map(([, file = "", name = ""]) => ({ file, name }));
  expect(text.match(/\[test:/g) ?? []).toHaveLength(named.length);
  expect(named.filter(isAbsent)).toEqual([]);
});

function isAbsent({ file, name }: { file: string; name: string }): boolean {
  const path = join(ROOT, file);
  return !existsSync(path) || !readFileSync(path, "utf8").includes(name);
}

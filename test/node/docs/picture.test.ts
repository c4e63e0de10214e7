import { readFileSync } from "node:fs";
import { join } from "node:path";
import { XMLValidator } from "fast-xml-parser";
import { expect, test } from "vitest";
import { terminalPicture } from "../../../scripts/pictures/terminal-picture.ts";
import { ROOT } from "../../support/dev-server.ts";

/** Most bytes: it is loaded with the README. */
const MOST_BYTES = 10_000;

test("the picture of the README is small, and of a demo that came to its end", () => {
  const picture = readFileSync(join(ROOT, "docs/pictures/demo.svg"), "utf8");
  expect(picture.length).toBeLessThan(MOST_BYTES);
  expect(XMLValidator.validate(picture)).toBe(true);
  expect(picture).toContain("npm run demo");
  expect(picture).toContain("6 skipped");
  expect(picture).toContain("done: gateway and runner stopped");
});

/** Most bytes of a page of the console, of which the README shows some. */
const MOST_BYTES_OF_A_PAGE = 150 * 1024;

test.each(["console-now.png", "console-graph.png"])("the README shows %s, which is small", (name) => {
  const picture = readFileSync(join(ROOT, "docs/pictures", name));
  expect(picture.subarray(1, 4).toString()).toBe("PNG");
  expect(picture.length).toBeLessThan(MOST_BYTES_OF_A_PAGE);
  expect(readFileSync(join(ROOT, "README.md"), "utf8")).toContain(`](docs/pictures/${name})`);
});

test("a picture of a terminal has what was printed, whatever that is, cut at its width", () => {
  const picture = terminalPicture(
    "cat <a>",
    `[  0.1 s] 1 < 2 & s3://a.b/c.txt is success\n\n${"x".repeat(200)}\n`,
  );
  expect(XMLValidator.validate(picture)).toBe(true);
  const lines = [...picture.matchAll(/<text [^>]*>(.*)<\/text>/g)].map(([, line = ""]) =>
    line.replace(/<[^>]*>/g, ""),
  );
  expect(lines).toEqual([
    "$ cat &lt;a&gt;",
    "[  0.1 s] 1 &lt; 2 &amp; s3://a.b/c.txt is success",
    `${"x".repeat(109)}…`,
  ]);
});

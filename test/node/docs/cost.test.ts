import { readFileSync } from "node:fs";
import { join } from "node:path";
import { expect, test } from "vitest";
import { monthTable } from "../../support/cost/month.ts";
import { ROOT } from "../../support/dev-server.ts";

test("docs/cost.md says what months cost by what it says of requests, works and idle hours", () => {
  const page = readFileSync(join(ROOT, "docs/cost.md"), "utf8");
  // `npm run cost:generate` writes it.
  expect(page).toContain(`\n${monthTable(page)}\n`);
});

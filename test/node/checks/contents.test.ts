import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { expect, test } from "vitest";
import { ROOT } from "../../support/dev-server.ts";

/** The tables of the life of a content (worker/branch/contents/content-store.ts). */
const TABLES = ["contents", "blobs", "pending_deletions"];
const STATEMENT = /\b(?:FROM|JOIN|INTO|UPDATE) (contents|blobs|pending_deletions)\b/g;

test("SQL over contents, over the blobs that they own and over those that are to go stands in one room", () => {
  const folder = join(ROOT, "worker/branch");
  const all = readdirSync(folder, { recursive: true, encoding: "utf8" }).filter((path) =>
    path.endsWith(".ts"),
  );
  const found = all.flatMap((path) =>
    [...readFileSync(join(folder, path), "utf8").matchAll(STATEMENT)].map(([, table]) => ({ path, table })),
  );
  const [inside, outside] = [true, false].map((is) =>
    found.filter(({ path }) => path.startsWith("contents/") === is),
  );
  expect(outside).toEqual([]);
  expect([...new Set(inside?.map(({ table }) => table))].sort()).toEqual([...TABLES].sort());
});

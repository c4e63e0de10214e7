import { runInDurableObject } from "cloudflare:test";
import { describe, expect, test, vi } from "vitest";
import type { BranchApi } from "../../../worker/branch/contract.ts";
import { CHANGES } from "../../../worker/branch/feed.ts";
import { Sql } from "../../../worker/branch/sql.ts";
import { DIED_SINCE, PAST } from "../../../worker/branch/walk-queries.ts";
import { branchOf, chunked, freshBucket, inline } from "./support.ts";

/** The tables that grow with the history and its files. */
const GROWING = [
  "files",
  "alive",
  "dead",
  "version",
  "commits",
  "contents",
  "blobs",
  "condemned",
  "uploads",
  "holds",
];
/** Sorts what it found by index; bounded by NEAR_HEAD_CHANGES and by the changes of one commit. */
const MAY_SORT = [DIED_SINCE, CHANGES];

/** Calls whatever a Branch object can do. */
async function useEverything(branch: BranchApi): Promise<void> {
  await branch.create();
  await branch.subscribe({ uid: "u", pipeline: "p" });
  const attributes = { contentType: "text/plain" };
  const first = await branch.put({ path: "d/a/x", content: inline("1"), attributes });
  await branch.put({ path: "d/a/x", content: inline("2"), attributes });
  for (const content of [chunked("3", ["b/1"]), chunked("3", ["b/2"])]) {
    const opened = await branch.openUpload({});
    if (!opened.ok) throw new Error(opened.reason);
    const { upload } = opened;
    await branch.addContents({ upload, contents: [content] });
    await branch.renewUpload({ upload });
    await branch.reserve({ upload, contents: [content] });
    await branch.put({ path: "d/b", content, attributes, upload });
  }
  const aborted = await branch.openUpload({});
  if (!aborted.ok) throw new Error(aborted.reason);
  await branch.addContents({ upload: aborted.upload, contents: [chunked("4", ["b/4"])] });
  await branch.abortUpload({ upload: aborted.upload });
  await branch.commit({ operations: [{ delete: "d/a/x" }, { put: "d", ...inline("2") }] });
  await branch.commit({ operations: [{ delete: "d/a/x" }, { delete: "d/b" }, { put: "d", ...inline("2") }] });
  const commit = first.ok && first.commit ? first.commit : "";
  for (const delimiter of ["/", undefined] as const) {
    const page = { prefix: "d", limit: 2, ...(delimiter && { delimiter }) };
    await branch.list(page);
    await branch.list({ ...page, commit });
  }
  await branch.status();
  await branch.read({ path: "d" });
  await branch.read({ path: "d", commit });
  await branch.content(inline("1"));
  const position = { generation: 1, seq: 2 };
  await branch.feed({ cursor: { generation: 0, seq: 0 }, limit: 5 });
  await branch.changes({ ...position, after: "", limit: 5 });
  await branch.filesAt({ ...position, prefix: "", after: "", limit: 5 });
  await branch.fingerprint({ ...position, path: "" });
  await branch.unsubscribe({ uid: "u" });
  await branch.destroy();
  const claim = await branch.claim({ pipeline: "p", uid: "u" });
  await branch.openUpload({ lease: "l" });
  if (claim.ok) {
    const { epoch } = claim;
    await branch.commitOutput({ uid: "u", epoch, origin: "j", operations: [{ delete: "x" }] });
  }
  await branch.release({ uid: "u", destroy: true });
}

describe("query plans", () => {
  test("no statement scans or sorts a table that grows", async () => {
    const queries = vi.spyOn(Sql.prototype, "query");
    await runInDurableObject(branchOf(freshBucket()), async (branch, state) => {
      await useEverything(branch);
      const planned = [...new Set(queries.mock.calls.map(([text]) => text)), PAST].filter((text) =>
        /^\s*(SELECT|INSERT|UPDATE|DELETE|WITH)/.test(text),
      );
      expect(planned.length).toBeGreaterThan(50);
      for (const text of planned) {
        const numbered = [...text.matchAll(/\?(\d+)/g)].map(([, n]) => Number(n));
        const values = numbered.length > 0 ? Math.max(...numbered) : text.split("?").length - 1;
        const plan = state.storage.sql
          .exec(`EXPLAIN QUERY PLAN ${text}`, ...Array.from({ length: values }, () => null))
          .toArray()
          .map(({ detail }) => String(detail));
        const scans = plan.filter((detail) => GROWING.some((table) => detail.startsWith(`SCAN ${table}`)));
        expect(scans, text).toEqual([]);
        if (!MAY_SORT.includes(text))
          expect(
            plan.filter((detail) => detail.includes("TEMP B-TREE")),
            text,
          ).toEqual([]);
      }
    });
  });
});

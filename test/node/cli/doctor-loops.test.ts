import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { afterAll, beforeAll, expect, test } from "vitest";
import { loopFindings } from "../../../cli/doctor/loops.ts";
import { doorVariables, ROOT_KEY } from "../../support/keys.ts";

const RESTS = { state: "idle", due: null, tries: 0, error: null };
const DUE = Date.UTC(2026, 0, 2, 3, 4, 5);

/** What a gateway answers by the path; it has nothing else. */
const ANSWERS: Record<string, object> = {
  "/pipelines": { pipelines: [] },
  "/repos": {
    repos: [
      { name: "photos", branches: ["master", "gone"] },
      { name: "hidden", branches: ["master"] },
    ],
  },
  "/repos/photos/branches/master/loops": {
    loops: [
      { name: "outbox", ...RESTS },
      { name: "history GC", state: "failing", due: DUE, tries: 3, error: "Error: the disk is full" },
    ],
  },
};

const gateway = createServer(({ url = "" }, answer) => {
  const path = new URL(url, "http://gateway").pathname.replace("/api/v1", "");
  const told = ANSWERS[path];
  const status = path.startsWith("/repos/hidden") ? 403 : told ? 200 : 404;
  const error = { error: { code: "NoSuchBranch", message: "it is not there" } };
  answer.writeHead(status, { "content-type": "application/json" }).end(JSON.stringify(told ?? error));
});

beforeAll(async () => {
  await new Promise<void>((resolve) => {
    gateway.listen(0, "127.0.0.1", resolve);
  });
});
afterAll(() => {
  gateway.close();
});

test("doctor tells which background job of a branch fails, how often, with what, and when it goes on", async () => {
  const { port } = gateway.address() as AddressInfo;
  const env = doorVariables({ endpoint: `http://127.0.0.1:${port}`, ...ROOT_KEY });
  expect(await loopFindings({}, env)).toEqual([
    {
      check: "loops",
      state: "warn",
      found:
        "history GC of branch master.photos failed 3 times in a row, and is tried again at 2026-01-02T03:04:05.000Z: Error: the disk is full",
      fix: expect.stringContaining("goes on by itself"),
    },
  ]);
});

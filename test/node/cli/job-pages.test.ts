import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { afterAll, beforeAll, expect, test } from "vitest";
import { type Job, JobPage } from "../../../protocol/pipelines.ts";
import { parseCliJson } from "../../support/cli-json.ts";
import { sluiceCommand, sluiceEnv } from "../../support/dev-server.ts";
import type { Door } from "../../support/keys.ts";
import { run } from "../../support/processes.ts";
import { onTerminal } from "../../support/terminal.ts";

const JOBS = 3000;
/** Those that are in the state that is asked for: the oldest ones. All others wait behind them, and are passed over. */
const SHOWN = 3;

/** How many jobs each request asked for. */
let asked: number[] = [];
/** What the last request asked. */
let last = new URLSearchParams();
const gateway = createServer((request, response) => {
  const { searchParams } = new URL(request.url ?? "/", "http://gateway");
  const limit = Number(searchParams.get("limit"));
  asked.push(limit);
  last = searchParams;
  const after = searchParams.get("after");
  const newest = after === null ? JOBS : Number(after.slice(-4));
  const oldest = Math.max(0, newest - limit);
  const ids = Array.from({ length: newest - oldest }, (_, n) => newest - 1 - n);
  const jobs = ids.filter((n) => n < SHOWN).map(job);
  const page: JobPage = { jobs, next: oldest > 0 ? idOf(oldest) : null };
  response.writeHead(200, { "content-type": "application/json" }).end(JSON.stringify(page));
});
let door: Door;

beforeAll(async () => {
  await new Promise<void>((resolve) => gateway.listen(0, "127.0.0.1", resolve));
  const { port } = gateway.address() as AddressInfo;
  door = { endpoint: `http://127.0.0.1:${port}`, accessKeyId: "key", secretAccessKey: "secret" };
});
afterAll(() => {
  gateway.close();
});

function idOf(n: number): string {
  return `01KAR${"0".repeat(17)}${String(n).padStart(4, "0")}`;
}

function job(n: number): Job {
  return {
    ...{ id: idOf(n), pipeline: "edges", version: 1, state: "running", reason: null, inputs: [] },
    ...{
      output: { repo: "edges", branch: "master" },
      outputCommit: null,
      datums: { total: 1, processed: 0, skipped: 0, failed: 0 },
    },
    ...{ createdAt: 1, startedAt: 1, finishedAt: null },
  };
}

const LIST = ["job", "list", "--state", "running"];

test("sluice job list --state finds what runs behind thousands of jobs that wait with few requests", async () => {
  asked = [];
  const terminal = onTerminal(sluiceCommand(LIST), { env: sluiceEnv(door) });
  expect(await terminal.ended, terminal.screen()).toBe(0);
  expect(terminal.screen().match(/running/g)).toHaveLength(SHOWN);
  expect(asked).toEqual([20, 1000, 1000, 1000]);
});

test("sluice job list --state with a --limit cuts a page that holds more, and goes on behind the last that it shows", async () => {
  const list = async (...more: string[]): Promise<JobPage> => {
    const { code, stdout, stderr } = await run(sluiceCommand([...LIST, "--json", ...more]), {
      env: sluiceEnv(door),
    });
    expect(code, stderr).toBe(0);
    return JobPage.parse(parseCliJson(stdout.toString()));
  };
  asked = [];
  const first = await list("--limit", "2");
  expect(first).toMatchObject({ jobs: [{ id: idOf(2) }, { id: idOf(1) }], next: idOf(1) });
  expect(asked).toEqual([2, 1000, 1000, 1000]);
  expect(await list("--limit", "2", "--after", idOf(1))).toMatchObject({
    jobs: [{ id: idOf(0) }],
    next: null,
  });
});

test("sluice job list asks for a text and for a span of time, by a date or by how long ago it began", async () => {
  const before = Date.now();
  const options = [
    "--search",
    "exit code 4",
    "--since",
    "3h",
    "--before",
    "2100-01-31T14:00Z",
    "--limit",
    "1",
  ];
  const { code } = await run(sluiceCommand(["job", "list", ...options]), { env: sluiceEnv(door) });
  expect(code).toBe(0);
  expect([last.get("search"), last.get("before")]).toEqual([
    "exit code 4",
    String(Date.UTC(2100, 0, 31, 14)),
  ]);
  const ago = before - Number(last.get("since"));
  expect(ago).toBeLessThanOrEqual(3 * 60 * 60 * 1000);
  const wrong = await run(sluiceCommand(["job", "list", "--since", "yesterday"]), { env: sluiceEnv(door) });
  expect(wrong.code).toBe(2);
  expect(wrong.stderr).toContain("It must be a time such as 2026-01-31T14:00Z, or 3h or 7d for so long ago.");
});

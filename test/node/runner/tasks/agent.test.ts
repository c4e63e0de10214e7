import { readdir } from "node:fs/promises";
import { join } from "node:path";
import { afterEach, beforeEach, describe, expect, test } from "vitest";
import { contentName } from "../../../../protocol/content.ts";
import type { Outcome, Task } from "../../../../protocol/runner.ts";
import { findTool } from "../../../../runner/lib/system-calls.ts";
import { REST } from "../../../support/suite.ts";
import { Answer, refusal } from "../support/fake-gateway.ts";
import { Stage, soon } from "../support/running.ts";

const absent = (await findTool("bwrap")) === undefined && (await findTool("setpriv")) === undefined;
const needs = test.skipIf(absent);

let stage: Stage;
beforeEach(async () => {
  stage = await Stage.open();
});
afterEach(async () => {
  await stage.close();
});

type Merged = Extract<Outcome, { state: "merged" }>;

function mergeOf(...parts: (string | Buffer)[]): Task {
  return { kind: "merge", lease: "", job: "job-1", parts: parts.map((part) => stage.gateway.store(part)) };
}

function egressTo(URL: string, more: { secret?: string; endpoint?: string } = {}): Task {
  const entries = [{ path: "a", content: stage.gateway.store("content of a") }];
  return { kind: "egress", lease: "", job: "job-1", egress: { URL, ...more }, entries };
}

/** What a merged outcome's content is: in it, or in the upload that it names. */
function mergedBytes(outcome: Merged): Buffer | undefined {
  if (outcome.bytes !== undefined) return Buffer.from(outcome.bytes, "base64");
  const name = contentName(outcome.content);
  const held = stage.gateway.uploads.get(outcome.upload ?? "")?.contents.has(name);
  return held ? stage.gateway.contents.get(name) : undefined;
}

function merged(): Merged[] {
  return stage.gateway.outcomes.filter((outcome) => outcome.state === "merged");
}

const contentRequests = () =>
  stage.gateway.requests.filter((request) => request.startsWith("GET") && request.includes("/contents/"));

/** Makes requests for contents wait, and tells how many do. */
function holdContents(): { waiting(): number; release(): void } {
  const { promise, resolve } = Promise.withResolvers<void>();
  let waiting = 0;
  stage.gateway.before = async ({ path }) => {
    if (!path.includes("/contents/")) return undefined;
    waiting += 1;
    await promise;
    return undefined;
  };
  return { waiting: () => waiting, release: resolve };
}

describe("a merge task", () => {
  needs("puts the parts together in their order; a small whole travels in the outcome", async () => {
    stage.gateway.addTask(mergeOf("one\n", "", "two\n", "one\n", "three\n"));
    await stage.runner();
    await stage.reported(1);
    const [outcome] = merged();
    expect(outcome && mergedBytes(outcome)?.toString()).toBe("one\ntwo\none\nthree\n");
    expect(outcome?.upload).toBeUndefined();
    expect(contentRequests()).toHaveLength(3);
    expect(await leftovers()).toEqual([]);
  });

  needs("of empty parts is the empty content", async () => {
    stage.gateway.addTask(mergeOf("", ""));
    await stage.runner();
    await stage.reported(1);
    expect(merged()).toMatchObject([{ content: { size: 0 } }]);
  });

  needs("uploads a large whole under its lease, with the digest of all its bytes", async () => {
    const parts = [Buffer.alloc(3_000_000, "a"), Buffer.alloc(1_500_001, "b"), Buffer.alloc(5, "c")];
    stage.gateway.addTask(mergeOf(...parts));
    await stage.runner();
    await stage.reported(1);
    const [outcome] = merged();
    expect(outcome && mergedBytes(outcome)?.equals(Buffer.concat(parts))).toBe(true);
    const [upload] = [...stage.gateway.uploads.values()];
    expect(upload?.lease).toBe(outcome?.lease);
    expect(await leftovers()).toEqual([]);
  });

  needs("sends nothing of a whole that the branch has already", async () => {
    const parts = [Buffer.alloc(9_000, "x"), Buffer.alloc(9_000, "y")];
    stage.gateway.store(Buffer.concat(parts));
    stage.gateway.addTask(mergeOf(...parts));
    await stage.runner();
    await stage.reported(1);
    expect(merged()[0]?.upload).toBeDefined();
    expect(stage.gateway.requests.filter((request) => request.startsWith("PUT"))).toEqual([]);
  });

  needs("goes on where a part broke off, and asks again for one that is refused for now", async () => {
    const parts = [Buffer.alloc(200_000, "p"), Buffer.alloc(100_000, "q")];
    let asked = 0;
    stage.gateway.before = ({ method, path }) => {
      if (method !== "GET" || !path.includes("/contents/")) return undefined;
      asked += 1;
      if (asked === 1) return refusal(503, "busy");
      return asked === 2 ? new Answer(200, "cut short") : undefined;
    };
    stage.gateway.addTask(mergeOf(...parts));
    await stage.runner();
    await stage.reported(1);
    const [outcome] = merged();
    expect(outcome && mergedBytes(outcome)?.equals(Buffer.concat(parts))).toBe(true);
  });

  needs("fails, saying why, where a part is not there", async () => {
    const task = mergeOf("here", "gone");
    stage.gateway.contents.delete(contentName(stage.gateway.store("gone")));
    stage.gateway.addTask(task);
    await stage.runner();
    await stage.reported(1);
    expect(stage.gateway.outcomes).toMatchObject([
      {
        state: "failed",
        exitCode: null,
        reason: expect.stringMatching(/^content [0-9a-f]{64}-4 could not be read: no content/),
      },
    ]);
    expect(stage.gateway.outcomes[0]).not.toHaveProperty("endsJob");
  });

  needs("whose outcome the gateway refuses is a failed task", async () => {
    stage.gateway.before = ({ path, body }) =>
      path.endsWith("/finish") && body.includes('"merged"') ? refusal(400, "no such upload") : undefined;
    stage.gateway.addTask(mergeOf("a", "b"));
    await stage.runner();
    await stage.reported(1);
    expect(stage.gateway.outcomes).toMatchObject([
      { state: "failed", reason: "the gateway refused the task's result: no such upload" },
    ]);
  });
});

describe("an egress task", () => {
  needs("fails and ends its job where its secret is not there", async () => {
    stage.gateway.addTask(egressTo("s3://bucket/dir", { secret: "no-such-secret" }));
    await stage.runner();
    await stage.reported(1);
    expect(stage.gateway.outcomes).toMatchObject([
      { state: "failed", endsJob: true, reason: expect.stringMatching(/^secret "no-such-secret"/) },
    ]);
  });
});

describe("tasks and datums", () => {
  needs("of one lease call are all done, the tasks first", async () => {
    stage.gateway.add("a");
    stage.gateway.addTask(mergeOf("x", "y"));
    await stage.runner();
    await stage.reported(2);
    expect(stage.gateway.outcomes.map(({ state }) => state)).toEqual(["merged", "success"]);
  });

  needs("that would wait behind a long task are given back", async () => {
    const held = holdContents();
    stage.gateway.addTask(mergeOf("long", "task"));
    stage.gateway.addDatum({ path: "", kind: "dir" });
    stage.gateway.files.set("c1", []);
    await stage.runner();
    await soon(held.waiting).toBeGreaterThan(0);
    await soon(() => stage.gateway.outcomes.map(({ state }) => state)).toContain("returned");
    held.release();
    await stage.reported(2);
    expect(stage.gateway.held.size).toBe(0);
  });
});

describe("stopping", () => {
  needs("a task whose lease is lost stops and reports nothing", REST, async () => {
    const held = holdContents();
    stage.gateway.addTask(mergeOf("lost", "task"));
    await stage.runner();
    await soon(held.waiting).toBeGreaterThan(0);
    stage.gateway.lose(...stage.gateway.held.keys());
    await soon(leftovers).toEqual([]);
    held.release();
    stage.gateway.before = () => undefined;
    stage.gateway.addTask(mergeOf("next", "task"));
    await stage.reported(1);
    expect(stage.gateway.outcomes).toHaveLength(1);
    expect(stage.gateway.lostOutcomes).toEqual([]);
  });

  needs("draining finishes the running task", async () => {
    const held = holdContents();
    stage.gateway.addTask(mergeOf("running", "task"));
    const runner = await stage.runner();
    await soon(held.waiting).toBeGreaterThan(0);
    runner.drain();
    held.release();
    await runner.done;
    expect(merged()).toHaveLength(1);
  });

  needs("killing gives the running task back at once", async () => {
    const held = holdContents();
    stage.gateway.addTask(mergeOf("killed", "task"));
    const runner = await stage.runner();
    await soon(held.waiting).toBeGreaterThan(0);
    runner.kill();
    await runner.done;
    held.release();
    expect(stage.gateway.outcomes.map(({ state }) => state)).toEqual(["returned"]);
    expect(stage.gateway.tasks).toHaveLength(1);
  });
});

/** Files of tasks that are still in a worker's folder. */
async function leftovers(): Promise<string[]> {
  const agents = join(stage.dataDir, "agents");
  const found = await readdir(agents, { recursive: true });
  return found.filter((path) => /\/task-\d+$/.test(path));
}

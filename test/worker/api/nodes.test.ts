import { env } from "cloudflare:test";
import { beforeEach, describe, expect, test } from "vitest";
import { contentName } from "../../../protocol/content.ts";
import type { Node, NodeWork } from "../../../protocol/runner.ts";
import { api, type Call, commitFiles, configWith, contentOf, failed, good, makeBranch } from "./support.ts";

beforeEach(() => env.DB.prepare("DELETE FROM nodes").run());

const beat = (node: string, work?: readonly NodeWork[]) =>
  good("POST /runner/heartbeat", { body: { node, executor: "docker", capacity: 4, ...(work && { work }) } });

/** How many workers of a pipeline a node is to have. */
async function share(node: string, pipeline: string): Promise<number> {
  const { workers } = await beat(node);
  return workers.find((each: { pipeline: string }) => each.pipeline === pipeline)?.count ?? 0;
}

async function nodeNamed(name: string): Promise<Node | undefined> {
  return (await good("GET /nodes")).nodes.find((node: Node) => node.name === name);
}

async function makePipeline(name: string, parallelism: object): Promise<void> {
  await makeBranch({ repo: `${name}-in`, branch: "master" });
  await good("POST /pipelines", {
    body: {
      pipeline: { name },
      transform: { image: "busybox", cmd: ["true"] },
      parallelism_spec: parallelism,
      inputs: [{ repo: { name: `${name}-in` }, glob: "/*" }],
    },
  });
}

test("a node that runs processes is to have no worker of a pipeline that demands a container", async () => {
  const parallelism_spec = { strategy: "CONSTANT", constant: 2 };
  const transform = { image: "busybox", cmd: ["true"], container: "required" };
  await good("POST /pipelines", { body: { pipeline: { name: "boxed" }, transform, parallelism_spec } });
  const bare = { node: "bare", executor: "process", capacity: 4 };
  const { workers } = await good("POST /runner/heartbeat", { body: bare });
  expect(workers.map(({ pipeline }: { pipeline: string }) => pipeline)).not.toContain("boxed");
  expect(await share("able", "boxed")).toBe(2);
  const asked = { pipeline: "boxed", node: "bare", worker: "bare/boxed/0/x", max: 1 };
  const lease = await good("POST /runner/lease", { body: asked });
  expect(lease).toMatchObject({ slot: false, transform: { container: "required" } });
  await good("POST /pipelines?update=true", {
    body: {
      pipeline: { name: "boxed" },
      transform: { ...transform, container: undefined },
      parallelism_spec,
    },
  });
  expect(await share("able", "boxed")).toBe(1);
});

describe("a node that is being drained", () => {
  test("is to have no workers: the others have them, and it is not counted", async () => {
    await makePipeline("three", { strategy: "CONSTANT", constant: 3 });
    await makePipeline("each", { strategy: "COEFFICIENT", coefficient: 2 });
    await beat("a");
    await beat("b");
    expect((await share("a", "three")) + (await share("b", "three"))).toBe(3);
    expect(await good("POST /nodes/a/drain")).toMatchObject({ name: "a", live: true, draining: true });
    expect([await share("a", "three"), await share("b", "three")]).toEqual([0, 3]);
    expect([await share("a", "each"), await share("b", "each")]).toEqual([0, 2]);
    expect(await good("POST /nodes/a/resume")).toMatchObject({ draining: false });
    expect((await share("a", "three")) + (await share("b", "three"))).toBe(3);
    expect([await share("a", "each"), await share("b", "each")]).toEqual([2, 2]);
  });

  test("stays so when its runner says good-bye and comes again, and is shown all the while", async () => {
    await makePipeline("stays", { strategy: "CONSTANT", constant: 1 });
    await beat("a");
    await good("POST /nodes/a/drain");
    await good("POST /nodes/a/drain");
    expect((await api("DELETE /runner/heartbeat?node=a")).status).toBe(204);
    expect(await nodeNamed("a")).toMatchObject({ draining: true, live: false, work: [] });
    expect(await share("a", "stays")).toBe(0);
    expect(await nodeNamed("a")).toMatchObject({ draining: true, live: true });
    await good("POST /nodes/a/resume");
    expect(await share("a", "stays")).toBe(1);
    await api("DELETE /runner/heartbeat?node=a");
    expect(await nodeNamed("a")).toBeUndefined();
  });

  test("is one that there is", async () => {
    for (const verb of ["drain", "resume"]) {
      const error = await failed(`POST /nodes/nowhere/${verb}`);
      expect(error).toMatchObject({ status: 404, code: "NoSuchNode" });
      expect(error.message).toContain("'nowhere': 'sluice node list'");
      expect(await failed(`POST /nodes/a.b/${verb}`)).toMatchObject({ status: 400, code: "InvalidRequest" });
      expect(await failed(`POST /nodes/nowhere/${verb}?now=1`)).toMatchObject({ status: 400 });
    }
  });
});

describe("what runs on a node", () => {
  test("is what its last heartbeat told, within bounds", async () => {
    const work = [{ pipeline: "edges", workers: 2, running: 1 }];
    await beat("a", work);
    expect(await nodeNamed("a")).toMatchObject({ capacity: 4, executor: "docker", work });
    // A runner of an earlier version does not tell.
    await beat("a");
    expect(await nodeNamed("a")).toMatchObject({ work: [] });
    const body = { node: "a", executor: "x", capacity: 1 };
    for (const [bad, path] of [
      [[{ pipeline: "p", workers: -1, running: 0 }], "work[0].workers"],
      [[{ pipeline: "p", workers: 1 }], "work[0].running"],
      [Array(101).fill(work[0]), "work"],
    ] as const)
      expect(await failed("POST /runner/heartbeat", { body: { ...body, work: bad } })).toMatchObject({
        status: 400,
        issues: [{ path }],
      });
  });
});

test("what a node says of itself is shown to people, and only its release is news", async () => {
  const say = async (about?: object) => {
    const body = { node: "told", executor: "docker", capacity: 4, ...(about && { about }) };
    await good("POST /runner/heartbeat", { body });
    return (await api("GET /nodes")).headers.get("etag");
  };
  const disk = { totalBytes: 1000, freeBytes: 400 };
  const about = { version: "0.1.0", disk, cache: { usedBytes: 1, maxBytes: 10 } };
  const first = await say(about);
  expect((await nodeNamed("told"))?.about).toEqual(about);
  expect(await say({ ...about, disk: { ...disk, freeBytes: 300 } })).toBe(first);
  expect((await nodeNamed("told"))?.about?.disk?.freeBytes).toBe(300);
  expect(await say({ ...about, version: "0.2.0" })).not.toBe(first);
  // A runner of an earlier version does not tell.
  await say();
  expect(await nodeNamed("told")).not.toHaveProperty("about");
});

describe("a node that is quiet", () => {
  const beatQuietly = (node: string, call: Call = {}) =>
    good("POST /runner/heartbeat", {
      body: { node, executor: "docker", capacity: 4, quiet: true },
      ...call,
    });
  const age = (name: string, ms: number) =>
    env.DB.prepare("UPDATE nodes SET seenAt = seenAt - ?1, quietUntil = quietUntil - ?1 WHERE name = ?2")
      .bind(ms, name)
      .run();

  test("lives for 75 s after a heartbeat, has its workers and is counted; another one lives for 10", async () => {
    await makePipeline("calm", { strategy: "CONSTANT", constant: 2 });
    await beatQuietly("a");
    await beat("b");
    await age("a", 74_000);
    expect(await nodeNamed("a")).toMatchObject({ live: true });
    expect(await nodeNamed("a")).not.toHaveProperty("quietUntil");
    expect(await share("b", "calm")).toBe(1);
    expect((await good("GET /now")).nodes).toMatchObject({ live: 2, silent: 0 });
    await age("a", 2_000);
    expect(await nodeNamed("a")).toMatchObject({ live: false });
    expect(await share("b", "calm")).toBe(2);
    await beatQuietly("a");
    await beat("a");
    await age("a", 11_000);
    expect(await nodeNamed("a")).toMatchObject({ live: false });
  });

  test("has a socket, which it hears of by its heartbeats and opens with a key that may work", async () => {
    expect(await beatQuietly("a")).toMatchObject({ sockets: true });
    const upgrade = { headers: { upgrade: "WebSocket" } };
    const answer = await api("GET /runner/socket?node=a", upgrade);
    expect(answer.status).toBe(101);
    answer.webSocket?.accept();
    answer.webSocket?.close();
    expect(await failed("GET /runner/socket?node=a")).toMatchObject({ status: 400, code: "InvalidRequest" });
    expect(await failed("GET /runner/socket?node=a.b", upgrade)).toMatchObject({ status: 400 });
    const reader = { scope: { level: "read", repos: null } } as const;
    const refused = await failed("GET /runner/socket?node=a", { ...upgrade, caller: reader });
    expect(refused).toMatchObject({ status: 403, code: "AccessDenied" });
  });

  test("loses its socket with its key", async () => {
    const made = await good("POST /keys", { body: { level: "runner", description: "a node" } });
    const caller = { keyId: made.id, scope: { level: "runner", repos: null } } as const;
    const upgrade = { headers: { upgrade: "websocket" } };
    const answers = [
      await api("GET /runner/socket?node=a", { ...upgrade, caller }),
      await api("GET /runner/socket?node=b", upgrade),
    ];
    const codes: (number | undefined)[] = [undefined, undefined];
    for (const [index, { webSocket }] of answers.entries()) {
      webSocket?.addEventListener("close", ({ code }) => {
        codes[index] = code;
      });
      webSocket?.accept();
    }
    await good(`DELETE /keys/${made.id}`);
    await expect.poll(() => codes).toEqual([4003, undefined]);
    answers[1]?.webSocket?.close();
  });

  test("hears which of its pipelines have no job, and is woken when one has", async () => {
    await makePipeline("rests", { strategy: "CONSTANT", constant: 1 });
    const marks = async () =>
      (await beatQuietly("a")).workers.filter(({ pipeline }: { pipeline: string }) => pipeline === "rests");
    const isIdle = async () => (await marks()).every((share: { idle?: true }) => share.idle);
    await expect.poll(isIdle).toBe(true);
    const answer = await api("GET /runner/socket?node=a", { headers: { upgrade: "websocket" } });
    const heard: string[] = [];
    answer.webSocket?.addEventListener("message", ({ data }) => void heard.push(String(data)));
    answer.webSocket?.accept();
    await commitFiles({ repo: "rests-in", branch: "master" }, { a: "1" });
    await expect.poll(() => heard).toContainEqual(expect.stringContaining('"work":["rests"]'));
    // What it is woken for can be found: the catalogue knew of the job before.
    expect(await marks()).toEqual([{ pipeline: "rests", count: 1 }]);
    await good("DELETE /pipelines/rests");
    answer.webSocket?.close();
  });

  test("has none at a gateway that takes none, and hears of no pipeline that its workers may rest", async () => {
    const config = configWith({ takesSockets: false });
    await makePipeline("restless", { strategy: "CONSTANT", constant: 1 });
    const told = await beatQuietly("a", { config });
    expect(told).not.toHaveProperty("sockets");
    expect(told.workers.filter((share: { idle?: true }) => share.idle)).toEqual([]);
    const asked = { config, headers: { upgrade: "websocket" } };
    expect(await failed("GET /runner/socket?node=a", asked)).toMatchObject({ status: 404, code: "NotFound" });
  });

  test("is woken when a pipeline comes, stops and goes, when a node is drained, and when something was erased", async () => {
    const answer = await api("GET /runner/socket?node=rung", { headers: { upgrade: "websocket" } });
    const socket = answer.webSocket;
    let rung = 0;
    socket?.addEventListener("message", () => {
      rung++;
    });
    socket?.accept();
    const rings = async (change: () => Promise<unknown>) => {
      const before = rung;
      await change();
      await expect.poll(() => rung).toBeGreaterThan(before);
    };
    await expect.poll(() => rung).toBeGreaterThan(0);
    await rings(() => makePipeline("rings", { strategy: "CONSTANT", constant: 1 }));
    await rings(() => good("POST /pipelines/rings/stop"));
    await rings(() => good("POST /pipelines/rings/start"));
    await rings(() => good("DELETE /pipelines/rings"));
    await beat("a");
    await rings(() => good("POST /nodes/a/drain"));
    await commitFiles({ repo: "rings-in", branch: "master" }, { a: "secret" });
    await rings(() => good("POST /repos/rings-in/branches/master/erasures", { body: { path: "a" } }));
    await rings(() => api("DELETE /runner/heartbeat?node=a"));
    await api("DELETE /runner/heartbeat?node=rung");
  });
});

describe("the list of nodes", () => {
  test("is 304 to who has it already while nodes only live on, and new when something runs or one falls silent", async () => {
    const silence = (seenAt: number) =>
      env.DB.prepare("UPDATE nodes SET seenAt = ?1 WHERE name = 'a'").bind(seenAt).run();
    await beat("a");
    const etag = (await api("GET /nodes")).headers.get("etag") ?? "";
    const again = () => api("GET /nodes", { headers: { "if-none-match": etag } });
    await silence(Date.now() - 1000);
    const same = await again();
    expect([same.status, await same.text()]).toEqual([304, ""]);
    await silence(Date.now() - 60_000);
    expect((await again()).status).toBe(200);
    await beat("a", [{ pipeline: "edges", workers: 1, running: 1 }]);
    expect((await again()).status).toBe(200);
  });

  test("says why a node can't run the commands of a pipeline, as its heartbeat told", async () => {
    const work = [{ pipeline: "edges", workers: 2, running: 0, trouble: "pull access denied for none" }];
    await beat("a", work);
    expect((await nodeNamed("a"))?.work).toEqual(work);
    const body = { node: "a", executor: "x", capacity: 1, work: [{ ...work[0], trouble: "x".repeat(501) }] };
    expect(await failed("POST /runner/heartbeat", { body })).toMatchObject({
      status: 400,
      issues: [{ path: "work[0].trouble" }],
    });
  });
});

describe("what a node has room for", () => {
  const beatWithin = (node: string, bounds: object) =>
    good("POST /runner/heartbeat", { body: { node, executor: "docker", capacity: 4, bounds } });

  test("bounds the workers that it is to have", async () => {
    await makePipeline("wide", { strategy: "CONSTANT", constant: 10 });
    await beatWithin("a", { running: 2, workers: 3 });
    const { workers } = await beatWithin("b", { running: 2, workers: 100 });
    const { workers: few } = await beatWithin("a", { running: 2, workers: 3 });
    expect(few.reduce((sum: number, { count }: { count: number }) => sum + count, 0)).toBe(3);
    const wide = [...workers, ...few].filter(({ pipeline }) => pipeline === "wide");
    expect(wide.reduce((sum, { count }) => sum + count, 0)).toBe(10);
    expect(await nodeNamed("a")).toMatchObject({ bounds: { running: 2, workers: 3 } });
    // A runner of an earlier version has none.
    await beat("a");
    expect(await nodeNamed("a")).not.toHaveProperty("bounds");
    expect(await share("a", "wide")).toBe(5);
  });

  test("is at least one", async () => {
    const body = { node: "a", executor: "x", capacity: 1 };
    for (const [bounds, path] of [
      [{ running: 0, workers: 1 }, "bounds.running"],
      [{ running: 1, workers: 0 }, "bounds.workers"],
      [{ running: 1 }, "bounds.workers"],
    ] as const)
      expect(await failed("POST /runner/heartbeat", { body: { ...body, bounds } })).toMatchObject({
        status: 400,
        issues: [{ path }],
      });
  });
});

describe("why a job waits", () => {
  test("is told by lists of all jobs, too", async () => {
    await makePipeline("why", { strategy: "CONSTANT", constant: 1 });
    const words = { a: "is told", b: "is told" };
    await commitFiles({ repo: "why-in", branch: "master" }, words);
    const second = await commitFiles({ repo: "why-in", branch: "master" }, { c: "1" });
    expect(second).not.toBe("");
    const reasons = async (query: string): Promise<string[]> =>
      (await good(`GET /jobs?${query}`)).jobs
        .filter(({ pipeline }: { pipeline: string }) => pipeline === "why")
        .map(({ reason }: { reason: string }) => reason);
    for (const query of ["limit=10", "state=waiting", "pipeline=why"])
      await expect
        .poll(() => reasons(query))
        .toEqual([
          expect.stringMatching(/^behind job [0-9A-Z]{26}$/),
          "no live runner: start one with `sluice runner`",
        ]);
  });
});

describe("a heartbeat that names a place in the list of erased contents", () => {
  const beatFrom = async (erasedTo?: string | null) => {
    const body = {
      node: "caching",
      executor: "process",
      capacity: 1,
      ...(erasedTo !== undefined && { erasedTo }),
    };
    return (await good("POST /runner/heartbeat", { body })).erased;
  };

  test("is told what was erased since", async () => {
    const { upTo, ...first } = await beatFrom(null);
    expect(first).toEqual({ contents: [], everything: true });
    expect(await beatFrom(upTo)).toEqual({ upTo, contents: [] });
    await makeBranch({ repo: "to-erase", branch: "master" });
    await commitFiles({ repo: "to-erase", branch: "master" }, { a: "secret" });
    const { id } = await contentOf("secret");
    await good("POST /repos/to-erase/branches/master/erasures", { body: { path: "a" } });
    await expect.poll(async () => (await beatFrom(upTo)).contents).toEqual([contentName(id)]);
    const { upTo: next } = await beatFrom(upTo);
    expect(await beatFrom(next)).toEqual({ upTo: next, contents: [] });
  });

  test("of a runner of before is answered as before", async () => {
    expect(await beatFrom()).toBeUndefined();
  });

  test("is told that it may be everything, once the catalogue was made anew", async () => {
    const { upTo } = await beatFrom(null);
    await good("POST /admin/rebuild");
    const anew = await beatFrom(upTo);
    expect(anew).toMatchObject({ contents: [], everything: true });
    expect(await beatFrom(anew.upTo)).toEqual({ upTo: anew.upTo, contents: [] });
  });
});

import { env } from "cloudflare:test";
import { describe, expect, test } from "vitest";
import { LogLine } from "../../../protocol/pipelines.ts";
import {
  type LeasedDatum,
  MAX_BATCH,
  MAX_LOG_LINE_CHARACTERS,
  MAX_LOG_LINES,
} from "../../../protocol/runner.ts";
import { handleApi } from "../../../worker/api/api.ts";
import { REST } from "../../support/suite.ts";
import { api, commitFiles, failed, good, makeBranch, ROOT, testContext } from "./support.ts";

/** A pipeline with a commit of two files, both at work. */
async function running(name: string): Promise<LeasedDatum[]> {
  const input = { repo: `${name}-in`, branch: "master" };
  await makeBranch(input);
  await good("POST /pipelines", {
    body: {
      pipeline: { name },
      transform: { image: "busybox", cmd: ["true"] },
      inputs: [{ repo: { name: `${name}-in` }, glob: "/*" }],
    },
  });
  await commitFiles(input, { a: "1", b: "2" });
  const body = { pipeline: name, node: "n1", worker: "w", max: 2 };
  const { datums } = await good("POST /runner/lease", { body });
  // Jobs are found by their ids a moment after they were made.
  while (!(await api(`GET /jobs/${datums[0].job}`)).ok) await scheduler.wait(10);
  return datums;
}

const print = (pipeline: string, { lease }: { lease: string }, seq: number, ...texts: string[]) =>
  good("POST /runner/logs", {
    body: {
      ...{ pipeline, worker: "w" },
      entries: [{ lease, seq, dropped: 0, lines: texts.map((text) => [0, text]) }],
    },
  });

const finish = (pipeline: string, datums: readonly LeasedDatum[]) =>
  good("POST /runner/finish", {
    body: {
      ...{ pipeline, worker: "w" },
      outcomes: datums.map(({ lease }) => ({
        lease,
        state: "success",
        exitCode: 0,
        outputs: [],
        millis: 1,
        ran: { executor: "process", image: null },
      })),
    },
  });

/** The lines that come, one by one, without the empty ones. */
async function* linesOf(response: Response): AsyncGenerator<LogLine> {
  if (!response.ok || !response.body) throw new Error(`${response.status}`);
  let begun = "";
  for await (const text of response.body.pipeThrough(new TextDecoderStream())) {
    const lines = (begun + text).split("\n");
    begun = lines.pop() ?? "";
    for (const line of lines.filter((each) => each !== "")) yield LogLine.parse(JSON.parse(line));
  }
}

async function allOf(response: Response): Promise<LogLine[]> {
  const lines: LogLine[] = [];
  for await (const line of linesOf(response)) lines.push(line);
  return lines;
}

async function textsOf(response: Response): Promise<(string | null)[]> {
  return (await allOf(response)).map(({ line }) => line);
}

describe("POST /runner/logs", () => {
  test("keeps what leases print, names the lost ones, and takes a repeated call once", async () => {
    const [a, b] = await running("take");
    if (!a || !b) throw new Error("too few datums");
    expect(await print("take", a, 0, "one")).toEqual({ lost: [] });
    expect(await print("take", a, 0, "one")).toEqual({ lost: [] });
    expect(await print("take", { lease: "none" }, 0, "x")).toEqual({ lost: ["none"] });
    expect(await print("absent", a, 0, "x")).toEqual({ lost: [a.lease] });
    const [line, ...rest] = await allOf(await api(`GET /jobs/${a.job}/logs`));
    expect(line).toEqual({
      ...{ datum: a.datum, node: "n1", line: "one", next: expect.any(String) },
      inputs: [{ name: "take-in", path: a.inputs[0]?.path }],
      at: expect.any(Number),
    });
    expect(Math.abs(Date.now() - (line?.at ?? 0))).toBeLessThan(3_600_000);
    expect(rest).toEqual([]);
  });

  test("takes as much as the protocol allows, of any text, and nothing beyond it", async () => {
    const [a] = await running("most");
    if (!a) throw new Error("no datum");
    const wild = '\u0000\u001b[31m"\\\ud800é🎉\u2028';
    const long = "x".repeat(MAX_LOG_LINE_CHARACTERS);
    await print("most", a, 0, wild, "", long, ...Array.from({ length: MAX_LOG_LINES - 3 }, () => "y"));
    const texts = await textsOf(await api(`GET /jobs/${a.job}/logs`));
    // As JSON: half a character can't be shown where this fails.
    expect(JSON.stringify(texts.slice(0, 3))).toBe(JSON.stringify([wild, "", long]));
    expect(texts).toHaveLength(MAX_LOG_LINES);
    const share = Math.floor(MAX_LOG_LINES / MAX_BATCH);
    const full = Array.from({ length: MAX_BATCH }, (_, n) => ({
      ...{ lease: a.lease, seq: n + 1, dropped: 1 },
      ...{ lines: Array(share).fill([0, "z"]), streams: "2".repeat(share) },
    }));
    const body = { pipeline: "most", worker: "w", entries: full };
    expect(await good("POST /runner/logs", { body })).toEqual({ lost: [] });
    const entry = { lease: a.lease, seq: 1, dropped: 0, lines: [[0, "x"]] };
    const call = (...entries: object[]) => ({ body: { pipeline: "most", worker: "w", entries } });
    for (const [body, path] of [
      [call(), "entries"],
      [call(...Array.from({ length: MAX_BATCH + 1 }, () => entry)), "entries"],
      [call({ ...entry, seq: -1 }), "entries[0].seq"],
      [call({ ...entry, dropped: 0.5 }), "entries[0].dropped"],
      [call({ ...entry, lines: [[-1, "x"]] }), "entries[0].lines[0][0]"],
      [call({ ...entry, lines: [[0, `${long}x`]] }), "entries[0].lines[0][1]"],
      [call({ ...entry, lines: Array(MAX_LOG_LINES + 1).fill([0, ""]) }), "entries[0].lines"],
      [call({ ...entry, streams: "3" }), "entries[0].streams"],
      [call({ ...entry, streams: "1".repeat(MAX_LOG_LINES + 1) }), "entries[0].streams"],
    ] as const)
      expect(await failed("POST /runner/logs", body)).toMatchObject({ status: 400, issues: [{ path }] });
  });
});

describe("GET /jobs/{id}/logs", () => {
  test("shows one datum by the first digits of its id, and goes on behind a line", async () => {
    const [a, b] = await running("one");
    if (!a || !b) throw new Error("too few datums");
    await print("one", a, 0, "a1", "a2");
    await print("one", b, 0, "b1");
    await print("one", a, 1, "a3");
    const logs = `GET /jobs/${a.job}/logs`;
    expect(await textsOf(await api(logs))).toEqual(["a1", "a2", "b1", "a3"]);
    expect(await textsOf(await api(`${logs}?datum=${a.datum.slice(0, 12)}`))).toEqual(["a1", "a2", "a3"]);
    for await (const { line, next = "" } of linesOf(await api(logs))) {
      const all = ["a1", "a2", "b1", "a3"];
      const rest = await textsOf(await api(`${logs}?after=${next}`));
      expect(rest).toEqual(all.slice(all.indexOf(line ?? "") + 1));
    }
    expect(await failed(`${logs}?datum=${"f".repeat(64)}`)).toMatchObject({ status: 404, code: "NotFound" });
  });

  test("shows what came on one stream, which it tells of each line, from the start and from the end", async () => {
    const [a, b] = await running("streams");
    if (!a || !b) throw new Error("too few datums");
    const entry = {
      lease: a.lease,
      seq: 0,
      dropped: 2,
      lines: ["o1", "e1", "o2", "e2"].map((text) => [0, text]),
    };
    const of = (body: object[]) =>
      good("POST /runner/logs", { body: { pipeline: "streams", worker: "w", entries: body } });
    await of([{ ...entry, streams: "1212" }]);
    // An older runner's, which does not tell.
    await print("streams", b, 0, "b1");
    await of([{ ...entry, seq: 1, dropped: 3, lines: [[0, "o3"]], streams: "1" }]);
    const logs = `GET /jobs/${a.job}/logs`;
    const all = await allOf(await api(logs));
    expect(all.map(({ line, stream }) => [line, stream])).toEqual([
      ["o1", "stdout"],
      ["e1", "stderr"],
      ["o2", "stdout"],
      ["e2", "stderr"],
      ["b1", undefined],
      ["o3", "stdout"],
    ]);
    const inputs = [{ name: "streams-in", path: a.inputs[0]?.path }];
    const told = ({ line, stream, inputs: read, dropped }: LogLine) => ({ line, stream, read, dropped });
    const onStderr = await allOf(await api(`${logs}?stream=stderr`));
    expect(onStderr.map(told)).toEqual([
      { line: "e1", stream: "stderr", read: inputs, dropped: 2 },
      { line: "e2", stream: "stderr", read: undefined, dropped: undefined },
      // Nothing of it is on stderr, but nobody knows where those before it came.
      { line: null, stream: undefined, read: undefined, dropped: 3 },
    ]);
    for (const { next = "" } of all) {
      const behind = all.slice(all.findIndex((each) => each.next === next) + 1);
      const wanted = behind.filter(({ stream }) => stream === "stdout").map(({ line }) => line);
      const shown = await allOf(await api(`${logs}?stream=stdout&after=${next}`));
      expect(shown.map(({ line }) => line)).toEqual(wanted);
    }
    const last = async (query: string) =>
      (await textsOf(await api(`${logs}?${query}`))).filter((line) => line !== null);
    expect(await last("stream=stdout&tail=2")).toEqual(["o2", "o3"]);
    expect(await last("stream=stderr&tail=1")).toEqual(["e2"]);
    expect(await last("stream=stderr&tail=9")).toEqual(["e1", "e2"]);
    expect(await last(`stream=stderr&tail=1&datum=${a.datum}`)).toEqual(["e2"]);
    expect(await failed(`${logs}?stream=stdin`)).toMatchObject({ status: 400, issues: [{ path: "stream" }] });
  });

  test("follows one stream of a job until it has ended, over what comes on the other", async () => {
    const [a, b] = await running("one-stream");
    if (!a || !b) throw new Error("too few datums");
    const send = (seq: number, text: string, streams: string) =>
      good("POST /runner/logs", {
        body: {
          ...{ pipeline: "one-stream", worker: "w" },
          entries: [{ lease: a.lease, seq, dropped: 0, lines: [[0, text]], streams }],
        },
      });
    await send(0, "out", "1");
    const lines = linesOf(await api(`GET /jobs/${a.job}/logs?follow=true&stream=stderr`));
    const first = lines.next();
    await send(1, "more out", "1");
    await send(2, "err", "2");
    expect((await first).value).toMatchObject({
      ...{ line: "err", stream: "stderr" },
      inputs: [{ name: "one-stream-in" }],
    });
    await finish("one-stream", [a, b]);
    expect((await lines.next()).done).toBe(true);
  });

  test("follows a job until it has ended, also where it is asked to go on", async () => {
    const [a, b] = await running("live");
    if (!a || !b) throw new Error("too few datums");
    await print("live", a, 0, "first");
    const follow = `GET /jobs/${a.job}/logs?follow=true`;
    const all = linesOf(await api(follow));
    const first = (await all.next()).value;
    expect(first).toMatchObject({ line: "first" });
    await print("live", b, 0, "second");
    expect((await all.next()).value).toMatchObject({ line: "second", datum: b.datum });
    const later = textsOf(await api(`${follow}&after=${first.next}`));
    await print("live", a, 1, "third");
    expect((await all.next()).value).toMatchObject({ line: "third" });
    await finish("live", [a, b]);
    expect((await all.next()).done).toBe(true);
    expect(await later).toEqual(["second", "third"]);
    expect(await textsOf(await api(follow))).toEqual(["first", "second", "third"]);
  });

  test(
    "sends an empty line now and then while nothing comes, and forgets a caller that goes",
    REST,
    async () => {
      const [a] = await running("calm");
      const response = await api(`GET /jobs/${a?.job}/logs?follow=true`);
      const reader = response.body?.getReader();
      expect(new TextDecoder().decode((await reader?.read())?.value)).toBe("\n");
      await reader?.cancel();
    },
  );

  test("breaks off once the key that follows is deleted, and goes on for others", async () => {
    const [a] = await running("revoked");
    if (!a) throw new Error("no datum");
    const { id } = await good("POST /keys", { body: { level: "read", repos: ["revoked"] } });
    const caller = { keyId: id, scope: { level: "read", repos: ["revoked"] } } as const;
    await print("revoked", a, 0, "before");
    const follow = `GET /jobs/${a.job}/logs?follow=true`;
    const [theirs, ours] = [linesOf(await api(follow, { caller })), linesOf(await api(follow))];
    for (const lines of [theirs, ours]) expect((await lines.next()).value).toMatchObject({ line: "before" });
    expect((await api(`DELETE /keys/${id}`)).status).toBe(204);
    // The key is remembered for some seconds. It breaks off, as its end would say that there is no more.
    await expect(theirs.next()).rejects.toThrow();
    await print("revoked", a, 1, "after");
    expect((await ours.next()).value).toMatchObject({ line: "after" });
    await finish("revoked", [a]);
  });

  test("breaks off once the key that follows has expired", async () => {
    const [a] = await running("expired");
    if (!a) throw new Error("no datum");
    const wish = { level: "read", repos: ["expired"], expires: "1d" };
    const { id } = await good("POST /keys", { body: wish });
    const caller = { keyId: id, scope: { level: "read", repos: ["expired"] } } as const;
    await print("expired", a, 0, "before");
    const lines = linesOf(await api(`GET /jobs/${a.job}/logs?follow=true`, { caller }));
    expect((await lines.next()).value).toMatchObject({ line: "before" });
    await env.DB.prepare("UPDATE access_keys SET expiresAt = 1 WHERE id = ?1").bind(id).run();
    await expect(lines.next()).rejects.toThrow();
    await finish("expired", [a]);
  });

  test("breaks off without asking D1 when the key that follows expires; while D1 is away it goes on for others", async () => {
    const [a] = await running("silent");
    if (!a) throw new Error("no datum");
    await print("silent", a, 0, "before");
    const [over, ahead] = ["OVER", "AHEAD"].map((keyId) => ({
      keyId,
      asked: Promise.withResolvers<"asked">(),
    }));
    if (!over || !ahead) throw new Error("no keys");
    const find = async (id: string): Promise<never> => {
      [over, ahead].find(({ keyId }) => keyId === id)?.asked.resolve("asked");
      throw new Error("D1 is away");
    };
    const context = { ...testContext(), keys: { find, used: () => {} } };
    const follow = async (keyId: string, expiresAt: number): Promise<Response> => {
      const request = new Request(`http://gateway/api/v1/jobs/${a.job}/logs?follow=true`);
      const scope = { level: "read", repos: ["silent"] } as const;
      return await handleApi(request, { context, caller: { ...ROOT, keyId, scope, expiresAt } });
    };
    const broken = allOf(await follow(over.keyId, Date.now())).catch(() => "broken off");
    expect(await Promise.race([broken, over.asked.promise])).toBe("broken off");

    const lines = linesOf(await follow(ahead.keyId, Date.now() + 3_600_000));
    expect((await lines.next()).value).toMatchObject({ line: "before" });
    const next = lines.next();
    await ahead.asked.promise;
    await print("silent", a, 1, "after");
    expect((await next).value).toMatchObject({ line: "after" });
    await finish("silent", [a]);
  });

  test("ends with the pipeline where that goes away", async () => {
    const [a] = await running("away");
    if (!a) throw new Error("no datum");
    await print("away", a, 0, "last words");
    const lines = linesOf(await api(`GET /jobs/${a.job}/logs?follow=true`));
    expect((await lines.next()).value).toMatchObject({ line: "last words" });
    await good("DELETE /pipelines/away");
    expect((await lines.next()).done).toBe(true);
  });
});

import { env, runInDurableObject } from "cloudflare:test";
import { describe, expect, test } from "vitest";
import { type LeasedDatum, type Task, WIRE_HEADER, WIRE_VERSION } from "../../../protocol/runner.ts";
import { randomBytes, referenceDigest } from "../blobs/reference.ts";
import {
  api,
  commitFiles,
  contentOf,
  contentPath,
  failed,
  good,
  LARGE_BYTES,
  makeBranch,
} from "./support.ts";

const beat = (node: string) =>
  good("POST /runner/heartbeat", { body: { node, executor: "process", capacity: 2 } });

/** A pipeline over an input of its own, with so many workers. */
async function pipelineOf(name: string, constant = 1): Promise<{ repo: string; branch: string }> {
  const input = { repo: `${name}-in`, branch: "master" };
  await makeBranch(input);
  await good("POST /pipelines", {
    body: {
      pipeline: { name },
      transform: { image: "busybox", cmd: ["true"] },
      parallelism_spec: { strategy: "CONSTANT", constant },
      inputs: [{ repo: { name: input.repo }, glob: "/*" }],
    },
  });
  return input;
}

interface Leased {
  readonly worker: string;
  readonly slot: boolean;
  readonly datums: readonly LeasedDatum[];
  readonly tasks: readonly Task[];
}

async function lease(pipeline: string, max = 64): Promise<Leased> {
  const worker = `node-1/${pipeline}/0/x`;
  return {
    worker,
    ...(await good("POST /runner/lease", { body: { pipeline, node: "node-1", worker, max } })),
  };
}

const done = { state: "success", exitCode: 0, millis: 1, ran: { executor: "process", image: null } } as const;

/** Who holds a slot of a pipeline. */
async function slotsOf(pipeline: string): Promise<unknown[]> {
  return runInDurableObject(env.PIPELINE.getByName(pipeline), (_, { storage }) =>
    storage.sql.exec("SELECT worker FROM slots").toArray(),
  );
}

/** How much the output branch of a pipeline keeps. */
async function keptBy(pipeline: string): Promise<{ uploads: number; contents: number }> {
  return runInDurableObject(env.BRANCH.getByName(`master.${pipeline}`), (_, { storage }) =>
    storage.sql
      .exec<{ uploads: number; contents: number }>(
        "SELECT (SELECT count(*) FROM uploads) AS uploads, (SELECT count(*) FROM contents) AS contents",
      )
      .one(),
  );
}

async function endOf(
  job: string,
): Promise<{ state: string; reason: string | null; outputCommit: string | null }> {
  return await good(`GET /jobs/${job}?wait=10`);
}

describe("a call that waits", () => {
  test("ends when its key expires", async () => {
    const input = await pipelineOf("brief", 3);
    await commitFiles(input, { a: "1" });
    const { datums } = await lease("brief");
    const [{ job = "" } = {}] = datums;
    // Jobs are found by their ids a moment after they were made.
    while (!(await api(`GET /jobs/${job}`)).ok) await scheduler.wait(10);
    const others: Promise<unknown>[] = [];
    const expiring = { expiresAt: Date.now() + 50 };
    for (const [target, body] of [
      [`GET /jobs/${job}?wait=20`, undefined],
      [
        "POST /runner/lease",
        { pipeline: "brief", node: "node-2", worker: "node-2/brief/0/x", max: 1, wait: "look" },
      ],
    ] as const) {
      const ours = good(target, { body });
      const theirs = good(target, { body, caller: expiring });
      expect(await Promise.race([ours.then(() => "ours"), theirs.then(() => "theirs")])).toBe("theirs");
      others.push(ours);
    }
    // So that none of them goes on beside other tests.
    await good("DELETE /pipelines/brief");
    await Promise.allSettled(others);
  });
});

describe("a node", () => {
  test("that beats is shown as live, gets its share of the workers, and gives it up when it leaves", async () => {
    await pipelineOf("shared", 3);
    await beat("node-a");
    await beat("node-b");
    const shares = await Promise.all(["node-a", "node-b"].map(beat));
    const counts = shares.map(({ workers }) =>
      workers.find((each: { pipeline: string }) => each.pipeline === "shared"),
    );
    expect(counts.map((share) => share.count).sort()).toEqual([1, 2]);
    const { nodes } = await good("GET /nodes");
    expect(nodes).toContainEqual({
      name: "node-a",
      executor: "process",
      capacity: 2,
      seenAt: expect.any(Number),
      live: true,
      draining: false,
      work: [],
    });

    expect((await api("DELETE /runner/heartbeat?node=node-b")).status).toBe(204);
    const { workers } = await beat("node-a");
    // Whether its first job, of an empty input, has ended by now is another matter.
    expect(workers).toContainEqual(expect.objectContaining({ pipeline: "shared", count: 3 }));
    expect((await good("GET /nodes")).nodes.map(({ name }: { name: string }) => name)).not.toContain(
      "node-b",
    );
  });

  test("says who it is, within bounds", async () => {
    for (const [body, path] of [
      [{ node: "a b", executor: "x", capacity: 1 }, "node"],
      [{ node: "a", executor: "x", capacity: 0 }, "capacity"],
      [{ node: "a", capacity: 1 }, "executor"],
    ] as const)
      expect(await failed("POST /runner/heartbeat", { body })).toMatchObject({
        status: 400,
        issues: [{ path }],
      });
    expect(await failed("DELETE /runner/heartbeat")).toMatchObject({
      status: 400,
      issues: [{ path: "node" }],
    });
  });
});

describe("a worker", () => {
  test("leases datums, keeps them, and its small and large outputs become the job's commit", async () => {
    const input = await pipelineOf("work");
    await commitFiles(input, { a: "1", b: "2" });
    const { worker, slot, datums } = await lease("work");
    expect(slot).toBe(true);
    const [first, second] = datums;
    if (!first || !second) throw new Error(`${datums.length} datums`);
    const renewal = { pipeline: "work", worker, leases: [first.lease, "no-such-lease"] };
    expect(await good("POST /runner/renew", { body: renewal })).toEqual({ lost: ["no-such-lease"] });

    const output = { repo: "work", branch: "master" };
    const small = await contentOf("small");
    const bytes = randomBytes(LARGE_BYTES, 1);
    const large = { digest: await referenceDigest(bytes), size: bytes.length };
    const { upload } = await good("POST /uploads", { body: { ...output, lease: second.lease } });
    await good(`PUT /uploads/${upload}/contents?digest=${large.digest}&size=${large.size}`, { body: bytes });
    const outcomes = [
      { lease: first.lease, ...done, outputs: [{ path: "from-a", ...small.id, bytes: small.bytes }] },
      {
        lease: second.lease,
        ...done,
        upload,
        outputs: [
          { path: "large", ...large },
          { path: "from-b", ...small.id, bytes: small.bytes },
          { path: "empty/", ...(await contentOf("")).id },
        ],
      },
    ];
    expect(await good("POST /runner/finish", { body: { pipeline: "work", worker, outcomes } })).toEqual({
      lost: [],
    });

    const job = await endOf(first.job);
    expect(job).toMatchObject({ state: "success", reason: null });
    const { files } = await good(`GET /repos/work/branches/master/commits/${job.outputCommit}/files`);
    expect(files.map(({ path }: { path: string }) => path)).toEqual(["empty/", "from-a", "from-b", "large"]);
    expect((await api(`GET ${contentPath(output, large)}`)).status).toBe(200);
  });

  test("whose lease is lost is told so, and what it says changes nothing", async () => {
    await pipelineOf("lost");
    const small = await contentOf("late");
    const outcomes = [{ lease: "gone", ...done, outputs: [{ path: "x", ...small.id, bytes: small.bytes }] }];
    const body = { pipeline: "lost", worker: "w", outcomes };
    expect(await good("POST /runner/finish", { body })).toEqual({ lost: ["gone"] });
    expect(await keptBy("lost")).toEqual({ uploads: 0, contents: 0 });
  });

  test("whose lease is lost, and with it its upload, takes no outcome along that it reports together", async () => {
    const input = await pipelineOf("mixed");
    await commitFiles(input, { a: "1", b: "2" });
    const { worker, datums } = await lease("mixed");
    const [first, second] = datums;
    if (!first || !second) throw new Error(`${datums.length} datums`);
    const { upload } = await good("POST /uploads", {
      body: { repo: "mixed", branch: "master", lease: first.lease },
    });
    const body = { pipeline: "mixed", worker, outcomes: [{ lease: first.lease, state: "returned" }] };
    expect(await good("POST /runner/finish", { body })).toEqual({ lost: [] });
    const [late, kept] = [await contentOf("late"), await contentOf("kept")];
    const reserve = { body: { contents: [late.id] } };
    await expect.poll(async () => (await api(`POST /uploads/${upload}/reserve`, reserve)).status).toBe(404);
    const outcomes = [
      { lease: first.lease, ...done, upload, outputs: [{ path: "x", ...late.id, bytes: late.bytes }] },
      { lease: second.lease, ...done, outputs: [{ path: "y", ...kept.id, bytes: kept.bytes }] },
    ];
    expect(await good("POST /runner/finish", { body: { pipeline: "mixed", worker, outcomes } })).toEqual({
      lost: [first.lease],
    });
    const output = { repo: "mixed", branch: "master" };
    expect((await api(`GET ${contentPath(output, kept.id)}`)).status).toBe(200);
    expect((await api(`GET ${contentPath(output, late.id)}`)).status).toBe(404);
  });

  test("that reports once more, because the answer was lost, takes nothing from what was recorded", async () => {
    const input = await pipelineOf("twice");
    await commitFiles(input, { a: "1" });
    const { worker, datums } = await lease("twice");
    const [datum] = datums;
    if (!datum) throw new Error("no datum");
    const small = await contentOf("recorded");
    const outcomes = [
      { lease: datum.lease, ...done, outputs: [{ path: "o", ...small.id, bytes: small.bytes }] },
    ];
    const body = { pipeline: "twice", worker, outcomes };
    expect(await good("POST /runner/finish", { body })).toEqual({ lost: [] });
    expect(await good("POST /runner/finish", { body })).toEqual({ lost: [datum.lease] });
    expect(await keptBy("twice")).toEqual({ uploads: 1, contents: 1 });
    expect(await endOf(datum.job)).toMatchObject({ state: "success" });
  });

  test("can't settle a datum with outputs that are not what they say, and may try again", async () => {
    const input = await pipelineOf("honest");
    await commitFiles(input, { a: "1" });
    const { worker, datums } = await lease("honest");
    const [datum] = datums;
    if (!datum) throw new Error("no datum");
    const [right, wrong] = [await contentOf("right"), await contentOf("wrong")];
    const finish = (outputs: object[], more: object = {}) => ({
      body: { pipeline: "honest", worker, outcomes: [{ lease: datum.lease, ...done, outputs, ...more }] },
    });
    for (const [call, path] of [
      [finish([{ path: "o", ...right.id, bytes: wrong.bytes }]), "outcomes[0].outputs[0]"],
      [
        finish([{ path: "o", ...right.id, size: LARGE_BYTES, bytes: right.bytes }]),
        "outcomes[0].outputs[0].bytes",
      ],
      [finish([], { upload: "master.other.01ARZ3NDEKTSV4RRFFQ69G5FAV" }), "outcomes[0].upload"],
      [finish([], { state: "odd" }), "outcomes[0].state"],
    ] as const)
      expect(await failed("POST /runner/finish", call)).toMatchObject({ status: 400, issues: [{ path }] });
    const good200 = finish([{ path: "o", ...right.id, bytes: right.bytes }]);
    expect(await good("POST /runner/finish", good200)).toEqual({ lost: [] });
    expect(await endOf(datum.job)).toMatchObject({ state: "success" });
  });

  test("merges what several datums wrote to one path, and sends the content along where it is small", async () => {
    const input = await pipelineOf("merge");
    await commitFiles(input, { a: "1", b: "2" });
    const { worker, datums } = await lease("merge");
    const texts = await Promise.all(["left ", "right"].map(contentOf));
    const outcomes = datums.map(({ lease, inputs }) => {
      const part = texts[inputs[0]?.path === "a" ? 0 : 1];
      return { lease, ...done, outputs: [{ path: "all", ...part?.id, bytes: part?.bytes }] };
    });
    await good("POST /runner/finish", { body: { pipeline: "merge", worker, outcomes } });
    const { tasks } = await lease("merge");
    expect(tasks).toEqual([
      {
        kind: "merge",
        lease: expect.any(String),
        job: datums[0]?.job,
        parts: texts.map(({ id }) => id),
      },
    ]);
    const whole = await contentOf("left right");
    const finish = (more: object) => ({
      body: {
        pipeline: "merge",
        worker,
        outcomes: [{ lease: tasks[0]?.lease, state: "merged", content: whole.id, millis: 1, ...more }],
      },
    });
    for (const [call, path] of [
      [finish({ bytes: texts[0]?.bytes }), "outcomes[0]"],
      [finish({ upload: "master.other.01ARZ3NDEKTSV4RRFFQ69G5FAV" }), "outcomes[0].upload"],
    ] as const)
      expect(await failed("POST /runner/finish", call)).toMatchObject({ status: 400, issues: [{ path }] });
    expect(await good("POST /runner/finish", finish({ bytes: whole.bytes }))).toEqual({ lost: [] });
    expect(await endOf(datums[0]?.job ?? "")).toMatchObject({ state: "success" });
    const output = { repo: "merge", branch: "master" };
    const content = await api(`GET ${contentPath(output, whole.id)}`);
    expect(new TextDecoder().decode(await content.arrayBuffer())).toBe("left right");
  });

  test("pushes a job's output to the external store before the job is successful", async () => {
    const input = { repo: "push-in", branch: "master" };
    await makeBranch(input);
    await good("POST /pipelines", {
      body: {
        pipeline: { name: "push" },
        transform: { image: "busybox", cmd: ["true"] },
        inputs: [{ repo: { name: input.repo }, glob: "/*" }],
        egress: { URL: "s3://bucket/dir", secret: "key" },
      },
    });
    await beat("node-1");
    await commitFiles(input, { a: "1" });
    const { worker, datums } = await lease("push");
    const small = await contentOf("small");
    const outputs = [{ path: "o", ...small.id, bytes: small.bytes }];
    const outcomes = datums.map(({ lease }) => ({ lease, ...done, outputs }));
    await good("POST /runner/finish", { body: { pipeline: "push", worker, outcomes } });
    const { tasks } = await lease("push");
    const job = datums[0]?.job ?? "";
    expect(await good(`GET /jobs/${job}`)).toMatchObject({
      state: "egressing",
      outputCommit: expect.any(String),
    });
    expect(tasks).toEqual([
      {
        kind: "egress",
        lease: expect.any(String),
        job,
        egress: { URL: "s3://bucket/dir", secret: "key" },
        entries: [{ path: "o", content: small.id }],
      },
    ]);
    const pushed = [{ lease: tasks[0]?.lease, state: "pushed", millis: 1 }];
    await good("POST /runner/finish", { body: { pipeline: "push", worker, outcomes: pushed } });
    expect(await endOf(job)).toMatchObject({ state: "success" });
  });

  test("may say what only a later version of the wire has, and hears which one this is", async () => {
    const asked = { pipeline: "not-there", node: "n", worker: "w", max: 1, extra: { later: true } };
    expect(await failed("POST /runner/lease", { body: asked })).toMatchObject({ code: "NoSuchPipeline" });
    const answer = await api("POST /runner/heartbeat", {
      body: { node: "later", executor: "process", capacity: 1, extra: 1 },
    });
    expect(answer.status).toBe(200);
    expect(answer.headers.get(WIRE_HEADER)).toBe(String(WIRE_VERSION));
  });

  test.each([
    "1",
    "2",
    "",
    "x",
  ])("of version %j of the wire is refused in words, before anything is done", async (said) => {
    const body = { node: "too-old", executor: "process", capacity: 1 };
    expect(await failed("POST /runner/heartbeat", { body, headers: { [WIRE_HEADER]: said } })).toMatchObject({
      ...{ status: 400, code: "InvalidRequest" },
      message: expect.stringMatching(/serves version 3 and later: update the runner, or the command line/),
    });
    const { nodes } = await good("GET /nodes");
    expect(nodes.map(({ name }: { name: string }) => name)).not.toContain("too-old");
  });

  test.each([
    String(WIRE_VERSION),
    String(WIRE_VERSION + 1),
  ])("of version %s of the wire is served", async (said) => {
    const body = { node: "new", executor: "process", capacity: 1 };
    const answer = await api("POST /runner/heartbeat", { body, headers: { [WIRE_HEADER]: said } });
    expect(answer.status).toBe(200);
  });

  test("that goes away while it waits leaves its slot to another one", async () => {
    await pipelineOf("leave");
    const asked = { pipeline: "leave", node: "node-1", max: 1 };
    const waiting = await api("POST /runner/lease", { body: { ...asked, worker: "gone" } });
    const other = { body: { ...asked, worker: "other" } };
    expect(await good("POST /runner/lease", other)).toMatchObject({ slot: false });
    await waiting.body?.cancel();
    await expect.poll(() => slotsOf("leave")).toEqual([]);
  });

  test("of a pipeline that is not there is told so", async () => {
    const asked = { pipeline: "none", node: "n", worker: "w", max: 1 };
    expect(await failed("POST /runner/lease", { body: asked })).toMatchObject({
      status: 404,
      code: "NoSuchPipeline",
    });
    const outcomes = [{ lease: "l", state: "returned" }];
    expect(
      await failed("POST /runner/finish", { body: { pipeline: "none", worker: "w", outcomes } }),
    ).toMatchObject({
      status: 404,
    });
  });

  test("asks within bounds", async () => {
    const asked = { pipeline: "p", node: "n", worker: "w", max: 1 };
    for (const [more, path] of [
      [{ max: 65 }, "max"],
      [{ worker: "" }, "worker"],
      [{ pipeline: "a.b" }, "pipeline"],
    ] as const)
      expect(await failed("POST /runner/lease", { body: { ...asked, ...more } })).toMatchObject({
        status: 400,
        issues: [{ path }],
      });
  });
});

import { afterAll, beforeAll, expect, test } from "vitest";
import { Pipeline } from "../../../protocol/pipelines.ts";
import { Control } from "../../support/control.ts";
import { type DevServer, startDevServer } from "../../support/dev-server.ts";
import { expectedEtag } from "../../support/expected-etag.ts";
import type { Answer } from "../../support/http.ts";
import { seededBytes } from "../../support/random.ts";
import { S3 } from "../../support/s3.ts";
import { REST } from "../../support/suite.ts";

let server: DevServer;
let s3: S3;
beforeAll(async () => {
  server = await startDevServer();
  s3 = new S3(server);
});
afterAll(() => server?.stop());

test("fifty parallel PUTs of distinct keys are fifty commits, and none is lost", REST, async () => {
  await s3.createBucket("master.distinct");
  // Every fifth is longer than a chunk, so that inline and blob-backed PUTs meet.
  const bodies = Array.from({ length: 50 }, (_, n) => seededBytes(n % 5 === 0 ? 5_000_000 + n : 1000 + n, n));
  const puts = await Promise.all(bodies.map((body, n) => s3.put("master.distinct", `k${n}`, body)));

  expect(puts.map(({ etag }) => etag)).toEqual(bodies.map(expectedEtag));
  expect(new Set(puts.map(({ version }) => version)).size).toBe(50);
  expect(await s3.keys("master.distinct")).toHaveLength(50);
  for (const [n, body] of bodies.entries()) {
    expect((await s3.get("master.distinct", `k${n}`))?.equals(body)).toBe(true);
  }
});

test("two parallel PUTs of one key leave one of them, whole, and both as versions", REST, async () => {
  await s3.createBucket("master.contended");
  for (let round = 0; round < 10; round++) {
    const key = `k${round}`;
    const bodies = [
      seededBytes(4_500_000, round),
      seededBytes(round % 2 === 0 ? 4_500_000 : 100, -1 - round),
    ];
    const puts = await Promise.all(bodies.map((body) => s3.put("master.contended", key, body)));
    const left = await s3.get("master.contended", key);
    expect(bodies.some((body) => left?.equals(body))).toBe(true);
    for (const [n, { version }] of puts.entries()) {
      const old = await s3.ask("GET", `/master.contended/${key}?versionId=${version}`);
      expect(old.body.equals(bodies[n] ?? Buffer.alloc(0))).toBe(true);
    }
  }
});

test("of twenty parallel creations of one bucket one succeeds and nineteen hear BucketAlreadyOwnedByYou", async () => {
  const answers = await Promise.all(Array.from({ length: 20 }, () => s3.ask("PUT", "/master.raced")));
  const codes = answers.map(({ status, text }) =>
    status === 200 ? "made" : /<Code>(\w+)<\/Code>/.exec(text)?.[1],
  );
  expect(codes.sort()).toEqual([...Array(19).fill("BucketAlreadyOwnedByYou"), "made"]);
  expect((await s3.buckets()).filter((name) => name === "master.raced")).toHaveLength(1);
});

test("deletions and writes of one key that meet leave it either there, whole, or gone", REST, async () => {
  await s3.createBucket("master.met");
  const body = seededBytes(2_000_000, 7);
  for (let round = 0; round < 10; round++) {
    await Promise.all([
      s3.put("master.met", "k", body),
      s3.delete("master.met", "k"),
      s3.put("master.met", "k", body),
    ]);
    const left = await s3.get("master.met", "k");
    expect(left === undefined || left.equals(body)).toBe(true);
  }
});

test("creations, deletions and writes of one bucket that meet are each done or refused, and the listing tells what is left", async () => {
  const bodyOf = (n: number): Buffer => seededBytes(n % 2 === 0 ? 10 : 9000, n);
  for (let round = 0; round < 6; round++) {
    const bucket = `master.torn-${round}`;
    const acknowledged: string[] = [];
    let deletions = 0;
    const ask = async (n: number): Promise<Answer> => {
      if (n % 3 === 1) return s3.ask("PUT", `/${bucket}`);
      const key = `k${n}`;
      const answer = await (n % 3 === 0
        ? s3.ask("DELETE", `/${bucket}`)
        : s3.ask("PUT", `/${bucket}/${key}`, bodyOf(n)));
      if (answer.status === 204) deletions++;
      if (answer.status === 200) acknowledged.push(key);
      return answer;
    };
    const answers = await Promise.all(Array.from({ length: 18 }, (_, n) => ask(n)));
    expect([200, 204, 404, 409]).toEqual(
      expect.arrayContaining([...new Set(answers.map(({ status }) => status))]),
    );
    const { status } = await s3.ask("HEAD", `/${bucket}`);
    expect((await s3.buckets()).includes(bucket)).toBe(status === 200);
    if (status === 404) {
      for (let n = 2; n < 18; n += 3) expect((await s3.ask("GET", `/${bucket}/k${n}`)).status).toBe(404);
      // No file of the bucket that is gone comes back with a new one.
      await s3.createBucket(bucket);
      expect(await s3.keys(bucket)).toEqual([]);
      continue;
    }
    // A deletion takes files along, and only a deletion does.
    const listed = await s3.keys(bucket);
    expect(acknowledged).toEqual(expect.arrayContaining(listed));
    if (deletions === 0) expect(listed.toSorted()).toEqual(acknowledged.toSorted());
    for (let n = 2; n < 18; n += 3) {
      const bytes = await s3.get(bucket, `k${n}`);
      if (listed.includes(`k${n}`)) expect(bytes?.equals(bodyOf(n))).toBe(true);
      else expect(bytes).toBeUndefined();
    }
  }
});

test("of parallel creations of one pipeline with specs of their own one succeeds, also while others delete it", async () => {
  const control = new Control(server);
  await s3.createBucket("master.wanted");
  const create = (n: number): Promise<Answer> =>
    control.ask("POST", "/pipelines", {
      pipeline: { name: "wanted-by-many" },
      transform: { image: "busybox", cmd: ["true"], env: { NUMBER: String(n) } },
      inputs: [{ repo: { name: "wanted" }, glob: "/*" }],
    });
  const remove = (): Promise<Answer> => control.ask("DELETE", "/pipelines/wanted-by-many");
  const first = await Promise.all(Array.from({ length: 10 }, (_, n) => create(n)));
  expect(first.map(({ status }) => status).sort()).toEqual([201, ...Array(9).fill(409)]);
  const winner = first.findIndex(({ status }) => status === 201);
  const { spec } = await control.call("GET", "/pipelines/wanted-by-many", { answers: Pipeline });
  expect(spec.transform.env).toEqual({ NUMBER: String(winner) });

  const mixed = await Promise.all(Array.from({ length: 12 }, (_, n) => (n % 2 === 0 ? remove() : create(n))));
  for (const { status, text } of mixed) expect([201, 204, 404, 409], text).toContain(status);
  await remove();
  expect(await control.pipelineNames()).toEqual([]);
  expect((await create(0)).status).toBe(201);
});

import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { Control } from "../../support/control.ts";
import { type DevServer, startDevServer } from "../../support/dev-server.ts";
import type { Answer } from "../../support/http.ts";
import { ROOT_KEY } from "../../support/keys.ts";
import { S3 } from "../../support/s3.ts";
import { everythingIn, refusedJson } from "./refusals.ts";

let server: DevServer;
let s3: S3;
let control: Control;
let before: object;
beforeAll(async () => {
  server = await startDevServer();
  s3 = new S3(server);
  control = new Control(server);
  await s3.createBucket("master.data");
  await s3.put("master.data", "file", "content");
  await s3.put("master.data", "dir/file", "content");
  before = await everythingIn(server);
});
afterAll(async () => {
  // Whatever was refused left nothing behind.
  expect(await everythingIn(server)).toEqual(before);
  await server.stop();
});

describe("a pipeline spec that cannot be right is refused with the path of each problem", () => {
  const good = {
    pipeline: { name: "good" },
    transform: { image: "busybox", cmd: ["true"] },
    inputs: [{ repo: { name: "data" }, glob: "/*" }],
  };
  const input = good.inputs[0] as (typeof good.inputs)[0];
  const rows: { what: string; spec: unknown; path: string; says?: RegExp }[] = [
    { what: "an unknown field", spec: { ...good, color: "red" }, path: "color" },
    {
      what: "an unknown field inside",
      spec: { ...good, transform: { ...good.transform, command: [] } },
      path: "transform.command",
    },
    { what: "no pipeline", spec: { ...good, pipeline: undefined }, path: "pipeline" },
    { what: "no name", spec: { ...good, pipeline: {} }, path: "pipeline.name" },
    { what: "a bad name", spec: { ...good, pipeline: { name: "a.b" } }, path: "pipeline.name" },
    { what: "no transform", spec: { ...good, transform: undefined }, path: "transform" },
    { what: "no image", spec: { ...good, transform: { cmd: ["true"] } }, path: "transform.image" },
    { what: "no cmd", spec: { ...good, transform: { image: "busybox" } }, path: "transform.cmd" },
    {
      what: "an empty cmd",
      spec: { ...good, transform: { image: "busybox", cmd: [] } },
      path: "transform.cmd",
    },
    {
      what: "an env that is no map",
      spec: { ...good, transform: { ...good.transform, env: ["A=1"] } },
      path: "transform.env",
    },
    { what: "an input without repo", spec: { ...good, inputs: [{ glob: "/*" }] }, path: "inputs[0].repo" },
    {
      what: "an input without glob",
      spec: { ...good, inputs: [{ repo: { name: "data" } }] },
      path: "inputs[0].glob",
    },
    {
      what: "a bad glob",
      spec: { ...good, inputs: [input, { ...input, name: "b", glob: "/[a" }] },
      path: "inputs[1].glob",
    },
    {
      what: "two inputs of one name",
      spec: {
        ...good,
        inputs: [
          { ...input, name: "data" },
          { ...input, name: "data" },
        ],
      },
      path: "inputs[1].name",
      says: /data/,
    },
    {
      what: "an input called out",
      spec: { ...good, inputs: [{ ...input, name: "out" }] },
      path: "inputs[0].name",
      says: /out/,
    },
    {
      what: "a repo that is not there",
      spec: { ...good, inputs: [{ repo: { name: "nowhere" }, glob: "/" }] },
      path: "inputs[0].repo.name",
      says: /nowhere/,
    },
    {
      what: "a pipeline that reads its own output",
      spec: { ...good, pipeline: { name: "data" } },
      path: "inputs[0]",
    },
    {
      what: "zero workers",
      spec: { ...good, parallelism_spec: { strategy: "CONSTANT", constant: 0 } },
      path: "parallelism_spec.constant",
    },
    {
      what: "an unknown strategy",
      spec: { ...good, parallelism_spec: { strategy: "MANY" } },
      path: "parallelism_spec.strategy",
    },
    {
      what: "an egress with the credentials in its URL",
      spec: { ...good, egress: { URL: "s3://key:secret@bucket/dir" } },
      path: "egress.URL",
      says: /'secret'/,
    },
    {
      what: "an egress to an address of its own with the runner's credentials",
      spec: { ...good, egress: { URL: "s3://bucket/dir", endpoint: "http://169.254.169.254" } },
      path: "egress.endpoint",
      says: /'secret'/,
    },
    {
      what: "an egress to a host that is not the vendor's with the runner's credentials",
      spec: { ...good, egress: { URL: "wasb://box@store.example.org/dir" } },
      path: "egress.URL",
      says: /'store\.example\.org'.*'secret'/,
    },
    {
      what: "an egress that goes up",
      spec: { ...good, egress: { URL: "s3://bucket/mine/../yours" } },
      path: "egress.URL",
      says: /'\.\.'/,
    },
    {
      what: "an egress to an unknown kind of store",
      spec: { ...good, egress: { URL: "ftp://bucket/dir" } },
      path: "egress.URL",
      says: /s3, gs, wasb or as/,
    },
    {
      what: "a lazy input that is neither true nor false",
      spec: { ...good, inputs: [{ ...input, lazy: "yes" }] },
      path: "inputs[0].lazy",
    },
    {
      what: "a `from` with an id that is none",
      spec: { ...good, inputs: [{ ...input, from: { repo: { name: "data" }, ID: "1" } }] },
      path: "inputs[0].from.ID",
      says: /sluice commit list/,
    },
    {
      what: "a `from` of another repo",
      spec: {
        ...good,
        inputs: [{ ...input, from: { repo: { name: "other" }, ID: "01ARZ3NDEKTSV4RRFFQ69G5FAV" } }],
      },
      path: "inputs[0].from.repo.name",
    },
    {
      what: "a `from` that the branch does not have",
      spec: {
        ...good,
        inputs: [{ ...input, from: { repo: { name: "data" }, ID: "01ARZ3NDEKTSV4RRFFQ69G5FAV" } }],
      },
      path: "inputs[0].from.ID",
      says: /01ARZ3NDEKTSV4RRFFQ69G5FAV/,
    },
    {
      what: "a secret without a place",
      spec: { ...good, transform: { ...good.transform, secrets: [{ name: "db" }] } },
      path: "transform.secrets[0].mountPath",
    },
    {
      what: "a pull secret with a name that is none",
      spec: { ...good, transform: { ...good.transform, imagePullSecrets: ["Not A Name"] } },
      path: "transform.imagePullSecrets[0]",
    },
  ];

  test.each(rows)("$what", async ({ spec, path, says }) => {
    const answer = await control.ask("POST", "/pipelines", spec);
    const { error } = refusedJson(answer);
    const issue = error.issues?.find((one) => one.path === path || one.path.startsWith(`${path}.`));
    expect(issue, answer.text).toBeDefined();
    expect(issue?.message).toMatch(says ?? /\w/);
  });

  test("several problems are told at once", async () => {
    const answer = await control.ask("POST", "/pipelines", {
      ...good,
      pipeline: {},
      transform: { image: "busybox" },
      color: 1,
    });
    const paths = refusedJson(answer).error.issues?.map(({ path }) => path);
    expect(paths).toEqual(expect.arrayContaining(["pipeline.name", "transform.cmd", "color"]));
  });
});

describe("control API requests that make no sense are refused", () => {
  const raw = (method: string, target: string, body: string): Promise<Answer> =>
    s3.ask(method, `/api/v1${target}`, body);

  test("a body that is no JSON", async () => {
    refusedJson(await raw("POST", "/pipelines", "{"));
    refusedJson(await raw("POST", "/pipelines", ""));
    refusedJson(await raw("POST", "/runner/lease", "[]"));
  });

  test.each([
    ["GET", "/nothing", 404],
    ["GET", "/pipelines/nobody", 404],
    ["DELETE", "/pipelines/nobody", 404],
    ["GET", "/jobs/01BX5ZZKBKACTAV9WEVGEMMVRZ", 404],
    ["GET", "/jobs?limit=many", 400],
    ["GET", "/jobs?state=happy", 400],
    ["GET", "/pipelines/a.b", 400],
    ["GET", "/keys?limit=0", 400],
    ["DELETE", "/keys/SLUICE00000000000000", 404],
    ["DELETE", `/keys/${ROOT_KEY.accessKeyId}`, 400],
  ] as const)("%s %s: %d", async (method, path, status) => {
    const answer = await control.ask(method, path);
    refusedJson(answer);
    expect(answer.status).toBe(status);
  });

  test("a commit of more than 10,000 operations says how many it may have", async () => {
    const upload = await control.openUpload("data");
    const operations = Array.from({ length: 10_001 }, (_, n) => ({ delete: `f${n}` }));
    const answer = await control.ask("POST", "/repos/data/branches/master/commits", { upload, operations });
    expect(refusedJson(answer).error.issues?.[0]).toMatchObject({ path: "operations" });
    expect(answer.text).toMatch(/10,?000/);
  });

  test("a commit that names bytes that are not there, a bad path, or an upload that is not open", async () => {
    const upload = await control.openUpload("data");
    const content = { digest: "0".repeat(64), size: 5 };
    const commit = (operations: readonly unknown[], id = upload): Promise<Answer> =>
      control.ask("POST", "/repos/data/branches/master/commits", { upload: id, operations });
    expect(refusedJson(await commit([{ put: "named/well", ...content }])).error.message).toContain(
      "named/well",
    );
    expect(refusedJson(await commit([{ delete: "a//b" }])).error.message).toMatch(/a\/\/b|\/\//);
    refusedJson(await commit([{ put: "x", ...content, color: 1 }]));
    refusedJson(await commit([{ delete: "file" }], "master.data.01BX5ZZKBKACTAV9WEVGEMMVRZ"));
    refusedJson(await commit([{ delete: "file" }], "nonsense"));
    const elsewhere = await control.ask("POST", "/uploads", { repo: "nowhere", branch: "master" });
    expect(refusedJson(elsewhere).error.message).toContain("nowhere");
  });

  test.each([
    ["no level", {}, "level"],
    ["a level that there is not", { level: "owner" }, "level"],
    ["no repo in its list of repos", { level: "read", repos: [] }, "repos"],
    ["a repo that can't be one", { level: "read", repos: ["a.b"] }, "repos[0]"],
    ["a description too long", { level: "read", description: "x".repeat(201) }, "description"],
    ["a secret of its own", { level: "read", secret: "x" }, "secret"],
  ])("an access key with %s", async (_, wish, path) => {
    const answer = await control.ask("POST", "/keys", wish);
    expect(refusedJson(answer).error.issues).toMatchObject([{ path, message: expect.stringMatching(/\w/) }]);
  });

  test("content that is not what it is called", async () => {
    const upload = await control.openUpload("data");
    const target = `/uploads/${upload}/contents?digest=${"0".repeat(64)}&size=4`;
    refusedJson(await raw("PUT", target, "four"));
    const bytes = Buffer.from("four").toString("base64");
    const contents = [{ digest: "0".repeat(64), size: 4, bytes }];
    refusedJson(await control.ask("POST", `/uploads/${upload}/contents`, { contents }));
  });
});

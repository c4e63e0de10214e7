import { beforeAll, describe, expect, test } from "vitest";
import { KeyLevel } from "../../../protocol/keys.ts";
import type { Job } from "../../../protocol/pipelines.ts";
import { ANY_KEY } from "../../../worker/api/request/admit.ts";
import { ROUTES } from "../../../worker/api/routes.ts";
import type { KeyScope, Permission, ScopeLevel } from "../../../worker/core/permissions.ts";
import { api, commitFiles, failed, good, makeBranch, testContext } from "./support.ts";

/** What every path parameter is in these tests: all about the repo `theirs`. */
const PARAMS: Readonly<Record<string, string>> = {
  pipeline: "theirs",
  version: "1",
  job: "01JOBOFTHEIRS",
  datum: "0123456789ab",
  repo: "theirs",
  branch: "master",
  commit: "head",
  content: `${"0".repeat(64)}-1`,
  upload: "master.theirs.01ARZ3NDEKTSV4RRFFQ69G5FAV",
  session: "01ARZ3NDEKTSV4RRFFQ69G5FAV",
  tag: "v1",
  key: "SLUICE00000000000000",
  node: "edge-1",
  export: "01ARZ3NDEKTSV4RRFFQ69G5FAV",
  import: "01ARZ3NDEKTSV4RRFFQ69G5FAV",
};

/** Bodies where they say which repo a request is about. */
const BODIES: Readonly<Record<string, object>> = {
  "POST /pipelines": pipelineSpec({ name: "theirs", input: "theirs-in" }),
  "POST /uploads": { repo: "theirs", branch: "master" },
  "PUT /repos/:repo/branches/:branch/tags/:tag": {},
};

/** They answer every key, each with what it may see. */
const FILTERED = [
  ...[
    "GET /pipelines",
    "GET /jobs",
    "GET /now",
    "GET /graph",
    "GET /repos",
    "GET /repos/sums",
    "GET /whoami",
  ],
  ...["GET /console/sessions", "POST /console/sessions", "DELETE /console/sessions/:session"],
];

const TARGETS = Object.entries(ROUTES).flatMap(([path, methods]) =>
  Object.keys(methods).map((method) => {
    const filled = path.replace(/:(\w+)/g, (_, name: string) => PARAMS[name] ?? `unknown-parameter-${name}`);
    return { route: `${method} ${path}`, target: `${method} ${filled}`, path, method };
  }),
);
const REFUSING = TARGETS.filter(({ route }) => !FILTERED.includes(route));

function pipelineSpec({ name, input }: { name: string; input: string }): object {
  return {
    pipeline: { name },
    transform: { image: "busybox", cmd: ["true"] },
    inputs: [{ repo: { name: input }, glob: "/*" }],
  };
}

const as = (level: ScopeLevel, repos: readonly string[] | null, more: Partial<KeyScope> = {}) => ({
  caller: { scope: { level, repos, ...more } as KeyScope },
});
const RUNS = { pipelines: true };

beforeAll(async () => {
  for (const repo of ["mine", "theirs-in"]) await makeBranch({ repo, branch: "master" });
  await good("POST /pipelines", { body: pipelineSpec({ name: "theirs", input: "theirs-in" }) });
  const job: Job = {
    id: PARAMS.job ?? "",
    pipeline: "theirs",
    version: 1,
    output: { repo: "theirs", branch: "master" },
    state: "success",
    reason: null,
    inputs: [],
    outputCommit: null,
    datums: { total: 0, processed: 0, skipped: 0, failed: 0 },
    createdAt: 1,
    startedAt: 1,
    finishedAt: 1,
  };
  const mine = { ...job, id: "01JOBOFMINE", pipeline: "mine" };
  await testContext().catalogue.jobs.record(
    [job, mine].map((each) => ({ job: each, version: 1 })),
    { uid: "u" },
  );
});

describe("a key for another repo", () => {
  const cases = KeyLevel.options.flatMap((level) =>
    REFUSING.map(({ route, target }) => [level, route, target]),
  );

  test.each(cases)("of level %s is refused: %s", async (level, route = "", target = "") => {
    const body = BODIES[route];
    const error = await failed(target, { ...as(level as KeyLevel, ["mine"]), ...(body && { body }) });
    expect(error).toMatchObject({ status: 403, code: "AccessDenied" });
    // No key of level runner has repos. One without a lease's grant is told so where a grant would do.
    const says =
      level === "runner" ? /grant of a lease|this needs / : /allows \w+ in the repo 'mine'; this needs /;
    expect(error.message).toMatch(says);
  });

  test("sees its own repos in the lists of everything, and nothing of the others", async () => {
    for (const level of KeyLevel.options.filter((each) => each !== "runner")) {
      const mine = as(level, ["mine", "not-there"]);
      const { repos } = await good("GET /repos", mine);
      expect(repos).toEqual([{ name: "mine", branches: ["master"] }]);
      expect(await good("GET /pipelines", mine)).toEqual({ pipelines: [] });
      for (const query of ["", "?state=success", "?limit=1"]) {
        const { jobs, next } = await good(`GET /jobs${query}`, mine);
        expect({ ids: jobs.map(({ id }: Job) => id), next }).toEqual({ ids: ["01JOBOFMINE"], next: null });
      }
    }
    const theirs = await good("GET /pipelines", as("read", ["theirs"]));
    expect(theirs.pipelines.map(({ name }: { name: string }) => name)).toEqual(["theirs"]);
  });

  test("is refused the jobs of a pipeline by its name", async () => {
    const error = await failed("GET /jobs?pipeline=theirs", as("admin", ["mine"]));
    expect(error).toMatchObject({ status: 403, code: "AccessDenied" });
    expect(error.message).toContain("'theirs'");
  });

  test("makes no pipeline that reads a repo that it may not read", async () => {
    const body = pipelineSpec({ name: "mine-out", input: "theirs-in" });
    const error = await failed("POST /pipelines", { body, ...as("admin", ["mine-out"], RUNS) });
    expect(error).toMatchObject({ status: 403, code: "AccessDenied" });
    expect(error.message).toContain("needs read in the repo 'theirs-in'");
    expect((await failed("GET /pipelines/mine-out")).status).toBe(404);
  });

  test("is not told which pipeline reads the output that it would delete", async () => {
    await good("POST /pipelines", { body: pipelineSpec({ name: "first", input: "mine" }) });
    await good("POST /pipelines", { body: pipelineSpec({ name: "hidden", input: "first" }) });
    const error = await failed("DELETE /pipelines/first", as("admin", ["first"]));
    expect(error).toMatchObject({ status: 409, code: "InUse" });
    expect(error.message).not.toContain("hidden");
  });

  test("is not told which pipelines read the branch that it would import", async () => {
    await makeBranch({ repo: "followed", branch: "master" });
    await good("POST /pipelines", { body: pipelineSpec({ name: "unseen", input: "followed" }) });
    await testContext().branch({ repo: "followed", branch: "master" }).lifecycle.destroy();
    const settings = { public: false, cors: null, writer: null };
    const body = { archive: "0".repeat(64), branch: { createdAt: 1, head: 0, settings } };
    const target = "POST /repos/followed/branches/master/imports";
    expect((await failed(target, { body })).message).toContain("'unseen'");
    const error = await failed(target, { body, ...as("admin", ["followed"]) });
    expect(error).toMatchObject({ status: 409, code: "InUse" });
    expect(error.message).toContain("start them again: 1 in other repos.");
  });
});

describe("a key for all repos", () => {
  /** The levels that give a permission. */
  const holders: Readonly<Record<Permission, readonly KeyLevel[]>> = {
    read: ["read", "write", "admin"],
    list: ["read", "write", "admin"],
    write: ["write", "admin"],
    admin: ["admin"],
    run: ["admin"],
    work: ["runner"],
  };

  test.each(TARGETS)("is let in by its level, and not below it: $route", async ({
    route,
    target,
    path,
    method,
  }) => {
    const needs = ROUTES[path]?.[method]?.needs ?? [];
    const has = (own: KeyLevel) =>
      needs === ANY_KEY || needs.every(({ permission }) => holders[permission].includes(own));
    for (const own of KeyLevel.options.filter((each) => !has(each))) {
      const body = BODIES[route];
      expect(await failed(target, { ...as(own, null), ...(body && { body }) })).toMatchObject({
        status: 403,
        code: "AccessDenied",
      });
    }
    // What is wrong with the request itself (here: a parameter that is not there) is told only to those who may ask.
    for (const enough of ["root", ...KeyLevel.options.filter(has)] as const) {
      const answer = await api(`${target}?unknown=1`, as(enough, null));
      expect(answer.status, enough).not.toBe(403);
    }
  });
});

describe("every key", () => {
  test("is told what it may do itself, and nobody who has none", async () => {
    for (const level of KeyLevel.options) {
      const repos = level === "runner" ? null : ["mine"];
      const said = await good("GET /whoami", as(level, repos, level === "admin" ? RUNS : {}));
      expect(said).toEqual({ id: expect.any(String), level, repos, pipelines: level === "admin" });
    }
    expect(await good("GET /whoami", as("root", null))).toMatchObject({ level: "root", pipelines: true });
    expect(await failed("GET /whoami", as("public", null))).toMatchObject({ status: 403 });
  });
});

describe("a key for a repo", () => {
  test("reads and writes it as its level says, through every step of an upload", async () => {
    await makeBranch({ repo: "own", branch: "master" });
    const scope = { level: "write", repos: ["own"] } as const;
    const commit = await commitFiles({ repo: "own", branch: "master" }, { a: "1" }, { scope });
    const files = `GET /repos/own/branches/master/commits/${commit}/files`;
    expect((await api(files, as("read", ["own"]))).status).toBe(200);
    const upload = await failed("POST /uploads", {
      body: { repo: "own", branch: "master" },
      ...as("read", ["own"]),
    });
    expect(upload).toMatchObject({ status: 403 });
    expect(upload.message).toContain("allows read in the repo 'own'; this needs write");
  });

  test("makes, shows and deletes a pipeline of that name", async () => {
    await makeBranch({ repo: "made-in", branch: "master" });
    const admin = as("admin", ["made", "made-in"], RUNS);
    await good("POST /pipelines", { body: pipelineSpec({ name: "made", input: "made-in" }), ...admin });
    expect(await good("GET /pipelines/made", as("read", ["made"]))).toMatchObject({ name: "made" });
    await good("DELETE /pipelines/made", admin);
  });
});

describe("a key for some repos", () => {
  const mine = ["runs", "runs-in"];
  const body = pipelineSpec({ name: "runs", input: "runs-in" });
  const CODE_RUNS = [
    "POST /pipelines",
    "POST /pipelines?dryRun=true",
    "POST /pipelines?update=true",
    "POST /pipelines/runs/start",
  ];

  beforeAll(async () => {
    for (const repo of ["runs-in", "runs-other"]) await makeBranch({ repo, branch: "master" });
    await good("POST /pipelines", { body });
  });

  test.each(CODE_RUNS)("needs a right of its own for what makes code run: %s", async (target) => {
    const call = target.endsWith("start") ? {} : { body };
    const error = await failed(target, { ...call, ...as("admin", mine) });
    expect(error).toMatchObject({ status: 403, code: "AccessDenied" });
    expect(error.message).toContain("needs the right to run pipelines");
  });

  test("needs that right, and to read the inputs, to retry a job", async () => {
    const job: Job = {
      ...{ id: "01JOBOFRUNS", pipeline: "runs", state: "failure", reason: null, inputs: [] },
      ...{ version: 1, output: { repo: "runs", branch: "master" } },
      ...{ outputCommit: null, datums: { total: 0, processed: 0, skipped: 0, failed: 0 } },
      ...{ createdAt: 1, startedAt: 1, finishedAt: 1 },
    };
    await testContext().catalogue.jobs.record([{ job, version: 1 }], { uid: "u" });
    const target = "POST /jobs/01JOBOFRUNS/retry";
    for (const [scope, text] of [
      [as("admin", mine), "needs the right to run pipelines"],
      [as("write", mine, RUNS), "needs admin"],
      [as("admin", ["runs"], RUNS), "needs read in the repo 'runs-in'"],
      [as("admin", ["runs-in"], RUNS), "needs admin in the repo 'runs'"],
    ] as const) {
      const error = await failed(target, scope);
      expect(error).toMatchObject({ status: 403, code: "AccessDenied" });
      expect(error.message).toContain(text);
    }
    expect(await failed(target, as("admin", mine, RUNS))).toMatchObject({ status: 404, code: "NoSuchJob" });
  });

  test("with that right creates, updates, stops and starts a pipeline of its repos", async () => {
    const runner = as("admin", ["own-out", "runs-in"], RUNS);
    const own = pipelineSpec({ name: "own-out", input: "runs-in" });
    await good("POST /pipelines", { body: own, ...runner });
    await good("POST /pipelines?update=true", { body: { ...own, datumTries: 5 }, ...runner });
    await good("POST /pipelines/own-out/stop", runner);
    await good("POST /pipelines/own-out/start", runner);
  });

  test("without it still stops and deletes one", async () => {
    const own = pipelineSpec({ name: "stopped-out", input: "runs-in" });
    await good("POST /pipelines", { body: own });
    await good("POST /pipelines/stopped-out/stop", as("admin", ["stopped-out"]));
    await good("DELETE /pipelines/stopped-out", as("admin", ["stopped-out"]));
  });

  test.each([
    ["the repo of the pipeline", ["runs-in"], "needs admin in the repo 'runs'"],
    ["one of its inputs", ["runs"], "needs read in the repo 'runs-in'"],
  ])("runs no code if it is not for %s", async (_, repos, text) => {
    for (const target of CODE_RUNS) {
      const call = target.endsWith("start") ? {} : { body };
      const error = await failed(target, { ...call, ...as("admin", repos, RUNS) });
      expect(error).toMatchObject({ status: 403, code: "AccessDenied" });
      expect(error.message).toContain(text);
    }
  });
});

describe("the variables of a pipeline's command", () => {
  const env = { DATABASE_URL: "postgres://me:hush@db" };
  const VIEWS = ["GET /pipelines/veiled", "POST /pipelines/veiled/stop"];

  beforeAll(async () => {
    await makeBranch({ repo: "veiled-in", branch: "master" });
    const spec = pipelineSpec({ name: "veiled", input: "veiled-in" });
    const transform = { image: "busybox", cmd: ["true"], env };
    await good("POST /pipelines", { body: { ...spec, transform } });
  });

  test.each(VIEWS)("are shown only to keys that may read its inputs: %s", async (target) => {
    const veiled = await good(target, as("admin", ["veiled"]));
    expect(JSON.stringify(veiled)).not.toContain("hush");
    expect(veiled.spec.transform).toEqual({ image: "busybox", cmd: ["true"] });
    expect(veiled.hidden).toEqual(["transform.env"]);
    for (const repos of [["veiled", "veiled-in"], null]) {
      const whole = await good(target, as("admin", repos));
      expect(whole.spec.transform.env).toEqual(env);
      expect(whole.hidden).toBeUndefined();
    }
  });
});

describe("a pipeline", () => {
  test("belongs to the key that created or updated it last", async () => {
    await makeBranch({ repo: "whose-in", branch: "master" });
    const body = pipelineSpec({ name: "whose", input: "whose-in" });
    const scoped = as("admin", ["whose", "whose-in"], RUNS);
    const made = await good("POST /pipelines", { body });
    expect(made.limited).toBe(false);
    expect((await good("POST /pipelines?update=true", { body, ...scoped })).limited).toBe(true);
    expect((await good("GET /pipelines/whose")).limited).toBe(true);
    expect((await good("POST /pipelines?update=true", { body })).limited).toBe(false);
    await good("DELETE /pipelines/whose");
    expect((await good("POST /pipelines", { body, ...scoped })).limited).toBe(true);
  });
});

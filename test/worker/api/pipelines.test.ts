import { env } from "cloudflare:test";
import { afterEach, describe, expect, test, vi } from "vitest";
import { commitFiles, failed, good, makeBranch, paths } from "./support.ts";

interface Wish {
  readonly name: string;
  readonly input?: string;
  readonly outputBranch?: string;
}

function spec({ name, input, outputBranch }: Wish): Record<string, unknown> {
  return {
    pipeline: { name },
    transform: { image: "busybox", cmd: ["true"] },
    ...(input !== undefined && { inputs: [{ repo: { name: input }, glob: "/*" }] }),
    ...(outputBranch !== undefined && { outputBranch }),
  };
}

afterEach(() => {
  vi.restoreAllMocks();
});

describe("a pipeline", () => {
  test("is made, shown, listed and deleted with its output", async () => {
    await makeBranch({ repo: "whole-in", branch: "master" });
    const made = await good("POST /pipelines", { body: spec({ name: "whole", input: "whole-in" }) });
    expect(made).toMatchObject({
      name: "whole",
      state: "active",
      outputRepo: "whole",
      outputBranch: "master",
      spec: { parallelism_spec: { strategy: "COEFFICIENT", coefficient: 1 } },
    });
    expect(await good("GET /pipelines/whole")).toEqual(made);
    const { pipelines } = await good("GET /pipelines");
    expect(pipelines).toContainEqual({
      name: "whole",
      state: "active",
      createdAt: made.createdAt,
      inputs: ["master.whole-in"],
      output: "master.whole",
    });
    await good("DELETE /pipelines/whole");
    expect(await failed("GET /pipelines/whole")).toMatchObject({ status: 404, code: "NoSuchPipeline" });
    expect(await failed("GET /repos/whole/branches")).toMatchObject({ status: 404 });
  });

  test("is made where its first input lives, and so are its branches", async () => {
    await good("POST /repos/there-in/branches", { body: { name: "master", region: "sa-east-1" } });
    await makeBranch({ repo: "elsewhere-in", branch: "master" });
    const made = vi.spyOn(Object.getPrototypeOf(env.BRANCH), "getByName");
    const { inputs, ...rest } = spec({ name: "there", input: "there-in" });
    const second = { repo: { name: "elsewhere-in" }, glob: "/*" };
    const body = { ...rest, inputs: [...(inputs as unknown[]), second], onDatumFailure: "skip" };
    await good("POST /pipelines", { body });
    for (const name of ["there", "master.there", "errors.there"]) {
      expect(made).toHaveBeenCalledWith(name, { locationHint: "sam" });
    }
    const { branches } = await good("GET /repos/there/branches");
    const place = { region: "sa-east-1", hint: "sam" };
    expect(branches).toMatchObject([
      { name: "errors", place },
      { name: "master", place },
    ]);
  });

  test("leaves its output where that is to be kept", async () => {
    await makeBranch({ repo: "keep-in", branch: "master" });
    await good("POST /pipelines", { body: spec({ name: "keep", input: "keep-in", outputBranch: "out" }) });
    await good("DELETE /pipelines/keep?keepOutput=true");
    const { branches } = await good("GET /repos/keep/branches");
    expect(branches).toMatchObject([{ name: "out" }]);
  });

  test("that is not there is 404, to show and to delete", async () => {
    for (const target of ["GET /pipelines/none", "DELETE /pipelines/none"])
      expect(await failed(target)).toMatchObject({ status: 404, code: "NoSuchPipeline" });
  });

  test("has a name of its own", async () => {
    await makeBranch({ repo: "twice-in", branch: "master" });
    const body = spec({ name: "twice", input: "twice-in" });
    await good("POST /pipelines", { body });
    const error = await failed("POST /pipelines", { body });
    expect(error).toMatchObject({ status: 409, code: "AlreadyExists" });
    expect(error.message).toContain("pipeline.name");
  });

  test("does not take over a branch that is there", async () => {
    await makeBranch({ repo: "over-in", branch: "master" });
    await makeBranch({ repo: "over", branch: "master" });
    const error = await failed("POST /pipelines", { body: spec({ name: "over", input: "over-in" }) });
    expect(error).toMatchObject({ status: 409, code: "AlreadyExists" });
    expect(error.message).toContain("outputBranch");
    expect(await failed("GET /pipelines/over")).toMatchObject({ status: 404 });
  });

  test("is not deleted with its output while another one reads that", async () => {
    await makeBranch({ repo: "chain-in", branch: "master" });
    await good("POST /pipelines", { body: spec({ name: "chain-1", input: "chain-in" }) });
    await good("POST /pipelines", { body: spec({ name: "chain-2", input: "chain-1" }) });
    const error = await failed("DELETE /pipelines/chain-1");
    expect(error).toMatchObject({ status: 409, code: "InUse" });
    expect(error.message).toContain("chain-2");
    await good("DELETE /pipelines/chain-2");
    await good("DELETE /pipelines/chain-1");
  });

  test("can't read what is made from its own output", async () => {
    await makeBranch({ repo: "circle", branch: "first" });
    await good("POST /pipelines", {
      body: { ...spec({ name: "circle-1" }), inputs: [circle("circle", "first")] },
    });
    await good("POST /pipelines", {
      body: { ...spec({ name: "circle-2" }), inputs: [circle("circle-1", "master")] },
    });
    const body = {
      ...spec({ name: "circle", outputBranch: "first" }),
      inputs: [circle("circle-2", "master"), { ...circle("circle", "first"), name: "own" }],
    };
    const error = await failed("POST /pipelines", { body });
    expect(error).toMatchObject({ status: 400, code: "InvalidSpec" });
    expect(paths(error)).toEqual(["inputs[0].repo.name", "inputs[1].repo.name", "outputBranch"]);
  });
});

function circle(repo: string, branch: string): Record<string, unknown> {
  return { repo: { name: repo }, branch, glob: "/*" };
}

describe("a pipeline specification", () => {
  test("is refused with every problem that it has, each at its path", async () => {
    const error = await failed("POST /pipelines", {
      body: {
        pipeline: { name: "bad.name" },
        transform: { cmd: [], env: { "1X": "y" }, colour: "red" },
        parallelism_spec: { strategy: "SOME" },
        inputs: [{ repo: { name: "in" } }, { repo: "in", glob: "" }],
        outputs: [],
      },
    });
    expect(error).toMatchObject({ status: 400, code: "InvalidSpec" });
    expect(paths(error)).toEqual([
      "inputs[0].glob",
      "inputs[0].repo.name",
      "inputs[1].glob",
      "inputs[1].repo",
      "outputs",
      "parallelism_spec.strategy",
      "pipeline.name",
      "transform.cmd",
      "transform.colour",
      "transform.env.1X",
      "transform.image",
    ]);
    for (const { message } of error.issues) expect(message).not.toBe("Invalid input");
  });

  test("must agree with itself and with the repos there are, all of it said at once", async () => {
    await makeBranch({ repo: "agree", branch: "master" });
    const input = (repo: string, more: object) => ({ repo: { name: repo }, glob: "/*", ...more });
    const error = await failed("POST /pipelines", {
      body: {
        ...spec({ name: "agreed" }),
        inputs: [
          input("agree", {}),
          input("agree", { branch: "dev" }),
          input("nowhere", { name: "out" }),
          input("agree", { name: "globbed", glob: "no-slash[" }),
        ],
      },
    });
    expect(error).toMatchObject({ status: 400, code: "InvalidSpec" });
    expect(paths(error)).toEqual([
      "inputs[1].repo.name",
      "inputs[2].name",
      "inputs[2].repo.name",
      "inputs[3].glob",
    ]);
    expect(await failed("GET /pipelines/agreed")).toMatchObject({ status: 404 });
  });
});

describe("the jobs", () => {
  test("of a pipeline are listed, paged and shown, also by their state and across pipelines", async () => {
    const input = { repo: "jobs-in", branch: "master" };
    await makeBranch(input);
    await good("POST /pipelines", { body: spec({ name: "jobs", input: "jobs-in" }) });
    await commitFiles(input, { a: "1" });
    await commitFiles(input, { b: "2" });
    const [newest, oldest] = await twoJobs("jobs");
    expect(await good(`GET /jobs/${oldest.id}`)).toMatchObject({ id: oldest.id, pipeline: "jobs" });
    expect(await good("GET /jobs?pipeline=jobs&limit=1")).toMatchObject({
      jobs: [{ id: newest.id }],
      next: newest.id,
    });
    expect(await good(`GET /jobs?pipeline=jobs&limit=1&after=${newest.id}`)).toMatchObject({
      jobs: [{ id: oldest.id }],
      next: null,
    });
    const byState = await good(`GET /jobs?state=waiting&pipeline=jobs`);
    expect(byState.jobs.map((job: { id: string }) => job.id)).toContain(newest.id);
    expect((await good("GET /jobs")).jobs.length).toBeGreaterThanOrEqual(2);
  });

  test("that are not there are 404", async () => {
    expect(await failed("GET /jobs/01ARZ3NDEKTSV4RRFFQ69G5FAV")).toMatchObject({
      status: 404,
      code: "NoSuchJob",
    });
  });

  test("are asked for within bounds", async () => {
    for (const query of ["limit=0", "limit=1001", "limit=x", "state=done", "pipeline=a.b"])
      expect(await failed(`GET /jobs?${query}`)).toMatchObject({
        status: 400,
        issues: [{ path: query.split("=")[0] }],
      });
    for (const wait of ["-1", "21", "soon"])
      expect(await failed(`GET /jobs/x?wait=${wait}`)).toMatchObject({
        status: 400,
        issues: [{ path: "wait" }],
      });
  });
});

interface ShownJob {
  readonly id: string;
  readonly state: string;
}

/** A doorbell rings on its own time; asking is what waits for it. */
async function twoJobs(pipeline: string): Promise<[ShownJob, ShownJob]> {
  for (;;) {
    const { jobs } = await good(`GET /jobs?pipeline=${pipeline}`);
    const listed = await good(`GET /jobs?pipeline=${pipeline}&state=waiting`);
    if (jobs.length === 2 && listed.jobs.length === 2) return jobs;
    await scheduler.wait(20);
  }
}

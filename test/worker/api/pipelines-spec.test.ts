import { beforeAll, describe, expect, test } from "vitest";
import type { Issue } from "../../../protocol/errors.ts";
import type { KeyScope } from "../../../worker/core/permissions.ts";
import { commitFiles, failed, good, makeBranch, testContext } from "./support.ts";

const DRY = "POST /pipelines?dryRun=true";

interface Parts {
  readonly pipeline?: object;
  readonly transform?: object;
  readonly more?: object;
}

function spec({ pipeline, transform, more }: Parts = {}): object {
  return {
    pipeline: { name: "fresh", ...pipeline },
    transform: { image: "busybox", cmd: ["true"], ...transform },
    ...more,
  };
}

/** The issues that a submission is refused with; the same ones, with and without `dryRun`. */
async function refused(body: unknown): Promise<Record<string, string>> {
  const [made, tried] = [await failed("POST /pipelines", { body }), await failed(DRY, { body })];
  expect(made).toMatchObject({ status: 400, code: "InvalidSpec" });
  expect(tried.issues).toEqual(made.issues);
  return Object.fromEntries(made.issues.map(({ path, message }: Issue) => [path, message]));
}

describe("a field", () => {
  test.each([
    ["at the top", spec({ more: { output_branch: "x" } }), "output_branch", "did you mean 'outputBranch'?"],
    ["of another spelling", spec({ transform: { stdIn: [] } }), "transform.stdIn", "did you mean 'stdin'?"],
    [
      "that holds what Pachyderm's does",
      spec({ more: { inputs: [{ Repo: "a", glob: "/" }] } }),
      "inputs[0].Repo",
      "did you mean 'repo'?",
    ],
    [
      "mistyped",
      spec({ transform: { accptReturnCode: [] } }),
      "transform.accptReturnCode",
      "'acceptReturnCode'",
    ],
    [
      "of an input",
      spec({ more: { inputs: [{ repo: { name: "a" }, glob: "/", brnach: "x" }] } }),
      "inputs[0].brnach",
      "'branch'",
    ],
    [
      "of a strategy",
      spec({ more: { parallelism_spec: { strategy: "CONSTANT", constant: 1, constnat: 2 } } }),
      "parallelism_spec.constnat",
      "'constant'",
    ],
    [
      "like no other",
      spec({ transform: { colour: "red" } }),
      "transform.colour",
      "leave it out; there are image, container, cmd, stdin",
    ],
  ])("that is not known, %s, is refused with the nearest one that is", async (_, body, path, says) => {
    expect((await refused(body))[path]).toMatch(
      new RegExp(`^there is no field '\\w+': .*${says.replace("?", "\\?")}`),
    );
  });

  test.each([
    ["a number", { image: 7 }, "transform.image", "must be a string, not a number"],
    [
      "a text in place of lines",
      { stdin: "set -e\nwc -w < /pfs/texts/a > /pfs/out/a\n" },
      "transform.stdin",
      "must be a list, not a string",
    ],
    [
      "a long text in place of lines",
      { stdin: `${"x".repeat(500)}\nb\nc\nd\ne` },
      "transform.stdin",
      "must be a list, not a string",
    ],
    ["a command line", { cmd: "python3 /run.py" }, "transform.cmd", "must be a list, not a string"],
    [
      "a command line for a shell",
      { cmd: "cp /pfs/in/* /pfs/out" },
      "transform.cmd",
      "must be a list, not a string",
    ],
    ["a number as an argument", { cmd: ["sleep", 5] }, "transform.cmd[1]", "must be a string, not a number"],
    [
      "variables as Kubernetes has them",
      { env: [{ name: "TOKEN", value: "hunter2" }] },
      "transform.env",
      "must be an object, not a list",
    ],
    [
      "variables as Compose has them",
      { env: ["TOKEN=hunter2", "LEVEL=8"] },
      "transform.env",
      "must be an object, not a list",
    ],
    [
      "the name of a secret",
      { secrets: ["database"] },
      "transform.secrets[0]",
      "must be an object, not a string",
    ],
    [
      "a secret alone",
      { secrets: { name: "tls", mountPath: "/tls" } },
      "transform.secrets",
      "must be a list, not an object",
    ],
    [
      "a pull secret as Kubernetes has it",
      { imagePullSecrets: [{ name: "registry" }] },
      "transform.imagePullSecrets[0]",
      "must be a string, not an object",
    ],
    [
      "an exit code alone",
      { acceptReturnCode: 1 },
      "transform.acceptReturnCode",
      "must be a list, not a number",
    ],
    [
      "an exit code in quotes",
      { acceptReturnCode: ["1"] },
      "transform.acceptReturnCode[0]",
      "must be a number, not a string: write 1",
    ],
    ["null", { cmd: null }, "transform.cmd", "must be a list, not null"],
    ["a list of numbers", { stdin: [1] }, "transform.stdin[0]", "must be a string, not a number"],
    ["a number as a variable", { env: { N: 8 } }, "transform.env.N", "must be a string, not a number"],
    [
      "a variable that is none",
      { env: { "a-b": "x" } },
      "transform.env.a-b",
      "must be a name that a shell can use: letters, digits and '_', no digit first",
    ],
    ["a null byte", { cmd: ["a\u0000b"] }, "transform.cmd[0]", "must not hold null bytes"],
    ["no image", { image: " " }, "transform.image", "must name a container image"],
    ["no command", { cmd: [] }, "transform.cmd", "must hold the command to run and its arguments"],
    ["an empty command", { cmd: ["", "x"] }, "transform.cmd[0]", "must name the command to run"],
    [
      "an exit code beyond 255",
      { acceptReturnCode: [256] },
      "transform.acceptReturnCode[0]",
      "must be at most 255, not 256",
    ],
    [
      "half an exit code",
      { acceptReturnCode: [1.5] },
      "transform.acceptReturnCode[0]",
      "must be a whole number, not 1.5",
    ],
    [
      "a container that is wished for",
      { container: "preferred" },
      "transform.container",
      "must be 'required', or be left out: then nodes without containers run it, too",
    ],
    [
      "a folder that is relative",
      { workingDir: "data" },
      "transform.workingDir",
      "must be an absolute path: one that begins with '/'",
    ],
  ])("of the transform that is %s is refused in words", async (_, transform, path, says) => {
    expect(await refused(spec({ transform }))).toEqual({ [path]: says });
  });

  test("that is required is asked for", async () => {
    expect(await refused({})).toEqual({
      pipeline: "is required: an object",
      transform: "is required: an object",
    });
  });

  test.each([
    ["bad.name", "must start with a letter or digit"],
    ["-x", "must start with a letter or digit"],
    ["x".repeat(64), "63 characters at most"],
    ["", "must start with a letter or digit"],
  ])("with the name '%s' is refused", async (name, says) => {
    expect((await refused(spec({ pipeline: { name } })))["pipeline.name"]).toContain(says);
  });
});

describe("the parallelism", () => {
  const strategies =
    "must be CONSTANT, with the number in 'constant', or COEFFICIENT, with it in 'coefficient'";
  test.each([
    [{ strategy: "CONSTANT", constant: 0 }, "constant", "must be at least 1, not 0"],
    [{ strategy: "CONSTANT", constant: -1 }, "constant", "must be at least 1, not -1"],
    [{ strategy: "CONSTANT", constant: 1.5 }, "constant", "must be a whole number, not 1.5"],
    [{ strategy: "CONSTANT", constant: 10_001 }, "constant", "must be at most 10000, not 10001"],
    [{ strategy: "CONSTANT", constant: "4" }, "constant", "must be a number, not a string: write 4"],
    [{ strategy: "CONSTANT", coefficient: 2 }, "constant", "is required: a number"],
    [{ strategy: "COEFFICIENT", coefficient: 0 }, "coefficient", "must be more than 0, not 0"],
    [{ strategy: "COEFFICIENT", coefficient: -0.5 }, "coefficient", "must be more than 0, not -0.5"],
    [{ strategy: "COEFFICIENT", constant: 2 }, "coefficient", "is required: a number"],
    [{ strategy: "constant", constant: 2 }, "strategy", strategies],
    [
      { constant: "2" },
      "strategy",
      `${strategies}: write "parallelism_spec": { "strategy": "CONSTANT", "constant": 2 }`,
    ],
    [
      { coefficient: 0.5 },
      "strategy",
      `${strategies}: write "parallelism_spec": { "strategy": "COEFFICIENT", "coefficient": 0.5 }`,
    ],
    [{}, "strategy", strategies],
  ])("%j is refused", async (parallelism_spec, field, says) => {
    expect(await refused(spec({ more: { parallelism_spec } }))).toEqual({
      [`parallelism_spec.${field}`]: says,
    });
  });

  test.each([
    ["parallelism_spec", 4, "must be an object, not a number"],
    [
      "parallelismSpec",
      { constant: "4" },
      `there is no field 'parallelismSpec' here: write "parallelism_spec": { "strategy": "CONSTANT", "constant": 4 }`,
    ],
  ])("as %s of %j is refused in words", async (field, value, says) => {
    expect(await refused(spec({ more: { [field]: value } }))).toEqual({ [field]: says });
  });

  test.each([
    [
      { strategy: "CONSTANT", constant: 3, coefficient: -1 },
      { strategy: "CONSTANT", constant: 3 },
    ],
    [
      { strategy: "COEFFICIENT", coefficient: 0.5, constant: "many" },
      { strategy: "COEFFICIENT", coefficient: 0.5 },
    ],
  ])("%j ignores the number that its strategy does not name", async (parallelism_spec, kept) => {
    const check = await good(DRY, { body: spec({ more: { parallelism_spec } }) });
    expect(check.spec.parallelism_spec).toEqual(kept);
  });
});

describe("tries and times", () => {
  test.each([
    ["datumTries", 0, "must be at least 1, not 0"],
    ["datumTries", 101, "must be at most 100, not 101"],
    ["datumTries", 2.5, "must be a whole number, not 2.5"],
    ["datumTries", "2", "must be a number, not a string: write 2"],
    ["datumTimeout", "5", "the units h, m, s or ms"],
    ["datumTimeout", "-5s", "must be a length of time"],
    ["datumTimeout", 30, "must be a string, not a number"],
    ["datumTimeout", "2 days", "the units h, m, s or ms"],
    ["datumTimeout", "90 min", "the units h, m, s or ms"],
    ["jobTimeout", "0s", "must be longer than nothing"],
    ["jobTimeout", "577h", "must be at most 576h"],
    ["jobTimeout", "25 days", "the units h, m, s or ms"],
    ["datum_tries", 2, "did you mean 'datumTries'?"],
    ["job_timeout", "5m", "did you mean 'jobTimeout'?"],
  ])("%s of %j is refused", async (field, value, says) => {
    expect((await refused(spec({ more: { [field]: value } })))[field]).toContain(says);
  });
});

describe("bad datums", () => {
  test.each(["never", true, null])("onDatumFailure of %j is refused", async (onDatumFailure) => {
    expect((await refused(spec({ more: { onDatumFailure } }))).onDatumFailure).toContain("must be 'fail'");
  });

  test.each(["fail", "skip"])("onDatumFailure may be %j", async (onDatumFailure) => {
    const check = await good(DRY, { body: spec({ more: { onDatumFailure } }) });
    expect(check.spec.onDatumFailure).toBe(onDatumFailure);
  });

  test("can't be told of in the branch of the output", async () => {
    const more = { onDatumFailure: "skip", outputBranch: "errors" };
    expect((await refused(spec({ more }))).onDatumFailure).toContain("choose another outputBranch");
    await good(DRY, { body: spec({ more: { outputBranch: "errors" } }) });
  });

  test("can't be told of in a branch that somebody has", async () => {
    await makeBranch({ repo: "told", branch: "errors" });
    const body = { ...spec({ more: { onDatumFailure: "skip" } }), pipeline: { name: "told" } };
    for (const target of [DRY, "POST /pipelines"]) {
      const error = await failed(target, { body });
      expect(error).toMatchObject({ status: 409, code: "AlreadyExists" });
      expect(error.issues).toMatchObject([{ path: "onDatumFailure" }]);
      expect(error.issues[0]?.message).toContain("'errors.told'");
    }
    await good("POST /pipelines", { body: { ...body, onDatumFailure: "fail" } });
    for (const target of ["POST /pipelines?update=true&dryRun=true", "POST /pipelines?update=true"]) {
      const error = await failed(target, { body });
      expect(error.issues).toMatchObject([{ path: "onDatumFailure" }]);
    }
  });

  test("are no input of their own pipeline, nor of one before it", async () => {
    await makeBranch({ repo: "loop-in", branch: "master" });
    const made = (name: string, input: object, more: object = {}): object => ({
      ...spec({ more: { inputs: [{ glob: "/*", ...input }], ...more } }),
      pipeline: { name },
    });
    const skips = { onDatumFailure: "skip" };
    const own = made("loop", { repo: { name: "loop" }, branch: "errors" }, skips);
    expect((await refused(own))["inputs[0].repo.name"]).toContain("its own output, 'errors.loop'");
    await good("POST /pipelines", { body: made("loop", { repo: { name: "loop-in" } }, skips) });
    const reader = { repo: { name: "loop" }, branch: "errors" };
    await good("POST /pipelines", { body: made("reads-errors", reader) });
    const update = "POST /pipelines?update=true";
    const circle = await failed(update, { body: made("loop", { repo: { name: "reads-errors" } }, skips) });
    expect(circle.issues[0]?.message).toContain(
      "pipelines can't go in a circle: 'master.reads-errors' is made from 'errors.loop'",
    );
    const inUse = await failed("DELETE /pipelines/loop");
    expect(inUse).toMatchObject({ status: 409, code: "InUse" });
    expect(inUse.message).toContain("'reads-errors'");
  });
});

describe("inputs", () => {
  beforeAll(() => makeBranch({ repo: "globs", branch: "master" }));

  const input = (repo: string, more: object = {}): object => ({ repo: { name: repo }, glob: "/*", ...more });

  test("whose repo is not there are told of one with a name that is near", async () => {
    await makeBranch({ repo: "photographs", branch: "master" });
    expect(await refused(spec({ more: { inputs: [input("fotographs"), input("zzz")] } }))).toEqual({
      "inputs[0].repo.name": "there is no repo 'fotographs': did you mean 'photographs'?",
      "inputs[1].repo.name": "there is no repo 'zzz': create a bucket such as 'master.zzz' first",
    });
  });

  test("say nothing of repos that are not the key's", async () => {
    await makeBranch({ repo: "secret-plans", branch: "master" });
    const scope: KeyScope = { level: "admin", repos: ["fresh", "secret-plan"], pipelines: true };
    const error = await failed(DRY, {
      body: spec({ more: { inputs: [input("secret-plan")] } }),
      caller: { scope },
    });
    expect(error.issues).toMatchObject([{ path: "inputs[0].repo.name" }]);
    expect(error.issues[0]?.message).not.toContain("secret-plans");
  });

  test("have names of their own, none of them 'out'", async () => {
    await makeBranch({ repo: "named", branch: "master" });
    const inputs = [
      input("named"),
      input("named"),
      input("named", { name: "out" }),
      input("named", { name: "named" }),
    ];
    expect(await refused(spec({ more: { inputs } }))).toEqual({
      "inputs[1].repo.name":
        "the input 'named' has the name of inputs[0]: give it a name of its own with 'name'",
      "inputs[2].name": "an input can't be called 'out', which is where a job writes: give it another name",
      "inputs[3].name": "the input 'named' has the name of inputs[0]: give it another name",
    });
  });

  test("are 64 at most", async () => {
    await makeBranch({ repo: "crowd", branch: "master" });
    const inputs = Array.from({ length: 65 }, (_, n) => input("crowd", { name: `i${n}` }));
    expect(await refused(spec({ more: { inputs } }))).toEqual({ inputs: "must hold at most 64 entries" });
  });

  test.each([
    ["/a[b", "has a '[' without its ']': write '\\[' for the character itself (at character 3)"],
    ["a]", "has a ']' without its '[': write '\\]' for the character itself (at character 2)"],
    ["/x/{a,b", "has a '{' without its '}': write '\\{' for the character itself (at character 4)"],
    [
      "/{a,[z-a]}",
      "has the range 'z-a', which runs backwards, in '[z-a]' (in '/[z-a]', which its braces stand for)",
    ],
  ])("with the glob %s are told what is wrong and where", async (glob, says) => {
    expect(await refused(spec({ more: { inputs: [input("globs", { glob })] } }))).toEqual({
      "inputs[0].glob": `the glob '${glob}' ${says}`,
    });
  });

  test("start after a commit of their own branch, and no other", async () => {
    const own = { repo: "starts", branch: "master" };
    const other = { repo: "starts", branch: "other" };
    for (const address of [own, other]) await makeBranch(address);
    const commit = await commitFiles(own, { a: "1" });
    const stray = await commitFiles(other, { a: "1" });
    const from = (ID: string, name = "starts"): object => ({ from: { repo: { name }, ID } });
    const unknown = (bucket: string, id: string): string =>
      `'${bucket}' has no commit '${id}': 'sluice commit list ${bucket}' shows those it has`;
    const inputs = [
      input("starts", { name: "good", ...from(commit) }),
      input("starts", { name: "stray", ...from(stray) }),
      input("starts", { name: "later", branch: "later", ...from(commit) }),
      input("starts", { name: "alien", ...from(commit, "globs") }),
      input("starts", { name: "form", ...from("head") }),
      input("starts", { name: "bare", from: commit }),
    ];
    const problems = {
      "inputs[1].from.ID": unknown("master.starts", stray),
      "inputs[2].from.ID": unknown("later.starts", commit),
      "inputs[3].from.repo.name": "an input starts after a commit of its own repo, 'starts', not of 'globs'",
      "inputs[4].from.ID": "must be the id of a commit, such as 'sluice commit list' shows them",
      "inputs[5].from": "must be an object, not a string",
    };
    expect(await refused(spec({ more: { inputs } }))).toEqual(problems);
    expect(await testContext().branch({ repo: "starts", branch: "later" }).lifecycle.status()).toMatchObject({
      ok: false,
    });
    await good("POST /pipelines", {
      body: { ...spec({ pipeline: { name: "started" } }), inputs: [inputs[0]] },
    });
    const update = await failed("POST /pipelines?update=true", {
      body: { ...spec({ pipeline: { name: "started" } }), inputs: [inputs[1]] },
    });
    expect(update.issues).toEqual([{ path: "inputs[0].from.ID", message: problems["inputs[1].from.ID"] }]);
  });

  test("that lead back to the pipeline are refused with the way", async () => {
    await makeBranch({ repo: "ring", branch: "seed" });
    const link = (name: string, from: string, branch = "master"): object => ({
      ...spec({ pipeline: { name } }),
      inputs: [input(from, { branch })],
    });
    await good("POST /pipelines", { body: link("ring-1", "ring", "seed") });
    await good("POST /pipelines", { body: link("ring-2", "ring-1") });
    const body = { ...link("ring", "ring-2"), outputBranch: "seed" };
    const way = "'master.ring-2' is made from 'seed.ring', the output of this pipeline, by";
    expect((await refused(body))["inputs[0].repo.name"]).toBe(
      `pipelines can't go in a circle: ${way} 'ring-1' and then 'ring-2'`,
    );
    const scope: KeyScope = { level: "admin", repos: ["ring", "ring-2"], pipelines: true };
    const error = await failed(DRY, { body, caller: { scope } });
    expect(error.issues[0]?.message).toContain("by another pipeline and then 'ring-2'");
  });
});

describe("a specification written as Pachyderm's", () => {
  const entry = (repo: string, more = ""): string => `{ "repo": { "name": "${repo}" }, ${more}"glob": "/*" }`;
  const none = (field: string): string => `there is no field '${field}' here: `;
  const writeInputs = (...entries: string[]): string =>
    `${none("input")}write "inputs": [${entries.join(", ")}], an entry for each input`;
  const join = "there is none: a pipeline before this one lays out what belongs together";

  test.each([
    [{ pfs: { repo: "sales", glob: "/*" } }, writeInputs(entry("sales"))],
    [
      { pfs: { repo: "sales", branch: "eu", name: "s", glob: "/*" } },
      writeInputs(`{ "name": "s", "repo": { "name": "sales" }, "branch": "eu", "glob": "/*" }`),
    ],
    [
      { cross: [{ pfs: { repo: "sales", glob: "/*" } }, { pfs: { repo: "rates", glob: "/" } }] },
      writeInputs(entry("sales"), `{ "repo": { "name": "rates" }, "glob": "/" }`),
    ],
    [{ pfs: { repo: "sales" } }, writeInputs(entry("sales"))],
    [{ union: [] }, `${none("input")}there is none: put what is to be one input into one repo`],
    [{ join: [] }, `${none("input")}${join}`],
    [{ cron: { spec: "@every 60s" } }, `${none("input")}there are no schedules`],
    ["sales@eu", `${none("input")}write "inputs": [{ "repo": { "name": "images" }, "glob": "/*" }]`],
    [7, `${none("input")}write "inputs": [{ "repo": { "name": "images" }, "glob": "/*" }]`],
  ])("with the input %j is told what to write", async (input, says) => {
    const { input: told } = await refused(spec({ more: { input } }));
    expect(told?.slice(0, says.length)).toBe(says);
  });

  test("is told what to write of each field", async () => {
    await makeBranch({ repo: "sales", branch: "master" });
    const glob = "/*";
    const sales = { repo: { name: "sales" }, glob };
    const told = await refused({
      pipeline: { name: "count", project: { name: "default" } },
      transform: { image: "busybox", cmd: ["true"], errCmd: ["true"], user: "root" },
      inputs: [
        { repo: "sales", glob },
        { repo: { name: "sales", project: "default" }, glob, name: "the-sales" },
        { pfs: { repo: "sales", branch: "eu" } },
        "sales",
        { ...sales, name: "a", branch: "eu", s3: true },
        { ...sales, name: "b", trigger: {}, joinOn: "$1" },
      ],
      datumTries: "2",
      egress: { URL: "s3://results/edges", sqlDatabase: {} },
      resource_requests: {},
      pod_patch: "",
      spout: {},
    });
    const unknown = (path: string, says: string): [string, unknown] => [
      path,
      expect.stringContaining(`${none(path.split(".").at(-1) ?? "")}${says}`),
    ];
    expect(told).toMatchObject({
      "inputs[0].repo": 'must be an object, not a string: write { "name": "sales" }',
      "inputs[2].repo": 'is required: an object: write "repo": { "name": "images" }',
      "inputs[3]": "must be an object, not a string",
      datumTries: "must be a number, not a string: write 2",
      ...Object.fromEntries([
        unknown("pipeline.project", "leave it out: there are no projects"),
        unknown("transform.errCmd", 'write "onDatumFailure": "skip"'),
        unknown("transform.user", "there is none: the command runs as the user of its image"),
        unknown("inputs[1].repo.project", "leave it out: there are no projects"),
        unknown(
          "inputs[2].pfs",
          'write its fields here: "repo": { "name": "sales" }, "branch": "eu", "glob": "/*"',
        ),
        unknown("inputs[4].s3", "there is none: a command reads its datum in /pfs/<input>"),
        unknown("inputs[5].trigger", "there is none: every commit on the branch makes a job"),
        unknown("inputs[5].joinOn", join),
        unknown("egress.sqlDatabase", "there is none"),
        unknown("resource_requests", "it is for the node to say"),
        unknown("pod_patch", "leave it out: every runner takes the work of every pipeline"),
        unknown("spout", "there is none: a pipeline runs its command to the end"),
      ]),
    });
  });

  test.each([
    "s3a://results/edges",
    "results/edges",
    "constructor://results/edges",
    "https://user:password@example.com/results",
    "s3://user:password@results/edges",
  ])("pushes to %s, which is refused without its password", async (URL) => {
    const told = (await refused(spec({ more: { egress: { URL } } })))["egress.URL"];
    expect(told).toContain("credentials come from 'secret' or the runner");
    expect(told).not.toContain("password");
    const egress = "s3://results/edges";
    expect((await refused(spec({ more: { egress } }))).egress).toBe("must be an object, not a string");
  });

  test.each([
    ["workers", 2],
    ["command", ["true"]],
    ["schedule", "@daily"],
  ])("is the only one whose words are known: %s, of another system, is a field like any", async (field, value) => {
    const told = (await refused(spec({ more: { [field]: value } })))[field];
    expect(told).toMatch(new RegExp(`^there is no field '${field}': (leave it out; there are|did you mean)`));
  });
});

describe("a submission", () => {
  test("is told what is wrong with its form, its rules and its surroundings at once", async () => {
    await makeBranch({ repo: "all-at-once", branch: "taken" });
    const body = {
      pipeline: { name: "all-at-once" },
      transform: { image: "busybox", cmd: [], secrets: {} },
      outputBranch: "taken",
      inputs: [{ name: "out", repo: { name: "nowhere" }, glob: "/[", lazy: "yes" }, "an input"],
    };
    expect(Object.keys(await refused(body)).toSorted()).toEqual([
      "inputs[0].glob",
      "inputs[0].lazy",
      "inputs[0].name",
      "inputs[0].repo.name",
      "inputs[1]",
      "outputBranch",
      "transform.cmd",
      "transform.secrets",
    ]);
  });

  test("that is a list of specifications is told to be one object", async () => {
    expect(await refused([spec()])).toEqual({
      "": "a specification is one object, not a list: submit the pipelines of a list one by one",
    });
  });

  test.each([["text"], [7], [null]])("of %j is refused", async (body) => {
    expect((await refused(body))[""]).toMatch(/^must be an object/);
  });

  test("that is too large to be kept is refused", async () => {
    const body = spec({ transform: { stdin: ["x".repeat(1_000_000)] } });
    expect((await refused(body))[""]).toMatch(/^the specification has 1000\d{3} bytes/);
  });

  test("that nests without end is refused before it is parsed, also where it may hold anything", async () => {
    const nested = (depth: number) => `${"[".repeat(depth)}${"]".repeat(depth)}`;
    const text = (field: string): Uint8Array =>
      new TextEncoder().encode(JSON.stringify(spec()).replace(/}$/, `,${field}}`));
    const unknown = (depth: number) => text(`"deep":${nested(depth)}`);
    const ignored = (depth: number) =>
      text(`"parallelism_spec":{"strategy":"CONSTANT","constant":1,"coefficient":${nested(depth)}}`);
    for (const body of [unknown(100_000), ignored(100_000), ignored(15)])
      for (const target of ["POST /pipelines", DRY])
        expect(await failed(target, { body })).toMatchObject({
          ...{ status: 400, code: "InvalidRequest" },
          message: expect.stringContaining("more than 16 deep"),
        });
    expect(Object.keys(await refused(unknown(10)))).toEqual(["deep"]);
    expect(await good(DRY, { body: ignored(14) })).toMatchObject({ workers: { count: 1 } });
  });

  test("of very many problems is told a hundred of them, and that there may be more", async () => {
    const body = spec({ transform: { cmd: Array.from({ length: 250 }, () => 1) } });
    const { issues } = await failed("POST /pipelines", { body });
    expect(issues.length).toBe(101);
    expect(issues.at(-1)?.message).toMatch(/^there may be more problems/);
  });

  test("under a name that is taken is a conflict, tried or made", async () => {
    await makeBranch({ repo: "twofold-in", branch: "master" });
    await good("POST /pipelines", { body: spec({ pipeline: { name: "twofold" } }) });
    await makeBranch({ repo: "settled", branch: "master" });
    for (const [name, path] of [
      ["twofold", "pipeline.name"],
      ["settled", "outputBranch"],
    ]) {
      for (const target of ["POST /pipelines", DRY]) {
        const error = await failed(target, { body: spec({ pipeline: { name } }) });
        expect(error).toMatchObject({ status: 409, code: "AlreadyExists", issues: [{ path }] });
      }
    }
  });
});

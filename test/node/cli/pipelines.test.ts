import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { Job, JobPage, Pipeline, PipelineList } from "../../../protocol/pipelines.ts";
import { NodeList } from "../../../protocol/runner.ts";
import { parseCliJson } from "../../support/cli-json.ts";
import { Control } from "../../support/control.ts";
import { type DevServer, sluice, sluiceOk, startDevServer, startRunner } from "../../support/dev-server.ts";
import { eventually } from "../../support/eventually.ts";
import type { Ended, Started } from "../../support/processes.ts";
import { S3 } from "../../support/s3.ts";
import { scratchFolder } from "../../support/scratch.ts";
import { REST } from "../../support/suite.ts";

let server: DevServer;
let runner: Started;
let s3: S3;

beforeAll(async () => {
  server = await startDevServer();
  s3 = new S3(server);
});
afterAll(async () => {
  await runner?.stop();
  await server.stop();
});

function cli(...args: string[]): Promise<Ended> {
  return sluice(server, ...args);
}

function ok(...args: string[]): Promise<string> {
  return sluiceOk(server, ...args);
}

async function okJson(...args: string[]): Promise<unknown> {
  return parseCliJson(await ok(...args, "--json"));
}

function spec(name: string, script: string): Record<string, unknown> {
  return {
    pipeline: { name },
    transform: { image: "busybox", cmd: ["sh", "-eu"], stdin: [script] },
    inputs: [{ repo: { name: `${name}-in` }, glob: "/*" }],
  };
}

function specFile(content: unknown): string {
  const file = join(scratchFolder(), "spec.json");
  writeFileSync(file, JSON.stringify(content));
  return file;
}

/** Answers what is said beside the answer. */
async function createPipeline(name: string, script: string): Promise<string> {
  await s3.createBucket(`master.${name}-in`);
  const { code, stderr } = await cli("pipeline", "create", "-f", specFile(spec(name, script)));
  expect(code).toBe(0);
  return stderr;
}

/** The id of a pipeline's first job. */
function firstJob(pipeline: string): Promise<string> {
  return eventually(`${pipeline} has a job`, async () => (await new Control(server).jobs(pipeline))[0]?.id);
}

describe("sluice pipeline", () => {
  test("creates, lists, inspects and deletes", async () => {
    await createPipeline("whole", "true");
    for (const [wrong, right] of [
      [["pipeline", "inspect", "whoel"], "whole"],
      [["branch", "list", "whole-im"], "whole-in"],
    ] as const) {
      const { code, stderr } = await cli(...wrong);
      expect([code, stderr]).toEqual([7, expect.stringContaining(`did you mean '${right}'?\n`)]);
    }
    const list = PipelineList.parse(await okJson("pipeline", "list"));
    expect(list.pipelines.find(({ name }) => name === "whole")).toMatchObject({
      inputs: ["master.whole-in"],
      output: "master.whole",
    });
    expect(await ok("pipeline", "list")).toMatch(/^whole +active +master\.whole-in +master\.whole /m);
    expect(Pipeline.parse(await okJson("pipeline", "inspect", "whole"))).toMatchObject({
      name: "whole",
      spec: { parallelism_spec: { strategy: "COEFFICIENT", coefficient: 1 } },
    });
    expect(await ok("pipeline", "inspect", "whole")).toContain("s3://master.whole\n");
    expect(await okJson("pipeline", "delete", "whole")).toEqual({ deleted: "whole" });
    expect(await ok("ls")).not.toContain("s3://master.whole\n");
    expect((await cli("pipeline", "inspect", "whole")).code).toBe(7);
  });

  test("shows its versions, one of them, and what differs between two", async () => {
    await createPipeline("story", "true");
    const env = { TOKEN: "hush" };
    const second = spec("story", "echo changed");
    const transform = { ...(second.transform as object), env };
    await ok("pipeline", "update", "-f", specFile({ ...second, transform }));
    const lines = (await ok("pipeline", "history", "story")).split("\n");
    expect(lines[0]).toMatch(/^VERSION +SUBMITTED +KEY +CHANGES$/);
    expect(lines[1]).toMatch(/^2\* +20\S+ \S+ \S+ +\S+ +env, stdin$/);
    expect(lines[2]).toMatch(/^1 +20\S+ \S+ \S+ +\S+ +\(the first\)$/);
    const { versions } = (await okJson("pipeline", "history", "story")) as {
      versions: { version: number }[];
    };
    expect(versions.map(({ version }) => version)).toEqual([2, 1]);
    expect(await ok("pipeline", "inspect", "story", "--at", "1")).toMatch(/"stdin": \[\s+"true"\s+\]/);
    expect(await okJson("pipeline", "inspect", "story", "--at", "1")).toMatchObject({
      version: 1,
      present: false,
    });
    const spoken = JSON.parse(await ok("pipeline", "inspect", "story", "--at", "1", "--spec"));
    expect(spoken).toMatchObject({ pipeline: { name: "story" }, transform: { stdin: ["true"] } });
    const diff = await ok("pipeline", "diff", "story", "1", "2");
    expect(diff).toMatch(/^--- version 1\n\+\+\+ version 2\n@@ -\d+,\d+ \+\d+,\d+ @@\n/);
    expect(diff).toMatch(/^- +"true"$/m);
    expect(diff).toMatch(/^\+ +"echo changed"$/m);
    expect(diff).toMatch(/^\+ +"TOKEN": "hush"$/m);
    expect(diff).not.toMatch(/^[+-] +"outputBranch"/m);
    expect(await ok("pipeline", "diff", "story", "1")).toBe(diff);
    const same = await cli("pipeline", "diff", "story", "2", "2");
    expect([same.code, same.stdout.toString()]).toEqual([0, ""]);
    expect(same.stderr).toBe("versions 2 and 2 say the same\n");
    const json = (await okJson("pipeline", "diff", "story", "1", "2")) as { lines: string[] };
    expect(json).toMatchObject({ pipeline: "story", from: 1, to: 2, hidden: [] });
    expect(json.lines.join("\n")).toBe(diff.trimEnd().split("\n").slice(2).join("\n"));
    const absent = await cli("pipeline", "diff", "story", "1", "7");
    expect([absent.code, absent.stderr]).toEqual([
      7,
      expect.stringContaining("'sluice pipeline history story'"),
    ]);
  });

  test("gives back the text that was submitted, byte by byte", async () => {
    await s3.createBucket("master.spoken-in");
    const lines = [
      "# for the night shift",
      "pipeline: {name: spoken}",
      "transform: {image: busybox, cmd: ['true']}",
      "inputs:",
      "  - {repo: {name: spoken-in}, glob: /*} # every file",
    ];
    // With line ends of Windows, and none at the end.
    const text = lines.join("\r\n");
    const file = join(scratchFolder(), "spec.yaml");
    writeFileSync(file, text);
    await cli("pipeline", "create", "-f", file);
    expect(await ok("pipeline", "inspect", "spoken", "--spec")).toBe(text);
    expect(JSON.parse(await ok("pipeline", "inspect", "spoken", "--spec", "--json"))).toMatchObject({
      ...{ pipeline: { name: "spoken" }, datumTries: 3 },
    });
    const long = `${JSON.stringify({ ...spec("spoken", "true"), datumTries: 2 })}${" ".repeat(1_000_000)}`;
    const longFile = join(scratchFolder(), "long.json");
    writeFileSync(longFile, long);
    const { code, stderr } = await cli("pipeline", "update", "-f", longFile);
    expect([code, stderr]).toEqual([
      0,
      expect.stringContaining("the text of the spec is not kept: it has 1000"),
    ]);
    expect(JSON.parse(await ok("pipeline", "inspect", "spoken", "--spec"))).toMatchObject({ datumTries: 2 });
    expect(await ok("pipeline", "inspect", "spoken", "--at", "1", "--spec")).toBe(text);
  });

  test("hides variables in what differs from who may not see them in both", async () => {
    await createPipeline("veil", "true");
    const veiled = spec("veil", "true");
    const transform = { ...(veiled.transform as object), env: { TOKEN: "hush" } };
    await ok("pipeline", "update", "-f", specFile({ ...veiled, transform }));
    const key = (await okJson("key", "create", "--level", "read", "--repo", "veil")) as {
      id: string;
      secret: string;
    };
    const theirs = { ...server, accessKeyId: key.id, secretAccessKey: key.secret };
    const { code, stdout, stderr } = await sluice(theirs, "pipeline", "diff", "veil", "1", "2");
    expect([code, stdout.toString()]).toEqual([0, ""]);
    expect(stderr).toContain("transform.env: this key may not read all inputs");
    const spoken = await sluice(theirs, "pipeline", "inspect", "veil", "--at", "2", "--spec");
    expect(spoken.stdout.toString()).toBe("");
    expect(spoken.stderr).toContain("is not shown whole");
  });

  test("can leave the output when it deletes", REST, async () => {
    await createPipeline("left", "true");
    await ok("pipeline", "delete", "left", "--keep-output");
    expect(await ok("ls")).toContain("s3://master.left\n");
  });

  test("tells every problem of a spec with its path, a line each", async () => {
    const wrong = { pipeline: { name: "wrong" }, transform: { image: "busybox", cmd: [] }, speed: "fast" };
    const file = specFile(wrong);
    const { code, stderr } = await cli("pipeline", "create", "-f", file);
    expect(code).toBe(1);
    expect(stderr).toMatch(/^error: [^\n]+\n/);
    expect(stderr).toMatch(/^ {2}transform\.cmd: /m);
    expect(stderr).toMatch(/^ {2}speed: /m);
    const asJson = await cli("pipeline", "create", "-f", file, "--json");
    expect(
      JSON.parse(asJson.stderr)
        .error.issues.map(({ path }: { path: string }) => path)
        .sort(),
    ).toEqual(["speed", "transform.cmd"]);
  });

  test("reads a spec from stdin", REST, async () => {
    await s3.createBucket("master.piped-in");
    const file = specFile(spec("piped", "true"));
    const { code, stderr } = await cli("pipeline", "create", "-f", "-");
    expect(stderr).toContain("stdin is not JSON");
    expect(code).toBe(1);
    await ok("pipeline", "create", "-f", file);
  });
});

describe("sluice job", () => {
  test("shows that a job waits for a runner, and gives up waiting for it when time is up", REST, async () => {
    await createPipeline("waiting", "true");
    await s3.put("master.waiting-in", "file", "x");
    const id = await firstJob("waiting");
    const { code, stderr } = await cli("job", "wait", id, "--timeout", "1");
    expect(stderr).toMatch(new RegExp(`^error: job ${id} is still (starting|running|waiting) after 1 s`));
    expect(code).toBe(6);
  });

  test("of an id that is not there ends with 7", REST, async () => {
    for (const verb of ["inspect", "wait"]) {
      const { code, stderr } = await cli("job", verb, "01AAAAAAAAAAAAAAAAAAAAAAAA");
      expect(stderr).toContain("01AAAAAAAAAAAAAAAAAAAAAAAA");
      expect(code).toBe(7);
    }
  });

  describe("with a runner", () => {
    beforeAll(async () => {
      runner = startRunner(server, { node: "cli-test" });
      await eventually("the gateway has heard of the node", async () => {
        const { nodes } = NodeList.parse(await okJson("node", "list"));
        return nodes.some(({ name, live }) => name === "cli-test" && live);
      });
    });

    test("waits for a job that succeeds with 0, and shows and lists it", async () => {
      await createPipeline("good", "cp /pfs/good-in/* /pfs/out/");
      await s3.put("master.good-in", "file", "content");
      const id = await firstJob("good");
      const job = Job.parse(await okJson("job", "wait", id));
      expect(job).toMatchObject({ state: "success", datums: { processed: 1, skipped: 0, failed: 0 } });
      expect(await okJson("job", "inspect", id)).toEqual(job);
      expect(await ok("job", "inspect", id)).toContain("1 processed, 0 skipped, 0 failed of 1");
      expect(JobPage.parse(await okJson("job", "list", "--pipeline", "good")).jobs).toEqual([job]);
      expect(await ok("job", "list", "--pipeline", "good")).toContain(`${id}  good      1        success`);
      expect(await ok("cat", "s3://master.good/file")).toBe("content");
    });

    test("waits for a job that fails with 3 and says why", REST, async () => {
      expect(await createPipeline("bad", "echo no luck >&2; exit 3")).toBe(
        "warning: no live node honours the image busybox: all run commands as processes\n",
      );
      await s3.put("master.bad-in", "file", "content");
      const { code, stdout } = await cli("job", "wait", await firstJob("bad"));
      expect(stdout.toString()).toMatch(/^state +failure \(.+\)$/m);
      expect(code).toBe(3);
    });

    test("lists by state, page by page", REST, async () => {
      await createPipeline("many", "true");
      for (const file of ["a", "b", "c"]) await s3.put("master.many-in", file, file);
      await new Control(server).ended("many", { count: 3 });
      const one = JobPage.parse(await okJson("job", "list", "--pipeline", "many", "--limit", "2"));
      expect(one.jobs.length).toBe(2);
      const two = JobPage.parse(await okJson("job", "list", "--pipeline", "many", "--after", one.next ?? ""));
      expect(two.jobs.length).toBe(1);
      expect((await cli("job", "list", "--pipeline", "many", "--limit", "2")).stderr).toBe(
        `more with --after ${one.next}\n`,
      );
      // The catalogue, which knows the jobs of all pipelines, may be a moment behind.
      await eventually("the catalogue knows", async () => {
        const list = JobPage.parse(await okJson("job", "list", "--state", "success"));
        return list.jobs.filter(({ pipeline }) => pipeline === "many").length === 3;
      });
    });
  });
});

// @module-tag rest
import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { Control } from "../../support/control.ts";
import {
  type DevServer,
  ROOT,
  sluice,
  sluiceCommand,
  sluiceEnv,
  sluiceOk,
  startDevServer,
} from "../../support/dev-server.ts";
import { eventually } from "../../support/eventually.ts";
import { FakeRunner } from "../../support/fake-runner.ts";
import { freePort } from "../../support/ports.ts";
import { type Ended, run, type Started, start } from "../../support/processes.ts";
import { S3 } from "../../support/s3.ts";
import { scratchFolder } from "../../support/scratch.ts";
import { onTerminal } from "../../support/terminal.ts";

let server: DevServer;
let s3: S3;
let control: Control;
let runner: FakeRunner;

beforeAll(async () => {
  server = await startDevServer();
  s3 = new S3(server);
  control = new Control(server);
  runner = new FakeRunner(server, { node: "fake" });
  await runner.heartbeat();
});
afterAll(() => server?.stop());

function cli(...args: string[]): Promise<Ended> {
  return sluice(server, ...args);
}

async function ok(...args: string[]): Promise<string> {
  return (await sluiceOk(server, ...args)).trimEnd();
}

function background(...args: string[]): Started {
  return start(sluiceCommand(args), { cwd: ROOT, env: sluiceEnv(server) });
}

function hasPrinted(started: Started, text: string): Promise<unknown> {
  return eventually(`'${text}' is printed`, () => started.output().includes(text));
}

async function pipeline(
  name: string,
  { reads = `${name}-in`, ...more }: { reads?: string; [field: string]: unknown } = {},
): Promise<void> {
  await control.createPipeline({
    pipeline: { name },
    transform: { image: "busybox", cmd: ["true"] },
    parallelism_spec: { strategy: "CONSTANT", constant: 1 },
    inputs: [{ repo: { name: reads }, glob: "/*" }],
    ...more,
  });
}

/** A pipeline and its job over these files, all put as one commit. */
async function jobOver(name: string, files: readonly string[], more: object = {}): Promise<string> {
  await s3.createBucket(`master.${name}-in`);
  for (const file of files) await s3.put(`master.${name}-in`, file, file);
  await pipeline(name, { ...more });
  return eventually(`${name} has a job`, async () => {
    const id = (await control.jobs(name))[0]?.id;
    return id !== undefined && (await control.ask("GET", `/jobs/${id}`)).status === 200 ? id : undefined;
  });
}

/** Fails every datum of a pipeline that may be leased, after it printed these lines. */
async function failOne(name: string, lines: readonly string[]): Promise<string> {
  const [datum] = await eventually("a datum is leased", async () => {
    const { datums } = await runner.lease(name, { max: 1 });
    return datums.length > 0 ? datums : undefined;
  });
  if (!datum) throw new Error("nothing was leased");
  await runner.print(name, { lease: datum.lease, seq: 0, lines });
  await runner.finish(name, [
    {
      ...{ lease: datum.lease, state: "failed", exitCode: 1, reason: "the command ended with 1" },
      ...{ log: lines.join("\n"), millis: 1, blame: "datum" },
    },
  ]);
  return datum.inputs[0]?.path ?? "";
}

async function succeedOne(name: string): Promise<void> {
  await runner.work(name, { count: 1 });
}

describe("sluice job wait", () => {
  test("goes on over a restart of the gateway", { timeout: 180_000 }, async () => {
    const id = await jobOver("restart", ["a"]);
    const waiting = background("job", "wait", id);
    await server.kill9();
    await hasPrinted(waiting, "is away; trying again");
    await server.restart();
    await succeedOne("restart");
    const { code, stdout } = await waiting.ended;
    expect({ code, stdout: stdout.toString() }).toEqual({
      code: 0,
      stdout: expect.stringMatching(/^state +success$/m),
    });
  });

  test("shows on a terminal how far it is, and says at Ctrl-C that the job goes on", async () => {
    const id = await jobOver("watched", ["a", "b", "c"], { datumTries: 1 });
    const terminal = onTerminal(sluiceCommand(["job", "wait", "--pipeline", "watched"]), {
      ...{ env: sluiceEnv(server), cwd: ROOT },
    });
    await terminal.shows("waiting: 0 of 3");
    await succeedOne("watched");
    await terminal.shows(": 1 of 3");
    await failOne("watched", ["bad"]);
    await terminal.shows(": 2 of 3, 1 failed");
    terminal.type("\u0003");
    expect(await terminal.ended).toBe(130);
    expect(terminal.screen()).toContain(`the job goes on: 'sluice job wait ${id}' waits for it again`);
    await succeedOne("watched");
    expect((await cli("job", "wait", id)).code).toBe(3);
  });

  test("ends with a code for each end: failed, stopped, time is up, not there, no gateway", async () => {
    const failed = await jobOver("fails", ["a"], { datumTries: 1 });
    const timeout = await cli("job", "wait", failed, "--timeout", "1", "--json");
    expect([timeout.code, JSON.parse(timeout.stderr).error.code]).toEqual([6, "Timeout"]);
    await failOne("fails", ["bad"]);
    expect((await cli("job", "wait", failed)).code).toBe(3);
    const stopped = await jobOver("stops", ["a"]);
    await ok("job", "stop", stopped);
    expect((await cli("job", "wait", stopped)).code).toBe(5);
    expect((await cli("job", "wait", "01AAAAAAAAAAAAAAAAAAAAAAAA")).code).toBe(7);
    expect((await cli("job", "wait", "--pipeline", "nobody")).code).toBe(7);
    const nowhere = { ...server, endpoint: `http://127.0.0.1:${await freePort()}` };
    expect((await sluice(nowhere, "ls")).code).toBe(8);
    expect((await cli("job", "wait")).code).toBe(2);
  });
});

describe("a job", () => {
  test("is named by how its id begins, if no other begins so, or by its pipeline", async () => {
    const id = await jobOver("named", ["a"]);
    await s3.put("master.named-in", "b", "b");
    const second = await eventually("there is a second job", async () => {
      const newest = (await control.jobs("named"))[1]?.id;
      return newest !== undefined && (await control.ask("GET", `/jobs/${newest}`)).status === 200
        ? newest
        : undefined;
    });
    expect(JSON.parse(await ok("job", "inspect", id.slice(0, -2).toLowerCase(), "--json")).id).toBe(id);
    expect(JSON.parse(await ok("job", "inspect", "--pipeline", "named", "--json")).id).toBe(second);
    const several = await cli("job", "inspect", id.slice(0, 2));
    expect(several).toMatchObject({ code: 2, stderr: expect.stringContaining("several jobs begin with") });
    const nobody = await cli("job", "stop", "7ZZZ");
    expect(nobody).toMatchObject({ code: 7, stderr: expect.stringContaining("there is no job '7ZZZ'") });
    expect(await cli("job", "inspect", "named")).toMatchObject({
      ...{
        code: 7,
        stderr: "error: 'named' is no id of a job: '--pipeline named' is the newest job of that pipeline\n",
      },
    });
    await runner.work("named", { count: 2 });
  });

  test("shows what failed first: its datums with what they printed last, and the end of their logs", async () => {
    const files = ["a", "b", "c"];
    const id = await jobOver("broken", files, { datumTries: 1 });
    await succeedOne("broken");
    const bad = await failOne("broken", ["looking", "Traceback:", "ValueError: 17"]);
    await succeedOne("broken");
    await control.ended("broken", { count: 1 });
    const table = await ok("job", "datums", id, "--state", "failed");
    expect(table.split("\n")).toHaveLength(2);
    expect(table).toContain(`broken-in:/${bad}`);
    expect(table).toMatch(/the command ended with 1: ValueError: 17$/);
    expect(await ok("job", "logs", "--pipeline", "broken", "--failed", "--tail", "2")).toBe(
      `/${bad}  Traceback:\n/${bad}  ValueError: 17`,
    );
    expect(await ok("job", "logs", id, "--tail", "1")).toBe(`/${bad}  ValueError: 17`);
    const page = JSON.parse(await ok("job", "datums", id, "--state", "success", "--limit", "1", "--json"));
    expect(page.datums).toHaveLength(1);
    const rest = JSON.parse(
      await ok("job", "datums", id, "--state", "success", "--after", page.next, "--json"),
    );
    expect(rest.datums).toHaveLength(1);
    expect(rest.datums[0].id).not.toBe(page.datums[0].id);
  });

  test("says so if what failed printed nothing", async () => {
    await jobOver("silent", ["a"], { datumTries: 1 });
    await failOne("silent", []);
    await control.ended("silent", { count: 1 });
    const { code, stdout, stderr } = await cli("job", "logs", "--pipeline", "silent", "--failed");
    expect([stdout.toString(), code]).toEqual(["", 0]);
    expect(stderr).toBe(
      "what failed printed nothing: what a command writes into a file is not in its logs\n",
    );
  });

  test("is listed by the commit that it read, and watched as it goes", async () => {
    await jobOver("seen", ["a"]);
    await succeedOne("seen");
    const commit = await s3.headCommit("master.seen-in");
    await s3.put("master.seen-in", "b", "b");
    await runner.work("seen", { count: 1 });
    await control.ended("seen", { count: 2 });
    const listed = JSON.parse(await ok("job", "list", "--commit", `master.seen-in@${commit}`, "--json"));
    expect(listed.jobs.map(({ id }: { id: string }) => id)).toEqual([(await control.jobs("seen"))[0]?.id]);

    const watching = background("job", "list", "--pipeline", "seen", "--watch");
    await hasPrinted(watching, "  success  ");
    const terminal = onTerminal(sluiceCommand(["job", "list", "--pipeline", "seen", "--watch"]), {
      ...{ env: sluiceEnv(server), cwd: ROOT },
    });
    await terminal.shows("PIPELINE");
    await s3.put("master.seen-in", "c", "c");
    await hasPrinted(watching, "  running  ");
    await terminal.shows(" running ");
    await runner.work("seen", { count: 1 });
    await eventually("the end is printed", () => watching.output().match(/ {2}success {2}/g)?.length === 3);
    watching.signal("SIGINT");
    expect((await watching.ended).signal).toBe("SIGINT");
    terminal.type("\u0003");
    expect(await terminal.ended).toBe(130);
  });
});

describe("sluice commit wait", () => {
  test("waits for all jobs downstream, through a chain, and ends as the worst of them", {
    timeout: 120_000,
  }, async () => {
    await s3.createBucket("master.up");
    await pipeline("one", { reads: "up" });
    await pipeline("two", { reads: "one", datumTries: 1 });
    await pipeline("aside", { reads: "up" });
    await ok("pipeline", "stop", "aside");
    await s3.put("master.up", "a", "a");
    const waiting = background("commit", "wait", "master.up");
    await hasPrinted(waiting, "aside makes no job of it: it is stopped");
    await succeedOne("one");
    await failOne("two", ["no"]);
    const { code, stdout } = await waiting.ended;
    expect(code).toBe(3);
    expect(stdout.toString()).toMatch(/ one +success .*\n.* two +failure /);
    // Of an old commit everything has ended long since; of one that nothing reads, there is nothing to wait for.
    expect((await cli("commit", "wait", "master.up", "--json")).code).toBe(3);
    expect(await ok("commit", "wait", "master.two@nothing").catch((error: Error) => error.message)).toContain(
      "no commit and no tag 'nothing'",
    );
    await s3.createBucket("master.alone");
    await s3.put("master.alone", "a", "a");
    expect(await ok("commit", "wait", "master.alone")).toBe("no job: nothing reads it");
  });

  test("ends when its time is up, with the code for that", async () => {
    await s3.createBucket("master.slow-in");
    await pipeline("slow");
    await s3.put("master.slow-in", "a", "a");
    expect((await cli("commit", "wait", "master.slow-in", "--timeout", "1")).code).toBe(6);
    await runner.work("slow", { count: 1 });
  });
});

describe("Ctrl-C at sluice commit wait", () => {
  test("ends the waiting alone, and says how to wait again", async () => {
    await jobOver("ends-wait", ["a"]);
    const commit = await s3.headCommit("master.ends-wait-in");
    const terminal = onTerminal(sluiceCommand(["commit", "wait", "ends-wait-in"]), {
      ...{ env: sluiceEnv(server), cwd: ROOT },
    });
    await terminal.shows("waiting: 0 of 1");
    terminal.type("\u0003");
    expect(await terminal.ended).toBe(130);
    const again = `master.ends-wait-in@${commit}`;
    expect(terminal.screen()).toContain(`the jobs go on: 'sluice commit wait ${again}' waits for them again`);
    await succeedOne("ends-wait");
    expect((await cli("commit", "wait", again)).code).toBe(0);
  });
});

describe("how an id begins", () => {
  test("is enough for every command that takes a commit, a job or a datum", async () => {
    const job = await jobOver("begins", ["a"], { datumTries: 1 });
    const first = await s3.headCommit("master.begins-in");
    await failOne("begins", ["no"]);
    await control.ended("begins", { count: 1 });
    // Of what one test makes, ids differ in their last characters.
    const [commit, begun] = [first.slice(0, -1), job.slice(0, -1)];
    const at = `master.begins-in@${commit}`;
    expect(await ok("tag", "create", "v1", at)).toContain(`is commit ${first}`);
    expect(await ok("branch", "create", "fork.begins-in", "--from", at)).toContain(`at ${first}`);
    expect(
      JSON.parse(await ok("commit", "diff", "master.begins-in", commit, commit, "--json")),
    ).toMatchObject({
      ...{ from: first, to: first, changes: [] },
    });
    expect((await cli("commit", "wait", at)).code).toBe(3);
    const listed = JSON.parse(await ok("job", "list", "--commit", at, "--json")).jobs;
    expect(listed.map(({ id }: { id: string }) => id)).toEqual([job]);
    const { datums } = JSON.parse(await ok("job", "datums", "--pipeline", "begins", "--json"));
    expect(JSON.parse(await ok("job", "datums", begun, "--json")).datums).toEqual(datums);
    const datum = datums[0].id.slice(0, 8);
    expect(await ok("job", "logs", begun, "--datum", datum)).toContain("no");
    expect(await ok("job", "retry", begun)).toMatch(/^[0-9A-Z]{26}$/);
    await succeedOne("begins");
    expect((await cli("job", "wait", "--pipeline", "begins")).code).toBe(0);
  });
});

describe("what others need", () => {
  test("is named before it is deleted, and when it is deleted all the same", async () => {
    await s3.createBucket("master.needed");
    await pipeline("reader", { reads: "needed" });
    await pipeline("last", { reads: "reader" });
    for (const command of [
      ["rb", "s3://master.needed"],
      ["branch", "delete", "s3://master.needed"],
    ]) {
      const refused = await cli(...command);
      expect(refused).toMatchObject({
        code: 1,
        stderr: expect.stringContaining("s3://master.needed is read by the pipeline reader: add --force"),
      });
    }
    const deleted = await cli("pipeline", "delete", "--force", "reader");
    expect(deleted).toMatchObject({
      code: 0,
      stderr: "its output was read by the pipeline last: the input is empty now\n",
    });
    for (const [name, command] of [
      ["second", ["branch", "delete"]],
      ["third", ["rb"]],
    ] as const) {
      if (name === "third") await s3.createBucket("master.needed");
      if (name === "third") await ok("pipeline", "delete", "second");
      await pipeline(name, { reads: "needed" });
      expect(await cli(...command, "--force", "s3://master.needed")).toMatchObject({
        code: 0,
        stderr: `it was read by the pipeline ${name}: the input is empty now\n`,
      });
    }
  });

  test("pipeline check warns of a glob that matches nothing", async () => {
    await s3.createBucket("master.globbed");
    await s3.put("master.globbed", "a.txt", "a");
    const spec = JSON.stringify({
      pipeline: { name: "globs" },
      transform: { image: "busybox", cmd: ["true"] },
      inputs: [{ repo: { name: "globbed" }, glob: "/*.csv" }],
    });
    const { code, stderr } = await run(sluiceCommand(["pipeline", "check", "-f", "-"]), {
      ...{ cwd: ROOT, env: sluiceEnv(server), input: spec },
    });
    expect({ code, stderr }).toEqual({
      code: 0,
      stderr: "warning: the glob /*.csv of the input globbed matches nothing\n",
    });
  });
});

describe("what people read", () => {
  test("fits the terminal and has colours there, and is whole and plain in a pipe", async () => {
    const id = await jobOver("colourful", ["a"], { datumTries: 1 });
    await failOne("colourful", ["x".repeat(300)]);
    await control.ended("colourful", { count: 1 });
    const piped = await ok("job", "list", "--pipeline", "colourful");
    expect(piped).toContain("x".repeat(200));
    expect(piped).not.toContain("\u001b");
    const narrow = `stty cols 100; ${sluiceCommand(["job", "list", "--pipeline", "colourful"]).join(" ")}`;
    const shown = async (variables: Record<string, string>): Promise<string[]> => {
      const terminal = onTerminal(["sh", "-c", narrow], {
        env: { ...sluiceEnv(server), ...variables },
        cwd: ROOT,
      });
      expect(await terminal.ended).toBe(0);
      return terminal.screen().trimEnd().split("\r\n");
    };
    const [, coloured = ""] = await shown({});
    expect(coloured).toContain("\u001b[31mfailure\u001b[0m");
    const [, plain = "", ...below] = await shown({ NO_COLOR: "1" });
    // The row ends within the terminal, and the reason stands below it, whole.
    expect(plain).toMatch(/^[0-9A-Z]+ .* failure {2}0 of 1, 1 failed {2}\d\d:\d\d:\d\d$/);
    for (const line of below) expect(line).toMatch(/^ {4}.{1,95}$/);
    expect(below.join("").replaceAll(" ", "")).toContain("x".repeat(200));
    // Of an id only as much as tells it from the others.
    const [short = ""] = plain.split(" ");
    expect(id.startsWith(short)).toBe(true);
    expect(short.length).toBeLessThan(id.length);
    expect(piped).toContain(id);
  });

  test("is no wider than the terminal in any list, and whole and plain behind a pipe that begins there", async () => {
    await s3.createBucket("master.lists");
    await s3.put("master.lists", `${"long-".repeat(30)}name`, "1");
    await ok("tag", "create", "a-tag-with-a-long-name-of-its-own-for-a-list", "master.lists");
    await jobOver("wide", [`${"wide-".repeat(30)}name`], { description: "says a lot ".repeat(15).trim() });
    await succeedOne("wide");
    await control.ended("wide", { count: 1 });
    const lists = [
      ...["repo list", "branch list lists", "commit list master.lists", "commit diff master.lists"],
      ...["tag list master.lists", "pipeline list", "job list", "job datums --pipeline wide"],
      ...["commit wait wide-in", "node list", "key list"],
    ];
    const shell = sluiceCommand([]).join(" ");
    const all = lists.map((list) => `echo '== ${list}'; ${shell} ${list}`).join("; ");
    const terminal = onTerminal(
      ["sh", "-c", `stty cols 60; ${all}; echo '== piped'; ${shell} job datums --pipeline wide | cat`],
      {
        ...{ env: sluiceEnv(server), cwd: ROOT },
      },
    );
    expect(await terminal.ended).toBe(0);
    const [shown = "", piped = ""] = terminal.screen().split("== piped\r\n");
    const plain = shown.replaceAll(/\u001b\[\d*[mAJ]/g, "").split("\r\n");
    expect(plain.filter((line) => line.length > 60)).toEqual([]);
    const headings = plain.filter((line) => /^[A-Z]+ .*[A-Z…]$/.test(line));
    expect(headings).toHaveLength(lists.length);
    expect(plain.filter((line) => line.endsWith("…")).length).toBeGreaterThan(5);
    expect(piped).toContain(`${"wide-".repeat(30)}name`);
    expect(piped).not.toMatch(/\u001b|…/);
  });

  test("may end early behind a pipe without a word: the reader has seen enough", async () => {
    const { stdout, stderr } = await run(
      ["bash", "-c", `${sluiceCommand(["ls"]).join(" ")} | true; echo "\${PIPESTATUS[0]}"`],
      { cwd: ROOT, env: sluiceEnv(server) },
    );
    expect([stdout.toString(), stderr]).toEqual(["0\n", ""]);
  });

  test("is a specification in YAML with its description, too, and commands by their short names", async () => {
    await s3.createBucket("master.leaves");
    const file = join(scratchFolder(), "spec.yaml");
    writeFileSync(
      file,
      "pipeline: { name: trees }\ndescription: counts leaves\ntransform:\n  image: busybox\n  cmd: [sh]\n  stdin:\n    - |\n      wc -l /pfs/leaves/*\ninputs:\n  - repo: { name: leaves }\n    glob: /*\n",
    );
    await ok("pipeline", "create", "-f", file);
    expect(await ok("pipeline", "ls")).toMatch(/^trees .*counts leaves$/m);
    const { spec } = JSON.parse(await ok("pipeline", "get", "trees", "--json"));
    expect(spec.transform.stdin).toEqual(["wc -l /pfs/leaves/*\n"]);
    await ok("pipeline", "rm", "trees");
    expect((await cli("pipeline", "get", "trees")).code).toBe(7);
  });

  test("has every time in JSON as RFC 3339", async () => {
    await runner.heartbeat();
    await jobOver("zones", ["a"]);
    await succeedOne("zones");
    await control.ended("zones", { count: 1 });
    for (const command of [
      ...["ls s3://master.zones-in", "branch list zones-in", "commit inspect master.zones-in"],
      ...["job list", "node list", "pipeline inspect zones"],
    ]) {
      const text = await ok(...command.split(" "), "--json");
      const times = [...text.matchAll(/"\w*At":("[^"]*"|[\d.]+)/g)].map(([, value = ""]) => value);
      expect(times.length, command).toBeGreaterThan(0);
      const wrong = times.filter((time) => !/^"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z"$/.test(time));
      expect(wrong, command).toEqual([]);
    }
  });

  test("tells times in the zone of the machine, and says which", async () => {
    await s3.createBucket("master.zoned");
    const env = { ...sluiceEnv(server), TZ: "Asia/Kolkata" };
    const { stdout } = await run(sluiceCommand(["ls"]), { cwd: ROOT, env });
    expect(stdout.toString()).toMatch(/^\d{4}-\d\d-\d\d \d\d:\d\d:\d\d \+05:30 {2}s3:\/\/master\.zoned$/m);
  });

  test("names what is not there, and what is nearly called so", async () => {
    await s3.createBucket("master.csvs");
    await s3.put("master.csvs", "2026/prices.csv", "1");
    const said = async (...args: string[]): Promise<string> => {
      const { code, stderr } = await cli(...args);
      expect(code).toBe(7);
      return stderr;
    };
    expect(await said("ls", "s3://master.csv")).toBe(
      "error: there is no bucket s3://master.csv: did you mean s3://master.csvs?\n",
    );
    await ok("tag", "create", "v1", "master.csvs");
    for (const [command, place] of [
      ["ls", "s3://v1.csvs"],
      ["cat", "s3://v1.csvs/2026/prices.csv"],
    ] as const) {
      expect(await said(command, place)).toBe(
        "error: there is no bucket s3://v1.csvs: did you mean s3://v1.master.csvs?\n",
      );
    }
    expect(await said("cat", "s3://master.csvs/2026/price.csv")).toBe(
      "error: there is no file s3://master.csvs/2026/price.csv: did you mean s3://master.csvs/2026/prices.csv?\n",
    );
  });
});

// @module-tag rest
import { existsSync, mkdirSync, readdirSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { afterAll, beforeAll, beforeEach, describe, expect, test } from "vitest";
import { z } from "zod";
import { KeyCreated } from "../../../protocol/keys.ts";
import { DatumDetail, DatumPage, type Job } from "../../../protocol/pipelines.ts";
import { NodeList } from "../../../protocol/runner.ts";
import { Control } from "../../support/control.ts";
import {
  type DevServer,
  ROOT,
  sluiceCommand,
  sluiceEnv,
  startDevServer,
  startRunner,
} from "../../support/dev-server.ts";
import { findEngines } from "../../support/engines.ts";
import { eventually } from "../../support/eventually.ts";
import type { Door } from "../../support/keys.ts";
import { leftovers, NOTHING } from "../../support/leftovers.ts";
import { type Ended, run, type Started, start } from "../../support/processes.ts";
import { S3 } from "../../support/s3.ts";
import { removeScratch, scratchFolder } from "../../support/scratch.ts";
import { onTerminal } from "../../support/terminal.ts";

const HOST_VARIABLE = { docker: "DOCKER_HOST", podman: "CONTAINER_HOST" };
/** So that no test finds an engine that it was not given. */
const NO_ENGINES = { DOCKER_HOST: "unix:///nowhere", CONTAINER_HOST: "unix:///nowhere" };
const engines = await findEngines();

let server: DevServer;
let control: Control;
let s3: S3;
let runner: Started;
/** Where temporary files go. */
let tmp: string;
/** What commands look for on this machine, to behave otherwise here than in their job. */
let flags: string;

beforeAll(async () => {
  server = await startDevServer();
  control = new Control(server);
  s3 = new S3(server);
  runner = startRunner(server, { node: "replays" });
});
beforeEach(() => {
  tmp = scratchFolder();
  flags = scratchFolder();
});
afterAll(async () => {
  await runner?.stop();
  await server?.stop();
  for (const { engine } of engines) await engine?.close();
});

interface Asked {
  readonly door?: Door;
  readonly variables?: Readonly<Record<string, string>>;
}

function commandLine(args: readonly string[]): string[] {
  return sluiceCommand(["datum", "run", ...args]);
}

function environment({ door = server, variables = NO_ENGINES }: Asked = {}) {
  return { cwd: ROOT, env: { ...sluiceEnv(door), TMPDIR: tmp, ...variables } };
}

function replay(args: readonly string[], asked?: Asked): Promise<Ended> {
  return run(commandLine(["--executor", "process", ...args]), environment(asked));
}

const Report = z.object({
  result: z.enum(["same", "differs", "failed", "not-compared"]),
  version: z.int(),
  executor: z.string(),
  image: z.string().nullable(),
  out: z.string(),
  exitCode: z.int().nullable(),
  reason: z.string().nullable(),
  inJob: z.object({ state: z.string(), exitCode: z.int().nullable(), reason: z.string().nullable() }),
  notCompared: z.string().nullable(),
  outputs: z.array(z.object({ path: z.string(), state: z.string().nullable(), merged: z.boolean() })),
});

async function replayJson(args: readonly string[], asked?: Asked) {
  const { code, stdout, stderr } = await replay([...args, "--json"], asked);
  if (stdout.length === 0) throw new Error(`it ended with ${code}: ${stderr}`);
  return { code, stderr, report: Report.parse(JSON.parse(stdout.toString())) };
}

const statesOf = ({ outputs }: z.infer<typeof Report>) =>
  outputs.map(({ path, state }) => `${path} ${state}`);

/** Everything below a folder but folders that hold something, with the text of each file. */
function filesIn(folder: string): Record<string, string> {
  const entries = readdirSync(folder, { recursive: true, withFileTypes: true });
  return Object.fromEntries(
    entries.flatMap((entry) => {
      const path = join(entry.parentPath, entry.name);
      const shown = path.slice(folder.length + 1);
      if (entry.isFile()) return [[shown, readFileSync(path, "utf8")]];
      return readdirSync(path).length === 0 ? [[`${shown}/`, ""]] : [];
    }),
  );
}

function shell(name: string, script: readonly string[], more: object = {}): Record<string, unknown> {
  const { transform = {}, ...rest } = more as { transform?: object };
  return {
    pipeline: { name },
    transform: { image: "busybox", cmd: ["sh", "-eu"], stdin: script, ...transform },
    parallelism_spec: { strategy: "CONSTANT", constant: 1 },
    inputs: [{ repo: { name: `${name}-in` }, glob: "/*" }],
    datumTries: 1,
    ...rest,
  };
}

/** A pipeline over files of one input; its first job, once it has ended. */
async function jobOver(
  name: string,
  files: Readonly<Record<string, string>>,
  spec: Record<string, unknown>,
): Promise<Job> {
  await s3.createBucket(`master.${name}-in`);
  for (const [path, text] of Object.entries(files)) await s3.put(`master.${name}-in`, path, text);
  await control.createPipeline(spec);
  const [job] = await control.ended(name, { count: 1 });
  if (!job) throw new Error(`${name} has no job`);
  return job;
}

/** The id of the datum of a job whose first input is at a path. */
async function datumAt(job: string, path: string): Promise<string> {
  const { datums } = await control.call("GET", `/jobs/${job}/datums`, { answers: DatumPage });
  const found = datums.find(({ inputs }) => inputs[0]?.path === path);
  if (!found) throw new Error(`no datum at ${path}: ${JSON.stringify(datums)}`);
  return found.id;
}

async function updated(spec: object): Promise<void> {
  const { status, text } = await control.ask("POST", "/pipelines?update=true", spec);
  expect(status, text).toBe(200);
}

describe("sluice datum run", { timeout: 120_000 }, () => {
  test("lays out every input as the job read it, runs the command as the job did, and finds that it makes the same", async () => {
    const script = [
      "echo heard; echo aside >&2; pwd",
      'read line < "$files"; echo "$line" > /pfs/out/line',
      "cat /pfs/tree/deep/er/y /pfs/tree/empty > /pfs/out/deep",
      "ls -A /pfs/tree/hollow | wc -l > /pfs/out/hollow",
      'echo "$PACH_JOB_ID $PACH_DATUM_ID $SLUICE_PIPELINE $files_COMMIT $tree $FROM_SPEC" > /pfs/out/env',
      "mkdir -p /pfs/out/made/none; touch /pfs/out/void",
      "head -c 3000000 /dev/zero > /pfs/out/made/large",
      "exit 7",
    ];
    await s3.createBucket("master.tree");
    await s3.put("master.tree", "deep/er/y", "why\n");
    await s3.put("master.tree", "empty", "");
    await s3.put("master.tree", "hollow/", "");
    const job = await jobOver(
      "whole",
      { x: "one\n" },
      shell("whole", script, {
        transform: { env: { FROM_SPEC: "spec" }, acceptReturnCode: [7], workingDir: "/pfs/tree" },
        inputs: [
          { name: "files", repo: { name: "whole-in" }, glob: "/*", lazy: true },
          { repo: { name: "tree" }, glob: "/" },
        ],
      }),
    );
    expect(job).toMatchObject({ state: "success" });
    const datum = await datumAt(job.id, "x");
    // What the inputs have now is not what the job read.
    await s3.put("master.whole-in", "x", "two\n");
    await s3.delete("master.tree", "deep/er/y");
    await s3.put("master.tree", "hollow/full", "full");
    await control.ended("whole", { count: 4 });

    const out = join(scratchFolder(), "to/be/made");
    const { code, stdout, stderr } = await replay([job.id, datum.slice(0, 12), "--out", out]);
    expect({ code, stderr }).toMatchObject({ code: 0 });
    expect(stderr).toContain("as processes with your rights and this machine's tools");
    expect(stderr).toContain("(whole, version 1)");
    const printed = stdout.toString();
    expect(printed).toMatch(/^heard\naside\n\/pfs\/tree\n/);
    expect(printed).toContain(`outputs  ${out}\n`);
    expect(printed).toContain("result   the same as in the job: 7 same");
    const made = filesIn(out);
    expect(made).toMatchObject({ line: "one\n", deep: "why\n", hollow: "0\n", void: "", "made/none/": "" });
    expect(made.env).toBe(
      `${job.id} ${datum} whole ${job.inputs.find(({ name }) => name === "files")?.commit} /pfs/tree spec\n`,
    );
    expect(made["made/large"]).toHaveLength(3_000_000);
    expect(await leftovers({ folder: tmp })).toEqual(NOTHING);
  });

  test("runs the version that the job had, and compares with its commit what is kept of that", async () => {
    const job = await jobOver(
      "versions",
      { a: "a\n", b: "b\n" },
      shell("versions", [
        'cat "$versions_in" | tee -a /pfs/out/all > "/pfs/out/first-$(basename $versions_in)"',
      ]),
    );
    await updated(shell("versions", ["echo second > /pfs/out/second"]));
    await control.ended("versions", { count: 2 });
    const datum = await datumAt(job.id, "a");
    await eventually("the results of the first version are gone", async () => {
      const path = `/jobs/${job.id}/datums/${datum}`;
      const { outputs } = await control.call("GET", path, { answers: DatumDetail });
      return outputs === "paths";
    });
    const { code, report } = await replayJson([job.id, datum]);
    expect(code).toBe(0);
    expect(report).toMatchObject({ version: 1, result: "same" });
    // Of what several datums wrote, their parts are kept no more.
    expect(report.outputs).toMatchObject([
      { path: "all", state: "unknown", merged: true },
      { path: "first-a", state: "same", merged: false },
    ]);
    expect(filesIn(report.out)).toEqual({ all: "a\n", "first-a": "a\n" });
  });

  test("compares its own part of a file that several datums wrote, and says so", async () => {
    const job = await jobOver(
      "together",
      { a: "a\n", b: "b\n" },
      shell("together", ['cat "$together_in" > /pfs/out/all']),
    );
    expect(String(await s3.get("master.together", "all"))).toBe("a\nb\n");
    const { code, stdout } = await replay([job.id, await datumAt(job.id, "b")]);
    expect(code).toBe(0);
    expect(stdout.toString()).toMatch(
      /^same +all +2 B [0-9a-f]{12}; other datums of the job wrote there, too/m,
    );
  });

  test("ends with 4 if it makes something else, and tells each path's fate", async () => {
    const job = await jobOver(
      "fickle",
      { a: "1" },
      shell("fickle", [
        "echo always > /pfs/out/same",
        `if [ -e ${flags}/here ]; then echo here > /pfs/out/changed; echo here > /pfs/out/only-here`,
        "else echo job > /pfs/out/changed; echo job > /pfs/out/only-there; fi",
      ]),
    );
    writeFileSync(join(flags, "here"), "");
    const datum = await datumAt(job.id, "a");
    const { code, report } = await replayJson([job.id, datum]);
    expect({ code, result: report.result }).toEqual({ code: 4, result: "differs" });
    expect(statesOf(report)).toEqual([
      "changed differs",
      "only-here extra",
      "only-there missing",
      "same same",
    ]);
    const inWords = await replay([job.id, datum]);
    expect(inWords.code).toBe(4);
    expect(inWords.stdout.toString()).toMatch(
      /^differs +changed +5 B [0-9a-f]{12} here, 4 B [0-9a-f]{12} in the job$/m,
    );
    expect(inWords.stdout.toString()).toContain("result   not the same as in the job: ");
  });

  test("ends with 3 if the command fails, shows what it left, and what became of it in the job", async () => {
    const job = await jobOver(
      "broken",
      { a: "1" },
      shell("broken", ["echo half > /pfs/out/half; echo dying", `[ -e ${flags}/mended ] || exit 9`]),
    );
    expect(job.state).toBe("failure");
    const datum = await datumAt(job.id, "a");
    const failed = await replay([job.id, datum]);
    expect(failed.code).toBe(3);
    const said = failed.stdout.toString();
    expect(said).toContain("dying\nfailed   the command ended with exit code 9\n");
    expect(said).toContain("in job   failed: the command ended with exit code 9\n");
    expect(filesIn(/^outputs {2}(.*)$/m.exec(said)?.[1] ?? "")).toEqual({ half: "half\n" });

    writeFileSync(join(flags, "mended"), "");
    const { code, report } = await replayJson([job.id, datum]);
    expect(code).toBe(0);
    expect(report).toMatchObject({
      result: "not-compared",
      exitCode: 0,
      inJob: { state: "failed", exitCode: 9 },
    });
    expect(report.notCompared).toBe("the job has nothing of this datum, which is failed there");
  });

  test("holds the command to the time and the bounds that it has", async () => {
    const job = await jobOver(
      "bounded",
      { a: "1" },
      shell("bounded", [`[ -e ${flags}/slow ] && sleep 600`, "head -c 2000000 /dev/zero > /pfs/out/x"], {
        datumTimeout: "3s",
      }),
    );
    const datum = await datumAt(job.id, "a");
    const large = await replayJson([job.id, datum, "--disk", "1m"]);
    expect(large).toMatchObject({ code: 3, report: { result: "failed" } });
    expect(large.report.reason).toMatch(/larger than 1m|more than 1m|1 MiB|1m/i);
    writeFileSync(join(flags, "slow"), "");
    const late = await replayJson([job.id, datum]);
    expect(late).toMatchObject({
      code: 3,
      report: { reason: "the command ran longer than 3s (datumTimeout)" },
    });
  });

  test("takes secrets from --secrets alone, and else refuses them by name", async () => {
    const secrets = scratchFolder();
    mkdirSync(join(secrets, "db"));
    writeFileSync(join(secrets, "db", "password"), "hush");
    const job = await jobOver(
      "hidden",
      { a: "1" },
      shell("hidden", ["wc -c < /run/db/password > /pfs/out/length"], {
        transform: { secrets: [{ name: "db", mountPath: "/run/db" }] },
      }),
    );
    expect(job.state).toBe("failure");
    const datum = await datumAt(job.id, "a");
    const refused = await replay([job.id, datum], { variables: { ...NO_ENGINES, SLUICE_SECRETS: secrets } });
    expect(refused.code).toBe(1);
    expect(refused.stderr).toContain('asks for the secret "db": name with --secrets a folder');
    const { code, report } = await replayJson([job.id, datum, "--secrets", secrets]);
    expect(code).toBe(0);
    expect(filesIn(report.out)).toEqual({ length: "4\n" });
    const nothing = await replay([job.id, datum, "--secrets", join(secrets, "none")]);
    expect(nothing).toMatchObject({ code: 2, stderr: expect.stringContaining("which is no folder") });
    writeFileSync(join(secrets, "db", "password"), `key=${server.secretAccessKey}`);
    const own = await replay([job.id, datum, "--secrets", secrets]);
    expect(own).toMatchObject({ code: 1, stderr: expect.stringContaining('secret "db" holds the key') });
    writeFileSync(join(secrets, "db.pipelines"), "another\n");
    writeFileSync(join(secrets, "db", "password"), "hush");
    const others = await replay([job.id, datum, "--secrets", secrets]);
    expect(others.code).toBe(1);
    expect(others.stderr).toContain('secret "db" does not serve the pipeline "hidden"');
    removeScratch(secrets);
  });

  test("needs only read on the pipeline and its inputs, and records nothing", async () => {
    const job = await jobOver("quiet", { a: "1" }, shell("quiet", ["cp $quiet_in /pfs/out/"]));
    const datum = await datumAt(job.id, "a");
    const state = async () => ({
      jobs: await control.jobs("quiet"),
      datums: (await control.ask("GET", `/jobs/${job.id}/datums`)).text,
      logs: (await control.ask("GET", `/jobs/${job.id}/logs`)).text,
      output: await s3.headCommit("master.quiet"),
      nodes: (await control.call("GET", "/nodes", { answers: NodeList })).nodes.map((node) => node.name),
    });
    const before = await state();
    const keyFor = async (...repos: string[]): Promise<Door> => {
      const body = { level: "read", repos };
      const { id, secret } = await control.call("POST", "/keys", { body, answers: KeyCreated });
      return { endpoint: server.endpoint, accessKeyId: id, secretAccessKey: secret };
    };
    const reader = await keyFor("quiet", "quiet-in");
    expect(await replayJson([job.id, datum], { door: reader })).toMatchObject({
      code: 0,
      report: { result: "same" },
    });
    expect(await state()).toEqual(before);
    const blind = await replay([job.id, datum], { door: await keyFor("quiet") });
    expect(blind).toMatchObject({
      code: 1,
      stderr: expect.stringContaining("needs read in the repo 'quiet-in'"),
    });
    const { id, secret } = await control.call("POST", "/keys", {
      body: { level: "runner" },
      answers: KeyCreated,
    });
    const agent = { endpoint: server.endpoint, accessKeyId: id, secretAccessKey: secret };
    expect((await replay([job.id, datum], { door: agent })).code).toBe(1);
  });

  test("runs a datum of a job that goes on, and says that there is nothing to compare with", async () => {
    await s3.createBucket("master.going-in");
    await s3.put("master.going-in", "a", "1");
    await control.createPipeline(
      shell("going", [`[ -e ${flags}/here ] || { touch ${flags}/waits; sleep 600; }`, "echo x > /pfs/out/x"]),
    );
    const running = await eventually("the datum runs", async () => {
      const [job] = await control.jobs("going");
      if (job === undefined || !existsSync(join(flags, "waits"))) return undefined;
      const { datums } = await control.call("GET", `/jobs/${job.id}/datums`, { answers: DatumPage });
      return datums[0]?.state === "running" ? { job: job.id, datum: datums[0].id } : undefined;
    });
    writeFileSync(join(flags, "here"), "");
    const { code, report } = await replayJson([running.job, running.datum]);
    expect(code).toBe(0);
    expect(report.notCompared).toBe("the job has nothing of this datum, which is running there");
    await control.deletePipeline("going");
    const gone = await replay([running.job, running.datum]);
    expect(gone.code).toBe(7);
    expect(gone.stderr).toContain(`There is no job '${running.job}'`);
  });

  test("refuses what was typed wrong before anything runs", async () => {
    const job = await jobOver("wrong", { a: "1" }, shell("wrong", [`touch ${flags}/ran`, "true"]));
    const datum = await datumAt(job.id, "a");
    const ran = () => existsSync(join(flags, "ran")) && readdirSync(flags);
    const first = ran();
    const full = scratchFolder();
    writeFileSync(join(full, "mine"), "mine");
    const refusals: [string[], number, string][] = [
      [[job.id, datum, "--out", full], 2, `--out is "${full}", which is not empty (it holds "mine")`],
      [[job.id, datum, "--out", join(full, "mine")], 2, "which can't be a folder of outputs (ENOTDIR)"],
      [[job.id, datum, "--image", "other"], 2, "--image is for containers"],
      [[job.id, datum, "--network", "none"], 2, "--network"],
      [[job.id, datum, "--shell"], 2, "--shell is for a terminal"],
      [[job.id, datum, "--shell", "--json"], 2, "leave out --json"],
      [[job.id, "0".repeat(64)], 7, `sluice job datums ${job.id}`],
      [[job.id, "a datum"], 1, "can't be a datum"],
      [["01AAAAAAAAAAAAAAAAAAAAAAAA", datum], 7, "There is no job"],
    ];
    for (const [args, code, text] of refusals) {
      const ended = await replay(args);
      expect(ended, args.join(" ")).toMatchObject({ code, stderr: expect.stringContaining(text) });
    }
    expect(ran()).toEqual(first);
    expect(filesIn(full)).toEqual({ mine: "mine" });
    expect(await leftovers({ folder: tmp })).toEqual(NOTHING);
  });

  test("takes processes by itself only for the gateway that sluice dev runs here, and says so", async () => {
    const job = await jobOver("chosen", { a: "1" }, shell("chosen", ["echo x > /pfs/out/x"]));
    const args = [job.id, await datumAt(job.id, "a")];
    const elsewhere = await run(commandLine(args), environment());
    expect(elsewhere).toMatchObject({
      code: 2,
      stderr: expect.stringContaining("no container engine answers here"),
    });
    const here = await run(commandLine([...args, "--data", server.data]), environment());
    expect(here.code).toBe(0);
    expect(here.stderr).toContain("as processes with your rights");
    expect(here.stderr).toContain("since no container engine answers here");
    await updated(shell("chosen", ["echo y > /pfs/out/x"], { transform: { container: "required" } }));
    const second = await eventually("the second job is there", async () => (await control.jobs("chosen"))[1]);
    const next = await eventually("its datum is there", () => datumAt(second.id, "a").catch(() => undefined));
    const required = await replay([second.id, next]);
    expect(required.code).toBe(1);
    expect(required.stderr).toContain("demands a container");
    await control.deletePipeline("chosen");
  });

  test("leaves nothing behind when Ctrl-C stops it, and what a killed one left goes with the next", async () => {
    const job = await jobOver(
      "stopped",
      { a: "1" },
      shell("stopped", [`[ -e ${flags}/wait ] || exit 0`, "echo begun", "sleep 600"]),
    );
    const datum = await datumAt(job.id, "a");
    writeFileSync(join(flags, "wait"), "");
    const begin = async (): Promise<Started> => {
      const started = start(commandLine([job.id, datum, "--executor", "process"]), environment());
      await eventually("it has begun", () => started.output().includes("begun\n"));
      return started;
    };
    const interrupted = await begin();
    expect((await leftovers({ folder: tmp })).files).not.toEqual([]);
    interrupted.signal("SIGINT");
    const { signal, stderr } = await interrupted.ended;
    expect({ signal, stderr }).toEqual({
      signal: "SIGINT",
      stderr: expect.stringContaining("stopped by a signal"),
    });
    expect(await leftovers({ folder: tmp })).toEqual(NOTHING);

    await (await begin()).kill9();
    expect((await leftovers({ folder: tmp })).files).not.toEqual([]);
    const next = await begin();
    next.signal("SIGTERM");
    await next.ended;
    // The folder for outputs is the user's, whoever was killed: it is empty here.
    const left = await leftovers({ folder: tmp });
    expect({ ...left, files: left.files.filter((file) => !file.startsWith("d sluice-out-")) }).toEqual(
      NOTHING,
    );
  });

  test("opens a shell on the terminal in place of the command, with /pfs laid out, and keeps what is in /pfs/out", async () => {
    const job = await jobOver(
      "typed",
      { a: "the input\n" },
      shell("typed", ["echo the-command-ran", "cp $typed_in /pfs/out/a"], {
        transform: { env: { FROM_SPEC: "spec" } },
      }),
    );
    const out = join(scratchFolder(), "out");
    const args = [job.id, await datumAt(job.id, "a"), "--executor", "process", "--shell", "--out", out];
    await playShell(commandLine(args), { out });
    expect(await leftovers({ folder: tmp })).toEqual(NOTHING);
  });
});

/** Types at the shell of a replay whose input is `$typed_in`: it is a real terminal, with its keys. */
async function playShell(
  command: readonly string[],
  { out, asked }: { out: string; asked?: Asked },
): Promise<void> {
  const program = onTerminal(command, environment(asked));
  await program.shows("this is a shell in its place");
  program.type('cat "$typed_in"; test -t 0 && test -t 1 && echo on-a-$((1 + 1))-terminal $FROM_SPEC\n');
  await program.shows("on-a-2-terminal spec");
  expect(program.screen()).toContain("the input");
  // Ctrl-C is for what runs in the shell.
  program.type("echo sleeping-$((2 + 1)); sleep 600\n");
  await program.shows("sleeping-3");
  program.type("\x03");
  program.type("echo alive-$((3 + 1)); echo kept > /pfs/out/kept; exit 5\n");
  await program.shows("alive-4");
  expect(await program.ended, program.screen()).toBe(0);
  expect(filesIn(out)).toEqual({ kept: "kept\n" });
  expect(program.screen()).not.toMatch(/^the-command-ran/m);
  expect(program.screen()).toMatch(/^extra +kept/m);
  expect(program.screen()).toMatch(/^missing +a /m);
}

for (const { name, engine } of engines) {
  describe(`sluice datum run in containers of ${name}`, { timeout: 240_000 }, () => {
    const variables = { ...NO_ENGINES, ...(engine && { [HOST_VARIABLE[name]]: engine.host }) };
    const inContainer = (...args: string[]) => run(commandLine(args), environment({ variables }));
    const left = () => leftovers({ folder: tmp, ...(engine && { engine }) });

    /** Does `work` with a runner of that engine, the only one there is. */
    async function withAgent<T>(node: string, work: () => Promise<T>): Promise<T> {
      await runner.stop();
      const agent = startRunner(server, { node, executor: name, variables });
      try {
        return await work();
      } finally {
        await agent.stop();
      }
    }

    test.skipIf(!engine)(
      `${name}: runs in the image of the pipeline or in another one, makes the same, and leaves no container`,
      async () => {
        const image = (await engine?.image("settings")) ?? "";
        const pipeline = `boxed-${name}`;
        const script = [
          "cat /pfs/boxed/a; pwd; echo from-${FROM_IMAGE:-no-image}",
          "tr a-z A-Z < /pfs/boxed/a > /pfs/out/A",
        ];
        const spec = shell(pipeline, script, {
          transform: { image },
          inputs: [{ name: "boxed", repo: { name: `${pipeline}-in` }, glob: "/*" }],
        });
        const job = await withAgent(pipeline, () => jobOver(pipeline, { a: "one\n" }, spec));
        expect(job).toMatchObject({ state: "success", reason: null });
        const datum = await datumAt(job.id, "a");
        const auto = await inContainer(job.id, datum);
        expect(auto.code, auto.stderr).toBe(0);
        expect(auto.stderr).toContain(`in containers of ${name}`);
        expect(auto.stdout.toString()).toMatch(/^one\n\/tmp\nfrom-image\n/);
        const bare = (await engine?.image("busybox")) ?? "";
        const other = await inContainer(job.id, datum, "--image", bare, "--network", "none", "--json");
        expect(other.code, other.stderr).toBe(0);
        expect(other.stderr).toContain("from-no-image\n");
        const report = Report.parse(JSON.parse(other.stdout.toString()));
        expect(report).toMatchObject({ result: "same", executor: name, image: bare });
        expect(filesIn(report.out)).toEqual({ A: "ONE\n" });
        const { files, ...rest } = await left();
        expect({ ...rest, files: files.filter((file) => !file.includes("sluice-out-")) }).toEqual(NOTHING);
      },
    );

    test.skipIf(!engine)(`${name}: Ctrl-C leaves no container`, async () => {
      await runner.stop();
      const image = (await engine?.image("busybox")) ?? "";
      const pipeline = `held-${name}`;
      await s3.createBucket(`master.${pipeline}-in`);
      await s3.put(`master.${pipeline}-in`, "a", "1");
      await control.createPipeline(shell(pipeline, ["echo begun", "sleep 600"], { transform: { image } }));
      const job = await eventually("the job is there", async () => (await control.jobs(pipeline))[0]);
      const datum = await eventually("its datum is there", () => datumAt(job.id, "a").catch(() => undefined));
      const started = start(commandLine([job.id, datum, "--executor", name]), environment({ variables }));
      await eventually("it has begun", () => {
        if (started.output().includes("begun\n")) return true;
        throw new Error(started.output());
      });
      expect((await left()).containers).toHaveLength(1);
      started.signal("SIGINT");
      expect((await started.ended).signal).toBe("SIGINT");
      expect(await left()).toEqual(NOTHING);
      await control.deletePipeline(pipeline);
    });

    test.skipIf(!engine)(`${name}: opens a shell in a container on the terminal`, async () => {
      const image = (await engine?.image("busybox")) ?? "";
      const pipeline = `typed-${name}`;
      const spec = shell(pipeline, ["echo the-command-ran", "cp $typed_in /pfs/out/a"], {
        transform: { image, env: { FROM_SPEC: "spec" } },
        inputs: [{ name: "typed_in", repo: { name: `${pipeline}-in` }, glob: "/*" }],
      });
      const job = await withAgent(pipeline, () => jobOver(pipeline, { a: "the input\n" }, spec));
      const out = join(scratchFolder(), "out");
      const args = [job.id, await datumAt(job.id, "a"), "--executor", name, "--shell", "--out", out];
      await playShell(commandLine(args), { out, asked: { variables } });
      expect(await left()).toEqual(NOTHING);
    });
  });
}

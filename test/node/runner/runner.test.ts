import { existsSync } from "node:fs";
import { readdir, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { afterEach, beforeEach, describe, expect, test, vi } from "vitest";
import { LOG_TAIL_BYTES, MAX_BATCH, type Outcome } from "../../../protocol/runner.ts";
import { findTool } from "../../../runner/lib/system-calls.ts";
import { REST } from "../../support/suite.ts";
import { Answer, refusal } from "./support/fake-gateway.ts";
import { stillRuns } from "./support/processes.ts";
import { Stage, soon } from "./support/running.ts";

const absent = (await findTool("bwrap")) === undefined && (await findTool("setpriv")) === undefined;
const needs = test.skipIf(absent);
const ANY_TOOL = "bubblewrap or unshare";

let stage: Stage;
beforeEach(async () => {
  stage = await Stage.open();
});
afterEach(async () => {
  vi.restoreAllMocks();
  await stage.close();
});

/** Batches take a hundredth of their time by the agent's clock: on a busy machine they are as short as on another. */
function haveShortBatches(): void {
  const now = performance.now.bind(performance);
  vi.spyOn(performance, "now").mockImplementation(() => now() / 100);
}

function sh(script: string): void {
  stage.gateway.transform = { image: "any", cmd: ["sh"], stdin: script.split("\n") };
}

function failures(): Extract<Outcome, { state: "failed" }>[] {
  return stage.gateway.outcomes.filter((outcome) => outcome.state === "failed");
}

/** The text of one output of the only success. */
function outputText(path: string): string | undefined {
  const outcome = stage.gateway.outcomes.find(({ state }) => state === "success");
  return outcome && stage.gateway.outputBytes(outcome, path)?.toString();
}

describe(`an agent (${ANY_TOOL})`, () => {
  needs("runs each datum on its own input and reports what it wrote", async () => {
    sh('tr a-z A-Z < "$in" > "/pfs/out/$(basename $in)"');
    stage.gateway.add("one", "two", "three");
    await stage.runner();
    await stage.reported(3);
    const written = stage.gateway.outcomes.map((outcome) => {
      if (outcome.state !== "success") throw new Error(JSON.stringify(outcome));
      const [output] = outcome.outputs;
      return [output?.path, stage.gateway.outputBytes(outcome, output?.path ?? "")?.toString()];
    });
    expect(written).toEqual([
      ["one", "CONTENT OF ONE"],
      ["two", "CONTENT OF TWO"],
      ["three", "CONTENT OF THREE"],
    ]);
  });

  needs("gives the command its lines, its variables, and `/` to work in, and no key", async () => {
    const env = { GREETING: "hello" };
    const stdin = [
      "{ pwd",
      'echo "$GREETING $SLUICE_PIPELINE $SLUICE_JOB_ID $SLUICE_DATUM_ID"',
      'echo "$in $in_COMMIT"',
      "env",
      "} > /pfs/out/told",
    ];
    stage.gateway.transform = { image: "any", cmd: ["sh"], stdin, env };
    stage.gateway.add("a");
    process.env.SLUICE_SECRET_ACCESS_KEY = "hush";
    await stage.runner();
    await stage.reported(1);
    delete process.env.SLUICE_SECRET_ACCESS_KEY;
    const told = outputText("told") ?? "";
    expect(told.split("\n").slice(0, 3)).toEqual(["/", "hello edges job-1 datum-1", "/pfs/in/a c1"]);
    expect(told).not.toContain("hush");
  });

  needs(
    "leaves a pipeline that is stopped while a command runs: what it runs ends, and its slot is free",
    async () => {
      sh("sleep 600");
      stage.gateway.add("a");
      await stage.runner();
      await soon(() => stage.gateway.held.size).toBe(1);
      // The gateway has taken the lease back and wants no workers: the next heartbeat says so.
      stage.gateway.held.clear();
      stage.gateway.workers = [];
      const beats = (): number =>
        stage.gateway.requests.filter((request) => request.endsWith("/runner/heartbeat")).length;
      const before = beats();
      await soon(() => stage.gateway.left.length).toBe(1);
      // Not only with the next renewal, which comes several heartbeats later.
      expect(beats() - before).toBeLessThan(4);
      expect(stage.gateway.outcomes).toEqual([]);
    },
  );

  needs("kills a command that runs longer than it may, with all that it started, and says so", async () => {
    sh("case $(basename $in) in slow) echo begun; sleep 600 & sleep 600 ;; *) touch /pfs/out/quick ;; esac");
    stage.gateway.datumTimeout = "4s500ms";
    stage.gateway.add("slow", "quick");
    await stage.runner();
    await stage.reported(2);
    expect(failures()).toMatchObject([
      {
        exitCode: null,
        reason: "the command ran longer than 4s500ms (datumTimeout)",
        blame: "datum",
        log: "begun\n",
      },
    ]);
    expect(outputText("quick")).toBe("");
  });

  needs("starts a command in the folder that the spec names", async () => {
    const cmd = ["sh", "-c", "pwd > told"];
    stage.gateway.transform = { image: "any", cmd, workingDir: "/pfs/out" };
    stage.gateway.add("a");
    await stage.runner();
    await stage.reported(1);
    expect(outputText("told")).toBe("/pfs/out\n");
  });

  needs("uploads large outputs under the lease before it reports them", async () => {
    sh("head -c 3000000 /dev/zero | tr '\\0' x > /pfs/out/large");
    stage.gateway.add("a");
    await stage.runner();
    await stage.reported(1);
    expect(outputText("large")).toBe("x".repeat(3_000_000));
    expect([...stage.gateway.uploads.values()].map(({ lease }) => lease)).toEqual([
      stage.gateway.outcomes[0]?.lease,
    ]);
  });

  needs("reports exit codes as the spec says", async () => {
    stage.gateway.transform = { image: "any", cmd: ["sh", "-c", 'exit "$(cat $in)"'], acceptReturnCode: [3] };
    for (const code of ["0", "3", "4"]) {
      stage.gateway.addDatum({ path: "code", kind: "file", content: stage.gateway.store(code) });
    }
    await stage.runner();
    await stage.reported(3);
    expect(stage.gateway.outcomes).toMatchObject([
      { state: "success", exitCode: 0 },
      { state: "success", exitCode: 3 },
      { state: "failed", exitCode: 4, reason: "the command ended with exit code 4" },
    ]);
  });

  needs("keeps the end of a failed command's log, however long it is", REST, async () => {
    sh("yes | head -c 100000000; echo the cause >&2; exit 1");
    stage.gateway.add("a");
    await stage.runner();
    await stage.reported(1);
    expect(failures()[0]?.log).toHaveLength(LOG_TAIL_BYTES);
    expect(failures()[0]?.log.endsWith("y\nthe cause\n")).toBe(true);
  });

  needs("says of a command that is not found where it was looked for", async () => {
    stage.gateway.transform = { image: "python:3.12", cmd: ["no-such-tool"] };
    stage.gateway.add("a");
    await stage.runner();
    await stage.reported(1);
    expect(failures()[0]).toMatchObject({ exitCode: null, blame: "node" });
    expect(failures()[0]?.reason).toMatch(/"no-such-tool".* ignores the image and uses this machine's tools/);
  });

  needs(
    "fails the datum, naming the path, where the output is a trap, and goes on with the next",
    async () => {
      sh(
        [
          "case $(basename $in) in",
          "link) ln -s /etc/shadow /pfs/out/trap ;;",
          "pipe) mkfifo /pfs/out/trap ;;",
          "newline) touch \"/pfs/out/trap$(printf '\\nx')\" ;;",
          "bytes) touch \"/pfs/out/trap$(printf '\\377')\" ;;",
          "good) touch /pfs/out/fine ;;",
          "esac",
        ].join("\n"),
      );
      stage.gateway.add("link", "pipe", "newline", "bytes", "good");
      await stage.runner();
      await stage.reported(5);
      expect(failures().map(({ reason }) => reason)).toEqual([
        expect.stringContaining('output "trap" is a symbolic link'),
        expect.stringContaining('output "trap" is a symbolic link, a pipe'),
        expect.stringContaining('"trap\\nx" can\'t be stored'),
        expect.stringContaining('"trap\\xff" has a name that is not valid UTF-8'),
      ]);
      expect(new Set(failures().map(({ blame }) => blame))).toEqual(new Set(["datum"]));
      expect(stage.gateway.outcomes.at(-1)).toMatchObject({ state: "success", outputs: [{ path: "fine" }] });
    },
  );

  needs("fails the datum, naming the cause, where its input stays damaged", REST, async () => {
    stage.gateway.add("a");
    stage.gateway.before = ({ path }) =>
      path.includes("/contents/") ? new Answer(200, "damaged") : undefined;
    await stage.runner();
    await stage.reported(1);
    expect(failures()[0]?.reason).toMatch(
      /the inputs could not be laid out: content [0-9a-f]{64}-12 came damaged/,
    );
    expect(failures()[0]?.blame).toBe("node");
  });

  needs("fetches a content once, however many datums read it, and never again", REST, async () => {
    for (let i = 0; i < 20; i += 1) {
      stage.gateway.addDatum({ path: `f${i}`, kind: "file", content: stage.gateway.store("the same") });
    }
    stage.gateway.workers = [{ pipeline: "edges", count: 3 }];
    const runner = await stage.runner();
    await stage.reported(20);
    runner.drain();
    await runner.done;
    stage.gateway.add();
    stage.gateway.addDatum({ path: "f", kind: "file", content: stage.gateway.store("the same") });
    await stage.runner();
    await stage.reported(21);
    expect(stage.gateway.requests.filter((request) => request.includes("/contents/"))).toHaveLength(1);
  });

  needs("leases more at a time while datums are short, and reports them together", REST, async () => {
    haveShortBatches();
    stage.gateway.add(...Array.from({ length: 100 }, (_, i) => `f${i}`));
    await stage.runner();
    await stage.reported(100);
    const asked = stage.gateway.leased.map(({ max }) => max);
    expect(asked[0]).toBe(1);
    expect(Math.max(...asked)).toBeGreaterThan(4);
    expect(Math.max(...asked)).toBeLessThanOrEqual(MAX_BATCH);
    const calls = stage.gateway.requests.filter((request) => request.endsWith("/finish"));
    expect(calls.length).toBeLessThan(50);
  });

  needs("gives back the datums that would wait behind a long one", REST, async () => {
    sh("case $in in */long) sleep 1000 ;; esac");
    stage.gateway.add(...Array.from({ length: 40 }, (_, i) => (i === 20 ? "long" : `f${i}`)));
    await stage.runner();
    await stage.runner({ node: "n2" });
    await stage.reported(39);
    expect(stage.gateway.held.size).toBe(1);
  });

  needs("keeps as many workers as it is told, each under a name of its own", REST, async () => {
    sh("sleep 0.05");
    const feed = () => stage.gateway.add(...Array.from({ length: 30 }, (_, i) => `f${i}`));
    stage.gateway.workers = [{ pipeline: "edges", count: 3 }];
    await stage.runner();
    feed();
    await stage.reported(30);
    const workers = new Set(stage.gateway.leased.map(({ worker }) => worker));
    expect(workers.size).toBe(3);
    for (const worker of workers) expect(worker).toMatch(/^n1\/edges\/[012]\/[0-9a-f]{12}$/);
  });

  needs("drops the workers of a pipeline that is gone, and takes those of a new one", REST, async () => {
    stage.gateway.workers = [{ pipeline: "gone", count: 2 }];
    await stage.runner();
    await soon(() => stage.gateway.requests).toContain("POST /api/v1/runner/lease");
    stage.gateway.workers = [{ pipeline: "edges", count: 1 }];
    stage.gateway.add("a");
    await stage.reported(1);
  });
});

describe(`leases (${ANY_TOOL})`, () => {
  needs(
    "are renewed while a command runs; one that is lost stops its command, which then reports nothing",
    REST,
    async () => {
      const mark = `sluice-test-${process.pid}-${Date.now()}`;
      sh(`case $in in */stuck) sh -c 'trap "" TERM; while :; do sleep 0.05; done; : ${mark}' ;; esac`);
      stage.gateway.add("stuck");
      await stage.runner();
      await soon(() => stillRuns(mark)).toBe(true);
      stage.gateway.lose(...stage.gateway.held.keys());
      await soon(() => stillRuns(mark)).toBe(false);
      stage.gateway.add("next");
      await stage.reported(1);
      expect(stage.gateway.requests).toContain("POST /api/v1/runner/renew");
      expect(stage.gateway.outcomes).toMatchObject([{ state: "success" }]);
      expect(stage.gateway.lostOutcomes).toEqual([]);
    },
  );

  needs("a result whose lease was lost meanwhile is let go", REST, async () => {
    stage.gateway.add("a");
    stage.gateway.before = ({ path }) => {
      if (path.endsWith("/finish")) stage.gateway.lose(...stage.gateway.held.keys());
    };
    await stage.runner();
    await soon(() => stage.gateway.lostOutcomes.length).toBe(1);
    stage.gateway.before = () => undefined;
    stage.gateway.add("b");
    await stage.reported(1);
    expect(stage.gateway.outcomes).toHaveLength(1);
  });

  needs(
    "a result that the gateway refuses becomes its datum's failure, and takes no other with it",
    async () => {
      sh("echo x > /pfs/out/$(basename $in)");
      stage.gateway.before = ({ path, body }) =>
        path.endsWith("/finish") && body.includes('"path":"bad"')
          ? refusal(400, "no such path here")
          : undefined;
      stage.gateway.add("a", "b", "bad", "c", "d");
      await stage.runner();
      await stage.reported(5);
      expect(failures().map(({ reason }) => reason)).toEqual([
        "the gateway refused the datum's result: no such path here",
      ]);
    },
  );
});

describe(`outages (${ANY_TOOL})`, () => {
  needs("a gateway that goes away and comes back finds the results of what ran meanwhile", REST, async () => {
    sh('touch "$GATE.up"; while [ ! -e "$GATE" ]; do sleep 0.02; done; touch "$GATE.passed"');
    stage.gateway.transform = { ...stage.gateway.transform, env: { GATE: stage.gate } };
    stage.gateway.add("a", "b", "c");
    await stage.runner();
    await soon(() => existsSync(`${stage.gate}.up`)).toBe(true);
    await stage.gateway.stop();
    await writeFile(stage.gate, "");
    await soon(() => existsSync(`${stage.gate}.passed`)).toBe(true);
    await stage.gateway.start();
    await stage.reported(3);
    expect(failures()).toEqual([]);
  });

  needs("answers of 5xx to every other call do no harm", REST, async () => {
    // Counted per request: over all of them, one that is unlucky could meet nothing but refusals.
    const calls = new Map<string, number>();
    stage.gateway.before = ({ method, path, query }) => {
      const request = `${method} ${path}?${query}`;
      calls.set(request, (calls.get(request) ?? 0) + 1);
      return (calls.get(request) ?? 0) % 2 === 1 ? refusal(503, "busy") : undefined;
    };
    sh("head -c 10000 /dev/zero > /pfs/out/$(basename $in)");
    stage.gateway.add("a", "b", "c", "d");
    await stage.runner();
    await stage.reported(4);
    expect(failures()).toEqual([]);
  });

  needs("a gateway that is down at the start is waited for", REST, async () => {
    await stage.gateway.stop();
    stage.gateway.add("a");
    await stage.runner();
    await stage.gateway.start();
    await stage.reported(1);
  });
});

describe(`stopping (${ANY_TOOL})`, () => {
  needs("draining finishes the running datum, gives back the others, and says good-bye", async () => {
    sh('case $in in */slow) touch "$GATE.up"; while [ ! -e "$GATE" ]; do sleep 0.02; done ;; esac');
    stage.gateway.transform = { ...stage.gateway.transform, env: { GATE: stage.gate } };
    stage.gateway.add("slow", "b", "c");
    const runner = await stage.runner();
    await soon(() => existsSync(`${stage.gate}.up`)).toBe(true);
    runner.drain();
    await soon(() => stage.gateway.requests).toContain("DELETE /api/v1/runner/heartbeat");
    expect([...stage.gateway.nodes]).toEqual([]);
    await writeFile(stage.gate, "");
    await runner.done;
    expect(stage.gateway.left).toHaveLength(1);
    expect(stage.gateway.outcomes).toMatchObject([{ state: "success" }]);
    expect(stage.gateway.queue.map(({ inputs }) => inputs[0]?.path)).toEqual(["b", "c"]);
    expect(await leftovers()).toEqual([]);
  });

  needs("draining in the middle of a batch gives back what has not begun", REST, async () => {
    haveShortBatches();
    stage.gateway.add(...Array.from({ length: 400 }, (_, i) => `f${i}`));
    const runner = await stage.runner();
    await soon(() => stage.gateway.leased.some(({ count }) => count >= 8)).toBe(true);
    runner.drain();
    await runner.done;
    expect(stage.gateway.held.size).toBe(0);
    const done = stage.gateway.outcomes.filter(({ state }) => state === "success").length;
    expect(done + stage.gateway.queue.length).toBe(400);
    expect(await leftovers()).toEqual([]);
  });

  needs("killing stops the command and gives its datum back", async () => {
    const mark = `sluice-test-${process.pid}-${Date.now()}`;
    sh(`sh -c 'trap "" TERM INT; while :; do sleep 0.05; done; : ${mark}'`);
    stage.gateway.add("a");
    const runner = await stage.runner();
    await soon(() => stillRuns(mark)).toBe(true);
    runner.kill();
    await runner.done;
    expect(await stillRuns(mark)).toBe(false);
    expect(stage.gateway.outcomes).toMatchObject([{ state: "returned" }]);
    expect(await leftovers()).toEqual([]);
  });

  needs("killing ends also while the gateway is away", REST, async () => {
    sh("sleep 1000");
    stage.gateway.add("a");
    const runner = await stage.runner();
    await soon(() => stage.gateway.held.size).toBe(1);
    await stage.gateway.stop();
    runner.kill();
    await runner.done;
    await stage.gateway.start();
  });
});

async function leftovers(): Promise<string[]> {
  return readdir(join(stage.dataDir, "agents"));
}

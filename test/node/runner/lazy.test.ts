import { readdir, readFile, readlink } from "node:fs/promises";
import { join } from "node:path";
import { afterEach, beforeEach, describe, expect, test } from "vitest";
import type { Outcome } from "../../../protocol/runner.ts";
import { PipeStock } from "../../../runner/pfs/lazy/pipe-stock.ts";
import { ProbePlan, paceOf } from "../../../runner/pfs/lazy/probe-plan.ts";
import { eventually } from "../../support/eventually.ts";
import { REST } from "../../support/suite.ts";
import { DatumStage, JAILS } from "./support/datums.ts";
import { Answer, type Call, refusal } from "./support/fake-gateway.ts";
import { Stage } from "./support/running.ts";

const NO_SECRETS = { read: async () => new Map() };

for (const jail of JAILS) {
  const { name, options, absent } = jail;

  describe(`lazy inputs with ${name}`, options, () => {
    const needs = test.skipIf(absent);
    let stage: DatumStage;

    beforeEach(async () => {
      if (!absent) stage = await DatumStage.open(jail, NO_SECRETS);
    });
    afterEach(async () => {
      await stage?.close();
    });

    const text = (outcome: Outcome, path = "told") => {
      if (outcome.state !== "success") throw new Error(JSON.stringify(outcome));
      return stage.output(outcome, path);
    };
    const isContent = ({ path }: Call) => path.includes("/contents/");

    needs(`${name}: a file is a named pipe at its path, and reading it gives its content`, async () => {
      const input = stage.file("a/b c.txt", "text\n");
      const outcome = await stage.sh('test -p "$in" && cat "$in" > /pfs/out/told', input);
      expect(text(outcome)).toBe("text\n");
    });

    needs(`${name}: a directory is its whole subtree, each file a pipe`, async () => {
      const input = stage.folder({ "d/a": "A", "d/e/b": "B", "d/e/f/c": "", "other/x": "X" }, { path: "d" });
      const script = "cd $in; find . -type p | sort > /pfs/out/told; cat a e/b e/f/c > /pfs/out/all";
      const outcome = await stage.sh(script, input);
      expect(text(outcome)).toBe("./a\n./e/b\n./e/f/c\n");
      expect(text(outcome, "all")).toBe("AB");
    });

    needs(`${name}: no byte is lost, however much it is and however late it is read`, async () => {
      const large = Buffer.alloc(5_000_001, "0123456789abcdef\n");
      const inputs = [stage.file("large", large), stage.file("small", "small", { name: "other" })];
      const script = [
        "{ sleep 0.2; cat; } < $in > /pfs/out/first",
        "cat $in | cmp - /pfs/out/first",
        "{ sleep 0.2; cat; } < $other > /pfs/out/small",
        "{ sleep 0.2; cat; } < $other > /pfs/out/again",
      ].join("\n");
      const outcome = await stage.sh(`set -e\n${script}`, ...inputs);
      expect(text(outcome, "first")?.length).toBe(large.length);
      expect(text(outcome, "small")).toBe("small");
      expect(text(outcome, "again")).toBe("small");
    });

    needs(`${name}: nothing is fetched before it is opened, and what is not opened never`, async () => {
      const input = stage.folder({ a: "A", b: "B", c: "C" });
      expect(text(await stage.sh("ls /pfs/in > /pfs/out/told", input))).toBe("a\nb\nc\n");
      expect(stage.fetches).toBe(0);
      expect(text(await stage.sh("cat /pfs/in/b > /pfs/out/told", input))).toBe("B");
      expect(stage.fetches).toBe(1);
    });

    needs(`${name}: a file that is read to its end is cached, one that is not is not`, async () => {
      const large = "0123456789".repeat(500_000);
      const inputs = [stage.file("whole", "whole"), stage.file("part", large, { name: "part" })];
      const script = "cat $in > /dev/null; head -c 7 $part > /pfs/out/told";
      for (const fetches of [2, 3]) {
        expect(text(await stage.sh(script, ...inputs))).toBe("0123456");
        expect(stage.fetches).toBe(fetches);
      }
      const [whole, part] = inputs.map(({ content }) =>
        stage.cache.pathOf(content ?? { digest: "", size: 0 }),
      );
      expect(await readFile(whole ?? "", "utf8")).toBe("whole");
      await expect(readFile(part ?? "")).rejects.toThrow("ENOENT");
    });

    needs(`${name}: what an eager input has fetched is not fetched again`, async () => {
      const eager = stage.file("a", "A", { lazy: false });
      expect(text(await stage.sh("test -f $in; cat $in > /pfs/out/told", eager))).toBe("A");
      const input = stage.file("b", "A");
      expect(text(await stage.sh("test -p $in; cat $in > /pfs/out/told", input))).toBe("A");
      expect(stage.fetches).toBe(1);
    });

    needs(`${name}: a reader that stops early, or opens again, is fine`, async () => {
      const large = "0123456789".repeat(100_000);
      const script = [
        "for i in 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16; do head -c 3 $in; done > /pfs/out/told",
        ": < $in; : < $in",
        "cat $in $in | wc -c > /pfs/out/twice",
      ].join("\n");
      const outcome = await stage.sh(script, stage.file("a", large));
      expect(text(outcome)).toBe("012".repeat(16));
      expect(text(outcome, "twice")?.trim()).toBe("2000000");
    });

    needs(`${name}: files are read in any order, again and again, and side by side`, async () => {
      const names = Array.from({ length: 40 }, (_, i) => `f${i + 10}`);
      const input = stage.folder(Object.fromEntries(names.map((file) => [file, `${file}\n`])));
      const script = [
        "cd /pfs/in",
        "cat * > /pfs/out/forward; cat $(ls -r) > /pfs/out/backward; cat f30 f10 f49 f11 > /pfs/out/mixed",
        "paste f10 f20 f30 > /pfs/out/beside",
        "ls | xargs -P 8 -n 1 cat | sort > /pfs/out/parallel",
        "find . -type p | xargs cat | sort > /pfs/out/found",
      ].join("\n");
      const outcome = await stage.sh(script, input);
      const all = names.map((file) => `${file}\n`);
      expect(text(outcome, "forward")).toBe(all.join(""));
      expect(text(outcome, "backward")).toBe(all.toReversed().join(""));
      expect(text(outcome, "mixed")).toBe("f30\nf10\nf49\nf11\n");
      expect(text(outcome, "beside")).toBe("f10\tf20\tf30\n");
      expect(text(outcome, "parallel")).toBe(all.join(""));
      expect(text(outcome, "found")).toBe(all.join(""));
      expect(stage.fetches).toBe(names.length);
    });

    needs(`${name}: ten thousand unread pipes hold no descriptor`, REST, async () => {
      const names = Array.from({ length: 10_000 }, (_, i) => `f${String(i).padStart(4, "0")}`);
      const contents = names.map((file) => [file, file === "f5000" ? "found" : "same"]);
      const input = stage.folder(Object.fromEntries(contents));
      let open = Number.POSITIVE_INFINITY;
      stage.gateway.before = async (call) => {
        if (isContent(call)) open = (await readdir("/proc/self/fd")).length;
        return undefined;
      };
      const outcome = await stage.sh("ls /pfs/in | wc -l; cat /pfs/in/f5000 > /pfs/out/told", input);
      expect(text(outcome)).toBe("found");
      expect(stage.fetches).toBe(1);
      expect(open).toBeLessThan(500);
    });

    needs(
      `${name}: a file that can't be fetched fails the datum with the cause, whatever the command says`,
      async () => {
        const input = stage.folder({ good: "good", bad: "bad" });
        const bad = stage.gateway.store("bad");
        stage.gateway.before = ({ path }) =>
          path.includes(bad.digest) ? refusal(404, "the content is gone") : undefined;
        const outcome = await stage.sh("cat /pfs/in/good; cat /pfs/in/bad; exit 0", input);
        expect(outcome).toMatchObject({
          state: "failed",
          reason: 'input file "bad" could not be fetched: the content is gone',
          blame: "node",
        });
        expect(outcome.state === "failed" && outcome.log).toContain("good");
        expect(text(await stage.sh("cat /pfs/in/good > /pfs/out/told", input))).toBe("good");
      },
    );

    needs(`${name}: a transfer that breaks goes on where it was`, async () => {
      const bytes = Buffer.from("0123456789abcdef".repeat(30_000));
      const input = stage.file("a", bytes);
      const bodies = [bytes.subarray(0, 100_000), bytes.subarray(0, 50_000), undefined];
      stage.gateway.before = (call) => {
        const body = isContent(call) ? bodies.shift() : undefined;
        return body && new Answer(200, body);
      };
      const outcome = await stage.sh("cat $in > /pfs/out/told", input);
      expect(text(outcome)).toBe(bytes.toString());
      expect(stage.fetches).toBe(3);
      expect(await readFile(stage.cache.pathOf(input.content ?? { digest: "", size: 0 }))).toEqual(bytes);
    });

    needs(`${name}: wrong bytes fail the datum and are not kept`, async () => {
      const input = stage.file("a", "right bytes");
      stage.gateway.before = (call) => (isContent(call) ? new Answer(200, "wrong bytes") : undefined);
      const outcome = await stage.sh("cat $in; exit 0", input);
      expect(outcome).toMatchObject({ state: "failed" });
      expect(outcome.state === "failed" && outcome.reason).toMatch(/input file "a".*came damaged/);
      await expect(readFile(stage.cache.pathOf(input.content ?? { digest: "", size: 0 }))).rejects.toThrow();
    });

    needs(`${name}: a command that waits for bytes that do not come can be stopped`, async () => {
      const released = Promise.withResolvers<void>();
      const asked = Promise.withResolvers<void>();
      stage.gateway.before = async (call) => {
        if (!isContent(call)) return;
        asked.resolve();
        await released.promise;
      };
      const abort = new AbortController();
      const running = stage.run({ cmd: ["sh", "-c", "cat $in"] }, [stage.file("a", "A")], {
        signal: abort.signal,
      });
      await asked.promise;
      abort.abort();
      await running;
      const late = await stage.run({ cmd: ["sh", "-c", "cat $in"] }, [stage.file("b", "B")], {
        datumTimeout: "300ms",
      });
      released.resolve();
      expect(late).toMatchObject({ reason: "the command ran longer than 300ms (datumTimeout)" });
    });

    needs(`${name}: each datum gets fresh pipes, and nothing of it is left`, async () => {
      const input = stage.folder({ a: "x".repeat(300_000), b: "B", c: "C" });
      const script = "head -c 5 /pfs/in/a; exec 3< /pfs/in/a; cat /pfs/in/b > /pfs/out/told";
      for (let i = 0; i < 5; i += 1) expect(text(await stage.sh(script, input))).toBe("B");
      await eventually("no descriptor is left", async () => (await openBelow(stage.dir)).length === 0);
      expect((await readdir(stage.dir)).sort()).toEqual(["agents", "cache", "pipes", "worker"]);
    });

    needs(`${name}: only what was written after the input's start is laid out, lazy or not`, async () => {
      const asked: (string | null)[] = [];
      stage.gateway.before = ({ path, query }) => {
        if (path.endsWith("/files")) asked.push(query.get("since"));
        return undefined;
      };
      for (const lazy of [true, false]) {
        for (const from of ["c0", null]) await stage.sh("true", stage.folder({ a: "A" }, { lazy, from }));
      }
      expect(asked).toEqual(["c0", null, "c0", null]);
    });
  });
}

/** Files and pipes below a folder that this process holds open. */
async function openBelow(folder: string): Promise<string[]> {
  const numbers = await readdir("/proc/self/fd");
  // One that was closed meanwhile points nowhere.
  const targets = await Promise.all(numbers.map((fd) => readlink(`/proc/self/fd/${fd}`).catch(() => "")));
  return targets.filter((target) => target.startsWith(`${folder}/`));
}

describe("an agent with a lazy input (bubblewrap or unshare)", () => {
  test.skipIf(JAILS.every(({ absent }) => absent))("serves the pipes of its datums", async () => {
    const stage = await Stage.open();
    const stdin = ["test -p $in && tr a-z A-Z < $in > /pfs/out/$(basename $in)"];
    stage.gateway.transform = { image: "any", cmd: ["sh"], stdin };
    for (const path of ["one", "two", "three"]) {
      stage.gateway.addDatum({ path, kind: "file", lazy: true, content: stage.gateway.store(path) });
    }
    await stage.runner();
    await stage.reported(3);
    const written = stage.gateway.outcomes.map((outcome) => {
      if (outcome.state !== "success") throw new Error(JSON.stringify(outcome));
      return stage.gateway.outputBytes(outcome, outcome.outputs[0]?.path ?? "")?.toString();
    });
    expect(written).toEqual(["ONE", "TWO", "THREE"]);
    await stage.close();
  });
});

describe("which pipes are looked at", () => {
  const forward = [0, 1, 2, 3, 4, 5, 6, 7, 8, 9];
  const near = [1, 2, -1];

  test("at first the first ones are, then those around the last one, in each order", () => {
    const plan = new ProbePlan(10, [forward, [5, 3, 1, 0, 2, 4, 6, 8, 7, 9]]);
    expect([...plan.next({ tries: 0, near })]).toEqual([0, 5, 1, 3, 9]);
    plan.opened(1);
    expect([...plan.next({ tries: 0, near })]).toEqual([2, 0, 3, 1]);
  });

  test("the first ones follow the last one", () => {
    const plan = new ProbePlan(10, [forward]);
    plan.opened(9);
    expect([...plan.next({ tries: 0, near: [1, 2] })]).toEqual([0, 1, 9]);
  });

  test("every one is in its turn", () => {
    const plan = new ProbePlan(10, [forward]);
    const seen = new Set(Array.from({ length: 4 }, () => [...plan.next({ tries: 3, near: [] })]).flat());
    expect([...seen].sort()).toEqual(forward);
  });

  test("it is known whether the last one was to be expected", () => {
    const plan = new ProbePlan(100, [Array.from({ length: 100 }, (_, i) => i)]);
    plan.opened(0);
    plan.opened(3);
    expect(plan.foreseen).toBe(true);
    plan.opened(60);
    expect(plan.foreseen).toBe(false);
  });

  test("they are looked at once more right after an opening, unless one is being read", () => {
    const now = { idleMs: 0, pipes: 10_000, foreseen: true };
    expect(paceOf({ ...now, serving: 0 }).waitMs).toBe(0);
    expect(paceOf({ ...now, serving: 1 }).waitMs).toBeGreaterThan(0);
  });

  test("thousands that nobody opens take little of a core, and few of them next to nothing", () => {
    for (const [pipes, most] of [
      [10_000, 0.031],
      [1000, 0.01],
      [1, 0.001],
    ] as const) {
      const { waitMs, tries, near: around } = paceOf({ idleMs: 60_000, pipes, serving: 0, foreseen: false });
      expect(((tries + around.length) * 0.005) / waitMs, `${pipes}`).toBeLessThan(most + 0.004);
      expect(waitMs).toBeGreaterThanOrEqual(20);
    }
  });

  test("all of them are looked at within about a second, as long as that is cheap", () => {
    const { waitMs, tries } = paceOf({ idleMs: 3_600_000, pipes: 1000, serving: 0, foreseen: true });
    expect((1000 / tries) * waitMs).toBeLessThanOrEqual(1000);
  });
});

test("the stock gives as many pipes as are asked for, each once, and tells a failure", async () => {
  const stage = await Stage.open();
  const store = new PipeStock(join(stage.dataDir, "pipes"));
  const pipes = await Promise.all(Array.from({ length: 500 }, () => store.get()));
  expect(new Set(pipes).size).toBe(500);
  const none = new PipeStock("/dev/null/pipes");
  await expect(none.get()).rejects.toThrow("ENOTDIR");
  await expect(none.get()).rejects.toThrow("ENOTDIR");
  expect(none.take()).toBeUndefined();
  await stage.close();
});

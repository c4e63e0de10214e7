import { createHash, randomBytes } from "node:crypto";
import { describe, expect, test } from "vitest";
import { LOG_TAIL_BYTES, MAX_BATCH } from "../../../protocol/runner.ts";
import { LogTail } from "../../../runner/executors/log-fifos.ts";
import type { Failure } from "../../../runner/gateway/client.ts";
import { jitteredBackoff, retrying } from "../../../runner/gateway/retry.ts";
import { forEachLimited, unlessAborted } from "../../../runner/lib/concurrency.ts";
import { contentIdOf, TreeHash } from "../../../runner/lib/tree-hash.ts";
import { nextBatchSize } from "../../../runner/worker/batch.ts";
import { commandEnv, commandStdin, verdictOf } from "../../../runner/worker/datum.ts";

const live = new AbortController().signal;

describe("the size of batches", () => {
  test("starts at one and doubles while full batches are short, up to the most that a call takes", () => {
    let size = 1;
    const sizes: number[] = [];
    for (let i = 0; i < 8; i += 1) {
      sizes.push(size);
      size = nextBatchSize({ asked: size, leased: size, millis: 100 });
    }
    expect(sizes).toEqual([1, 2, 4, 8, 16, 32, 64, MAX_BATCH]);
  });

  test("stays where the queue was short, and where the batch took a middling time", () => {
    expect(nextBatchSize({ asked: 8, leased: 3, millis: 10 })).toBe(8);
    expect(nextBatchSize({ asked: 8, leased: 8, millis: 700 })).toBe(8);
  });

  test("halves after a long batch, down to one", () => {
    expect(nextBatchSize({ asked: 64, leased: 64, millis: 1500 })).toBe(32);
    expect(nextBatchSize({ asked: 1, leased: 1, millis: 60_000 })).toBe(1);
  });
});

describe("the environment of a command", () => {
  const input = {
    repo: "r",
    branch: "b",
    commit: "c9",
    kind: "file" as const,
    content: null,
    lazy: false,
    from: null,
  };
  const datum = (names: Record<string, string>) => ({
    lease: "l",
    job: "j1",
    datum: "d1",
    inputs: Object.entries(names).map(([name, path]) => ({ ...input, name, path })),
  });
  const transform = { image: "i", cmd: ["true"] };

  test("names each input's path and commit, the pipeline, the job and the datum", () => {
    const env = commandEnv({ pipeline: "p", datum: datum({ a: "x/y.txt", root: "" }), transform, own: {} });
    expect(env).toMatchObject({
      a: "/pfs/a/x/y.txt",
      a_COMMIT: "c9",
      root: "/pfs/root",
      root_COMMIT: "c9",
      SLUICE_PIPELINE: "p",
      SLUICE_JOB_ID: "j1",
      SLUICE_DATUM_ID: "d1",
      PPS_PIPELINE_NAME: "p",
      PACH_JOB_ID: "j1",
      PACH_DATUM_ID: "d1",
    });
  });

  test("gives an input whose name no shell can use a second name that it can", () => {
    const inputs = datum({ "my-photos": "x", my_photos: "y", "a-b": "z", "2024": "w" });
    const env = commandEnv({ pipeline: "p", datum: inputs, transform, own: {} });
    expect(env).toMatchObject({
      "my-photos": "/pfs/my-photos/x",
      "my-photos_COMMIT": "c9",
      my_photos: "/pfs/my_photos/y",
      "a-b": "/pfs/a-b/z",
      a_b: "/pfs/a-b/z",
      a_b_COMMIT: "c9",
      "2024": "/pfs/2024/w",
      _2024: "/pfs/2024/w",
    });
  });

  test("passes on what every command needs of the agent's, and none of its keys", () => {
    const own = {
      PATH: "/p",
      HOME: "/h",
      SLUICE_SECRET_ACCESS_KEY: "s",
      AWS_SECRET_ACCESS_KEY: "s",
      SLUICE_ACCESS_KEY_ID: "s",
      OTHER: "s",
    };
    const env = commandEnv({ pipeline: "p", datum: datum({}), transform, own });
    expect(env).toMatchObject({ PATH: "/p", HOME: "/h" });
    expect(Object.values(env)).not.toContain("s");
  });

  test("lets what the datum is win over the spec's variables, and those over the machine's", () => {
    const own = { PATH: "/p", HOME: "/h" };
    const spec = { ...transform, env: { HOME: "/mine", a: "set", PACH_JOB_ID: "mine" } };
    const env = commandEnv({ pipeline: "p", datum: datum({ PATH: "x", a: "y" }), transform: spec, own });
    expect(env).toMatchObject({ HOME: "/mine", a: "/pfs/a/y", PACH_JOB_ID: "j1" });
  });

  test("lets an input called PATH do no harm", () => {
    const env = commandEnv({ pipeline: "p", datum: datum({ PATH: "x" }), transform, own: { PATH: "/p" } });
    expect(env).toMatchObject({ PATH: "/p", PATH_COMMIT: "c9" });
  });

  test("always has a PATH", () => {
    expect(commandEnv({ pipeline: "p", datum: datum({}), transform, own: {} }).PATH).toContain("/bin");
  });

  test("its stdin is the lines with a newline after each, or nothing", () => {
    expect(commandStdin({ ...transform, stdin: ["a", "b"] })).toBe("a\nb\n");
    expect(commandStdin({ ...transform, stdin: [""] })).toBe("\n");
    expect(commandStdin({ ...transform, stdin: [] })).toBeNull();
    expect(commandStdin(transform)).toBeNull();
  });
});

describe("the verdict on a run", () => {
  const transform = { image: "i", cmd: ["x"], acceptReturnCode: [3, 137] };
  const exited = (code: number) => verdictOf({ kind: "exited", code, log: "" }, transform);

  test("0 and the accepted codes are successes, with their code", () => {
    expect(exited(0)).toEqual({ kind: "success", exitCode: 0 });
    expect(exited(3)).toEqual({ kind: "success", exitCode: 3 });
    expect(exited(137)).toEqual({ kind: "success", exitCode: 137 });
  });

  test("any other code is a failure that tells it", () => {
    expect(exited(2)).toEqual({
      ...{ kind: "failed", exitCode: 2, reason: "the command ended with exit code 2" },
      failureClass: "datum",
    });
    expect(exited(255)).toMatchObject({ exitCode: 255 });
  });

  test("the command is to blame for its end, the node for what it could not run or took away", () => {
    const notStarted = { kind: "not-started", reason: "no such command", log: "" } as const;
    expect(verdictOf(notStarted, transform)).toMatchObject({ exitCode: null, failureClass: "node" });
    const gone = { kind: "exited", code: 137, log: "", fault: "its container was removed" } as const;
    expect(verdictOf({ ...gone, failureClass: "node" }, transform)).toMatchObject({ failureClass: "node" });
    expect(verdictOf(gone, transform)).toMatchObject({ reason: gone.fault, failureClass: "datum" });
    expect(exited(139)).toMatchObject({ failureClass: "datum" });
  });

  test("a signal is told by its name", () => {
    expect(exited(139)).toMatchObject({ kind: "failed", exitCode: null });
    expect(exited(139)).toHaveProperty("reason", expect.stringContaining("SIGSEGV"));
  });
});

describe("the tail of a log", () => {
  test("holds the end, whatever the pieces are", () => {
    const text = Array.from({ length: 3000 }, (_, i) => `line ${i}\n`).join("");
    for (const piece of [1, 7, 4096, 10_000, text.length]) {
      const tail = new LogTail();
      for (let at = 0; at < text.length; at += piece) tail.add(Buffer.from(text.slice(at, at + piece)));
      expect(tail.text()).toBe(text.slice(-LOG_TAIL_BYTES));
    }
  });

  test("leaves out a character that was cut, and survives bytes that are no text", () => {
    const cut = new LogTail();
    cut.add(Buffer.from(`${"é".repeat(LOG_TAIL_BYTES)}x`));
    expect(cut.text()).toBe(`${"é".repeat(LOG_TAIL_BYTES / 2 - 1)}x`);
    const noise = new LogTail();
    noise.add(Buffer.alloc(LOG_TAIL_BYTES * 2, 0x80));
    expect(noise.text().length).toBeLessThanOrEqual(LOG_TAIL_BYTES);
  });
});

describe("the tree hash", () => {
  test("up to one MiB it is the plain SHA-256", () => {
    for (const size of [0, 1, 4096, 1 << 20]) {
      const bytes = randomBytes(size);
      expect(hashOf(bytes, 1000)).toEqual({ digest: sha(bytes).toString("hex"), size });
      expect(hashOf(bytes, 1000)).toEqual(contentIdOf(bytes));
    }
  });

  test("beyond, neighbours are hashed together and an odd one moves up, whatever the pieces are", () => {
    const bytes = randomBytes((2 << 20) + 5);
    const [a, b, c] = [bytes.subarray(0, 1 << 20), bytes.subarray(1 << 20, 2 << 20), bytes.subarray(2 << 20)];
    const pair = sha(Buffer.concat([sha(a), sha(b)]));
    const digest = sha(Buffer.concat([pair, sha(c)])).toString("hex");
    for (const piece of [999_983, 1 << 20, bytes.length]) {
      expect(hashOf(bytes, piece)).toEqual({ digest, size: bytes.length });
    }
  });

  function hashOf(bytes: Buffer, piece: number) {
    const hash = new TreeHash();
    for (let at = 0; at < bytes.length; at += piece) hash.update(bytes.subarray(at, at + piece));
    return hash.finish();
  }
  const sha = (bytes: Uint8Array) => createHash("sha256").update(bytes).digest();
});

describe("trying again", () => {
  const outcomes = (...list: (Failure | "good")[]) => {
    let tries = 0;
    const work = async () => {
      const outcome = list[tries++] ?? "good";
      if (outcome !== "good") throw new Error(outcome);
      return tries;
    };
    const classify = (error: unknown) => (error as Error).message as Failure;
    return { work, classify, maxTransient: 3, minMs: 1, maxMs: 2 };
  };
  const run = ({ work, ...options }: ReturnType<typeof outcomes>, signal = live) =>
    retrying(work, { ...options, signal });

  test("goes on for as long as nobody answers", async () => {
    expect(await run(outcomes(...Array<Failure>(30).fill("unreachable")))).toBe(31);
  });

  test("ends after so many bad answers, in all", async () => {
    expect(await run(outcomes("transient", "unreachable", "transient"))).toBe(4);
    await expect(run(outcomes("transient", "unreachable", "transient", "transient"))).rejects.toThrow(
      "transient",
    );
  });

  test("ends at once where it would be the same again", async () => {
    await expect(run(outcomes("final"))).rejects.toThrow("final");
  });

  test("ends when it is told to, also while it waits", async () => {
    const abort = new AbortController();
    const { work, ...options } = outcomes(...Array<Failure>(5).fill("unreachable"));
    const waiting = retrying(work, { ...options, minMs: 60_000, maxMs: 60_000, signal: abort.signal });
    abort.abort();
    await expect(waiting).rejects.toThrow("aborted");
  });

  test("waits twice as long each time, within bounds, and at random", () => {
    const backoff = jitteredBackoff({ minMs: 100, maxMs: 400 });
    for (const step of [100, 200, 400, 400]) {
      const wait = backoff.next();
      expect(wait).toBeGreaterThanOrEqual(step / 2);
      expect(wait).toBeLessThanOrEqual(step);
    }
    backoff.reset();
    expect(backoff.next()).toBeLessThanOrEqual(100);
  });
});

describe("working side by side", () => {
  test("does all of it, and never more at a time than allowed", async () => {
    let now = 0;
    let most = 0;
    const done: number[] = [];
    const work = async (item: number) => {
      now += 1;
      most = Math.max(most, now);
      await new Promise((resolve) => setImmediate(resolve));
      now -= 1;
      done.push(item);
    };
    await forEachLimited([...Array(20).keys()], { limit: 3, work });
    expect(most).toBe(3);
    expect(done.length).toBe(20);
  });

  test("ends with the first failure, once all that had begun has ended", async () => {
    const began: number[] = [];
    const work = async (item: number) => {
      began.push(item);
      await new Promise((resolve) => setImmediate(resolve));
      if (item === 1) throw new Error("one");
    };
    await expect(forEachLimited([...Array(20).keys()], { limit: 2, work })).rejects.toThrow("one");
    expect(began.length).toBeLessThan(6);
  });

  test("ends the waiting at an abort, and not the work", async () => {
    const abort = new AbortController();
    const work = Promise.withResolvers<void>();
    const waiting = unlessAborted(work.promise, abort.signal);
    abort.abort(new Error("enough"));
    await expect(waiting).rejects.toThrow("enough");
    work.resolve();
  });
});

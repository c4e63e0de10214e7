// @module-tag rest
import { createHash, randomBytes } from "node:crypto";
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect } from "vitest";
import { type DevServer, sluice, startDevServer } from "../../support/dev-server.ts";
import { eventually } from "../../support/eventually.ts";
import {
  handlesOf,
  limitHandles,
  mostHandles,
  needsPrlimit,
  parentOf,
  prlimit,
} from "../../support/handle-limits.ts";
import { type Answer, exchange, signatureHeaders } from "../../support/http.ts";
import { S3 } from "../../support/s3.ts";

/*
 * A gateway that may open few more files and connections than it has: its host, its runtime, or both.
 */

const CLIENTS = 60;
const BUCKET = "master.handles";

let server: DevServer;
let s3: S3;
/** The host's process, which stays the same whatever becomes of its runtime. */
let host: number;
/** Digests of what was acknowledged, by key. */
const acknowledged = new Map<string, string>();

beforeAll(async () => {
  server = await startDevServer();
  s3 = new S3(server);
  await s3.createBucket(BUCKET);
  host = parentOf(runtimePid());
});
afterAll(async () => {
  await server?.stop({ mayHaveDied: true });
});

const runtimePid = (): number => Number(readFileSync(join(server.data, "workerd.pid"), "utf8"));
const digestOf = (bytes: Uint8Array): string => createHash("sha256").update(bytes).digest("hex");

let keys = 0;

/** A request of a client of its own, with a connection of its own; undefined if that was cut before an answer. */
async function alone(method: string, target: string, body?: Buffer): Promise<Answer | undefined> {
  const ask = { method, target, ...(body && { body }) };
  const headers = { ...(await signatureHeaders(server, ask)), connection: "close" };
  return await exchange(server.endpoint, { ...ask, headers }).catch(() => undefined);
}

async function put(size: number, bucket = BUCKET): Promise<Answer | undefined> {
  const key = `file-${++keys}`;
  const bytes = randomBytes(size);
  const answer = await alone("PUT", `/${bucket}/${key}`, bytes);
  if (answer?.status === 200 && bucket === BUCKET) acknowledged.set(key, digestOf(bytes));
  return answer;
}

const SIZES = [700, 4096, 70_000, 300_000, 1_500_000];

/** Many clients at once: files of all sizes, new buckets, reads. */
async function crowd(round: string): Promise<(Answer | undefined)[]> {
  const [known = ""] = acknowledged.keys();
  return await Promise.all(
    Array.from({ length: CLIENTS }, (_, n) => {
      if (n % 6 === 0) return alone("PUT", `/master.${round}-${n}`);
      if (n % 6 === 1) return alone("GET", `/${BUCKET}/${known}`);
      if (n % 6 === 2) return alone("GET", `/${BUCKET}?list-type=2`);
      return put(SIZES[n % SIZES.length] ?? 1);
    }),
  );
}

/** What clients heard, for people: how often by status, in each round. */
const heard: Record<string, Record<string, number>> = {};

function note(round: string, answers: readonly (Answer | undefined)[]): void {
  const counts: Record<string, number> = {};
  for (const answer of answers) {
    const what = String(answer?.status ?? "cut");
    counts[what] = (counts[what] ?? 0) + 1;
  }
  heard[round] = counts;
}

/** What clients heard that is neither good nor a clear refusal. */
function unclear(answers: readonly (Answer | undefined)[]): string[] {
  const isClear = ({ status, text }: Answer) =>
    status === 503 && /file handles|catalogue of buckets can/.test(text) && !text.includes("StorageFull");
  return answers.flatMap((answer) =>
    answer && answer.status >= 300 && !isClear(answer) ? [`${answer.status} ${answer.text}`] : [],
  );
}

/**
 * Waits until files are taken, by a runtime that has as many as ever: one that was started meanwhile has as few as its host had, and
 * may end for it.
 */
async function takenAgain(): Promise<void> {
  await eventually("files are taken again", async () => {
    await limitHandles(runtimePid(), mostHandles(host));
    return (await put(100_000))?.status === 200;
  });
}

/** Raises the limit again of a process, unless that is ending. */
async function letHave(pid: number, most: number): Promise<void> {
  await limitHandles(pid, most).catch((error: unknown) => {
    if (pid === host) throw error;
  });
}

describe("a gateway without file handles", () => {
  for (const [who, pidsOf] of [
    ["host", () => [host]],
    ["runtime", () => [runtimePid()]],
    ["host and runtime", () => [runtimePid(), host]],
  ] as const) {
    needsPrlimit(
      `in its ${who} cuts clients or refuses them by 503 in words, loses nothing that was acknowledged, and goes on by itself (prlimit)`,
      async () => {
        for (const spare of [0, 8, 24]) {
          const pids = pidsOf();
          const before = pids.map(mostHandles);
          for (const pid of pids) await limitHandles(pid, handlesOf(pid) + spare);
          const answers = await crowd(`${who.replaceAll(" ", "-")}-${spare}`);
          for (const [index, pid] of pids.entries()) await letHave(pid, before[index] ?? 1024);
          note(`${who}, ${spare} spare`, answers);
          expect(unclear(answers), server.output()).toEqual([]);
          await takenAgain();
        }
        expect(await s3.keys(BUCKET)).toEqual(expect.arrayContaining([...acknowledged.keys()]));
      },
    );
  }

  needsPrlimit(
    "in its host, whose runtime dies meanwhile, has kept some to start another one (prlimit)",
    async () => {
      const died = runtimePid();
      const before = mostHandles(host);
      // Fewer than it has: what the end of the runtime frees is not enough for another one.
      await limitHandles(host, handlesOf(host) - 12);
      process.kill(died, "SIGKILL");
      await eventually("another one runs", () => runtimePid() > 0 && runtimePid() !== died);
      await limitHandles(host, before);
      await takenAgain();
      expect(parentOf(runtimePid())).toBe(host);
    },
  );

  needsPrlimit(
    "has lost nothing once it has some again: every file reads as it was written (prlimit)",
    async () => {
      for (const [key, digest] of acknowledged) {
        const bytes = await s3.get(BUCKET, key);
        expect(bytes && digestOf(bytes)).toBe(digest);
      }
      const { code, stderr } = await sluice(server, "fsck");
      expect({ code, stderr }, server.output()).toEqual({ code: 0, stderr: "" });
      expect(Object.keys(heard).length).toBe(9);
      console.log(acknowledged.size, "files", heard);
    },
  );

  needsPrlimit("says at its start that it may have few, and serves (prlimit)", async () => {
    const low = await startDevServer({ through: [prlimit, "--nofile=200:200"] });
    try {
      expect(low.output()).toMatch(/this gateway may have 200 file handles \('ulimit -n'\)/);
      await new S3(low).createBucket(BUCKET);
    } finally {
      await low.stop();
    }
  });
});

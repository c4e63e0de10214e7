// @module-tag rest
import { env } from "cloudflare:test";
import { afterAll, beforeAll, describe, expect, test, vi } from "vitest";
import { MAX_COMMIT_OPERATIONS } from "../../protocol/files.ts";
import { viewBucket } from "../../protocol/names.ts";
import type { LeasedDatum } from "../../protocol/runner.ts";
import { type Bill, billsOf, dollarsOf, pricesOf } from "../support/cost/bill.ts";
import { committed } from "./branch/support.ts";
import { ask, read, send } from "./cost/gateway.ts";
import { billOf, least } from "./cost/meter.ts";
import { comeToRest } from "./cost/rest.ts";
import { commit, contentOf, makePipeline, makeRepo, master } from "./pipeline/support.ts";

const PAGE = env.TEST_COST_PAGE;
/** By the names of the first columns. */
const REQUESTS = billsOf(PAGE, "one request");
const WORKS = billsOf(PAGE, "with all that follows");

beforeAll(async () => {
  vi.useFakeTimers({ toFake: ["Date"], now: Date.now() });
  for (const bucket of ["cost", "cost-from", "cost-near"]) await send(`PUT /${bucket}`);
});

afterAll(() => {
  vi.useRealTimers();
});

let filled = 0;
/** Bytes that nobody has put yet. */
function fresh(size: number): Uint8Array<ArrayBuffer> {
  filled += 1;
  return new Uint8Array(size)
    .fill(filled % 251)
    .map((byte, index) => (index < 8 ? filled >> (index * 4) : byte));
}

/** A file with bytes of its own: its path in the bucket, and the commit that made it. */
async function put(size: number, bucket = "cost"): Promise<{ path: string; commit: string }> {
  const body = fresh(size);
  const path = `file-${filled}`;
  const answer = await send(`PUT /${bucket}/${path}`, { body });
  return { path, commit: answer.headers.get("x-amz-version-id") ?? "" };
}

const KIB = 1024;
const MIB = 1024 * KIB;

/** What is counted, once all is ready for it. */
type Operation = () => Promise<() => Promise<unknown>>;

function putting(size: number): Operation {
  return async () => {
    const body = fresh(size);
    return () => send(`PUT /cost/new-${filled}`, { body });
  };
}

/** The same operation once more, at once or so much later: what it is done to is ready, and was read once. */
function again(operation: Operation, afterMs = 0): Operation {
  return async () => {
    const work = await operation();
    await work();
    vi.setSystemTime(Date.now() + afterMs);
    return work;
  };
}

function getting(size: number, sent: { uncached?: true; anew?: true } = {}): Operation {
  return async () => {
    const { path } = await put(size);
    return () => read(`GET /cost/${path}`, sent);
  };
}

function gettingOfCommit(size: number): Operation {
  return async () => {
    const { path, commit } = await put(size);
    const bucket = viewBucket({ repo: "cost", branch: "master", view: commit });
    return () => read(`GET /${bucket}/${path}`);
  };
}

const getOfNearReads: Operation = async () => {
  await ask("PUT /repos/cost-near/branches/master/reads", { reads: "near" });
  const { path } = await put(KIB, "cost-near");
  return () => read(`GET /cost-near/${path}`);
};

const head: Operation = async () => {
  const { path } = await put(KIB);
  return () => send(`HEAD /cost/${path}`);
};

let filledPage = 0;
const list: Operation = async () => {
  for (; filledPage < 101; filledPage++) await send(`PUT /cost/page/${filledPage}`, { body: fresh(16) });
  // What was listed before has changed.
  await send("PUT /cost/page/0", { body: fresh(16) });
  return () => read("GET /cost?list-type=2&max-keys=100&prefix=page%2F");
};

function copying(size: number, from = "cost"): Operation {
  return async () => {
    const { path } = await put(size, from);
    const headers = { "x-amz-copy-source": `/${from}/${path}` };
    return () => send(`PUT /cost/copy-${filled}`, { headers });
  };
}

/** Begins an upload; its path and query. */
async function begin(): Promise<string> {
  filled += 1;
  const begun = await read(`POST /cost/parts-${filled}?uploads`);
  const [, id = ""] = /<UploadId>(.*?)</.exec(begun) ?? [];
  return `/cost/parts-${filled}?uploadId=${id}`;
}

const PART = 8 * MIB;

/** Each puts the gateway to work as a client would, in a branch that was used before. */
const OPERATIONS: Record<string, Operation> = {
  "PutObject, 1 KiB": putting(KIB),
  "PutObject, 1 KiB, in place of another": async () => {
    await send("PUT /cost/small", { body: fresh(KIB) });
    const body = fresh(KIB);
    return () => send("PUT /cost/small", { body });
  },
  "PutObject, 1 MiB": putting(MIB),
  "PutObject, 16 MiB": putting(16 * MIB),
  "GetObject, 1 KiB": getting(KIB),
  "GetObject, 1 KiB, again": again(getting(KIB)),
  "GetObject, 1 KiB, of a commit": gettingOfCommit(KIB),
  "GetObject, 1 KiB, of a commit, again": again(gettingOfCommit(KIB)),
  "GetObject, 1 KiB, of a commit, again after 5 seconds": again(gettingOfCommit(KIB), 5000),
  "GetObject, 1 KiB, with near reads": getOfNearReads,
  "GetObject, 1 KiB, with near reads, again": again(getOfNearReads),
  "GetObject, 1 MiB": getting(MIB),
  "GetObject, 1 MiB, again": again(getting(MIB)),
  "GetObject, 1 MiB, of a commit, again": again(gettingOfCommit(MIB)),
  "GetObject, 1 MiB, with the cache off": getting(MIB, { uncached: true }),
  "GetObject, 16 MiB": getting(16 * MIB),
  "GetObject, 16 MiB, again": again(getting(16 * MIB)),
  "GetObject, 16 MiB, with the cache off": getting(16 * MIB, { uncached: true }),
  "GetObject, 1 KiB, the first request of an isolate to the bucket": getting(KIB, { anew: true }),
  "HeadBucket of one that is not there": async () => () => send("HEAD /no-cost", { expected: 404 }),
  HeadObject: head,
  "HeadObject, again": again(head),
  "ListObjectsV2, a page of 100": list,
  "ListObjectsV2, a page of 100, again": again(list),
  DeleteObject: async () => {
    const { path } = await put(KIB);
    return () => send(`DELETE /cost/${path}`);
  },
  "CopyObject, 1 KiB": copying(KIB),
  "CopyObject, 1 MiB": copying(MIB),
  "CopyObject, 1 MiB, from another bucket": copying(MIB, "cost-from"),
  CreateMultipartUpload: async () => begin,
  "UploadPart, 8 MiB": async () => {
    const upload = await begin();
    const body = fresh(PART);
    return () => send(`PUT ${upload}&partNumber=1`, { body });
  },
  "UploadPartCopy, 8 MiB": async () => {
    const { path } = await put(PART);
    const upload = await begin();
    const headers = { "x-amz-copy-source": `/cost/${path}` };
    return () => send(`PUT ${upload}&partNumber=1`, { headers });
  },
  "CompleteMultipartUpload, 2 parts": async () => {
    const upload = await begin();
    const parts: string[] = [];
    for (const number of [1, 2]) {
      const { headers } = await send(`PUT ${upload}&partNumber=${number}`, { body: fresh(PART) });
      const tag = headers.get("etag");
      parts.push(`<Part><PartNumber>${number}</PartNumber><ETag>${tag}</ETag></Part>`);
    }
    const body = `<CompleteMultipartUpload>${parts.join("")}</CompleteMultipartUpload>`;
    return () => read(`POST ${upload}`, { body });
  },
};

/** How long a worker takes for a batch of datums; milliseconds. */
const BATCH_MS = 1000;

/** Does what a runner does for so many datums: each writes one small file, and ten are leased and reported at a time. */
async function run(pipeline: string, datums: number): Promise<void> {
  const worker = `node-1/${pipeline}/0`;
  const lease = { pipeline, node: "node-1", worker, max: 10 };
  for (let left = datums; left > 0; ) {
    const { datums }: { datums: LeasedDatum[] } = await ask("POST /runner/lease", lease);
    const outcomes = datums.map(({ lease, datum, inputs: [input] }) => {
      const { digest, size } = contentOf(datum);
      const outputs = [{ path: `${input?.path}.out`, digest, size, bytes: btoa(datum) }];
      const ran = { executor: "process", image: null };
      return { lease, state: "success", exitCode: 0, millis: 1, ran, outputs };
    });
    vi.setSystemTime(Date.now() + BATCH_MS);
    await ask("POST /runner/finish", { pipeline, worker, outcomes });
    left -= datums.length;
  }
}

const FILES_OF_A_PART = 1000;
const HOUR_MS = 3_600_000;

/** One commit of more files than a call takes, by an open commit. */
async function commitInParts(
  repo: string,
  files: readonly (readonly [path: string, text: string])[],
): Promise<void> {
  const branch = master(repo);
  const begun = await branch.openCommits.start({ ttlMs: HOUR_MS });
  if (!begun.ok) throw new Error(begun.reason);
  const { openCommit } = begun;
  for (let start = 0; start < files.length; start += FILES_OF_A_PART) {
    const part = files
      .slice(start, start + FILES_OF_A_PART)
      .map(([put, text]) => ({ put, ...contentOf(text) }));
    const opened = await branch.uploads.open({});
    if (!opened.ok) throw new Error(opened.reason);
    const { upload } = opened;
    await branch.uploads.add({ upload, contents: part.map(({ put, ...content }) => content) });
    const operations = part.map(({ put, digest, size }) => ({ put, digest, size }));
    committed(await branch.files.commit({ openCommit, upload, operations }));
  }
  await expect
    .poll(() => branch.openCommits.finish({ openCommit }), { interval: 5 })
    .toMatchObject({ ok: true, state: "finished" });
}

/** A job of so many datums, from the commit that makes it until nothing is left to do. */
async function billOfJob(datums: number, { times = 1 } = {}): Promise<Bill> {
  const [from, to] = [`in-${datums}`, `out-${datums}`];
  await makeRepo(from);
  await makePipeline({ name: to, globs: { [from]: "/*" } });
  const objects = [
    env.BRANCH.getByName(`master.${from}`),
    env.BRANCH.getByName(`master.${to}`),
    env.PIPELINE.getByName(to),
  ];
  // As all others, it was used before.
  await commit(from, { used: "before" });
  await run(to, 1);
  await comeToRest(objects);
  const bills: Bill[] = [];
  for (let time = 0; time < times; time++) {
    const files = Array.from(
      { length: datums },
      (_, n) => [`file-${time}-${n}`, `content ${time} ${n}`] as const,
    );
    const [[path, body] = ["", ""]] = files;
    const bill = await billOf(async () => {
      if (datums === 1) await send(`PUT /${from}/${path}`, { body });
      else if (datums <= MAX_COMMIT_OPERATIONS) await commit(from, Object.fromEntries(files));
      else await commitInParts(from, files);
      await run(to, datums);
      await comeToRest(objects);
    });
    bills.push(bill);
    const { jobs } = await ask(`GET /jobs?pipeline=${to}&limit=1`);
    expect(jobs).toMatchObject([{ state: "success", datums: { processed: datums } }]);
  }
  return least(bills);
}

/** More than one commit takes at once: the files come in an open commit, and so does what the job makes. */
const MANY = 12_000;

/** Each with how many of what its row is about it makes. */
const FOLLOWED: Record<string, readonly [of: number, bill: () => Promise<Bill>]> = {
  "a branch made of one that has 100 files": [
    1,
    async () => {
      await makeRepo("cost-parent");
      const files = Array.from({ length: 100 }, (_, n) => [`file-${n}`, `content ${n}`]);
      await commit("cost-parent", Object.fromEntries(files));
      const objects = ["master.cost-parent", "fork.cost-parent"].map((name) => env.BRANCH.getByName(name));
      await comeToRest(objects.slice(0, 1));
      return await billOf(async () => {
        const from = { repo: "cost-parent", branch: "master" };
        await ask("POST /repos/cost-parent/branches", { name: "fork", from });
        await comeToRest(objects);
      });
    },
  ],
  "an erasure of a file of 1 MiB": [
    1,
    async () => {
      await send("PUT /cost-erase");
      const { path, commit } = await put(MIB, "cost-erase");
      const objects = [env.BRANCH.getByName("master.cost-erase")];
      await comeToRest(objects);
      return await billOf(async () => {
        await send(`DELETE /cost-erase/${path}?versionId=${commit}`);
        await comeToRest(objects);
      });
    },
  ],
  "a file of 1 KiB, and the job of one datum that it makes": [1, () => billOfJob(1, { times: 5 })],
  "one of the 100 datums of a job, with its file": [100, () => billOfJob(100, { times: 3 })],
  "one of the 12,000 datums of a job, with its file": [MANY, () => billOfJob(MANY)],
};

/** What goes on beside the calls is put together as it comes, so that it is not the same each time: so much more is none. */
const JITTER = 1.05;

describe("docs/cost.md", () => {
  test("has a row for each operation that is counted, and no other", () => {
    expect(Object.keys(REQUESTS)).toEqual(Object.keys(OPERATIONS));
    expect(Object.keys(WORKS)).toEqual(Object.keys(FOLLOWED));
  });

  test.each(Object.entries(OPERATIONS))("says what is charged for: %s", async (name, prepare) => {
    const bills: Bill[] = [];
    for (let n = 0; n < 3; n++) bills.push(await billOf(await prepare()));
    expect(least(bills)).toEqual(REQUESTS[name]?.cells);
  });

  test("says what a million of each cost", () => {
    const prices = pricesOf(PAGE);
    for (const rows of [REQUESTS, WORKS])
      expect(Object.values(rows).map(({ dollars }) => dollars)).toEqual(
        Object.values(rows).map(({ cells }) => (1e6 * dollarsOf(cells, prices)).toFixed(2)),
      );
  });

  test.each(Object.entries(FOLLOWED))(
    "says what is charged for, with all that follows: %s",
    { timeout: 300_000 },
    async (name, [of, work]) => {
      const told = WORKS[name]?.cells;
      const bill = await work();
      const counted = Object.entries(bill).map(([key, count]) => [key, count / of] as const);
      const isTold = ([key, count]: readonly [string, number]): boolean => {
        const about = told?.[key as keyof Bill] ?? -1;
        return count <= about * JITTER && count >= about / JITTER;
      };
      expect(counted.filter((each) => !isTold(each))).toEqual([]);
    },
  );
});

// @module-tag rest
import { env, runInDurableObject } from "cloudflare:test";
import { AwsClient } from "aws4fetch";
import { afterEach, beforeAll, describe, expect, test, vi } from "vitest";
import type { LeasedDatum } from "../../protocol/runner.ts";
import gateway from "../../worker/index.ts";
import { Sql } from "../../worker/objects/sql.ts";
import { good } from "./api/support.ts";
import { UNKEPT } from "./branch/unkept.ts";
import { commit, contentOf, makePipeline, makeRepo } from "./pipeline/support.ts";

const signer = new AwsClient({
  accessKeyId: env.SLUICE_ACCESS_KEY_ID,
  secretAccessKey: env.SLUICE_SECRET_ACCESS_KEY,
  service: "s3",
  region: "auto",
  retries: 0,
});

/** What Cloudflare charges for beside the request itself and its CPU. */
interface Bill {
  readonly objectRequests: number;
  readonly rowsRead: number;
  readonly rowsWritten: number;
  readonly classA: number;
  readonly classB: number;
  readonly d1Queries: number;
}

/** `isolate`: the bindings of one that sees each bucket for the first time. */
async function send(
  target: string,
  body?: Uint8Array<ArrayBuffer> | string,
  { isolate = env, expected = 200 }: { isolate?: typeof env; expected?: number } = {},
): Promise<Response> {
  const [method = "", path = ""] = target.split(" ");
  const headers = body instanceof Uint8Array ? { "content-length": String(body.length) } : {};
  const request = await signer.sign(`http://gateway${path}`, { method, headers, ...(body && { body }) });
  const answer = await gateway.fetch(
    request as Parameters<typeof gateway.fetch>[0],
    isolate as Parameters<typeof gateway.fetch>[1],
  );
  if (answer.status !== expected)
    expect(answer.status, `${target} answers ${answer.status}`).toBeLessThan(300);
  return answer;
}

async function bytesOf(target: string): Promise<void> {
  await (await send(target)).arrayBuffer();
}

type Method = (...args: unknown[]) => unknown;

/** Counts everything that is done until `work` is answered, wherever it is done: gateway and objects share an isolate here. */
async function billOf(work: () => Promise<unknown>): Promise<Bill> {
  const counts = { objectRequests: 0, alarms: 0, classA: 0, classB: 0, d1Queries: 0 };
  const counted = (of: object, names: readonly string[], count: keyof typeof counts): void => {
    const methods = of as Record<string, Method>;
    for (const name of names) {
      const real = methods[name];
      if (!real) throw new Error(`there is no method ${name}`);
      vi.spyOn(methods, name).mockImplementation(function (this: unknown, ...args: unknown[]) {
        counts[count] += 1;
        return real.apply(this, args);
      });
    }
  };
  counted(Object.getPrototypeOf(env.BLOBS), ["put", "list", "createMultipartUpload"], "classA");
  counted(Object.getPrototypeOf(env.BLOBS), ["get", "head"], "classB");
  counted(Object.getPrototypeOf(env.DB), ["batch"], "d1Queries");
  counted(Object.getPrototypeOf(env.DB.prepare("SELECT 1")), ["first", "all", "run", "raw"], "d1Queries");
  counted(storagePrototype, ["setAlarm"], "alarms");
  const namespaces = Object.getPrototypeOf(env.BRANCH);
  const { getByName } = namespaces;
  vi.spyOn(namespaces, "getByName").mockImplementation(function (this: unknown, ...args: unknown[]) {
    return new Proxy(getByName.apply(this, args), {
      get(stub, call) {
        if (call === "id" || call === "name" || call === "then") return stub[call];
        return (...given: unknown[]) => {
          counts.objectRequests += 1;
          return stub[call](...given);
        };
      },
    });
  });
  const statements = vi.spyOn(Sql.prototype, "execute");
  await work();
  // What the tests themselves ask after each transaction is charged to nobody.
  const cursors = statements.mock.results
    .filter((_, index) => statements.mock.calls[index]?.[0] !== UNKEPT)
    .map(({ value }) => value as SqlStorageCursor<never>);
  const sum = (rows: "rowsRead" | "rowsWritten") => cursors.reduce((all, cursor) => all + cursor[rows], 0);
  const { alarms, ...bill } = counts;
  // Setting an alarm is charged as a row.
  const result = { ...bill, rowsRead: sum("rowsRead"), rowsWritten: sum("rowsWritten") + alarms };
  vi.restoreAllMocks();
  return result;
}

/** Dollars for a million, by the second table of the page. */
const PRICES = {
  objectRequests: 0.15,
  rowsRead: 0.001,
  rowsWritten: 1,
  classA: 4.5,
  classB: 0.36,
  d1Queries: 0,
};
const REQUEST = 0.3;

function priceOf(bill: Bill): number {
  const parts = Object.entries(PRICES).map(([name, price]) => bill[name as keyof Bill] * price);
  return parts.reduce((all, part) => all + part, REQUEST);
}

/** What each of them has: an alarm that rings in between adds to one of them. */
function least(bills: readonly Bill[]): Record<string, number> {
  const names = Object.keys(bills[0] ?? {}) as (keyof Bill)[];
  return Object.fromEntries(names.map((name) => [name, Math.min(...bills.map((bill) => bill[name]))]));
}

let storagePrototype: object;

beforeAll(async () => {
  await send("PUT /cost");
  const stub = env.BRANCH.getByName("master.cost");
  storagePrototype = await runInDurableObject(stub, (_, { storage }) => Object.getPrototypeOf(storage));
});

afterEach(() => {
  vi.restoreAllMocks();
});

let filled = 0;
/** Bytes that nobody has put yet. */
function fresh(size: number): Uint8Array<ArrayBuffer> {
  filled += 1;
  return new Uint8Array(size)
    .fill(filled % 251)
    .map((byte, index) => (index < 8 ? filled >> (index * 4) : byte));
}

let filledPage = 0;

const KIB = 1024;
const MIB = 1024 * KIB;

/** Each puts the gateway to work as a client would, in a branch that was used before. */
const OPERATIONS: Record<string, () => Promise<() => Promise<unknown>>> = {
  "PutObject, 1 KiB": async () => {
    const body = fresh(KIB);
    return () => send(`PUT /cost/new-${filled}`, body);
  },
  "PutObject, 1 KiB, in place of another": async () => {
    await send("PUT /cost/small", fresh(KIB));
    const body = fresh(KIB);
    return () => send("PUT /cost/small", body);
  },
  "PutObject, 1 MiB": async () => {
    const body = fresh(MIB);
    return () => send(`PUT /cost/new-${filled}`, body);
  },
  "PutObject, 16 MiB": async () => {
    const body = fresh(16 * MIB);
    return () => send(`PUT /cost/new-${filled}`, body);
  },
  "GetObject, 1 KiB": async () => {
    await send("PUT /cost/small", fresh(KIB));
    return () => bytesOf("GET /cost/small");
  },
  "GetObject, 1 MiB": async () => {
    await send("PUT /cost/large", fresh(MIB));
    return () => bytesOf("GET /cost/large");
  },
  "GetObject, 16 MiB": async () => {
    await send("PUT /cost/larger", fresh(16 * MIB));
    return () => bytesOf("GET /cost/larger");
  },
  "GetObject, 1 KiB, the first request of an isolate to the bucket": async () => {
    await send("PUT /cost/small", fresh(KIB));
    return async () =>
      await (await send("GET /cost/small", undefined, { isolate: { ...env } })).arrayBuffer();
  },
  "HeadBucket of one that is not there": async () => () =>
    send("HEAD /no-cost", undefined, { expected: 404 }),
  HeadObject: async () => {
    await send("PUT /cost/small", fresh(KIB));
    return () => send("HEAD /cost/small");
  },
  "ListObjectsV2, a page of 100": async () => {
    for (let n = 0; filledPage < 101; n++) {
      await send(`PUT /cost/page/${n}`, fresh(16));
      filledPage += 1;
    }
    return () => bytesOf("GET /cost?list-type=2&max-keys=100&prefix=page%2F");
  },
  DeleteObject: async () => {
    await send("PUT /cost/gone", fresh(KIB));
    return () => send("DELETE /cost/gone");
  },
};

const JOB = "a commit of 100 files, and the job of 100 datums that it makes";
const DATUMS = 100;

/** Does what a runner does until a job has ended: each datum writes one small file, and some are leased and reported at a time. */
async function run(pipeline: string): Promise<void> {
  const worker = "node-1/cost/0";
  const lease = { pipeline, node: "node-1", worker, max: 10 };
  const jobs = new Set<string>();
  for (let left = DATUMS; left > 0; ) {
    const { datums }: { datums: LeasedDatum[] } = await good("POST /runner/lease", { body: lease });
    const outcomes = datums.map(({ lease, job, datum, inputs: [input] }) => {
      jobs.add(job);
      const { digest, size } = contentOf(datum);
      const outputs = [{ path: `${input?.path}.out`, digest, size, bytes: btoa(datum) }];
      const ran = { executor: "process", image: null };
      return { lease, state: "success", exitCode: 0, millis: 1, ran, outputs };
    });
    await good("POST /runner/finish", { body: { pipeline, worker, outcomes } });
    left -= datums.length;
  }
  for (const job of jobs) expect(await good(`GET /jobs/${job}?wait=10`)).toMatchObject({ state: "success" });
}

/** The table of docs/cost.md, by the names of its rows. */
function tableOfDocs(): Record<string, Bill> {
  const rows = env.TEST_COST_PAGE.split("\n")
    .filter((line) => /^\| [`*]/.test(line))
    .map((line) => line.split("|").map((cell) => cell.trim()));
  return Object.fromEntries(
    rows.map(([, name = "", ...cells]) => {
      const [objectRequests = -1, rowsRead = -1, rowsWritten = -1, classA = -1, classB = -1, d1Queries = -1] =
        cells.map(Number);
      return [
        name.replaceAll(/[`*]/g, ""),
        { objectRequests, rowsRead, rowsWritten, classA, classB, d1Queries },
      ];
    }),
  );
}

describe("docs/cost.md", () => {
  test("has a row for each operation that is counted, and no other", () => {
    expect(Object.keys(tableOfDocs())).toEqual([...Object.keys(OPERATIONS), JOB]);
  });

  test.each(Object.entries(OPERATIONS))("says what is charged for: %s", async (name, prepare) => {
    const bills: Bill[] = [];
    for (let n = 0; n < 3; n++) bills.push(await billOf(await prepare()));
    expect(least(bills)).toEqual(tableOfDocs()[name]);
  });

  test("says what a million of each cost", () => {
    const rows = env.TEST_COST_PAGE.split("\n").filter((line) => line.startsWith("| `"));
    const told = rows.map((line) => line.split("|").at(-2)?.trim());
    const bills = Object.entries(tableOfDocs()).filter(([name]) => name !== JOB);
    expect(told).toEqual(bills.map(([, bill]) => priceOf(bill).toFixed(2)));
  });

  // What goes on beside the calls is put together as it comes, so that it is not the same each time.
  test("says about what is charged for a job", async () => {
    await makeRepo("cost-in");
    await makePipeline({ name: "cost-out", globs: { "cost-in": "/*" } });
    const files = Array.from({ length: DATUMS }, (_, n) => [`file-${n}`, `content ${n}`]);
    const bill = await billOf(async () => {
      await commit("cost-in", Object.fromEntries(files));
      await run("cost-out");
    });
    const told = tableOfDocs()[JOB];
    const isTold = ([name, counted]: [string, number]): boolean => {
      const about = told?.[name as keyof Bill] ?? -1;
      return counted <= about * 3 && counted >= about / 3;
    };
    // How often D1 hears of progress is a matter of time.
    const { d1Queries, ...others } = bill;
    // What is known best is also nearly all of the price.
    expect(bill.rowsWritten).toBeLessThan(1.05 * (told?.rowsWritten ?? 0));
    expect(d1Queries).toBeGreaterThan(0);
    expect(Object.entries(others).filter((each) => !isTold(each))).toEqual([]);
  });
});

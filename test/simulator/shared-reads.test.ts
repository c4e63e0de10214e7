import { afterEach, beforeEach, expect, test, vi } from "vitest";
import { ReadCache } from "../../worker/branch/tree/read-cache.ts";
import { REST } from "../support/suite.ts";
import { digestOf } from "./history/bytes.ts";
import { planOf } from "./history/plan.ts";
import { runHistory } from "./history/run.ts";
import { Simulation } from "./platform/simulation.ts";

/*
 * The entry answers out of what the objects have read. Each answer must be true of some moment between question and answer,
 * as of any read: in histories in which most steps read, and the others change what reads show.
 */

/** How often kinds of steps occur beside each other. */
const WEIGHTS = {
  "S3 request": 30,
  ...{ put: 4, delete: 2, commit: 2, erase: 2, set: 2, create: 1, destroy: 1 },
};

// What went wrong is said in the log, and wrong it goes all the time.
beforeEach(() => {
  vi.spyOn(console, "warn").mockImplementation(() => {});
});

afterEach(() => {
  vi.restoreAllMocks();
});

test("what is answered out of memory is never stale: in 80 histories", async () => {
  const { wrong, files, pages } = await histories({ from: 0, to: 80 });
  expect(wrong).toEqual([]);
  expect(files).toBeGreaterThan(100);
  expect(pages).toBeGreaterThan(100);
});

test("what is answered out of memory is never stale: in 580 more", REST, async () => {
  expect((await histories({ from: 80, to: 660 })).wrong).toEqual([]);
});

test("what a crash takes back was answered to nobody", async () => {
  let takenBack = 0;
  for (let seed = 0; seed < 100; seed++) {
    const { seen, written, left } = await crash(seed);
    expect(Math.max(...seen), `seed ${seed}`).toBeLessThanOrEqual(left);
    if (written > left) takenBack++;
  }
  expect(takenBack).toBeGreaterThan(10);
});

/** Numbers that grow are put at a key while others read it, until a crash. What was seen, the last one put, and what is left. */
async function crash(seed: number): Promise<{ seen: number[]; written: number; left: number }> {
  const BUCKET = "master.numbers";
  const simulation = new Simulation({ seed });
  const { random } = simulation.world;
  const seen: number[] = [];
  let written = 0;
  let isOver = false;
  const numbers = new Map<string | undefined, number>();
  const put = (body: string) => {
    numbers.set(digestOf(body), Number(body));
    return simulation.s3({ method: "PUT", bucket: BUCKET, key: "a", body: new TextEncoder().encode(body) });
  };
  const read = async () => {
    const answer = await simulation.s3({ method: "GET", bucket: BUCKET, key: "a" });
    const number = answer.status === 200 ? Number(await answer.text()) : -1;
    if (!isOver) seen.push(number);
    return number;
  };
  const list = async () => {
    const answer = await simulation.s3({ method: "GET", bucket: BUCKET, query: { "list-type": "2" } });
    const [, digest] = /([0-9a-f]{64})-/.exec(await answer.text()) ?? [];
    if (!isOver) seen.push(numbers.get(digest) ?? -1);
  };
  const writer = async () => {
    while (!isOver) await put(String(++written));
  };
  // Each read that asks the object waits for its disk. Another one begins meanwhile, and may find what that one left.
  const reader = async () => {
    const reads: Promise<unknown>[] = [];
    while (!isOver) {
      reads.push(random.chance(0.5) ? read() : list());
      await scheduler.wait(random.next());
    }
    await Promise.allSettled(reads);
  };
  try {
    await simulation.as(() => simulation.branch(BUCKET).lifecycle.create());
    await simulation.as(() => put("0"));
    return await simulation.as(async () => {
      const running = [writer(), reader()];
      await scheduler.wait(20 + random.next() * 20);
      isOver = true;
      simulation.branches.object(BUCKET).end("it was evicted");
      // The next instance has what the disk has.
      await simulation.branch(BUCKET).lifecycle.status();
      const left = await read();
      await Promise.allSettled(running);
      return { seen, written, left };
    });
  } finally {
    simulation.close();
  }
}

test("whoever has no key is answered no more once the branch is public no more", async () => {
  let answered = 0;
  let refused = 0;
  for (let seed = 0; seed < 12; seed++) {
    const { reads, closed } = await openAndClose(seed);
    for (const { begun, ended, isAnswered } of reads) {
      if (isAnswered) answered++;
      const isClosed = closed.some(({ from, to }) => from < begun && ended < to);
      if (!isClosed) continue;
      expect(isAnswered, `seed ${seed}, asked at ${begun}`).toBe(false);
      refused++;
    }
  }
  expect(answered).toBeGreaterThan(100);
  expect(refused).toBeGreaterThan(100);
});

/**
 * A branch becomes public and ceases to be, again and again, while some read with a key and others without one. What those
 * without were told, and between which moments the branch was certainly not public, in the count of all that was asked and answered.
 */
async function openAndClose(seed: number): Promise<{
  reads: { begun: number; ended: number; isAnswered: boolean }[];
  closed: { from: number; to: number }[];
}> {
  const BUCKET = "master.doors";
  const simulation = new Simulation({ seed });
  const { random } = simulation.world;
  const reads: { begun: number; ended: number; isAnswered: boolean }[] = [];
  const closed: { from: number; to: number }[] = [];
  let moments = 0;
  let isOver = false;
  const ask = (isUnsigned: boolean) => {
    const what = random.chance(0.5) ? { key: "a" } : { query: { "list-type": "2" } };
    return simulation.s3({ method: "GET", bucket: BUCKET, isUnsigned, ...what });
  };
  const signed = async () => {
    while (!isOver) {
      await (await ask(false)).text();
      await scheduler.wait(random.next() * 2);
    }
  };
  const unsigned = async () => {
    while (!isOver) {
      const begun = ++moments;
      const answer = await ask(true);
      await answer.text();
      reads.push({ begun, ended: ++moments, isAnswered: answer.status === 200 });
      await scheduler.wait(random.next() * 2);
    }
  };
  const open = async () => {
    for (let times = 0; times < 3; times++) {
      await simulation.branch(BUCKET).settings.change({ public: true });
      await scheduler.wait(random.next() * 20);
      await simulation.branch(BUCKET).settings.change({ public: false });
      const from = ++moments;
      await scheduler.wait(20 + random.next() * 20);
      closed.push({ from, to: ++moments });
    }
    isOver = true;
  };
  try {
    return await simulation.as(async () => {
      // The gateway goes for five seconds by what it first hears of who may read: then it is the branch that refuses.
      await simulation.branch(BUCKET).lifecycle.create({ public: true });
      await simulation.s3({ method: "PUT", bucket: BUCKET, key: "a", body: new Uint8Array(1) });
      await scheduler.wait(1_000);
      await (await ask(true)).text();
      await Promise.all([open(), signed(), signed(), unsigned(), unsigned()]);
      return { reads, closed };
    });
  } finally {
    simulation.close();
  }
}

/** What is wrong in the histories of some seeds, and how often memory answered of a file, and of a listing. */
async function histories({ from, to }: { from: number; to: number }): Promise<{
  wrong: string[];
  files: number;
  pages: number;
}> {
  const find = vi.spyOn(ReadCache.prototype, "find");
  const findPage = vi.spyOn(ReadCache.prototype, "findPage");
  const wrong: string[] = [];
  for (let seed = from; seed < to; seed++) {
    const plan = planOf(seed, { clients: 4, steps: 25, weights: WEIGHTS });
    // Every other one by isolates that look for each bucket before they call it.
    const { faults } = await runHistory({ ...plan, forgets: seed % 2 === 1 });
    if (faults.length > 0) wrong.push(`seed ${seed}: ${faults.join("\n")}`);
  }
  const [files, pages] = [find, findPage].map(
    ({ mock }) => mock.results.filter(({ value }) => value !== undefined).length,
  );
  return { wrong, files: files ?? 0, pages: pages ?? 0 };
}

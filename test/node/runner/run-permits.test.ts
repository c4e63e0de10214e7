import { describe, expect, test } from "vitest";
import type { Lease } from "../../../protocol/runner.ts";
import { type Ask, Asking } from "../../../runner/worker/asking.ts";
import { type RunPermit, RunPermits } from "../../../runner/worker/run-permits.ts";

const never = new AbortController().signal;

describe("the permits of a node", () => {
  test("are so many, and a permit that was released twice is still one", async () => {
    const permits = new RunPermits(2);
    const [first, second] = [permits.tryTake("a"), permits.tryTake("a")];
    expect(permits.tryTake("b")).toBeUndefined();
    first?.release();
    first?.release();
    expect(permits.tryTake("b")).toBeDefined();
    expect(permits.tryTake("b")).toBeUndefined();
    second?.release();
    expect(permits.tryTake("b")).toBeDefined();
  });

  test("go round among pipelines: one of 400 workers does not starve one with a single worker", async () => {
    const permits = new RunPermits(4);
    const turns: string[] = [];
    const held: RunPermit[] = [];
    const worker = async (pipeline: string) => {
      const permit = await permits.take(pipeline, never);
      if (!permit) throw new Error("no permit");
      turns.push(pipeline);
      held.push(permit);
    };
    const many = Array.from({ length: 400 }, () => worker("many"));
    const one = worker("one");
    const few = [worker("few"), worker("few")];
    for (let ended = 0; ended < 403; ended += 1) {
      await Promise.resolve();
      await expect.poll(() => held.length).toBeGreaterThan(0);
      held.shift()?.release();
      await new Promise((resolve) => setImmediate(resolve));
    }
    await Promise.all([...many, one, ...few]);
    expect(turns.slice(0, 4)).toEqual(["many", "many", "many", "many"]);
    // The next that come free go to those that have fewest: each has one when "few" gets its second.
    expect(turns.slice(4, 8).sort()).toEqual(["few", "few", "many", "one"]);
    expect(turns).toHaveLength(403);
  });

  test("are not kept by one that waited and went away", async () => {
    const permits = new RunPermits(1);
    const permit = permits.tryTake("a");
    const gone = new AbortController();
    const waited = permits.take("b", gone.signal);
    const stays = permits.take("c", never);
    gone.abort();
    expect(await waited).toBeUndefined();
    permit?.release();
    expect(await stays).toBeDefined();
    expect(await permits.take("d", gone.signal)).toBeUndefined();
  });

  test("suffice while there are no more workers than permits", () => {
    const permits = new RunPermits(2);
    const leave = [permits.enter(), permits.enter()];
    expect(permits.suffice).toBe(true);
    leave.push(permits.enter());
    expect(permits.suffice).toBe(false);
    leave[0]?.();
    expect(permits.suffice).toBe(true);
  });
});

describe("a worker that asks for work", () => {
  const signals = { drain: never, kill: never };
  const leaseOf = (count: number, queued?: boolean): Lease => ({
    slot: true,
    transform: { image: "none", cmd: ["true"] },
    limited: false,
    output: { repo: "r", branch: "master" },
    datums: Array.from({ length: count }, (_, n) => ({
      lease: `l${n}`,
      job: "j",
      datum: `d${n}`,
      inputs: [],
    })),
    tasks: [],
    ...(queued !== undefined && { queued }),
  });

  /** A worker's asking over a gateway that is asked through `answer`. */
  function asking(
    permits: RunPermits,
    {
      pipeline,
      answer,
    }: {
      pipeline: string;
      answer: (ask: Ask) => Promise<Lease | undefined>;
    },
  ): { asking: Asking; asked: (string | undefined)[]; returned: Lease[] } {
    const asked: (string | undefined)[] = [];
    const returned: Lease[] = [];
    permits.enter();
    const one = new Asking({
      ...{ permits, pipeline },
      lease: (ask) => {
        asked.push(ask.wait);
        return answer(ask);
      },
      giveBack: (lease) => void returned.push(lease),
      keepingSlot: (work) => work(),
    });
    return { asking: one, asked, returned };
  }

  test("waits at the gateway in one call while each worker has a permit", async () => {
    const permits = new RunPermits(1);
    const { asking: a, asked } = asking(permits, { pipeline: "a", answer: async () => leaseOf(1) });
    const work = await a.next(1, signals);
    expect(work?.lease.datums).toHaveLength(1);
    expect(asked).toEqual([undefined]);
    expect(permits.tryTake("b")).toBeUndefined();
    work?.permit.release();
  });

  test("holds no permit while it waits for work: another pipeline's datum has it", async () => {
    const permits = new RunPermits(1);
    const { promise: later, resolve: queue } = Promise.withResolvers<void>();
    const idle = asking(permits, {
      pipeline: "idle",
      async answer({ wait }) {
        if (wait === "none") return leaseOf(0);
        await later;
        return leaseOf(0, true);
      },
    });
    const busy = asking(permits, { pipeline: "busy", answer: async () => leaseOf(1) });
    expect(await idle.asking.next(1, signals)).toBeUndefined();
    const waiting = idle.asking.next(1, signals);
    const work = await busy.asking.next(1, signals);
    expect(work?.lease.datums).toHaveLength(1);
    // What it hears of now waits for the permit: nothing is leased that has none.
    queue();
    await new Promise((done) => setImmediate(done));
    expect(idle.asked).toEqual(["none", "look"]);
    work?.permit.release();
    await waiting;
    expect(idle.asked).toEqual(["none", "look", "none"]);
    expect(permits.tryTake("busy")).toBeDefined();
  });

  test("does not ask if others of its pipeline have found nothing since it peeked", async () => {
    const permits = new RunPermits(1);
    const held = permits.tryTake("x");
    const answer = async ({ wait }: Ask) => (wait === "look" ? leaseOf(0, true) : leaseOf(0));
    const workers = Array.from({ length: 5 }, () => asking(permits, { pipeline: "a", answer }));
    const first = Promise.all(workers.map((each) => each.asking.next(1, signals)));
    held?.release();
    await first;
    const again = permits.tryTake("x");
    const second = Promise.all(workers.map((each) => each.asking.next(1, signals)));
    await new Promise((done) => setImmediate(done));
    again?.release();
    await second;
    const peeked = workers.map(({ asked }) => asked.slice(1));
    expect(peeked.filter(([look]) => look === "look")).toHaveLength(5);
    expect(peeked.filter(([, ask]) => ask === "none")).toHaveLength(1);
  });

  test("gives back what it was leased without a permit, at once", async () => {
    const permits = new RunPermits(1);
    const others: (() => void)[] = [];
    const one = asking(permits, {
      pipeline: "a",
      // While the call waits, another worker comes, and takes the only permit.
      async answer() {
        if (others.length > 0) return leaseOf(2);
        const leave = permits.enter();
        const taken = permits.tryTake("x");
        others.push(leave, () => taken?.release());
        return leaseOf(2);
      },
    });
    expect(await one.asking.next(4, signals)).toBeUndefined();
    expect(one.returned.map(({ datums }) => datums.length)).toEqual([2]);
    for (const leave of others) leave();
    expect((await one.asking.next(4, signals))?.lease.datums).toHaveLength(2);
    expect(one.asked).toEqual([undefined, undefined]);
  });
});

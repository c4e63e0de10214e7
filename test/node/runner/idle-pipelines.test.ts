import { beforeEach, describe, expect, test } from "vitest";
import { IdlePipelines } from "../../../runner/worker/idle-pipelines.ts";

let idle: IdlePipelines;
let drain: AbortController;
beforeEach(() => {
  [idle, drain] = [new IdlePipelines(), new AbortController()];
  idle.isHeard = true;
});

/** What a heartbeat is answered. */
function answer(marks: Readonly<Record<string, boolean>>, wakeUps = idle.wakeUps): void {
  const workers = Object.entries(marks).map(([pipeline, isIdle]) => ({
    ...{ pipeline, count: 1 },
    ...(isIdle && { idle: true as const }),
  }));
  idle.hear({ workers }, wakeUps);
}

interface Rest {
  readonly done: Promise<boolean>;
  has: boolean;
}

/** A worker that asked after so many wakeUps, and was told that nothing is queued. */
function rest(pipeline: string, wakeUps = idle.wakeUps): Rest {
  const resting: Rest = { has: false, done: idle.rest(pipeline, { wakeUps, signal: drain.signal }) };
  void resting.done.then(() => {
    resting.has = true;
  });
  return resting;
}

/** All that goes on in promises alone has come to its end. */
const settled = () => new Promise((resolve) => setImmediate(resolve));

async function expectRests(resting: Rest): Promise<void> {
  await settled();
  expect(resting.has).toBe(false);
}

describe("a worker rests", () => {
  test("while its pipeline has no job under way and wake-ups are heard, until one comes for it", async () => {
    answer({ edges: true, faces: true });
    const [edges, faces] = [rest("edges"), rest("faces")];
    idle.wake(["others"]);
    await expectRests(edges);
    idle.wake(["edges", "more"]);
    expect(await edges.done).toBe(true);
    await expectRests(faces);
    // It has something to do until a heartbeat says otherwise.
    expect(await rest("edges").done).toBe(false);
    answer({ edges: true, faces: true });
    await expectRests(rest("edges"));
  });

  test("until a heartbeat says that there is a job, or that it is to have no worker", async () => {
    answer({ edges: true, faces: true });
    const [edges, faces] = [rest("edges"), rest("faces")];
    answer({ edges: true, faces: true });
    await expectRests(edges);
    answer({ edges: false });
    expect([await edges.done, await faces.done]).toEqual([true, true]);
  });

  test("until wake-ups are heard no more, or it is to end", async () => {
    answer({ edges: true });
    const first = rest("edges");
    idle.isHeard = false;
    expect(await first.done).toBe(true);
    expect(await rest("edges").done).toBe(false);
    idle.isHeard = true;
    const second = rest("edges");
    await expectRests(second);
    drain.abort();
    expect(await second.done).toBe(true);
    expect(await rest("edges").done).toBe(false);
  });

  test("until no heartbeat is answered, since the catalogue can't be told of jobs then", async () => {
    answer({ edges: true });
    const edges = rest("edges");
    await expectRests(edges);
    idle.forget();
    expect(await edges.done).toBe(true);
    expect(await rest("edges").done).toBe(false);
    answer({ edges: true });
    await expectRests(rest("edges"));
  });
});

describe("of workers that rest for a pipeline", () => {
  const some = async () => {
    answer({ edges: true, faces: true });
    return { edges: Array.from({ length: 6 }, () => rest("edges")), face: rest("faces") };
  };
  const ended = async (rests: readonly Rest[]) => {
    await settled();
    return rests.map(({ has }) => has);
  };

  test("a wake-up wakes one, and one that has found something two more", async () => {
    const { edges, face } = await some();
    idle.wake(["edges"]);
    expect(await ended(edges)).toEqual([true, false, false, false, false, false]);
    idle.found("edges");
    expect(await ended(edges)).toEqual([true, true, true, false, false, false]);
    idle.found("edges");
    idle.found("edges");
    expect(await ended(edges)).toEqual([true, true, true, true, true, true]);
    await expectRests(face);
  });

  test("one that does not ask now wakes another one", async () => {
    const { edges } = await some();
    idle.passOn("edges");
    expect(await ended(edges)).toEqual([true, false, false, false, false, false]);
  });

  test("each heartbeat that says that there is a job wakes one, as the wake-up may have been lost", async () => {
    const { edges, face } = await some();
    answer({ edges: false, faces: true });
    expect(await ended(edges)).toEqual([true, false, false, false, false, false]);
    answer({ edges: false, faces: true });
    expect(await ended(edges)).toEqual([true, true, false, false, false, false]);
    await expectRests(face);
  });

  test("all are woken when wake-ups are heard no more, or no heartbeat is answered", async () => {
    for (const end of [() => idle.forget(), () => (idle.isHeard = false)]) {
      idle.isHeard = true;
      const { edges, face } = await some();
      end();
      expect(await ended([...edges, face])).not.toContain(false);
    }
  });

  test("none is woken in place of one that has ended", async () => {
    answer({ edges: true });
    const ending = new AbortController();
    const first = idle.rest("edges", { wakeUps: idle.wakeUps, signal: ending.signal });
    const second = rest("edges");
    ending.abort();
    expect(await first).toBe(true);
    await expectRests(second);
    idle.wake(["edges"]);
    expect(await second.done).toBe(true);
  });
});

describe("a worker does not rest", () => {
  test("if it was never said that there is nothing to do, or by a gateway that can't tell", async () => {
    expect(await rest("edges").done).toBe(false);
    answer({ edges: false });
    expect(await rest("edges").done).toBe(false);
  });

  test("if it was woken since it asked, though a heartbeat was answered before or after", async () => {
    answer({ edges: true });
    const wakeUps = idle.wakeUps;
    idle.wake(["edges"]);
    answer({ edges: true });
    expect(await rest("edges", wakeUps).done).toBe(false);
    await expectRests(rest("edges"));
  });

  test("by what a heartbeat is answered that began before a wake-up", async () => {
    const wakeUps = idle.wakeUps;
    idle.wake(["edges"]);
    answer({ edges: true }, wakeUps);
    expect(await rest("edges").done).toBe(false);
    answer({ edges: true });
    await expectRests(rest("edges"));
  });
});

import { env, runDurableObjectAlarm, runInDurableObject } from "cloudflare:test";
import { describe, expect, it } from "vitest";
import { PipelineTable } from "../../../worker/catalogue/pipelines.ts";
import type { PipelineApi } from "../../../worker/pipeline/contract.ts";
import { REST } from "../../support/suite.ts";
import {
  allJobs,
  commit,
  contentOf,
  echo,
  filesOf,
  leaseSome,
  makePipeline,
  makeRepo,
  master,
  outcomeOf,
  pipelineOf,
  query,
  specOf,
  workOnce,
  workUntil,
} from "./support.ts";

/** Kills the object where it stands: what it had in memory is gone, its rows are not. */
async function crash(name: string): Promise<void> {
  try {
    await runInDurableObject(env.PIPELINE.getByName(name), (_, state) => state.abort("crash"));
  } catch {
    // The call that kills the object dies with it.
  }
}

async function alarm(name: string): Promise<void> {
  await runDurableObjectAlarm(env.PIPELINE.getByName(name));
}

/** Calls again until the object, which may be killed at any moment, answers. */
async function insist<T>(call: () => Promise<T>): Promise<T> {
  for (;;) {
    try {
      return await call();
    } catch {
      await scheduler.wait(1);
    }
  }
}

describe("a pipeline that crashes", () => {
  it("after a bell but before it has read the input goes on by its alarm", async () => {
    await makeRepo("bell-in");
    await makePipeline({ name: "bell", globs: { "bell-in": "/*" } });
    const row = (await new PipelineTable(env.DB).list()).find(({ name }) => name === "bell");
    const uid = row?.uid ?? "";
    await master("bell-in").feed.unsubscribe({ uid });
    await commit("bell-in", { a: "1" });
    await runInDurableObject(env.PIPELINE.getByName("bell"), async (_, state) => {
      await state.storage.setAlarm(Date.now() + 60_000);
      state.storage.sql.exec("UPDATE pipeline SET pullDue = 1");
    });
    await crash("bell");
    await alarm("bell");
    await expect.poll(() => query("bell", "SELECT n, state FROM jobs")).toEqual([{ n: 1, state: "running" }]);
  });

  it("while it is being made is made by its alarm", async () => {
    await makeRepo("saga-in");
    await commit("saga-in", { a: "1" });
    const spec = specOf({ name: "saga", globs: { "saga-in": "/*" } });
    const creating = Promise.allSettled([pipelineOf("saga").lifecycle.create(spec)]);
    await crash("saga");
    await creating;
    const begun = await runInDurableObject(
      env.PIPELINE.getByName("saga"),
      (_, state) =>
        state.storage.sql.exec("SELECT 1 FROM sqlite_master WHERE name = 'pipeline'").toArray().length > 0,
    );
    // Killed before its first row there is nothing to go on with: the caller heard of no success either.
    if (!begun) await pipelineOf("saga").lifecycle.create(spec);
    await alarm("saga");
    await expect
      .poll(() => pipelineOf("saga").lifecycle.inspect())
      .toMatchObject({ ok: true, pipeline: { state: "active" } });
    await workUntil(pipelineOf("saga"), { jobs: 1 });
    expect(await allJobs(pipelineOf("saga"))).toHaveLength(1);
  });

  it("between two slices of a large job fills the rest once", async () => {
    await makeRepo("slice-in");
    const files = Object.fromEntries(Array.from({ length: 3000 }, (_, index) => [`f${index}`, "x"]));
    await commit("slice-in", files);
    await insist(async () => {
      await pipelineOf("slice").lifecycle.create(specOf({ name: "slice", globs: { "slice-in": "/*" } }));
    });
    for (let time = 0; time < 5; time++) {
      await crash("slice");
      await insist(async () => pipelineOf("slice").leases.output());
      await scheduler.wait(5);
    }
    await insist(async () => alarm("slice"));
    await expect
      .poll(() => query("slice", "SELECT total, open, state FROM jobs"))
      .toEqual([{ total: 3000, open: 3000, state: "running" }]);
    expect(await query("slice", "SELECT count(*) AS count FROM datums")).toEqual([{ count: 3000 }]);
  });

  it("between the output commit and its own row makes no second commit", async () => {
    await makeRepo("end-in");
    const pipeline = await makePipeline({ name: "end", globs: { "end-in": "/*" } });
    await commit("end-in", { a: "1" });
    const { datums, output } = await leaseSome(pipeline);
    const [datum] = datums;
    if (!datum) throw new Error("no datum");
    const outcome = await outcomeOf(datum, { command: echo, output });
    await pipeline.leases.finish({ worker: "w1", outcomes: [outcome] });
    await workUntil(pipeline, { jobs: 1 });
    const [before] = await allJobs(pipeline);
    await query(
      "end",
      `UPDATE jobs SET state = 'running', finishedAt = NULL, outputCommit = NULL;
       UPDATE pipeline SET committed = 0; DELETE FROM published`,
    );
    await crash("end");
    await insist(async () => pipelineOf("end").leases.output());
    await workUntil(pipelineOf("end"), { jobs: 1 });
    const [after] = await allJobs(pipelineOf("end"));
    expect(after?.outputCommit).toBe(before?.outputCommit);
    const status = await master("end").lifecycle.status();
    expect(status.ok && status.head).toBe(before?.outputCommit);
  });

  it("at any moment, again and again, makes each job once and every result right", {
    ...REST,
    timeout: 90_000,
  }, async () => {
    await makeRepo("storm-in");
    const name = "storm";
    await makePipeline({ name, globs: { "storm-in": "/*" }, workers: 2 });
    let done = false;
    const storm = async (): Promise<void> => {
      for (let time = 0; !done; time++) {
        await scheduler.wait(3 + ((time * 7) % 23));
        await crash(name);
      }
    };
    const work = async (worker: string): Promise<void> => {
      while (!done) {
        const fresh: PipelineApi = pipelineOf(name);
        try {
          await workOnce(fresh, { worker });
        } catch {
          await scheduler.wait(1);
        }
      }
    };
    const commits = 40;
    const write = async (): Promise<void> => {
      for (let index = 0; index < commits; index++) {
        const path = `f${index % 10}`;
        await master("storm-in").files.put({ path, content: contentOf(`${index}`), attributes: {} });
      }
      await expect
        .poll(async () => (await insist(async () => allJobs(pipelineOf(name)))).length)
        .toBe(commits);
      done = true;
    };
    await Promise.all([storm(), work("w1"), work("w2"), write()]);
    // Leases whose outcome a crash swallowed run out.
    await expect
      .poll(async () => {
        await query(name, "UPDATE attempts SET leaseUntil = 1 WHERE leaseUntil IS NOT NULL");
        await query(name, "UPDATE lease_calls SET due = 1");
        await workOnce(pipelineOf(name), { worker: "w1" });
        return (await allJobs(pipelineOf(name))).filter(({ state }) => state === "success").length;
      })
      .toBe(commits);
    const jobs = await allJobs(pipelineOf(name));
    expect(jobs.map(({ datums }) => datums.total)).toEqual(
      Array.from({ length: commits }, (_, index) => Math.min(index + 1, 10)),
    );
    expect(jobs.map(({ datums }) => datums.processed)).toEqual(jobs.map(() => 1));
    expect(await filesOf({ repo: name, branch: "master" })).toHaveLength(10);
    expect(new Set(jobs.map(({ outputCommit }) => outputCommit)).size).toBe(commits);
  });
});

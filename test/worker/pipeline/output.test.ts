import { env } from "cloudflare:test";
import { describe, expect, it } from "vitest";
import { PipelineTable } from "../../../worker/catalogue/pipelines.ts";
import { good } from "../s3/support.ts";
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
  pathsOf,
  query,
  workUntil,
} from "./support.ts";

describe("the output commit of a job", () => {
  it("takes its claim back when somebody else has been handed a higher epoch", async () => {
    await makeRepo("claim-in");
    const pipeline = await makePipeline({ name: "claim", globs: { "claim-in": "/*" } });
    const row = (await new PipelineTable(env.DB).list()).find(({ name }) => name === "claim");
    expect((await master("claim").output.claim({ pipeline: "claim", uid: row?.uid ?? "" })).ok).toBe(true);
    await commit("claim-in", { a: "1" });
    await workUntil(pipeline, { jobs: 1 });
    expect((await allJobs(pipeline))[0]?.state).toBe("success");
    expect(await filesOf({ repo: "claim", branch: "master" })).toEqual(["a.out"]);
  });

  it("runs a datum again whose content the output branch does not have", async () => {
    await makeRepo("lack-in");
    const pipeline = await makePipeline({ name: "lack", globs: { "lack-in": "/*" } });
    await commit("lack-in", { a: "1", b: "1" });
    const { datums } = await leaseSome(pipeline);
    const { digest, size } = contentOf("never sent");
    await pipeline.leases.finish({
      worker: "w1",
      outcomes: datums.map((datum) => ({
        lease: datum.lease,
        state: "success",
        exitCode: 0,
        outputs: pathsOf(datum)[0] === "a" ? [{ path: "a.out", digest, size }] : [],
        millis: 1,
        ran: { executor: "process", image: null },
      })),
    });
    const ran = await workUntil(pipeline, { jobs: 1 });
    expect(ran.map(({ paths }) => paths[0])).toEqual(["a"]);
    expect((await allJobs(pipeline))[0]).toMatchObject({
      state: "success",
      datums: { total: 2, processed: 2, skipped: 0, failed: 0 },
    });
    expect(await filesOf({ repo: "lack", branch: "master" })).toEqual(["a.out"]);
  });

  it("keeps an empty directory that any of several datums still leaves", async () => {
    await makeRepo("shared-in");
    const pipeline = await makePipeline({ name: "shared", globs: { "shared-in": "/*" } });
    await commit("shared-in", { a: "1", b: "1" });
    await workUntil(pipeline, { jobs: 1, command: () => ({ "both/": "" }) });
    await commit("shared-in", { a: null });
    await workUntil(pipeline, { jobs: 2 });
    expect(await filesOf({ repo: "shared", branch: "master" })).toEqual(["both/"]);
    await commit("shared-in", { b: null });
    await workUntil(pipeline, { jobs: 3 });
    expect(await filesOf({ repo: "shared", branch: "master" })).toEqual([]);
  });

  it("brings back what failed jobs between did not commit", async () => {
    await makeRepo("gap-in");
    const pipeline = await makePipeline({ name: "gap", globs: { "gap-in": "/*" } });
    await commit("gap-in", { a: "1", old: "1" });
    await workUntil(pipeline, { jobs: 1 });
    await commit("gap-in", { evil: "1", b: "1" });
    await commit("gap-in", { old: null, c: "1" });
    await workUntil(pipeline, {
      jobs: 3,
      command: (datum) => (pathsOf(datum)[0] === "evil" ? "fail" : echo(datum)),
    });
    expect(await filesOf({ repo: "gap", branch: "master" })).toEqual(["a.out", "old.out"]);
    await commit("gap-in", { evil: null });
    expect(await workUntil(pipeline, { jobs: 4 })).toEqual([]);
    expect(await filesOf({ repo: "gap", branch: "master" })).toEqual(["a.out", "b.out", "c.out"]);
    expect(await query("gap", "SELECT committed FROM pipeline")).toEqual([{ committed: 4 }]);
  });

  it("has files with the Content-Type of their extension, and so has a copy of one under another name", async () => {
    await makeRepo("typed-in");
    const pipeline = await makePipeline({ name: "typed", globs: { "typed-in": "/*" } });
    await commit("typed-in", { a: "1" });
    const files = { "a.csv": "x,y", "d/b.JSON": "{}", page: "<p>", "empty.html": "", "dir.csv/": "" };
    await workUntil(pipeline, { jobs: 1, command: () => files });
    const typeOf = async (key: string) =>
      (await good(`HEAD /master.typed/${key}`)).headers.get("content-type");
    expect(await typeOf("a.csv")).toBe("text/csv");
    expect(await typeOf("d/b.JSON")).toBe("application/json");
    expect(await typeOf("page")).toBe("binary/octet-stream");
    expect(await typeOf("empty.html")).toBe("text/html");
    expect((await good("GET /master.typed/a.csv")).headers.get("content-type")).toBe("text/csv");

    await good("PUT /master.typed-copies");
    for (const copied of ["a.txt", "a.csv"]) {
      const headers = { "x-amz-copy-source": "/master.typed/a.csv" };
      await good(`PUT /master.typed-copies/${copied}`, { headers });
      const head = await good(`HEAD /master.typed-copies/${copied}`);
      expect(head.headers.get("content-type"), copied).toBe("text/csv");
    }
  });
});

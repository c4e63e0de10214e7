import { beforeAll, describe, expect, test } from "vitest";
import { DatumDetail, DatumOutputPage } from "../../../protocol/pipelines.ts";
import type { LeasedDatum } from "../../../protocol/runner.ts";
import { contentOf } from "../pipeline/support.ts";
import { api, commitFiles, failed, good, makeBranch } from "./support.ts";

const PIPELINE = "rerun";
const INPUT = { repo: `${PIPELINE}-in`, branch: "master" };
const SECRET_VALUE = "postgres://me:hush@db";

let datum: LeasedDatum;
let path: string;

const as = (...repos: string[]) => ({ caller: { scope: { level: "read", repos } as const } });

beforeAll(async () => {
  await makeBranch(INPUT);
  await good("POST /pipelines", {
    body: {
      pipeline: { name: PIPELINE },
      transform: { image: "busybox", cmd: ["sh"], stdin: ["true"], env: { DATABASE: SECRET_VALUE } },
      inputs: [{ repo: { name: INPUT.repo }, glob: "/*", lazy: true }],
    },
  });
  await commitFiles(INPUT, { a: "1" });
  const { datums } = await good("POST /runner/lease", {
    body: { pipeline: PIPELINE, node: "n1", worker: "w", max: 1 },
  });
  datum = datums[0];
  const { digest, size } = contentOf("made");
  const output = { path: "x", digest, size, bytes: btoa("made") };
  const outcome = {
    lease: datum.lease,
    state: "success",
    exitCode: 0,
    outputs: [output],
    millis: 1,
    ran: { executor: "process", image: null },
  };
  await good("POST /runner/finish", { body: { pipeline: PIPELINE, worker: "w", outcomes: [outcome] } });
  // Jobs are found by their ids a moment after they were made.
  while (!(await api(`GET /jobs/${datum.job}`)).ok) await scheduler.wait(10);
  path = `/jobs/${datum.job}/datums/${datum.datum.slice(0, 12)}`;
});

describe("a datum of a job", () => {
  test("is told with its command and its inputs, and what the job has of it, to a key that reads all of these", async () => {
    const key = as(PIPELINE, INPUT.repo);
    const detail = DatumDetail.parse(await good(`GET ${path}`, key));
    expect(detail).toMatchObject({
      ...{ pipeline: PIPELINE, version: 1, limited: false, outputs: "kept" },
      transform: { cmd: ["sh"], stdin: ["true"], env: { DATABASE: SECRET_VALUE } },
      inputs: datum.inputs,
      datum: { id: datum.datum, state: "success", exitCode: 0 },
    });
    const page = DatumOutputPage.parse(await good(`GET ${path}/outputs`, key));
    const { digest, size } = contentOf("made");
    expect(page).toEqual({ outputs: [{ path: "x", content: { digest, size }, merged: false }], next: null });
  });

  test.each([
    ["an input", [PIPELINE], `needs read in the repo '${INPUT.repo}'`],
    ["the pipeline", [INPUT.repo], `needs read in the repo '${PIPELINE}'`],
  ])("is not told to a key that may not read %s", async (_, repos, text) => {
    const error = await failed(`GET ${path}`, as(...repos));
    expect(error).toMatchObject({ status: 403, code: "AccessDenied" });
    expect(error.message).toContain(text);
    expect(error.message).not.toContain("hush");
  });

  test.each([
    ["a datum that the job has not", `${"0".repeat(64)}`, 404, "NotFound", "sluice job datums"],
    ["what can't be an id", "not-hex", 400, "InvalidRequest", "64 hex digits"],
  ])("is refused with words that help: %s", async (_, id, status, code, text) => {
    for (const target of [
      `GET /jobs/${datum.job}/datums/${id}`,
      `GET /jobs/${datum.job}/datums/${id}/outputs`,
    ]) {
      const error = await failed(target);
      expect(error).toMatchObject({ status, code });
      expect(error.message).toContain(text);
    }
  });

  test("of a job that is not there is refused, and so is a place that no page has named", async () => {
    expect(await failed("GET /jobs/01AAAAAAAAAAAAAAAAAAAAAAAA/datums/00")).toMatchObject({
      status: 404,
      code: "NoSuchJob",
    });
    expect(await failed(`GET ${path}/outputs?after=nonsense`)).toMatchObject({
      status: 400,
      issues: [{ path: "after" }],
    });
  });
});

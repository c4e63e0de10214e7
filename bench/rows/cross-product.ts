import { setTimeout as pause } from "node:timers/promises";
import { MAX_COMMIT_OPERATIONS } from "../../protocol/files.ts";
import type { Job } from "../../protocol/pipelines.ts";
import type { LeasedDatum } from "../../protocol/runner.ts";
import { commitTexts } from "../support/bulk-commit.ts";
import { Control } from "../support/control.ts";
import type { Row } from "../support/row.ts";
import { startBenchGateway } from "../support/servers.ts";
import { type Probe, probeDuring, waitFigures } from "../support/waits.ts";

/** Files of each of the two inputs. */
const FILES = { full: 1000, quick: 200 } as const;
const PIPELINE = "pairs";
const INPUTS = ["left", "right"];
/** No call may wait longer while the datums are worked out. */
const AT_MOST_MS = 500;
const LOOK_EVERY_MS = 100;
const GIVE_UP_MS = 15 * 60 * 1000;
/** Datums of the page that is asked for. */
const PAGE = 100;

/** A job with very many datums is filled in slices: others get their turn in between. */
export const crossProduct: Row = {
  name: "cross-product",
  title:
    "the datums of a large cross product are worked out: longest wait of other calls, and pairs per second",
  async run({ scale, say }) {
    const files = FILES[scale];
    const gateway = await startBenchGateway();
    const control = new Control(gateway.door);
    try {
      for (const repo of INPUTS) await fillInput(control, { repo, files });
      const startedAt = performance.now();
      await control.createPipeline(crossPipeline());
      const first = await firstJob(control);
      const { result, waits } = await probeDuring(probesOf(control, first.id), () =>
        filled(control, { say }),
      );
      const seconds = (performance.now() - startedAt) / 1000;
      if (result.datums.total !== files ** 2) throw new Error(`${result.datums.total} datums`);
      return [
        ...waitFigures(waits, { atMostMs: AT_MOST_MS }),
        {
          what: `${files} × ${files}`,
          unit: "pairs/s",
          values: [files ** 2 / seconds],
          compare: "nothing",
          target: null,
        },
      ];
    } finally {
      await control.close();
      await gateway.stop();
    }
  },
};

async function fillInput(control: Control, { repo, files }: { repo: string; files: number }): Promise<void> {
  if (files > MAX_COMMIT_OPERATIONS) throw new Error(`${files} files do not fit a commit`);
  const address = { repo, branch: "master" };
  await control.createBranch(address);
  const texts = Array.from({ length: files }, (_, i) => ({ path: `f${i}`, text: `${repo} ${i}\n` }));
  await commitTexts(control, { address, files: texts });
}

function crossPipeline() {
  return {
    pipeline: { name: PIPELINE },
    transform: { image: "busybox", cmd: ["true"] },
    parallelism_spec: { strategy: "CONSTANT", constant: 1 },
    inputs: INPUTS.map((name) => ({ name, repo: { name }, branch: "master", glob: "/*" })),
  };
}

/** What people and runners ask meanwhile. Datums may be leased before all are known: one is taken, then given back. */
function probesOf(control: Control, job: string): Probe[] {
  const { runner, signal } = control;
  const who = { pipeline: PIPELINE, worker: "prober" };
  let leased: readonly LeasedDatum[] = [];
  return [
    { what: "GET pipeline", call: () => control.get(`/pipelines/${PIPELINE}`) },
    { what: "GET jobs of it", call: () => control.newestJob(PIPELINE) },
    { what: "GET job", call: () => control.get(`/jobs/${job}`) },
    { what: `GET ${PAGE} datums`, call: () => control.get(`/jobs/${job}/datums?limit=${PAGE}`) },
    {
      what: "POST lease",
      async call() {
        leased = (await runner.lease({ ...who, node: "prober", max: 1 }, signal)).datums;
      },
    },
    {
      what: "POST finish",
      async call() {
        const outcomes = leased.map(({ lease }) => ({ lease, state: "returned" as const }));
        if (outcomes.length > 0) await runner.finish({ ...who, outcomes }, signal);
      },
    },
  ];
}

async function firstJob(control: Control): Promise<Job> {
  for (;;) {
    const job = await control.newestJob(PIPELINE);
    if (job) return job;
    await pause(LOOK_EVERY_MS);
  }
}

/** The job once all its datums are known. */
async function filled(control: Control, { say }: { say: (message: string) => void }): Promise<Job> {
  const giveUpAt = performance.now() + GIVE_UP_MS;
  for (let told = 0; performance.now() < giveUpAt; ) {
    const job = await control.newestJob(PIPELINE);
    if (job && job.state !== "starting") return job;
    const total = job?.datums.total ?? 0;
    if (total >= 2 * told && total > 0) {
      say(`${total} pairs`);
      told = total;
    }
    await pause(LOOK_EVERY_MS);
  }
  throw new Error("the datums were not known in time");
}

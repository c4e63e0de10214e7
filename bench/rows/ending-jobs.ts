import { setTimeout as pause } from "node:timers/promises";
import { Pool } from "undici";
import { putBurst } from "../support/burst.ts";
import { Control } from "../support/control.ts";
import type { Figure } from "../support/figure.ts";
import { newestJobEnd } from "../support/job-end.ts";
import type { Row } from "../support/row.ts";
import { type BenchGateway, startBenchGateway } from "../support/servers.ts";
import { settleOnce } from "../support/settle.ts";
import { percentile } from "../support/stats.ts";

/** Jobs that end one right after the other. */
const JOBS = { full: 10_000, quick: 1000 } as const;
const INPUT = { repo: "ending-in", branch: "master" };
const PIPELINE = "ending";
const PROBE_EVERY_MS = 2;
const LOOK_EVERY_MS = 500;

/**
 * All jobs wait behind the first one, whose only datum is held back; the others have none of their own. When it is
 * settled they all end in a row, without a runner in between: nothing but the gateway itself could let others in.
 */
export const endingJobs: Row = {
  name: "ending-jobs",
  title: "GET /healthz while jobs end in a row",
  async run({ scale, say }) {
    const gateway = await startBenchGateway();
    const control = new Control(gateway.door);
    const jobs = JOBS[scale];
    try {
      const newest = await queueJobs({ gateway, control, jobs });
      const startedAt = performance.now();
      const millis = await probedWhile(gateway, async () => {
        await settleOnce(control, PIPELINE);
        await newestJobEnd(control, { pipeline: PIPELINE, commit: newest, probeEveryMs: LOOK_EVERY_MS });
      });
      const seconds = (performance.now() - startedAt) / 1000;
      say(`${jobs} jobs ended in ${seconds.toFixed(1)} s, with ${millis.length} probes`);
      return [
        figure(`p99 while ${jobs} jobs end`, percentile(millis, 99), 50),
        figure(`the slowest while ${jobs} jobs end`, Math.max(...millis), 250),
        { what: "the jobs", unit: "jobs/s", values: [jobs / seconds], compare: "nothing", target: null },
      ];
    } finally {
      await control.close();
      await gateway.stop();
    }
  },
};

function figure(what: string, millis: number, atMost: number): Figure {
  return { what, unit: "ms", values: [millis], compare: "nothing", target: { atMost } };
}

/** Returns the commit of the newest job, when the datums of all are known. */
async function queueJobs({
  gateway,
  control,
  jobs,
}: {
  gateway: BenchGateway;
  control: Control;
  jobs: number;
}): Promise<string> {
  await control.createBranch(INPUT);
  await control.createPipeline({
    pipeline: { name: PIPELINE },
    transform: { image: "none", cmd: ["true"] },
    parallelism_spec: { strategy: "CONSTANT", constant: 1 },
    inputs: [{ name: "in", repo: { name: INPUT.repo }, glob: "/held" }],
  });
  await control.putFile(INPUT, { path: "held", bytes: "held\n" });
  const files = Array.from({ length: jobs - 1 }, (_, n) => ({ path: `other/${n}`, text: `${n}\n` }));
  const newest = await putBurst(gateway, { address: INPUT, files });
  for (;;) {
    const job = await control.newestJob(PIPELINE);
    if (job?.inputs[0]?.commit === newest && job.state === "running") return newest;
    await pause(LOOK_EVERY_MS);
  }
}

/** How long each probe took that was sent while the work went on, in milliseconds. */
async function probedWhile({ endpoint }: BenchGateway, work: () => Promise<void>): Promise<number[]> {
  const pool = new Pool(endpoint, { connections: 1 });
  const millis: number[] = [];
  let goesOn = true;
  const probing = (async () => {
    while (goesOn) {
      const sentAt = performance.now();
      const { body } = await pool.request({ method: "GET", path: "/healthz" });
      await body.dump();
      millis.push(performance.now() - sentAt);
      await pause(PROBE_EVERY_MS);
    }
  })();
  try {
    await work();
  } finally {
    goesOn = false;
    await probing;
    await pool.destroy();
  }
  return millis;
}

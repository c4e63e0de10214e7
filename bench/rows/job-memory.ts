import { startRunner } from "../../test/support/dev-server.ts";
import { commitTexts } from "../support/bulk-commit.ts";
import { Connections } from "../support/closed-loop.ts";
import { Control } from "../support/control.ts";
import type { Figure } from "../support/figure.ts";
import { newestJobEnd } from "../support/job-end.ts";
import { residentMiB } from "../support/memory.ts";
import type { Row } from "../support/row.ts";
import { type BenchGateway, startBenchGateway } from "../support/servers.ts";
import { median } from "../support/stats.ts";

/** Datums of the job, when its memory is first looked at, and datums of a job before it. */
const DATUMS = {
  full: { all: 10_000, early: 1000, before: 2000 },
  quick: { all: 2000, early: 500, before: 500 },
} as const;
/** Each look is the median over so many more datums: memory goes up and down with the garbage collectors. */
const WINDOW = 0.1;
/** An empty Worker, too, grows from 70 to 250 MiB over its first 30,000 requests, before workerd collects much. */
const WARM_UP_REQUESTS = 40_000;
const INPUT = { repo: "many", branch: "master" };
const PIPELINE = "trivial";

/** A long job must not make gateway or runner grow, once both have been at work for a while. */
export const jobMemory: Row = {
  name: "job-memory",
  title: "memory of gateway and runner at the end of a long job, against early in it",
  async run({ scale, say }) {
    const { all, early, before } = DATUMS[scale];
    const gateway = await startBenchGateway();
    const control = new Control(gateway.door);
    const runner = startRunner(gateway.door, { node: "bench" });
    try {
      await warmUp(gateway);
      await control.createBranch(INPUT);
      await control.createPipeline({
        pipeline: { name: PIPELINE },
        transform: { image: "busybox", cmd: ["true"] },
        parallelism_spec: { strategy: "CONSTANT", constant: 2 },
        inputs: [{ name: "in", repo: { name: INPUT.repo }, branch: INPUT.branch, glob: "/*" }],
      });
      await sampledJob(control, { count: before, pids: { gateway: gateway.pid, runner: runner.pid } });
      const startedAt = performance.now();
      const samples = await sampledJob(control, {
        count: all,
        pids: { gateway: gateway.pid, runner: runner.pid },
      });
      say(`${all} datums in ${((performance.now() - startedAt) / 1000).toFixed(1)} s`);
      return (["gateway", "runner"] as const).map((who) => figure(samples, { who, all, early }));
    } finally {
      await runner.stop();
      await control.close();
      await gateway.stop();
    }
  },
};

async function warmUp({ endpoint }: BenchGateway): Promise<void> {
  const connections = new Connections(endpoint, { count: 16 });
  const request = { method: "GET", path: "/healthz", headers: {}, body: null } as const;
  await connections.requestsPerSecond(Array.from({ length: WARM_UP_REQUESTS }, () => request));
  await connections.close();
}

/** Runs a job of `count` new datums and looks at the memory all along. */
async function sampledJob(
  control: Control,
  { count, pids }: { count: number; pids: { gateway: number; runner: number } },
): Promise<Sample[]> {
  const files = Array.from({ length: count }, (_, i) => ({
    path: `${count}-${i}`,
    text: `${i} of ${count}\n`,
  }));
  const commit = await commitTexts(control, { address: INPUT, files });
  const samples: Sample[] = [];
  await newestJobEnd(control, {
    pipeline: PIPELINE,
    commit,
    probeEveryMs: 100,
    progress: ({ datums: { processed } }) =>
      samples.push({
        processed,
        gateway: residentMiB(pids.gateway, "VmRSS"),
        runner: residentMiB(pids.runner, "VmRSS"),
      }),
  });
  return samples;
}

function figure(
  samples: readonly Sample[],
  { who, all, early }: { who: "gateway" | "runner"; all: number; early: number },
): Figure {
  const between = (from: number, to: number): number =>
    median(
      samples.filter(({ processed }) => processed >= from && processed <= to).map((sample) => sample[who]),
    );
  return {
    what: `${who}, after ${all} datums`,
    unit: "MiB",
    against: `after ${early}`,
    pairs: [{ ours: between(all * (1 - WINDOW), all), other: between(early, early + all * WINDOW) }],
    compare: "ratio",
    target: { atMost: 1.2 },
  };
}

/** MiB, and how far the job was. */
interface Sample {
  readonly processed: number;
  readonly gateway: number;
  readonly runner: number;
}

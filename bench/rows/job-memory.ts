import { setTimeout as pause } from "node:timers/promises";
import type { Job } from "../../protocol/pipelines.ts";
import { commitTexts } from "../support/bulk-commit.ts";
import { Control } from "../support/control.ts";
import type { Figure } from "../support/figure.ts";
import { startInspectedGateway, startInspectedRunner } from "../support/inspected.ts";
import { collectGarbage } from "../support/inspector.ts";
import { residentMiB } from "../support/memory.ts";
import type { Row } from "../support/row.ts";
import { median } from "../support/stats.ts";

/** Datums of the job, and when its memory is first looked at. */
const DATUMS = { full: { all: 10_000, early: 1000 }, quick: { all: 2000, early: 500 } } as const;
/** Looks are taken over this part of the job, from `early` on and up to the end: their median counts. */
const WINDOW = 0.1;
const INPUT = { repo: "many", branch: "master" };
const PIPELINE = "trivial";
const PROBE_EVERY_MS = 100;
const GIVE_UP_MS = 15 * 60 * 1000;
/** Name of the gateway's own isolate in workerd's inspector. */
const GATEWAY_ISOLATE = "user:sluice";

/**
 * A long job must not make gateway or runner grow. What counts is the resident memory of each process, everything in
 * it (code, heaps, SQLite's caches, buffers), right after V8 collected its garbage: without being told to, V8 lets a
 * heap grow to tens of MiB before it looks, which says nothing of what is kept. How it was found is told as well.
 * The small process that starts the runner's commands is not counted.
 */
export const jobMemory: Row = {
  name: "job-memory",
  title: "resident memory of gateway (workerd) and runner at the end of a long job, against early in it",
  async run({ scale, say }) {
    const gateway = await startInspectedGateway();
    const control = new Control(gateway.door);
    const runner = await startInspectedRunner(gateway.door, { node: "bench" });
    const processes: Processes = {
      gateway: { ...gateway, isolate: GATEWAY_ISOLATE },
      runner,
    };
    try {
      await startJob(control, DATUMS[scale].all);
      const startedAt = performance.now();
      const looks = await lookWhileItRuns(control, { processes, ...DATUMS[scale] });
      say(`${DATUMS[scale].all} datums in ${((performance.now() - startedAt) / 1000).toFixed(1)} s`);
      return (["gateway", "runner"] as const).flatMap((who) => figures(looks, { who, ...DATUMS[scale] }));
    } finally {
      await runner.stop();
      await control.close();
      await gateway.stop();
    }
  },
};

interface Process {
  readonly pid: number;
  /** Port of its inspector. */
  readonly inspector: number;
  readonly isolate?: string;
}

type Processes = Readonly<Record<"gateway" | "runner", Process>>;

/** MiB. */
interface Look {
  readonly processed: number;
  readonly found: Readonly<Record<keyof Processes, number>>;
  readonly collected: Readonly<Record<keyof Processes, number>>;
}

interface Scale {
  readonly all: number;
  readonly early: number;
}

async function startJob(control: Control, datums: number): Promise<void> {
  await control.createBranch(INPUT);
  const files = Array.from({ length: datums }, (_, i) => ({ path: `f${i}`, text: `file ${i}\n` }));
  await commitTexts(control, { address: INPUT, files });
  await control.createPipeline({
    pipeline: { name: PIPELINE },
    transform: { image: "busybox", cmd: ["true"] },
    parallelism_spec: { strategy: "CONSTANT", constant: 2 },
    inputs: [{ name: "in", repo: { name: INPUT.repo }, branch: INPUT.branch, glob: "/*" }],
  });
}

async function lookWhileItRuns(
  control: Control,
  { processes, all, early }: Scale & { processes: Processes },
): Promise<Look[]> {
  const looks: Look[] = [];
  const giveUpAt = performance.now() + GIVE_UP_MS;
  while (performance.now() < giveUpAt) {
    const job = await control.newestJob(PIPELINE);
    if (isOver(job)) return looks;
    const processed = job?.datums.processed ?? 0;
    const isInWindow = isEarly(processed, { all, early }) || isLate(processed, { all });
    if (isInWindow) looks.push({ processed, ...(await look(processes)) });
    else await pause(PROBE_EVERY_MS);
  }
  throw new Error("the job was not done in time");
}

function isOver(job: Job | undefined): boolean {
  if (!job || job.finishedAt === null) return false;
  if (job.state === "success") return true;
  throw new Error(`the job ended as ${job.state}: ${job.reason}`);
}

function isEarly(processed: number, { all, early }: Scale): boolean {
  return processed >= early && processed <= early + all * WINDOW;
}

function isLate(processed: number, { all }: Pick<Scale, "all">): boolean {
  return processed >= all * (1 - WINDOW);
}

async function look({ gateway, runner }: Processes): Promise<Omit<Look, "processed">> {
  const resident = () => ({
    gateway: residentMiB(gateway.pid, "VmRSS"),
    runner: residentMiB(runner.pid, "VmRSS"),
  });
  const found = resident();
  await Promise.all(
    [gateway, runner].map(({ inspector, isolate }) =>
      collectGarbage({ port: inspector, ...(isolate !== undefined && { isolate }) }),
    ),
  );
  return { found, collected: resident() };
}

function figures(looks: readonly Look[], { who, all, early }: Scale & { who: keyof Processes }): Figure[] {
  const late = looks.filter(({ processed }) => isLate(processed, { all }));
  const first = looks.filter(({ processed }) => isEarly(processed, { all, early }));
  const common = { unit: "MiB", against: `after ${early}`, compare: "ratio" } as const;
  const collected = (some: readonly Look[]): number => median(some.map((each) => each.collected[who]));
  // Only the first look of each window finds what nobody collected for long.
  const found = (some: readonly Look[]): number => some[0]?.found[who] ?? Number.NaN;
  return [
    {
      ...common,
      what: `${who}, after ${all} datums, collected`,
      pairs: [{ ours: collected(late), other: collected(first) }],
      target: { atMost: 1.2 },
    },
    {
      ...common,
      what: `${who}, after ${all} datums, as found`,
      pairs: [{ ours: found(late), other: found(first) }],
      target: null,
    },
  ];
}

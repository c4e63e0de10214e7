import type { Simulation } from "../../platform/simulation.ts";
import { type Calm, ended, insist, isMishap, mishapSimulation, setClock } from "../mishaps.ts";
import { Tally } from "../tally.ts";
import { pipelineFaults } from "./check.ts";
import { JobsWorld, leave, NODES } from "./clients.ts";
import { type JobsPlan, planJobs } from "./plan.ts";
import { lostBytes, remains } from "./remains.ts";
import { PipelineRows } from "./rows.ts";
import { shownFaults } from "./shown.ts";
import { tracedFaults } from "./traced.ts";

/** Longest pause of a client between two steps, and longest time between two ends of instances; milliseconds. */
const PAUSE_MS = 2_000;
/** How often a client goes on when others do, and how far such moments are apart; milliseconds. */
const TOGETHER = 0.6;
const MEET_MS = 1_000;
const BETWEEN_ENDS_MS = 2_500;
/**
 * So long pipelines may take to come to rest when nothing goes wrong any more, and how often that is looked at; milliseconds. A datum
 * whose workers are lost each time takes some six minutes in each job.
 */
const SETTLE_MS = 90 * 60_000;
const LOOK_MS = 5_000;
/** How long nodes pause that wait for a clock; milliseconds. */
const PAUSED_MS = 60_000;
/** How long nothing goes wrong, nor is anything done, before all is looked at: longer than any grace; milliseconds. */
const REST_MS = 60 * 24 * 60 * 60_000;

/**
 * Clients write to branches that pipelines read, and change the pipelines; nodes run what there is to run. Instances, nodes and
 * requests end, messages are lost, stores fail. Then nothing goes wrong any more, and all jobs have ended as a naive computation
 * says. Once all is deleted, nothing is left.
 */
export async function runJobs(seed: number, tally = new Tally()): Promise<string[]> {
  return await runJobsPlan(planJobs(seed), tally);
}

/** The history of a plan. */
export async function runJobsPlan(plan: JobsPlan, counted = new Tally()): Promise<string[]> {
  const tally = counted.ofHistory();
  const { simulation, calm } = mishapSimulation(plan.schedule, tally, {
    lateAlarms: true,
    smallPipelines: plan.isSmall,
    ...(plan.keptJobs !== null && { vars: { SLUICE_KEEP_JOBS: String(plan.keptJobs) } }),
  });
  calm.is = plan.isCalm ?? false;
  const world = new JobsWorld(simulation, { ...plan, tally, calm });
  const clients = Map.groupBy(plan.steps, ({ client }) => client);
  try {
    await simulation.as(async () => {
      await world.begin();
      endNowAndThen(simulation, { calm, tally });
      endAfterWrites(simulation, { calm, tally });
      await Promise.all(
        [...clients.values()].map(async (steps) => {
          for (const step of steps) {
            await scheduler.wait(pauseMs(simulation));
            setClock(simulation, { jumps: plan.jumps, step: step.number, tally });
            await tally
              .during(`jobs: ${step.kind}`, () => world.take(step))
              .catch((error) => {
                if (!isMishap(error)) throw error;
              });
          }
        }),
      );
    });
    calm.is = true;
    const unrest = await simulation.as(() => settle(world));
    if (unrest.length > 0) return [...world.failures, ...unrest];
    const shown = await simulation.as(() => shownOf(world));
    await simulation.pass(REST_MS);
    for (const { name } of world.pipelines)
      for (const { state } of new PipelineRows(simulation.pipelines.object(name)).jobs)
        tally.add(`job ${state}`);
    const faults = [
      ...world.failures,
      ...[...world.watches.values()].flatMap((watch) => watch.faults()),
      ...shown,
      ...world.pipelines.flatMap((each) => pipelineFaults(world, each)),
      ...(await simulation.as(() => lostBytes(world))),
      ...(await ended(simulation)),
    ];
    await simulation.as(() => world.destroyAll());
    await simulation.pass(REST_MS);
    return [...faults, ...remains(world), ...(await ended(simulation))];
  } finally {
    simulation.close();
  }
}

/** How long a client pauses: for a while, or until the moment at which others go on, too. */
function pauseMs({ world }: Simulation): number {
  return world.random.chance(TOGETHER) ? MEET_MS - (world.now % MEET_MS) : world.random.next() * PAUSE_MS;
}

/** What is shown of the pipelines, as far as it is wrong. */
async function shownOf(world: JobsWorld): Promise<string[]> {
  const faults: string[] = [];
  for (const plan of world.pipelines)
    faults.push(...(await shownFaults(world, plan)), ...(await tracedFaults(world, plan)));
  return faults;
}

/** How often an instance ends right after something that it wrote is durable: between two steps of its work. */
const ENDS_AFTER_WRITES = 0.01;
/** So soon after that; milliseconds. */
const SOON_MS = 4;

/** Ends instances between two steps of their work. */
function endAfterWrites(simulation: Simulation, { calm, tally }: { calm: Calm; tally: Tally }): void {
  const { world, branches, pipelines } = simulation;
  for (const object of [...branches.all(), ...pipelines.all()]) {
    const flushed = () => {
      if (calm.is || !world.random.chance(ENDS_AFTER_WRITES)) return;
      world.after(world.random.next() * SOON_MS, () => {
        if (!object.isUp) return;
        tally.add("fault object ends after a write");
        object.end("it was evicted");
      });
    };
    object.storage.watch({ wrote: () => {}, flushed, lost: () => {} });
  }
}

/** Ends an instance of some object now and then, or what the gateway answers just now. */
function endNowAndThen(simulation: Simulation, { calm, tally }: { calm: Calm; tally: Tally }): void {
  const { world, branches, pipelines, gateway } = simulation;
  world.after(world.random.next() * BETWEEN_ENDS_MS, () => {
    if (calm.is) return;
    const up = [...branches.all(), ...pipelines.all()].filter(({ isUp }) => isUp);
    if (world.random.chance(0.2)) {
      tally.add("fault gateway ends");
      gateway.end();
    } else if (up.length > 0) {
      tally.add("fault object ends");
      world.random.pick(up).end("it was evicted");
    }
    endNowAndThen(simulation, { calm, tally });
  });
}

/** Lets all come to its end, with nodes that work; then they leave. Answers what still goes on. */
async function settle(world: JobsWorld): Promise<string[]> {
  const { simulation } = world;
  for (const node of NODES)
    await simulation.gateway.send({ method: "POST", path: `/nodes/${node}/resume`, level: "root" });
  for (const { name } of world.pipelines) {
    if (!new PipelineRows(simulation.pipelines.object(name)).isThere) continue;
    await world.letProcessesRun(name);
    await insist(async () => {
      const begun = await world.startPipeline(name);
      return !begun.ok && begun.reason === "no-such-pipeline" ? { ok: true } : begun;
    });
  }
  // Inputs whose commits were made before the clock was set back have their turn once it has passed that time again.
  const settleMs = SETTLE_MS + simulation.world.setBackMs;
  const until = simulation.world.now + settleMs;
  let unrest = ["nobody has looked"];
  while (unrest.length > 0 && simulation.world.now < until) {
    await scheduler.wait(LOOK_MS);
    unrest = world.unrest();
    // As long as there is nothing to run, since one clock waits for another, nobody need ask for it.
    if (simulation.world.setBackMs > 0 && !world.hasOpenJobs) world.pauseNodes(PAUSED_MS);
  }
  for (const agent of world.agents.values()) await leave(agent);
  return unrest.map((what) => `${what} after ${settleMs / 60_000} minutes`);
}

// @module-tag rest
import { afterEach, describe, expect, onTestFailed, test } from "vitest";
import { restartGateway, troubleFleet, troubleGateway } from "../../support/chaos/faults.ts";
import { JobWatch } from "../../support/chaos/job-watch.ts";
import { NodeAgent } from "../../support/chaos/node-agent.ts";
import { Workload } from "../../support/chaos/workload.ts";
import { Control } from "../../support/control.ts";
import { type DevServer, startDevServer } from "../../support/dev-server.ts";
import { findEngines, type TestEngine } from "../../support/engines.ts";
import { canMakeNetworks, openNetwork, type TestNetwork } from "../../support/netns.ts";
import { seededRandom } from "../../support/random.ts";
import { S3 } from "../../support/s3.ts";

const AGENTS = 3;
const WORKERS = 9;
/** Lines of each process that are told if the test fails. */
const LAST_LINES = 40;

const engines = await findEngines();
const docker = engines.find(({ name }) => name === "docker")?.engine;

let server: DevServer | undefined;
let network: TestNetwork | undefined;
let agents: NodeAgent[] = [];
afterEach(async () => {
  for (const agent of agents) await agent.close();
  agents = [];
  await network?.close();
  await server?.stop();
  await docker?.close();
});

describe.skipIf(!canMakeNetworks())(
  "three agents that are killed, frozen, stopped and cut off at random, under a gateway that is killed, too,",
  { timeout: 900_000 },
  () => {
    test("do 2,000 datums right, and each once", () =>
      chaos({ datums: 2000, seconds: 0.05, image: "busybox" }));

    test.skipIf(!docker)("do datums in containers of docker right, and each once", async () => {
      if (!docker) throw new Error("there is no docker");
      await chaos({ datums: 100, seconds: 1.5, image: await docker.image("busybox"), engine: docker });
    });
  },
);

interface Chaos {
  readonly datums: number;
  /** How long each command takes. */
  readonly seconds: number;
  readonly image: string;
  /** Absent: commands are processes. */
  readonly engine?: TestEngine;
}

async function chaos({ engine, ...work }: Chaos): Promise<void> {
  const began = Date.now();
  const seed = chaosSeed();
  const gateway = await startDevServer({ host: "0.0.0.0" });
  server = gateway;
  const fleet = agents;
  onTestFailed(() => tellLastLines(gateway, fleet));
  network = await openNetwork();
  const [s3, control] = [new S3(gateway), new Control(gateway)];
  for (let number = 0; number < AGENTS; number++) {
    const node = await network.join();
    agents.push(
      new NodeAgent({ door: gateway, name: `node-${number}`, network: node, ...(engine && { engine }) }),
    );
  }
  const workload = new Workload({ s3, control, workers: WORKERS, ...work });
  const job = await workload.begin();
  for (const agent of agents) agent.start();

  const watch = new JobWatch(control, job.id);
  const tell = (what: string): void =>
    console.log(`${((Date.now() - began) / 1000).toFixed(1)} s, ${watch.processed} datums: ${what}`);
  const random = seededRandom(seed);
  const trouble = { random, control, watch, tell, calmAt: Math.floor(work.datums * 0.9) };
  // An agent that is gone does nothing more: the rest of the job would wait for it.
  const surprises = agents.map(({ surprise }) => surprise);
  await Promise.race([
    Promise.all([troubleFleet(agents, trouble), troubleGateway(gateway, trouble)]),
    ...surprises,
  ]);
  tell("calm");
  // Its last datum is done: what follows, merges and the commit, is interrupted, too.
  await Promise.race([watch.reached(work.datums), ...surprises]);
  await restartGateway(gateway, { random, tell });
  await watch.close();

  await workload.verify().catch((error: unknown) => {
    // A later try leaves no trace of why the first one failed, but in the agents' logs.
    const failures = agents.map((agent) => agent.output()).flatMap((text) => text.split("\n"));
    tell(failures.filter((line) => /a datum of \S+ failed/.test(line)).join("\n"));
    throw error;
  });
  tell("verified");
  await workload.addOne();
  for (const agent of agents) expect(await agent.drain()).toBe(0);
  expect(agents.flatMap(({ surprises }) => surprises)).toEqual([]);
  for (const agent of agents) expect(await agent.leftovers()).toEqual([]);
  tell("over");
}

/** Tells what the gateway and the agents printed last, which says where they hang if nothing gets done any more. */
function tellLastLines(gateway: DevServer, fleet: readonly NodeAgent[]): void {
  const outputs = [
    ["gateway", gateway.output()] as const,
    ...fleet.map((agent) => [agent.name, agent.output()] as const),
  ];
  for (const [name, output] of outputs)
    console.log(`${name}:\n${output.split("\n").slice(-LAST_LINES).join("\n")}`);
}

function chaosSeed(): number {
  const seed = Number(process.env.SLUICE_CHAOS_SEED ?? Date.now() % 1_000_000);
  console.log(`SLUICE_CHAOS_SEED=${seed} gives the same faults again`);
  return seed;
}

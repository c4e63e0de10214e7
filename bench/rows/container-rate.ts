import { startRunner } from "../../test/support/dev-server.ts";
import { findEngines, type TestEngine } from "../../test/support/engines.ts";
import { bareContainers } from "../support/bare-containers.ts";
import { Control } from "../support/control.ts";
import type { Figure } from "../support/figure.ts";
import { trivialPipeline } from "../support/job-rate.ts";
import { interleaved } from "../support/pairs.ts";
import type { Bench, Row } from "../support/row.ts";
import { startBenchGateway } from "../support/servers.ts";

/** Datums of one job, and bare commands in one half of a pair. */
const COUNTS = { full: { datums: 400, bare: 40 }, quick: { datums: 150, bare: 15 } } as const;
const CMD = ["true"];

/** What a datum in a container costs. The engines are those that the tests find. */
export const containerRate: Row = {
  name: "container-rate",
  title: "datums per second, trivial command, one node, one worker, container executors",
  async run(bench) {
    const figures: Figure[] = [];
    for (const { name, engine } of await findEngines()) {
      if (engine) figures.push(...(await engineFigures(engine, bench)));
      else bench.say(`${name} is not here, or no static busybox to make an image of`);
    }
    return figures;
  },
};

async function engineFigures(engine: TestEngine, { pairs, scale }: Bench): Promise<Figure[]> {
  const image = await engine.image("busybox");
  const gateway = await startBenchGateway();
  const control = new Control(gateway.door);
  const variables = { [engine.name === "docker" ? "DOCKER_HOST" : "CONTAINER_HOST"]: engine.host };
  const runner = startRunner(gateway.door, { node: "bench", executor: engine.name, variables });
  const bare = await bareContainers(engine.client, { image, cmd: CMD });
  const { datums, bare: runs } = COUNTS[scale];
  try {
    const jobRate = await trivialPipeline({ control, image, cmd: CMD });
    const what = `${engine.name}: job of ${datums} datums`;
    const common = { what, unit: "datums/s", compare: "ratio" } as const;
    const against = (other: () => Promise<number>) =>
      interleaved(pairs, { ours: () => jobRate(datums), other });
    return [
      {
        ...common,
        against: "exec in a loop",
        pairs: await against(() => bare.execRate(runs)),
        target: { atLeast: 0.7 },
      },
      {
        ...common,
        against: "a container each",
        pairs: await against(() => bare.containerRate(runs)),
        target: { atLeast: 3 },
      },
    ];
  } finally {
    await runner.stop();
    await bare.remove();
    await control.close();
    await gateway.stop();
    await engine.close();
  }
}

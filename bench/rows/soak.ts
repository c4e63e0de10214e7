import { join } from "node:path";
import { doorVariables, ROOT_KEY } from "../../test/support/keys.ts";
import { freePort } from "../../test/support/ports.ts";
import { removeScratch, scratchFolder } from "../../test/support/scratch.ts";
import { soak as runSoak } from "../../test/support/soak/soak.ts";
import { launched } from "../support/launched.ts";
import { proportionalMiB } from "../support/memory.ts";
import type { Row } from "../support/row.ts";
import { HOST, ROOT } from "../support/servers.ts";
import { median } from "../support/stats.ts";

const SECONDS = { full: 600, quick: 60 } as const;
const RATE = 200;
/** The clients pace themselves: what a pause oversleeps is made up for, and at the very end it may be missing. */
const LEAST_RATE = 0.99 * RATE;

/**
 * Ten minutes of random operations, each of them held against a model, as is all that is there in the end. What does
 * not match ends the row with an error that names the seed. Memory is that of gateway and runner together; caches fill
 * in the first fifth, so the last one is held against the second.
 */
export const soak: Row = {
  name: "soak",
  title: `${RATE} random operations a second, every outcome held against a model`,
  onlyWhenNamed: true,
  async run({ scale, say }) {
    const data = scratchFolder();
    const door = { endpoint: `http://${HOST}:${await freePort()}`, ...ROOT_KEY };
    const seed = Number(process.env.SLUICE_TEST_SEED ?? Date.now() % 1_000_000);
    say(`SLUICE_TEST_SEED=${seed} gives the same operations again`);
    const gateway = await launched(
      [
        ...[
          join(ROOT, "bin/sluice.js"),
          "dev",
          "--json",
          "--host",
          HOST,
          "--port",
          new URL(door.endpoint).port,
        ],
        ...["--runners", "1", "--executor", "process", "--data", data],
      ],
      { variables: doorVariables(door) },
    );
    try {
      const looks: number[] = [];
      const look = (): void => void looks.push(proportionalMiB(gateway.pid));
      const { counts, seconds } = await runSoak({ door, seed, seconds: SECONDS[scale], rate: RATE, look });
      const operations = Object.values(counts).reduce((sum, count) => sum + count, 0);
      say(
        Object.entries(counts)
          .map(([name, count]) => `${count} ${name}`)
          .join(", "),
      );
      const fifth = Math.ceil(looks.length / 5);
      const memory = { ours: median(looks.slice(-fifth)), other: median(looks.slice(fifth, 2 * fifth)) };
      return [
        {
          what: `${operations} operations as the model says`,
          unit: "a second",
          values: [operations / seconds],
          compare: "nothing",
          target: { atLeast: LEAST_RATE },
        },
        {
          what: "memory in the last fifth",
          unit: "MiB",
          against: "the second fifth",
          pairs: [memory],
          compare: "ratio",
          target: { atMost: 1.2 },
        },
      ];
    } finally {
      await gateway.stop();
      removeScratch(data);
    }
  },
};

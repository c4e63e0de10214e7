import { join } from "node:path";
import { setTimeout as pause } from "node:timers/promises";
import { fileURLToPath } from "node:url";
import { removeScratch, scratchFolder } from "../../test/support/scratch.ts";
import { launched } from "../support/launched.ts";
import { proportionalMiB } from "../support/memory.ts";
import { interleaved } from "../support/pairs.ts";
import type { Row } from "../support/row.ts";
import { HOST, ROOT } from "../support/servers.ts";

const DEV = [join(ROOT, "bin/sluice.js"), "dev", "--json", "--host", HOST, "--port", "0"];
const RUNNER = ["--runners", "1", "--executor", "process"];
const BARE = [fileURLToPath(new URL("../support/bare-host.ts", import.meta.url))];
/** After which nothing of a start is under way any more. */
const IDLE_MS = 10_000;

/** From the start of the process to its ready line, with what an earlier start has kept; npx's own time is not in it. */
export const start: Row = {
  name: "start",
  title: "`sluice dev --runners 1`, second start: until it is ready, against Miniflare with an empty Worker",
  async run({ pairs: count }) {
    const data = scratchFolder();
    const secondsOf = async (command: readonly string[]): Promise<number> => {
      const { seconds, stop } = await launched(command);
      await stop();
      return seconds;
    };
    try {
      const pairs = await interleaved(count, {
        ours: () => secondsOf([...DEV, ...RUNNER, "--data", data]),
        other: () => secondsOf(BARE),
      });
      const what = "until it is ready";
      const values = pairs.map(({ ours }) => ours);
      return [
        { what, unit: "s", values, compare: "nothing", target: { atMost: 1.5 } },
        { what, unit: "s", against: "an empty Worker", pairs, compare: "ratio", target: { atMost: 2 } },
      ];
    } finally {
      removeScratch(data);
    }
  },
};

/** The sum over all processes, pages that several share divided among them, some of them with this bench's own Node. */
export const idleMemory: Row = {
  name: "idle-memory",
  title: "memory (PSS) of all processes of `sluice dev --runners 1` when it idles",
  async run({ pairs: count }) {
    const data = scratchFolder();
    const values: number[] = [];
    try {
      for (let turn = 0; turn <= count; turn++) {
        const { pid, stop } = await launched([...DEV, ...RUNNER, "--data", data]);
        await pause(IDLE_MS);
        // The first start is the one that compiles and bundles.
        if (turn > 0) values.push(proportionalMiB(pid));
        await stop();
      }
      return [
        { what: "gateway and one runner", unit: "MiB", values, compare: "nothing", target: { atMost: 400 } },
      ];
    } finally {
      removeScratch(data);
    }
  },
};

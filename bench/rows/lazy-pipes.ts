import { startRunner } from "../../test/support/dev-server.ts";
import { S3 } from "../../test/support/s3.ts";
import { commitTexts } from "../support/bulk-commit.ts";
import { Control } from "../support/control.ts";
import type { Figure, Pair } from "../support/figure.ts";
import { newestJobEnd } from "../support/job-end.ts";
import { interleaved } from "../support/pairs.ts";
import type { Row } from "../support/row.ts";
import { startBenchGateway } from "../support/servers.ts";

/** Files of the one datum. */
const FILES = 1000;

/** The command times itself: how the datum is laid out, leased and reported is not what the pipes cost. */
const SCRIPT = [
  "a=$(date +%s%N)",
  'for file in /pfs/in/*; do cat "$file" > /dev/null; done',
  "b=$(date +%s%N)",
  "cat /pfs/in/* > /dev/null",
  "c=$(date +%s%N)",
  'echo "$((b - a)) $((c - b))" > /pfs/out/nanoseconds',
];

interface Times {
  /** Milliseconds, with a `cat` for each file, one after the other. */
  readonly each: number;
  /** Milliseconds of one `cat` for all. */
  readonly one: number;
}

/** What a named pipe costs a command that reads, against a file. The contents are in the node's cache but for one file. */
export const lazyPipes: Row = {
  name: "lazy-pipes",
  title: `a command that reads ${FILES} small files one after the other, lazy input against eager`,
  async run({ pairs }) {
    const gateway = await startBenchGateway();
    const control = new Control(gateway.door);
    const s3 = new S3(gateway.door);
    const runner = startRunner(gateway.door, { node: "bench" });
    try {
      const lazy = await openSide({ control, s3 }, { name: "lazy", lazy: true });
      const eager = await openSide({ control, s3 }, { name: "eager", lazy: false });
      const times: { lazy: Times[]; eager: Times[] } = { lazy: [], eager: [] };
      await interleaved(pairs, {
        ours: async () => each(times.lazy, await lazy()),
        other: async () => each(times.eager, await eager()),
      });
      const figure = (which: keyof Times, { what, target }: Pick<Figure, "what" | "target">): Figure => ({
        ...{ what, target, unit: "ms", against: "files", compare: "ratio" },
        pairs: pairsOf(times, { which, count: pairs }),
      });
      return [
        figure("each", { what: "one cat a file", target: { atMost: 3 } }),
        // A file costs a program that reads many in one go next to nothing; a pipe wakes two processes.
        figure("one", { what: "one cat for all", target: null }),
      ];
    } finally {
      await runner.stop();
      await control.close();
      await gateway.stop();
    }
  },
};

function each(times: Times[], time: Times): number {
  times.push(time);
  return time.each;
}

/** The last `count` of both sides: those before warmed up. */
function pairsOf(
  { lazy, eager }: { lazy: readonly Times[]; eager: readonly Times[] },
  { which, count }: { which: keyof Times; count: number },
): Pair[] {
  const others = eager.slice(-count);
  return lazy
    .slice(-count)
    .map((ours, at) => ({ ours: ours[which], other: others[at]?.[which] ?? Number.NaN }));
}

interface Doors {
  readonly control: Control;
  readonly s3: S3;
}

/** A repo of small files and a pipeline over all of them as one datum. Returns a function that commits a change and reads the command's times. */
async function openSide(
  { control, s3 }: Doors,
  { name, lazy }: { name: string; lazy: boolean },
): Promise<() => Promise<Times>> {
  const address = { repo: `${name}-in`, branch: "master" };
  await control.createBranch(address);
  const files = Array.from({ length: FILES }, (_, i) => ({ path: `f${i}`, text: `file ${i} of ${name}\n` }));
  await commitTexts(control, { address, files });
  await control.createPipeline({
    pipeline: { name },
    transform: { image: "busybox", cmd: ["sh", "-eu"], stdin: SCRIPT },
    parallelism_spec: { strategy: "CONSTANT", constant: 1 },
    inputs: [{ name: "in", repo: { name: address.repo }, glob: "/", lazy }],
  });
  let turns = 0;
  return async () => {
    turns += 1;
    const changed = [{ path: "f0", text: `turn ${turns} of ${name}\n` }];
    const commit = await commitTexts(control, { address, files: changed });
    await newestJobEnd(control, { pipeline: name, commit, probeEveryMs: 20 });
    const text = String(await s3.get(`master.${name}`, "nanoseconds"));
    const [eachNanos = Number.NaN, oneNanos = Number.NaN] = text.split(" ").map(Number);
    return { each: eachNanos / 1e6, one: oneNanos / 1e6 };
  };
}

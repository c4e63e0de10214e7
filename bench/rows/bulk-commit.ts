import { type BranchAddress, bucketName } from "../../protocol/names.ts";
import { commitThroughSession } from "../support/bulk-commit.ts";
import { Connections } from "../support/closed-loop.ts";
import { commitOnThread } from "../support/commit-thread.ts";
import { Control } from "../support/control.ts";
import type { Figure } from "../support/figure.ts";
import { shortCount } from "../support/flatness.ts";
import { interleaved } from "../support/pairs.ts";
import type { Bench, Row } from "../support/row.ts";
import { type BenchGateway, startBenchGateway } from "../support/servers.ts";
import { signed } from "../support/signing.ts";
import { pathOf } from "../support/trees.ts";
import { type Probe, waitsLonger } from "../support/waits.ts";

/** Puts of one commit: a small one, and a large one whose puts must cost as much each. */
const PUTS = { full: [10_000, 100_000], quick: [2000, 20_000] } as const;
const MANY_PUTS = { full: [100_000, 1_000_000], quick: [20_000, 100_000] } as const;
/** A large commit takes its time, and is an average of very many puts already. */
const PAIRS = { full: 3, quick: 1 } as const;
const FLAT = 1.5;
/** So much longer may readers wait while a large commit is made than in as long a time without it. */
const AT_MOST_MS = 100;
/** A file that is there before, and its folder. */
const PRESENT = "present/file";

/** Many puts as one commit, in pages through an open commit. */
export const bulkCommit: Row = {
  name: "bulk-commit",
  title: "many puts as one commit through a session: time per put, and the longest wait of readers meanwhile",
  run: (bench) => measureCommits(bench, { puts: PUTS[bench.scale], pairs: PAIRS[bench.scale] }),
};

/** The same up to a million. */
export const bulkCommitMillion: Row = {
  name: "bulk-commit-million",
  title: "a million puts as one commit: time per put, and the longest wait of readers meanwhile",
  onlyWhenNamed: true,
  run: (bench) => measureCommits(bench, { puts: MANY_PUTS[bench.scale], pairs: 1 }),
};

interface Setting {
  readonly bench: Bench;
  readonly gateway: BenchGateway;
  readonly control: Control;
}

async function measureCommits(
  bench: Bench,
  { puts: [few, many], pairs }: { puts: readonly [number, number]; pairs: number },
): Promise<Figure[]> {
  const gateway = await startBenchGateway();
  const setting = { bench, gateway, control: new Control(gateway.door) };
  try {
    const commits = await interleaved(pairs, {
      ours: () => microsPerPut(setting, many),
      other: () => microsPerPut(setting, few),
      warmUps: 0,
    });
    return [
      {
        what: `one put of a commit of ${shortCount(many)}`,
        unit: "µs",
        against: `of ${shortCount(few)}`,
        pairs: commits,
        compare: "ratio",
        target: { atMost: FLAT },
      },
      {
        what: `commit of ${shortCount(many)}`,
        unit: "puts/s",
        values: commits.map(({ ours }) => 1e6 / ours),
        compare: "nothing",
        target: null,
      },
      ...(await readersWaits(setting, many)),
    ];
  } finally {
    await setting.control.close();
    await gateway.stop();
  }
}

/** From the opening of the session until its commit is published. */
async function microsPerPut(setting: Setting, puts: number): Promise<number> {
  const address = await newBranch(setting.control);
  const startedAt = performance.now();
  await commitThroughSession(setting.control, { address, puts, pathOf });
  const millis = performance.now() - startedAt;
  setting.bench.say(`${puts} puts in ${(millis / 1000).toFixed(1)} s`);
  return (millis * 1000) / puts;
}

/** Apart from the times above: a reader takes the gateway's time. */
async function readersWaits(setting: Setting, puts: number): Promise<Figure[]> {
  const { gateway, control } = setting;
  const address = await newBranch(control);
  await control.putFile(address, { path: PRESENT, bytes: "present\n" });
  const connections = new Connections(gateway.endpoint, { count: 1 });
  try {
    const commit = () => commitOnThread({ door: gateway.door, address, puts });
    return await waitsLonger(probesOf(setting, { address, connections }), commit, { atMostMs: AT_MOST_MS });
  } finally {
    await connections.close();
  }
}

function probesOf(
  { gateway: { door } }: Setting,
  { address, connections }: { address: BranchAddress; connections: Connections },
): Probe[] {
  const bucket = `/${bucketName(address)}`;
  const get = async (path: string) => connections.send(await signed(door, { method: "GET", path }));
  return [
    { what: "GET of a file", call: () => get(`${bucket}/${PRESENT}`) },
    { what: "list of its folder", call: () => get(`${bucket}?list-type=2&prefix=present%2F`) },
    { what: "list of the root", call: () => get(`${bucket}?list-type=2&delimiter=%2F&max-keys=100`) },
  ];
}

let branches = 0;

async function newBranch(control: Control): Promise<BranchAddress> {
  branches += 1;
  const address = { repo: `bulk-${branches}`, branch: "master" };
  await control.createBranch(address);
  return address;
}

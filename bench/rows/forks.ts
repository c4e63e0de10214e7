import { type BranchAddress, bucketName } from "../../protocol/names.ts";
import { commitThroughSession } from "../support/bulk-commit.ts";
import { Connections } from "../support/closed-loop.ts";
import type { Figure } from "../support/figure.ts";
import { shortCount } from "../support/flatness.ts";
import { interleaved } from "../support/pairs.ts";
import type { Bench, Row } from "../support/row.ts";
import { signed } from "../support/signing.ts";
import { pathOf, type Tree, type Trees } from "../support/trees.ts";
import { type Probe, waitsBeside } from "../support/waits.ts";

/** Each is an average over very many rows already. */
const PAIRS = { full: 3, quick: 1 } as const;
/** A file of a larger tree, and of a tree beside a put of one commit, may cost so much. */
const AT_MOST = 1.5;
/** No other request may wait longer while a branch is made. */
const AT_MOST_MS = 100;

/** Branches from an old commit of the two largest trees. */
export const forks: Row = {
  name: "forks",
  title: "a branch from a commit 60,000 changes ago: time per file, and the longest wait of others meanwhile",
  onlyWhenNamed: true,
  async run(bench) {
    const trees = await bench.trees();
    const [few, many] = trees.all.slice(-2);
    if (!few || !many) throw new Error("there are not two trees to compare");
    return [
      {
        what: `a file of a fork of ${shortCount(many.files)}`,
        unit: "µs",
        against: `of ${shortCount(few.files)}`,
        pairs: await interleaved(PAIRS[bench.scale], {
          ours: () => microsPerFile(bench, { trees, tree: many }),
          other: () => microsPerFile(bench, { trees, tree: few }),
          warmUps: 0,
        }),
        compare: "ratio",
        target: { atMost: AT_MOST },
      },
      {
        what: `a file of a fork of ${shortCount(many.files)}`,
        unit: "µs",
        against: "a put of one commit of as many",
        pairs: await interleaved(1, {
          ours: () => microsPerFile(bench, { trees, tree: many }),
          other: () => microsPerPut(bench, { trees, puts: many.files }),
          warmUps: 0,
        }),
        compare: "ratio",
        target: { atMost: AT_MOST },
      },
      ...(await othersWaits(trees, many)),
    ];
  },
};

async function microsPerFile(bench: Bench, { trees, tree }: { trees: Trees; tree: Tree }): Promise<number> {
  const startedAt = performance.now();
  await trees.control.fork(newAddress(), { from: tree, commit: tree.filled });
  const millis = performance.now() - startedAt;
  bench.say(`a fork of ${tree.files} files in ${(millis / 1000).toFixed(1)} s`);
  return (millis * 1000) / tree.files;
}

async function microsPerPut(bench: Bench, { trees, puts }: { trees: Trees; puts: number }): Promise<number> {
  const address = newAddress();
  await trees.control.createBranch(address);
  const startedAt = performance.now();
  await commitThroughSession(trees.control, { address, puts, pathOf });
  const millis = performance.now() - startedAt;
  bench.say(`${puts} puts as one commit in ${(millis / 1000).toFixed(1)} s`);
  return (millis * 1000) / puts;
}

/** Apart from the times above: whoever asks takes the gateway's time. */
async function othersWaits({ gateway, control }: Trees, tree: Tree): Promise<Figure[]> {
  const connections = new Connections(gateway.endpoint, { count: 1 });
  const other = newAddress();
  await control.createBranch(other);
  const bucket = `/${bucketName(tree)}`;
  const send = async (method: "GET" | "PUT", path: string) =>
    connections.send(await signed(gateway.door, { method, path }));
  const probes: Probe[] = [
    { what: "GET of a file of the parent", call: () => send("GET", `${bucket}/${pathOf(0, tree.files)}`) },
    {
      what: "list of the parent",
      call: () => send("GET", `${bucket}?list-type=2&delimiter=%2F&max-keys=100`),
    },
    { what: "PUT into another branch", call: () => send("PUT", `/${bucketName(other)}/file`) },
  ];
  try {
    const fork = () => control.fork(newAddress(), { from: tree, commit: tree.filled });
    return await waitsBeside(probes, fork, { atMostMs: AT_MOST_MS });
  } finally {
    await connections.close();
  }
}

let branches = 0;

function newAddress(): BranchAddress {
  branches += 1;
  return { repo: `forks-${branches}`, branch: "master" };
}

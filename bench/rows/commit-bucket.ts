import { type BranchAddress, viewBucket } from "../../protocol/names.ts";
import { putBurst } from "../support/burst.ts";
import { Connections } from "../support/closed-loop.ts";
import type { Control } from "../support/control.ts";
import type { Figure } from "../support/figure.ts";
import { filesIn, flatness, shortCount } from "../support/flatness.ts";
import type { Bench, Row } from "../support/row.ts";
import type { BenchGateway } from "../support/servers.ts";
import { type SignedRequest, signed } from "../support/signing.ts";
import { median } from "../support/stats.ts";
import { folderOf, growTree, pathOf, type Tree } from "../support/trees.ts";

/** The tree that the larger ones are held to. */
const SMALLEST_FILES = 10_000;
/** Requests in one half of a pair: its value is their median. A GET takes a fraction of a page's time. */
const LISTS = 20;
const GETS = 100;
/** How often one path was written since the commit that is read. */
const OVERWRITES = { full: [100, 10_000], quick: [100, 1000] } as const;

/** The bucket of an old commit: listed and read, it must cost what is asked of it, and neither the tree nor what came since. */
export const commitBucket: Row = {
  name: "commit-bucket",
  title: "the bucket of an old commit: p50 at each size against the smallest",
  async run(bench) {
    const { gateway, control, all } = await bench.trees();
    const smallest = await growTree(control, SMALLEST_FILES);
    const sizes = [smallest, ...all.filter(({ files }) => files > SMALLEST_FILES)];
    const connections = new Connections(gateway.endpoint, { count: 1 });
    const latency = async (requests: readonly SignedRequest[]): Promise<number> =>
      median(await connections.latencies(requests));
    const ask = (place: BranchAddress & { commit: string }, rest: string): Promise<SignedRequest> => {
      const { repo, branch, commit } = place;
      return signed(gateway.door, {
        method: "GET",
        path: `/${viewBucket({ repo, branch, view: commit })}${rest}`,
      });
    };
    try {
      const figures: Figure[] = [];
      for (const { what, requests, target } of ASKED) {
        const measure = async (tree: Tree): Promise<number> => {
          const targets = Array.from({ length: requests }, (_, nth) => target(tree, nth));
          return latency(
            await Promise.all(targets.map((rest) => ask({ ...tree, commit: tree.filled }, rest))),
          );
        };
        figures.push(...(await flatness(bench, { what, unit: "ms", sizes, name: filesIn, measure })));
      }
      const hot = await growHot({ gateway, control }, bench);
      const measure = async (path: HotPath): Promise<number> =>
        latency(await Promise.all(Array.from({ length: GETS }, () => ask(path, `/${path.path}`))));
      const name = ({ overwrites }: HotPath): string => `${shortCount(overwrites)} overwrites`;
      figures.push(...(await flatness(bench, { what: "GET", unit: "ms", sizes: hot, name, measure })));
      return figures;
    } finally {
      await connections.close();
    }
  },
};

interface Asked {
  readonly what: string;
  readonly requests: number;
  /** The target of the nth request, behind the bucket. */
  target(tree: Tree, nth: number): string;
}

// The tree was filled 60 commits ago: its first files were rewritten since, and others were not.
const ASKED: readonly Asked[] = [
  { what: "list, flat, first page", requests: LISTS, target: () => "?list-type=2" },
  {
    what: "list, flat, in the middle",
    requests: LISTS,
    target: ({ files }) =>
      `?list-type=2&start-after=${encodeURIComponent(pathOf(Math.floor(files / 2), files))}`,
  },
  { what: "list, delimiter", requests: LISTS, target: () => "?delimiter=%2F&list-type=2" },
  {
    what: "list, one folder",
    requests: LISTS,
    target: (_, nth) => `?list-type=2&prefix=${folderOf(nth * 19)}%2F&max-keys=10`,
  },
  { what: "GET, rewritten since", requests: GETS, target: ({ files }, nth) => `/${pathOf(nth, files)}` },
  {
    what: "GET, as it is now",
    requests: GETS,
    target: ({ files }, nth) => `/${pathOf(files - 1 - nth, files)}`,
  },
];

/** A path of a branch that was written again and again since a commit. */
interface HotPath extends BranchAddress {
  readonly path: string;
  readonly commit: string;
  readonly overwrites: number;
}

/** One of each size, smallest first. */
async function growHot(
  { gateway, control }: { gateway: BenchGateway; control: Control },
  { scale }: Pick<Bench, "scale">,
): Promise<HotPath[]> {
  const paths: HotPath[] = [];
  for (const overwrites of OVERWRITES[scale]) {
    const address = { repo: `hot-${overwrites}`, branch: "master" };
    await control.createBranch(address);
    const path = "hot";
    const commit = await control.putFile(address, { path, bytes: "first" });
    const files = Array.from({ length: overwrites }, (_, n) => ({ path, text: `overwritten ${n}` }));
    await putBurst(gateway, { address, files });
    paths.push({ ...address, path, commit, overwrites });
  }
  return paths;
}

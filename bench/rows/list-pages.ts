import { type BranchAddress, bucketName } from "../../protocol/names.ts";
import type { Door } from "../../test/support/keys.ts";
import { Connections } from "../support/closed-loop.ts";
import type { Figure } from "../support/figure.ts";
import { filesIn, flatness } from "../support/flatness.ts";
import { type FoldedBranch, growFolded } from "../support/folded-branch.ts";
import type { Row } from "../support/row.ts";
import { type SignedRequest, signed } from "../support/signing.ts";
import { median } from "../support/stats.ts";
import { pathOf, type Tree } from "../support/trees.ts";

const PAGE = 1000;
/** Requests in one half of a pair: its value is their median. */
const REQUESTS = 20;
/** Files that a delimiter folds into one entry of a page. */
const FOLDED = [1000, 100_000];

/** Pages at the head and in the past of trees of several sizes: a page must cost what is on it. */
export const listPages: Row = {
  name: "list-pages",
  title: "list page of 1,000 keys: p50 at each size against the smallest",
  async run(bench) {
    const { gateway, control, all } = await bench.trees();
    const folded = await growFolded(control, { sizes: FOLDED, entries: PAGE });
    const connections = new Connections(gateway.endpoint, { count: 1 });
    const latency = async (request: SignedRequest): Promise<number> =>
      median(await connections.latencies(Array.from({ length: REQUESTS }, () => request)));
    try {
      const figures: Figure[] = [];
      for (const { what, request } of PAGES) {
        const measure = async (tree: Tree): Promise<number> => latency(await request(gateway.door, tree));
        figures.push(...(await flatness(bench, { what, unit: "ms", sizes: all, name: filesIn, measure })));
      }
      const measure = async (branch: FoldedBranch): Promise<number> =>
        latency(await s3List(gateway.door, { tree: branch, query: "delimiter=%2F&list-type=2" }));
      const what = "delimiter, one prefix folds";
      figures.push(...(await flatness(bench, { what, unit: "ms", sizes: folded, name: filesIn, measure })));
      return figures;
    } finally {
      await connections.close();
    }
  },
};

interface Page {
  readonly what: string;
  request(door: Door, tree: Tree): Promise<SignedRequest>;
}

// In the past the page is the one whose files were rewritten since: its dead rows must not be walked.
const PAGES: readonly Page[] = [
  {
    what: "flat, head, first page",
    request: (door, tree) => s3List(door, { tree, query: "list-type=2" }),
  },
  {
    what: "flat, head, last page",
    request: (door, tree) => {
      const after = tree.files > PAGE ? pathOf(tree.files - PAGE - 1, tree.files) : "";
      return s3List(door, { tree, query: `list-type=2&start-after=${encodeURIComponent(after)}` });
    },
  },
  {
    what: "delimiter, head",
    request: (door, tree) => s3List(door, { tree, query: "delimiter=%2F&list-type=2" }),
  },
  { what: "flat, one commit ago", request: (door, tree) => pastList(door, { tree, commit: tree.previous }) },
  { what: "flat, 60 commits ago", request: (door, tree) => pastList(door, { tree, commit: tree.filled }) },
];

function s3List(door: Door, { tree, query }: { tree: BranchAddress; query: string }): Promise<SignedRequest> {
  return signed(door, { method: "GET", path: `/${bucketName(tree)}?${query}` });
}

function pastList(door: Door, { tree, commit }: { tree: Tree; commit: string }): Promise<SignedRequest> {
  const branch = `/api/v1/repos/${tree.repo}/branches/${tree.branch}`;
  return signed(door, { method: "GET", path: `${branch}/commits/${commit}/files?limit=${PAGE}` });
}

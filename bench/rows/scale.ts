import { randomBytes } from "node:crypto";
import { join } from "node:path";
import { bucketName } from "../../protocol/names.ts";
import { startRunner } from "../../test/support/dev-server.ts";
import { scratchFolder } from "../../test/support/scratch.ts";
import { Connections } from "../support/closed-loop.ts";
import { Control } from "../support/control.ts";
import type { Figure } from "../support/figure.ts";
import { filesIn, flatness, shortCount } from "../support/flatness.ts";
import { newestJobEnd } from "../support/job-end.ts";
import type { Row } from "../support/row.ts";
import { type BenchGateway, startBenchGateway } from "../support/servers.ts";
import { type SignedRequest, signed } from "../support/signing.ts";
import { median, medianOf } from "../support/stats.ts";
import { bytesIn } from "../support/stored-bytes.ts";
import { folderOf, growTree, pathOf, type Tree } from "../support/trees.ts";

const SIZES = { full: [10_000, 10_000_000], quick: [10_000, 200_000] } as const;
const PAIRS = 3;
/** Requests, and jobs, in one half of a pair: its value is their median. */
const REQUESTS = 50;
const JOBS = 5;
const BODY_BYTES = 100;

/** One branch with ten million files: what is done there must cost what it changes or answers. */
export const scale: Row = {
  name: "scale",
  title: "10M small files in one branch: p50 against 10k, and what a file takes",
  onlyWhenNamed: true,
  async run(bench) {
    const dataDir = scratchFolder();
    const gateway = await startBenchGateway(dataDir);
    const control = new Control(gateway.door);
    const connections = new Connections(gateway.endpoint, { count: 1 });
    try {
      const trees: JobTree[] = [];
      const bytes: Figure[] = [];
      for (const files of SIZES[bench.scale]) {
        const before = bytesIn(join(dataDir, "state"));
        trees.push(await growJobTree(control, files));
        const taken = bytesIn(join(dataDir, "state")) - before;
        bench.say(`filled a branch with ${files} files`);
        bytes.push(bytesAFile(files, taken));
      }
      return [
        ...bytes,
        ...(await requestFigures({ trees, gateway, connections })),
        ...(await jobFigures({ trees, gateway, control })),
      ];
    } finally {
      await Promise.all([connections.close(), control.close()]);
      await gateway.stop();
    }
  },
};

/** A tree, and pipelines that read what comes to it from now on. */
interface JobTree extends Tree {
  /** One datum a file or folder at the root. */
  readonly pipeline: string;
}

async function growJobTree(control: Control, files: number): Promise<JobTree> {
  const tree = await growTree(control, files);
  const { repo, branch } = tree;
  const newest = await control.putFile(tree, { path: "first", bytes: "first\n" });
  const pipeline = `root-${files}`;
  await control.createPipeline({
    pipeline: { name: pipeline },
    transform: { image: "busybox", cmd: ["true"] },
    inputs: [
      { name: "in", repo: { name: repo }, branch, glob: "/*", from: { repo: { name: repo }, ID: newest } },
    ],
  });
  return { ...tree, pipeline };
}

/** Of the databases, which have the bytes of such small files too. */
function bytesAFile(files: number, taken: number): Figure {
  const what = `state of a file, ${shortCount(files)} files`;
  return { what, unit: "bytes", values: [taken / files], compare: "nothing", target: null };
}

interface Asked {
  readonly trees: readonly JobTree[];
  readonly gateway: BenchGateway;
}

async function requestFigures({
  trees,
  gateway: { door },
  connections,
}: Asked & { connections: Connections }): Promise<Figure[]> {
  // Memory has no page that nobody asked for before.
  const anyPage = () => `list-type=2&start-after=-${randomBytes(8).toString("hex")}`;
  const anyFile = ({ files }: Tree) => pathOf(Math.floor(Math.random() * files), files);
  const asks: readonly { what: string; ask: (tree: JobTree) => Promise<SignedRequest> }[] = [
    {
      what: "page of 1,000 keys",
      ask: (tree) => signed(door, { method: "GET", path: `/${bucketName(tree)}?${anyPage()}` }),
    },
    {
      what: "page of 1,000 prefixes",
      ask: (tree) => signed(door, { method: "GET", path: `/${bucketName(tree)}?delimiter=%2F&${anyPage()}` }),
    },
    {
      what: "GET of any file",
      ask: (tree) => signed(door, { method: "GET", path: `/${bucketName(tree)}/${anyFile(tree)}` }),
    },
    {
      what: "PUT of a new file",
      ask: (tree) => {
        const path = `/${bucketName(tree)}/${folderOf(1)}/${randomBytes(8).toString("hex")}`;
        return signed(door, { method: "PUT", path, body: randomBytes(BODY_BYTES) });
      },
    },
  ];
  const figures: Figure[] = [];
  for (const { what, ask } of asks) {
    const measure = async (tree: JobTree): Promise<number> => {
      const requests = await Promise.all(Array.from({ length: REQUESTS }, () => ask(tree)));
      return median(await connections.latencies(requests));
    };
    const curve = { what, unit: "ms", sizes: trees, name: filesIn, measure };
    figures.push(...(await flatness({ pairs: PAIRS }, curve)));
  }
  return figures;
}

let written = 0;

async function jobFigures({ trees, gateway, control }: Asked & { control: Control }): Promise<Figure[]> {
  const runner = startRunner(gateway.door, { node: "bench" });
  const millis = async (tree: JobTree, path: string): Promise<number> => {
    const startedAt = performance.now();
    const commit = await control.putFile(tree, { path, bytes: `${path}\n` });
    const { datums } = await newestJobEnd(control, { pipeline: tree.pipeline, commit });
    const took = performance.now() - startedAt;
    if (datums.processed !== 1) throw new Error(`a job of ${tree.pipeline} ran ${datums.processed} datums`);
    return took;
  };
  const pathsOf: Readonly<Record<string, (tree: Tree) => string>> = {
    "new file at the root → success": () => `new-${++written}`,
    // Its datum has all files of the folder, which are a thousandth of the branch.
    "new file in one of 1,000 folders → success": () => `${folderOf(0)}/new-${++written}`,
  };
  try {
    const figures: Figure[] = [];
    for (const [what, pathIn] of Object.entries(pathsOf)) {
      const measure = (tree: JobTree) => medianOf(JOBS, () => millis(tree, pathIn(tree)));
      const curve = { what, unit: "ms", sizes: trees, name: filesIn, measure };
      figures.push(...(await flatness({ pairs: PAIRS }, curve)));
    }
    return figures;
  } finally {
    await runner.stop();
  }
}

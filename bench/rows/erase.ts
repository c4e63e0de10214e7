import { randomBytes } from "node:crypto";
import { MAX_COMMIT_OPERATIONS } from "../../protocol/files.ts";
import { bucketName } from "../../protocol/names.ts";
import { commitTexts } from "../support/bulk-commit.ts";
import { Connections } from "../support/closed-loop.ts";
import type { Figure } from "../support/figure.ts";
import { shortCount } from "../support/flatness.ts";
import { interleaved } from "../support/pairs.ts";
import type { Bench, Row } from "../support/row.ts";
import { type SignedRequest, signed } from "../support/signing.ts";
import { pathOf, type Tree, type Trees } from "../support/trees.ts";
import { type Probe, waitsBeside } from "../support/waits.ts";

const CONNECTIONS = 8;
const SIZE_BYTES = 4096;
const PUTS = { full: 3000, quick: 600 } as const;
const PAIRS = { full: 5, quick: 1 } as const;
/** Versions of one DeleteObjects, and how many of those are measured for the waits of others. */
const BATCH = 1000;
const BATCHES = 10;
/** Of the PUTs a second that there are without erasures. */
const AT_LEAST = 0.7;
/** No other request may wait longer because of them. */
const AT_MOST_MS = 100;

/** One client erases versions of the largest tree, one after the other: HEAD goes back with each. Others write there. */
export const erase: Row = {
  name: "erase",
  title:
    "PUT of 4 KiB into a branch while versions of it are erased, and the longest wait of others meanwhile",
  onlyWhenNamed: true,
  async run(bench) {
    const trees = await bench.trees();
    const tree = trees.all.at(-1);
    if (!tree) throw new Error("there is no tree");
    const writers = new Connections(trees.gateway.endpoint, { count: CONNECTIONS });
    const eraser = new Connections(trees.gateway.endpoint, { count: 1 });
    const versions = new Versions(trees, tree);
    try {
      return [
        {
          what: `PUT 4 KiB while versions of ${shortCount(tree.files)} files are erased`,
          unit: "req/s",
          against: "PUT 4 KiB alone",
          pairs: await interleaved(PAIRS[bench.scale], {
            ours: () => putsDuring(bench, { trees, tree, writers, eraser, versions }),
            other: async () => writers.requestsPerSecond(await puts(bench, { trees, tree })),
          }),
          compare: "ratio",
          target: { atLeast: AT_LEAST },
        },
        ...(await othersWaits({ trees, tree, eraser, versions })),
      ];
    } finally {
      await Promise.all([writers.close(), eraser.close()]);
    }
  },
};

interface Load {
  readonly trees: Trees;
  readonly tree: Tree;
  readonly writers: Connections;
  readonly eraser: Connections;
  readonly versions: Versions;
}

async function putsDuring(bench: Bench, { trees, tree, writers, eraser, versions }: Load): Promise<number> {
  const requests = await puts(bench, { trees, tree });
  const over = new AbortController();
  let erased = 0;
  const erasing = (async () => {
    while (!over.signal.aborted) {
      await eraser.send(await versions.eraseNext());
      erased++;
    }
  })();
  try {
    return await writers.requestsPerSecond(requests);
  } finally {
    over.abort();
    await erasing;
    bench.say(`${erased} versions were erased meanwhile`);
  }
}

let batches = 0;

function puts(bench: Bench, { trees, tree }: Pick<Load, "trees" | "tree">): Promise<SignedRequest[]> {
  batches++;
  const folder = `/${bucketName(tree)}/written-${batches}`;
  const count = PUTS[bench.scale];
  return Promise.all(
    Array.from({ length: count }, (_, i) =>
      signed(trees.gateway.door, { method: "PUT", path: `${folder}/${i}`, body: randomBytes(SIZE_BYTES) }),
    ),
  );
}

async function othersWaits({ trees, tree, eraser, versions }: Omit<Load, "writers">): Promise<Figure[]> {
  const { gateway } = trees;
  const other = new Connections(gateway.endpoint, { count: 1 });
  const send = async (method: "GET" | "PUT", path: string) =>
    other.send(
      await signed(gateway.door, {
        method,
        path,
        ...(method === "PUT" && { body: randomBytes(SIZE_BYTES) }),
      }),
    );
  const bucket = `/${bucketName(tree)}`;
  let written = 0;
  const probes: Probe[] = [
    { what: "GET of a file", call: () => send("GET", `${bucket}/${pathOf(0, tree.files)}`) },
    { what: "PUT of a file", call: () => send("PUT", `${bucket}/probed/${written++}`) },
    { what: "list", call: () => send("GET", `${bucket}?list-type=2&delimiter=%2F&max-keys=100`) },
  ];
  const requests: SignedRequest[] = [];
  for (let batch = 0; batch < BATCHES; batch++) requests.push(await versions.eraseMany(BATCH));
  try {
    const erase = async () => {
      for (const request of requests) await eraser.send(request);
    };
    return await waitsBeside(probes, erase, { atMostMs: AT_MOST_MS });
  } finally {
    await other.close();
  }
}

/** Versions to be erased: files of a tree are overwritten, so that erasing them brings the tree back. */
class Versions {
  readonly #trees: Trees;
  readonly #tree: Tree;
  #ready: { path: string; version: string }[] = [];
  #commits = 0;

  constructor(trees: Trees, tree: Tree) {
    this.#trees = trees;
    this.#tree = tree;
  }

  async eraseNext(): Promise<SignedRequest> {
    const [one] = await this.#take(1);
    const path = `/${bucketName(this.#tree)}/${one?.path}?versionId=${one?.version}`;
    return signed(this.#trees.gateway.door, { method: "DELETE", path });
  }

  async eraseMany(count: number): Promise<SignedRequest> {
    const objects = (await this.#take(count)).map(
      ({ path, version }) => `<Object><Key>${path}</Key><VersionId>${version}</VersionId></Object>`,
    );
    const body = Buffer.from(`<Delete><Quiet>true</Quiet>${objects.join("")}</Delete>`);
    return signed(this.#trees.gateway.door, {
      method: "POST",
      path: `/${bucketName(this.#tree)}?delete`,
      body,
    });
  }

  async #take(count: number): Promise<{ path: string; version: string }[]> {
    if (this.#ready.length < count) {
      this.#commits++;
      const { files, repo, branch } = this.#tree;
      const written = Array.from({ length: Math.min(MAX_COMMIT_OPERATIONS, files) }, (_, i) => ({
        // Behind the first ones, which have a past of their own.
        path: pathOf(files - 1 - i, files),
        text: `overwritten ${this.#commits}\n${i}\n`,
      }));
      const version = await commitTexts(this.#trees.control, { address: { repo, branch }, files: written });
      this.#ready.push(...written.map(({ path }) => ({ path, version })));
    }
    return this.#ready.splice(0, count);
  }
}

import { randomBytes } from "node:crypto";
import { bucketName } from "../../protocol/names.ts";
import { Connections } from "../support/closed-loop.ts";
import { filesIn, flatness } from "../support/flatness.ts";
import type { Row } from "../support/row.ts";
import { signed } from "../support/signing.ts";
import { median } from "../support/stats.ts";
import { folderOf, type Tree } from "../support/trees.ts";

const SIZE_BYTES = 100;
/** Requests in one half of a pair: its value is their median. */
const REQUESTS = 50;

/** A PUT of one new file, which is a commit: it must cost what it changes. */
export const oneFileCommit: Row = {
  name: "one-file-commit",
  title: "one-file commit through S3: p50 at each size against the smallest",
  async run(bench) {
    const { gateway, all } = await bench.trees();
    const connections = new Connections(gateway.endpoint, { count: 1 });
    const measure = async (tree: Tree): Promise<number> => {
      const requests = await Promise.all(
        Array.from({ length: REQUESTS }, (_, i) => {
          const path = `/${bucketName(tree)}/${folderOf(i * 19)}/${randomBytes(8).toString("hex")}`;
          return signed(gateway.door, { method: "PUT", path, body: randomBytes(SIZE_BYTES) });
        }),
      );
      return median(await connections.latencies(requests));
    };
    try {
      return await flatness(bench, { what: "PUT 100 B", unit: "ms", sizes: all, name: filesIn, measure });
    } finally {
      await connections.close();
    }
  },
};

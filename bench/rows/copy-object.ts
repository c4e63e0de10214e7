import { randomBytes } from "node:crypto";
import { bigBody } from "../support/big-body.ts";
import { Connections } from "../support/closed-loop.ts";
import { interleaved } from "../support/pairs.ts";
import type { Row } from "../support/row.ts";
import { startBenchGateway } from "../support/servers.ts";
import { type SignedRequest, signed } from "../support/signing.ts";
import { median } from "../support/stats.ts";
import { transfer } from "../support/transfer.ts";

const SIZE_BYTES = { full: 1024 ** 3, quick: 256 * 1024 ** 2 } as const;
const SMALL_BYTES = 4096;
const BUCKET = "master.copies";
/** Requests in one half of a pair: its value is their median. */
const REQUESTS = 50;

/** A copy inside a branch names what is there: its size must not matter. */
export const copyObject: Row = {
  name: "copy-object",
  title: "CopyObject of a large file inside a branch against a PUT of 4 KiB there: p50",
  async run({ pairs, scale }) {
    const gateway = await startBenchGateway();
    const { door, endpoint } = gateway;
    const connections = new Connections(endpoint, { count: 1 });
    const size = SIZE_BYTES[scale];
    let keys = 0;
    // Keys and bytes that were never there before: what changes nothing makes no commit.
    const latency = async (request: (path: string) => Promise<SignedRequest>): Promise<number> => {
      const paths = Array.from({ length: REQUESTS }, () => `/${BUCKET}/${keys++}`);
      return median(await connections.latencies(await Promise.all(paths.map(request))));
    };
    const copy = { "x-amz-copy-source": `/${BUCKET}/source` };
    try {
      await connections.send(await signed(door, { method: "PUT", path: `/${BUCKET}` }));
      const source = await signed(door, { method: "PUT", path: `/${BUCKET}/source` });
      await transfer(endpoint, { request: source, pieces: bigBody(size, { seed: "copied" }).pieces(), size });
      return [
        {
          what: `CopyObject of ${size / 1024 ** 2} MiB`,
          unit: "ms",
          against: "PUT 4 KiB",
          pairs: await interleaved(pairs, {
            ours: () => latency((path) => signed(door, { method: "PUT", path, headers: copy })),
            other: () =>
              latency((path) => signed(door, { method: "PUT", path, body: randomBytes(SMALL_BYTES) })),
          }),
          compare: "ratio",
          target: { atMost: 2 },
        },
      ];
    } finally {
      await connections.close();
      await gateway.stop();
    }
  },
};

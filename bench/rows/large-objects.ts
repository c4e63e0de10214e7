import { type BigBody, bigBody, sha256Of } from "../support/big-body.ts";
import { interleaved } from "../support/pairs.ts";
import type { Row } from "../support/row.ts";
import { type BenchGateway, type Server, startBareWorker, startBenchGateway } from "../support/servers.ts";
import { signed } from "../support/signing.ts";
import { transfer } from "../support/transfer.ts";

const SIZE_BYTES = { full: 1024 ** 3, quick: 256 * 1024 ** 2 } as const;
const OBJECT = "/master.large/object";

/** Large files in and out: what the bytes cost. */
export const largeObjects: Row = {
  name: "large-objects",
  title: "large PUT and GET against a bare Worker that streams to and from the same disk service",
  async run({ pairs, scale }) {
    const gateway = await startBenchGateway();
    const bare = await startBareWorker("streaming");
    const size = SIZE_BYTES[scale];
    const body = bigBody(size, { seed: "large" });
    const hash = sha256Of(body);
    const put = (payload: string) => ({
      ours: () => putRate(gateway, { body, payload }),
      other: () => putRate(gateway, { body, payload, instead: bare }),
    });
    const what = (operation: string) => `${operation} ${size / 1024 ** 2} MiB`;
    try {
      return [
        {
          ...COMMON,
          what: what("PUT, unsigned payload,"),
          pairs: await interleaved(pairs, put("UNSIGNED-PAYLOAD")),
          target: { atLeast: 0.55 },
        },
        {
          ...COMMON,
          what: what("PUT, signed payload,"),
          pairs: await interleaved(pairs, put(hash)),
          target: { atLeast: 0.4 },
        },
        {
          ...COMMON,
          what: what("GET"),
          pairs: await compareGets(pairs, { gateway, bare, body }),
          target: { atLeast: 0.8 },
        },
      ];
    } finally {
      await Promise.all([gateway.stop(), bare.stop()]);
    }
  },
};

const COMMON = { unit: "MB/s", against: "bare Worker", compare: "ratio" } as const;

interface PutOptions {
  readonly body: BigBody;
  readonly payload: string;
  /** Where the very same request goes instead of to the gateway. */
  readonly instead?: Server;
}

// Each PUT goes to a bucket that was made for it and is gone afterwards, together with the blobs: the disk does not
// fill up, and no content is there already.
async function putRate(gateway: BenchGateway, { body, payload, instead }: PutOptions): Promise<number> {
  const server = instead ?? gateway;
  if (!instead) await onBucket(gateway, "PUT");
  const request = await signed(gateway.door, { method: "PUT", path: OBJECT, payload });
  const { seconds } = await transfer(server.endpoint, { request, pieces: body.pieces(), size: body.size });
  if (!instead) await onBucket(gateway, "DELETE");
  server.dropBlobs();
  return megabytesPerSecond(body.size, seconds);
}

async function compareGets(
  pairs: number,
  { gateway, bare, body }: { gateway: BenchGateway; bare: Server; body: BigBody },
) {
  await onBucket(gateway, "PUT");
  for (const { endpoint } of [gateway, bare]) {
    const request = await signed(gateway.door, { method: "PUT", path: OBJECT });
    await transfer(endpoint, { request, pieces: body.pieces(), size: body.size });
  }
  const rate = async ({ endpoint }: Server): Promise<number> => {
    const request = await signed(gateway.door, { method: "GET", path: OBJECT });
    const { seconds, bodyBytes } = await transfer(endpoint, { request });
    if (bodyBytes !== body.size) throw new Error(`GET answered ${bodyBytes} bytes of ${body.size}`);
    return megabytesPerSecond(body.size, seconds);
  };
  return interleaved(pairs, { ours: () => rate(gateway), other: () => rate(bare) });
}

async function onBucket({ endpoint, door }: BenchGateway, method: "PUT" | "DELETE"): Promise<void> {
  const { method: _, path, headers } = await signed(door, { method, path: "/master.large" });
  const response = await fetch(`${endpoint}${path}`, { method, headers });
  if (!response.ok) throw new Error(`${method} ${path}: ${response.status} ${await response.text()}`);
}

function megabytesPerSecond(bytes: number, seconds: number): number {
  return bytes / 1e6 / seconds;
}

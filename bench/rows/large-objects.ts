import { bucketName } from "../../protocol/names.ts";
import { type BigBody, bigBody, sha256Of } from "../support/big-body.ts";
import { Control } from "../support/control.ts";
import { interleaved } from "../support/pairs.ts";
import type { Row } from "../support/row.ts";
import { type BenchGateway, type Server, startBareWorker, startBenchGateway } from "../support/servers.ts";
import { signed } from "../support/signing.ts";
import { transfer } from "../support/transfer.ts";

const SIZE_BYTES = { full: 1024 ** 3, quick: 256 * 1024 ** 2 } as const;

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

let branches = 0;

/** The path of an object in a branch that holds nothing yet: what a branch has already would not be kept twice. */
async function newObject({ door }: BenchGateway): Promise<string> {
  branches += 1;
  const address = { repo: `large-${branches}`, branch: "master" };
  const control = new Control(door);
  await control.createBranch(address);
  await control.close();
  return `/${bucketName(address)}/object`;
}

async function putRate(gateway: BenchGateway, { body, payload, instead }: PutOptions): Promise<number> {
  const server = instead ?? gateway;
  const path = await newObject(gateway);
  const request = await signed(gateway.door, { method: "PUT", path, payload });
  const { seconds } = await transfer(server.endpoint, { request, pieces: body.pieces(), size: body.size });
  server.dropBlobs();
  return megabytesPerSecond(body.size, seconds);
}

async function compareGets(
  pairs: number,
  { gateway, bare, body }: { gateway: BenchGateway; bare: Server; body: BigBody },
) {
  const path = await newObject(gateway);
  for (const { endpoint } of [gateway, bare]) {
    const request = await signed(gateway.door, { method: "PUT", path });
    await transfer(endpoint, { request, pieces: body.pieces(), size: body.size });
  }
  const rate = async ({ endpoint }: Server): Promise<number> => {
    const request = await signed(gateway.door, { method: "GET", path });
    const { seconds, bodyBytes } = await transfer(endpoint, { request });
    if (bodyBytes !== body.size) throw new Error(`GET answered ${bodyBytes} bytes of ${body.size}`);
    return megabytesPerSecond(body.size, seconds);
  };
  return interleaved(pairs, { ours: () => rate(gateway), other: () => rate(bare) });
}

function megabytesPerSecond(bytes: number, seconds: number): number {
  return bytes / 1e6 / seconds;
}

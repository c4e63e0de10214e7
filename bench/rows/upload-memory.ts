import { type Door, ROOT_KEY } from "../../test/support/keys.ts";
import { bigBody } from "../support/big-body.ts";
import { Control } from "../support/control.ts";
import type { Figure } from "../support/figure.ts";
import { residentMiB } from "../support/memory.ts";
import { interleaved } from "../support/pairs.ts";
import type { Row } from "../support/row.ts";
import { type Server, startBareWorker, startBenchGateway } from "../support/servers.ts";
import { signed } from "../support/signing.ts";
import { transfer } from "../support/transfer.ts";

const MIB = 1024 ** 2;
const LONG_BYTES = { full: 5120 * MIB, quick: 2048 * MIB } as const;
const PARALLEL = 16;
const PARALLEL_BYTES = 200 * MIB;
/** A peak is the same each time, give or take a little, and each takes a fresh server and gigabytes of disk. */
const PAIRS = { full: 3, quick: 1 } as const;
const ADDRESS = { repo: "large", branch: "master" };

/** The most memory that workerd ever had, in a process that saw these uploads alone. */
export const uploadMemory: Row = {
  name: "upload-memory",
  title: "peak memory of workerd during uploads, against the bare streaming Worker's",
  async run({ scale }) {
    const compare = async (what: string, uploads: Uploads): Promise<Figure> => ({
      what,
      unit: "MiB",
      against: "bare Worker",
      pairs: await interleaved(PAIRS[scale], {
        ours: () => gatewayPeak(uploads),
        other: () => barePeak(uploads),
        warmUps: 0,
      }),
      compare: "difference",
      target: { atMost: 96 },
    });
    const long = { count: 1, size: LONG_BYTES[scale] };
    return [
      await compare(`one PUT of ${long.size / MIB} MiB`, long),
      await compare("16 PUTs of 200 MiB in parallel", { count: PARALLEL, size: PARALLEL_BYTES }),
    ];
  },
};

interface Uploads {
  readonly count: number;
  readonly size: number;
}

async function gatewayPeak(uploads: Uploads): Promise<number> {
  const gateway = await startBenchGateway();
  const control = new Control(gateway.door);
  try {
    await control.createBranch(ADDRESS);
    return await peak(gateway, { door: gateway.door, uploads });
  } finally {
    await control.close();
    await gateway.stop();
  }
}

async function barePeak(uploads: Uploads): Promise<number> {
  const bare = await startBareWorker("streaming");
  try {
    return await peak(bare, { door: { endpoint: bare.endpoint, ...ROOT_KEY }, uploads });
  } finally {
    await bare.stop();
  }
}

async function peak(
  { endpoint, pid }: Server,
  { door, uploads: { count, size } }: { door: Door; uploads: Uploads },
): Promise<number> {
  await Promise.all(
    Array.from({ length: count }, async (_, i) => {
      const request = await signed(door, { method: "PUT", path: `/master.large/object-${i}` });
      await transfer(endpoint, { request, pieces: bigBody(size, { seed: `${i}` }).pieces(), size });
    }),
  );
  return residentMiB(pid, "VmHWM");
}

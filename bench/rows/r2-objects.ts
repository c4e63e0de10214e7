import { type BigBody, bigBody } from "../support/big-body.ts";
import { getRates, multipartRates, putRates } from "../support/object-rates.ts";
import { interleaved } from "../support/pairs.ts";
import { startR2Gateway } from "../support/r2-gateway.ts";
import type { Row } from "../support/row.ts";
import { startBareWorker } from "../support/servers.ts";

/** Less than the disk service gets: the simulator of R2 is slow. */
const SIZE_BYTES = { full: 256 * 1024 ** 2, quick: 64 * 1024 ** 2 } as const;
const PARTS = 8;
/** How long R2 takes to the first byte of a read, in a data centre. */
const FAR_MS = 60;

/** Large files through the R2 adapter: what it adds to R2. */
export const r2Objects: Row = {
  name: "r2-objects",
  title: "large PUT, GET and multipart on R2's simulator, against bare puts and gets of chunks there",
  async run({ pairs, scale }) {
    const gateway = await startR2Gateway();
    const bare = await startBareWorker("streaming", { store: "r2" });
    const contest = { gateway, bare };
    const size = SIZE_BYTES[scale];
    const body = bigBody(size, { seed: "large" });
    const parts = Array.from({ length: PARTS }, (_, n) => bigBody(size / PARTS, { seed: `part ${n}` }));
    const what = (operation: string) => `${operation} ${size / 1024 ** 2} MiB`;
    try {
      return [
        {
          ...COMMON,
          what: what("PUT"),
          pairs: await interleaved(pairs, putRates(contest, { body, payload: "UNSIGNED-PAYLOAD" })),
        },
        {
          ...COMMON,
          what: what("GET"),
          pairs: await interleaved(pairs, await getRates(contest, body)),
        },
        {
          ...COMMON,
          what: what(`multipart, ${PARTS} parts at once,`),
          pairs: await interleaved(pairs, multipartRates(contest, parts)),
        },
        await farRow({ pairs, body, what: what(`GET, each read answered ${FAR_MS} ms late,`) }),
      ];
    } finally {
      await Promise.all([gateway.stop(), bare.stop()]);
    }
  },
};

/** The bare Worker has one read ahead, the gateway up to four. */
async function farRow({ pairs, body, what }: { pairs: number; body: BigBody; what: string }) {
  const far = { store: "r2", farMs: FAR_MS } as const;
  const gateway = await startR2Gateway(far);
  const bare = await startBareWorker("streaming", far);
  try {
    const rates = await getRates({ gateway, bare }, body);
    return { ...COMMON, what, pairs: await interleaved(pairs, rates), target: { atLeast: 2 } };
  } finally {
    await Promise.all([gateway.stop(), bare.stop()]);
  }
}

const COMMON = {
  unit: "MB/s",
  against: "bare R2",
  compare: "ratio",
  target: { atLeast: 0.9 },
} as const;

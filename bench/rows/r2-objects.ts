import { bigBody } from "../support/big-body.ts";
import { getRates, multipartRates, putRates } from "../support/object-rates.ts";
import { interleaved } from "../support/pairs.ts";
import { startR2Gateway } from "../support/r2-gateway.ts";
import type { Row } from "../support/row.ts";
import { startBareWorker } from "../support/servers.ts";

/** Less than the disk service gets: the simulator of R2 is slow. */
const SIZE_BYTES = { full: 256 * 1024 ** 2, quick: 64 * 1024 ** 2 } as const;
const PARTS = 8;

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
      ];
    } finally {
      await Promise.all([gateway.stop(), bare.stop()]);
    }
  },
};

const COMMON = {
  unit: "MB/s",
  against: "bare R2",
  compare: "ratio",
  target: { atLeast: 0.9 },
} as const;

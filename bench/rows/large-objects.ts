import { bigBody, sha256Of } from "../support/big-body.ts";
import { getRates, multipartRates, putRates } from "../support/object-rates.ts";
import { interleaved } from "../support/pairs.ts";
import type { Row } from "../support/row.ts";
import { startBareWorker, startBenchGateway } from "../support/servers.ts";

const SIZE_BYTES = { full: 1024 ** 3, quick: 256 * 1024 ** 2 } as const;
const PARTS = 8;

/** Large files in and out: what the bytes cost. */
export const largeObjects: Row = {
  name: "large-objects",
  title: "large PUT, GET and multipart against a bare Worker that streams to and from the same disk service",
  async run({ pairs, scale }) {
    const gateway = await startBenchGateway();
    const bare = await startBareWorker("streaming");
    const contest = { gateway, bare };
    const size = SIZE_BYTES[scale];
    const body = bigBody(size, { seed: "large" });
    const parts = Array.from({ length: PARTS }, (_, n) => bigBody(size / PARTS, { seed: `part ${n}` }));
    const put = (payload: string) => interleaved(pairs, putRates(contest, { body, payload }));
    const what = (operation: string) => `${operation} ${size / 1024 ** 2} MiB`;
    try {
      return [
        {
          ...COMMON,
          what: what("PUT, unsigned payload,"),
          pairs: await put("UNSIGNED-PAYLOAD"),
          target: { atLeast: 0.6 },
        },
        {
          ...COMMON,
          what: what("PUT, signed payload,"),
          pairs: await put(sha256Of(body)),
          target: { atLeast: 0.4 },
        },
        {
          ...COMMON,
          what: what("GET"),
          pairs: await interleaved(pairs, await getRates(contest, body)),
          target: { atLeast: 0.95 },
        },
        {
          ...COMMON,
          what: what(`multipart, ${PARTS} parts at once,`),
          pairs: await interleaved(pairs, multipartRates(contest, parts)),
          target: { atLeast: 0.65 },
        },
      ];
    } finally {
      await Promise.all([gateway.stop(), bare.stop()]);
    }
  },
};

const COMMON = { unit: "MB/s", against: "bare Worker", compare: "ratio" } as const;

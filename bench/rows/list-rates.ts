import { bucketName } from "../../protocol/names.ts";
import { Connections } from "../support/closed-loop.ts";
import { Control } from "../support/control.ts";
import type { Figure, Target } from "../support/figure.ts";
import { growFolded } from "../support/folded-branch.ts";
import { interleaved } from "../support/pairs.ts";
import type { Row } from "../support/row.ts";
import { startBareWorker, startBenchGateway } from "../support/servers.ts";
import { signed } from "../support/signing.ts";

const CONNECTIONS = 4;
const FILES = 20_000;
const FOLDER = "folder%2F";

/** Requests of one half of a pair. */
interface Listing {
  readonly what: string;
  readonly query: string;
  /** Each is asked for once, by a mark before the first key: none is in memory. */
  readonly isNew?: true;
  readonly requests: { readonly full: number; readonly quick: number };
  readonly target: Target | null;
}

const LISTINGS: readonly Listing[] = [
  {
    what: "delimiter, one prefix over 20k keys",
    query: "delimiter=%2F&list-type=2",
    requests: { full: 4000, quick: 1500 },
    target: { atLeast: 0.3 },
  },
  {
    what: "delimiter, one prefix over 20k keys, each asked once",
    query: "delimiter=%2F&list-type=2",
    isNew: true,
    requests: { full: 2000, quick: 800 },
    target: null,
  },
  {
    what: "delimiter, one prefix over 20k keys, versions",
    query: "delimiter=%2F&versions",
    requests: { full: 4000, quick: 1500 },
    target: null,
  },
  {
    what: "page of 1,000 keys",
    query: `list-type=2&prefix=${FOLDER}`,
    requests: { full: 600, quick: 200 },
    target: null,
  },
  {
    // What 300 pages a second were of what an empty Worker did.
    what: "page of 1,000 keys, each asked once",
    query: `list-type=2&prefix=${FOLDER}`,
    isNew: true,
    requests: { full: 600, quick: 200 },
    target: { atLeast: 0.018 },
  },
];

/** How many listings a second there are: one that seeks costs what its answer does, and a page what is on it. */
export const listRates: Row = {
  name: "list-rates",
  title: "listings, SigV4 in the header, 4 connections, against an empty Worker",
  async run({ pairs, scale }) {
    const gateway = await startBenchGateway();
    const empty = await startBareWorker("empty");
    const control = new Control(gateway.door);
    const ours = new Connections(gateway.endpoint, { count: CONNECTIONS });
    const other = new Connections(empty.endpoint, { count: CONNECTIONS });
    try {
      const [branch] = await growFolded(control, { sizes: [FILES], entries: 1 });
      if (!branch) throw new Error("no branch was grown");
      const figures: Figure[] = [];
      let marks = 0;
      for (const { what, query, isNew, requests: counts, target } of LISTINGS) {
        const asked = (more = "") =>
          signed(gateway.door, { method: "GET", path: `/${bucketName(branch)}?${query}${more}` });
        const same = await asked();
        const requests = () =>
          Promise.all(
            Array.from({ length: counts[scale] }, () => (isNew ? asked(`&start-after=a${++marks}`) : same)),
          );
        figures.push({
          what,
          unit: "req/s",
          against: "empty Worker",
          pairs: await interleaved(pairs, {
            ours: async () => ours.requestsPerSecond(await requests()),
            other: async () => other.requestsPerSecond(await requests()),
            warmUps: 2,
          }),
          compare: "ratio",
          target,
        });
      }
      return figures;
    } finally {
      await Promise.all([ours.close(), other.close(), control.close()]);
      await Promise.all([gateway.stop(), empty.stop()]);
    }
  },
};

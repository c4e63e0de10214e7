import { decodeTime, monotonicFactory } from "ulid";
import { bucketName } from "../../../protocol/names.ts";
import { openBlobStore } from "../../blobs/open.ts";
import type { BranchApi } from "../../branch/contract.ts";
import { openCatalogue } from "../../catalogue/catalogue.ts";
import type { Env } from "../../env.ts";
import type { Peers } from "../context.ts";
import { LiveNodes } from "./live-nodes.ts";

/** The real ones. */
export function openPeers(env: Env): Peers {
  const catalogue = openCatalogue(env.DB);
  const nodes = new LiveNodes(catalogue.nodes);
  const next = monotonicFactory();
  const now = (): number => Date.now();
  return {
    catalogue,
    blobs: openBlobStore(env),
    now,
    // The stub's type wraps every answer for RPC; what comes over it is the plain data of the contract.
    branch: (address) => env.BRANCH.getByName(bucketName(address)) as unknown as BranchApi,
    id: (after) => {
      const id = next(now());
      return after === undefined || id > after ? id : next(decodeTime(after) + 1);
    },
    fleet: () => nodes.count(now()),
  };
}

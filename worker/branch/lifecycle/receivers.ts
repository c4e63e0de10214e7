import { parseBucketName } from "../../../protocol/names.ts";
import { openBlobStore } from "../../blobs/stores.ts";
import { openCatalogue } from "../../catalogue/catalogue.ts";
import type { Env } from "../../env.ts";
import type { Ledger } from "../ledger/ledger.ts";
import type { Receivers } from "./courier.ts";

/**
 * The blob by which a branch can be found if the catalogue is lost. It stays when the branch is deleted, as the object
 * does.
 */
function markerName({ repo, branch }: { repo: string; branch: string }): string {
  return `m/branches/${repo}/${branch}`;
}

/** The catalogue and the pipelines, as a Branch object tells them. */
export function openReceivers({
  ledger,
  env,
  bucket,
}: {
  ledger: Pick<Ledger, "generations">;
  env: () => Env;
  bucket: () => string;
}): Receivers {
  return {
    async catalogue() {
      const address = parseBucketName(bucket());
      const generation = ledger.generations.newest();
      if (!address || !generation) throw new Error(`there is no branch ${bucket()} to tell of`);
      const { gen, uid, createdAt, deletedAt } = generation;
      const deleted = deletedAt !== null;
      if (!deleted) {
        const marker = new TextEncoder().encode(JSON.stringify({ ...address, uid }));
        await openBlobStore(env()).put(markerName(address), marker);
      }
      // Each generation is created and deleted once.
      const version = 2 * gen + (deleted ? 1 : 0);
      await openCatalogue(env().DB).branches.record({ ...address, version, deleted, createdAt });
    },
    async bell({ pipeline, uid }) {
      await env().PIPELINE.getByName(pipeline).ring({ uid });
    },
  };
}

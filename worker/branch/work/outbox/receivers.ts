import { type BranchAddress, parseBucketName } from "../../../../protocol/names.ts";
import { MAX_ERASED } from "../../../../protocol/runner.ts";
import { openBlobStore } from "../../../blobs/stores.ts";
import { type Catalogue, openCatalogue } from "../../../catalogue/catalogue.ts";
import { MAX_TAGS_PER_WRITE } from "../../../catalogue/tags.ts";
import type { Env } from "../../../env.ts";
import { clientOf } from "../../../objects/facets.ts";
import type { BranchApi } from "../../contract/api.ts";
import type { WakeUpCalls } from "../../contract/pipelines.ts";
import type { Ledger } from "../../ledger/ledger.ts";
import type { GenerationRow } from "../../tree/generation-store.ts";
import type { Receivers } from "./courier.ts";
import { giveSomeBack } from "./give-back.ts";

/**
 * The blob by which a branch can be found if the catalogue is lost. It stays when the branch is deleted, as the object
 * does.
 */
function markerName({ repo, branch }: { repo: string; branch: string }): string {
  return `m/branches/${repo}/${branch}`;
}

type ToldStores = Pick<Ledger, "generations" | "tags" | "forks" | "transaction">;

interface ToldBranch {
  readonly ledger: ToldStores;
  readonly address: BranchAddress;
  readonly generation: GenerationRow;
}

/**
 * Brings the catalogue's copies of the tags up to date. A crash after any write leaves the news here, and it is told
 * again: the versions keep what is newer.
 */
async function tellTags(
  { tags: copies }: Pick<Catalogue, "tags">,
  { ledger, address, generation }: ToldBranch,
): Promise<void> {
  const { tags } = ledger;
  // Only a branch that had tags when it was deleted costs a query.
  if (tags.ended > 0) await copies.forget(address, tags.ended);
  const { gen, createdAt } = generation;
  for (;;) {
    // If the branch was deleted meanwhile, its news are gone. Those of the next generation are of what is told after this.
    const news = ledger.generations.newest()?.gen === gen ? tags.news(MAX_TAGS_PER_WRITE) : [];
    if (news.length === 0) return;
    const records = news.map((each) => ({ ...each, tag: tags.find(gen, each.name) ?? null }));
    await copies.record({ ...address, createdAt }, records);
    ledger.transaction(() => tags.told(news));
  }
}

/** A deleted branch answers nobody. */
const NOTHING_SET = { isPublic: false, hasCors: false, writer: null };

/** The catalogue and the pipelines, as a Branch object tells them. */
export function openReceivers({
  ledger,
  env,
  bucket,
}: {
  ledger: ToldStores & Pick<Ledger, "settings" | "giveBacks" | "outbox" | "erasedContents">;
  env: () => Env;
  bucket: () => string;
}): Receivers {
  /** The branch as it is now, or was when it was deleted. */
  const newest = () => {
    const address = parseBucketName(bucket());
    const generation = ledger.generations.newest();
    if (!address || !generation) throw new Error(`there is no branch ${bucket()} to tell of`);
    // A fork on its way has a generation that is not open yet.
    const forking = ledger.forks.coming()?.gen === generation.gen;
    const deleted = generation.deletedAt !== null && !forking;
    // Each generation is created and deleted once.
    const version = 2 * generation.gen + (deleted ? 1 : 0);
    return { address, generation, deleted, version, forking };
  };
  const pipelineOf = (name: string) =>
    clientOf<{ readonly wakeUps: WakeUpCalls }>(env().PIPELINE.getByName(name));
  return {
    async catalogue() {
      const { address, generation, deleted, version, forking } = newest();
      const { uid, createdAt } = generation;
      if (!deleted) {
        const marker = new TextEncoder().encode(JSON.stringify({ ...address, uid }));
        await openBlobStore(env()).put(markerName(address), marker);
      }
      const catalogue = openCatalogue(env().DB);
      await catalogue.branches.record({ ...address, version, deleted, createdAt, forking });
      await tellTags(catalogue, { ledger, address, generation });
    },
    async setBack() {
      const { address, generation, version } = newest();
      const catalogue = openCatalogue(env().DB);
      const { revision } = ledger.settings.of(generation.gen);
      await catalogue.branches.setBack({ ...address, version });
      await catalogue.settings.setBack({ ...address, version, revision });
      await catalogue.tags.setBack(address, ledger.tags.version);
    },
    async settings() {
      const { address, generation, deleted, version } = newest();
      const { revision, isPublic, cors, writer } = ledger.settings.of(generation.gen);
      const settings = deleted ? NOTHING_SET : { isPublic, hasCors: cors !== null, writer };
      await openCatalogue(env().DB).settings.record({ ...address, version, revision, ...settings });
    },
    async erased() {
      const { erasedContents } = openCatalogue(env().DB);
      for (;;) {
        const told = ledger.erasedContents.first(MAX_ERASED);
        const last = told.at(-1);
        if (!last) return;
        await erasedContents.add(
          told.map(({ content }) => content),
          Date.now(),
        );
        // A crash before this has them told again, which does no harm.
        ledger.transaction(() => ledger.erasedContents.told(last.number));
      }
    },
    async kept({ pipeline, uid }) {
      await pipelineOf(pipeline).wakeUps.outputKept({ uid });
    },
    async parent(fork) {
      const parent = (of: string) => clientOf<BranchApi>(env().BRANCH.getByName(of));
      return await giveSomeBack(ledger, { fork, parent });
    },
    async bell({ pipeline, uid, output }) {
      await pipelineOf(pipeline).wakeUps.ring({ uid, ...(output && { output }) });
    },
  };
}

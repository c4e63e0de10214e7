import { type BranchAddress, parseBucketName } from "../../../protocol/names.ts";
import { MAX_ERASED } from "../../../protocol/runner.ts";
import { branchMarker } from "../../blobs/blob-name.ts";
import { openBlobStore } from "../../blobs/stores.ts";
import { type Catalogue, openCatalogue } from "../../catalogue/catalogue.ts";
import { MAX_TAGS_PER_WRITE } from "../../catalogue/tags.ts";
import { type Env, objectsOf } from "../../env.ts";
import { openFleet } from "../../fleet/door.ts";
import { clientOf } from "../../objects/facets.ts";
import type { Forget, Send } from "../../objects/outbox.ts";
import type { BranchApi } from "../contract/api.ts";
import type { WakeUpCalls } from "../contract/pipelines.ts";
import type { Ledger } from "../ledger/ledger.ts";
import type { BranchReceiver } from "../outbox/outbox-store.ts";
import type { GenerationRow } from "../tree/generation-store.ts";

/*
 * Whom a branch tells what waits in its outbox (outbox/outbox-store.ts). Of these, the parent of a fork needs a story. It keeps bytes
 * of what it erased for as long as a fork has them (a hold of the fork), and learns from the fork alone that it has them no more:
 *
 *  - A content on loan goes at the end of the transaction that released it last, whoever released it, and what is to be given back
 *    is written in the same transaction (ledger/ledger.ts). So nobody ever finds a content on loan that nothing keeps, and the same
 *    bytes, put again, come as the fork's own. A content that is gone never comes back on loan.
 *  - The fork tells the parent of some, and forgets these when the parent has answered.
 *  - The parent drops its hold. If it is a fork itself, and that was the last that kept the content, the same goes on there.
 *
 * Telling twice or late does no harm. A give-back that comes before its hold wins: the fork numbers what it gives back, its
 * answer to an erasure carries the newest number, and the parent asks again if it has heard of a higher one (erase.ts).
 */

/** Most contents that one call gives back. */
const GIVEN_BACK_AT_ONCE = 1000;

/** A deleted branch answers nobody. */
const NOTHING_SET = { isPublic: false, hasCors: false, writer: null };

interface ReceiverOptions {
  readonly ledger: Ledger;
  readonly env: () => Env;
  readonly bucket: () => string;
  readonly pipeline: (name: string) => { readonly wakeUps: WakeUpCalls };
}

export function openReceivers({
  ledger,
  env,
  bucket,
  pipeline,
}: ReceiverOptions): Record<BranchReceiver, Send> {
  return {
    async catalogue() {
      const { address, generation, deleted, version, forking } = newest(ledger, bucket());
      const { uid, createdAt } = generation;
      if (!deleted) await leaveMarker(env(), bucket(), { uid });
      const catalogue = openCatalogue(env().DB);
      const place = ledger.place.get() ?? undefined;
      await catalogue.branches.record({ ...address, version, deleted, createdAt, forking, place });
      await tellTags(catalogue, { ledger, address, generation });
    },
    async settings() {
      const { address, generation, deleted, version } = newest(ledger, bucket());
      const { revision, isPublic, cors, writer } = ledger.settings.of(generation.gen);
      const settings = deleted ? NOTHING_SET : { isPublic, hasCors: cors !== null, writer };
      await openCatalogue(env().DB).settings.record({ ...address, version, revision, ...settings });
    },
    async erased() {
      const erased = ledger.erasedContents.first(MAX_ERASED);
      const names = erased.map(({ content }) => content);
      await openCatalogue(env().DB).erasedContents.add(names, Date.now());
      // Nothing waits for it.
      void openFleet(env()).wake();
      return () => {
        ledger.erasedContents.acknowledged(erased.at(-1)?.number ?? 0);
        return ledger.erasedContents.first(1).length === 0;
      };
    },
    async pipeline(uid) {
      const subscriber = ledger.subscribers.all().find((each) => each.uid === uid);
      const owner = ledger.claim.get();
      if (subscriber) await pipeline(subscriber.pipeline).wakeUps.ring({ uid });
      // The pipeline whose output this is hears of nothing but erasures.
      else if (owner?.uid === uid) await pipeline(owner.pipeline).wakeUps.ring({ uid, output: true });
    },
    async owner(uid) {
      const owner = ledger.claim.get();
      if (owner?.uid === uid) await pipeline(owner.pipeline).wakeUps.outputKept({ uid });
    },
    parent: (fork) =>
      giveSomeBack(ledger, fork, (of) => clientOf<BranchApi>(objectsOf(env(), "BRANCH").getByName(of))),
  };
}

/**
 * Leaves the marker of a branch in the blob store, by which it is found whatever the catalogue knows. It is never removed. `uid`: of the
 * generation that is told of.
 */
export async function leaveMarker(
  env: Env,
  bucket: string,
  generation: { readonly uid?: string } = {},
): Promise<void> {
  const address = parseBucketName(bucket);
  if (!address) throw new Error(`'${bucket}' is no bucket of a branch`);
  const marker = new TextEncoder().encode(JSON.stringify({ ...address, ...generation }));
  await openBlobStore(env).put(branchMarker(address), marker);
}

/** Has the catalogue forget what it was told of a later time, if the object was set back from one. */
export async function setCatalogueBack({ ledger, env, bucket }: ReceiverOptions): Promise<void> {
  const { address, generation, version } = newest(ledger, bucket());
  const catalogue = openCatalogue(env().DB);
  const { revision } = ledger.settings.of(generation.gen);
  await catalogue.branches.setBack({ ...address, version });
  await catalogue.settings.setBack({ ...address, version, revision });
  await catalogue.tags.setBack(address, ledger.tags.version);
}

/** The branch as it is now, or was when it was deleted. */
function newest(ledger: Ledger, bucket: string) {
  const address = parseBucketName(bucket);
  const generation = ledger.generations.newest();
  if (!address || !generation) throw new Error(`there is no branch ${bucket} to tell of`);
  // A fork on its way has a generation that is not open yet.
  const forking = ledger.forks.coming()?.gen === generation.gen;
  const deleted = generation.deletedAt !== null && !forking;
  // Each generation is created and deleted once.
  const version = 2 * generation.gen + (deleted ? 1 : 0);
  return { address, generation, deleted, version, forking };
}

/**
 * Brings the catalogue's copies of the tags up to date. A crash after any write leaves the news here, and it is told
 * again: the versions keep what is newer.
 */
async function tellTags(
  { tags: copies }: Pick<Catalogue, "tags">,
  {
    ledger,
    address,
    generation,
  }: { readonly ledger: Ledger; readonly address: BranchAddress; readonly generation: GenerationRow },
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
    ledger.transaction(() => tags.acknowledged(news), "paths");
  }
}

/** Tells the parent of a fork of some contents that the fork needs no more. */
async function giveSomeBack(
  ledger: Pick<Ledger, "giveBacks" | "generations" | "forks">,
  uid: string,
  parent: (bucket: string) => Pick<BranchApi, "forks">,
): Promise<Forget | undefined> {
  const { giveBacks, generations, forks } = ledger;
  const gen = generations.byUid(uid)?.gen;
  if (gen === undefined) return undefined;
  const some = giveBacks.oldest(gen, GIVEN_BACK_AT_ONCE);
  const last = some.at(-1);
  if (!last) return undefined;
  const fork = forks.get(uid);
  if (fork) {
    const contents = some.map(({ digest, size }) => ({ digest, size }));
    await parent(fork.parent).forks.giveBack({ fork: uid, contents, number: last.number });
  }
  // If the fork is gone, the parent was told that it needs nothing at all.
  return () => {
    giveBacks.heard(gen, last.number);
    return giveBacks.oldest(gen, 1).length === 0;
  };
}

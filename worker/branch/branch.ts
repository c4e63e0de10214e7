import { DurableObject } from "cloudflare:workers";
import { monotonicFactory } from "ulid";
import { openBlobStore, removeUnwanted } from "../blobs/stores.ts";
import { openCatalogue } from "../catalogue/catalogue.ts";
import { type Env, objectsOf, readConfig } from "../env.ts";
import { Engine } from "../objects/engine.ts";
import { answer, clientOf, type Faceted, type Facets } from "../objects/facets.ts";
import { OutboxDispatcher } from "../objects/outbox.ts";
import { yieldToOthers } from "../objects/turns.ts";
import { admin } from "./calls/admin.ts";
import { exports, imports } from "./calls/archives.ts";
import { erasures } from "./calls/erasures.ts";
import type { Reach } from "./calls/facet.ts";
import { feed } from "./calls/feed.ts";
import { files } from "./calls/files.ts";
import { forks } from "./calls/forks.ts";
import { history, tags } from "./calls/history.ts";
import { lifecycle, settings } from "./calls/lifecycle.ts";
import { multipart } from "./calls/multipart.ts";
import { openCommits } from "./calls/open-commits.ts";
import { output } from "./calls/output.ts";
import { uploads } from "./calls/uploads.ts";
import { openPuts } from "./calls/write.ts";
import type { BranchContext } from "./context.ts";
import type { BranchApi } from "./contract/api.ts";
import type { WakeUpCalls } from "./contract/pipelines.ts";
import { Ledger } from "./ledger/ledger.ts";
import { blobReaper } from "./work/blob-reaper.ts";
import { cachePurger } from "./work/cache-purger.ts";
import { forkCheck } from "./work/forks/fork-check.ts";
import { Forker } from "./work/forks/forker.ts";
import { HistoryGc } from "./work/history-gc/history-gc.ts";
import { housekeeping } from "./work/housekeeping.ts";
import { importer } from "./work/importer.ts";
import { applier } from "./work/large-commit/applier.ts";
import { lifecycleScans } from "./work/lifecycle-scan/lifecycle-scans.ts";
import { orphanScan } from "./work/orphan-scan.ts";
import { leaveMarker, openReceivers, setCatalogueBack } from "./work/outbox.ts";
import { sharedUploads } from "./work/shared-uploads.ts";
import { Committer } from "./write/committer.ts";
import { Gate } from "./write/gate.ts";

const FACETS: Facets<BranchApi, Reach> = {
  lifecycle,
  settings,
  files,
  uploads,
  multipart,
  openCommits,
  history,
  tags,
  erasures,
  forks,
  feed,
  output,
  exports,
  imports,
  admin,
};

/** One per branch. Owns the clock, the ids and the alarm; the ledger and its stores own the rules. */
export class Branch extends DurableObject<Env> implements Faceted {
  readonly #reach: Reach;

  constructor(ctx: DurableObjectState, env: Env) {
    super(ctx, env);
    const { storage } = ctx;
    const read = readConfig(env);
    const bucket = () => ledger.bucket(ctx.id.name);
    const ledger = new Ledger(storage, {
      ...(read.ok && { limitBytes: read.config.branchBytes, modified: read.config.lastModified }),
      almostFull: () => ctx.waitUntil(tellAlmostFull(this.env, bucket())),
    });
    if (read.ok && read.config.sharesReads) ledger.shareReads(ctx.id.name);
    // Ids that grow, also within a millisecond.
    const ulid = monotonicFactory();
    const context: BranchContext = {
      ledger,
      now: Date.now,
      moment: () => ({ now: Date.now(), id: (createdAt) => ulid(createdAt) }),
      resting: async (loop) => engine.resting(loop),
      pause: (ms) => scheduler.wait(ms),
      turn: yieldToOthers,
      durable: () => ledger.durable(),
    };
    const branch = (of: string) => clientOf<BranchApi>(objectsOf(this.env, "BRANCH").getByName(of));
    const pipeline = (name: string) =>
      clientOf<{ readonly wakeUps: WakeUpCalls }>(objectsOf(this.env, "PIPELINE").getByName(name));
    const object = () => `branch ${bucket()}`;
    const told = { ledger, env: () => this.env, bucket, pipeline };
    const outbox = new OutboxDispatcher({ ...context, object, receivers: openReceivers(told) });
    const gate = new Gate({ isClosed: () => ledger.exists && ledger.applying.get() !== null });
    const committer = new Committer(context);
    const engine = new Engine({
      object,
      exists: () => ledger.exists,
      now: Date.now,
      storage,
      afterAnswers: true,
      loops: [
        outbox,
        housekeeping(context),
        sharedUploads({ ...context, pipeline }),
        blobReaper({
          ...context,
          remove: (unwanted) => removeUnwanted(this.env, unwanted),
          hasCopies: () => read.ok && read.config.cachesBlobs,
        }),
        cachePurger({ ...context, purge: (tags) => ctx.exports.Blobs.purge(tags) }),
        orphanScan({ ...context, store: () => openBlobStore(this.env), bucket }),
        applier({ ...context, committer, gate }),
        new Forker({ ...context, committer, bucket, branch }),
        forkCheck({ ...context, branch }),
        lifecycleScans({ ...context, committer }),
        new HistoryGc(context),
        importer(context),
      ],
    });
    this.#reach = {
      ...context,
      ...{ engine, outbox, gate, committer, bucket, branch },
      leaveMarker: () => leaveMarker(this.env, bucket()),
      setCatalogueBack: () => setCatalogueBack(told),
      puts: openPuts({ ...context, committer }),
      catalogue: () => openCatalogue(this.env.DB),
      objectName: ctx.id.name,
      ...{ announcing: new Map(), renewed: new Map(), marking: new Set() },
    };
    ledger.listener = (woken) => engine.woken(woken);
    // What a crash cut off goes on with the first call, without waiting for the alarm.
    if (ledger.exists) ctx.waitUntil(engine.resume());
  }

  override async alarm(): Promise<void> {
    await this.#reach.engine.alarm();
  }

  async call(name: string, args: readonly unknown[]): Promise<unknown> {
    return await answer(FACETS, { name, args, reach: this.#reach });
  }
}

/** Nothing depends on it: what gets lost is said again with the next hundredth. */
async function tellAlmostFull({ DB }: Env, bucket: string): Promise<void> {
  try {
    await openCatalogue(DB).almostFull.tell({ kind: "branch", name: bucket, toldAt: Date.now() });
  } catch (error) {
    console.warn(`the catalogue could not be told that ${bucket} is almost full: ${error}`);
  }
}

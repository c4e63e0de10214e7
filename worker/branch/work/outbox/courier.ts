import type { NamedLoop } from "../../../objects/loop.ts";
import type { BranchContext } from "../../context.ts";
import type { Subscriber } from "../../contract/pipelines.ts";
import type { OutboxRow } from "../../outbox/outbox-store.ts";
import type { BranchLoop } from "../../store.ts";

/** Deliveries at the same time. */
const BATCH = 20;

/** Whom the courier delivers to. Each call rejects if the receiver can't be reached. */
export interface Receivers {
  /** Has the catalogue forget what it was told of a later time, if the object was set back from one. */
  setBack(): Promise<void>;
  /** Tells the catalogue how the branch stands now. */
  catalogue(): Promise<void>;
  /** Tells it what the branch is set to now. */
  settings(): Promise<void>;
  /** Tells it which contents were erased, for the caches of nodes. */
  erased(): Promise<void>;
  bell(subscriber: Subscriber & { readonly output?: true }): Promise<void>;
  /** Tells the pipeline that holds the branch that fewer commits are kept. */
  kept(holder: { readonly pipeline: string; readonly uid: string }): Promise<void>;
  /** Tells the parent of a fork of some contents that the fork needs no more. Returns whether that was all. */
  parent(fork: string): Promise<boolean>;
}

interface CourierOptions extends Pick<BranchContext, "ledger" | "now"> {
  readonly receivers: Receivers;
}

/**
 * Carries the news in the outbox to the catalogue and to subscribers: at once, and again later if a receiver could not be
 * reached or a crash came in between. Delivering twice does no harm; a row goes only when it was delivered.
 */
export class Courier implements NamedLoop {
  readonly name = "outbox" satisfies BranchLoop;
  readonly atOnce = true;
  readonly #options: CourierOptions;
  #catalogue: Promise<unknown> = Promise.resolve();

  constructor(options: CourierOptions) {
    this.#options = options;
  }

  due(): number | undefined {
    return this.#options.ledger.outbox.nextDue();
  }

  /** Delivers some of what is due. What fails is due later: this ends. */
  async step(): Promise<boolean> {
    const { ledger, now } = this.#options;
    const rows = ledger.outbox.due(now(), BATCH);
    await this.#deliverBatch(rows);
    return rows.length > 0;
  }

  /**
   * Tells the catalogue now, after what it is being told already. Returns whether it knows all that waited when this was
   * called; news that comes meanwhile has a caller of its own.
   */
  flushCatalogue(): Promise<boolean> {
    const flushed = this.#catalogue.then(async () => {
      const row = this.#pending("catalogue");
      return row ? await this.#deliverOne(row) : true;
    });
    this.#catalogue = flushed.catch(() => {});
    return flushed;
  }

  /** Has the catalogue forget what it was told of a later time. What it is told meanwhile may go with that. Returns false if it can't be reached. */
  async setCatalogueBack(): Promise<boolean> {
    try {
      await this.#options.receivers.setBack();
      return true;
    } catch (error) {
      console.warn(`the catalogue could not be set back: ${error}`);
      return false;
    }
  }

  /** Whether the catalogue is still to be told something of the branch itself. */
  get catalogueWaits(): boolean {
    return this.#pending("catalogue") !== undefined;
  }

  /** Whether a creation, by the uid of the generation, is the newest that the catalogue is still to be told. */
  creationWaits(uid: string): boolean {
    return this.#pending("catalogue")?.event === uid;
  }

  /** Whether the catalogue is still to be told what the branch is set to. */
  get settingsWait(): boolean {
    return this.#pending("settings") !== undefined;
  }

  /**
   * Tells the catalogue now what the branch is set to, and returns whether it knows. If two are told at once, the
   * catalogue keeps the newer one, whichever arrives first.
   */
  async flushSettings(): Promise<boolean> {
    const row = this.#pending("settings");
    return row ? await this.#deliverOne(row) : true;
  }

  #pending(topic: "catalogue" | "settings"): OutboxRow | undefined {
    return this.#options.ledger.outbox.find({ topic, uid: "" });
  }

  async #deliverBatch(rows: readonly OutboxRow[]): Promise<void> {
    await Promise.all(
      rows.map((row) => (row.topic === "catalogue" ? this.flushCatalogue() : this.#deliverOne(row))),
    );
  }

  /** Returns whether it arrived. */
  async #deliverOne(row: OutboxRow): Promise<boolean> {
    const { ledger, receivers, now } = this.#options;
    try {
      const { topic } = row;
      if (topic === "catalogue" || topic === "settings" || topic === "erased") await receivers[topic]();
      else if (topic === "kept") await this.#tellHolder(row);
      // The row stays for the rest: it is due again at once.
      else if (topic === "give-back") {
        if (!(await receivers.parent(row.uid))) return true;
      } else await this.#ring(row);
      ledger.transaction(() => ledger.outbox.delivered(row));
      return true;
    } catch (error) {
      console.warn(`${receiverOf(row)} could not be told and is tried again: ${error}`);
      ledger.transaction(() => ledger.outbox.failed(row, now()));
      return false;
    }
  }

  async #ring(row: OutboxRow): Promise<void> {
    const { ledger, receivers } = this.#options;
    const subscriber = ledger.subscribers.all().find(({ uid }) => uid === row.uid);
    const owner = ledger.claim.get();
    if (subscriber) await receivers.bell(subscriber);
    // The pipeline whose output this is hears of nothing but erasures.
    else if (owner?.uid === row.uid) await receivers.bell({ ...owner, output: true });
  }

  async #tellHolder({ uid }: OutboxRow): Promise<void> {
    const { ledger, receivers } = this.#options;
    const claim = ledger.claim.get();
    if (claim?.uid === uid) await receivers.kept(claim);
  }
}

function receiverOf({ topic, uid }: OutboxRow): string {
  if (topic === "bell" || topic === "kept") return `pipeline ${uid}`;
  return topic === "give-back" ? `the parent of the fork ${uid}` : "the catalogue";
}

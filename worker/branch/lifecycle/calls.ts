import type * as Contract from "../contract.ts";
import { UPLOAD_LEASE_MS } from "../contract.ts";
import type { Ledger } from "../ledger/ledger.ts";
import type { Gate } from "../write/gate.ts";
import type { Courier } from "./courier.ts";
import { Creation } from "./creation.ts";
import { claimBranch, endGeneration, type Moment, releaseBranch } from "./generation.ts";

interface LifecycleCallsOptions {
  readonly ledger: Ledger;
  readonly courier: Courier;
  readonly gate: Gate;
  readonly moment: () => Moment;
  /** Goes on with work when the call is answered. */
  readonly later: (work: Promise<unknown>) => void;
  /** Sees to it that uploads that ran out by this time are ended soon after. */
  readonly wake: (at: number) => void;
}

type Destroyed =
  | Contract.Done
  | Contract.Refused<"no-such-branch" | "pipeline-output" | "catalogue-unavailable">;

/** What a Branch object answers about its coming and going, and whose it is; as of BranchApi. */
export class LifecycleCalls {
  readonly #options: LifecycleCallsOptions;
  readonly #creation: Creation;

  constructor(options: LifecycleCallsOptions) {
    this.#options = options;
    this.#creation = new Creation(options.ledger, options.courier);
  }

  /** There must be tables. */
  create(): Promise<Contract.Made | Contract.Refused<"already-exists" | "catalogue-unavailable">> {
    return this.#creation.create(this.#options.moment());
  }

  destroy(): Promise<Destroyed | Contract.Refused<"busy">> {
    return this.#options.gate.pass(() => this.#destroy());
  }

  /** There must be tables. */
  async claim(owner: {
    pipeline: string;
    uid: string;
  }): Promise<
    | { ok: true; epoch: number }
    | Contract.Refused<"already-claimed" | "already-exists" | "catalogue-unavailable">
  > {
    const { ledger, courier, moment } = this.#options;
    const claimed = ledger.transaction(() => claimBranch(ledger, { ...owner, moment: moment() }));
    if (!claimed.ok || !courier.catalogueWaits) return claimed;
    courier.watch();
    return (await courier.flushCatalogue()) ? claimed : { ok: false, reason: "catalogue-unavailable" };
  }

  /** Throws where a large commit took too long to wait for: to be done again. */
  async release(request: { uid: string; destroy: boolean }): Promise<void> {
    if (!request.destroy) return await this.#release(request);
    const busy = await this.#options.gate.pass(() => this.#release(request));
    if (busy) throw new Error("a large commit is being applied; the branch can't be deleted yet");
  }

  async #destroy(): Promise<Destroyed> {
    const { ledger, moment } = this.#options;
    const { live } = ledger;
    if (!live) return { ok: false, reason: "no-such-branch" };
    if (ledger.writer.get()) return { ok: false, reason: "pipeline-output" };
    ledger.transaction(() => endGeneration(ledger, { live, moment: moment() }));
    return (await this.#announceDeletion()) ? { ok: true } : { ok: false, reason: "catalogue-unavailable" };
  }

  async #release({ uid, destroy }: { uid: string; destroy: boolean }): Promise<void> {
    const { ledger, wake } = this.#options;
    if (!ledger.exists || ledger.writer.get()?.uid !== uid) return;
    const { live } = ledger;
    const moment = this.#options.moment();
    ledger.transaction(() => {
      releaseBranch(ledger, moment);
      if (destroy && live) endGeneration(ledger, { live, moment });
    });
    wake(moment.now + UPLOAD_LEASE_MS);
    if (destroy && live) await this.#announceDeletion();
  }

  /** The catalogue first: a caller waits for it. */
  async #announceDeletion(): Promise<boolean> {
    const { courier, later } = this.#options;
    courier.watch();
    const announced = courier.flushCatalogue();
    later(announced.then(() => courier.dispatch()));
    return await announced;
  }
}

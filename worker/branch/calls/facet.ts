import { MAX_LIST_ENTRIES } from "../../../protocol/files.ts";
import { UnwrittenBlobError } from "../../blobs/port.ts";
import type { Catalogue } from "../../catalogue/catalogue.ts";
import type { CatalogueFault } from "../../core/catalogue-fault.ts";
import type { Place } from "../../core/places.ts";
import type { Engine } from "../../objects/engine.ts";
import type { Facet } from "../../objects/facets.ts";
import { mustNotBeNobody } from "../../objects/made-objects.ts";
import type { OutboxDispatcher } from "../../objects/outbox.ts";
import type { BranchContext } from "../context.ts";
import { type Refused, refused } from "../contract/answers.ts";
import type { CommitRefused, Committed, PutFile } from "../contract/files.ts";
import type { Ledger } from "../ledger/ledger.ts";
import type { BranchReceiver } from "../outbox/outbox-store.ts";
import type { Committer } from "../write/committer.ts";
import type { RootContext } from "../write/fork.ts";
import type { Gate } from "../write/gate.ts";
import type { PutQueue } from "../write/put-queue.ts";

export type PutAnswer = Committed | CommitRefused | Refused<"wait">;
/** The puts that wait together, which share a transaction. */
export type Puts = PutQueue<PutFile, PutAnswer>;

/** What every call of a Branch object can reach. */
export interface Reach extends BranchContext, RootContext {
  readonly catalogue: () => Catalogue;
  readonly engine: Engine;
  readonly outbox: OutboxDispatcher<BranchReceiver>;
  /** Leaves the branch's marker in the blob store. */
  readonly leaveMarker: () => Promise<void>;
  /** Markers that are being left by calls which go on when they are there. */
  readonly marking: Set<Promise<void>>;
  /** Has the catalogue forget what it was told of a later time, if the object was set back from one. */
  readonly setCatalogueBack: () => Promise<void>;
  readonly gate: Gate;
  readonly committer: Committer;
  readonly puts: Puts;
  /** What the object was found by. */
  readonly objectName: string | undefined;
  /** By the uid of a generation: the announcement that its creator waits for now. */
  readonly announcing: Map<string, Promise<boolean>>;
  /** When exports were last renewed by this instance, by their ids. */
  readonly renewed: Map<string, number>;
}

/** The calls of one subject (objects/facets.ts), typed by the contract. */
export type BranchFacet<Calls> = Facet<Calls, Reach>;

/**
 * For a call that makes the object: there must be tables. `place`: where it is, if this call is the first one that it keeps anything of.
 *
 * Its marker first, then its first row: a gateway that does not know the bucket looks for the marker (worker/app.ts), and must not
 * find it missing while others have it. So it is written until a generation has begun, which leaves it anew. A crash in between
 * leaves a marker alone: then the object is asked, and says that there is no branch. Resolves with the error that kept the marker
 * from being written; then nothing is made.
 */
export async function makeTables(
  { ledger, objectName, bucket, leaveMarker, marking }: Reach,
  place: Place | null = null,
): Promise<unknown> {
  mustNotBeNobody(objectName);
  if (!ledger.exists || !ledger.generations.newest()) {
    const left = leaveMarker().finally(() => marking.delete(left));
    marking.add(left);
    try {
      await left;
    } catch (error) {
      if (error instanceof UnwrittenBlobError && error.isDiskFull) throw error;
      console.warn(`the marker of the branch ${bucket()} could not be left:`, error);
      return error;
    }
  }
  const isNew = !ledger.exists;
  ledger.makeTables();
  if (isNew && place) ledger.place.set(place);
  bucket();
  return undefined;
}

/**
 * For a call that takes back what another one takes: that one may have come before, from a caller that is gone, and wait for the
 * marker. It must not take afterwards what nobody gives back any more.
 */
export async function afterMarkers({ marking, turn }: Reach): Promise<void> {
  while (marking.size > 0) {
    await Promise.allSettled(marking);
    await turn();
  }
}

/** For a call that makes a branch. Nothing is made, not even tables, if the catalogue could not be told of it. */
export async function prepare(reach: Reach, place?: Place | null): Promise<CatalogueFault | undefined> {
  const fault = reach.ledger.live ? undefined : await reach.catalogue().fault();
  if (fault) return fault;
  return (await makeTables(reach, place)) === undefined ? undefined : "catalogue-unavailable";
}

/** What is said if no generation lives. A fork whose rows are on their way is not there for anybody: it is soon. */
export function absent({ exists, live, forks }: Ledger): Refused<"no-such-branch" | "forking"> {
  return refused(exists && !live && forks.coming() ? "forking" : "no-such-branch");
}

/** An answer. Says `forking` instead of that there is no branch, or no view of one, while a fork is being made. */
export function told<A extends { readonly ok: true } | Refused<string>>(
  ledger: Ledger,
  answer: A,
): A | Refused<"forking"> {
  if (answer.ok || (answer.reason !== "no-such-branch" && answer.reason !== "no-such-open-commit")) {
    return answer;
  }
  return absent(ledger).reason === "forking" ? refused("forking") : answer;
}

/** A new upload's id. */
export function uploadId({ bucket, moment }: Reach, now: number): string {
  return `${bucket()}.${moment().id(now)}`;
}

/** As much as one answer holds. */
export function bounded<R extends { readonly limit: number }>(request: R): R {
  return { ...request, limit: Math.min(request.limit, MAX_LIST_ENTRIES) };
}

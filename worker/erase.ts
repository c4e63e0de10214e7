/*
 * An erasure takes a version of a file out of the history for good, and its bytes if nothing else has them. It goes through
 * the gateway, the branch, its forks, the pipelines and the nodes, in this order. In brackets: what a step writes down.
 *
 *  1. The gateway asks the branch to erase (s3/objects/delete-objects.ts, api/commits/erasures.ts). If forks were made from a
 *     commit that has a version, the branch says which, and changes nothing.
 *  2. The gateway asks each of these forks for its copies (branch/erasures/copies.ts), and erases them there by the same
 *     steps, if the caller asked for that and may. Otherwise nothing is erased, or those versions are left out. It asks the
 *     fork again: now it says only which of the bytes it has at other paths.
 *  3. The gateway asks the branch once more, with the answers of the forks. One transaction (branch/erasures/erase.ts) takes
 *     the rows of the versions out, has HEAD go back to the version before by a commit, and writes down what follows from it
 *     [files; holds for forks that have the bytes elsewhere; erasures, erased_contents: for pipelines and nodes; outbox;
 *     the debt of a rewrite]. The caller has the answer. From here on nobody reads the version.
 *  4. The outbox of the branch (branch/work/outbox.ts) wakes the pipelines that read the branch or write to it, and tells the
 *     catalogue. From there each node learns by its next heartbeat what its cache must not have.
 *  5. A pipeline that reads the branch asks it what was erased (pipeline/work/inputs/erased.ts). It kills jobs that read it
 *     and have not ended, and makes one for where the inputs are [erasures_heard, erased_paths, jobs].
 *  6. The pipeline that writes to the branch takes the version out of its results, so that no later output has it again
 *     (pipeline/work/trim/uploads.ts), and then lets go of the uploads that kept the bytes [erased_outputs].
 *  7. To ask for the next ones is to acknowledge: a row of `erasures` goes when all have heard of it, and news in the feed
 *     when all have read it (branch/erasures/news.ts). Only then the path is named nowhere.
 *  8. The blob reaper deletes bytes that nothing keeps, after the grace for readers (branch/contents/content-store.ts). A
 *     fork that needs bytes no more tells its parent (branch/work/outbox.ts), whose hold ends then. If
 *     it never does, the parent asks (branch/work/forks/fork-check.ts). Copies of the blobs in caches near readers are forgotten then, and
 *     once more ten minutes later [cache_purges] (branch/work/cache-purger.ts).
 *  9. Each object that owes it is written anew, so that its file has no remains of the names (objects/rewrite.ts).
 *
 * Who wins:
 *  - A fork that is made between 2 and 3: the fork. The branch finds it in the transaction and it is asked, too.
 *  - A fork that returns bytes between 2 and 3: its return. Returns have numbers; if the branch has heard of a later one than
 *    the answer knew, the fork is asked again. After `ROUNDS` of these the answer is that the branch is busy.
 *  - A fork whose rows are still being copied: the copy. The erasure is refused until it is complete.
 *  - A crash between 2 and 3: the branch is as it was, and some forks have no copies any more. Who asks again goes on.
 *  - Two erasures of one version: the first. The second finds nothing, and changes nothing.
 *  - The same bytes are put at another path: the put. Only the version goes, and the answer says what has its bytes.
 *  - A deletion that comes after all versions of a path were listed, and before 3: the erasure, which takes it, too. What is
 *    written then stays.
 *  - A large commit under way: the commit. The erasure waits until it is applied, like any write.
 *  - A reader who has the version's blobs already: the reader, until the grace is over.
 *  - An export under way: the erasure. The export ends, and begins again without the version.
 *  - A job that may have committed its output: the job, which comes to its end. The answer names the outputs that were made
 *    from the version. A job that has not: the erasure.
 *  - News that come while a pipeline acts on earlier ones: both. It counts how often it was told, and rests only if it has
 *    acted on as many.
 *  - A read that fills a cache near the reader while the blob is deleted: the second purge.
 *  - A fetch of a node that began before the node heard: the erasure. What it brings is not kept in the cache.
 */

import { type ContentId, contentName } from "../protocol/content.ts";
import { type BranchAddress, parseBucketName } from "../protocol/names.ts";
import type { Annotation, AnswerOf } from "./branch/contract/answers.ts";
import type { EraseVersions, ErasureCalls, VersionName } from "./branch/contract/erasures.ts";
import type { Operation } from "./branch/contract/files.ts";
import type { ForkCalls } from "./branch/contract/forks.ts";

/** How often a branch is asked again, since another fork was made of it meanwhile, or one gave something back. */
const ROUNDS = 10;

export interface Erasing {
  readonly address: BranchAddress;
  readonly versions: readonly VersionName[];
  /** The deletion of a version that goes is erased, too; in the branch itself, not in its forks. */
  readonly withDeletions?: boolean;
  readonly deletions?: readonly Operation[];
  readonly annotation?: Annotation;
  /**
   * What is done with forks that have a copy of a version: nothing is erased, those versions are left out and the rest goes,
   * or it is erased in them first, if the caller may do that in their repo.
   */
  readonly forks: "refuse" | "leave-out" | { readonly mayErase: (repo: string) => boolean };
  /** Of the generation of this uid; absent: the live one. */
  readonly uid?: string;
}

type Erased = Extract<AnswerOf<ErasureCalls["erase"]>, { ok: true }>;
type Refusal = Exclude<AnswerOf<ErasureCalls["erase"]>, { ok: true } | { reason: "held-by-forks" }>;

/** A fork that has a copy, of these paths. */
export interface HoldingFork {
  readonly bucket: string;
  readonly paths: readonly string[];
}

/** What was erased in a fork. */
interface ErasedInFork extends Pick<Erased, "commit" | "erased"> {
  readonly bucket: string;
}

export interface ErasedThrough extends Erased {
  readonly forks: readonly ErasedInFork[];
  /** Forks that have bytes of what was erased at other paths: the branch keeps them for those. */
  readonly onLoanTo: readonly (ContentId & { readonly bucket: string })[];
  /** Left out, since these forks have copies. */
  readonly held: readonly HoldingFork[];
}

export type EraseOutcome =
  | ErasedThrough
  | Refusal
  | { readonly ok: false; readonly reason: "held"; readonly forks: readonly HoldingFork[] }
  /** The caller may not erase in the repo of a fork. */
  | { readonly ok: false; readonly reason: "fork-denied"; readonly bucket: string; readonly repo: string };

type Branches = (address: BranchAddress) => {
  readonly erasures: Pick<ErasureCalls, "erase">;
  readonly forks: Pick<ForkCalls, "copies">;
};

/**
 * Erases versions of a branch: steps 1 to 3. The forks come first, and theirs before them: each is a step of its own, so that
 * at no moment a fork names bytes that its parent gives up.
 */
export async function eraseThroughForks(branches: Branches, erasing: Erasing): Promise<EraseOutcome> {
  const { address, withDeletions = false, deletions, annotation, uid } = erasing;
  const asking = new Asking(branches, erasing);
  for (let round = 0; round < ROUNDS; round++) {
    const { versions } = asking;
    const request = {
      versions,
      withDeletions,
      forks: asking.cleared,
      ...(deletions && { deletions }),
      ...(annotation && { annotation }),
    };
    const answer = await branches(address).erasures.erase({ ...request, ...(uid !== undefined && { uid }) });
    if (answer.ok) return { ...answer, ...asking.outcome(answer.erased) };
    if (answer.reason !== "held-by-forks") return answer;
    const refused = await asking.askAll(answer.forks);
    if (refused) return refused;
  }
  return { ok: false, reason: "busy" };
}

type Roots = Extract<AnswerOf<ErasureCalls["erase"]>, { reason: "held-by-forks" }>["forks"];
type Root = Roots[number];
type Copies = Extract<AnswerOf<ForkCalls["copies"]>, { ok: true }>;
interface Answered extends Pick<Copies, "has" | "number"> {
  readonly bucket: string;
}

/** Asks the forks of a branch what they have of it, and erases that in them if it is to go there too. */
class Asking {
  /** Those that are still to be erased. */
  versions: readonly VersionName[];
  readonly #branches: Branches;
  readonly #erasing: Erasing;
  readonly #forks: ErasedInFork[] = [];
  readonly #held: HoldingFork[] = [];
  /** What each fork, by its uid, has answered last of what it has. */
  readonly #answers = new Map<string, Answered>();

  constructor(branches: Branches, erasing: Erasing) {
    this.#branches = branches;
    this.#erasing = erasing;
    this.versions = erasing.versions;
  }

  /** Returns why nothing is to be erased. */
  async askAll(forks: Roots): Promise<Exclude<EraseOutcome, { ok: true }> | undefined> {
    const holding: HoldingFork[] = [];
    for (const root of forks) {
      const copies = await this.#ask(root);
      if ("reason" in copies) return copies;
      if (copies.versions.length > 0) {
        holding.push({ bucket: root.bucket, paths: copies.versions.map(({ path }) => path) });
        continue;
      }
      const { has, number } = copies;
      this.#answers.set(root.fork, { bucket: root.bucket, has, ...(number !== undefined && { number }) });
    }
    if (holding.length > 0 && this.#erasing.forks === "refuse") {
      return { ok: false, reason: "held", forks: holding };
    }
    this.#held.push(...holding);
    const kept = new Set(holding.flatMap(({ paths }) => paths));
    this.versions = this.versions.filter(({ path }) => !kept.has(path));
    return undefined;
  }

  get cleared(): NonNullable<EraseVersions["forks"]> {
    return [...this.#answers].map(([fork, { bucket: _, ...answer }]) => ({ fork, ...answer }));
  }

  outcome(erased: Erased["erased"]): Pick<ErasedThrough, "forks" | "held" | "onLoanTo"> {
    const names = new Set(erased.flatMap((one) => (one.kind === "version" ? [contentName(one)] : [])));
    const onLoanTo = [...this.#answers.values()].flatMap(({ bucket, has }) =>
      has.filter((content) => names.has(contentName(content))).map((content) => ({ ...content, bucket })),
    );
    return { forks: this.#forks, held: this.#held, onLoanTo };
  }

  /** What a fork has, after its copies were erased if they are to be. */
  async #ask(root: Root): Promise<Copies | Exclude<EraseOutcome, { ok: true }>> {
    const { fork, bucket, paths, contents, given } = root;
    const { forks, annotation } = this.#erasing;
    const address = addressOf(bucket);
    const ask = () => this.#branches(address).forks.copies({ fork, paths, contents, given });
    const copies = await ask();
    if (!copies.ok || copies.versions.length === 0 || typeof forks === "string") return copies;
    const { repo } = address;
    if (!forks.mayErase(repo)) return { ok: false, reason: "fork-denied", bucket, repo };
    const copied = {
      address,
      versions: copies.versions,
      uid: fork,
      forks,
      ...(annotation && { annotation }),
    };
    const done = await eraseThroughForks(this.#branches, copied);
    if (!done.ok) return done;
    this.#forks.push(...done.forks, { bucket, commit: done.commit, erased: done.erased });
    return await ask();
  }
}

function addressOf(bucket: string): BranchAddress {
  const address = parseBucketName(bucket);
  if (!address) throw new Error(`a branch has a bucket that is none: ${bucket}`);
  return address;
}

/** Most forks that a sentence names. */
const MAX_NAMED = 5;

/** Why forks keep versions from being erased, in words. It names those alone that the caller may know. */
export function heldText(forks: readonly HoldingFork[], mayRead: (repo: string) => boolean): string {
  const known = forks.filter(({ bucket }) => mayRead(parseBucketName(bucket)?.repo ?? ""));
  const named = known.slice(0, MAX_NAMED).map(({ bucket }) => `s3://${bucket}`);
  const left = forks.length - named.length;
  const which = [...named, ...(left > 0 ? [`${left} ${named.length > 0 ? "more" : "in other repos"}`] : [])];
  return `Branches that were made from this one have a copy: ${which.join(", ")}. 'sluice file erase --forks' erases it in them, too.`;
}

/** The same of one path. */
export function heldAt(forks: readonly HoldingFork[], path: string): readonly HoldingFork[] {
  return forks.filter(({ paths }) => paths.includes(path));
}

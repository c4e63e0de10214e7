import { contentName } from "../../../protocol/content.ts";
import {
  type ByteHolder,
  type ComputedFile,
  EraseFile,
  type FileErased,
  MAX_ERASED_VERSIONS,
} from "../../../protocol/files.ts";
import { type BranchAddress, bucketName, parseBucketName } from "../../../protocol/names.ts";
import { pathFault } from "../../../protocol/paths.ts";
import type { BranchApi } from "../../branch/contract/api.ts";
import type { ErasedVersion, FileSpans, VersionName } from "../../branch/contract/erasures.ts";
import type { Subscriber } from "../../branch/contract/pipelines.ts";
import { permits } from "../../core/permissions.ts";
import { type ErasedThrough, type EraseOutcome, eraseThroughForks, heldText } from "../../erase.ts";
import type { ComputedOutput } from "../../pipeline/contract.ts";
import { type ApiError, apiError } from "../answer/errors.ts";
import { accepted, branchError } from "../answer/failures.ts";
import { type ApiRequest, annotationOf, branchInPath, readJson } from "../request/api-request.ts";

/** Versions in one step, and in one page of a listing. */
const STEP = 1000;
/** Most holders, and most outputs, that one answer names. */
const NAMED = 1000;
/** Pages that are looked at for outputs of one pipeline. */
const PAGES = 500;

/**
 * `POST /repos/{repo}/branches/{branch}/erasures`: erases one version of a path for good, or all of them. The oldest go first,
 * so that HEAD goes back once. All versions are those that are there when it begins, and their deletions, also later ones. Says what has the same bytes, and what was computed from them.
 */
export async function eraseFile(asked: ApiRequest): Promise<Response> {
  const { address, branch } = branchInPath(asked);
  const { path, version, allVersions = false, forks = false, ...said } = await readJson(asked, EraseFile);
  const fault = pathFault(path);
  if (fault !== undefined) throw branchError({ ok: false, reason: "bad-path", path, fault }, address);
  if (version !== undefined && allVersions) {
    throw apiError.InvalidRequest("version and allVersions are both given: leave one of them out.");
  }
  const found = await versionsOf({ address, branch }, { path, version, allVersions });
  // Asked before anything is erased: if the catalogue can't be reached, the caller tries again, and then hears of all.
  const readers = await readersByBucket(asked);
  const { scope } = asked.caller;
  const mayErase = (repo: string) => permits(scope, { permission: "admin", repo });
  const mayRead = (repo: string) => permits(scope, { permission: "read", repo });
  const steps: ErasedThrough[] = [];
  const { versions } = found;
  // They come newest first.
  for (let end = versions.length; end > 0; end -= STEP) {
    const some = versions.slice(Math.max(0, end - STEP), end);
    const done = await eraseThroughForks(asked.context.branch, {
      address,
      versions: some,
      withDeletions: allVersions,
      annotation: annotationOf(asked, said),
      forks: forks ? { mayErase } : "refuse",
    });
    if (!done.ok) throw eraseError(done, { address, mayRead });
    steps.push(done);
  }
  const erased = steps.flatMap((step) => step.erased);
  if (version !== undefined && erased.length === 0) {
    throw apiError.NoSuchCommit(
      `The path '${path}' has no version '${version}' in '${bucketName(address)}': a version is named by the commit that wrote or deleted it ('aws s3api list-object-versions' shows them).`,
    );
  }
  const answer: FileErased = {
    path,
    erased: erased.map(shownVersion),
    commit: steps.at(-1)?.commit ?? null,
    forks: steps.flatMap((step) =>
      step.forks.map((fork) => ({ ...fork, erased: fork.erased.map(shownVersion) })),
    ),
    stays: await holdersOf({ address, branch, mayRead }, steps),
    outputs: await outputsOf(asked, { address, steps, readers, mayRead }),
    more: found.more,
  };
  return Response.json(answer);
}

/** The newest first. */
async function versionsOf(
  { address, branch }: { address: BranchAddress; branch: BranchApi },
  { path, version, allVersions }: { path: string; version: string | undefined; allVersions: boolean },
): Promise<{ versions: readonly VersionName[]; more: boolean }> {
  if (version !== undefined) return { versions: [{ path, version }], more: false };
  const versions: VersionName[] = [];
  const limit = allVersions ? STEP : 1;
  for (let last: string | undefined; ; ) {
    const after = last === undefined ? undefined : { path, version: last };
    const page = accepted(
      await branch.files.versions({ prefix: path, limit, ...(after && { after }) }),
      address,
    );
    // The path itself comes before all others that begin with it.
    const own = page.entries.flatMap((entry) =>
      entry.kind !== "prefix" && entry.path === path ? [{ path, version: entry.version }] : [],
    );
    versions.push(...own);
    last = own.at(-1)?.version;
    const isAll = own.length < page.entries.length || page.next === null || last === undefined;
    if (isAll || !allVersions) {
      if (versions.length === 0)
        throw apiError.NotFound(`The branch '${bucketName(address)}' has no version of '${path}'.`);
      return { versions, more: false };
    }
    if (versions.length >= MAX_ERASED_VERSIONS) return { versions, more: true };
  }
}

/** Whether the caller may know of what a repo has. */
type MayRead = (repo: string) => boolean;

function eraseError(
  refused: Exclude<EraseOutcome, { ok: true }>,
  { address, mayRead }: { address: BranchAddress; mayRead: MayRead },
): ApiError {
  if (refused.reason === "held") return apiError.HeldByFork(heldText(refused.forks, mayRead));
  if (refused.reason === "fork-denied") {
    const { bucket, repo } = refused;
    const where = mayRead(repo) ? `The branch '${bucket}'` : "A branch in another repo";
    return apiError.AccessDenied(
      `${where} has a copy, and the access key may not erase there: use a key with the level admin there, too.`,
    );
  }
  return branchError(refused, address);
}

function shownVersion({ version, kind }: ErasedVersion): FileErased["erased"][number] {
  return { version, kind };
}

/** What has bytes that were erased: in the branch itself, and forks at other paths. */
async function holdersOf(
  { address, branch, mayRead }: { address: BranchAddress; branch: BranchApi; mayRead: MayRead },
  steps: readonly ErasedThrough[],
): Promise<ByteHolder[]> {
  const bucket = bucketName(address);
  const contents = new Map(
    steps
      .flatMap((step) => step.erased)
      .flatMap((one) => (one.kind === "version" && one.stays ? [[contentName(one), one] as const] : [])),
  );
  const forks = new Set(steps.flatMap(({ onLoanTo }) => onLoanTo.map((fork) => fork.bucket)));
  const known = [...forks].filter((name) => mayRead(parseBucketName(name)?.repo ?? ""));
  const holders: ByteHolder[] = known.map((name) => ({ kind: "fork", bucket: name, path: null, id: null }));
  let after: string | undefined;
  while (contents.size > 0 && holders.length < NAMED) {
    const asked = [...contents.values()].map(({ digest, size }) => ({ digest, size }));
    const page = await branch.erasures.holders({ contents: asked, ...(after !== undefined && { after }) });
    if (!page.ok) break;
    for (const holder of page.holders) {
      const id =
        holder.kind === "version"
          ? holder.version
          : holder.kind === "upload"
            ? holder.upload
            : holder.openCommit;
      holders.push({ kind: holder.kind, bucket, path: holder.path, id });
    }
    if (page.next === null) break;
    after = page.next;
  }
  return holders.slice(0, NAMED);
}

/** Files of one branch, and the pipelines that follow it. */
interface Sources {
  readonly address: BranchAddress;
  readonly files: readonly FileSpans[];
  readonly followers: readonly Pick<Subscriber, "pipeline">[];
}

/** By bucket, the names of the pipelines that read it. */
type Readers = ReadonlyMap<string, readonly string[]>;

/** A pipeline that is stopped follows no branch, and yet what it computed is there: the catalogue knows what it reads. */
async function readersByBucket({ context }: Pick<ApiRequest, "context">): Promise<Readers> {
  const readers = new Map<string, string[]>();
  for (const { name, inputs } of await context.catalogue.pipelines.list()) {
    for (const bucket of inputs.map(bucketName)) readers.set(bucket, [...(readers.get(bucket) ?? []), name]);
  }
  return readers;
}

interface Erased {
  readonly address: BranchAddress;
  readonly steps: readonly ErasedThrough[];
  readonly readers: Readers;
  readonly mayRead: MayRead;
}

/**
 * By the lineage that pipelines keep: what those that read the branch, or a fork whose copy went too, made of it, what others
 * made of that, and so on. The first of them, the nearest ones first.
 */
async function outputsOf(
  { context }: Pick<ApiRequest, "context">,
  { address, steps, readers, mayRead }: Erased,
): Promise<ComputedFile[]> {
  const found = new Map<string, ComputedFile>();
  const erased: Sources = {
    address,
    files: steps.flatMap((step) => spansOf(step.erased)),
    followers: steps.flatMap((step) => step.readers),
  };
  const copies = steps.flatMap(({ forks }) =>
    forks.flatMap((fork): Sources[] => {
      const forked = parseBucketName(fork.bucket);
      return forked ? [{ address: forked, files: spansOf(fork.erased), followers: [] }] : [];
    }),
  );
  for (let sources = [erased, ...copies]; sources.length > 0 && found.size < NAMED; ) {
    const fresh: ComputedOutput[] = [];
    for (const each of sources) {
      for await (const output of computedFrom({ context }, { sources: each, readers, mayRead })) {
        const { path, job, commit } = output;
        const file = { bucket: bucketName(output), path, job, commit };
        const name = JSON.stringify([file.bucket, path, job]);
        if (found.has(name) || found.size >= NAMED) continue;
        found.set(name, file);
        fresh.push(output);
      }
    }
    sources = await sourcesOf({ context }, fresh);
  }
  return [...found.values()];
}

async function* computedFrom(
  { context }: Pick<ApiRequest, "context">,
  {
    sources: { address, files, followers },
    readers,
    mayRead,
  }: { sources: Sources; readers: Readers; mayRead: MayRead },
): AsyncGenerator<ComputedOutput> {
  if (files.length === 0) return;
  const known = readers.get(bucketName(address)) ?? [];
  for (const name of new Set([...followers.map(({ pipeline }) => pipeline), ...known])) {
    // Its output is in the repo of its name.
    if (!mayRead(name)) continue;
    const { repo, branch } = address;
    let after: string | undefined;
    for (let page = 0; page < PAGES; page++) {
      const made = await context
        .pipeline(name)
        .lineage.outputsOf({ repo, branch, files, ...(after !== undefined && { after }) });
      yield* made.outputs;
      if (made.next === null) break;
      after = made.next;
    }
  }
}

/** What outputs are to pipelines that read them in turn: by their branches, since which commit until which they are there. */
async function sourcesOf(
  { context }: Pick<ApiRequest, "context">,
  outputs: readonly ComputedOutput[],
): Promise<Sources[]> {
  const branches = Map.groupBy(outputs, bucketName);
  const sources = [...branches.values()].map(async (made): Promise<Sources[]> => {
    const [first] = made;
    if (!first) return [];
    const address = { repo: first.repo, branch: first.branch };
    const versions = made.flatMap(({ path, commit }) => (commit === null ? [] : [{ path, version: commit }]));
    const { files, readers: followers } = await context.branch(address).erasures.spans({ versions });
    return [{ address, files, followers }];
  });
  return (await Promise.all(sources)).flat();
}

/** The commits that had what was erased. */
function spansOf(erased: ErasedThrough["erased"]): FileSpans[] {
  return erased
    .filter((one) => one.kind === "version")
    .map(({ path, generation, spans }) => ({ path, generation, spans }));
}

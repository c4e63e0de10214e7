import { chunkOfBlob, parseBlobName } from "../../../worker/blobs/blob-name.ts";
import type { Body, Chunk } from "../../../worker/blobs/content.ts";
import type { AnswerOf, RequestOf } from "../../../worker/branch/contract/answers.ts";
import type { BranchApi } from "../../../worker/branch/contract/api.ts";
import type { FileCalls } from "../../../worker/branch/contract/files.ts";
import { digestOf } from "./bytes.ts";
import { shownFacts } from "./facts.ts";
import { shownTree } from "./model.ts";
import { ALL, wholeListing } from "./pages.ts";
import { BUCKETS, type Erased, type Stage } from "./stage.ts";
import type { Tree } from "./states.ts";

type VersionPage = AnswerOf<FileCalls["versions"]>;
type VersionMark = RequestOf<FileCalls["versions"]>["after"];

/*
 * What is looked at when a history has ended and nothing goes wrong any more.
 */

/** What is wrong with what the branches show: commits that are not what they were, lost bytes, erased versions. */
export async function shownFaults(stage: Stage): Promise<string[]> {
  const faults: string[] = [];
  for (const bucket of BUCKETS) {
    const branch = stage.branch(bucket);
    const log = await branch.history.list({ limit: 1000 });
    if (log.ok) {
      for (const { id } of log.commits)
        faults.push(...(await commitFaults(stage, branch, { bucket, commit: id })));
      faults.push(...(await erasedFaults(stage, branch, bucket)));
    } else if (log.reason !== "no-such-branch") faults.push(`${bucket} answers ${log.reason}`);
    const isThere = stage.observers.get(bucket)?.last.generation !== null;
    if (log.ok !== isThere)
      faults.push(`${bucket} is ${isThere ? "" : "not "}there on its disk, and answers otherwise`);
  }
  return faults;
}

/** A commit that is shown has what it had when it was made, byte for byte, but for what was erased. */
async function commitFaults(
  stage: Stage,
  branch: BranchApi,
  { bucket, commit }: { bucket: string; commit: string },
): Promise<string[]> {
  const made = stage.observers.get(bucket)?.states.find((state) => state.commit === commit);
  if (!made) return [`${bucket} has a commit ${commit} that was never made`];
  const page = await wholeListing((from) => branch.files.list({ ...ALL, ...from, commit }));
  if (!page.ok) return [`${bucket} has no commit ${commit}: ${page.reason}`];
  const tree: Tree = new Map(
    page.entries.flatMap(({ path, digest }) => (digest === undefined ? [] : [[path, digest]])),
  );
  const faults: string[] = [];
  if (!stage.isButErased(made.tree, tree))
    faults.push(`${bucket} has ${shownTree(tree)} at ${commit}, which was made with ${shownTree(made.tree)}`);
  for (const [path, digest] of tree) {
    const text = await textOf(stage, branch, { path, commit });
    if (text !== stage.texts.get(digest))
      faults.push(`${bucket} has lost the bytes of ${path} at ${commit}: ${text ?? "nothing"}`);
  }
  return faults;
}

/** The bytes of a file, by the blobs that are in the store. */
async function textOf(
  stage: Stage,
  branch: BranchApi,
  request: { path: string; commit: string },
): Promise<string | undefined> {
  const read = await branch.files.read(request);
  return read.ok ? textOfBody(stage, read.body) : undefined;
}

/** The bytes of a content, by the blobs that are in the store. */
export function textOfBody(stage: Stage, body: Body): string {
  const { blobs } = stage.simulation.blobs;
  const textAt = (blob: string, offset: number, length: number) =>
    new TextDecoder().decode(blobs.get(blob)?.subarray(offset, offset + length));
  const joined = (chunks: readonly Chunk[]) =>
    chunks.map(({ blob, offset, length }) => textAt(blob, offset, length)).join("");
  switch (body.kind) {
    case "inline":
      return new TextDecoder().decode(body.bytes);
    case "chunks":
      return joined(body.chunks);
    case "manifest": {
      const listed = <T>(list: { blob: string; length: number }): T[] =>
        JSON.parse(textAt(list.blob, 0, list.length) || "[]");
      return listed<{ blob: string; length: number }>(body)
        .map((page) => joined(listed<Chunk>(page)))
        .join("");
    }
  }
}

/** How long copies may stay of what is gone, since they are purged twice; milliseconds. */
export const COPIES_MS = 20 * 60_000;

const GENERATION = "SELECT gen, deletedAt FROM generations WHERE uid = ?";

/** Copies that caches near readers still have of what was erased, and of blobs of branches that were deleted. */
export function copyFaults({ simulation: { blobCache, blobs, branches }, erased, texts }: Stage): string[] {
  return blobCache.names.flatMap((name) => {
    const goneAt = blobs.deletedAt.get(name);
    const uid = parseBlobName(name)?.uid ?? "";
    const digest = chunkOfBlob(name)?.digest ?? "";
    // What several write may go for other reasons, too.
    const isOfOne = texts.get(digest)?.startsWith("text ") === true;
    if (goneAt === undefined) return [];
    return BUCKETS.filter((bucket) => {
      const { storage } = branches.object(bucket);
      const [row] = storage.has("generations")
        ? storage.read<{ gen: number; deletedAt: number | null }>(GENERATION, uid)
        : [];
      const isOfThis = (one: Erased) => one.bucket === bucket && one.goneFrom === row?.gen;
      const wasErased = isOfOne && erased.some((one) => isOfThis(one) && one.digest === digest);
      return row && (wasErased || (row.deletedAt !== null && row.deletedAt <= goneAt));
    }).map((bucket) => `${bucket} is rid of ${name}, of which a cache has a copy`);
  });
}

async function erasedFaults(stage: Stage, branch: BranchApi, bucket: string): Promise<string[]> {
  const shown: { readonly path: string; readonly version: string }[] = [];
  for (let after: VersionMark | null | undefined; after !== null; ) {
    const page: VersionPage = await branch.files.versions({
      prefix: "",
      limit: 1000,
      ...(after && { after }),
    });
    if (!page.ok) break;
    for (const entry of page.entries) if (entry.kind !== "prefix") shown.push(entry);
    after = page.next;
  }
  const generation = stage.facts.get(bucket)?.last.generation ?? 0;
  return (
    stage.erased
      // An archive may bring it back.
      .filter((one) => one.bucket === bucket && one.goneFrom === generation)
      .filter((one) => shown.some(({ path, version }) => path === one.path && version === one.version))
      .map(({ path, version }) => `${bucket} shows ${path} of ${version}, which was erased`)
  );
}

/** What is wrong with which commits can be read, by the naive rule of what is kept: neither fewer nor more. */
export async function keptFaults(stage: Stage): Promise<string[]> {
  const faults: string[] = [];
  for (const [bucket, facts] of stage.facts) {
    const log = await stage.branch(bucket).history.list({ limit: 1000 });
    const listed = log.ok ? log.commits.map(({ id }) => id).sort() : [];
    const shown = facts.shown().sort();
    if (JSON.stringify(listed) !== JSON.stringify(shown))
      faults.push(`${bucket} lists ${listed.join(", ")}, and of its commits there are ${shown.join(", ")}`);
    // A fork that was made about when its parent came back out of an archive may be of either life of it.
    for (const commit of shown)
      if (!facts.isToStay(facts.last, commit) && !facts.isForked(commit))
        faults.push(`${bucket} still has ${commit}, which nothing keeps: ${shownFacts(facts.last)}`);
  }
  return faults;
}

/** What is left of commits that are kept no more: rows of files, and blobs of contents. */
export function leftFaults(stage: Stage): string[] {
  const { simulation, facts, known } = stage;
  const shown = [...facts.keys()].flatMap((bucket) => neededOf(stage, bucket));
  const needed = new Set(shown.flatMap((digest) => [digest, ...(stage.madeOf.get(digest) ?? [])]));
  const isLeft = (name: string) => {
    const bytes = simulation.blobs.blobs.get(name);
    return bytes !== undefined && !needed.has(digestOf(new TextDecoder().decode(bytes)));
  };
  return [
    ...[...facts.keys()].flatMap((bucket) => leftRows(stage, bucket)),
    ...[...known].filter(isLeft).map((name) => `the blob ${name} is left, and no kept commit has it`),
  ];
}

/** Digests of what commits of a branch have that are kept, in deleted generations for forks. */
function neededOf({ facts, observers }: Stage, bucket: string): string[] {
  const observer = facts.get(bucket);
  const shown = new Set(observer?.shown());
  const states = observers.get(bucket)?.states ?? [];
  const isKept = (commit: string) => shown.has(commit) || observer?.isForked(commit);
  // Some uploads live longer than a history.
  const filled = [...(observers.get(bucket)?.last.beside.values() ?? [])].flatMap(({ path, entries }) =>
    path === null ? [] : [...entries.values()],
  );
  return [
    ...filled,
    ...states.flatMap(({ commit, tree }) => (commit !== null && isKept(commit) ? [...tree.values()] : [])),
  ];
}

/** Rows of files that no commit shows. */
function leftRows({ simulation, facts }: Stage, bucket: string): string[] {
  const { storage } = simulation.branches.object(bucket);
  const observer = facts.get(bucket);
  const generation = observer?.last.generation;
  if (!observer || typeof generation !== "number" || !storage.has("files")) return [];
  const seqs = observer.seqsOf(observer.shown());
  return storage
    .read<FileRow>(ROWS, generation)
    .filter(({ born, died }) => !seqs.some((seq) => seq >= born && (died === null || seq < died)))
    .map(({ path, born, died }) => `${bucket} has a row of ${path} left, of commits ${born} to ${died}`);
}

interface FileRow {
  readonly path: string;
  readonly born: number;
  readonly died: number | null;
}

const ROWS =
  "SELECT path, born, died FROM files WHERE gen = ? AND kind < 2 AND (died IS NULL OR died > born)";

export async function destroyAll(stage: Stage): Promise<void> {
  for (const bucket of BUCKETS) {
    const branch = stage.branch(bucket);
    // One that came out of an archive may be protected, as the one in it was.
    await branch.settings.change({ writer: null });
    const answer = await branch.lifecycle.destroy({ withFiles: true });
    if (!answer.ok && answer.reason !== "no-such-branch")
      throw new Error(`${bucket} is not deleted: ${answer.reason}`);
  }
}

/** Tables in which nothing is left of branches that are all deleted. */
const EMPTIED = [
  ...[
    "files",
    "contents",
    "blobs",
    "pending_deletions",
    "tags",
    "uploads",
    "holds",
    "ended",
    "multiparts",
    "parts",
  ],
  ...["completions", "open_commits", "staged", "applying", "reverting", "fork_holds", "give_backs"],
  ...["held", "outbox", "exports", "imports WHERE state <> 1", "revived", "roots WHERE goneAt IS NULL"],
];

/** What is left of branches that are all deleted. */
export function remains({ simulation, known }: Stage): string[] {
  const blobs = [...simulation.blobs.blobs.keys()].filter((name) => known.has(name));
  const rows = simulation.branches.all().flatMap(({ name, storage }) =>
    EMPTIED.flatMap((table) => {
      const [row] = storage.has(table.split(" ")[0] ?? "")
        ? storage.read<{ n: number }>(`SELECT count(*) AS n FROM ${table}`)
        : [];
      return row && row.n > 0 ? [`${name} has ${row.n} rows of ${table} left`] : [];
    }),
  );
  return [...blobs.map((name) => `the blob ${name} is left`), ...rows];
}

import { mkdir, rename, writeFile } from "node:fs/promises";
import { dirname, join } from "node:path";
import type { ContentId } from "../../protocol/content.ts";
import type { FileEntry } from "../../protocol/files.ts";
import { NAME_PATTERN } from "../../protocol/names.ts";
import { PATH_FAULT_TEXT, pathFault } from "../../protocol/paths.ts";
import type { LeasedDatum } from "../../protocol/runner.ts";
import type { Cache } from "../cache/cache.ts";
import type { Gateway, Grant } from "../gateway/gateway.ts";
import { retrying } from "../gateway/retry.ts";
import { forEachLimited } from "../lib/concurrency.ts";
import { DatumFault, errorCode } from "../lib/fault.ts";
import type { PipeStock } from "./lazy/pipe-stock.ts";
import { type LazyFile, type LazyFiles, lazyFiles } from "./lazy/serve-pipes.ts";

export type LeasedInput = LeasedDatum["inputs"][number];

export interface StageDeps {
  readonly cache: Pick<Cache, "place">;
  readonly gateway: Pick<Gateway, "files">;
  readonly pipes: Pick<PipeStock, "get">;
}

export interface StageRequest {
  /** The folder that becomes `/pfs`; made here. */
  readonly pfs: string;
  readonly inputs: readonly LeasedInput[];
  readonly grant?: Grant | undefined;
  readonly signal: AbortSignal;
}

// Files of one datum that are fetched and linked at a time.
const FILES_AT_ONCE = 8;
const MAX_TRIES = 5;

/**
 * Builds a datum's `/pfs`: `<input>/<path of the file in its repo>` as hard links into the cache, or as named pipes if
 * the input is lazy, and an empty `out`. Returns the pipes. Throws DatumFault if the datum can't be laid out here, and
 * what fetching throws.
 */
export async function stage(
  deps: StageDeps,
  { pfs, inputs, grant, signal }: StageRequest,
): Promise<LazyFiles> {
  const lazy: LazyFile[] = [];
  await mkdir(join(pfs, "out"), { recursive: true });
  for (const input of inputs) {
    if (!NAME_PATTERN.test(input.name) || input.name === "out") {
      throw new DatumFault(`input name ${JSON.stringify(input.name)} can't be a folder of /pfs`);
    }
    await stageInput(deps, { input, root: join(pfs, input.name), lazy, grant, signal });
  }
  return lazyFiles(pfs, lazy);
}

interface InputRequest extends Pick<StageRequest, "grant" | "signal"> {
  readonly input: LeasedInput;
  readonly root: string;
  /** Pipes are added here, in the order of their paths. */
  readonly lazy: LazyFile[];
}

async function stageInput(deps: StageDeps, request: InputRequest): Promise<void> {
  const { input, root, grant, signal } = request;
  const { repo, branch, commit, from } = input;
  await mkdir(root);
  if (input.kind === "file") {
    if (!input.content)
      throw new DatumFault(`input ${input.name}: the lease names no content for ${input.path}`);
    return placeFile(deps, { ...request, path: input.path, content: input.content });
  }
  const work = (entry: FileEntry) => {
    const { path } = entry;
    if (entry.kind === "dir") return makeFolder({ root, path });
    return placeFile(deps, { ...request, path, content: { digest: entry.digest, size: entry.size } });
  };
  const prefix = input.path === "" ? "" : `${input.path}/`;
  const listed = { repo, branch, commit, prefix, grant, ...(from !== null && { since: from }) };
  await makeFolder({ root, path: input.path });
  let after: string | undefined;
  do {
    const list = { ...listed, ...(after !== undefined && { after }) };
    const page = await retrying(() => deps.gateway.files(list, signal), { signal, maxTransient: MAX_TRIES });
    // Pipes are kept in order.
    await forEachLimited(page.files, { limit: input.lazy ? 1 : FILES_AT_ONCE, work });
    after = page.next ?? undefined;
  } while (after !== undefined);
}

async function makeFolder({ root, path }: { root: string; path: string }): Promise<void> {
  if (path === "") return;
  const target = join(root, checked(path));
  await inFolder({ target, path }, async () => void (await mkdir(target, { recursive: true })));
}

async function placeFile(
  deps: StageDeps,
  { input, root, lazy, path, content, grant, signal }: InputRequest & { path: string; content: ContentId },
): Promise<void> {
  signal.throwIfAborted();
  const target = join(root, checked(path));
  const source = { repo: input.repo, branch: input.branch, content, grant };
  if (input.lazy) {
    const fresh = await deps.pipes.get();
    await inFolder({ target, path }, () => rename(fresh, target));
    lazy.push({ pipe: target, path, source });
    return;
  }
  if (content.size === 0) {
    return inFolder({ target, path }, () => writeFile(target, "", { flag: "wx", mode: 0o444 }));
  }
  await inFolder({ target, path }, () => deps.cache.place(source, { target, signal }));
}

/** Checks a path again, as the gateway did when it was written: here it becomes a path of this machine. */
function checked(path: string): string {
  const fault = pathFault(path);
  if (fault)
    throw new DatumFault(`input file ${JSON.stringify(path)} can't be laid out: ${PATH_FAULT_TEXT[fault]}`);
  return path;
}

/** Does `work`. If the folder is missing, makes it and does `work` once more. */
async function inFolder(
  { target, path }: { target: string; path: string },
  work: () => Promise<void>,
): Promise<void> {
  try {
    await work().catch(async (error: unknown) => {
      if (errorCode(error) !== "ENOENT") throw error;
      await mkdir(dirname(target), { recursive: true });
      await work();
    });
  } catch (error) {
    if (errorCode(error) !== "ENAMETOOLONG") throw error;
    throw new DatumFault(
      `input file "${path}" can't be laid out: a name in it is longer than this machine allows`,
    );
  }
}

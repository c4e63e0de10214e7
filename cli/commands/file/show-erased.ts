import type { ByteHolder, FileErased } from "../../../protocol/files.ts";
import { type Address, showAddress } from "../../gateway/address.ts";
import { count, printLine } from "../../output/output.ts";

/** What was erased of a file, in numbers. */
export interface ErasedSum extends Pick<FileErased, "path" | "commit" | "stays" | "outputs"> {
  readonly versions: number;
  /** By the bucket of a branch that was made from this one. */
  readonly forks: ReadonlyMap<string, number>;
}

export function sumOfErased({ erased, forks, ...answer }: FileErased): ErasedSum {
  const byBucket = forks.map((fork) => [fork.bucket, fork.erased.length] as const);
  return added({ ...answer, versions: erased.length, forks: new Map() }, { forks: byBucket });
}

/** Most holders, and most outputs, that are told of one file, as by one answer of the gateway. */
const NAMED = 1000;

/** What two erasures of one file did. */
export function joinedSums(one: ErasedSum, other: ErasedSum): ErasedSum {
  const sum: ErasedSum = {
    path: one.path,
    versions: one.versions + other.versions,
    commit: other.commit ?? one.commit,
    forks: one.forks,
    stays: distinct([...one.stays, ...other.stays]),
    outputs: distinct([...one.outputs, ...other.outputs]),
  };
  return added(sum, { forks: other.forks });
}

function added(sum: ErasedSum, { forks }: { forks: Iterable<readonly [string, number]> }): ErasedSum {
  const all = new Map(sum.forks);
  for (const [bucket, versions] of forks) all.set(bucket, (all.get(bucket) ?? 0) + versions);
  return { ...sum, forks: all };
}

function distinct<Value>(values: readonly Value[]): Value[] {
  return [...new Map(values.map((value) => [JSON.stringify(value), value])).values()].slice(0, NAMED);
}

/** Most outputs of which it is remembered that they were named. */
const REMEMBERED = 100_000;

/** Outputs that one command has named: a total of a thousand files is named once, and not with each of them. */
export class ToldOutputs {
  readonly #told = new Set<string>();

  /** Whether a line was not told before. It then is. */
  isNew(line: string): boolean {
    if (this.#told.has(line)) return false;
    if (this.#told.size < REMEMBERED) this.#told.add(line);
    return true;
  }
}

/** Prints what was erased of a file, what has the same bytes, and what was computed from them. */
export function printErased(
  address: Pick<Address, "bucket">,
  sum: ErasedSum,
  told: ToldOutputs = new ToldOutputs(),
): void {
  for (const line of linesOfErased(address, sum, told)) printLine(line);
}

/** The lines that tell of it. Outputs that were `told` with another file are not named again. */
export function linesOfErased(
  { bucket }: Pick<Address, "bucket">,
  { path, versions, commit, forks, stays, outputs }: ErasedSum,
  told: ToldOutputs,
): string[] {
  const where = commit === null ? "" : `: commit ${commit}`;
  return [
    `erased ${count(versions, "version")} of ${showAddress({ bucket }, path)}${where}`,
    ...[...forks].map(
      ([fork, erased]) => `erased ${count(erased, "version")} of ${showAddress({ bucket: fork }, path)}`,
    ),
    ...(stays.length > 0 ? ["the same bytes stay in"] : []),
    ...stays.map((holder) => `  ${showHolder(holder)}`),
    ...outputLines(outputs, told),
  ];
}

function outputLines(outputs: ErasedSum["outputs"], told: ToldOutputs): string[] {
  if (outputs.length === 0) return [];
  const lines = outputs
    .map(({ commit, job, ...output }) => {
      const at = commit === null ? "" : ` at ${commit}`;
      return `  ${showAddress(output, output.path)}${at} (job ${job})`;
    })
    .filter((line) => told.isNew(line));
  if (lines.length === 0) return ["what was computed from it is named above"];
  const beside = lines.length < outputs.length ? ", beside what is named above" : "";
  return [`computed from it${beside}, and still there unless erased as well`, ...lines];
}

function showHolder({ kind, bucket, path, id }: ByteHolder): string {
  switch (kind) {
    case "version":
      return `${showAddress({ bucket }, path ?? "")} at ${id}`;
    case "open-commit":
      return `${showAddress({ bucket: `${id}.${bucket}` }, path ?? "")}, an open commit`;
    case "upload":
      return path === null
        ? `s3://${bucket}, an upload (${id})`
        : `${showAddress({ bucket }, path)}, a multipart upload (${id})`;
    case "fork":
      return `s3://${bucket}, which was made from this branch`;
  }
}

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

/** Prints what was erased of a file, what has the same bytes, and what was computed from them. */
export function printErased(
  { bucket }: Pick<Address, "bucket">,
  { path, versions, commit, forks, stays, outputs }: ErasedSum,
): void {
  const where = commit === null ? "" : `: commit ${commit}`;
  printLine(`erased ${count(versions, "version")} of ${showAddress({ bucket }, path)}${where}`);
  for (const [fork, erased] of forks) {
    printLine(`erased ${count(erased, "version")} of ${showAddress({ bucket: fork }, path)}`);
  }
  if (stays.length > 0) printLine("the same bytes stay in");
  for (const holder of stays) printLine(`  ${showHolder(holder)}`);
  if (outputs.length > 0) printLine("computed from it, and still there unless erased as well");
  for (const output of outputs) {
    const at = output.commit === null ? "" : ` at ${output.commit}`;
    printLine(`  ${showAddress(output, output.path)}${at} (job ${output.job})`);
  }
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

import { mkdirSync, writeFileSync } from "node:fs";
import { availableParallelism, cpus, totalmem } from "node:os";
import { join } from "node:path";
import { type Figure, isMet, score } from "./figure.ts";

const FOLDER = join(import.meta.dirname, "../results");

export interface Results {
  readonly startedAt: Date;
  readonly scale: string;
  readonly rows: readonly RowResult[];
}
/** `broken` says why a row could not be measured. */
export interface RowResult {
  readonly row: string;
  readonly seconds: number;
  readonly figures: readonly Figure[];
  readonly broken?: string;
}

/** Keeps a run as JSON, every pair of it. Returns the file. */
export function keepResults({ startedAt, scale, rows }: Results): string {
  mkdirSync(FOLDER, { recursive: true });
  const file = join(FOLDER, `${startedAt.toISOString().replaceAll(":", "-")}.json`);
  const judged = rows.map((row) => ({
    ...row,
    figures: row.figures.map((figure) => ({ ...figure, score: score(figure), met: isMet(figure) ?? null })),
  }));
  writeFileSync(file, `${JSON.stringify({ startedAt, scale, machine: machine(), rows: judged }, null, 2)}\n`);
  return file;
}

function machine(): Record<string, unknown> {
  return {
    platform: `${process.platform}-${process.arch}`,
    node: process.versions.node,
    cpu: cpus()[0]?.model ?? "unknown",
    cores: availableParallelism(),
    memoryBytes: totalmem(),
  };
}

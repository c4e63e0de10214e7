import { readFileSync, renameSync, writeFileSync } from "node:fs";
import type { z } from "zod";
import { HostError } from "../host-error.ts";

export interface KeptFile<Schema extends z.ZodType> {
  readonly file: string;
  readonly schema: Schema;
  /** What a damaged file's owner is told that it should hold and do. */
  readonly damaged: string;
}

/** A secret that a data folder keeps as JSON, or undefined where it keeps none. Throws a HostError where it is damaged. */
export function readKept<Schema extends z.ZodType>({
  file,
  schema,
  damaged,
}: KeptFile<Schema>): z.infer<Schema> | undefined {
  let text: string;
  try {
    text = readFileSync(file, "utf8");
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === "ENOENT") return undefined;
    throw error;
  }
  const kept = schema.safeParse(parsedJson(text));
  if (!kept.success) throw new HostError(`${file} ${damaged}`);
  return kept.data;
}

/** Keeps a secret as JSON that only its owner may read. A crash leaves it whole or not at all. */
export function keep(file: string, value: unknown): void {
  const draft = `${file}.${process.pid}`;
  writeFileSync(draft, `${JSON.stringify(value, null, 2)}\n`, { mode: 0o600 });
  renameSync(draft, file);
}

function parsedJson(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}

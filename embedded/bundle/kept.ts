import { hash } from "node:crypto";
import { mkdirSync, readFileSync, renameSync, rm, statSync, writeFileSync } from "node:fs";
import { dirname, join } from "node:path";
import type { BuildOptions, BuildResult } from "esbuild";
import { z } from "zod";

const ROOT = join(import.meta.dirname, "../..");
/** Where the builds are kept that starts from the sources make. */
export const CACHE = join(ROOT, "node_modules/.cache/sluice");

/** What decides how a build is made, besides the files that it is made of: our options, the compiler's, the versions of all packages. */
const MADE_BY = ["tsconfig.json", "package.json", "node_modules/.package-lock.json"].map((path) =>
  join(ROOT, path),
);

const CLOCK_TICK_MS = 50;

/** A build as it is kept. */
export interface Build<T> {
  readonly value: T;
  /** The files that it was made of, as absolute paths. */
  readonly inputs: readonly string[];
}

export interface KeptAs<T> {
  readonly file: string;
  /** What makes it, if none is kept that is made of what is there now. */
  make(): Promise<Build<T>>;
  /** JSON of it, and back. */
  readonly form: z.ZodType<T, unknown>;
  encode(value: T): object;
}

const Envelope = z.object({
  /** SHA-256 of each file that it depends on, by its path; null: it was not there. */
  madeOf: z.record(z.string(), z.string().nullable()),
  value: z.unknown(),
});

/**
 * A build that an earlier start kept, if every file that it was made of still has the same content; else a new one, which
 * is kept. Building takes a second, hashing the files a fiftieth of that.
 */
export async function keptBuild<T>({ file, make, form, encode }: KeptAs<T>): Promise<T> {
  const kept = readKept(file, form);
  if (kept !== undefined) return kept;
  const startedAt = Date.now();
  const { value, inputs } = await make();
  const files = [...inputs, ...MADE_BY];
  if (!files.some((path) => mayHaveChangedSince(path, startedAt)))
    keep(file, { value: encode(value), files });
  return value;
}

/** Undefined if there is none, if it is damaged, or if a file has changed since: it is then made again. */
function readKept<T>(file: string, form: z.ZodType<T, unknown>): T | undefined {
  try {
    const text = readFileSync(file, "utf8");
    const body = text.slice(text.indexOf("\n") + 1);
    if (!text.startsWith(`${sha256(body)}\n`)) return undefined;
    const { madeOf, value } = Envelope.parse(JSON.parse(body));
    if (Object.entries(madeOf).some(([path, digest]) => digestOf(path) !== digest)) return undefined;
    return form.parse(value);
  } catch {
    return undefined;
  }
}

// Whole under its own name first: starts that meet, or are killed, never leave half a build. If it can't be kept, as in
// a folder that is read-only, each start builds.
function keep(file: string, { value, files }: { value: object; files: readonly string[] }): void {
  const draft = `${file}.${process.pid}`;
  const madeOf = Object.fromEntries(files.map((path) => [path, digestOf(path)]));
  const body = JSON.stringify({ madeOf, value });
  try {
    mkdirSync(dirname(file), { recursive: true });
    writeFileSync(draft, `${sha256(body)}\n${body}`);
    renameSync(draft, file);
  } catch {
    rm(draft, { force: true }, () => undefined);
  }
}

// The bundler may have read it before the change, and we would hash it after. File times lag behind the clock a little.
function mayHaveChangedSince(path: string, startedAt: number): boolean {
  return (statSync(path, { throwIfNoEntry: false })?.mtimeMs ?? 0) > startedAt - CLOCK_TICK_MS;
}

function digestOf(path: string): string | null {
  try {
    return sha256(readFileSync(path));
  } catch {
    return null;
  }
}

/** In hex. */
export function sha256(content: string | Uint8Array): string {
  return hash("sha256", content);
}

let running = 0;

/** One build. The bundler's process ends with the last build that runs: else it lives as long as we do. */
export async function runEsbuild<T extends BuildOptions>(options: T): Promise<BuildResult<T>> {
  // Loaded only here: a start that finds what was kept does without it.
  const { build, stop } = await import("esbuild");
  running++;
  try {
    return await build<T>(options as never);
  } finally {
    running--;
    // It is one process for all: to stop it under another build would leave that one waiting for ever.
    if (running === 0) await stop();
  }
}

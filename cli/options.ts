import { InvalidArgumentError } from "commander";
import { SaidAnnotation, type SaidOfCommit } from "../protocol/annotations.ts";
import { NAME_PATTERN } from "../protocol/names.ts";
import type { ConnectionOptions } from "./gateway/connection/connection.ts";
import type { NamedJob } from "./gateway/ids/ids.ts";
import { UsageError } from "./output/failure.ts";

/** What every command that talks to a gateway takes. */
export interface ClientOptions extends ConnectionOptions {
  readonly json?: true;
}

/** Those of a command that shows a list. */
export interface PageOptions extends ClientOptions {
  readonly limit?: number;
  readonly after?: string;
  readonly all?: true;
}

/** How much of a list is shown at once on a terminal, and in one answer of the gateway at most. */
export interface PageSizes {
  readonly byDefault: number;
  readonly most: number;
}

/** How many are wanted. What a program reads is never cut short in silence. */
export function wantedOf({ limit, all }: PageOptions, { byDefault }: PageSizes): number {
  if (limit !== undefined) return limit;
  return all || !process.stdout.isTTY ? Number.POSITIVE_INFINITY : byDefault;
}

/** How a list goes on, which is said beside it. */
export function moreText({ limit }: PageOptions, place: string): string {
  return limit === undefined ? `more with --all, or --after ${place}` : `more with --after ${place}`;
}

/** So many entries of a list, page by page. */
export async function entriesOf<Entry>(
  options: PageOptions,
  sizes: PageSizes,
  ask: (query: { limit: number; after: string | undefined }) => Promise<{
    readonly entries: readonly Entry[];
    readonly next: string | null;
  }>,
): Promise<{ entries: Entry[]; next: string | null }> {
  const wanted = wantedOf(options, sizes);
  const entries: Entry[] = [];
  let next = options.after ?? null;
  do {
    const limit = Math.min(wanted - entries.length, sizes.most);
    const page = await ask({ limit, after: next ?? undefined });
    entries.push(...page.entries);
    next = page.next;
  } while (next !== null && entries.length < wanted);
  return { entries, next };
}

/** A parser of whole numbers in a range, for commander. */
export function wholeNumber({ min, max }: { min: number; max: number }): (value: string) => number {
  return (value) => {
    const number = /^[0-9]{1,15}$/.test(value) ? Number(value) : Number.NaN;
    if (number >= min && number <= max) return number;
    throw new InvalidArgumentError(`It must be a whole number from ${min} to ${max}.`);
  };
}

const SPAN_UNITS = { s: 1000, m: 60_000, h: 3_600_000, d: 86_400_000 } as const;

/** A parser of points in time, as milliseconds since 1970: a date, or a span such as `3h` for so long ago. */
export function time(value: string): number {
  const [, count, unit] = /^([0-9]{1,6})([smhd])$/.exec(value) ?? [];
  if (unit !== undefined) return Date.now() - Number(count) * SPAN_UNITS[unit as keyof typeof SPAN_UNITS];
  const at = /^[0-9]{4}-[0-9]{2}-[0-9]{2}/.test(value) ? Date.parse(value) : Number.NaN;
  if (at >= 0) return at;
  throw new InvalidArgumentError("It must be a time such as 2026-01-31T14:00Z, or 3h or 7d for so long ago.");
}

/** Of an argument that switches something. */
export function onOrOff(value: string): boolean {
  if (value === "on" || value === "off") return value === "on";
  throw new InvalidArgumentError("It must be on or off.");
}

/** A parser of names of repos, branches, pipelines and nodes. */
export function name(value: string): string {
  if (NAME_PATTERN.test(value)) return value;
  throw new InvalidArgumentError(
    "It must start with a letter or digit and hold only letters, digits, '_' and '-'.",
  );
}

/** What the caller says of the commit that a command makes. */
export interface AnnotationOptions {
  readonly said: SaidOfCommit;
}

/** What `--message` and `--meta` say, held to what a commit keeps before anything is sent. */
export function saidOf({ message, meta }: SaidOfCommit): SaidOfCommit {
  const said = { ...(message !== undefined && { message }), ...(meta && { meta }) };
  const issue = SaidAnnotation.safeParse(said).error?.issues[0];
  if (issue) {
    // What is wrong with the name of an entry is said inside.
    const [inner = issue] = issue.code === "invalid_key" ? issue.issues : [];
    throw new UsageError(`--${issue.path.join(" ")} ${inner.message}`);
  }
  return said;
}

/** Whether anything is said. */
export function says({ message, meta }: SaidOfCommit): boolean {
  return message !== undefined || meta !== undefined;
}

/** A parser of what `--meta` adds to what it said before. */
export function addMeta(text: string, before: Readonly<Record<string, string>> = {}): Record<string, string> {
  const equals = text.indexOf("=");
  if (equals < 1) throw new InvalidArgumentError("It must be <key>=<value>.");
  const key = text.slice(0, equals);
  if (Object.hasOwn(before, key)) throw new InvalidArgumentError(`'${key}' is given twice.`);
  return { ...before, [key]: text.slice(equals + 1) };
}

/** Those of a command for one job. */
export interface JobOptions extends ClientOptions {
  readonly job: NamedJob;
}

/** Reads how a command line names a job: in one of the two ways. */
export function namedJob(id: string | undefined, { pipeline }: { readonly pipeline?: string }): NamedJob {
  if (id !== undefined && pipeline === undefined) return { id };
  if (id === undefined && pipeline !== undefined) return { pipeline };
  throw new UsageError(
    "name one of the two: a job by its id, or with --pipeline the newest one of a pipeline",
  );
}

/** A parser of what an option that may be repeated adds to what it said before. */
export function another(value: string, before: readonly string[] = []): string[] {
  return [...before, value];
}

/** The same for names. */
export function anotherName(value: string, before: readonly string[] = []): string[] {
  return another(name(value), before);
}

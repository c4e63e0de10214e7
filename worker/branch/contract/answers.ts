import type { PathFault } from "../../../protocol/paths.ts";

/** What a call is asked. */
export type RequestOf<Call extends (...args: never[]) => unknown> = Parameters<Call>[0];
/** What a call answers. */
export type AnswerOf<Call extends (...args: never[]) => unknown> = Awaited<ReturnType<Call>>;

export interface Done {
  readonly ok: true;
}

export interface Refused<R extends string> {
  readonly ok: false;
  readonly reason: R;
}

/** A read for somebody who has no key. */
export interface PublicRead {
  /**
   * Only if the branch is public, which it looks at in the same call: `not-public` otherwise, also if it is not there.
   * Open commits are not public, and are not found.
   */
  readonly publicOnly?: boolean;
}

/** Who alone may write to a protected branch: one access key, or the jobs of the pipeline whose output it is or was. */
export type Writer = { readonly key: string } | { readonly pipeline: string };
/** Somebody else alone may write to the branch. */
export interface Protected {
  readonly ok: false;
  readonly reason: "protected";
  readonly writer: Writer;
}

/** A write names what is no open commit: nothing of that name is there, or a commit, which never changes. */
export type NotOpen = Refused<"no-such-open-commit" | "read-only">;

/**
 * Who makes a commit, and what they say of it: kept with the commit, in the transaction that makes it. If nothing
 * changes, there is no commit, and the annotation goes with it. Of an output commit the job tells; it has no annotation.
 */
export interface Annotation {
  /** The id of the access key. */
  readonly key?: string;
  readonly message?: string;
  /** At least one entry. */
  readonly meta?: Readonly<Record<string, string>>;
  /** The message and the metadata were taken out of it. */
  readonly redacted?: Redaction;
}

/** Who took out what was said of a commit. */
export interface Redaction {
  /** Milliseconds since 1970. */
  readonly at: number;
  /** The id of the access key. */
  readonly by: string;
}

export interface BadPath {
  readonly ok: false;
  readonly reason: "bad-path";
  readonly path: string;
  readonly fault: PathFault;
}

/** The answer of a call that was not done. */
export function refused<R extends string>(reason: R): Refused<R> {
  return { ok: false, reason };
}

import { type ContentId, parseContentName } from "../../../protocol/content.ts";
import type { WriteCondition } from "../../branch/contract/files.ts";
import { s3Error } from "../answer/errors.ts";

/** What the conditions of a GET or HEAD are held against. */
export interface Validators {
  /** In quotes, as it goes out. */
  readonly etag: string;
  /** Milliseconds since 1970; HTTP dates have whole seconds. */
  readonly modifiedAt: number;
}

export type Verdict = "proceed" | "not-modified" | "precondition-failed";

/** Whether a GET or HEAD has any. */
export function hasConditions(headers: ReadonlyMap<string, string>): boolean {
  return CONDITIONS.some((name) => headers.has(name));
}

const CONDITIONS = ["if-match", "if-none-match", "if-modified-since", "if-unmodified-since", "if-range"];

/** Evaluates the conditions of a GET or HEAD in the order of RFC 9110 §13.2.2. A date that cannot be read is no condition. */
export function evaluateConditions(headers: ReadonlyMap<string, string>, validators: Validators): Verdict {
  const ifMatch = headers.get("if-match");
  const holds =
    ifMatch === undefined
      ? !changedSince(headers.get("if-unmodified-since"), validators, { ifNone: false })
      : matchesAny(ifMatch, validators.etag, "strong");
  if (!holds) return "precondition-failed";
  const ifNoneMatch = headers.get("if-none-match");
  const changed =
    ifNoneMatch === undefined
      ? changedSince(headers.get("if-modified-since"), validators, { ifNone: true })
      : !matchesAny(ifNoneMatch, validators.etag, "weak");
  return changed ? "proceed" : "not-modified";
}

/** Whether `If-Range` lets a range be answered (RFC 9110 §13.1.5): absent, this very ETag, or this very date. */
export function rangeApplies(headers: ReadonlyMap<string, string>, validators: Validators): boolean {
  const ifRange = headers.get("if-range")?.trim();
  if (ifRange === undefined) return true;
  if (ifRange.startsWith('"')) return ifRange === validators.etag;
  return Date.parse(ifRange) === wholeSeconds(validators.modifiedAt);
}

function changedSince(
  date: string | undefined,
  { modifiedAt }: Validators,
  { ifNone }: { ifNone: boolean },
): boolean {
  const since = date === undefined ? Number.NaN : Date.parse(date);
  return Number.isNaN(since) ? ifNone : wholeSeconds(modifiedAt) > since;
}

/**
 * Whether `*` or one of a list of entity tags is `etag`. Clients also send them without quotes. Our tags hold no comma
 * and are strong: a tag marked weak matches only by weak comparison.
 */
function matchesAny(list: string, etag: string, comparison: "strong" | "weak"): boolean {
  if (list.trim() === "*") return true;
  return list.split(",").some((entry) => {
    const tag = entry.trim();
    if (tag.startsWith("W/")) return comparison === "weak" && tag.slice(2) === etag;
    return tag === etag || `"${tag}"` === etag;
  });
}

function wholeSeconds(at: number): number {
  return Math.floor(at / 1000) * 1000;
}

/**
 * What a write's `If-Match` and `If-None-Match` ask of the file at the key; undefined if neither is sent. As on S3,
 * If-None-Match takes `*` only, and not beside If-Match: no file fits both. Throws NotImplemented.
 */
export function writeCondition(headers: ReadonlyMap<string, string>): WriteCondition | undefined {
  const match = headers.get("if-match");
  const noneMatch = headers.get("if-none-match");
  if (match === undefined && noneMatch === undefined) return undefined;
  if (noneMatch !== undefined && noneMatch.trim() !== "*") {
    throw s3Error.NotImplemented(
      `If-None-Match is '${noneMatch}': for a write it is implemented as '*' only, which means that nothing may be there.`,
    );
  }
  if (match !== undefined && noneMatch !== undefined) {
    throw s3Error.NotImplemented(
      "If-Match and If-None-Match are both sent, and nothing can hold for both: send one of them.",
    );
  }
  return {
    ...(match !== undefined && { match: match.trim() === "*" ? "any" : match.split(",").flatMap(ownTag) }),
    ...(noneMatch !== undefined && { noneMatch: "any" }),
  };
}

/** The content that an ETag of our form stands for, with its quotes or without; undefined for others. */
export function parseEtag(text: string): ContentId | undefined {
  const tag = text.trim();
  return parseContentName(tag.startsWith('"') && tag.endsWith('"') ? tag.slice(1, -1) : tag);
}

/** The contents that an ETag stands for: one that is not of our form belongs to none, and matches nothing. */
export function ownTag(text: string): ContentId[] {
  const content = parseEtag(text);
  return content === undefined ? [] : [content];
}

import type { Issue } from "./errors.ts";

/*
 * How a request to the gateway is written, percent-encoded as signature version 4 has it, so that both sides sign the same;
 * and what a program that made one throws if the gateway says no.
 */

/** What is undefined is left out. */
export type Query = Readonly<Record<string, string | number | boolean | undefined>>;

/** One segment of a path, or a name or value of a query. */
function encodeSegment(text: string): string {
  return encodeURIComponent(text).replace(
    /[!'()*]/g,
    (character) => `%${character.charCodeAt(0).toString(16).toUpperCase()}`,
  );
}

/** A path whose slashes stay. */
export function encodePath(path: string): string {
  return path.split("/").map(encodeSegment).join("/");
}

/** `?a=b`, or nothing. A space is `%20`: "+" means a space to some readers of a query and a plus to others. */
export function queryOf(query: Query = {}): string {
  const pairs = Object.entries(query).flatMap(([name, value]) =>
    value === undefined ? [] : [`${encodeSegment(name)}=${encodeSegment(String(value))}`],
  );
  return pairs.length === 0 ? "" : `?${pairs.join("&")}`;
}

/** Why there is no good answer, in words for people. */
export class GatewayError extends Error {
  override readonly name = "GatewayError";
  /** 0: nothing answered. */
  readonly status: number;
  readonly code: string;
  readonly issues: readonly Issue[];

  constructor(message: string, why: { status: number; code: string; issues?: readonly Issue[] | undefined }) {
    super(message);
    this.status = why.status;
    this.code = why.code;
    this.issues = why.issues ?? [];
  }
}

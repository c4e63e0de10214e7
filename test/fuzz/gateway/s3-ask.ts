import type { Framing } from "./framing.ts";

export type Pair = readonly [name: string, value: string];

/** A body, as small as it can be told. */
export type Body =
  | { readonly of: "bytes"; readonly size: number; readonly seed: number }
  | { readonly of: "text"; readonly text: string }
  | {
      readonly of: "form";
      readonly fields: readonly Pair[];
      readonly size: number;
      readonly flaw: FormFlaw | undefined;
    };

export const FORM_FLAWS = [
  "no-file",
  "cut",
  "no-boundary",
  "field-changed",
  "expired",
  "no-policy",
  "policy-is-no-json",
  "field-behind",
] as const;
export type FormFlaw = (typeof FORM_FLAWS)[number];

export const AUTHS = [
  "header",
  "unsigned-payload",
  "presigned",
  "none",
  "other-secret",
  "unknown-key",
  "late",
  "spoiled",
  "wrong-hash",
  "expired-url",
  "reader",
] as const;
export type Auth = (typeof AUTHS)[number];

/** What the story takes for the outcome of a request that is acknowledged. Absent: it reads what it can have touched. */
export type Means = "put" | "get" | "delete" | "copy" | "upload" | "part" | "complete";

export interface S3Ask {
  readonly kind: string;
  readonly means?: Means;
  readonly method: string;
  /** Absent: the bucket of the story. */
  readonly bucket?: string;
  /** As a client names it; absent: the request is about the bucket. */
  readonly key?: string;
  /** How its path is written. */
  readonly path: "usual" | "all" | "lower" | "bare";
  /** Put behind the path as it is. */
  readonly behind?: string;
  readonly query: readonly (readonly [name: string, value: string | undefined])[];
  readonly headers: readonly Pair[];
  readonly body?: Body;
  readonly framing?: Framing | undefined;
  readonly auth: Auth;
  readonly transfer: "length" | "chunked" | "cut";
  /** Something odd was put to it. */
  readonly odd: boolean;
}

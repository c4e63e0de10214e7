import type { ApiAsk } from "./api-asks.ts";
import type { S3Ask } from "./s3-ask.ts";

/** Stories that broke a rule once, in their smallest form. */
export const KEPT_S3: readonly S3Ask[][] = [];
export const KEPT_API: readonly ApiAsk[][] = [];

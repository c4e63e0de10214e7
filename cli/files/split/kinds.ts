/** By what a file can be cut. */
export const SPLIT_KINDS = ["line", "json"] as const;
export type SplitKind = (typeof SPLIT_KINDS)[number];

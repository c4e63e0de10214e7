import { OTHER_FAMILY, OTHER_FAMILY_CAUSE } from "../../protocol/family.ts";

/** Why the catalogue could not do what it was asked. */
export type CatalogueFault =
  /** It can't be reached, or can't be written for now. */
  | "catalogue-unavailable"
  /** It lacks a table or a column: a migration was not applied. */
  | "catalogue-outdated"
  /** Its tables, or those of an object, are of another family. */
  | "other-family";

/** Each fault in words, for clients and operators. */
export const CATALOGUE_WORDS: Record<CatalogueFault, string> = {
  "catalogue-unavailable": "The catalogue (D1) can't be reached or written for now: try again.",
  "catalogue-outdated":
    "The catalogue (D1) lacks a migration that this release needs: apply the migrations (`wrangler d1 migrations apply`), then try again.",
  "other-family": OTHER_FAMILY,
};

/** What D1's own errors begin with, as thrown in the Worker or told by an object. */
const OF_D1 = /\bD1_[A-Z_]*ERROR\b/;
const OF_A_MISSING_MIGRATION = /no such (table|column)|has no column named/;

/** The fault that an error of D1, or one of tables of another family, tells of; undefined for any other error. */
export function catalogueFault(error: unknown): CatalogueFault | undefined {
  const text = error instanceof Error ? `${error.message} ${causeOf(error)}` : "";
  if (text.includes(OTHER_FAMILY_CAUSE)) return "other-family";
  if (!OF_D1.test(text)) return undefined;
  return OF_A_MISSING_MIGRATION.test(text) ? "catalogue-outdated" : "catalogue-unavailable";
}

function causeOf({ cause }: Error): string {
  return cause instanceof Error ? cause.message : "";
}

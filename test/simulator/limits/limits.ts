import { readFileSync } from "node:fs";
import { join, relative } from "node:path";
import { BRANCH_LIMITS } from "./branches.ts";
import { PIPELINE_LIMITS } from "./pipelines.ts";

/*
 * Limits are made for thousands of rows, and histories have some dozen. So some of them run with the same code in which limits are
 * small: pages end, and large work is done in slices, after a few rows. The modules of that code are loaded beside the usual ones,
 * by a name of their own. Nothing moves in a source that is changed so: coverage has the places of the file.
 */

const ROOT = join(import.meta.dirname, "../../..");
/** What the names of modules with small limits end with. */
export const SMALL = "?small";

const BRANCH = "worker/branch";
const PIPELINE = "worker/pipeline";
/** The small limits, by the files that have them. */
const LIMITS: Readonly<Record<string, Readonly<Record<string, number>>>> = {
  ...BRANCH_LIMITS,
  ...PIPELINE_LIMITS,
};

/** The files that have small limits. */
export const LIMITED: readonly string[] = Object.keys(LIMITS);

/** Whether a module is another one where limits are small. */
export function hasSmall(path: string): boolean {
  const file = relative(ROOT, path);
  return file.startsWith(`${BRANCH}/`) || file.startsWith(`${PIPELINE}/`) || file in LIMITS;
}

/** The source of a file, in which its limits are small. Throws if one of them is not there once, or is no larger. */
export function withSmallLimits(path: string): string {
  const file = relative(ROOT, path);
  let source = readFileSync(path, "utf8");
  for (const [name, small] of Object.entries(LIMITS[file] ?? {})) {
    const found = [...source.matchAll(new RegExp(`^((?:export )?const ${name} = )([\\d_* ]+);$`, "gm"))];
    const [whole = "", begin = "", limit = ""] = found[0] ?? [];
    if (found.length !== 1 || productOf(limit) <= small)
      throw new Error(`the limit ${name} of ${file} is not there once, or is no larger than ${small}`);
    source = source.replace(whole, `${`${begin}${small}`.padEnd(whole.length - 1)};`);
  }
  return source;
}

/** Of a product of whole numbers. */
function productOf(product: string): number {
  return product.split("*").reduce((value, factor) => value * Number(factor.replaceAll("_", "")), 1);
}

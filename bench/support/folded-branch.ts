import { MAX_COMMIT_OPERATIONS } from "../../protocol/files.ts";
import type { BranchAddress } from "../../protocol/names.ts";
import { commitTexts } from "./bulk-commit.ts";
import type { Control } from "./control.ts";

/** A branch of which one page with a delimiter shows everything: a folder with `files` files in it, and files beside it. */
export interface FoldedBranch extends BranchAddress {
  readonly files: number;
}

/** Makes one of each size, smallest first. `entries`: on the page, the folder among them. */
export async function growFolded(
  control: Control,
  { sizes, entries }: { sizes: readonly number[]; entries: number },
): Promise<FoldedBranch[]> {
  const branches: FoldedBranch[] = [];
  for (const files of sizes) {
    const address = { repo: `folded-${files}`, branch: "master" };
    await control.createBranch(address);
    const folded = Array.from({ length: files }, (_, n) => `folder/f${String(n).padStart(7, "0")}`);
    const beside = Array.from({ length: entries - 1 }, (_, n) => `g${String(n).padStart(4, "0")}`);
    const paths = [...folded, ...beside];
    for (let at = 0; at < paths.length; at += MAX_COMMIT_OPERATIONS) {
      const texts = paths.slice(at, at + MAX_COMMIT_OPERATIONS).map((path) => ({ path, text: `${path}\n` }));
      await commitTexts(control, { address, files: texts });
    }
    branches.push({ ...address, files });
  }
  return branches;
}

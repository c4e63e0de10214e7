import { branchHref } from "../repos/places.ts";

/** The page of the branch that a bucket such as `master.photos` is. */
export function branchPath(bucket: string): string {
  const [branch = "", repo = ""] = bucket.split(".");
  return branchHref({ repo, branch });
}

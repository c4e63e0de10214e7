import { accepted } from "../answer/failures.ts";
import { existing } from "../bucket-tree.ts";
import type { BucketRequest } from "../operation.ts";
import type { Acl } from "./acl-document.ts";

/**
 * A branch is public or it is not. That is one switch, whichever way it is turned: `sluice branch public`, PutBucketAcl,
 * PutBucketPolicy and DeleteBucketPolicy all turn it, and each shows what another has done.
 */

/** What is said of it on the bucket of an open commit or a commit. */
export const ACCESS_OF_BRANCH =
  "A branch is public as a whole: name the bucket '<branch>.<repo>'. Its commits and tags are then public, too, and its open commits never are.";

type Asked = Pick<BucketRequest, "tree" | "branch" | "address">;

/** What everybody may do with a bucket: nobody but keys sees an open commit. Throws NoSuchBucket. */
export async function aclOfBucket(asked: Asked): Promise<Acl> {
  const { branch } = asked;
  const isOpenCommit = await isOfOpenCommit(asked);
  const settings = accepted(await branch.settings());
  return settings.public && !isOpenCommit ? "public-read" : "private";
}

/** Whether the bucket is that of an open commit. Throws NoSuchBucket. */
export async function isOfOpenCommit({ tree, address }: Pick<Asked, "tree" | "address">): Promise<boolean> {
  return address.view !== undefined && (await existing(tree)).shows === "open-commit";
}

/** Turns the switch, or leaves it as it is. */
export async function turn(acl: Acl, { branch, context }: BucketRequest): Promise<void> {
  const done = await branch.configure({ public: acl === "public-read" });
  context.openBranches.forget();
  accepted(done);
}

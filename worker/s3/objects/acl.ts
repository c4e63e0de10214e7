import { S3Error } from "../answer/errors.ts";
import { accepted } from "../answer/failures.ts";
import type { ObjectRequest } from "../operation.ts";

/**
 * An object is as public as its branch. Clients that publish say so with each object: in a public branch that is so, and
 * elsewhere it must not seem done. Throws NotImplemented.
 */
export async function checkAcl({
  headers,
  branch,
}: Pick<ObjectRequest, "headers" | "branch">): Promise<void> {
  if (headers.get("x-amz-acl") !== "public-read") return;
  const settings = accepted(await branch.settings.read());
  if (settings.public) return;
  throw new S3Error("NotImplemented", {
    message:
      "The header x-amz-acl is 'public-read', but no object is public by itself: leave it out, or make the whole branch public with 'sluice branch public <branch>.<repo> on'.",
  });
}

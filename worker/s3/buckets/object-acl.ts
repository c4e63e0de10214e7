import { S3Error } from "../answer/errors.ts";
import { readVersionHeader } from "../answer/version.ts";
import { xmlAnswer } from "../answer/xml.ts";
import { readTextBody } from "../body/read-body.ts";
import { MAX_SETTING_BYTES } from "../limits.ts";
import { readVersion } from "../objects/select-object.ts";
import type { ObjectRequest, Operation } from "../operation.ts";
import { versionId } from "../request/query-values.ts";
import { type Acl, aclTags, readAcl } from "./acl-document.ts";
import { ACCESS_OF_BRANCH, aclOfBucket, isOfOpenCommit } from "./public-switch.ts";

/** An object is as public as its bucket. */
export const getObjectAcl: Operation<ObjectRequest> = {
  permission: "read",

  async handle(request) {
    const file = await readVersion(request, versionId(request.query));
    const tags = aclTags(await aclOfBucket(request));
    return xmlAnswer("AccessControlPolicy", tags, { headers: readVersionHeader(request, file) });
  },
};

/**
 * Taken if the object is so already: it changes nothing. Also in an open commit, since s3cmd sends it after each copy; of a
 * commit and a tag nothing is set.
 */
export const putObjectAcl: Operation<ObjectRequest> = {
  permission: "write",

  async handle(request) {
    if (request.address.view !== undefined && !(await isOfOpenCommit(request))) {
      throw new S3Error("InvalidRequest", { message: ACCESS_OF_BRANCH });
    }
    const file = await readVersion(request, versionId(request.query));
    const asked = readObjectAcl(request.headers, await readTextBody(request, MAX_SETTING_BYTES));
    const is = await aclOfBucket(request);
    if (asked !== undefined && asked !== is) {
      throw new S3Error("NotImplemented", {
        message: `The ACL '${asked}' of one object is not implemented, because an object is as public as its branch, which is '${is}': 'sluice branch public <branch>.<repo> ${asked === "private" ? "off" : "on"}' or PutBucketAcl changes that for all of it.`,
      });
    }
    return new Response(null, { headers: readVersionHeader(request, file) });
  },
};

/** Undefined for `bucket-owner-full-control`: the one owner has that of every object, public or not. */
function readObjectAcl(headers: ReadonlyMap<string, string>, body: string): Acl | undefined {
  if (headers.get("x-amz-acl") !== "bucket-owner-full-control") return readAcl(headers, body);
  // The ways to ask for it wrongly are those of any list.
  readAcl(new Map([...headers, ["x-amz-acl", "private"]]), body);
  return undefined;
}

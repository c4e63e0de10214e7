import { S3Error } from "../../answer/errors.ts";
import { readVersionHeader } from "../../answer/version.ts";
import { xmlAnswer } from "../../answer/xml.ts";
import { readTextBody } from "../../body/read-body.ts";
import { MAX_SETTING_BYTES } from "../../limits.ts";
import { readVersion } from "../../objects/select-object.ts";
import type { ObjectRequest, Operation } from "../../operation.ts";
import { versionId } from "../../request/query-values.ts";
import { aclTags, readAcl } from "./acl-document.ts";
import { ACCESS_OF_BRANCH, aclOfBucket } from "./public-switch.ts";

/** An object is as public as its bucket. */
export const getObjectAcl: Operation<ObjectRequest> = {
  permission: "read",

  async handle(request) {
    const file = await readVersion(request, versionId(request.query));
    const tags = aclTags(await aclOfBucket(request));
    return xmlAnswer("AccessControlPolicy", tags, { headers: readVersionHeader(request, file) });
  },
};

/** Taken if the object is so already: it changes nothing. */
export const putObjectAcl: Operation<ObjectRequest> = {
  permission: "write",
  notOnView: ACCESS_OF_BRANCH,

  async handle(request) {
    const file = await readVersion(request, versionId(request.query));
    const asked = readObjectAcl(request.headers, await readTextBody(request, MAX_SETTING_BYTES));
    const is = await aclOfBucket(request);
    if (asked !== is) {
      throw new S3Error("NotImplemented", {
        message: `The ACL '${asked}' of one object is not implemented, because an object is as public as its branch, which is '${is}': 'sluice branch public <branch>.<repo> ${asked === "private" ? "off" : "on"}' or PutBucketAcl changes that for all of it.`,
      });
    }
    return new Response(null, { headers: readVersionHeader(request, file) });
  },
};

/** The one owner has every object, so that to let him have full control is to let nobody else in. */
function readObjectAcl(headers: ReadonlyMap<string, string>, body: string): ReturnType<typeof readAcl> {
  if (headers.get("x-amz-acl") !== "bucket-owner-full-control") return readAcl(headers, body);
  return readAcl(new Map([...headers, ["x-amz-acl", "private"]]), body);
}

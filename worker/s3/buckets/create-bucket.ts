import { SEPARATOR_FAULT } from "../../../protocol/names.ts";
import { S3Error } from "../answer/errors.ts";
import { accepted } from "../answer/failures.ts";
import { parseXml, tagsOf } from "../answer/xml.ts";
import { readTextBody } from "../body/read-body.ts";
import { mustTakeWrites } from "../bucket-tree.ts";
import { MAX_TAGS, MAX_XML_BYTES } from "../limits.ts";
import type { BucketRequest, Operation } from "../operation.ts";
import { REGION_HEADER } from "./get-bucket-location.ts";

/** Makes a branch, and with it its repo, set to what the gateway says of new buckets; a public one if its ACL is to be `public-read`. It never opens a commit. A location that the client names is accepted and means nothing: there is only one. */
export const createBucket: Operation<BucketRequest> = {
  permission: "admin",

  async handle(request) {
    checkConfiguration(await readTextBody(request, MAX_XML_BYTES));
    if (request.address.view !== undefined) throw await openAlready(request);
    const fault = await request.context.catalogue.branches.newNameFault(request.address);
    if (fault !== undefined) {
      throw new S3Error("InvalidBucketName", {
        message: `The ${fault} '${request.address[fault]}' can't be made: its name ${SEPARATOR_FAULT}.`,
      });
    }
    const isPublic = request.headers.get("x-amz-acl") === "public-read";
    const made = await request.branch.create({ ...request.context.config.newBuckets, public: isPublic });
    if (isPublic) request.context.openBranches.forget();
    accepted(made);
    const arn = `arn:aws:s3:::${request.bucket}`;
    const headers = { location: `/${request.bucket}`, "x-amz-bucket-arn": arn, ...REGION_HEADER };
    return new Response(null, { headers });
  },
};

/** Some tools always make the bucket first, to be sure of it. This code lets them go on. */
async function openAlready(request: BucketRequest): Promise<S3Error> {
  await mustTakeWrites(request);
  return new S3Error("BucketAlreadyOwnedByYou", {
    message: "The bucket is that of an open commit, which is open already: put files into it.",
  });
}

function checkConfiguration(text: string): void {
  if (text.trim() === "") return;
  const configuration = parseXml(text, "CreateBucketConfiguration", { tags: MAX_TAGS.create });
  for (const name of tagsOf(configuration).keys()) {
    if (name !== "LocationConstraint") {
      throw new S3Error("NotImplemented", {
        message: `${name} of CreateBucketConfiguration is not implemented: leave it out.`,
      });
    }
  }
}

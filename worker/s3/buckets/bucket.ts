import { SEPARATOR_FAULT } from "../../../protocol/names.ts";
import { S3Error } from "../answer/errors.ts";
import { accepted } from "../answer/failures.ts";
import { parseXml, tagsOf, xmlAnswer } from "../answer/xml.ts";
import { readTextBody } from "../body/read-body.ts";
import { existing, mustTakeWrites } from "../bucket-tree.ts";
import { MAX_TAGS, MAX_XML_BYTES } from "../limits.ts";
import type { BucketRequest, Operation } from "../operation.ts";

/** What HeadBucket and CreateBucket say of the location, from where newer clients take it. */
export const REGION_HEADER = { "x-amz-bucket-region": "us-east-1" };

/** Makes a branch, and with it its repo, set to what the gateway says of new buckets; a public one if its ACL is to be `public-read`. It never opens a commit. A location that the client names is accepted and means nothing: there is only one. */
export const createBucket: Operation<BucketRequest> = {
  permission: "admin",

  async handle(request) {
    checkConfiguration(await readTextBody(request, MAX_XML_BYTES));
    if (request.address.view !== undefined) {
      await mustTakeWrites(request);
      // Some tools always make the bucket first, to be sure of it. This code lets them go on.
      throw new S3Error("BucketAlreadyOwnedByYou", {
        message: "The bucket is that of an open commit, which is open already: put files into it.",
      });
    }
    const fault = await request.context.catalogue.branches.newNameFault(request.address);
    if (fault !== undefined) {
      throw new S3Error("InvalidBucketName", {
        message: `The ${fault} '${request.address[fault]}' can't be made: its name ${SEPARATOR_FAULT}.`,
      });
    }
    const isPublic = request.headers.get("x-amz-acl") === "public-read";
    const made = await request.branch.lifecycle.create({
      ...request.context.config.newBuckets,
      public: isPublic,
    });
    if (isPublic) request.context.openBranches.forget();
    accepted(made);
    const arn = `arn:aws:s3:::${request.bucket}`;
    const headers = { location: `/${request.bucket}`, "x-amz-bucket-arn": arn, ...REGION_HEADER };
    return new Response(null, { headers });
  },
};

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

/** Deletes a branch, empty or not, unless it is set to go only when it is empty. S3 deletes empty buckets only. */
export const deleteBucket: Operation<BucketRequest> = {
  permission: "admin",

  async handle(request) {
    const { branch, address, caller } = request;
    if (address.view !== undefined) {
      await mustTakeWrites(request);
      throw new S3Error("InvalidRequest", { message: NOT_DELETED });
    }
    accepted(await branch.lifecycle.destroy({ key: caller.keyId }));
    return new Response(null, { status: 204 });
  },
};

const NOT_DELETED =
  "The bucket of an open commit is not deleted like others: publish it with 'sluice commit finish s3://<session>.<branch>.<repo>', or forget it with 'sluice commit abort'.";

/** Whether a branch is there, and in which region clients take it to be. */
export const headBucket: Operation<BucketRequest> = {
  permission: "list",
  unsigned: true,

  async handle({ tree }) {
    await existing(tree);
    return new Response(null, { headers: REGION_HEADER });
  },
};

/**
 * The same for every bucket: an empty location is us-east-1, which every client knows, and signatures may name any region. The
 * policy of a public branch allows it to everybody.
 */
export const getBucketLocation: Operation<BucketRequest> = {
  permission: "list",
  unsigned: true,

  async handle({ tree }) {
    await existing(tree);
    return xmlAnswer("LocationConstraint", "");
  },
};
